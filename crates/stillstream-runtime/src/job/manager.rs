//! The JobManager: runs the coordinator's commands, starts and stops attempts, asks the restart strategy.
//!
//! It is a shell: what is decided is decided in `stillstream-jobmaster`, by engines that know neither clock nor thread.
//!
//! | file | what is inside |
//! |---|---|
//! | this one | the loop, the coordinator's commands, the workers' reports |
//! | `board` | what clients read of a running job, and its result |
//! | `deploy` | the start of an attempt |
//! | `saying` | what is written into the log |
//! | `stopping` | how an attempt stops, and what follows |
//! | `ending` | how the job ends |

mod board;
mod deploy;
mod ending;
mod saying;
mod stopping;

pub(super) use stopping::random_unit;

use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stillstream_jobmaster::plan_restore;
use stillstream_jobmaster::{
    AckMetrics, CheckpointCoordinator, CheckpointFailure, CheckpointReport, Command, Event, FailureReason,
    JobState, JobStatus, OperatorInfo, Repetition, RequestId, RestartDecision, RestartStrategy,
    RestartStrategyConfig, Retention, TaskInfo,
};
use stillstream_storage::Neighbours;
use stillstream_types::crash::crash_point;
use stillstream_types::{
    CheckpointId, CheckpointKind, CompletedRef, Error, ErrorKind, Generation, JobFigures, JobOutcome, Result,
    SubtaskId, SubtaskIndex,
};

use super::client::{JobMetrics, JobResult, Shared};
use super::fleet::Fleet;
use super::home::CheckpointHome;
use super::io::IoThreads;
use super::job_log::JobLog;
use super::progress::Progress;
use super::settings::JobSettings;
use crate::clock::Clock;
use crate::control::{AttemptSpec, Control, Report, RestoredState, SnapshotTimes};
use crate::metrics::Counters;
use crate::plan::PhysicalPlan;

/// What reaches the JobManager.
pub(crate) enum Message {
    /// From a worker.
    Report(Generation, Report),
    /// An answer to one of the coordinator's commands.
    Engine(Event),
    /// What an attempt starts from has been read.
    Restored(Generation, Result<Option<RestoredState>>),
    /// A thread of the runtime has panicked, and with it went what the JobManager may be waiting for.
    ThreadPanicked(Error),
    /// From the client.
    Cancel,
    /// From the client.
    TriggerCheckpoint(mpsc::Sender<Result<CheckpointReport, CheckpointFailure>>),
}

#[derive(Debug)]
enum Why {
    /// The restart strategy decides.
    Failure(Error),
    Cancel,
    /// The job ends with this error, and nothing can be recorded: another process owns it, or the register is away.
    Over(Error),
}

enum Phase {
    /// The register, or the state to restore, is being read; the latter has to be there at this time.
    Preparing {
        until: Option<Duration>,
    },
    /// Workers are opening their tasks.
    Deploying(BTreeSet<SubtaskId>),
    Running,
    /// The dataflow drains. Once everything is committed and recorded, it has until then.
    Draining {
        until: Option<Duration>,
    },
    Stopping {
        why: Why,
        deadline: Duration,
        warned: bool,
    },
    WaitingToRestart {
        at: Duration,
    },
    /// The outcome is being written into the register. The coordinator says how that went, and when its time is over.
    Ending {
        error: Error,
    },
    Ended,
}

impl Phase {
    /// Whether workers have an attempt that they have not all dropped.
    fn has_attempt(&self) -> bool {
        matches!(self, Self::Deploying(_) | Self::Running | Self::Draining { .. } | Self::Stopping { .. })
    }
}

pub(crate) struct Manager {
    pub settings: JobSettings,
    pub physical: Arc<PhysicalPlan>,
    pub coordinator: CheckpointCoordinator,
    pub fleet: Box<dyn Fleet>,
    pub home: Arc<dyn CheckpointHome>,
    pub io: IoThreads,
    pub clock: Arc<dyn Clock>,
    pub messages: mpsc::Receiver<Message>,
    pub shared: Arc<Shared>,
    pub counters: Arc<Counters>,
    state: State,
}

struct State {
    job: JobState,
    strategy: RestartStrategy,
    repetition: Repetition,
    phase: Phase,
    generation: Generation,
    stopped: BTreeSet<usize>,
    not_ended: BTreeSet<SubtaskId>,
    wake_at: Option<Duration>,
    requests: HashMap<RequestId, mpsc::Sender<Result<CheckpointReport, CheckpointFailure>>>,
    next_request: u64,
    resumed_from: Option<CheckpointId>,
    started: Duration,
    slowest: Duration,
    result: Option<Result<()>>,
    /// The register says that the job has finished: no other outcome can be written and no attempt begun.
    finished: bool,
    progress: Progress,
    log: JobLog,
    /// Filled in where the job has no checkpoint to start from.
    neighbours: Arc<OnceLock<Neighbours>>,
}

