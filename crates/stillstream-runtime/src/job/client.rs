//! What the program that submitted a job holds: watch it, trigger a checkpoint, cancel it, wait for its end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use stillstream_jobmaster::{
    CheckpointReport, CheckpointStatistics, CheckpointSummary, ExceptionEntry, JobEvent, JobStatus,
    RequestId, StopRequest,
};
use stillstream_storage::StorageOptions;
use stillstream_types::{
    CheckpointId, CheckpointType, Error, ErrorKind, JobEnd, JobFigures, Result, SavepointFormat, Timestamp,
};

use super::event_times::{EventTimes, TaskEventTime};
use super::info::JobInfo;
use super::look::{Holds, RestoredFrom, StatusTimes};
use super::manager::Message;
use super::savepoints::{MadeFor, SavepointPlaces};
use super::settings::JobSettings;
use crate::clock::{Clock, SystemClock};
pub use crate::metrics::JobMetrics;

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

/// How a job came to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum JobEnding {
    /// All its input is through.
    #[default]
    Finished,
    /// It was stopped with the savepoint in this directory. It does not run again unless a person says from
    /// where.
    Stopped(String),
    /// It was stopped with a last checkpoint, and its next start goes on from there.
    Suspended {
        /// Its newest checkpoint; `None`: it had none yet, and begins anew.
        checkpoint: Option<CheckpointId>,
        /// Whether the checkpoint is still there when the process has ended. One in memory is not.
        kept: bool,
    },
}

impl JobEnding {
    /// How the job goes on, for people.
    pub(crate) fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Finished => return None,
            Self::Stopped(savepoint) => format!("`--from {savepoint}` goes on from its savepoint"),
            Self::Suspended { kept: false, .. } => {
                "its checkpoints were in memory and nothing is kept: the next start begins anew".into()
            }
            Self::Suspended { checkpoint: Some(id), .. } => {
                format!("start it again to go on from checkpoint {id}")
            }
            Self::Suspended { checkpoint: None, .. } => {
                "it had no checkpoint yet: the next start begins anew".into()
            }
        })
    }
}

impl JobEnding {
    /// The same as a verb: `job .. <this>`.
    pub(crate) fn said(&self) -> String {
        match self {
            Self::Finished => self.to_string(),
            Self::Stopped(_) | Self::Suspended { .. } => format!("was {self}"),
        }
    }
}

impl fmt::Display for JobEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("finished"),
            Self::Stopped(savepoint) => write!(f, "stopped with savepoint {savepoint}"),
            Self::Suspended { checkpoint: Some(id), kept: true } => write!(f, "stopped at checkpoint {id}"),
            Self::Suspended { .. } => f.write_str("stopped, and nothing is kept"),
        }
    }
}

/// What a person wants to know when a job has ended.
#[derive(Clone, Debug, Default)]
pub struct JobResult {
    /// The job's name.
    pub name: String,
    /// Records that sources emitted in this process's run, those that were read again after a failure
    /// included.
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
    /// How it ended.
    pub ending: JobEnding,
    /// When the job had finished, if it had before this start: then nothing was run, and all figures are
    /// those of the run that finished it. [`Timestamp::MIN`] if that is not known, for a release before this
    /// one recorded it.
    pub finished_before: Option<Timestamp>,
}

impl JobResult {
    pub(crate) fn of(name: &str, figures: JobFigures) -> Self {
        Self {
            name: name.into(),
            records_in: figures.records_in,
            records_out: figures.records_out,
            duration: Duration::from_millis(figures.duration_ms),
            restarts: figures.restarts,
            resumed_from: figures.resumed_from,
            checkpoints: CheckpointTotals {
                completed: figures.checkpoints_completed,
                failed: figures.checkpoints_failed,
                last_id: figures.last_checkpoint,
                last_size_bytes: figures.last_checkpoint_bytes,
                slowest: Duration::from_millis(figures.slowest_checkpoint_ms),
            },
            counters: figures.counters,
            ending: JobEnding::Finished,
            finished_before: None,
        }
    }

