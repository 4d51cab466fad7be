//! Timers as keyed state, ordered by time.
//!
//! The queue is a B-tree of leaves of about a thousand timers, each with a log of what has been registered
//! and deleted since it was last sorted. To register a timer is to append to a log; it is sorted in with all
//! others of its leaf when the log has grown to half of the leaf, or when the leaf comes first. Only then is
//! it seen that a timer was there already.
//!
//! A freeze shares leaves and logs. A leaf is copied when its timers are next sorted or fire, a log is never:
//! what comes after the freeze is noted apart. So a snapshot costs a few references per leaf.
//!
//! | module | what is inside |
//! |---|---|
//! | `leaf` | sorted timers and a log of changes |
//! | `frozen` | images |

mod frozen;
mod leaf;
#[cfg(test)]
mod tests;

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use stillstream_data::{Data, DecodeError, Key, Schema};
use stillstream_state::StateError;
use stillstream_state::backend::{Namespace, TimerService};
use stillstream_state::kinds::Timer;
use stillstream_state::snapshot::{Chunk, Run, hash_in};
use stillstream_types::{KeyGroups, KeyHash, Timestamp};

use crate::backend::HeapState;
use crate::chain::Freezing;
use frozen::Frozen;
use leaf::{LEAF, Leaf};

/// Changes of a log that are looked through for a timer.
const LOOK_THROUGH: usize = 32;

/// What timers are ordered by; keys need no order of their own.
type Place<N> = (Timestamp, KeyHash, N);

trait Placed<N> {
    fn place(&self) -> Place<N>;
}

impl<K, N: Copy> Placed<N> for Timer<K, N> {
    #[inline]
    fn place(&self) -> Place<N> {
        (self.time, self.hash, self.namespace)
    }
}

/// The leaves by a lower bound of their places; the first leaf also takes what lies below its bound. No leaf
/// that is settled is empty.
#[derive(Debug)]
struct Leaves<K, N> {
    leaves: BTreeMap<Place<N>, Leaf<K, N>>,
    /// Memory for the next leaf that is sorted.
    spare: Vec<Timer<K, N>>,
}

impl<K: Key, N: Namespace> Leaves<K, N> {
    /// The leaf that a place belongs to, and its bound.
    #[inline]
    fn leaf(&mut self, place: &Place<N>) -> Option<(Place<N>, &mut Leaf<K, N>)> {
        let leaves = &mut self.leaves;
        // most timers are later than all others
        if leaves.last_key_value()?.0 <= place {
            return leaves.last_entry().map(|leaf| (*leaf.key(), leaf.into_mut()));
        }
        if leaves.first_key_value()?.0 > place {
            return leaves.first_entry().map(|leaf| (*leaf.key(), leaf.into_mut()));
        }
        leaves.range_mut(..=*place).next_back().map(|(bound, leaf)| (*bound, leaf))
    }

    /// Registers or deletes a timer without a look whether it is there.
    #[inline]
    fn note(&mut self, timer: Timer<K, N>, deleted: bool) {
        let place = timer.place();
        match self.leaf(&place) {
            Some((bound, leaf)) => {
                if leaf.note(timer, deleted) {
                    self.settle(bound);
                }
            }
            None if deleted => {}
            None => {
                self.leaves.insert(place, Leaf::new(VecDeque::from([timer])));
            }
        }
    }

    /// Registers or deletes a timer, and says whether that changes anything.
    fn change(&mut self, timer: Timer<K, N>, deleted: bool) -> bool {
        let place = timer.place();
        if let Some((bound, _)) = self.leaf(&place).filter(|(_, leaf)| leaf.noted() > LOOK_THROUGH) {
            self.settle(bound);
        }
        let there = self.leaf(&place).is_some_and(|(_, leaf)| leaf.contains(&place, &timer.key));
        if there == deleted {
            self.note(timer, deleted);
        }
        there == deleted
    }

    /// Sorts a leaf's changes in. It may be several then, or none.
    fn settle(&mut self, bound: Place<N>) {
        let Some(leaf) = self.leaves.get_mut(&bound) else { return };
        leaf.settle(&mut self.spare);
        let fits = (1..=LEAF).contains(&leaf.len());
        // the first leaf may hold timers below its bound: the bounds of its parts are their own
        if !fits && let Some(leaf) = self.leaves.remove(&bound) {
            self.leaves.extend(leaf.split(&mut self.spare));
        }
        // a leaf of one place can be of any size
        if self.spare.capacity() > 4 * LEAF {
            self.spare = Vec::new();
        }
    }

