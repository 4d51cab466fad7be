//! What the program that submitted a job holds: watch it, trigger a checkpoint, cancel it, wait for its end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use stillstream_checkpoint::{CheckpointReport, CheckpointStatistics, JobStatus};
use stillstream_types::{CheckpointId, Error, ErrorKind, Result};

use super::event_times::{EventTimes, TaskEventTime};
use super::manager::Message;

/// Checkpoints of a whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointTotals {
    /// Completed ones.
    pub completed: u64,
    /// Aborted, declined and expired ones.
    pub failed: u64,
    /// The newest completed one.
    pub last_id: Option<CheckpointId>,
    /// Bytes of state of the newest completed one.
    pub last_size_bytes: u64,
    /// The longest from trigger to completion.
    pub slowest: Duration,
}

/// What a person wants to know when a job has ended.
#[derive(Clone, Debug, Default)]
pub struct JobResult {
    /// The job's name.
    pub name: String,
    /// Records that sources emitted in this process's run, those that were read again after a failure included.
    pub records_in: u64,
    /// Records that reached a sink, those that were written again after a failure included.
    pub records_out: u64,
    /// From submission to the end.
    pub duration: Duration,
    /// How often the job was restarted.
    pub restarts: u64,
    /// The checkpoint that the run started from.
    pub resumed_from: Option<CheckpointId>,
    /// Its checkpoints.
    pub checkpoints: CheckpointTotals,
    /// Rare events by name, such as `windows.late` or `flights.malformed`.
    pub counters: BTreeMap<String, u64>,
}

impl fmt::Display for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} records in, {} out, {:.2} s, {} restarts, {} checkpoints",
            self.name,
            self.records_in,
            self.records_out,
            self.duration.as_secs_f64(),
            self.restarts,
            self.checkpoints.completed
        )
    }
}

/// Figures of a running job.
#[derive(Clone, Debug, Default)]
pub struct JobMetrics {
    /// See [`JobResult::records_in`].
    pub records_in: u64,
    /// See [`JobResult::records_out`].
    pub records_out: u64,
    /// The most records that were ever in flight on one edge to one worker, as of the end of the last attempt.
    pub max_in_flight: u64,
    /// Rare events by name.
    pub counters: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Board {
    pub status: Option<JobStatus>,
    pub restarts: u64,
    pub statistics: CheckpointStatistics,
    pub metrics: JobMetrics,
    pub result: Option<Result<JobResult>>,
    pub ended: bool,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub board: Mutex<Board>,
    pub event_times: Mutex<EventTimes>,
    pub changed: Condvar,
}

/// A running job. Clones are the same job; it goes on when all are dropped.
#[derive(Clone)]
pub struct JobClient {
    pub(crate) messages: mpsc::Sender<Message>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: Arc<str>,
}

impl fmt::Debug for JobClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobClient({}, {:?})", self.name, self.status())
    }
}

impl JobClient {
    /// A job that another process has run.
    pub(crate) fn ended(name: &str) -> Self {
        let shared = Arc::new(Shared::default());
        {
            let mut board = shared.board.lock();
            board.status = Some(JobStatus::Finished);
            board.result = Some(Ok(JobResult { name: name.into(), ..JobResult::default() }));
            board.ended = true;
        }
        Self { messages: mpsc::channel().0, shared, name: name.into() }
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the job stands.
    pub fn status(&self) -> JobStatus {
        self.shared.board.lock().status.unwrap_or(JobStatus::Initializing)
    }

    /// How often it was restarted so far.
    pub fn restarts(&self) -> u64 {
        self.shared.board.lock().restarts
    }

    /// Its checkpoints: counts, the last one, the newest ten.
    pub fn checkpoint_statistics(&self) -> CheckpointStatistics {
        self.shared.board.lock().statistics.clone()
    }

    /// Figures of the run so far.
    pub fn metrics(&self) -> JobMetrics {
        self.shared.board.lock().metrics.clone()
    }

    /// Where event time stands: for each subtask that has inputs, and each channel that it reads. A few times a second at most a
    /// subtask says how far it is, so a figure can be half a second old.
    ///
    /// Each [`TaskEventTime`] can be shown: it says who holds event time back there.
    pub fn event_time(&self) -> Vec<TaskEventTime> {
        self.shared.event_times.lock().read()
    }

    /// Asks the job to stop without a last checkpoint; [`wait`](Self::wait) then returns an error of kind `Cancelled`.
    pub fn cancel(&self) {
        // a job that has ended needs no message
        let _ = self.messages.send(Message::Cancel);
    }

    /// Takes a checkpoint now and waits until it is complete.
    ///
    /// # Errors
    /// If the checkpoint fails, the job ends before it is complete, or checkpointing is off: the job then has nowhere to keep
    /// one, and its sinks commit at the end only.
    pub fn trigger_checkpoint(&self) -> Result<CheckpointReport> {
        let (reply, answer) = mpsc::channel();
        let gone = || {
            Error::new(
                ErrorKind::Checkpoint,
                format!("job `{}` has ended; no checkpoint was taken", self.name),
            )
        };
        self.messages.send(Message::TriggerCheckpoint(reply)).map_err(|_| gone())?;
        match answer.recv() {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(failure)) => Err(Error::wrap(ErrorKind::Checkpoint, failure)),
            Err(_) => Err(gone()),
        }
    }

    /// Blocks until `condition` holds for the job's state, or `timeout` has passed (`false`).
    pub fn wait_until(&self, timeout: Duration, mut condition: impl FnMut(&Self) -> bool) -> bool {
        let mut left = timeout;
        loop {
            if condition(self) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            let step = left.min(Duration::from_millis(20));
            let mut board = self.shared.board.lock();
            self.shared.changed.wait_for(&mut board, step);
            left -= step;
        }
    }

    /// Waits for the end of the job.
    ///
    /// # Errors
    /// The error that ended it; `Cancelled` if it was cancelled.
    pub fn wait(self) -> Result<JobResult> {
        let mut board = self.shared.board.lock();
        while !board.ended {
            self.shared.changed.wait(&mut board);
        }
        board.result.take().unwrap_or_else(|| {
            Err(Error::new(
                ErrorKind::Plan,
                format!("the result of job `{}` was already taken by another `wait`", self.name),
            ))
        })
    }
}
