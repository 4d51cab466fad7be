//! What the JobManager and the tasks of an attempt say to each other.
//!
//! There is one word for each thing: the engine takes in and gives out these very messages, worker threads
//! get them through channels, and worker processes as frames.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::{
    CheckpointId, Error, EventTime, Generation, OperatorId, OperatorSubtaskState, SavepointTarget, SubtaskId,
    SubtaskIndex, TaskSnapshot,
};

/// State to start from: for each operator and subtask what it owns.
#[derive(Debug, Default, Clone)]
pub struct RestoredState {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// Where a snapshot of another job lies; `None` for one of the job's own.
    pub location: Option<String>,
    /// By operator and subtask.
    pub operators: BTreeMap<OperatorId, BTreeMap<SubtaskIndex, OperatorSubtaskState>>,
    /// The states of the sources' enumerators. They stay in the JobManager.
    pub enumerators: BTreeMap<OperatorId, Arc<[u8]>>,
}

/// One try to run the job.
#[derive(Debug, Clone)]
pub struct AttemptSpec {
    /// Messages of another generation are dropped.
    pub generation: Generation,
    /// What to restore; `None` starts fresh.
    pub restored: Option<Arc<RestoredState>>,
}

/// Splits for the readers of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The source.
    pub operator: OperatorId,
    /// Splits in their binary form, each with its reader.
    pub splits: Arc<[(SubtaskIndex, Vec<u8>)]>,
    /// The reader whose request this answers, also with nothing for it.
    pub answers: Option<SubtaskIndex>,
    /// No other splits will be assigned.
    pub no_more: bool,
}

/// What the enumerator of a source has done: its state, and what it has assigned to come to it. No checkpoint
/// has one of the two and not the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enumerated {
    /// The state behind the assignment.
    pub state: Arc<[u8]>,
    /// For the readers.
    pub assignment: Assignment,
}

/// From the JobManager to every worker of the attempt. Messages come in the order in which they were sent,
/// and a task takes them in that order: what is assigned before a trigger is taken before its barrier, and
/// what is assigned behind it after that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// Sources: record the position and emit barrier `id`.
    Trigger {
        /// The checkpoint.
        id: CheckpointId,
        /// When it was triggered: milliseconds since 1970.
        at_ms: i64,
        /// The savepoint that it is; `None` for a checkpoint.
        savepoint: Option<SavepointTarget>,
        /// A checkpoint that names no file of an earlier one, although others of the job do. Never said of a
        /// savepoint, whose format tells its form.
        full: bool,
        /// The last one of a job that stops: behind this barrier a subtask emits nothing, whatever its source
        /// or its timers have. It still commits. (The last one after [`Drain`](Self::Drain) does not say
        /// this: there nothing is left to emit.)
        stop: bool,
    },
    /// A source: read these splits.
    Assign(Assignment),
    /// Sources: end here, as if there were no more input.
    Drain,
    /// Checkpoint `id` is complete.
    Complete {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// Checkpoint `id` was aborted.
    Aborted {
        /// The checkpoint.
        id: CheckpointId,
    },
    /// All input is through and everything is committed: let the dataflow drain.
    Finish,
    /// Drop the dataflow and report.
    Stop,
}

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
    /// Bytes of records of the next epoch that were set aside while the barrier was awaited on the other
    /// channels.
    pub set_aside_bytes: u64,
}

/// Event time on the channels of one subtask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskTime {
    /// Of all channels together.
    pub combined: EventTime,
    /// By input, and within an input by sender.
    pub channels: Vec<ChannelTime>,
}

/// Event time on one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelTime {
    /// What was said last.
    pub time: EventTime,
    /// When the watermark moved last, or when the attempt began: milliseconds since 1970.
    pub moved_at_ms: i64,
}

/// From a worker to the JobManager.
#[derive(Debug)]
pub enum Report {
    /// All operators of the subtask are open.
    Running(SubtaskId),
    /// The subtask has no more records to come, and has emitted everything that the end of its input causes.
    Ended(SubtaskId),
    /// The reader of a source has read all splits that it was assigned, and there may be others. For the
    /// enumerator; the engine decides nothing by it.
    SplitsWanted(SubtaskId),
    /// Event time has moved, or has not moved at all since the subtask began: a few times a second at most.
    EventTime {
        /// Who.
        subtask: SubtaskId,
        /// How far it is.
        time: TaskTime,
    },
    /// The subtask's part of a checkpoint is durable.
    Acknowledged {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Who.
        subtask: SubtaskId,
        /// Where the state lies.
        snapshot: TaskSnapshot,
        /// How long it took.
        metrics: AckMetrics,
    },
    /// The subtask could not write its part.
    Declined {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Who.
        subtask: SubtaskId,
        /// Why.
        reason: String,
    },
    /// Everything up to the checkpoint has been committed.
    Committed {
        /// The checkpoint.
        checkpoint: CheckpointId,
        /// Who.
        subtask: SubtaskId,
    },
    /// A subtask, or the worker itself, failed.
    Failed {
        /// Who, where it is known.
        subtask: Option<SubtaskId>,
        /// Why.
        error: Error,
    },
    /// The worker has dropped the dataflow. `drained`: it ended by itself.
    Stopped {
        /// Which worker.
        worker: usize,
        /// Whether all input had been processed.
        drained: bool,
    },
}
