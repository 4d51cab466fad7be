//! The RocksDB backend: keyed state on the local disk, larger than memory, with incremental checkpoints.
//!
//! | file | what is inside |
//! |---|---|
//! | `backend` | [`RocksDbKeyedStateBackend`] and its factory |
//! | `options` | [`RocksDbOptions`]: the settings, by Flink's names |
//! | `db` | the database, its column families, walks, snapshots: the only place that knows RocksDB's pointers |
//! | `layout` | the keys' bytes |
//! | `value`, `namespaced`, `list`, `map`, `timers` | the kinds |
//! | `write_back` | hot entries as native values, in front of the database |
//! | `direct` | entries by namespace and key, one by one or by batches |
//! | `writer` | the thread that writes hot entries and makes checkpoints, in order |
//! | `expiry` | compactions leave out what has expired |
//! | `full` | full snapshots in canonical form |
//! | `load` | canonical entries into the database; migration |
//! | `incremental`, `restore`, `transfer`, `local` | checkpoints that share files, and the way back |
//! | `entries` | what is in such files, without the program that wrote them |
//! | `tuning`, `memory` | RocksDB's options, and its share of memory |

mod backend;
mod db;
mod direct;
mod directory;
mod entries;
mod error;
mod expiry;
mod full;
mod group_set;
mod incremental;
mod layout;
mod list;
mod load;
mod local;
mod map;
mod memory;
mod namespaced;
mod options;
mod restore;
mod state;
mod timers;
mod transfer;
mod tuning;
mod value;
mod write_back;
mod writer;

pub use backend::{RocksDbBackendFactory, RocksDbKeyedStateBackend};
pub use entries::for_each_entry;
pub use namespaced::{RocksNamespaced, RocksWalk};
pub use options::{Compression, LocalRecovery, MemoryBudget, RocksDbOptions};
pub use timers::RocksTimers;
pub use value::RocksValues;
