//! The JobManager: runs the coordinator's commands, starts and stops attempts, asks the restart strategy.
//!
//! It is a shell: what is decided is decided in `stillstream-checkpoint`, by engines that know neither clock nor thread.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use stillstream_checkpoint::restore::plan_restore;
use stillstream_checkpoint::{
    AckMetrics, CheckpointCoordinator, CheckpointFailure, CheckpointReport, Command, Event, FailureReason,
    JobState, JobStatus, OperatorInfo, RequestId, RestartDecision, RestartStrategy, RestartStrategyConfig,
    TaskInfo,
};
use stillstream_types::crash::crash_point;
use stillstream_types::{
    CheckpointId, CheckpointKind, CompletedRef, Error, ErrorKind, Generation, JobOutcome, Result, SubtaskId,
    SubtaskIndex,
};

use super::client::{JobMetrics, JobResult, Shared};
use super::fleet::Fleet;
use super::home::CheckpointHome;
use super::io::IoThreads;
use super::progress::Progress;
use super::settings::JobSettings;
use crate::clock::Clock;
use crate::control::{AttemptSpec, Control, Report, RestoredState, SnapshotTimes};
use crate::metrics::Counters;
use crate::plan::Physical;

/// What reaches the JobManager.
pub(crate) enum Message {
    /// From a worker.
    Report(Generation, Report),
    /// An answer to one of the coordinator's commands.
    Engine(Event),
    /// What an attempt starts from has been read.
    Restored(Generation, Result<Option<RestoredState>>),
    /// Workers of this attempt may never have started: nobody waits for those that do not answer.
    DeployFailed(Generation),
    /// From the client.
    Cancel,
    /// From the client.
    TriggerCheckpoint(mpsc::Sender<Result<CheckpointReport, CheckpointFailure>>),
}

#[derive(Debug)]
enum Why {
    Failure(Error),
    Cancel,
    Fenced(Error),
}

enum Phase {
    /// The register, or the state to restore, is being read.
    Preparing,
    /// Workers are opening their tasks.
    Deploying(BTreeSet<SubtaskId>),
    Running,
    /// Everything is committed; the dataflow drains.
    Draining,
    Stopping {
        why: Why,
        deadline: Duration,
        warned: bool,
    },
    WaitingToRestart {
        at: Duration,
    },
    /// The outcome is being written into the register.
    Ending {
        error: Error,
    },
    Ended,
}

pub(crate) struct Manager {
    pub settings: JobSettings,
    pub physical: Arc<Physical>,
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
    phase: Phase,
    generation: Generation,
    stopped: BTreeSet<usize>,
    sources_left: BTreeSet<SubtaskId>,
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
}

fn metrics_of(times: &SnapshotTimes) -> AckMetrics {
    AckMetrics {
        start_delay: Duration::from_micros(times.start_delay_us),
        alignment: Duration::from_micros(times.alignment_us),
        synchronous: Duration::from_micros(times.sync_us),
        asynchronous: Duration::from_micros(times.async_us),
        ..AckMetrics::default()
    }
}