    /// The result that the register of a finished job has.
    pub(crate) fn recorded(name: &str, end: Option<JobEnd>) -> Self {
        let at = end.as_ref().map_or(Timestamp::MIN, |end| Timestamp::from_millis(end.at_ms));
        let figures = end.map(|end| end.figures).unwrap_or_default();
        Self { finished_before: Some(at), ..Self::of(name, figures) }
    }
}

impl fmt::Display for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.finished_before {
            write!(f, "finished before, at {at}; ")?;
        }
        write!(
            f,
            "{}: {} records in, {} out, {:.2} s, {} restarts, {} checkpoints",
            self.name,
            self.records_in,
            self.records_out,
            self.duration.as_secs_f64(),
            self.restarts,
            self.checkpoints.completed
        )?;
        match self.ending {
            JobEnding::Finished => Ok(()),
            JobEnding::Stopped(_) | JobEnding::Suspended { .. } => write!(f, "; {}", self.ending),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Published {
    pub status: Option<JobStatus>,
    pub status_times: StatusTimes,
    pub restarts: u64,
    pub statistics: CheckpointStatistics,
    pub in_progress: Vec<CheckpointSummary>,
    pub kept: Vec<CheckpointId>,
    pub restored: Option<RestoredFrom>,
    pub exceptions: Vec<ExceptionEntry>,
    pub metrics: JobMetrics,
    pub result: Option<Result<JobResult>>,
    pub ended: bool,
    /// The error in `result` is not in the log: whoever takes it says it.
    pub unsaid: bool,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub published: Mutex<Published>,
    pub event_times: Mutex<EventTimes>,
    pub changed: Condvar,
    pub holds: Arc<Holds>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("published", &self.published).finish_non_exhaustive()
    }
}

/// What all have in common who may ask for the job's result.
#[derive(Debug)]
pub(crate) struct Owner(pub Arc<Shared>);

impl Drop for Owner {
    /// An error that nobody has asked for must not be lost.
    fn drop(&mut self) {
        let published = self.0.published.lock();
        if let (true, Some(Err(error))) = (published.unsaid, &published.result) {
            tracing::error!("{error}");
        }
    }
}

/// A running job. Clones are the same job; it goes on when all are dropped.
#[derive(Clone)]
pub struct JobClient {
    pub(crate) messages: mpsc::Sender<Message>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) info: Arc<JobInfo>,
    /// `None` for an observer.
    #[expect(dead_code, reason = "what counts is when the last one is dropped")]
    pub(crate) owner: Option<Arc<Owner>>,
    pub(crate) savepoints: Arc<SavepointPlaces>,
    pub(crate) takes_checkpoints: bool,
}

impl fmt::Debug for JobClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobClient({}, {:?})", self.name(), self.status())
    }
}

impl JobClient {
    /// A job that has finished before, or that another process has run.
    pub(crate) fn ended(result: JobResult, settings: &JobSettings) -> Self {
        let shared = Arc::new(Shared::default());
        let info = Arc::new(JobInfo::of_settings(settings));
        {
            let mut published = shared.published.lock();
            published.status = Some(JobStatus::Finished);
            published.restarts = result.restarts;
            published.metrics = JobMetrics {
                records_in: result.records_in,
                records_out: result.records_out,
                counters: result.counters.clone(),
                ..JobMetrics::default()
            };
            published.result = Some(Ok(result));
            published.ended = true;
        }
        let clock = Arc::new(SystemClock::default());
        let savepoints = Arc::new(SavepointPlaces::of(settings, MadeFor::default()));
        Self {
            messages: mpsc::channel().0,
            owner: Some(Arc::new(Owner(shared.clone()))),
            shared,
            clock,
            info,
            savepoints,
            takes_checkpoints: false,
        }
    }

    /// The JobManager's thread has panicked: whoever waits for the job learns of it.
    pub(crate) fn broke(&self, error: Error) {
        let error = error.context(format!("job `{}` was left where it stood", self.name()));
        tracing::error!("{error}");
        let mut published = self.shared.published.lock();
        if !published.ended {
            published.status = Some(JobStatus::Failed);
            published.result = Some(Err(error));
            published.ended = true;
        }
        drop(published);
        self.shared.changed.notify_all();
    }

