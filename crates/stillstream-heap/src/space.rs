//! [`Space`]: the entries of one namespace, a few in a row or many in a table.

use stillstream_data::{Data, Key};
use stillstream_state::BackendOptions;
use stillstream_state::snapshot::FrozenRun;
use stillstream_table::KeyAt;
use stillstream_types::KeyHash;

use crate::cells::{Cells, Keys};
use crate::chain::Freezing;
use crate::plain::encode;

/// Entries up to which a namespace has no table. A table takes a page of 4 KiB, which is much for a window of
/// one key when thousands are open; and a few entries are found as fast one after another.
const FEW: usize = 8;

/// What one namespace holds.
#[derive(Debug)]
pub(crate) struct Space<K, V> {
    /// As long as there is no table. Encoded on the spot when it is frozen.
    few: Vec<(KeyHash, K, V)>,
    many: Option<Cells<K, V>>,
}

impl<K: Key, V: Data> Space<K, V> {
    pub fn new(options: &BackendOptions) -> Self {
        // an incremental checkpoint tells changes by pages; and a table for synchronous snapshots is no
        // larger than it must be
        let table = options.incremental || !options.asynchronous;
        Self { few: Vec::new(), many: table.then(|| Cells::new(options)) }
    }

    pub fn len(&self) -> usize {
        self.many.as_ref().map_or(self.few.len(), Cells::len)
    }

    /// Where a key lies among the few.
    #[inline]
    fn position(&self, hash: KeyHash, key: &K) -> Option<usize> {
        self.few.iter().position(|entry| entry.0 == hash && entry.1 == *key)
    }

    /// Adds a key to the few, if there is no table and room; gives its place back.
    fn push(&mut self, hash: KeyHash, key: &K, make: impl FnOnce() -> V) -> usize {
        if self.few.len() == self.few.capacity() {
            // 1, 2, 4, 8: most windows of few keys have one
            self.few.reserve_exact(self.few.len().max(1));
        }
        self.few.push((hash, key.clone(), make()));
        self.few.len() - 1
    }

    fn has_room(&self) -> bool {
        self.many.is_none() && self.few.len() < FEW
    }

    /// The table, into which the few entries go that there may be.
    #[inline]
    fn many(&mut self, options: &BackendOptions) -> &mut Cells<K, V> {
        self.many.get_or_insert_with(|| {
            let mut cells = Cells::new(options);
            for (hash, key, value) in std::mem::take(&mut self.few) {
                cells.insert(hash, &key, value);
            }
            cells
        })
    }

    #[inline]
    pub fn get(&self, hash: KeyHash, key: &K) -> Option<&V> {
        match &self.many {
            Some(cells) => cells.get(hash, key),
            None => self.position(hash, key).map(|at| &self.few[at].2),
        }
    }

    /// The value of a key, made by `make` if there is none.
    #[inline]
    pub fn get_or_insert_with(
        &mut self,
        options: &BackendOptions,
        hash: KeyHash,
        key: &K,
        make: impl FnOnce() -> V,
    ) -> &mut V {
        if self.many.is_none() {
            if let Some(at) = self.position(hash, key) {
                return &mut self.few[at].2;
            }
            if self.has_room() {
                let at = self.push(hash, key, make);
                return &mut self.few[at].2;
            }
        }
        self.many(options).get_or_insert_with(hash, key, make)
    }

    /// Updates the value of each record of a batch, made first where there is none.
    #[inline]
    pub fn update_batch(
        &mut self,
        options: &BackendOptions,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        mut init: impl FnMut() -> V,
        mut f: impl FnMut(usize, &mut V),
    ) {
        match &mut self.many {
            Some(cells) => cells.update_batch(hashes, keys, init, f),
            None => self.update_few(options, hashes, keys, &mut init, &mut f),
        }
    }

    /// The same for what has no table yet.
    #[cold]
    #[inline(never)]
    fn update_few(
        &mut self,
        options: &BackendOptions,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: &mut impl FnMut() -> V,
        f: &mut impl FnMut(usize, &mut V),
    ) {
        for (i, hash) in hashes.iter().enumerate() {
            let value = keys.with(i, |key| self.get_or_insert_with(options, *hash, key, &mut *init));
            f(i, value);
            if self.many.is_some() {
                let rest = &hashes[i + 1..];
                let cells = self.many(options);
                return cells
                    .update_batch(rest, &KeysFrom(keys, i + 1), init, |n, value| f(i + 1 + n, value));
            }
        }
    }

    pub fn insert(&mut self, options: &BackendOptions, hash: KeyHash, key: &K, value: V) {
        if self.many.is_none() {
            if let Some(at) = self.position(hash, key) {
                self.few[at].2 = value;
                return;
            }
            if self.has_room() {
                self.push(hash, key, || value);
                return;
            }
        }
        self.many(options).insert(hash, key, value);
    }

