//! Keyed snapshots: one stream of a header and one section per key group. `docs/formats.md` has the bytes.

mod buffers;
mod chain;
mod chain_read;
mod delta;
mod entries;
mod header;
mod in_order;
mod inspect;
mod read;
mod run;
mod sifted;
mod units;
mod write;

pub use entries::{SnapshotEntry, for_each_entry};
pub use inspect::{KeyedStateContents, StateContents, inspect};
pub use read::RestoredKeyedState;
pub use write::FrozenKeyedState;

pub(crate) use chain::{ChainMeta, write_chain};
pub(crate) use delta::{DeltaHeader, DeltaState, Record};
pub(crate) use header::Header;
pub(crate) use read::Chunk;
#[cfg(feature = "rocksdb")]
pub(crate) use read::{checked_header, for_each_chunk};
#[cfg(feature = "rocksdb")]
pub(crate) use run::CHUNK_BYTES;
pub(crate) use run::{FrozenRun, RunWriter, Weights};
pub(crate) use sifted::SiftedRun;
pub(crate) use units::Run;
