//! Checkpoint storage of Stillstream: where snapshots lie, what `_metadata` looks like, and the register that
//! says which checkpoint is the newest.
//!
//! ```text
//! <dir>/<job id>/.lock                        held by the live process that owns the job (local disk);
//!                                             notes its number and the register's newest version
//!               /register/register-<version>  the one truth; changed by compare-and-set
//!               /chk-<n>/_metadata            everything that is needed to restore; written last, atomically
//!               /chk-<n>/<file>               state of one subtask
//!               /shared/<n>-<file>            state that checkpoint n wrote and later ones may name too
//!               /taskowned/                   files that the JobManager never deletes
//! ```
//!
//! All calls block. Make them on the snapshot pool, on a thread of your own or in `spawn_blocking`, never on
//! a worker.
//!
//! Paths within handles are relative to the *anchor*, the job's directory (`<dir>/<job id>`): a job directory
//! that was moved or copied as a whole stays readable.
//!
//! Crash points (see [`stillstream_types::crash`]): `before-metadata`, `after-metadata`, `before-register`,
//! `after-register`, `half-discarded`, `before-shared-discarded`.
//!
//! | module | what is inside |
//! |---|---|
//! | [`checkpoint`] | [`CheckpointStorage`] and [`JobStorage`]: the layout above |
//! | [`snapshot`] | streams of state: inline below a threshold, files above |
//! | [`savepoint`] | the directory of one savepoint, which can be moved alone |
//! | [`retained`] | reading a checkpoint at a path that a user names |
//! | [`metadata`] | the format of `_metadata` |
//! | [`register`] | the register and its compare-and-set |
//! | [`lease`] | the right of one generation to write the register |
//! | `neighbours` | which other jobs have checkpoints in the same directory |
//! | [`references`] | which files in `shared/` checkpoints name |
//! | `disposal` | deleting a savepoint because a person asks for it |
//! | `claimed` | a snapshot that becomes a job's own |
//! | [`cleanup`] | deleting: idempotent, and refusing when unsure |
//! | [`survey`] | what every file in a job's directory is for |
//! | [`verify`] | does everything that a checkpoint names exist, whole? |
//! | [`store`] | the low-level door that a disk or an object store implements |
//! | [`local`], [`object`] | a disk, and whatever `object_store` reaches |
//! | `remote` | which scheme leads to which store over the network, and the clients for them |

pub mod checkpoint;
mod claimed;
pub mod cleanup;
#[cfg(feature = "conformance")]
pub mod conformance;
mod disposal;
pub mod error;
mod frame;
mod identity;
mod job_lock;
pub mod lease;
pub mod local;
pub mod location;
pub mod metadata;
mod neighbours;
pub mod object;
pub mod options;
mod proto;
pub mod references;
pub mod register;
mod remote;
pub mod retained;
mod salvage;
pub mod savepoint;
pub mod snapshot;
pub mod store;
pub mod survey;
pub mod verify;

pub use checkpoint::{CheckpointStorage, JobStorage};
pub use cleanup::{DiscardReport, SweepReport};
pub use disposal::dispose_of_savepoint;
pub use error::{CasError, StorageError};
pub use lease::Lease;
pub use local::LocalStore;
pub use location::{Location, RemoteLocation, StoreKind};
pub use neighbours::Neighbours;
pub use object::ObjectBlobStore;
pub use options::StorageOptions;
pub use references::SharedReferences;
pub use register::{Loaded, Register, Version};
pub use remote::RemoteStores;
pub use retained::RetainedCheckpoint;
pub use savepoint::SavepointDirectory;
pub use store::BlobStore;
pub use survey::{FileUse, Survey, SurveyedFile};
pub use verify::VerifyMode;