    pub fn remove(&mut self, hash: KeyHash, key: &K) -> Option<V> {
        match &mut self.many {
            Some(cells) => cells.remove(hash, key),
            None => self.position(hash, key).map(|at| self.few.remove(at).2),
        }
    }

    #[inline(always)]
    pub fn prefetch(&self, hash: KeyHash) {
        if let Some(cells) = &self.many {
            cells.prefetch(hash);
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let few = size_of::<Self>() + self.few.capacity() * size_of::<(KeyHash, K, V)>();
        self.many.as_ref().map_or(few, Cells::memory_bytes)
    }

    /// See [`Cells::freeze`].
    pub fn freeze(&mut self, name: &str, namespace: &[u8], how: &mut Freezing<'_>) -> Box<dyn FrozenRun> {
        match &mut self.many {
            Some(cells) => cells.freeze(name, namespace, how),
            None => encode(self.few.iter().collect(), namespace),
        }
    }

    /// See [`Cells::mark`].
    pub fn mark(&mut self, serial: u64) {
        if let Some(cells) = &mut self.many {
            cells.mark(serial);
        }
    }

    /// See [`Cells::keys`]; in the order of their key groups.
    pub fn keys(&mut self) -> Keys<K, V> {
        if let Some(cells) = &mut self.many {
            return cells.keys();
        }
        let mut keys: Vec<_> = self.few.iter().map(|entry| (entry.0.group(), entry.1.clone())).collect();
        keys.sort_by_key(|key| key.0);
        Keys::of(keys.into_iter().map(|key| key.1).collect())
    }
}

/// The keys of a batch from one record on.
struct KeysFrom<'a, Ks: ?Sized>(&'a Ks, usize);

impl<K, Ks: KeyAt<K> + ?Sized> KeyAt<K> for KeysFrom<'_, Ks> {
    fn with<R>(&self, i: usize, f: impl FnOnce(&K) -> R) -> R {
        self.0.with(self.1 + i, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stillstream_types::KeyGroups;

    use stillstream_state::{KeyedBackend, NamespacedValues};

    use super::*;
    use crate::HeapKeyedStateBackend;
    use stillstream_table::KeysIn;

    fn options() -> BackendOptions {
        let groups = KeyGroups::new(128);
        BackendOptions::new(groups, groups.all())
    }

    #[test]
    fn a_namespace_holds_the_same_with_and_without_a_table() {
        let groups = KeyGroups::new(128);
        for keys in [1u64, 3, 8, 9, 40] {
            let (mut space, mut model) = (Space::<u64, u64>::new(&options()), BTreeMap::new());
            for n in 0..400u64 {
                let key = n * 7919 % keys;
                let hash = key.key_hash(groups);
                match n % 5 {
                    0 => {
                        space.insert(&options(), hash, &key, n);
                        model.insert(key, n);
                    }
                    1 => assert_eq!(space.remove(hash, &key), model.remove(&key)),
                    2 => {
                        *space.get_or_insert_with(&options(), hash, &key, || 1) += n;
                        *model.entry(key).or_insert(1) += n;
                    }
                    _ => {
                        let batch: Vec<u64> = (0..n % 13).map(|i| (key + i * i) % keys).collect();
                        let hashes: Vec<_> = batch.iter().map(|key| key.key_hash(groups)).collect();
                        let at = KeysIn(|i: usize| &batch[i]);
                        space.update_batch(&options(), &hashes, &at, || 5, |i, value| *value += i as u64);
                        for (i, key) in batch.iter().enumerate() {
                            *model.entry(*key).or_insert(5) += i as u64;
                        }
                    }
                }
                assert_eq!(space.get(hash, &key), model.get(&key));
                assert_eq!(space.len(), model.len());
            }
            let (mut walk, mut found) = (space.keys(), Vec::new());
            while let Some(part) = Some(walk.next_part()).filter(|part| !part.is_empty()) {
                found.extend(part);
            }
            assert!(found.is_sorted_by_key(|key| key.key_hash(groups).group()));
            found.sort();
            assert_eq!(found, model.into_keys().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_window_of_one_key_takes_the_bytes_of_an_entry_and_not_a_page() {
        let mut backend = HeapKeyedStateBackend::<u64>::new(options());
        let windows = backend.namespaced::<i64, u64>("windows").unwrap();
        let hash = 7u64.key_hash(options().groups);
        for start in 0..10_000 {
            windows.update(start, hash, &7, || 0, |n| *n += 1).unwrap();
        }
        let size = &backend.state_sizes()[0];
        assert_eq!(size.entries, 10_000);
        assert!(size.memory_bytes < 10_000 * 300, "{size:?}");
        // a table comes with more keys
        for key in 0..1000u64 {
            windows.update(0, key.key_hash(options().groups), &key, || 0, |n| *n += 1).unwrap();
        }
        assert_eq!(windows.len(0).unwrap(), 1000);
        assert_eq!(windows.get(0, hash, &7).unwrap(), Some(2));
    }
}