    /// The job's name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Where the job stands.
    pub fn status(&self) -> JobStatus {
        self.shared.published.lock().status.unwrap_or(JobStatus::Initializing)
    }

    /// How the job reaches its checkpoints and savepoints, wherever they are.
    pub fn storage_options(&self) -> &StorageOptions {
        self.savepoints.options()
    }

    /// Whether the job takes checkpoints by itself. One that does not has nothing to go on from but
    /// savepoints.
    pub fn takes_checkpoints(&self) -> bool {
        self.takes_checkpoints
    }

    /// Whether [`wait`](Self::wait) would return at once.
    pub fn has_ended(&self) -> bool {
        self.shared.published.lock().ended
    }

    /// How often it was restarted so far.
    pub fn restarts(&self) -> u64 {
        self.shared.published.lock().restarts
    }

    /// Its checkpoints: counts, the last one, the newest ten.
    pub fn checkpoint_statistics(&self) -> CheckpointStatistics {
        self.shared.published.lock().statistics.clone()
    }

    /// Figures of the run so far.
    pub fn metrics(&self) -> JobMetrics {
        self.shared.published.lock().metrics.clone()
    }

    /// Where event time stands: for each subtask that has inputs, and each channel that it reads. A few times
    /// a second at most a subtask says how far it is, so a figure can be half a second old.
    ///
    /// Each [`TaskEventTime`] can be shown: it says who holds event time back there.
    pub fn event_time(&self) -> Vec<TaskEventTime> {
        self.shared.event_times.lock().read()
    }

    /// Asks the job to stop without a last checkpoint; [`wait`](Self::wait) then returns an error of kind
    /// `Cancelled`.
    pub fn cancel(&self) {
        // a job that has ended needs no message
        let _ = self.messages.send(Message::Event(JobEvent::Cancel));
    }

    /// Takes a checkpoint now and waits until it is complete.
    ///
    /// # Errors
    /// If the checkpoint fails, the job ends before it is complete, or checkpointing is off: the job then has
    /// nowhere to keep one, and its sinks commit at the end only.
    pub fn trigger_checkpoint(&self) -> Result<CheckpointReport> {
        self.trigger_checkpoint_of_type(CheckpointType::Configured)
    }

    /// [`trigger_checkpoint`](Self::trigger_checkpoint), and says of which type. A
    /// [full](CheckpointType::Full) one of a job whose checkpoints are incremental writes all state anew, and
    /// the later ones build on it: when it is complete and those before it are subsumed, nothing needs their
    /// files any more. So a chain of checkpoints on a storage that one does not trust can be begun anew while
    /// the job runs.
    ///
    /// ```no_run
    /// # fn full(job: &stillstream_runtime::job::JobClient) -> stillstream_types::Result<()> {
    /// use stillstream_types::CheckpointType;
    /// let report = job.trigger_checkpoint_of_type(CheckpointType::Full)?;
    /// println!("checkpoint {} lies in {}", report.id, report.path);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As those of [`trigger_checkpoint`](Self::trigger_checkpoint); and if an
    /// [incremental](CheckpointType::Incremental) one is wanted of a job that takes none.
    pub fn trigger_checkpoint_of_type(&self, kind: CheckpointType) -> Result<CheckpointReport> {
        self.request("checkpoint", move |request| JobEvent::TriggerCheckpoint(request, kind))
    }

    /// Takes a savepoint and waits until it is complete. The report's path is its directory, which `--from`
    /// takes. The job goes on, and neither its checkpoints nor its output are touched; a job without periodic
    /// checkpoints can take one too.
    ///
    /// It lies in `directory`, or below `execution.checkpointing.savepoint-dir` where none is given, in a
    /// directory of its own: `savepoint-<6 of the job's id>-<random>`. That holds all that is needed to go on
    /// from it, can be moved and copied, and is never deleted by the system.
    ///
    /// # Errors
    /// If no directory is given or it cannot be made, if the savepoint fails, or if the job ends before it is
    /// complete.
    pub fn trigger_savepoint(
        &self,
        directory: Option<&str>,
        format: SavepointFormat,
    ) -> Result<CheckpointReport> {
        let target = self.savepoints.make(directory, format)?;
        let (savepoints, made) = (self.savepoints.clone(), target.clone());
        let taken = self.request("savepoint", |request| JobEvent::TriggerSavepoint(request, target));
        taken.inspect(|_| savepoints.keep(&made)).inspect_err(|_| savepoints.forget(&made))
    }

