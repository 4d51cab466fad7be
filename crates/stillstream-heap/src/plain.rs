//! [`PlainTable`]: an ordinary hash map, whose freeze encodes everything at once. For synchronous snapshots.

use std::mem::size_of;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use stillstream_data::{Data, Key};
use stillstream_state::snapshot::{FrozenRun, RunWriter, Weights};
use stillstream_table::Fate;
use stillstream_types::{KeyGroup, KeyGroupRange, KeyHash};

/// Key to value.
#[derive(Debug)]
pub(crate) struct PlainTable<K, V>(HashTable<(KeyHash, K, V)>);

/// The map takes its bucket from the lower bits and its tag from the upper ones; a key hash has its group
/// there.
#[inline(always)]
fn spread(hash: KeyHash) -> u64 {
    hash.bits() | (hash.bits() >> 32) << 48
}

impl<K: Key, V: Data> PlainTable<K, V> {
    pub fn new() -> Self {
        Self(HashTable::new())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, hash: KeyHash, key: &K) -> Option<&V> {
        self.0.find(spread(hash), |e| e.0 == hash && e.1 == *key).map(|e| &e.2)
    }

    pub fn get_mut(&mut self, hash: KeyHash, key: &K) -> Option<&mut V> {
        self.0.find_mut(spread(hash), |e| e.0 == hash && e.1 == *key).map(|e| &mut e.2)
    }

    pub fn get_or_insert_with(&mut self, hash: KeyHash, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let entry = self.0.entry(spread(hash), |e| e.0 == hash && e.1 == *key, |e| spread(e.0));
        &mut entry.or_insert_with(|| (hash, key.clone(), make())).into_mut().2
    }

    pub fn insert(&mut self, hash: KeyHash, key: &K, value: V) {
        match self.0.entry(spread(hash), |e| e.0 == hash && e.1 == *key, |e| spread(e.0)) {
            Entry::Occupied(mut entry) => entry.get_mut().2 = value,
            Entry::Vacant(entry) => {
                entry.insert((hash, key.clone(), value));
            }
        }
    }

    pub fn remove(&mut self, hash: KeyHash, key: &K) -> Option<V> {
        let entry = self.0.find_entry(spread(hash), |e| e.0 == hash && e.1 == *key).ok()?;
        Some(entry.remove().0.2)
    }

    pub fn for_each(&self, mut f: impl FnMut(&K, &V)) {
        self.0.iter().for_each(|(_, key, value)| f(key, value));
    }

    /// As [`Table::sweep`](stillstream_table::Table::sweep), by buckets of the map. When it grows the cursor
    /// loses its meaning: some entries are looked at in the next round only.
    pub fn sweep(
        &mut self,
        at: &mut u64,
        most: usize,
        mut look: impl FnMut(&K, &V) -> Fate,
        mut change: impl FnMut(&mut V),
    ) {
        let (buckets, mut index, mut seen) = (self.0.num_buckets(), *at as usize, 0);
        // a map has up to some four buckets for each entry, and an empty one costs little
        let last = index.saturating_add(most.saturating_mul(4)).min(buckets);
        while index < last && seen < most {
            let fate = self.0.get_bucket(index).map(|(_, key, value)| look(key, value));
            seen += usize::from(fate.is_some());
            match fate {
                None | Some(Fate::Stays) => {}
                Some(Fate::Changes) => {
                    if let Some((_, _, value)) = self.0.get_bucket_mut(index) {
                        change(value);
                    }
                }
                Some(Fate::Goes) => {
                    if let Ok(entry) = self.0.get_bucket_entry(index) {
                        entry.remove();
                    }
                }
            }
            index += 1;
        }
        *at = index as u64;
        if index >= buckets {
            *at = 0;
            if self.0.len() < self.0.capacity() / 4 {
                self.0.shrink_to(self.0.len() * 2, |entry| spread(entry.0));
            }
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(KeyHash, K, V)>()
    }

    /// Encodes everything now.
    pub fn freeze(&self, namespace: &[u8]) -> Box<dyn FrozenRun> {
        encode(self.0.iter().collect(), namespace)
    }
}

/// Encodes the entries of a namespace now.
pub(super) fn encode<K: Key, V: Data>(
    mut entries: Vec<&(KeyHash, K, V)>,
    namespace: &[u8],
) -> Box<dyn FrozenRun> {
    entries.sort_unstable_by_key(|e| e.0.group());
    let groups = entries.chunk_by(|a, b| a.0.group() == b.0.group()).map(|entries| {
        let mut bytes = namespace.to_vec();
        for (_, key, value) in entries {
            key.encode(&mut bytes);
            value.encode(&mut bytes);
        }
        (entries[0].0.group(), entries.len() as u32, bytes)
    });
    Box::new(Encoded(groups.collect()))
}

/// Entries that are encoded already, by key group.
struct Encoded(Vec<(KeyGroup, u32, Vec<u8>)>);

impl FrozenRun for Encoded {
    fn len(&self) -> usize {
        self.0.iter().map(|(_, count, _)| *count as usize).sum()
    }

    fn weigh(&self, weights: &mut Weights) {
        for (group, _, bytes) in &self.0 {
            weights.add(KeyGroupRange::new(group.0, group.0 + 1), bytes.len());
        }
    }

    fn cut(self: Box<Self>, bounds: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        let mut groups = self.0.into_iter().peekable();
        let part = |two: &[u16]| -> Box<dyn FrozenRun> {
            let mut part = Vec::new();
            while let Some(group) = groups.next_if(|group| group.0.0 < two[1]) {
                part.push(group);
            }
            Box::new(Self(part))
        };
        bounds.windows(2).map(part).collect()
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        self.0.iter().for_each(|(group, count, bytes)| out.raw(*group, *count, bytes));
    }
}
