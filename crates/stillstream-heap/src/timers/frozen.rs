//! Images of a queue: sorted, cut and written on other threads.

use std::collections::VecDeque;
use std::sync::Arc;

use stillstream_data::{Data, Key};
use stillstream_state::Timer;
use stillstream_state::snapshot::{FrozenRun, RunWriter, Weights};
use stillstream_types::{KeyGroup, KeyGroupRange};

use super::leaf::Leaf;

type Sorted<K, N> = VecDeque<Timer<K, N>>;

/// All timers of a queue.
pub(super) struct Frozen<K, N> {
    leaves: Vec<Leaf<K, N>>,
}

impl<K: Key, N: Data + Ord + Copy> Frozen<K, N> {
    pub fn new(leaves: Vec<Leaf<K, N>>) -> Self {
        Self { leaves }
    }

    /// Sorts in what the worker had only noted.
    fn settled(self) -> Settled<K, N> {
        Settled { leaves: self.leaves.into_iter().map(Leaf::into_sorted).collect() }
    }
}

struct Settled<K, N> {
    leaves: Vec<Arc<Sorted<K, N>>>,
}

impl<K: Key, N: Data> Settled<K, N> {
    /// All timers by key group; leaf and place in it.
    fn places(&self) -> Vec<(KeyGroup, u32, u32)> {
        let mut places = Vec::with_capacity(self.leaves.iter().map(|leaf| leaf.len()).sum());
        for (at, leaf) in self.leaves.iter().enumerate() {
            let of_leaf = leaf.iter().enumerate().map(|(n, timer)| (timer.hash.group(), at as u32, n as u32));
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

impl<K: Key, N: Data + Ord + Copy> FrozenRun for Frozen<K, N> {
    fn len(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.again().into_sorted().len()).sum()
    }

    // an image whose timers are all deleted writes nothing too
    fn is_blank(&self) -> bool {
        self.leaves.is_empty()
    }

    fn weigh(&self, weights: &mut Weights) {
        // one timer tells the size of all
        let mut bytes = Vec::new();
        if let Some(timer) = self.leaves.iter().flat_map(Leaf::timers).next() {
            encode(timer, &mut bytes);
        }
        for timer in self.leaves.iter().flat_map(Leaf::timers) {
            let group = timer.hash.group().0;
            weights.add(KeyGroupRange::new(group, group + 1), bytes.len());
        }
    }

    fn cut(self: Box<Self>, bounds: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        let settled = self.settled();
        let places = settled.places();
        let leaves = Arc::new(settled.leaves);
        let part = |two: &[u16]| -> Box<dyn FrozenRun> {
            let start = places.partition_point(|place| place.0.0 < two[0]);
            let end = places.partition_point(|place| place.0.0 < two[1]);
            Box::new(Part { leaves: leaves.clone(), places: places[start..end].to_vec() })
        };
        bounds.windows(2).map(part).collect()
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        let settled = self.settled();
        let places = settled.places();
        Box::new(Part { leaves: Arc::new(settled.leaves), places }).write(out);
    }
}

/// The timers of some key groups, in their order.
struct Part<K, N> {
    leaves: Arc<Vec<Arc<Sorted<K, N>>>>,
    places: Vec<(KeyGroup, u32, u32)>,
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
