//! What the coordinator asks of storage, and the answers.

use std::sync::Arc;

use stillstream_types::{CheckpointId, CheckpointMetadata, CompletedRef, Generation, RegisterRecord, Result};

/// Names one deletion, so that its end can be reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DiscardId(pub u64);

/// What to delete. All paths are relative to the job's checkpoint directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiscardTarget {
    /// A directory with all that is in it. `_metadata` goes first, so that a half-deleted checkpoint is not
    /// mistaken for a whole one.
    Directory {
        /// The directory.
        path: String,
        /// Files elsewhere that only this checkpoint named. They go last, and only if the directory is gone.
        shared: Vec<String>,
    },
    /// Single files.
    Files(Vec<String>),
    /// The directory of a savepoint that failed, as [`SavepointTarget`](stillstream_types::SavepointTarget)
    /// names it.
    Savepoint(Arc<str>),
}

/// A call. Each is answered once by the [`StorageAnswer`] that it names.
#[derive(Clone, PartialEq, Debug)]
pub enum StorageCall {
    /// Replace `expected` (`None`: no record yet) by `record` in one compare-and-set. At most one is under
    /// way. Answer: [`StorageAnswer::RegisterUpdated`].
    UpdateRegister {
        /// What must be there now.
        expected: Option<RegisterRecord>,
        /// What is to be there.
        record: RegisterRecord,
    },
    /// Read the register, from the same authority that writes go to. Answer: [`StorageAnswer::RegisterRead`].
    ReadRegister,
    /// List what lies in the job's checkpoint directory, to find what a crash left behind. Answer:
    /// [`StorageAnswer::DirectoriesListed`].
    ListDirectories,
    /// Read which files below `shared/` these checkpoints name, and those that a person keeps although the
    /// register does not name them. Answer: [`StorageAnswer::ReferencesRead`]; until then no checkpoint is
    /// triggered.
    ReadReferences {
        /// Checkpoints that the job may restore: their metadata must be there.
        completed: Vec<CompletedRef>,
        /// Checkpoints that belong to a person, who may have deleted them.
        retained: Vec<CompletedRef>,
    },
    /// List the files below `shared/`, to find what nobody names. Answer: [`StorageAnswer::SharedListed`].
    ListShared,
    /// Write `_metadata` in the directory of this checkpoint
    /// ([`checkpoint_paths::checkpoint`](stillstream_types::checkpoint_paths::checkpoint)). Answer:
    /// [`StorageAnswer::MetadataWritten`].
    WriteMetadata {
        /// What to write.
        metadata: Box<CheckpointMetadata>,
        /// The directory of a savepoint, as [`SavepointTarget`](stillstream_types::SavepointTarget) names it.
        savepoint: Option<Arc<str>>,
    },
    /// Delete, off the checkpoint path. Given only when the register does not name the target and never will.
    /// Answer: [`StorageAnswer::DiscardDone`], within a deadline of the shell's.
    Discard {
        /// Named in the answer.
        discard: DiscardId,
        /// What to delete.
        target: DiscardTarget,
    },
}

/// Which files below `shared/` checkpoints name, as their metadata says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct References {
    /// By checkpoint, the paths relative to the job's checkpoint directory.
    pub found: Vec<(CheckpointId, Vec<String>)>,
    /// Which of these the register does not name but a person keeps.
    pub kept: Vec<CheckpointId>,
    /// What could not be read, and why.
    pub unreadable: Vec<String>,
}

/// How the write of a metadata file ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriteOutcome {
    /// It is durable.
    Written,
    /// Determinate: it surely does not exist.
    Failed(String),
    /// Indeterminate: it may exist, now or later.
    Unknown(String),
}

/// How a compare-and-set of the register ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegisterOutcome {
    /// The new record is durable.
    Written,
    /// Determinate: the record was surely not changed by this write, and never will be.
    Failed(String),
    /// Indeterminate: the write may have happened or may still happen; also when the comparison failed and it
    /// is not known whose record is there. The coordinator reads the register before it goes on.
    Unknown(String),
    /// The register belongs to this generation, which is another process's.
    Fenced(Generation),
}

/// What the register holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FoundRegister {
    /// A record that this process wrote: its claim, or a later one.
    Own(RegisterRecord),
    /// A record of this generation that another process wrote.
    Foreign(Generation),
    /// There surely is none.
    Missing,
}

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub enum StorageAnswer {
    /// To [`StorageCall::UpdateRegister`].
    RegisterUpdated {
        /// How it ended.
        outcome: RegisterOutcome,
    },
    /// To [`StorageCall::ReadRegister`].
    RegisterRead {
        /// What it holds, or why it could not be read.
        result: Result<FoundRegister, String>,
    },
    /// To [`StorageCall::ListDirectories`].
    DirectoriesListed {
        /// Names of the entries directly below the job's checkpoint directory. May be empty if listing
        /// failed: then nothing is cleaned up this time.
        names: Vec<String>,
    },
    /// To [`StorageCall::ReadReferences`].
    ReferencesRead {
        /// What was read, and what could not be.
        references: References,
    },
    /// To [`StorageCall::ListShared`].
    SharedListed {
        /// The files in `shared/` by their paths relative to the job's checkpoint directory, those of
        /// unfinished writers too; or why it could not be listed.
        result: Result<Vec<String>, String>,
    },
    /// To [`StorageCall::WriteMetadata`].
    MetadataWritten {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// How it ended.
        outcome: WriteOutcome,
    },
    /// To [`StorageCall::Discard`]: done, or given up. "Not found" is success.
    DiscardDone {
        /// Which.
        discard: DiscardId,
        /// Why it was given up, if it was.
        failure: Option<String>,
    },
}
