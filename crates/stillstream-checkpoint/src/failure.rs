//! Why a checkpoint failed, whether that counts, and when the job has to fail.

use std::collections::BTreeSet;
use std::fmt;

use stillstream_types::CheckpointId;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $flink:literal, $before:literal, $counts:literal;)*) => {
        /// Flink's reasons for a failed checkpoint (`CheckpointFailureReason`), all 24.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum FailureReason { $($(#[$doc])* $name,)* }

        impl FailureReason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name that Flink gives it, as in `CHECKPOINT_EXPIRED`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $flink,)* }
            }

            /// Whether it happens before any task was told of the checkpoint.
            pub fn is_before_flight(self) -> bool {
                match self { $(Self::$name => $before,)* }
            }

            /// Whether it counts against `execution.checkpointing.tolerable-failed-checkpoints`.
            pub fn counts(self) -> bool {
                match self { $(Self::$name => $counts,)* }
            }
        }
    };
}

reasons! {
    /// Periodic checkpoints were stopped.
    PeriodicSchedulerShutdown = "PERIODIC_SCHEDULER_SHUTDOWN", true, false;
    /// The queue of requests is full.
    TooManyCheckpointRequests = "TOO_MANY_CHECKPOINT_REQUESTS", true, false;
    /// A periodic request came inside the minimum pause.
    MinimumTimeBetweenCheckpoints = "MINIMUM_TIME_BETWEEN_CHECKPOINTS", true, false;
    /// Not all tasks run (yet, or any more).
    NotAllRequiredTasksRunning = "NOT_ALL_REQUIRED_TASKS_RUNNING", true, false;
    /// Storage failed while the checkpoint was being set up.
    IoException = "IO_EXCEPTION", true, true;
    /// The output of a job cannot take a checkpoint now.
    BlockingOutputExist = "BLOCKING_OUTPUT_EXIST", true, false;
    /// The asynchronous part failed in a task.
    CheckpointAsyncException = "CHECKPOINT_ASYNC_EXCEPTION", false, true;
    /// A file of channel state that tasks share failed. Flink's sources were not consulted on whether it counts; here
    /// it does not.
    ChannelStateSharedStreamException = "CHANNEL_STATE_SHARED_STREAM_EXCEPTION", false, false;
    /// The timeout passed.
    CheckpointExpired = "CHECKPOINT_EXPIRED", false, true;
    /// A later checkpoint completed first.
    CheckpointSubsumed = "CHECKPOINT_SUBSUMED", false, false;
    /// A task declined.
    CheckpointDeclined = "CHECKPOINT_DECLINED", false, true;
    /// A task was not ready yet.
    CheckpointDeclinedTaskNotReady = "CHECKPOINT_DECLINED_TASK_NOT_READY", false, false;
    /// A task was closing.
    CheckpointDeclinedTaskClosing = "CHECKPOINT_DECLINED_TASK_CLOSING", false, false;
    /// A task saw a later barrier first.
    CheckpointDeclinedSubsumed = "CHECKPOINT_DECLINED_SUBSUMED", false, false;
    /// A task saw a cancellation barrier.
    CheckpointDeclinedOnCancellationBarrier = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER", false, false;
    /// A task's input had ended.
    CheckpointDeclinedInputEndOfStream = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM", false, false;
    /// The coordinator was shut down.
    CheckpointCoordinatorShutdown = "CHECKPOINT_COORDINATOR_SHUTDOWN", false, false;
    /// The coordinator was suspended, as by a loss of leadership.
    CheckpointCoordinatorSuspend = "CHECKPOINT_COORDINATOR_SUSPEND", false, false;
    /// The attempt ended.
    JobFailoverRegion = "JOB_FAILOVER_REGION", false, false;
    /// A task failed.
    TaskFailure = "TASK_FAILURE", false, false;
    /// A task failed in its synchronous part; the task itself fails too.
    TaskCheckpointFailure = "TASK_CHECKPOINT_FAILURE", false, false;
    /// A notice was about a checkpoint that the task does not know.
    UnknownTaskCheckpointNotificationFailure = "UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE", false, false;
    /// Metadata or register could not be written.
    FinalizeCheckpointFailure = "FINALIZE_CHECKPOINT_FAILURE", false, false;
    /// The trigger itself failed.
    TriggerCheckpointFailure = "TRIGGER_CHECKPOINT_FAILURE", false, false;
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a checkpoint, or the request for one, failed: the kind and a sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message} ({reason})")]
pub struct CheckpointFailure {
    /// The kind.
    pub reason: FailureReason,
    /// What, where, and what to do.
    pub message: String,
}

