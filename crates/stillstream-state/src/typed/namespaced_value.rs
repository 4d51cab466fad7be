//! [`NamespacedValue`]: one value per namespace and key.

use std::rc::Rc;

use stillstream_types::KeyHash;

use super::on;
use crate::StateError;
use crate::data::{Data, Key};
use crate::heap::{HeapWalk, NamespacedTable};
#[cfg(feature = "rocksdb")]
use crate::rocksdb::{RocksNamespaced, RocksWalk};
use crate::table::KeyAt;

#[derive(Debug)]
enum Over<K, N, V> {
    Heap(Rc<NamespacedTable<K, N, V>>),
    #[cfg(feature = "rocksdb")]
    RocksDb(Rc<RocksNamespaced<K, N, V>>),
}

/// Value state by namespace and key, with the key's type known.
///
/// A namespace with no key left is gone.
#[derive(Debug)]
pub struct NamespacedValue<K, N, V>(Over<K, N, V>);

impl<K, N, V> Clone for NamespacedValue<K, N, V> {
    fn clone(&self) -> Self {
        Self(on!(Over, &self.0; heap => Over::Heap(heap.clone()); rocks => Over::RocksDb(rocks.clone())))
    }
}

impl<K: Key, N: Data + Ord + Copy, V: Data> NamespacedValue<K, N, V> {
    pub(crate) fn over_heap(table: Rc<NamespacedTable<K, N, V>>) -> Self {
        Self(Over::Heap(table))
    }

    #[cfg(feature = "rocksdb")]
    pub(crate) fn over_rocksdb(table: Rc<RocksNamespaced<K, N, V>>) -> Self {
        Self(Over::RocksDb(table))
    }

    /// A copy of a key's value in a namespace.
    pub fn get(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        self.with(namespace, hash, key, |value| value.cloned())
    }

    /// Looks at a key's value in a namespace without copying it.
    pub fn with<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        f: impl FnOnce(Option<&V>) -> R,
    ) -> Result<R, StateError> {
        on!(Over, &self.0; heap => heap.with(namespace, hash, key, f); rocks => rocks.with(namespace, hash, key, f))
    }

    /// Changes a key's value in place, made by `init` if there is none.
    #[inline]
    pub fn update<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        on!(Over, &self.0;
            heap => heap.update(namespace, hash, key, init, f);
            rocks => rocks.update(namespace, hash, key, init, f))
    }

    /// [`update`](Self::update) for a batch of records of one namespace: record `i` has hash `hashes[i]` and the key that
    /// `keys` gives for `i`. A new key gets `init()`; then `f(i, value)`.
    #[inline]
    pub fn update_batch(
        &self,
        namespace: N,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        if hashes.is_empty() {
            return Ok(());
        }
        on!(Over, &self.0;
            heap => heap.update_batch(namespace, hashes, keys, init, f);
            rocks => rocks.update_batch(namespace, hashes, keys, init, f))
    }

    /// Sets a key's value in a namespace.
    pub fn insert(&self, namespace: N, hash: KeyHash, key: &K, value: V) -> Result<(), StateError> {
        on!(Over, &self.0;
            heap => heap.insert(namespace, hash, key, value);
            rocks => rocks.insert(namespace, hash, key, &value))
    }

    /// Takes a key's value out of a namespace.
    pub fn remove(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        on!(Over, &self.0; heap => heap.remove(namespace, hash, key); rocks => rocks.remove(namespace, hash, key))
    }

    /// Asks the processor for the memory that a look-up will need.
    #[inline(always)]
    pub fn prefetch(&self, namespace: N, hash: KeyHash) {
        on!(Over, &self.0; heap => heap.prefetch(namespace, hash); _rocks => {})
    }

    /// All namespaces that hold a key, ascending.
    pub fn namespaces(&self) -> Result<Vec<N>, StateError> {
        on!(Over, &self.0; heap => Ok(heap.read()?.keys().copied().collect()); rocks => rocks.namespaces())
    }

    /// The first namespace that holds a key, from `from` on. Takes no longer for more namespaces.
    pub fn namespace_from(&self, from: N) -> Result<Option<N>, StateError> {
        on!(Over, &self.0;
            heap => Ok(heap.read()?.range(from..).next().map(|(namespace, _)| *namespace));
            rocks => rocks.next_namespace(Some(from), false))
    }

    /// How many keys a namespace holds. RocksDB counts them one by one.
    pub fn len(&self, namespace: N) -> Result<usize, StateError> {
        on!(Over, &self.0;
            heap => Ok(heap.read()?.get(&namespace).map_or(0, |cells| cells.len()));
            rocks => rocks.len(namespace))
    }

    /// Whether a namespace holds no key.
    pub fn is_empty(&self, namespace: N) -> Result<bool, StateError> {
        on!(Over, &self.0;
            heap => Ok(heap.read()?.get(&namespace).is_none());
            rocks => rocks.is_empty(namespace))
    }

    /// Forgets all keys of a namespace at once.
    pub fn remove_namespace(&self, namespace: N) -> Result<(), StateError> {
        on!(Over, &self.0;
            heap => {
                heap.write()?.remove(&namespace);
                Ok(())
            };
            rocks => rocks.remove_namespace(namespace))
    }

    /// Starts taking all entries out of a namespace, in slices. Entries that are not taken yet are still state: they are
    /// in a snapshot that comes between two slices, and stay when the walk is dropped.
    pub fn take_namespace(&self, namespace: N) -> Result<NamespaceWalk<K, N, V>, StateError> {
        self.walk(namespace, true)
    }

    /// Starts reading all entries of a namespace, in slices, and leaves them there.
    pub fn read_namespace(&self, namespace: N) -> Result<NamespaceWalk<K, N, V>, StateError> {
        self.walk(namespace, false)
    }

    fn walk(&self, namespace: N, take: bool) -> Result<NamespaceWalk<K, N, V>, StateError> {
        let walk = on!(Over, &self.0;
            heap => Walk::Heap(heap.walk(namespace, take)?);
            rocks => Walk::RocksDb(rocks.walk(namespace, take)?));
        Ok(NamespaceWalk(walk))
    }
}

