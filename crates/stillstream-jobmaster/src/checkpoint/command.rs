//! What the coordinator asks of the shells.

use std::time::Duration;

use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointMetadata, CompletedRef, ErrorKind, Generation, JobOutcome,
    RegisterRecord,
};

use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::CheckpointFailure;

/// Names one deletion, so that its end can be reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DiscardId(pub u64);

/// What to delete. All paths are relative to the job's checkpoint directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiscardTarget {
    /// A directory with all that is in it. `_metadata` goes first, so that a half-deleted checkpoint is not mistaken for a
    /// whole one.
    Directory {
        /// The directory.
        path: String,
        /// Files elsewhere that only this checkpoint named. They go last, and only if the directory is gone.
        shared: Vec<String>,
    },
    /// Single files.
    Files(Vec<String>),
}

/// The answer to a request for a checkpoint or savepoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointReport {
    /// Its number.
    pub id: CheckpointId,
    /// What it is.
    pub kind: CheckpointKind,
    /// Its directory: relative to that of the job, and from the root (as `--from` takes it) where a client of a job gets it.
    pub path: String,
    /// Bytes of state.
    pub size_bytes: u64,
    /// From trigger to completion.
    pub duration: Duration,
}

/// What a shell has to do. Commands of one answer are started in their order; what must be durable before a command may
/// run is already durable when the command is given, so a shell never has to wait for one before it starts the next.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Replace `expected` (`None`: no record yet) by `record` in one compare-and-set. At most one is under way. Answer:
    /// [`Event::RegisterUpdated`](crate::Event::RegisterUpdated).
    UpdateRegister {
        /// What must be there now.
        expected: Option<RegisterRecord>,
        /// What is to be there.
        record: RegisterRecord,
    },
    /// Read the register, from the same authority that writes go to. Answer: [`Event::RegisterRead`](crate::Event::RegisterRead).
    ReadRegister,
    /// The register belongs to `generation`: start its tasks, from this checkpoint or from nothing.
    BeginAttempt {
        /// Which attempt.
        generation: Generation,
        /// The newest completed checkpoint.
        restore_from: Option<CompletedRef>,
    },
    /// List what lies in the job's checkpoint directory, to find what a crash left behind. Answer:
    /// [`Event::DirectoriesListed`](crate::Event::DirectoriesListed).
    ListDirectories,
    /// Read which files below `shared/` these checkpoints name, and those that a person keeps although the register does not
    /// name them. Answer: [`Event::ReferencesRead`](crate::Event::ReferencesRead); until then no checkpoint is triggered.
    ReadReferences {
        /// Checkpoints that the job may restore: their metadata must be there.
        completed: Vec<CompletedRef>,
        /// Checkpoints that belong to a person, who may have deleted them.
        retained: Vec<CompletedRef>,
    },
    /// List the files below `shared/`, to find what nobody names. Answer:
    /// [`Event::SharedListed`](crate::Event::SharedListed).
    ListShared,
    /// Tell the sources to emit the barrier.
    TriggerSources {
        /// Which attempt.
        generation: Generation,
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Write `_metadata` in the directory of this checkpoint
    /// ([`checkpoint_paths::directory`](stillstream_types::checkpoint_paths::directory)). Answer:
    /// [`Event::MetadataWritten`](crate::Event::MetadataWritten).
    WriteMetadata {
        /// What to write.
        metadata: Box<CheckpointMetadata>,
    },
    /// The checkpoint is completed: tell the tasks.
    NotifyComplete {
        /// Which attempt.
        generation: Generation,
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// The checkpoint was aborted: tell the tasks.
    NotifyAborted {
        /// Which attempt.
        generation: Generation,
        /// Which checkpoint.
        checkpoint: CheckpointId,
    },
    /// Delete, off the checkpoint path. Given only when the register does not name the target and never will. Answer:
    /// [`Event::DiscardDone`](crate::Event::DiscardDone), within a deadline of the shell's.
    Discard {
        /// Named in the answer.
        discard: DiscardId,
        /// What to delete.
        target: DiscardTarget,
    },
    /// Answer a request.
    Reply {
        /// Which.
        request: RequestId,
        /// The outcome.
        result: Result<CheckpointReport, CheckpointFailure>,
    },
    /// Fail the attempt; the restart strategy decides what follows (a fatal kind: nothing).
    FailJob {
        /// What kind of error.
        kind: ErrorKind,
        /// What, where, and what to do.
        message: String,
    },
    /// The outcome is in the register: the job may report it and let its tasks go.
    FinishJob {
        /// Finished, cancelled or failed.
        outcome: JobOutcome,
    },
    /// The outcome could not be recorded in its time, or cannot be at all: the job ends with it all the same, and nothing
    /// else is tried. What the register says instead, and what the next start makes of that, is in the message. No command
    /// follows.
    EndUnrecorded {
        /// Finished, cancelled or failed.
        outcome: JobOutcome,
        /// Why, and what it means.
        message: String,
    },
    /// Another generation owns the job. Stop all tasks, report nothing, delete nothing. No command follows.
    StepDown {
        /// The owner.
        owner: Generation,
    },
    /// Send a [`Tick`](crate::Event::Tick) at this time (since the coordinator's zero). Replaces an earlier one.
    WakeAt(Duration),
    /// For the log.
    Warn(String),
    /// For the log.
    Info(String),
}
