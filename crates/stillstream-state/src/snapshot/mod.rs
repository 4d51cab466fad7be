//! Keyed snapshots: one stream of a header and one section per key group. `docs/formats.md` has the bytes.

mod header;
mod inspect;
mod read;
mod run;
mod write;

pub use inspect::{KeyedStateContents, StateContents, inspect};
pub use read::RestoredKeyedState;
pub use write::FrozenKeyedState;

pub(crate) use header::Header;
pub(crate) use read::Chunk;
#[cfg(feature = "rocksdb")]
pub(crate) use read::{checked_header, for_each_chunk};
#[cfg(feature = "rocksdb")]
pub(crate) use run::CHUNK_BYTES;
pub(crate) use run::{FrozenRun, RunWriter};
pub(crate) use write::Run;
