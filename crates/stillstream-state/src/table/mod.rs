//! The copy-on-write table of the heap backend.

use std::sync::Arc;

use hashbrown::HashTable;
use stillstream_types::{KeyGroup, KeyGroupRange, KeyHash};

use crate::{Data, Key};

type Group<K, V> = HashTable<(KeyHash, K, V)>;

/// Key to value for the key groups of a range; a freeze is cheap, and a group is copied at its first write after one.
#[derive(Debug)]
pub struct Table<K, V> {
    range: KeyGroupRange,
    groups: Vec<Arc<Group<K, V>>>,
    len: usize,
}

#[inline(always)]
fn spread(hash: KeyHash) -> u64 {
    hash.bits() | (hash.bits() >> 32) << 48
}

impl<K: Key, V: Data> Table<K, V> {
    /// An empty table for the key groups of `range`.
    pub fn new(range: KeyGroupRange) -> Self {
        Self { range, groups: (0..range.len()).map(|_| Arc::new(HashTable::new())).collect(), len: 0 }
    }

    fn slot(&self, hash: KeyHash) -> usize {
        hash.group().0.wrapping_sub(self.range.start) as usize
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of a key.
    pub fn get(&self, hash: KeyHash, key: &K) -> Option<&V> {
        self.groups[self.slot(hash)].find(spread(hash), |e| e.0 == hash && e.1 == *key).map(|e| &e.2)
    }

    /// The value of a key, to change.
    pub fn get_mut(&mut self, hash: KeyHash, key: &K) -> Option<&mut V> {
        let slot = self.slot(hash);
        Arc::make_mut(&mut self.groups[slot])
            .find_mut(spread(hash), |e| e.0 == hash && e.1 == *key)
            .map(|e| &mut e.2)
    }

    /// The value of a key, made first if there is none.
    pub fn get_or_insert_with(&mut self, hash: KeyHash, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let slot = self.slot(hash);
        let group = Arc::make_mut(&mut self.groups[slot]);
        let entry = group.entry(spread(hash), |e| e.0 == hash && e.1 == *key, |e| spread(e.0));
        if let hashbrown::hash_table::Entry::Vacant(_) = entry {
            self.len += 1;
        }
        &mut entry.or_insert_with(|| (hash, key.clone(), make())).into_mut().2
    }

    /// Puts a value, and gives back the one that was there.
    pub fn insert(&mut self, hash: KeyHash, key: K, value: V) -> Option<V> {
        match self.get_mut(hash, &key) {
            Some(slot) => Some(std::mem::replace(slot, value)),
            None => {
                self.get_or_insert_with(hash, &key, || value);
                None
            }
        }
    }

    /// Takes a key's value out.
    pub fn remove(&mut self, hash: KeyHash, key: &K) -> Option<V> {
        let slot = self.slot(hash);
        let group = Arc::make_mut(&mut self.groups[slot]);
        let entry = group.find_entry(spread(hash), |e| e.0 == hash && e.1 == *key).ok()?;
        self.len -= 1;
        Some(entry.remove().0.2)
    }

    /// Asks the processor for the memory that a look-up of this hash will need.
    pub fn prefetch(&self, _: KeyHash) {}

    /// Visits all keys, in no order.
    pub fn for_each(&self, mut f: impl FnMut(KeyHash, &K, &V)) {
        self.groups.iter().flat_map(|g| g.iter()).for_each(|(hash, k, v)| f(*hash, k, v));
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        *self = Self::new(self.range);
    }

    /// Bytes of memory that the table itself takes (what values own elsewhere is not counted).
    pub fn memory_bytes(&self) -> usize {
        self.groups.iter().map(|g| g.allocation_size()).sum()
    }

    /// The table as it is now, for another thread.
    pub fn freeze(&mut self) -> FrozenTable<K, V> {
        FrozenTable { start: self.range.start, groups: self.groups.clone(), len: self.len }
    }
}

/// A table as it was when it was frozen.
#[derive(Debug)]
pub struct FrozenTable<K, V> {
    start: u16,
    groups: Vec<Arc<Group<K, V>>>,
    len: usize,
}

impl<K: Key, V: Data> FrozenTable<K, V> {
    /// How many keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Visits all keys, key groups ascending.
    pub fn for_each_in_group_order(&self, mut f: impl FnMut(KeyGroup, &K, &V)) {
        for (at, group) in self.groups.iter().enumerate() {
            group.iter().for_each(|(_, k, v)| f(KeyGroup(self.start + at as u16), k, v));
        }
    }
}
