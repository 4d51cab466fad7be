//! What can be seen of a job beside what its submitter waits for: by the REST interface, and by tools.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stillstream_jobmaster::{CheckpointSummary, ExceptionEntry, JobStatus};
use stillstream_types::{CheckpointId, JobId, Timestamp};

use super::client::{JobClient, Shared};
use super::info::JobInfo;
use crate::clock::Clock;

/// So long the end of a job waits at most for those who hold it.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// The snapshot that the newest attempt of a job began with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestoredFrom {
    /// Its number.
    pub checkpoint: CheckpointId,
    /// Where it lies, if it is of another run.
    pub location: Option<String>,
    /// When the attempt was deployed.
    pub at: Timestamp,
}

/// When a job came to the states that it was in. Of one that it was in several times the last one counts, as
/// in Flink.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct StatusTimes(Vec<(JobStatus, Timestamp)>);

impl StatusTimes {
    /// Notes that the job is in this state.
    pub fn see(&mut self, status: JobStatus, now: impl FnOnce() -> i64) {
        if self.0.last().is_none_or(|(last, _)| *last != status) {
            self.0.retain(|(seen, _)| *seen != status);
            self.0.push((status, Timestamp::from_millis(now())));
        }
    }
}

/// Somebody has still something to tell of the job. While it is held, the end of the job waits, ten seconds
/// at most: the program that waits for the job may end its process with it. See [`JobClient::hold_end`].
#[derive(Debug)]
pub struct EndHold(Arc<Holds>, Arc<Shared>);

/// How many hold a job's end.
#[derive(Debug, Default)]
pub(crate) struct Holds(AtomicUsize);

impl Drop for EndHold {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
        self.1.changed.notify_all();
    }
}

impl Shared {
    /// Waits until nobody holds the end any more, or their time is over.
    pub(super) fn await_holds(&self, clock: &dyn Clock) {
        let until = clock.elapsed().saturating_add(LONGEST_HOLD);
        let mut published = self.published.lock();
        while self.holds.0.load(Ordering::SeqCst) > 0 {
            let left = until.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return;
            }
            self.changed.wait_for(&mut published, left.min(Duration::from_millis(20)));
        }
    }
}

/// Looking at a job.
impl JobClient {
    /// The job's id: the same in every process, since it follows from the name.
    pub fn id(&self) -> JobId {
        self.info.id
    }

    /// What is known of the job and does not change: its plan and its settings.
    pub fn info(&self) -> &JobInfo {
        &self.info
    }

    /// Where the REST interface of this process answers, if the job has one.
    pub fn rest_address(&self) -> Option<SocketAddr> {
        self.info.rest_address
    }

    /// When the job came to each state that it was in, the present one last.
    pub fn status_times(&self) -> Vec<(JobStatus, Timestamp)> {
        self.shared.published.lock().status_times.0.clone()
    }

    /// The checkpoints that are under way, oldest first.
    pub fn checkpoints_in_progress(&self) -> Vec<CheckpointSummary> {
        self.shared.published.lock().in_progress.clone()
    }

    /// The completed checkpoints that the job keeps, oldest first.
    pub fn checkpoints_kept(&self) -> Vec<CheckpointId> {
        self.shared.published.lock().kept.clone()
    }

    /// What the newest attempt began with; `None` if it began empty.
    pub fn restored_from(&self) -> Option<RestoredFrom> {
        self.shared.published.lock().restored.clone()
    }

    /// Its last failures, oldest first.
    pub fn exceptions(&self) -> Vec<ExceptionEntry> {
        self.shared.published.lock().exceptions.clone()
    }

    /// A client for looking on: unlike a clone it is none who will ask for the job's result, so an error that
    /// ends the job is written into the log when all others are gone, as if this one were not there.
    pub fn observer(&self) -> Self {
        Self { owner: None, ..self.clone() }
    }

    /// Lets the end of the job wait, for ten seconds at most, until the returned guard is dropped.
    /// [`wait`](Self::wait) returns only then, and with it, as a rule, the process ends: whoever is about to
    /// tell somebody what became of the job gets to the end of the sentence.
    pub fn hold_end(&self) -> EndHold {
        self.shared.holds.0.fetch_add(1, Ordering::SeqCst);
        EndHold(self.shared.holds.clone(), self.shared.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_state_that_a_job_was_in_twice_the_last_time_counts() {
        let mut times = StatusTimes::default();
        for (at, status) in [
            JobStatus::Created,
            JobStatus::Running,
            JobStatus::Running,
            JobStatus::Failing,
            JobStatus::Running,
        ]
        .into_iter()
        .enumerate()
        {
            times.see(status, || at as i64);
        }
        let shown: Vec<_> = times.0.iter().map(|(status, at)| (status.name(), at.as_millis())).collect();
        assert_eq!(shown, [("CREATED", 0), ("FAILING", 3), ("RUNNING", 4)]);
    }
}
