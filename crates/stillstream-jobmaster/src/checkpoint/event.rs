//! What the shells tell the coordinator.

use std::time::Duration;

use stillstream_types::{
    CheckpointId, CheckpointKind, Generation, JobFigures, JobOutcome, RegisterRecord, SubtaskId, TaskSnapshot,
};

use crate::checkpoint::command::DiscardId;
use crate::plan::TaskInfo;

/// The name that a shell gives to a request, so that it can find whom to answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// What a task measured while it took part in a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AckMetrics {
    /// From the trigger to the first barrier.
    pub start_delay: Duration,
    /// From the first barrier to the last.
    pub alignment: Duration,
    /// The synchronous part: the worker stood still.
    pub synchronous: Duration,
    /// The asynchronous part: writing.
    pub asynchronous: Duration,
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
    /// Indeterminate: the write may have happened or may still happen; also when the comparison failed and the record
    /// found is not of a higher generation. The coordinator reads the register before it goes on.
    Unknown(String),
    /// The register belongs to this higher generation.
    Fenced(Generation),
}

/// What happened. A shell hands each to [`CheckpointCoordinator::handle`](crate::CheckpointCoordinator::handle).
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// An attempt is wanted. Answered by [`Command::BeginAttempt`](crate::Command::BeginAttempt) with its generation, once
    /// the register belongs to that.
    AttemptRequested,
    /// All tasks of the attempt run.
    AttemptStarted {
        /// Which attempt.
        generation: Generation,
        /// All subtasks.
        tasks: Vec<TaskInfo>,
    },
    /// The attempt ended without finishing: a task failed, a peer was lost, or it was stopped.
    AttemptStopped {
        /// Which attempt.
        generation: Generation,
        /// What happened.
        reason: String,
    },
    /// A source has emitted its last record. It goes on answering triggers until the job finishes.
    SourceEnded {
        /// Which attempt.
        generation: Generation,
        /// The source.
        subtask: SubtaskId,
    },
    /// A task is gone for good and will answer no more. Before the final checkpoint is committed that is right only for a
    /// task without state; for any other, its part would be missing from later checkpoints, so the job is failed.
    TaskFinished {
        /// Which attempt.
        generation: Generation,
        /// The task.
        subtask: SubtaskId,
    },
    /// A task has committed everything up to `checkpoint`. Wanted after the final checkpoint, welcome at any time.
    CommitConfirmed {
        /// Which attempt.
        generation: Generation,
        /// Up to and including this one.
        checkpoint: CheckpointId,
        /// The task.
        subtask: SubtaskId,
    },
    /// Time passed: sent at [`Command::WakeAt`](crate::Command::WakeAt), or at any time.
    Tick,
    /// Somebody wants a checkpoint or a savepoint.
    TriggerRequested {
        /// Named in the answer.
        request: RequestId,
        /// What is wanted.
        kind: CheckpointKind,
        /// Goes even at the concurrency limit, and is not subsumed.
        forced: bool,
    },
    /// A task's part is durable.
    Acknowledge {
        /// Which attempt.
        generation: Generation,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// Whose part.
        subtask: SubtaskId,
        /// Where it lies.
        snapshot: TaskSnapshot,
        /// How long it took.
        metrics: AckMetrics,
    },
    /// A task could not take its part.
    Decline {
        /// Which attempt.
        generation: Generation,
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// The task.
        subtask: SubtaskId,
        /// What happened.
        message: String,
    },
    /// Answer to [`Command::WriteMetadata`](crate::Command::WriteMetadata).
    MetadataWritten {
        /// Which checkpoint.
        checkpoint: CheckpointId,
        /// How it ended.
        outcome: WriteOutcome,
    },
    /// Answer to [`Command::UpdateRegister`](crate::Command::UpdateRegister).
    RegisterUpdated {
        /// How it ended.
        outcome: RegisterOutcome,
    },
    /// Answer to [`Command::ReadRegister`](crate::Command::ReadRegister).
    RegisterRead {
        /// The record, `None` if there surely is none, or why it could not be read.
        result: Result<Option<RegisterRecord>, String>,
    },
    /// Answer to [`Command::ListDirectories`](crate::Command::ListDirectories).
    DirectoriesListed {
        /// Names of the entries directly below the job's checkpoint directory. May be empty if listing failed: then
        /// nothing is cleaned up this time.
        names: Vec<String>,
    },
    /// Answer to [`Command::ReadReferences`](crate::Command::ReadReferences).
    ReferencesRead {
        /// What was read, and what could not be.
        references: References,
    },
    /// Answer to [`Command::ListShared`](crate::Command::ListShared).
    SharedListed {
        /// The files in `shared/` by their paths relative to the job's checkpoint directory, those of unfinished writers too;
        /// or why it could not be listed.
        result: Result<Vec<String>, String>,
    },
    /// Answer to [`Command::Discard`](crate::Command::Discard): done, or given up. "Not found" is success.
    DiscardDone {
        /// Which.
        discard: DiscardId,
        /// Why it was given up, if it was.
        failure: Option<String>,
    },
    /// What the job has come to so far. The newest is recorded with the job's end.
    Measured {
        /// The figures.
        figures: JobFigures,
    },
    /// The job ended otherwise than by [`Command::FinishJob`](crate::Command::FinishJob): cancelled by a person, or failed
    /// for good. The coordinator records it and applies the retention policy, then answers `FinishJob` with that outcome, or,
    /// when the end of the input was being recorded already, with `Finished`. If neither can be recorded in
    /// [`CoordinatorSetup::end_timeout`](crate::CoordinatorSetup::end_timeout), it answers
    /// [`Command::EndUnrecorded`](crate::Command::EndUnrecorded). One of these comes always, unless another generation took
    /// over.
    JobEnded {
        /// [`JobOutcome::Cancelled`] or [`JobOutcome::Failed`].
        outcome: JobOutcome,
    },
}
