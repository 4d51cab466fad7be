//! The state backends that a job can choose from.
//!
//! A new one is a crate and one line here: [`StateBackends`] with one more `Either`.

use stillstream_state::{BackendFactory, KeyedBackend, NamespacedValues};

#[cfg(feature = "rocksdb")]
use stillstream_state::Either;

pub use stillstream_heap::{HeapBackendFactory, HeapKeyedStateBackend};
#[cfg(feature = "rocksdb")]
pub use stillstream_rocksdb::{
    Compression, LocalRecovery, MemoryBudget, RocksDbBackendFactory, RocksDbKeyedStateBackend, RocksDbOptions,
};

/// What makes the backends of a job: the one that the job has chosen.
#[cfg(feature = "rocksdb")]
pub type StateBackends = Either<HeapBackendFactory, RocksDbBackendFactory>;
/// What makes the backends of a job: the one that the job has chosen.
#[cfg(not(feature = "rocksdb"))]
pub type StateBackends = HeapBackendFactory;

/// The keyed state of one operator in one subtask.
pub type KeyedStateBackend<K> = <StateBackends as BackendFactory>::Backend<K>;
/// One value per key, with the key's type known.
pub type KeyedValue<K, V> = <KeyedStateBackend<K> as KeyedBackend>::KeyedValue<V>;
/// One value per namespace and key, with the key's type known.
pub type NamespacedValue<K, N, V> = <KeyedStateBackend<K> as KeyedBackend>::Namespaced<N, V>;
/// A walk over the entries of one namespace.
pub type NamespacedWalk<K, N, V> = <NamespacedValue<K, N, V> as NamespacedValues<K, N, V>>::Walk;
/// The timers of one service and clock, with the key's type known.
pub type Timers<K, N> = <KeyedStateBackend<K> as KeyedBackend>::Timers<N>;

/// State in memory.
pub fn heap(factory: HeapBackendFactory) -> StateBackends {
    #[cfg(feature = "rocksdb")]
    return Either::Left(factory);
    #[cfg(not(feature = "rocksdb"))]
    factory
}

/// State in RocksDB.
#[cfg(feature = "rocksdb")]
pub fn rocksdb(incremental: bool, options: RocksDbOptions) -> StateBackends {
    Either::Right(RocksDbBackendFactory { incremental, options: options.into() })
}
