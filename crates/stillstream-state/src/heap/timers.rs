//! Timers as keyed state, ordered by time.
//!
//! The queue is a B-tree of leaves of at most 128 timers. A freeze shares the leaves; a leaf is copied at its first
//! change afterwards. So a snapshot costs one reference per leaf, and registering a timer that is there changes nothing.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use stillstream_types::{KeyGroup, KeyGroupRange, KeyGroups, KeyHash, Timestamp};

use super::HeapState;
use super::cells::hash_in;
use super::chain::Freezing;
use crate::StateError;
use crate::data::{Data, DecodeError, Key, Schema};
use crate::kinds::StateKind;
use crate::snapshot::{Chunk, FrozenRun, Run, RunWriter, Weights};

const LEAF: usize = 128;

/// Which clock a timer follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeDomain {
    /// The watermark.
    EventTime,
    /// The wall clock.
    ProcessingTime,
}

impl TimeDomain {
    /// The name under which a timer service is stored: Flink's `_timer_state/event_..`.
    pub(crate) fn state_name(self, service: &str) -> String {
        match self {
            Self::EventTime => format!("_timer_state/event_{service}"),
            Self::ProcessingTime => format!("_timer_state/processing_{service}"),
        }
    }

    pub(crate) fn kind(self) -> StateKind {
        match self {
            Self::EventTime => StateKind::EventTimers,
            Self::ProcessingTime => StateKind::ProcessingTimers,
        }
    }
}

/// A timer: at this time, for this key and namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timer<K, N> {
    /// When it is due.
    pub time: Timestamp,
    /// The key's hash.
    pub hash: KeyHash,
    /// The key.
    pub key: K,
    /// The namespace: `()`, or the window.
    pub namespace: N,
}

/// What timers are ordered by; keys need no order of their own.
type Place<N> = (Timestamp, KeyHash, N);

impl<K, N: Copy> Timer<K, N> {
    fn place(&self) -> Place<N> {
        (self.time, self.hash, self.namespace)
    }
}

type Leaf<K, N> = VecDeque<Timer<K, N>>;

/// The leaves by a lower bound of their places; the first leaf also takes what lies below its bound.
#[derive(Debug)]
struct Leaves<K, N> {
    leaves: BTreeMap<Place<N>, Arc<Leaf<K, N>>>,
    len: usize,
}

impl<K: Key, N: Data + Ord + Copy> Leaves<K, N> {
    /// The bound of the leaf that `place` belongs to.
    fn bound(&self, place: &Place<N>) -> Option<Place<N>> {
        let below = self.leaves.range(..=*place).next_back();
        below.or_else(|| self.leaves.first_key_value()).map(|(bound, _)| *bound)
    }

    /// Where a timer is, or where it would go.
    fn find(leaf: &Leaf<K, N>, place: &Place<N>, key: &K) -> Result<usize, usize> {
        let mut at = leaf.partition_point(|timer| timer.place() < *place);
        // keys of equal hash lie side by side, in the order in which they came
        while let Some(timer) = leaf.get(at) {
            match timer.place().cmp(place) {
                Ordering::Equal if timer.key == *key => return Ok(at),
                Ordering::Equal => at += 1,
                _ => break,
            }
        }
        Err(at)
    }

    fn insert(&mut self, place: Place<N>, key: &K) -> bool {
        let timer = || Timer { time: place.0, hash: place.1, namespace: place.2, key: key.clone() };
        let Some(bound) = self.bound(&place) else {
            self.leaves.insert(place, Arc::new(VecDeque::from([timer()])));
            self.len = 1;
            return true;
        };
        let Some(leaf) = self.leaves.get_mut(&bound) else { return false };
        let Err(at) = Self::find(leaf, &place, key) else { return false };
        let leaf = Arc::make_mut(leaf);
        leaf.insert(at, timer());
        self.len += 1;
        if leaf.len() > LEAF
            && let Some((upper_bound, upper)) = Self::split(leaf)
        {
            // the first leaf may hold timers below its bound, and the upper part must not come before the lower one
            let first = leaf[0].place();
            if first < bound
                && let Some(lower) = self.leaves.remove(&bound)
            {
                self.leaves.insert(first, lower);
            }
            self.leaves.insert(upper_bound, Arc::new(upper));
        }
        true
    }

    /// The upper part of a leaf that is too large. Timers of one place stay together, or the tree could not find them:
    /// a leaf of only such timers grows.
    fn split(leaf: &mut Leaf<K, N>) -> Option<(Place<N>, Leaf<K, N>)> {
        let last = leaf.len() - 1;
        let middle = last / 2 + 1;
        let fits = |at: &usize| leaf[*at - 1].place() != leaf[*at].place();
        let at = (middle..=last).find(fits).or_else(|| (1..middle).rev().find(fits))?;
        let upper = leaf.split_off(at);
        Some((upper[0].place(), upper))
    }

    fn remove(&mut self, place: Place<N>, key: &K) -> bool {
        let Some(bound) = self.bound(&place) else { return false };
        let Some(leaf) = self.leaves.get_mut(&bound) else { return false };
        let Ok(at) = Self::find(leaf, &place, key) else { return false };
        if leaf.len() == 1 {
            self.leaves.remove(&bound);
        } else {
            Arc::make_mut(leaf).remove(at);
        }
        self.len -= 1;
        true
    }

    fn first(&self) -> Option<&Timer<K, N>> {
        self.leaves.first_key_value().and_then(|(_, leaf)| leaf.front())
    }

