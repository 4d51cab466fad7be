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
mod states;
mod units;
mod write;

pub use entries::{SnapshotEntry, for_each_entry, for_each_entry_of_chain};
pub use inspect::{KeyedStateContents, StateContents, inspect};
pub use read::RestoredKeyedState;
pub use states::{header_of, header_of_incremental};
pub use write::FrozenKeyedState;

// for backends
pub use chain::{ChainFile, ChainMeta, write_chain};
pub use delta::{DeltaHeader, DeltaState, Record};
pub use header::Header;
pub use read::{Chunk, RestoredPart, checked_header, for_each_chunk, hash_in};
pub use run::{CHUNK_BYTES, FrozenRun, RunWriter, Weights};
pub use sifted::SiftedRun;
pub use units::Run;