    fn settle_all(&mut self) {
        let noted: Vec<_> =
            self.leaves.iter().filter(|(_, leaf)| leaf.noted() > 0).map(|(bound, _)| *bound).collect();
        noted.into_iter().for_each(|bound| self.settle(bound));
    }

    /// The leaf of the first timer, settled and not empty, and its bound.
    #[inline]
    fn first(&mut self) -> Option<(Place<N>, &mut Leaf<K, N>)> {
        while let Some((bound, leaf)) = self.leaves.first_key_value()
            && leaf.noted() > 0
        {
            let bound = *bound;
            self.settle(bound);
        }
        self.leaves.first_entry().map(|leaf| (*leaf.key(), leaf.into_mut()))
    }

    fn pop(&mut self, up_to: Timestamp) -> Option<Timer<K, N>> {
        let (bound, leaf) = self.first()?;
        leaf.first().filter(|timer| timer.time <= up_to)?;
        let timer = leaf.pop();
        if leaf.len() == 0 {
            self.leaves.remove(&bound);
        }
        timer
    }

    fn pop_all(&mut self, up_to: Timestamp, mut most: usize, out: &mut Vec<Timer<K, N>>) {
        while most > 0
            && let Some((bound, leaf)) = self.first()
        {
            let taken = leaf.take(|timer| timer.time <= up_to, most, out);
            let is_empty = leaf.len() == 0;
            if is_empty {
                self.leaves.remove(&bound);
            }
            most -= taken;
            if !is_empty {
                return;
            }
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
        Self { groups, leaves: RefCell::new(Leaves { leaves: BTreeMap::new(), spare: Vec::new() }) }
    }
}

impl<K: Key, N: Namespace> HeapState for TimerQueue<K, N> {
    fn freeze(&self, state: u16, _: &mut Freezing<'_>, runs: &mut Vec<Run>) -> Result<(), StateError> {
        let mut leaves = self.leaves.borrow_mut();
        if !leaves.leaves.is_empty() {
            let entries = Box::new(Frozen::new(leaves.leaves.values_mut().map(Leaf::freeze).collect()));
            runs.push(Run { state, namespace: Vec::new(), entries });
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
            leaves.note(Timer { time, hash, key, namespace }, false);
            Ok(())
        })
    }

    fn size(&self) -> (usize, usize) {
        let len = self.len();
        (len, self.leaves.borrow().leaves.values().map(Leaf::memory_bytes).sum())
    }
}

/// Timers, with the key's type known.
#[derive(Debug)]
pub struct HeapTimers<K, N>(pub(crate) Rc<TimerQueue<K, N>>);

impl<K, N> Clone for HeapTimers<K, N> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Key, N: Namespace> HeapTimers<K, N> {
    fn leaves(&self) -> RefMut<'_, Leaves<K, N>> {
        self.0.leaves.borrow_mut()
    }
}

impl<K: Key, N: Namespace> TimerService<K, N> for HeapTimers<K, N> {
    fn register(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError> {
        Ok(self.leaves().change(Timer { time, hash, key: key.clone(), namespace }, false))
    }

    fn delete(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError> {
        Ok(self.leaves().change(Timer { time, hash, key: key.clone(), namespace }, true))
    }

    #[inline]
    fn set_all(&self, timers: impl IntoIterator<Item = Timer<K, N>>) -> Result<(), StateError> {
        let mut leaves = self.leaves();
        timers.into_iter().for_each(|timer| leaves.note(timer, false));
        Ok(())
    }

    #[inline]
    fn unset(&self, timer: Timer<K, N>) -> Result<(), StateError> {
        self.leaves().note(timer, true);
        Ok(())
    }

    fn pop_due(&self, up_to: Timestamp) -> Result<Option<Timer<K, N>>, StateError> {
        Ok(self.leaves().pop(up_to))
    }

    fn pop_all_due(
        &self,
        up_to: Timestamp,
        most: usize,
        out: &mut Vec<Timer<K, N>>,
    ) -> Result<(), StateError> {
        self.leaves().pop_all(up_to, most, out);
        Ok(())
    }

    fn peek_next_time(&self) -> Option<Timestamp> {
        self.leaves().first().and_then(|(_, leaf)| leaf.first()).map(|timer| timer.time)
    }

    fn len(&self) -> Result<usize, StateError> {
        Ok(self.0.len())
    }
}

impl<K: Key, N: Namespace> TimerQueue<K, N> {
    fn len(&self) -> usize {
        let mut leaves = self.leaves.borrow_mut();
        leaves.settle_all();
        leaves.leaves.values().map(Leaf::len).sum()
    }
}
