//! State whose key type is known: the fast paths of built-in operators, without a virtual call per record.
//!
//! A call takes a whole batch where it matters.

use stillstream_table::KeyAt;
use stillstream_types::{KeyHash, Timestamp};

use crate::{Data, Key, StateError, Timer};

/// What a namespace can be: `()`, a window's start, a window. Implemented for every such type.
pub trait Namespace: Data + Ord + Copy {}
impl<N: Data + Ord + Copy> Namespace for N {}

/// One value per key.
pub trait KeyedValues<K: Key, V: Data>: Clone + 'static {
    /// A copy of a key's value.
    fn get(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError>;

    /// Looks at a key's value without copying it.
    fn with<R>(&self, hash: KeyHash, key: &K, f: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError>;

    /// Changes a key's value in place, made by `init` if there is none: one look-up.
    fn update<R>(
        &self,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError>;

    /// [`update`](Self::update) for a batch: record `i` has hash `hashes[i]` and the key that `keys` gives
    /// for `i`. A new key gets `init()`; then `f(i, value)`. The memory of later records is asked for ahead,
    /// which halves the time per record in tables larger than the cache; RocksDB reads and writes all keys of
    /// the batch at once.
    fn update_batch(
        &self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError>;

    /// Sets a key's value.
    fn insert(&self, hash: KeyHash, key: &K, value: V) -> Result<(), StateError>;

    /// Takes a key's value out.
    fn remove(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError>;

    /// Visits all keys, in no order.
    fn for_each(&self, f: impl FnMut(&K, &V)) -> Result<(), StateError>;

    /// How many keys have a value. RocksDB counts them one by one.
    fn len(&self) -> Result<usize, StateError>;

    /// Whether no key has a value.
    fn is_empty(&self) -> Result<bool, StateError>;
}

/// One value per namespace and key. A namespace with no key left is gone.
pub trait NamespacedValues<K: Key, N: Namespace, V: Data>: Clone + 'static {
    /// A walk over one namespace.
    type Walk: NamespaceWalk<K, N, V>;

    /// A copy of a key's value in a namespace.
    fn get(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        self.with(namespace, hash, key, |value| value.cloned())
    }

    /// Looks at a key's value in a namespace without copying it.
    fn with<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        f: impl FnOnce(Option<&V>) -> R,
    ) -> Result<R, StateError>;

    /// Changes a key's value in place, made by `init` if there is none.
    fn update<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError>;

    /// [`update`](Self::update) for a batch of records of one namespace: record `i` has hash `hashes[i]` and
    /// the key that `keys` gives for `i`. A new key gets `init()`; then `f(i, value)`.
    fn update_batch(
        &self,
        namespace: N,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError>;

    /// Sets a key's value in a namespace.
    fn insert(&self, namespace: N, hash: KeyHash, key: &K, value: V) -> Result<(), StateError>;

    /// Takes a key's value out of a namespace.
    fn remove(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError>;

    /// Asks the processor for the memory that a look-up will need.
    #[inline(always)]
    fn prefetch(&self, _namespace: N, _hash: KeyHash) {}

    /// All namespaces that hold a key, ascending.
    fn namespaces(&self) -> Result<Vec<N>, StateError>;

    /// The first namespace that holds a key, from `from` on. Takes no longer for more namespaces.
    fn namespace_from(&self, from: N) -> Result<Option<N>, StateError>;

    /// How many keys a namespace holds. RocksDB counts them one by one.
    fn len(&self, namespace: N) -> Result<usize, StateError>;

    /// Whether a namespace holds no key.
    fn is_empty(&self, namespace: N) -> Result<bool, StateError>;

    /// Forgets all keys of a namespace at once.
    fn remove_namespace(&self, namespace: N) -> Result<(), StateError>;

    /// Starts taking all entries out of a namespace, in slices. Entries that are not taken yet are still
    /// state: they are in a snapshot that comes between two slices, and stay when the walk is dropped.
    fn take_namespace(&self, namespace: N) -> Result<Self::Walk, StateError>;

    /// Starts reading all entries of a namespace, in slices, and leaves them there.
    fn read_namespace(&self, namespace: N) -> Result<Self::Walk, StateError>;
}

/// A walk over the entries that a namespace had when the walk began, in slices. Key groups come in ascending
/// order.
pub trait NamespaceWalk<K, N, V>: 'static {
    /// Appends at most `limit` more entries to `out`, and says whether there may be more. An entry that was
    /// removed since the walk began is left out; one that was changed comes as it is now.
    fn next_slice(&mut self, limit: usize, out: &mut Vec<(KeyHash, K, V)>) -> Result<bool, StateError>;

    /// The namespace.
    fn namespace(&self) -> N;

    /// How many entries are left at most.
    fn remaining(&self) -> usize;
}

/// The timers of one timer service, of one clock. Each timer is one per key, namespace and time.
///
/// # Errors
/// Timers in RocksDB fail as its other states do; those in memory never do.
pub trait TimerService<K: Key, N: Namespace>: Clone + 'static {
    /// Registers a timer, and says whether it is new. [`set`](Self::set) is quicker.
    fn register(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError>;

    /// Deletes a timer, and says whether it was there.
    fn delete(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError>;

    /// Registers a timer. In memory it is not looked whether it is there already, so that it costs little;
    /// there is one such timer all the same.
    #[inline]
    fn set(&self, timer: Timer<K, N>) -> Result<(), StateError> {
        self.set_all([timer])
    }

    /// Registers timers, as [`set`](Self::set) does.
    #[inline]
    fn set_all(&self, timers: impl IntoIterator<Item = Timer<K, N>>) -> Result<(), StateError> {
        let mut timers = timers.into_iter();
        timers.try_for_each(|t| self.register(t.time, t.hash, &t.key, t.namespace).map(drop))
    }

    /// Deletes a timer if it is there. Costs as little as [`set`](Self::set).
    #[inline]
    fn unset(&self, timer: Timer<K, N>) -> Result<(), StateError> {
        self.delete(timer.time, timer.hash, &timer.key, timer.namespace).map(drop)
    }

    /// Takes the first timer that is due at `up_to` or before: by time, then key group, then key.
    fn pop_due(&self, up_to: Timestamp) -> Result<Option<Timer<K, N>>, StateError>;

    /// Takes the first timers that are due at `up_to` or before, at most so many, and appends them to `out`
    /// in the order of [`pop_due`](Self::pop_due).
    fn pop_all_due(
        &self,
        up_to: Timestamp,
        most: usize,
        out: &mut Vec<Timer<K, N>>,
    ) -> Result<(), StateError> {
        for _ in 0..most {
            let Some(timer) = self.pop_due(up_to)? else { break };
            out.push(timer);
        }
        Ok(())
    }

    /// When the first timer is due.
    fn peek_next_time(&self) -> Option<Timestamp>;

    /// How many timers there are. RocksDB counts them the first time after a restore.
    fn len(&self) -> Result<usize, StateError>;

    /// Whether there is no timer.
    fn is_empty(&self) -> bool {
        self.peek_next_time().is_none()
    }
}