    fn pop(&mut self) -> Option<Timer<K, N>> {
        let mut leaf = self.leaves.first_entry()?;
        self.len -= 1;
        match leaf.get().len() {
            1 => {
                let leaf = leaf.remove();
                Arc::try_unwrap(leaf).map_or_else(|shared| shared.front().cloned(), |mut own| own.pop_front())
            }
            _ => Arc::make_mut(leaf.get_mut()).pop_front(),
        }
    }
}

/// The timers of one service and clock.
#[derive(Debug)]
pub(crate) struct TimerQueue<K, N> {
    groups: KeyGroups,
    leaves: RefCell<Leaves<K, N>>,
}

impl<K, N> TimerQueue<K, N> {
    pub fn new(groups: KeyGroups) -> Self {
        Self { groups, leaves: RefCell::new(Leaves { leaves: BTreeMap::new(), len: 0 }) }
    }
}

impl<K: Key, N: Data + Ord + Copy> HeapState for TimerQueue<K, N> {
    fn freeze(&self, state: u16, _: &mut Freezing<'_>, runs: &mut Vec<Run>) -> Result<(), StateError> {
        let leaves = self.leaves.borrow();
        if leaves.len > 0 {
            let entries = Frozen { leaves: leaves.leaves.values().cloned().collect(), len: leaves.len };
            runs.push(Run { state, namespace: Vec::new(), entries: Box::new(entries) });
        }
        Ok(())
    }

    // always written whole
    fn mark(&self, _: u64) {}

    fn load(&self, chunk: &Chunk, _: Option<&Schema>) -> Result<(), DecodeError> {
        let mut leaves = self.leaves.borrow_mut();
        chunk.decode(|(), input| {
            let time = Timestamp::decode(input)?;
            let key = K::decode(input)?;
            let namespace = N::decode(input)?;
            let hash = hash_in(&key, chunk.group, self.groups)?;
            leaves.insert((time, hash, namespace), &key);
            Ok(())
        })
    }

    fn size(&self) -> (usize, usize) {
        let leaves = self.leaves.borrow();
        (leaves.len, leaves.leaves.len() * LEAF * size_of::<Timer<K, N>>())
    }
}

struct Frozen<K, N> {
    leaves: Vec<Arc<Leaf<K, N>>>,
    len: usize,
}

impl<K: Key, N: Data> Frozen<K, N> {
    /// All timers by key group; leaf and place in it.
    fn places(&self) -> Vec<(KeyGroup, u32, u16)> {
        let mut places = Vec::with_capacity(self.len);
        for (at, leaf) in self.leaves.iter().enumerate() {
            let of_leaf = leaf.iter().enumerate().map(|(n, timer)| (timer.hash.group(), at as u32, n as u16));
            places.extend(of_leaf);
        }
        places.sort_unstable();
        places
    }
}

fn encode<K: Key, N: Data>(timer: &Timer<K, N>, bytes: &mut Vec<u8>) {
    timer.time.encode(bytes);
    timer.key.encode(bytes);
    timer.namespace.encode(bytes);
}

impl<K: Key, N: Data> FrozenRun for Frozen<K, N> {
    fn len(&self) -> usize {
        self.len
    }

    fn weigh(&self, weights: &mut Weights) {
        // one timer tells the size of all
        let mut bytes = Vec::new();
        if let Some(timer) = self.leaves.first().and_then(|leaf| leaf.front()) {
            encode(timer, &mut bytes);
        }
        for timer in self.leaves.iter().flat_map(|leaf| leaf.iter()) {
            let group = timer.hash.group().0;
            weights.add(KeyGroupRange::new(group, group + 1), bytes.len());
        }
    }

    fn cut(self: Box<Self>, bounds: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        let places = self.places();
        let leaves = Arc::new(self.leaves);
        let part = |two: &[u16]| -> Box<dyn FrozenRun> {
            let start = places.partition_point(|place| place.0.0 < two[0]);
            let end = places.partition_point(|place| place.0.0 < two[1]);
            Box::new(Part { leaves: leaves.clone(), places: places[start..end].to_vec() })
        };
        bounds.windows(2).map(part).collect()
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        let places = self.places();
        Box::new(Part { leaves: Arc::new(self.leaves), places }).write(out);
    }
}

/// The timers of some key groups, in their order.
struct Part<K, N> {
    leaves: Arc<Vec<Arc<Leaf<K, N>>>>,
    places: Vec<(KeyGroup, u32, u16)>,
}

impl<K: Key, N: Data> FrozenRun for Part<K, N> {
    fn len(&self) -> usize {
        self.places.len()
    }

    // it is cut already
    fn weigh(&self, _: &mut Weights) {}

    fn cut(self: Box<Self>, _: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        vec![self]
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        for (group, leaf, n) in self.places {
            let timer = &self.leaves[leaf as usize][n as usize];
            out.entry(group, |bytes| encode(timer, bytes));
        }
    }
}

impl<K: Key, N: Data + Ord + Copy> TimerQueue<K, N> {
    #[inline]
    pub fn register(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> bool {
        self.leaves.borrow_mut().insert((time, hash, namespace), key)
    }

    pub fn delete(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> bool {
        self.leaves.borrow_mut().remove((time, hash, namespace), key)
    }

    pub fn pop_due(&self, up_to: Timestamp) -> Option<Timer<K, N>> {
        let mut leaves = self.leaves.borrow_mut();
        match leaves.first() {
            Some(timer) if timer.time <= up_to => leaves.pop(),
            _ => None,
        }
    }

    pub fn peek_next_time(&self) -> Option<Timestamp> {
        self.leaves.borrow().first().map(|timer| timer.time)
    }

    pub fn len(&self) -> usize {
        self.leaves.borrow().len
    }
}
