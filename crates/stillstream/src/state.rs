//! State: kinds, binary form and schema of users' types, backends, snapshots.
//!
//! Users meet [`ValueState`] and the other kinds, [`Data`], and [`StateTtlConfig`]. The rest is for those who
//! look into snapshots or write a backend; where a job's state can lie is in [`backends`].

#[doc(hidden)]
pub use stillstream_state::__private;
pub use stillstream_state::*;

pub use stillstream_runtime::backends;
#[cfg(feature = "rocksdb")]
pub use stillstream_runtime::backends::{
    Compression, LocalRecovery, MemoryBudget, RocksDbKeyedStateBackend, RocksDbOptions,
};
pub use stillstream_runtime::backends::{
    HeapKeyedStateBackend, KeyedStateBackend, KeyedValue, NamespacedValue, Timers,
};
