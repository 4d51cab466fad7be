//! What the coordinator is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use stillstream_types::{
    CheckpointId, Generation, JobFigures, JobOutcome, OperatorId, SavepointTarget, SubtaskId, TaskSnapshot,
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
    /// An attempt is wanted. Answered by [`Command::BeginAttempt`](super::command::Command::BeginAttempt)
    /// with its generation, once the register belongs to that.
    AttemptRequested,
    /// All tasks of the attempt run.
    AttemptStarted {
        /// Which attempt.
        generation: Generation,
        /// All subtasks.
        tasks: Vec<TaskInfo>,
        /// The states of the sources' enumerators.
        enumerators: BTreeMap<OperatorId, Arc<[u8]>>,
    },
    /// An enumerator has another state. What it has assigned to come to it has been told to the tasks: the
    /// next trigger follows that.
    Enumerated {
        /// Which attempt.
        generation: Generation,
        /// The source.
        operator: OperatorId,
        /// The state.
        state: Arc<[u8]>,
    },
    /// The attempt ended without finishing: a task failed, a peer was lost, or it was stopped.
    AttemptStopped {
        /// Which attempt.
        generation: Generation,
        /// What happened.
        reason: String,
        /// Another attempt follows.
        restarts: bool,
    },
    /// A source has emitted its last record. It goes on answering triggers until the job finishes.
    SourceEnded {
        /// Which attempt.
        generation: Generation,
        /// The source.
        subtask: SubtaskId,
    },
    /// A task has committed everything up to `checkpoint`. Wanted after the final checkpoint, welcome at any
    /// time.
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
        /// Where a savepoint goes, and in which form; `None` for a checkpoint.
        savepoint: Option<SavepointTarget>,
        /// The checkpoint names no file of an earlier one.
        full: bool,
        /// Goes even at the concurrency limit, and is not subsumed. A savepoint does so always.
        forced: bool,
    },
    /// Somebody wants the job to stop with a last checkpoint or savepoint. Answered by
    /// [`Command::Reply`](super::command::Command::Reply) when the end is recorded, which
    /// [`Command::FinishJob`](super::command::Command::FinishJob) follows; or when it has failed.
    StopRequested {
        /// Named in the answer.
        request: RequestId,
        /// Where the savepoint goes; `None`: a checkpoint.
        savepoint: Option<SavepointTarget>,
        /// The sources end first, and with them event time.
        drain: bool,
    },
    /// The sources were told to end, and there are still records to come.
    DrainOverdue {
        /// For how long, and of whom.
        message: String,
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
    /// The job ended otherwise than by [`Command::FinishJob`](super::command::Command::FinishJob): cancelled
    /// by a person, failed for good, or suspended while nothing ran. The coordinator records it and applies
    /// the retention policy, then answers `FinishJob` with that outcome, or, when the end of the input was
    /// being recorded already, with `Finished`. If neither can be recorded in
    /// [`CoordinatorSetup::end_timeout`](super::CoordinatorSetup::end_timeout), it answers
    /// [`Command::EndUnrecorded`](super::command::Command::EndUnrecorded). One of these comes always, unless
    /// another generation took over.
    JobEnded {
        /// [`JobOutcome::Cancelled`], [`JobOutcome::Failed`] or [`JobOutcome::Suspended`].
        outcome: JobOutcome,
    },
}