#[derive(Debug)]
enum Walk<K, N, V> {
    Heap(HeapWalk<K, N, V>),
    #[cfg(feature = "rocksdb")]
    RocksDb(RocksWalk<K, N, V>),
}

/// A walk over the entries that a namespace had when the walk began, in slices. Key groups come in ascending order.
#[derive(Debug)]
pub struct NamespaceWalk<K, N, V>(Walk<K, N, V>);

impl<K: Key, N: Data + Ord + Copy, V: Data> NamespaceWalk<K, N, V> {
    /// Appends at most `limit` more entries to `out`, and says whether there may be more. An entry that was removed
    /// since the walk began is left out; one that was changed comes as it is now.
    pub fn next_slice(&mut self, limit: usize, out: &mut Vec<(KeyHash, K, V)>) -> Result<bool, StateError> {
        on!(Walk, &mut self.0; heap => heap.next_slice(limit, out); rocks => rocks.next_slice(limit, out))
    }

    /// The namespace.
    pub fn namespace(&self) -> N {
        on!(Walk, &self.0; heap => heap.namespace(); rocks => rocks.namespace())
    }

    /// How many entries are left at most.
    pub fn remaining(&self) -> usize {
        on!(Walk, &self.0; heap => heap.remaining(); rocks => rocks.remaining())
    }
}

#[cfg(all(test, feature = "rocksdb"))]
mod tests {
    use stillstream_types::KeyGroups;

    use super::*;
    use crate::{BackendOptions, KeyedStateBackend, RocksDbOptions};

    #[test]
    fn in_rocksdb_a_namespace_costs_by_its_entries_and_not_by_the_number_of_key_groups() {
        let folder = tempfile::tempdir().unwrap();
        let groups = KeyGroups::new(32_768);
        let options = BackendOptions::new(groups, groups.all());
        let mut backend =
            KeyedStateBackend::<u64>::rocksdb(options, RocksDbOptions::new(folder.path())).unwrap();
        let windows = backend.namespaced::<i64, u64>("windows").unwrap();
        for window in 0..100 {
            for key in 0..=(window as u64 % 3) {
                windows.insert(window, key.key_hash(groups), &key, key).unwrap();
            }
        }
        for window in 0..100 {
            assert_eq!(windows.namespace_from(window).unwrap(), Some(window));
            let keys = 1 + window as usize % 3;
            let mut walk = windows.take_namespace(window).unwrap();
            let Walk::RocksDb(rocks) = &walk.0 else { panic!("the state is in RocksDB") };
            assert_eq!((rocks.iterators(), walk.remaining()), (keys, keys));
            let mut taken = Vec::new();
            while walk.next_slice(2, &mut taken).unwrap() {}
            assert_eq!(taken.len(), keys);
            assert!(windows.is_empty(window).unwrap());
        }
        assert_eq!(windows.namespace_from(i64::MIN).unwrap(), None);
        assert_eq!(windows.namespaces().unwrap(), []);
    }

    #[test]
    fn a_namespace_is_removed_whole_whether_it_is_small_or_large() {
        let folder = tempfile::tempdir().unwrap();
        let groups = KeyGroups::new(4);
        let options = BackendOptions::new(groups, groups.all());
        let mut backend =
            KeyedStateBackend::<u64>::rocksdb(options, RocksDbOptions::new(folder.path())).unwrap();
        let windows = backend.namespaced::<i64, u64>("windows").unwrap();
        for (window, keys) in [(-1, 3u64), (0, 5000), (1, 4)] {
            for key in 0..keys {
                windows.insert(window, key.key_hash(groups), &key, key).unwrap();
            }
        }
        windows.remove_namespace(0).unwrap();
        assert_eq!((windows.len(-1).unwrap(), windows.len(0).unwrap(), windows.len(1).unwrap()), (3, 0, 4));
        windows.remove_namespace(-1).unwrap();
        assert_eq!(windows.namespaces().unwrap(), [1]);
        assert_eq!(windows.namespace_from(0).unwrap(), Some(1));
    }
}
