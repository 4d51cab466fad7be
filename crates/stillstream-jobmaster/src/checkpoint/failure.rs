//! Why a checkpoint failed, whether that counts, and when the job has to fail.

use std::collections::BTreeSet;
use std::fmt;

use stillstream_types::CheckpointId;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $flink:literal, $counts:literal;)*) => {
        /// Why a checkpoint failed: those of Flink's reasons (`CheckpointFailureReason`) that occur here.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum FailureReason { $($(#[$doc])* $name,)* }

        impl FailureReason {
            /// The name that Flink gives it, as in `CHECKPOINT_EXPIRED`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $flink,)* }
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
    PeriodicSchedulerShutdown = "PERIODIC_SCHEDULER_SHUTDOWN", false;
    /// The queue of requests is full.
    TooManyCheckpointRequests = "TOO_MANY_CHECKPOINT_REQUESTS", false;
    /// A periodic request came inside the minimum pause.
    MinimumTimeBetweenCheckpoints = "MINIMUM_TIME_BETWEEN_CHECKPOINTS", false;
    /// Not all tasks run (yet, or any more).
    NotAllRequiredTasksRunning = "NOT_ALL_REQUIRED_TASKS_RUNNING", false;
    /// Storage failed while the checkpoint was being set up.
    IoException = "IO_EXCEPTION", true;
    /// The asynchronous part failed in a task.
    CheckpointAsyncException = "CHECKPOINT_ASYNC_EXCEPTION", true;
    /// The timeout passed.
    CheckpointExpired = "CHECKPOINT_EXPIRED", true;
    /// A later checkpoint completed first.
    CheckpointSubsumed = "CHECKPOINT_SUBSUMED", false;
    /// A task declined.
    CheckpointDeclined = "CHECKPOINT_DECLINED", true;
    /// The coordinator was shut down.
    CheckpointCoordinatorShutdown = "CHECKPOINT_COORDINATOR_SHUTDOWN", false;
    /// The coordinator was suspended, as by a loss of leadership.
    CheckpointCoordinatorSuspend = "CHECKPOINT_COORDINATOR_SUSPEND", false;
    /// The attempt ended.
    JobFailoverRegion = "JOB_FAILOVER_REGION", false;
    /// Metadata or register could not be written.
    FinalizeCheckpointFailure = "FINALIZE_CHECKPOINT_FAILURE", false;
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
/// One checkpoint counts once; a success with a higher id clears the count; failures of checkpoints older
/// than the last success are ignored.
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