fn metrics_of(times: &SnapshotTimes) -> AckMetrics {
    AckMetrics {
        start_delay: Duration::from_micros(times.start_delay_us),
        alignment: Duration::from_micros(times.alignment_us),
        synchronous: Duration::from_micros(times.sync_us),
        asynchronous: Duration::from_micros(times.async_us),
    }
}

/// What the manager is made of.
pub(crate) struct Parts {
    pub settings: JobSettings,
    pub physical: Arc<PhysicalPlan>,
    pub coordinator: CheckpointCoordinator,
    pub fleet: Box<dyn Fleet>,
    pub home: Arc<dyn CheckpointHome>,
    pub io: IoThreads,
    pub clock: Arc<dyn Clock>,
    pub messages: mpsc::Receiver<Message>,
    pub shared: Arc<Shared>,
    pub counters: Arc<Counters>,
}

impl Manager {
    pub fn new(parts: Parts) -> Self {
        let Parts { settings, physical, coordinator, fleet, home, io, clock, messages, shared, counters } =
            parts;
        let checkpointing = settings.checkpoint.interval.is_some();
        let restart = settings.restart.unwrap_or_else(|| RestartStrategyConfig::default_for(checkpointing));
        let state = State {
            job: JobState::new(),
            strategy: RestartStrategy::new(restart),
            repetition: Repetition::default(),
            phase: Phase::Preparing { until: None },
            generation: Generation(0),
            stopped: BTreeSet::new(),
            not_ended: BTreeSet::new(),
            wake_at: None,
            requests: HashMap::new(),
            next_request: 0,
            resumed_from: None,
            started: clock.elapsed(),
            slowest: Duration::ZERO,
            result: None,
            finished: false,
            progress: Progress::new(settings.progress),
            log: JobLog::new(clock.elapsed()),
            neighbours: Arc::default(),
        };
        Self { settings, physical, coordinator, fleet, home, io, clock, messages, shared, counters, state }
    }

    fn checkpointing(&self) -> bool {
        self.settings.checkpoint.interval.is_some()
    }