/// What the manager is made of.
pub(crate) struct Parts {
    pub settings: JobSettings,
    pub physical: Arc<Physical>,
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
            phase: Phase::Preparing,
            generation: Generation(0),
            stopped: BTreeSet::new(),
            sources_left: BTreeSet::new(),
            wake_at: None,
            requests: HashMap::new(),
            next_request: 0,
            resumed_from: None,
            started: clock.elapsed(),
            slowest: Duration::ZERO,
            result: None,
            finished: false,
            progress: Progress::new(settings.progress),
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
            Ok(()) => tracing::info!(job = %self.settings.name, "{} -> {}", from.name(), to.name()),
            Err(illegal) => tracing::error!(job = %self.settings.name, "{illegal}"),
        }
    }

    fn engine(&mut self, event: Event) {
        let commands = self.coordinator.handle(event, self.clock.elapsed());
        commands.into_iter().for_each(|command| self.carry_out(command));
    }

    fn request_attempt(&mut self) {
        self.state.phase = Phase::Preparing;
        self.state.stopped.clear();
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
            Message::DeployFailed(generation) => {
                if generation == self.state.generation {
                    self.state.stopped.extend(0..self.fleet.workers());
                    self.all_stopped();
                }
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
            Command::PrepareLocation { checkpoint, .. } => {
                let directory = stillstream_checkpoint::cleaner::directory(checkpoint);
                self.io.run(move || {
                    let result = home.prepare(checkpoint, &directory).map(|()| directory);
                    Message::Engine(Event::LocationPrepared { checkpoint, result })
                });
            }
            Command::TriggerSources { generation, checkpoint, .. } => {
                if generation == self.state.generation {
                    self.fleet.send(Control::Trigger { id: checkpoint, at_ms: self.clock.now_ms() });
                }
            }
            Command::WriteMetadata { path, mut metadata } => {
                metadata.triggered_at_ms = self.clock.now_ms();
                let checkpoint = metadata.id;
                self.io.run(move || {
                    Message::Engine(Event::MetadataWritten {
                        checkpoint,
                        outcome: home.write_metadata(&path, &metadata),
                    })
                });
            }
            Command::NotifyComplete { generation, checkpoint, .. } => {
                passing("before-notification");
                if generation == self.state.generation {
                    self.fleet.send(Control::Complete { id: checkpoint });
                }
            }
            Command::NotifyAborted { generation, checkpoint, .. } => {
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
                    // the client may have gone away
                    let _ = reply.send(result);
                }
            }
            Command::FailJob { kind, message } => self.fail(Error::new(kind, message)),
            Command::FinishJob { outcome } => self.finish_job(outcome),
            Command::StepDown { owner } => {
                let message = format!(
                    "another process runs job `{}` now (generation {owner}, this one is {}); this one steps down and writes \
                     nothing more",
                    self.settings.name, self.state.generation
                );
                self.stop(Why::Fenced(Error::new(ErrorKind::Fenced, message)));
            }
            Command::WakeAt(at) => self.state.wake_at = Some(at),
            Command::Warn(text) => tracing::warn!(job = %self.settings.name, "{text}"),
            Command::Info(text) => tracing::debug!(job = %self.settings.name, "{text}"),
        }
    }

    fn operators(&self) -> Vec<OperatorInfo> {
        let of = |task: &crate::plan::Task| {
            let parallelism = task.parallelism;
            let info = move |operator: &crate::plan::ChainedOperator| OperatorInfo {
                id: operator.id,
                uid: operator.uid.clone(),
                name: operator.name.to_string(),
                parallelism,
                max_parallelism: operator.key_groups.max_parallelism(),
            };
            task.chain.iter().map(info).collect::<Vec<_>>()
        };
        self.physical.tasks.iter().flat_map(of).collect()
    }

    fn tasks(&self) -> Vec<TaskInfo> {
        let operators = self.operators();
        let mut next = 0;
        let mut tasks = Vec::new();
        for task in &self.physical.tasks {
            let own: Vec<OperatorInfo> = operators[next..next + task.chain.len()].to_vec();
            next += task.chain.len();
            for index in 0..task.parallelism {
                let id = SubtaskId { vertex: task.vertex, index: SubtaskIndex(index) };
                tasks.push(TaskInfo {
                    id,
                    name: task.name.to_string(),
                    operators: own.clone(),
                    is_source: task.is_source(),
                });
            }
        }
        tasks
    }

    fn task_name(&self, subtask: SubtaskId) -> String {
        let name = self.physical.tasks.get(subtask.vertex.0 as usize).map_or("?", |task| &task.name);
        format!("`{name}` subtask {}", subtask.index)
    }

    /// Reads the checkpoint that the attempt starts from, off this thread.
    fn read_snapshot(&mut self, generation: Generation, restore_from: Option<CompletedRef>) {
        if !matches!(self.state.phase, Phase::Preparing) {
            return;
        }
        self.state.generation = generation;
        let (home, operators) = (self.home.clone(), self.operators());
        let (allow, foreign) = (self.settings.allow_non_restored_state, self.settings.from_snapshot.clone());
        let fallback = foreign.filter(|_| restore_from.is_none());
        self.io.run(move || {
            let read = || -> Result<Option<RestoredState>> {
                let (metadata, location) = match (&restore_from, &fallback) {
                    (Some(own), _) => (home.read_metadata(&own.path)?, None),
                    (None, Some(location)) => (home.read_foreign(location)?, Some(location.clone())),
                    (None, None) => return Ok(None),
                };
                let kind = |error| Error::wrap(ErrorKind::Configuration, error);
                let plan = plan_restore(&metadata, &operators, allow).map_err(kind)?;
                plan.dropped.iter().for_each(|line| tracing::warn!("{line}"));
                let of = |states: Vec<_>| (0..).map(SubtaskIndex).zip(states).collect();
                let operators = plan.operators.into_iter().map(|(id, states)| (id, of(states))).collect();
                Ok(Some(RestoredState { checkpoint: metadata.id, location, operators }))
            };
            Message::Restored(generation, read())
        });
    }

    fn deploy(&mut self, restored: Result<Option<RestoredState>>) {
        if !matches!(self.state.phase, Phase::Preparing) {
            return;
        }
        let restored = match restored {
            Ok(restored) => restored,
            Err(error) => return self.give_up(error.context("the checkpoint to start from cannot be used")),
        };
        if let Some(state) = &restored {
            let (job, from) = (&self.settings.name, self.home.describe());
            tracing::info!(%job, "starting from checkpoint {} in {}", state.checkpoint, state.location.as_deref().unwrap_or(&from));
            if self.state.job.restarts() == 0 {
                self.state.resumed_from = Some(state.checkpoint);
            }
        }
        let tasks = self.tasks();
        self.state.sources_left = tasks.iter().filter(|task| task.is_source).map(|task| task.id).collect();
        self.state.phase = Phase::Deploying(tasks.iter().map(|task| task.id).collect());
        let spec = AttemptSpec { generation: self.state.generation, restored: restored.map(Arc::new) };
        if let Err(error) = self.fleet.start(spec) {
            self.give_up(error);
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
                        // a short source may have ended before the last task was open
                        let ended =
                            |task: &&TaskInfo| task.is_source && !self.state.sources_left.contains(&task.id);
                        let ended: Vec<SubtaskId> = tasks.iter().filter(ended).map(|task| task.id).collect();
                        self.engine(Event::AttemptStarted { generation, tasks });
                        if self.checkpointing() {
                            ended
                                .into_iter()
                                .for_each(|subtask| self.engine(Event::SourceEnded { generation, subtask }));
                        }
                        self.all_sources_ended();
                    }
                }
            }
            Report::SourceEnded(subtask) => {
                self.state.sources_left.remove(&subtask);
                if self.checkpointing() && matches!(self.state.phase, Phase::Running) {
                    self.engine(Event::SourceEnded { generation, subtask });
                }
                self.all_sources_ended();
            }
            Report::Acknowledged { checkpoint, subtask, snapshot, times } => {
                let metrics = metrics_of(&times);
                passing("after-acknowledge");
                self.engine(Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics });
            }
            Report::Declined { checkpoint, subtask, reason } => {
                let message = format!("{}: {reason}", self.task_name(subtask));
                let reason = FailureReason::CheckpointAsyncException;
                self.engine(Event::Decline { generation, checkpoint, subtask, reason, message });
            }
            Report::Committed { checkpoint, subtask } => {
                self.engine(Event::CommitConfirmed { generation, checkpoint, subtask });
            }
            Report::Failed { error, .. }
                if self.state.finished && matches!(self.state.phase, Phase::Draining) =>
            {
                // everything is committed and the register says so: what goes wrong while the dataflow drains changes nothing
                tracing::warn!(job = %self.settings.name, "after the job had finished: {error}");
                self.fleet.send(Control::Stop);
            }
            Report::Failed { subtask, error } => {
                let error = match subtask {
                    Some(subtask) => error.context(self.task_name(subtask)),
                    None => error,
                };
                self.fail(error);
            }
            Report::Stopped { worker, drained } => {
                self.state.stopped.insert(worker);
                // only a worker that was told to finish may end
                let early = match self.state.phase {
                    Phase::Running | Phase::Deploying(_) => true,
                    Phase::Draining => !drained && !self.state.finished,
                    _ => false,
                };
                if early {
                    self.fail(Error::new(ErrorKind::Peer, format!("worker {worker} stopped by itself")));
                }
                self.all_stopped();
            }
        }
    }

    /// Without checkpoints the end of all sources is the end of the job.
    fn all_sources_ended(&mut self) {
        if !self.checkpointing()
            && self.state.sources_left.is_empty()
            && matches!(self.state.phase, Phase::Running)
        {
            self.state.phase = Phase::Draining;
            self.fleet.send(Control::Finish);
        }
    }

    fn finish_job(&mut self, outcome: JobOutcome) {
        match outcome {
            JobOutcome::Finished => {
                self.state.finished = true;
                if matches!(self.state.phase, Phase::Running) {
                    self.state.phase = Phase::Draining;
                    self.fleet.send(Control::Finish);
                }
            }
            JobOutcome::Cancelled => {
                self.advance(JobStatus::Canceled);
                let error =
                    Error::new(ErrorKind::Cancelled, format!("job `{}` was cancelled", self.settings.name));
                let error = match std::mem::replace(&mut self.state.phase, Phase::Ended) {
                    Phase::Ending { error } => error,
                    _ => error,
                };
                self.state.result = Some(Err(error));
            }
            JobOutcome::Failed | JobOutcome::Running => {
                self.advance(JobStatus::Failed);
                let error = match std::mem::replace(&mut self.state.phase, Phase::Ended) {
                    Phase::Ending { error } => error,
                    _ => Error::new(ErrorKind::User, format!("job `{}` failed", self.settings.name)),
                };
                self.state.result = Some(Err(error));
            }
        }
    }

    fn fail(&mut self, error: Error) {
        match self.state.phase {
            Phase::Preparing => self.give_up(error),
            Phase::Deploying(_) | Phase::Running | Phase::Draining => {
                tracing::error!(job = %self.settings.name, "{error}");
                self.advance(JobStatus::Failing);
                self.stop(Why::Failure(error));
            }
            // what follows from a failure is not news
            _ => tracing::debug!(job = %self.settings.name, "{error}"),
        }
    }

    fn cancel(&mut self) {
        match self.state.phase {
            Phase::Deploying(_) | Phase::Running | Phase::Draining => {
                self.advance(JobStatus::Cancelling);
                self.stop(Why::Cancel);
            }
            Phase::Stopping { ref mut why, .. } => {
                if matches!(why, Why::Failure(_)) {
                    *why = Why::Cancel;
                }
                self.advance(JobStatus::Cancelling);
            }
            Phase::Preparing | Phase::WaitingToRestart { .. } => {
                self.advance(JobStatus::Cancelling);
                self.end_with(
                    JobOutcome::Cancelled,
                    Error::new(ErrorKind::Cancelled, format!("job `{}` was cancelled", self.settings.name)),
                );
            }
            Phase::Ending { .. } | Phase::Ended => {}
        }
    }

    fn stop(&mut self, why: Why) {
        if let Phase::Stopping { why: old, .. } = &mut self.state.phase {
            *old = why;
            return;
        }
        let deadline = self.clock.elapsed() + self.settings.cancellation_timeout;
        self.state.phase = Phase::Stopping { why, deadline, warned: false };
        self.fleet.send(Control::Stop);
        self.all_stopped();
    }

    /// Goes on when every worker has dropped its dataflow.
    fn all_stopped(&mut self) {
        if self.state.stopped.len() < self.fleet.workers() {
            return;
        }
        match std::mem::replace(&mut self.state.phase, Phase::Preparing) {
            Phase::Draining => {
                self.advance(JobStatus::Finished);
                self.state.result = Some(Ok(()));
                self.state.phase = Phase::Ended;
            }
            Phase::Stopping { why, .. } => {
                let generation = self.state.generation;
                match why {
                    Why::Fenced(error) => {
                        self.advance(JobStatus::Failed);
                        self.state.result = Some(Err(error));
                        self.state.phase = Phase::Ended;
                    }
                    Why::Cancel => {
                        self.engine(Event::AttemptStopped {
                            generation,
                            reason: "the job was cancelled".into(),
                        });
                        let error = Error::new(
                            ErrorKind::Cancelled,
                            format!("job `{}` was cancelled", self.settings.name),
                        );
                        self.end_with(JobOutcome::Cancelled, error);
                    }
                    Why::Failure(error) => {
                        self.engine(Event::AttemptStopped { generation, reason: error.to_string() });
                        self.after_failure(error);
                    }
                }
            }
            other => self.state.phase = other,
        }
    }

    /// Restart or give up.
    fn after_failure(&mut self, error: Error) {
        if error.is_fatal() || self.state.finished {
            return self.give_up(error);
        }
        let random = random_unit();
        match self.state.strategy.on_failure(self.clock.elapsed(), random) {
            RestartDecision::RestartAfter(delay) => {
                self.advance(JobStatus::Restarting);
                tracing::warn!(job = %self.settings.name, "restarting in {delay:?} after: {error}");
                self.state.phase = Phase::WaitingToRestart { at: self.clock.elapsed() + delay };
            }
            RestartDecision::Fail(reason) => {
                self.give_up(
                    error.context(format!(
                        "job `{}` failed and is not restarted ({reason})",
                        self.settings.name
                    )),
                );
            }
        }
    }

    fn give_up(&mut self, error: Error) {
        if self.state.job.status() != JobStatus::Failing {
            self.advance(JobStatus::Failing);
        }
        self.end_with(JobOutcome::Failed, error);
    }

    fn end_with(&mut self, outcome: JobOutcome, error: Error) {
        self.state.phase = Phase::Ending { error };
        match self.state.finished {
            // the coordinator has written its last outcome and answers no more
            true => self.finish_job(outcome),
            false => self.engine(Event::JobEnded { outcome }),
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
            Phase::Stopping { deadline, warned, .. } => {
                let (deadline, half) = (*deadline, self.settings.cancellation_timeout / 2);
                if now >= deadline {
                    self.give_up_waiting();
                } else if now + half >= deadline && !std::mem::replace(warned, true) {
                    tracing::warn!(job = %self.settings.name, "still waiting for {}", self.unstopped());
                }
            }
            _ => {}
        }
    }

    /// Who has not stopped, and where it is.
    fn unstopped(&self) -> String {
        let metrics = self.fleet.metrics();
        let name = |worker: usize| {
            let task = metrics.get(worker).and_then(|metrics| metrics.activity().1);
            match task.and_then(|task| self.physical.tasks.get(task as usize)) {
                Some(task) => format!("`{}` subtask {worker} (its code does not return)", task.name),
                None => format!("worker {worker}"),
            }
        };
        (0..self.fleet.workers())
            .filter(|worker| !self.state.stopped.contains(worker))
            .map(name)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The time to stop is over.
    fn give_up_waiting(&mut self) {
        let missing: Vec<usize> =
            (0..self.fleet.workers()).filter(|worker| !self.state.stopped.contains(worker)).collect();
        let who = self.unstopped();
        let timeout = self.settings.cancellation_timeout;
        let message = format!("{who} did not stop within {timeout:?} (task.cancellation.timeout)");
        tracing::error!(job = %self.settings.name, "{message}");
        match self.fleet.replace(&missing) {
            Ok(()) => {
                self.state.stopped.extend(missing);
                self.all_stopped();
            }
            Err(error) => {
                let cancelled = matches!(self.state.phase, Phase::Stopping { why: Why::Cancel, .. });
                let error = error.context(message).with_kind(ErrorKind::Timeout);
                let generation = self.state.generation;
                self.state.phase = Phase::Preparing;
                self.engine(Event::AttemptStopped { generation, reason: error.to_string() });
                self.end_with(if cancelled { JobOutcome::Cancelled } else { JobOutcome::Failed }, error);
            }
        }
    }

    fn job_metrics(&self) -> JobMetrics {
        use std::sync::atomic::Ordering::Relaxed;
        let mut metrics = JobMetrics { counters: self.counters.all(), ..JobMetrics::default() };
        for worker in self.fleet.metrics() {
            metrics.records_in += worker.records_in.load(Relaxed);
            metrics.records_out += worker.records_out.load(Relaxed);
            metrics.max_in_flight = metrics.max_in_flight.max(worker.max_in_flight.load(Relaxed));
        }
        metrics
    }

    fn publish(&mut self) {
        let metrics = self.job_metrics();
        let statistics = self.coordinator.statistics();
        if let Some(last) = &statistics.last_completed {
            self.state.slowest = self.state.slowest.max(last.duration);
        }
        let restarts = self.state.job.restarts();
        self.state.progress.show(
            self.clock.elapsed(),
            self.state.job.status(),
            &metrics,
            statistics,
            restarts,
        );
        let mut board = self.shared.board.lock();
        board.status = Some(self.state.job.status());
        board.restarts = restarts;
        board.statistics = statistics.clone();
        board.metrics = metrics;
        self.shared.changed.notify_all();
    }

    fn end(mut self) {
        self.fleet.shutdown(self.settings.cancellation_timeout);
        self.io.finish();
        // before anybody learns of the end: the next start may follow at once
        self.home.release();
        self.state.progress.clear();
        let metrics = self.job_metrics();
        let statistics = self.coordinator.statistics();
        let result = JobResult {
            name: self.settings.name.clone(),
            records_in: metrics.records_in,
            records_out: metrics.records_out,
            duration: self.clock.elapsed().saturating_sub(self.state.started),
            restarts: self.state.job.restarts(),
            resumed_from: self.state.resumed_from,
            checkpoints: super::client::CheckpointTotals {
                completed: statistics.counts.completed,
                failed: statistics.counts.failed,
                last_id: statistics.last_completed.as_ref().map(|last| last.id),
                last_size_bytes: statistics.last_completed.as_ref().map_or(0, |last| last.size_bytes),
                slowest: self.state.slowest,
            },
            counters: metrics.counters.clone(),
        };
        tracing::info!(job = %self.settings.name, "{result}");
        let ended = self
            .state
            .result
            .take()
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Peer, "the JobManager ended early")));
        let mut board = self.shared.board.lock();
        board.status = Some(self.state.job.status());
        board.statistics = statistics.clone();
        board.metrics = metrics;
        board.result = Some(ended.map(|()| result));
        board.ended = true;
        drop(board);
        self.shared.changed.notify_all();
    }
}

/// A place where a test may make the JobManager die.
fn passing(point: &str) {
    if let Err(crash) = crash_point(point) {
        tracing::warn!("{crash}: the JobManager goes on");
    }
}

/// A random number from 0 to 1.
fn random_unit() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
