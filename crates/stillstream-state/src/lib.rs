//! State of Stillstream jobs: kinds, serializers, keyed and operator backends, timers, snapshot and restore.
//!
//! | module | what is inside |
//! |---|---|
//! | [`data`] | [`Data`]: binary form, schema and hash of users' types; the crate `stillstream-data` |
//! | [`kinds`] | [`ValueState`] and the other handles that users hold |
//! | [`backend`] | [`KeyedBackend`]: what a keyed backend is. There are two: `stillstream-heap` and `stillstream-rocksdb` |
//! | [`table`] | the hash table with page-wise copy-on-write under the heap backend; the crate `stillstream-table` |
//! | [`ttl`] | state with a time to live |
//! | [`operator`] | [`OperatorStateBackend`]: state that belongs to a subtask, not to a key |
//! | [`snapshot`] | writing, reading and inspecting keyed snapshots |

extern crate self as stillstream_state;

pub mod backend;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
pub mod kinds;
mod memory_store;
mod meta;
pub mod operator;
pub mod snapshot;
pub mod ttl;

pub use stillstream_data as data;
pub use stillstream_table as table;
// what `#[derive(Data)]` generates names everything through this crate, where it is told to
#[doc(hidden)]
pub use stillstream_data::__private;

pub use backend::{
    BackendFactory, BackendOptions, Either, KeyedBackend, KeyedValues, Namespace, NamespaceWalk,
    NamespacedValues, StateSize, TimerService,
};
pub use error::StateError;
pub use kinds::{
    Aggregate, AggregatingState, CurrentKey, Keyed, ListState, MapState, ReducingState, StateKind,
    TimeDomain, Timer, ValueState,
};
pub use memory_store::MemorySnapshotStore;
pub use meta::StateMeta;
pub use operator::{
    BroadcastState, FrozenOperatorState, OperatorListState, OperatorStateBackend, OperatorStateMeta,
    RestoredOperatorState,
};
pub use snapshot::{FrozenKeyedState, RestoredKeyedState};
#[doc(hidden)]
pub use stillstream_data::Around;
#[cfg(feature = "serde-adapter")]
pub use stillstream_data::Serde;
pub use stillstream_data::{Compatibility, Data, DecodeError, Field, Key, KeyHasher, Schema, Variant};
pub use ttl::{ExpiredEntries, StateClock, StateTtlConfig, TtlUpdateType, TtlVisibility, WithTtl};