    /// Runs the job to its end.
    pub fn run(mut self) {
        self.advance(JobStatus::Created);
        self.request_attempt();
        while !matches!(self.state.phase, Phase::Ended) {
            let timeout = self.next_timeout();
            match self.messages.recv_timeout(timeout) {
                Ok(message) => {
                    self.handle(message);
                    while let Ok(message) = self.messages.try_recv() {
                        self.handle(message);
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break, // cannot be: the manager holds a sender itself
            }
            self.timers();
            self.publish();
        }
        self.end();
    }

    fn next_timeout(&self) -> Duration {
        let now = self.clock.elapsed();
        let mut next = now + Duration::from_millis(200);
        if let Some(at) = self.state.wake_at {
            next = next.min(at);
        }
        if let Phase::WaitingToRestart { at } = self.state.phase {
            next = next.min(at);
        }
        next.saturating_sub(now).max(Duration::from_micros(200))
    }

    fn advance(&mut self, to: JobStatus) {
        let from = self.state.job.status();
        if from == to {
            return;
        }
        match self.state.job.advance(to) {
            Ok(()) => tracing::debug!(job = %self.settings.name, "{} -> {}", from.name(), to.name()),
            Err(illegal) => tracing::error!(job = %self.settings.name, "{illegal}"),
        }
    }

    fn engine(&mut self, event: Event) {
        let commands = self.coordinator.handle(event, self.clock.elapsed());
        commands.into_iter().for_each(|command| self.carry_out(command));
    }

    fn request_attempt(&mut self) {
        passing("before-attempt");
        self.state.phase = Phase::Preparing { until: None };
        // the coordinator claims a new generation first; `BeginAttempt` says which
        self.engine(Event::AttemptRequested);
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Report(generation, report) => self.report(generation, report),
            Message::Engine(event) => self.engine(event),
            Message::Restored(generation, restored) if generation == self.state.generation => {
                self.deploy(restored)
            }
            Message::Restored(..) => {}
            // an answer may be missing for ever, so the job ends here and as it stands, as if another had taken it over
            Message::ThreadPanicked(error) => {
                tracing::error!(job = %self.settings.name, "{error}");
                self.stop(Why::Over(error));
            }
            Message::Cancel => self.cancel(),
            Message::TriggerCheckpoint(reply) if !self.checkpointing() => {
                let message = format!(
                    "job `{}` takes no checkpoints; `enable_checkpointing` (execution.checkpointing.interval) changes that",
                    self.settings.name
                );
                // the client may have gone away
                let _ = reply
                    .send(Err(CheckpointFailure::new(FailureReason::PeriodicSchedulerShutdown, message)));
            }
            Message::TriggerCheckpoint(reply) => {
                let request = RequestId(self.state.next_request);
                self.state.next_request += 1;
                self.state.requests.insert(request, reply);
                self.engine(Event::TriggerRequested {
                    request,
                    kind: CheckpointKind::Checkpoint,
                    forced: false,
                });
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        let home = self.home.clone();
        match command {
            Command::UpdateRegister { expected, record } => {
                self.io.run(move || {
                    Message::Engine(Event::RegisterUpdated {
                        outcome: home.update_register(expected, record),
                    })
                });
            }
            Command::ReadRegister => {
                self.io.run(move || Message::Engine(Event::RegisterRead { result: home.read_register() }));
            }
            Command::BeginAttempt { generation, restore_from } => {
                self.read_snapshot(generation, restore_from)
            }
            Command::ListDirectories => {
                self.io.run(move || {
                    Message::Engine(Event::DirectoriesListed { names: home.list_directories() })
                });
            }
            Command::ReadReferences { completed, retained } => self.io.run(move || {
                let references = home.read_references(&completed, &retained);
                Message::Engine(Event::ReferencesRead { references })
            }),
            Command::ListShared => {
                self.io.run_low(move || Message::Engine(Event::SharedListed { result: home.list_shared() }))
            }
            Command::TriggerSources { generation, checkpoint } => {
                if generation == self.state.generation {
                    self.fleet.send(Control::Trigger { id: checkpoint, at_ms: self.clock.now_ms() });
                }
            }
            Command::WriteMetadata { metadata } => {
                let checkpoint = metadata.id;
                self.io.run(move || {
                    Message::Engine(Event::MetadataWritten {
                        checkpoint,
                        outcome: home.write_metadata(&metadata),
                    })
                });
            }
            Command::NotifyComplete { generation, checkpoint } => {
                passing("before-notification");
                if generation == self.state.generation {
                    self.fleet.send(Control::Complete { id: checkpoint });
                }
            }
            Command::NotifyAborted { generation, checkpoint } => {
                if generation == self.state.generation {
                    self.fleet.send(Control::Aborted { id: checkpoint });
                }
            }
            Command::Discard { discard, target } => self.io.run_low(move || {
                let failure = home.discard(&target).err();
                Message::Engine(Event::DiscardDone { discard, failure })
            }),
            Command::Reply { request, result } => {
                if let Some(reply) = self.state.requests.remove(&request) {
                    let result = result.map(|mut report| {
                        report.path = self.home.locate(&report.path);
                        report
                    });
                    // the client may have gone away
                    let _ = reply.send(result);
                }
            }
            Command::FailJob { kind, message } => self.fail(Error::new(kind, message)),
            Command::FinishJob { outcome } => self.finish_job(outcome),
            Command::EndUnrecorded { outcome, message } => self.end_unrecorded(outcome, &message),
            Command::StepDown { owner } => {
                let message = format!(
                    "another process runs job `{}` now (generation {owner}, this one is {}); this one steps down and writes \
                     nothing more",
                    self.settings.name, self.state.generation
                );
                self.stop(Why::Over(Error::new(ErrorKind::Fenced, message)));
            }
            // commands of a later call can come before this one: the earliest counts, and a tick too many does no harm
            Command::WakeAt(at) => {
                self.state.wake_at = Some(self.state.wake_at.map_or(at, |earlier| earlier.min(at)));
            }
            Command::Warn(text) => self.warn(&text),
            Command::Info(text) => tracing::debug!(job = %self.settings.name, "{text}"),
        }
    }

    fn report(&mut self, generation: Generation, report: Report) {
        if generation != self.state.generation {
            if let Report::Acknowledged { checkpoint, subtask, snapshot, times } = report {
                let metrics = metrics_of(&times);
                self.engine(Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics });
            }
            return;
        }
        match report {
            Report::Running(subtask) => {
                if let Phase::Deploying(waiting) = &mut self.state.phase {
                    waiting.remove(&subtask);
                    if waiting.is_empty() {
                        self.state.phase = Phase::Running;
                        self.advance(JobStatus::Running);
                        let tasks = self.tasks();
                        self.engine(Event::AttemptStarted { generation, tasks });
                        self.all_ended();
                    }
                }
            }
            Report::EventTime { subtask, time } => self.shared.event_times.lock().learn(subtask, time),
            Report::Ended(subtask) => {
                self.state.not_ended.remove(&subtask);
                self.all_ended();
            }
            Report::Acknowledged { checkpoint, subtask, snapshot, times } => {
                let metrics = metrics_of(&times);
                passing("after-acknowledge");
                self.engine(Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics });
            }
            Report::Declined { checkpoint, subtask, reason } => {
                let message = format!("{}: {reason}", self.task_name(subtask));
                self.engine(Event::Decline { generation, checkpoint, subtask, message });
            }
            Report::Committed { checkpoint, subtask } => {
                // it may be the last one, with which the end is recorded
                self.measure();
                self.engine(Event::CommitConfirmed { generation, checkpoint, subtask });
            }
            Report::Failed { error, .. }
                if self.state.finished && matches!(self.state.phase, Phase::Draining { .. }) =>
            {
                // everything is committed and the register says so: what goes wrong while the dataflow drains changes nothing
                tracing::warn!(job = %self.settings.name, "after the job had finished: {error}");
                self.fleet.send(Control::Stop);
            }
            Report::Failed { error, .. } if !self.state.phase.has_attempt() => {
                // nothing runs that could fail: who is lost between two attempts is replaced when the next one is deployed
                tracing::warn!(job = %self.settings.name, "while no attempt runs: {error}");
            }
            Report::Failed { subtask, error } => {
                let error = match subtask {
                    Some(subtask) => error.context(self.task_name(subtask)),
                    None => error,
                };
                self.fail(error);
            }
            // of an attempt that has been counted as stopped
            Report::Stopped { .. } if !self.state.phase.has_attempt() => {}
            Report::Stopped { worker, drained } => {
                self.state.stopped.insert(worker);
                // only a worker that was told to finish may end
                let early = match self.state.phase {
                    Phase::Running | Phase::Deploying(_) => true,
                    Phase::Draining { .. } => !drained && !self.state.finished,
                    _ => false,
                };
                if early {
                    self.fail(Error::new(ErrorKind::Peer, format!("worker {worker} stopped by itself")));
                }
                self.all_stopped();
            }
        }
    }

    /// The input is through, and everything has been emitted that its end causes: with checkpoints it is time for the final one,
    /// without them it is the end of the job. Also a task without checkpoints must not end before: a window may still emit.
    fn all_ended(&mut self) {
        if !self.state.not_ended.is_empty() || !matches!(self.state.phase, Phase::Running) {
            return;
        }
        if self.checkpointing() {
            let generation = self.state.generation;
            let sources = self.tasks().into_iter().filter(|task| task.is_source);
            sources.for_each(|task| self.engine(Event::SourceEnded { generation, subtask: task.id }));
        } else {
            // what is under way may take as long as it takes: it is the job's own work
            self.state.phase = Phase::Draining { until: None };
            self.fleet.send(Control::Finish);
        }
    }

    fn timers(&mut self) {
        let now = self.clock.elapsed();
        if self.state.wake_at.is_some_and(|at| at <= now) {
            self.state.wake_at = None;
            self.engine(Event::Tick);
        }
        match &mut self.state.phase {
            Phase::WaitingToRestart { at } if *at <= now => {
                self.advance(JobStatus::Created);
                self.request_attempt();
            }
            Phase::Preparing { until } if until.is_some_and(|until| until <= now) => {
                let message = format!(
                    "the checkpoint to start from was not read within {:?} (execution.checkpointing.timeout) from {}",
                    self.settings.checkpoint.timeout,
                    self.home.describe()
                );
                self.fail(Error::new(ErrorKind::Storage, message));
            }
            Phase::Draining { until } if until.is_some_and(|until| until <= now) => self.give_up_waiting(),
            Phase::Stopping { deadline, warned, .. } => {
                let (deadline, half) = (*deadline, self.settings.cancellation_timeout / 2);
                if now >= deadline {
                    self.give_up_waiting();
                } else if now + half >= deadline && !std::mem::replace(warned, true) {
                    let after = match &self.state.phase {
                        Phase::Stopping { why: Why::Failure(error), .. } => format!(", after: {error}"),
                        _ => String::new(),
                    };
                    tracing::warn!(job = %self.settings.name, "still waiting for {} to stop{after}", self.unstopped());
                }
            }
            _ => {}
        }
    }
}

/// A place where a test may make the JobManager die.
fn passing(point: &str) {
    if let Err(crash) = crash_point(point) {
        tracing::warn!("{crash}: the JobManager goes on");
    }
}
