//! [`KeyedValue`]: one value per key.

use std::rc::Rc;

use stillstream_types::KeyHash;

use super::on;
use crate::StateError;
use crate::data::{Data, Key};
use crate::heap::KeyedTable;
#[cfg(feature = "rocksdb")]
use crate::rocksdb::RocksTable;
use crate::table::KeyAt;

#[derive(Debug)]
enum Over<K, V> {
    Heap(Rc<KeyedTable<K, V>>),
    #[cfg(feature = "rocksdb")]
    RocksDb(Rc<RocksTable<K, V>>),
}

/// Value state whose key type is known: the fast path of built-in operators, without a virtual call per record.
#[derive(Debug)]
pub struct KeyedValue<K, V>(Over<K, V>);

impl<K, V> Clone for KeyedValue<K, V> {
    fn clone(&self) -> Self {
        Self(on!(Over, &self.0; heap => Over::Heap(heap.clone()); rocks => Over::RocksDb(rocks.clone())))
    }
}

impl<K: Key, V: Data> KeyedValue<K, V> {
    pub(crate) fn over_heap(table: Rc<KeyedTable<K, V>>) -> Self {
        Self(Over::Heap(table))
    }

    #[cfg(feature = "rocksdb")]
    pub(crate) fn over_rocksdb(table: Rc<RocksTable<K, V>>) -> Self {
        Self(Over::RocksDb(table))
    }

    /// A copy of a key's value.
    #[inline]
    pub fn get(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        on!(Over, &self.0;
            heap => Ok(heap.cells()?.get(hash, key).cloned());
            rocks => rocks.fetch(hash, key))
    }

    /// Looks at a key's value without copying it.
    #[inline]
    pub fn with<R>(&self, hash: KeyHash, key: &K, f: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        on!(Over, &self.0;
            heap => Ok(f(heap.cells()?.get(hash, key)));
            rocks => rocks.with(hash, key, f))
    }

    /// Changes a key's value in place, made by `init` if there is none: one look-up.
    #[inline]
    pub fn update<R>(
        &self,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        on!(Over, &self.0;
            heap => Ok(f(heap.cells_mut()?.get_or_insert_with(hash, key, init)));
            rocks => rocks.update(hash, key, init, f))
    }

    /// [`update`](Self::update) for a batch: record `i` has hash `hashes[i]` and the key that `keys` gives for `i`. A new
    /// key gets `init()`; then `f(i, value)`. The memory of later records is asked for ahead, which halves the time per
    /// record in tables larger than the cache; RocksDB reads and writes all keys of the batch at once.
    #[inline(always)]
    pub fn update_batch(
        &self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        on!(Over, &self.0;
            heap => {
                heap.cells_mut()?.update_batch(hashes, keys, init, f);
                Ok(())
            };
            rocks => rocks.update_batch(hashes, keys, init, f))
    }

    /// Sets a key's value.
    pub fn insert(&self, hash: KeyHash, key: &K, value: V) -> Result<(), StateError> {
        on!(Over, &self.0;
            heap => {
                heap.cells_mut()?.insert(hash, key, value);
                Ok(())
            };
            rocks => rocks.put(hash, key, value))
    }

    /// Takes a key's value out.
    pub fn remove(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        on!(Over, &self.0;
            heap => Ok(heap.cells_mut()?.remove(hash, key));
            rocks => rocks.take(hash, key))
    }

    /// Visits all keys, in no order.
    pub fn for_each(&self, f: impl FnMut(&K, &V)) -> Result<(), StateError> {
        on!(Over, &self.0;
            heap => {
                heap.cells()?.for_each(f);
                Ok(())
            };
            rocks => rocks.for_each(f))
    }

    /// How many keys have a value. RocksDB counts them one by one.
    pub fn len(&self) -> Result<usize, StateError> {
        on!(Over, &self.0; heap => Ok(heap.cells()?.len()); rocks => rocks.len())
    }

    /// Whether no key has a value.
    pub fn is_empty(&self) -> Result<bool, StateError> {
        on!(Over, &self.0; heap => Ok(heap.cells()?.len() == 0); rocks => rocks.is_empty())
    }
}
