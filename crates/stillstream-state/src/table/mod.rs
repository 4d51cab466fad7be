//! The hash table of the heap backend: freezes at once, copies what is written afterwards.

mod keys;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use stillstream_types::{KeyGroup, KeyGroupRange, KeyHash};

pub use keys::{KeyAt, KeysBy, KeysIn};

/// What a table's key must be. Implemented for every such type, so for every [`Key`](crate::Key).
pub trait TableKey: Eq + Clone + Send + Sync + 'static {}
impl<T: Eq + Clone + Send + Sync + 'static> TableKey for T {}

/// What a table's value must be. Implemented for every such type, so for all [`Data`](crate::Data).
pub trait TableValue: Clone + Send + Sync + 'static {}
impl<T: Clone + Send + Sync + 'static> TableValue for T {}

type Map<K, V> = BTreeMap<KeyHash, Vec<(K, V)>>;

/// A hash table owned by one worker.
pub struct Table<K, V> {
    range: KeyGroupRange,
    len: usize,
    map: Arc<Map<K, V>>,
}

impl<K: TableKey, V: TableValue> Table<K, V> {
    /// An empty table for keys of these key groups.
    pub fn new(range: KeyGroupRange) -> Self {
        Self { range, len: 0, map: Arc::new(BTreeMap::new()) }
    }

    /// The key groups whose keys the table may hold.
    pub fn range(&self) -> KeyGroupRange {
        self.range
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory in use, in bytes, without what keys and values own themselves.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.len * (size_of::<(K, V)>() + 32)
    }

    /// The value of a key.
    pub fn get(&self, hash: KeyHash, key: &K) -> Option<&V> {
        self.map.get(&hash)?.iter().find(|e| e.0 == *key).map(|e| &e.1)
    }

    /// The value of a key, to be changed in place.
    pub fn get_mut(&mut self, hash: KeyHash, key: &K) -> Option<&mut V> {
        Arc::make_mut(&mut self.map).get_mut(&hash)?.iter_mut().find(|e| e.0 == *key).map(|e| &mut e.1)
    }

    /// The value of a key; a new key is cloned and gets the value that `make` returns.
    pub fn get_or_insert_with(&mut self, hash: KeyHash, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let list = Arc::make_mut(&mut self.map).entry(hash).or_default();
        let at = match list.iter().position(|e| e.0 == *key) {
            Some(at) => at,
            None => {
                list.push((key.clone(), make()));
                self.len += 1;
                list.len() - 1
            }
        };
        &mut list[at].1
    }

    /// Sets the value of a key and returns the old one.
    pub fn insert(&mut self, hash: KeyHash, key: &K, value: V) -> Option<V> {
        let mut value = Some(value);
        let place = self.get_or_insert_with(hash, key, || value.take().expect("called once"));
        value.map(|value| std::mem::replace(place, value))
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, hash: KeyHash, key: &K) -> Option<V> {
        let list = Arc::make_mut(&mut self.map).get_mut(&hash)?;
        let at = list.iter().position(|e| e.0 == *key)?;
        self.len -= 1;
        Some(list.swap_remove(at).1)
    }

    /// Asks the processor to load the memory that a look-up of this hash will read.
    #[inline(always)]
    pub fn prefetch(&self, _hash: KeyHash) {}

    /// Updates the values of a batch of records, in order, loading memory ahead.
    ///
    /// Record `i` has hash `hashes[i]` and the key that `keys` gives for `i`. A new key gets `init()`; then `f(i, value)`.
    #[inline]
    pub fn update_batch(
        &mut self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        mut init: impl FnMut() -> V,
        mut f: impl FnMut(usize, &mut V),
    ) {
        for (i, &hash) in hashes.iter().enumerate() {
            keys.with(i, |key| f(i, self.get_or_insert_with(hash, key, &mut init)));
        }
    }

    /// Calls `f` with every entry, in the order of key groups up to entries of one page.
    pub fn for_each(&self, mut f: impl FnMut(&K, &V)) {
        self.map.values().flatten().for_each(|e| f(&e.0, &e.1));
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        Arc::make_mut(&mut self.map).values_mut().for_each(|list| list.retain(|e| keep(&e.0, &e.1)));
        self.len = self.map.values().map(Vec::len).sum();
    }

    /// Takes all entries out.
    pub fn drain(&mut self, mut f: impl FnMut(K, V)) {
        self.len = 0;
        let map = std::mem::take(&mut self.map);
        Arc::unwrap_or_clone(map).into_values().flatten().for_each(|(k, v)| f(k, v));
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.len = 0;
        self.map = Arc::default();
    }

    /// An immutable image of the table as it is now.
    pub fn freeze(&mut self) -> FrozenTable<K, V> {
        FrozenTable { len: self.len, groups: self.range, map: self.map.clone() }
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("range", &self.range).field("len", &self.len).finish_non_exhaustive()
    }
}

/// An immutable image of a table; may be read on another thread and outlive the table.
pub struct FrozenTable<K, V> {
    groups: KeyGroupRange,
    len: usize,
    map: Arc<Map<K, V>>,
}

impl<K: TableKey, V: TableValue> FrozenTable<K, V> {
    /// How many keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The key groups whose keys are inside.
    pub fn range(&self) -> KeyGroupRange {
        self.groups
    }

    /// Calls `f` with every entry; key groups come in ascending order, the entries of a group in any.
    pub fn for_each_in_group_order(&self, mut f: impl FnMut(KeyGroup, &K, &V)) {
        let inside = self.map.iter().filter(|(hash, _)| self.groups.contains(hash.group()));
        inside.for_each(|(hash, list)| list.iter().for_each(|e| f(hash.group(), &e.0, &e.1)));
    }

    /// Cuts the image into at most `n` parts of contiguous, disjoint key groups, in order, to be read in parallel.
    pub fn parts(self, n: usize) -> Vec<Self> {
        let n = n.clamp(1, self.groups.len().max(1));
        let at = |i: usize| self.groups.start + (i * self.groups.len() / n) as u16;
        let part = |i: usize| {
            let groups = KeyGroupRange::new(at(i), at(i + 1));
            let inside = self.map.iter().filter(|(hash, _)| groups.contains(hash.group()));
            Self { groups, len: inside.map(|(_, list)| list.len()).sum(), map: self.map.clone() }
        };
        (0..n).map(part).collect()
    }
}

impl<K, V> fmt::Debug for FrozenTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrozenTable")
            .field("groups", &self.groups)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
