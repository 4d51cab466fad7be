//! The JobManager: receives, asks the job engine, and carries out what it says. It decides nothing.
//!
//! | file | what is inside |
//! |---|---|
//! | this one | the loop and the engine's commands |
//! | `restoring` | what an attempt starts from is read, and handed to the workers |
//! | `publishing` | what clients read of a running job, and its result |
//! | `saying` | what is written into the log |

mod publishing;
mod restoring;
mod saying;

pub(super) use restoring::tasks;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use stillstream_jobmaster::{
    CheckpointFailure, CheckpointReport, Control, JobCommand, JobEngine, JobEvent, Moment, Report, RequestId,
    StorageAnswer,
};
use stillstream_storage::Neighbours;
use stillstream_types::crash::crash_point;
use stillstream_types::{CheckpointKind, Error, ErrorKind, Result};

use super::checkpoint_storage::JobCheckpointStorage;
use super::client::{JobEnding, JobMetrics, JobResult, Shared};
use super::enumerators::Enumerators;
use super::info::JobInfo;
use super::io::IoThreads;
use super::job_log::JobLog;
use super::look::{RestoredFrom, StatusTimes};
use super::progress::Progress;
use super::settings::JobSettings;
use crate::checkpoint::snapshot_pool::SnapshotStores;
use crate::clock::Clock;
use crate::cluster::fleet::Fleet;
use crate::metrics::Counters;
use crate::plan::PhysicalPlan;

/// What reaches the JobManager.
pub(crate) enum Message {
    /// Something that the engine is to know.
    Event(JobEvent),
    /// A client wants a checkpoint, a savepoint or a stop, and waits for the answer.
    Request(Box<dyn FnOnce(RequestId) -> JobEvent + Send>, Reply),
}

type Reply = mpsc::Sender<Result<CheckpointReport, CheckpointFailure>>;

/// The shell of one job.
pub(crate) struct Manager {
    pub settings: JobSettings,
    pub physical: Arc<PhysicalPlan>,
    pub engine: JobEngine,
    pub fleet: Box<dyn Fleet>,
    pub checkpoints: Arc<dyn JobCheckpointStorage>,
    pub io: IoThreads,
    pub stores: Arc<dyn SnapshotStores>,
    pub clock: Arc<dyn Clock>,
    pub messages: mpsc::Receiver<Message>,
    pub shared: Arc<Shared>,
    pub info: Arc<JobInfo>,
    pub counters: Arc<Counters>,
    pub state: State,
}

/// What only the shell needs to remember.
pub(crate) struct State {
    requests: HashMap<RequestId, Reply>,
    next_request: u64,
    started: Duration,
    result: Option<Result<()>>,
    /// Who wants the job to stop, and where the savepoint is that it was stopped with.
    stops: HashSet<RequestId>,
    savepoint: Option<String>,
    progress: Progress,
    log: JobLog,
    /// Filled in where the job has no checkpoint to start from.
    neighbours: Arc<OnceLock<Neighbours>>,
    status_times: StatusTimes,
    restored: Option<RestoredFrom>,
    enumerators: Enumerators,
}

impl State {
    pub fn new(settings: &JobSettings, now: Duration) -> Self {
        Self {
            requests: HashMap::new(),
            next_request: 0,
            started: now,
            result: None,
            stops: HashSet::new(),
            savepoint: None,
            progress: Progress::new(settings.progress),
            log: JobLog::new(now),
            neighbours: Arc::default(),
            status_times: StatusTimes::default(),
            restored: None,
            enumerators: Enumerators::default(),
        }
    }
}