    /// Stops the job with a savepoint, and waits until all its output is committed and the stop is recorded.
    /// [`wait`](Self::wait) then says where the savepoint is. The job does not run again unless a person says
    /// from where.
    ///
    /// `drain`: event time ends first, so that every window and every timer of event time fires, as at the
    /// end of the input. Right for a job that ends for good: one that goes on from the savepoint would find
    /// its windows fired.
    ///
    /// For the directory see [`trigger_savepoint`](Self::trigger_savepoint).
    ///
    /// # Errors
    /// If that fails: the job then goes on, perhaps after a restart, and the error says why.
    pub fn stop_with_savepoint(
        &self,
        directory: Option<&str>,
        drain: bool,
        format: SavepointFormat,
    ) -> Result<CheckpointReport> {
        let target = self.savepoints.make(directory, format)?;
        let (savepoints, made) = (self.savepoints.clone(), target.clone());
        let how = StopRequest { savepoint: Some(target), drain };
        let stopped = self.request("savepoint", |request| JobEvent::Stop(request, how));
        stopped.inspect(|_| savepoints.keep(&made)).inspect_err(|_| savepoints.forget(&made))
    }

    /// Stops the job with a last checkpoint, and waits until all its output is committed and the stop is
    /// recorded. The next start of the job goes on from that checkpoint by itself.
    ///
    /// # Errors
    /// If that fails: the job then goes on, perhaps after a restart, and the error says why.
    pub fn stop(&self) -> Result<CheckpointReport> {
        let how = StopRequest { savepoint: None, drain: false };
        self.request("checkpoint", |request| JobEvent::Stop(request, how))
    }

    fn request(
        &self,
        what: &str,
        event: impl FnOnce(RequestId) -> JobEvent + Send + 'static,
    ) -> Result<CheckpointReport> {
        let (reply, answer) = mpsc::channel();
        let gone = || {
            Error::new(ErrorKind::Checkpoint, format!("job `{}` has ended; no {what} was taken", self.name()))
        };
        self.messages.send(Message::Request(Box::new(event), reply)).map_err(|_| gone())?;
        match answer.recv() {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(failure)) => Err(Error::wrap(ErrorKind::Checkpoint, failure)),
            Err(_) => Err(gone()),
        }
    }

    /// Blocks until `condition` holds for the job's state, or `timeout` has passed (`false`).
    pub fn wait_until(&self, timeout: Duration, mut condition: impl FnMut(&Self) -> bool) -> bool {
        // what the condition looks at may change without a word from the JobManager, so it is asked again now
        // and then
        let pause = Duration::from_millis(20);
        let until = self.clock.elapsed().saturating_add(timeout);
        loop {
            if condition(self) {
                return true;
            }
            let left = until.saturating_sub(self.clock.elapsed());
            if left.is_zero() {
                return false;
            }
            let mut published = self.shared.published.lock();
            // a wake-up may come at any time: only the clock says how much time has passed
            self.shared.changed.wait_for(&mut published, left.min(pause));
        }
    }

    /// Waits for the end of the job.
    ///
    /// # Errors
    /// The error that ended it; `Cancelled` if it was cancelled.
    pub fn wait(self) -> Result<JobResult> {
        let mut published = self.shared.published.lock();
        while !published.ended {
            self.shared.changed.wait(&mut published);
        }
        published.result.take().unwrap_or_else(|| {
            Err(Error::new(
                ErrorKind::Plan,
                format!("the result of job `{}` was already taken by another `wait`", self.name()),
            ))
        })
    }
}
