//! What the coordinator is told.

use stillstream_types::{
    CheckpointId, CheckpointKind, Generation, JobFigures, JobOutcome, SubtaskId, TaskSnapshot,
};

use crate::checkpoint::storage::StorageAnswer;
use crate::message::AckMetrics;
use crate::plan::TaskInfo;

/// The name that a shell gives to a request, so that it can find whom to answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// An attempt is wanted. Answered by [`Command::BeginAttempt`](super::command::Command::BeginAttempt) with its generation, once
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
    /// A task has committed everything up to `checkpoint`. Wanted after the final checkpoint, welcome at any time.
    CommitConfirmed {
        /// Which attempt.
        generation: Generation,
        /// Up to and including this one.
        checkpoint: CheckpointId,
        /// The task.
        subtask: SubtaskId,
    },
    /// Time passed: sent at [`Command::WakeAt`](super::command::Command::WakeAt), or at any time.
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
    /// Storage answers.
    Storage(StorageAnswer),
    /// What the job has come to so far. The newest is recorded with the job's end.
    Measured {
        /// The figures.
        figures: JobFigures,
    },
    /// The job ended otherwise than by [`Command::FinishJob`](super::command::Command::FinishJob): cancelled by a person, or failed
    /// for good. The coordinator records it and applies the retention policy, then answers `FinishJob` with that outcome, or,
    /// when the end of the input was being recorded already, with `Finished`. If neither can be recorded in
    /// [`CoordinatorSetup::end_timeout`](super::CoordinatorSetup::end_timeout), it answers
    /// [`Command::EndUnrecorded`](super::command::Command::EndUnrecorded). One of these comes always, unless another generation took
    /// over.
    JobEnded {
        /// [`JobOutcome::Cancelled`] or [`JobOutcome::Failed`].
        outcome: JobOutcome,
    },
}