impl Manager {
    /// Runs the job to its end.
    pub fn run(mut self) {
        self.handle(JobEvent::Submitted);
        while self.state.result.is_none() {
            match self.messages.recv_timeout(self.patience()) {
                Ok(message) => {
                    self.receive(message);
                    while let Ok(message) = self.messages.try_recv() {
                        self.receive(message);
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break, // cannot be: the manager holds a sender itself
            }
            if self.engine.wake_at().is_some_and(|at| at <= self.clock.elapsed()) {
                self.handle(JobEvent::Tick);
            }
            self.publish();
        }
        self.end();
    }

    fn patience(&self) -> Duration {
        // figures are published a few times a second, whatever happens
        let (now, longest) = (self.clock.elapsed(), Duration::from_millis(200));
        let left = self.engine.wake_at().map_or(longest, |at| at.saturating_sub(now));
        left.clamp(Duration::from_micros(200), longest)
    }

    fn receive(&mut self, message: Message) {
        let event = match message {
            Message::Request(event, reply) => {
                let request = RequestId(self.state.next_request);
                self.state.next_request += 1;
                self.state.requests.insert(request, reply);
                let event = event(request);
                if let JobEvent::Stop(..) = event {
                    self.state.stops.insert(request);
                }
                event
            }
            Message::Event(JobEvent::Report(generation, Report::EventTime { subtask, time })) => {
                // for clients; the engine decides nothing by it
                if generation == self.engine.generation() {
                    self.shared.event_times.lock().learn(subtask, time);
                }
                return;
            }
            Message::Event(JobEvent::Report(generation, Report::SplitsWanted(reader))) => {
                return self.state.enumerators.request(generation, reader);
            }
            Message::Event(event) => event,
        };
        if let JobEvent::Report(generation, Report::Acknowledged { .. }) = &event
            && *generation == self.engine.generation()
        {
            passing("after-acknowledge");
        }
        self.handle(event);
    }

    fn moment(&self) -> Moment {
        Moment { now: self.clock.elapsed(), wall_ms: self.clock.now_ms(), random: random_unit() }
    }

    /// Asks the engine, and carries out what it says.
    fn handle(&mut self, event: JobEvent) {
        if event.may_end_the_job() {
            let measured = self.measure();
            self.engine.handle(JobEvent::Measured(measured), self.moment());
        }
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for command in self.engine.handle(event, self.moment()) {
                events.extend(self.carry_out(command));
            }
            self.state.status_times.see(self.engine.status(), || self.clock.now_ms());
        }
    }

    /// Begins what is wanted; gives back an answer that comes at once.
    fn carry_out(&mut self, command: JobCommand) -> Option<JobEvent> {
        match command {
            JobCommand::Storage(call) => self.io.call(&self.checkpoints, call),
            JobCommand::ReadSnapshot { generation, from } => self.read_snapshot(generation, from),
            JobCommand::Deploy(spec) => return self.deploy(spec),
            JobCommand::Tell { control, .. } => {
                match control {
                    Control::Complete { .. } => passing("before-notification"),
                    // nothing more is read
                    Control::Drain | Control::Finish | Control::Stop => self.state.enumerators.end(),
                    _ => {}
                }
                self.fleet.send(control);
            }
            JobCommand::Replace { workers } => return Some(self.replace(workers)),
            JobCommand::Reply { request, result } => {
                if let (true, Ok(report)) = (self.state.stops.remove(&request), &result)
                    && report.kind == CheckpointKind::Savepoint
                {
                    self.state.savepoint = Some(report.path.clone());
                }
                self.say_answer(&result);
                if let Some(reply) = self.state.requests.remove(&request) {
                    let located = |report: CheckpointReport| CheckpointReport {
                        path: self.checkpoints.locate(&report.path),
                        ..report
                    };
                    // the client may have gone away
                    let _ = reply.send(result.map(located));
                }
            }
            JobCommand::Restarting { error, delay, times } => self.say_restart(&error, delay, times),
            JobCommand::StillStopping { workers, after } => self.say_still_stopping(&workers, after),
            JobCommand::Warn(text) => self.warn(&text),
            JobCommand::Log(level, text) => self.write(level, &text),
            JobCommand::Reached(point) => passing(point),
            JobCommand::End(result) => self.state.result = Some(result),
        }
        None
    }

    fn replace(&mut self, workers: Vec<usize>) -> JobEvent {
        let timeout = self.settings.cancellation_timeout;
        let who = self.names(&workers);
        let message = format!("{who} did not stop within {timeout:?} (task.cancellation.timeout)");
        tracing::error!(job = %self.settings.name, "{message}");
        match self.fleet.replace(&workers) {
            Ok(()) => JobEvent::Replaced { workers },
            Err(error) => JobEvent::NotReplaced { error: error.context(message) },
        }
    }
}

/// A place where a test may make the JobManager die.
fn passing(point: &str) {
    if let Err(crash) = crash_point(point) {
        tracing::warn!("{crash}: the JobManager goes on");
    }
}

/// A random number from 0 to 1.
pub(super) fn random_unit() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