impl CheckpointFailure {
    /// A failure of this kind.
    pub fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What a failure means for the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is of a kind that does not count, or is already outdated or counted.
    Ignored,
    /// It counted; so many in a row so far.
    Tolerated(u32),
    /// More in a row than is tolerated: the job has to fail. The count starts again.
    Exceeded(u32),
}

/// Counts failed checkpoints in a row (Flink's `CheckpointFailureManager`).
///
/// One checkpoint counts once; a success with a higher id clears the count; failures of checkpoints older than the last
/// success are ignored.
#[derive(Clone, Debug)]
pub struct FailureCounter {
    tolerable: u32,
    counted: BTreeSet<CheckpointId>,
    last_success: CheckpointId,
}

impl FailureCounter {
    /// A counter that tolerates so many failures in a row.
    pub fn new(tolerable: u32) -> Self {
        Self { tolerable, counted: BTreeSet::new(), last_success: CheckpointId(0) }
    }

    /// A checkpoint failed.
    pub fn on_failure(&mut self, id: CheckpointId, reason: FailureReason) -> Verdict {
        if !reason.counts() || id <= self.last_success || !self.counted.insert(id) {
            return Verdict::Ignored;
        }
        let count = self.counted.len() as u32;
        if count > self.tolerable {
            // ids below are outdated as well: their late failures must not fail the next attempt
            self.last_success = self.last_success.max(id);
            self.counted.clear();
            return Verdict::Exceeded(count);
        }
        Verdict::Tolerated(count)
    }

    /// A checkpoint completed.
    pub fn on_success(&mut self, id: CheckpointId) {
        if id > self.last_success {
            self.last_success = id;
            self.counted.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureReason::*;

    #[test]
    fn there_are_24_reasons_of_which_6_are_before_flight_and_4_count() {
        assert_eq!(FailureReason::ALL.len(), 24);
        assert_eq!(FailureReason::ALL.iter().filter(|r| r.is_before_flight()).count(), 6);
        let counting: Vec<_> = FailureReason::ALL.iter().copied().filter(|r| r.counts()).collect();
        assert_eq!(counting, [IoException, CheckpointAsyncException, CheckpointExpired, CheckpointDeclined]);
    }

    #[test]
    fn with_no_tolerance_the_first_counted_failure_fails_the_job() {
        let mut counter = FailureCounter::new(0);
        assert_eq!(counter.on_failure(CheckpointId(1), CheckpointSubsumed), Verdict::Ignored);
        assert_eq!(counter.on_failure(CheckpointId(1), CheckpointExpired), Verdict::Exceeded(1));
    }

    #[test]
    fn one_checkpoint_counts_once_and_a_success_clears_the_count() {
        let mut counter = FailureCounter::new(1);
        assert_eq!(counter.on_failure(CheckpointId(1), CheckpointDeclined), Verdict::Tolerated(1));
        assert_eq!(counter.on_failure(CheckpointId(1), CheckpointExpired), Verdict::Ignored);
        counter.on_success(CheckpointId(2));
        assert_eq!(counter.on_failure(CheckpointId(3), IoException), Verdict::Tolerated(1));
        assert_eq!(counter.on_failure(CheckpointId(4), IoException), Verdict::Exceeded(2));
        assert_eq!(counter.on_failure(CheckpointId(5), IoException), Verdict::Tolerated(1));
    }

    #[test]
    fn failures_older_than_the_last_success_are_ignored() {
        let mut counter = FailureCounter::new(0);
        counter.on_success(CheckpointId(5));
        assert_eq!(counter.on_failure(CheckpointId(4), CheckpointExpired), Verdict::Ignored);
        counter.on_success(CheckpointId(3));
        assert_eq!(counter.on_failure(CheckpointId(5), CheckpointExpired), Verdict::Ignored);
        assert_eq!(counter.on_failure(CheckpointId(6), CheckpointExpired), Verdict::Exceeded(1));
    }
}
