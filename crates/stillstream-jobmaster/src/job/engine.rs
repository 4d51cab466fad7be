//! The job engine: takes in what happened and says what to do. It owns the checkpoint coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::{
    CheckpointId, CheckpointType, CompletedRef, Error, ErrorKind, Generation, JobFigures, JobOutcome,
    OperatorId, RegisterRecord, Result, SubtaskId,
};

use super::exceptions::{ExceptionEntry, Exceptions};
use super::figures::Figures;
use super::interface::{JobCommand, JobEvent, JobSetup, Level};
use super::restart::{Repetition, RestartTracker};
use super::status::{JobState, JobStatus};
use super::stopping::StopReason;
use crate::checkpoint::command::Command;
use crate::checkpoint::config::{CheckpointConfig, ConfigError};
use crate::checkpoint::event::{Event, RequestId};
use crate::checkpoint::failure::{CheckpointFailure, FailureReason};
use crate::checkpoint::statistics::{CheckpointStatistics, CheckpointSummary};
use crate::checkpoint::{CheckpointCoordinator, CoordinatorSetup};
use crate::message::{Assignment, Control};
use crate::moment::Moment;
use crate::plan::TaskInfo;

/// The attempt that runs, or ran last.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    pub(super) generation: Generation,
    /// Workers that have dropped their dataflow.
    pub(super) stopped: BTreeSet<usize>,
    /// Subtasks with records to come.
    pub(super) not_ended: BTreeSet<SubtaskId>,
    /// The sources are told to end.
    pub(super) drained: bool,
    /// When all subtasks have to have ended after that.
    pub(super) drain_until: Option<Duration>,
    /// The task whose failure ends it, where that is known.
    pub(super) failed_task: Option<String>,
    /// The enumerators' states, as far as they are known before all tasks are open, and what was assigned by
    /// then.
    pub(super) enumerators: BTreeMap<OperatorId, Arc<[u8]>>,
    pub(super) assigned: Vec<Assignment>,
}

/// Where the job is.
#[derive(Debug)]
pub(super) enum JobPhase {
    /// The register, or the state to restore, is being read; the latter has to be there at this time.
    Preparing { until: Option<Duration> },
    /// Workers are opening their tasks; these have not.
    Deploying(BTreeSet<SubtaskId>),
    /// All tasks are open.
    Running,
    /// The dataflow drains. Once everything is committed and recorded, it has until then.
    Draining { until: Option<Duration> },
    /// The workers drop their dataflow.
    Stopping {
        reason: StopReason,
        /// When those that are left are replaced; `None` once that has been asked for.
        deadline: Option<Duration>,
        warned: bool,
    },
    /// The restart strategy's pause.
    WaitingToRestart { at: Duration },
    /// The outcome is being written into the register. The coordinator says how that went, and when its time
    /// is over. The error is what the job ends with, unless it ends well.
    Ending { error: Error },
    /// Over.
    Ended,
}

impl JobPhase {
    /// Whether workers have an attempt that they have not all dropped.
    pub(super) fn has_attempt(&self) -> bool {
        matches!(self, Self::Deploying(_) | Self::Running | Self::Draining { .. } | Self::Stopping { .. })
    }

    /// When time alone changes it.
    fn wake_at(&self, half: Duration) -> Option<Duration> {
        match self {
            Self::Preparing { until } | Self::Draining { until } => *until,
            Self::Stopping { deadline, warned: false, .. } => deadline.map(|at| at.saturating_sub(half)),
            Self::Stopping { deadline, .. } => *deadline,
            Self::WaitingToRestart { at } => Some(*at),
            Self::Deploying(_) | Self::Running | Self::Ending { .. } | Self::Ended => None,
        }
    }
}

/// What does not change while the job runs.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) tasks: Vec<TaskInfo>,
    pub(super) workers: usize,
    pub(super) checkpoint: CheckpointConfig,
    pub(super) from_snapshot: Option<String>,
    pub(super) place: String,
    pub(super) durable: bool,
    pub(super) cancellation_timeout: Duration,
}

impl Job {
    pub(super) fn checkpointing(&self) -> bool {
        self.checkpoint.interval.is_some()
    }

    /// "`map` subtask 3"
    pub(super) fn task_name(&self, subtask: SubtaskId) -> String {
        let name =
            self.tasks.iter().find(|task| task.id.vertex == subtask.vertex).map_or("?", |task| &task.name);
        format!("`{name}` subtask {}", subtask.index)
    }
}

/// The engine of one job, for all attempts that this process makes. The crate's documentation shows it at
/// work.
///
/// Invariants: an attempt begins only when every worker has dropped the one before; the job ends once; once a
/// good end (*finished*, *stopped*, *suspended*) is recorded no other outcome is.
pub struct JobEngine {
    pub(super) job: Job,
    pub(super) coordinator: CheckpointCoordinator,
    pub(super) status: JobState,
    pub(super) strategy: RestartTracker,
    pub(super) repetition: Repetition,
    pub(super) phase: JobPhase,
    pub(super) attempt: Attempt,
    /// The register says that the job has finished, or was stopped with all that it leaves: no other outcome
    /// can be written and no attempt begun.
    pub(super) recorded: Option<JobOutcome>,
    /// Who waits for the job to be suspended while nothing of it runs.
    pub(super) suspend: Option<RequestId>,
    pub(super) exceptions: Exceptions,
    pub(super) figures: Figures,
    pub(super) at: Moment,
    /// When the coordinator wants a tick.
    coordinator_wake: Option<Duration>,
    pub(super) out: Vec<JobCommand>,
}

impl fmt::Debug for JobEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobEngine")
            .field("name", &self.job.name)
            .field("status", &self.status.status())
            .field("phase", &self.phase)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl JobEngine {
    /// An engine that has done nothing yet; `now` is the time at which the job was submitted.
    ///
    /// # Errors
    /// If the settings of checkpoints cannot work.
    pub fn new(setup: JobSetup, now: Duration) -> Result<Self, ConfigError> {
        let coordinator = CheckpointCoordinator::new(CoordinatorSetup {
            job: setup.job,
            job_name: setup.name.clone(),
            config: setup.checkpoint.clone(),
            register: setup.register,
            first_delay: setup.first_delay,
            end_timeout: setup.end_timeout,
        })?;
        Ok(Self {
            job: Job {
                name: setup.name,
                tasks: setup.tasks,
                workers: setup.workers,
                checkpoint: setup.checkpoint,
                from_snapshot: setup.from_snapshot,
                place: setup.place,
                durable: setup.durable,
                cancellation_timeout: setup.cancellation_timeout,
            },
            coordinator,
            status: JobState::new(),
            strategy: RestartTracker::new(setup.restart),
            repetition: Repetition::default(),
            phase: JobPhase::Preparing { until: None },
            attempt: Attempt::default(),
            recorded: None,
            suspend: None,
            exceptions: Exceptions::default(),
            figures: Figures::new(now),
            at: Moment { now, ..Moment::default() },
            coordinator_wake: None,
            out: Vec::new(),
        })
    }

    /// Takes in what happened and says what to do.
    pub fn handle(&mut self, event: JobEvent, at: Moment) -> Vec<JobCommand> {
        self.at = Moment { now: self.at.now.max(at.now), ..at };
        match event {
            JobEvent::Submitted => {
                self.advance(JobStatus::Created);
                self.request_attempt();
            }
            JobEvent::Tick => self.on_tick(),
            JobEvent::Report(generation, report) => self.on_report(generation, report),
            JobEvent::Enumerated(generation, enumerated) => self.on_enumerated(generation, enumerated),
            JobEvent::EnumeratorFailed(generation, error) => self.on_enumerator_failed(generation, error),
            JobEvent::Storage(answer) => self.coordinate(Event::Storage(answer)),
            JobEvent::Restored { generation, result } => self.on_restored(generation, result),
            JobEvent::NotDeployed { generation, error } => self.on_not_deployed(generation, error),
            JobEvent::Replaced { workers } => self.on_replaced(workers),
            JobEvent::NotReplaced { error } => self.on_not_replaced(error),
            JobEvent::Cancel => self.cancel(),
            JobEvent::TriggerCheckpoint(request, kind) => self.on_trigger_checkpoint(request, kind),
            JobEvent::TriggerSavepoint(request, target) => {
                let savepoint = Some(target);
                self.coordinate(Event::TriggerRequested { request, savepoint, full: false, forced: true });
            }
            JobEvent::Stop(request, stop) => self.on_stop_requested(request, stop),
            JobEvent::Measured(measured) => self.figures.measured = measured,
            // an answer may be missing for ever, so the job ends here and as it stands, as if another had
            // taken it over
            JobEvent::Panicked(error) => {
                self.log(Level::Error, error.to_string());
                self.stop(StopReason::Over(error));
            }
        }
        // a stop that has failed may have held up the end of the input
        self.all_ended();
        self.figures.see(self.coordinator.statistics());
        std::mem::take(&mut self.out)
    }

    /// When a [`JobEvent::Tick`] has something to do.
    pub fn wake_at(&self) -> Option<Duration> {
        let phase = self.phase.wake_at(self.job.cancellation_timeout / 2);
        self.coordinator_wake.into_iter().chain(phase).chain(self.drain_wake_at()).min()
    }

    /// Where the job is.
    pub fn status(&self) -> JobStatus {
        self.status.status()
    }

    /// How often it was restarted.
    pub fn restarts(&self) -> u64 {
        self.status.restarts()
    }

    /// The attempt that runs, or ran last.
    pub fn generation(&self) -> Generation {
        self.attempt.generation
    }

    /// Counts and history of its checkpoints.
    pub fn statistics(&self) -> &CheckpointStatistics {
        self.coordinator.statistics()
    }

    /// The checkpoints that are under way, oldest first.
    pub fn in_progress(&self) -> Vec<CheckpointSummary> {
        self.coordinator.in_progress()
    }

    /// The checkpoints that the register names, oldest first.
    pub fn completed(&self) -> &[CompletedRef] {
        self.coordinator.completed()
    }

    /// The newest of them: what a restart begins from.
    pub fn latest_completed(&self) -> Option<CheckpointId> {
        self.coordinator.latest_completed().map(|checkpoint| checkpoint.id)
    }

    /// The register's record as far as it is known to be durable.
    pub fn register(&self) -> Option<&RegisterRecord> {
        self.coordinator.register()
    }

    /// The longest that a checkpoint took.
    pub fn slowest_checkpoint(&self) -> Duration {
        self.figures.slowest
    }

    /// How the job has ended, if it has ended well and the register says so: it finished, or was stopped.
    pub fn good_end(&self) -> Option<JobOutcome> {
        self.recorded
    }

    /// The last failures, oldest first.
    pub fn exceptions(&self) -> impl ExactSizeIterator<Item = &ExceptionEntry> {
        self.exceptions.iter()
    }

    /// What the run has come to so far.
    pub fn figures(&self) -> JobFigures {
        self.figures.of(self.at.now, self.status.restarts(), self.coordinator.statistics())
    }

    // ---- what all parts use

    pub(super) fn log(&mut self, level: Level, text: impl Into<String>) {
        self.out.push(JobCommand::Log(level, text.into()));
    }

    pub(super) fn tell(&mut self, control: Control) {
        self.out.push(JobCommand::Tell { generation: self.attempt.generation, control });
    }

    pub(super) fn advance(&mut self, to: JobStatus) {
        let from = self.status.status();
        if from == to {
            return;
        }
        match self.status.advance(to) {
            Ok(()) => self.log(Level::Debug, format!("{} -> {}", from.name(), to.name())),
            Err(illegal) => self.log(Level::Error, illegal.to_string()),
        }
    }

    /// Hands an event to the coordinator, and does what it says.
    pub(super) fn coordinate(&mut self, event: Event) {
        let commands = self.coordinator.handle(event, self.at);
        commands.into_iter().for_each(|command| self.on_command(command));
    }

    /// Tells the coordinator what will be recorded with the job's end.
    pub(super) fn measure(&mut self) {
        self.coordinate(Event::Measured { figures: self.figures() });
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Storage(call) => self.out.push(JobCommand::Storage(call)),
            Command::BeginAttempt { generation, restore_from } => {
                self.begin_attempt(generation, restore_from)
            }
            Command::Tell { generation, control } if generation == self.attempt.generation => {
                if control == Control::Drain {
                    self.drain_begins();
                }
                self.tell(control)
            }
            // it is about an attempt that has gone
            Command::Tell { .. } => {}
            Command::Reply { request, result } => self.out.push(JobCommand::Reply { request, result }),
            Command::FailJob { kind, message } => self.fail(Error::new(kind, message)),
            Command::RestartAttempt { message } => self.restart_attempt(message),
            Command::FinishJob { outcome } => self.finish_job(outcome),
            Command::EndUnrecorded { outcome, message } => self.end_unrecorded(outcome, &message),
            Command::StepDown { owner } => {
                let message = format!(
                    "another process runs job `{}` now (generation {owner}, this one is {}); this one steps down and writes \
                     nothing more",
                    self.job.name, self.attempt.generation
                );
                self.stop(StopReason::Over(Error::new(ErrorKind::Fenced, message)));
            }
            // commands of a later call can come before this one: the earliest counts, and a tick too many
            // does no harm
            Command::WakeAt(at) => {
                self.coordinator_wake = Some(self.coordinator_wake.map_or(at, |earlier| earlier.min(at)));
            }
            Command::Warn(text) => self.out.push(JobCommand::Warn(text)),
            Command::Info(text) => self.log(Level::Debug, text),
        }
    }

    fn on_trigger_checkpoint(&mut self, request: RequestId, kind: CheckpointType) {
        let name = &self.job.name;
        let refusal = if !self.job.checkpointing() {
            Some(format!(
                "job `{name}` takes no checkpoints; `enable_checkpointing` (execution.checkpointing.interval) changes that"
            ))
        } else if kind == CheckpointType::Incremental && !self.job.checkpoint.incremental {
            Some(format!(
                "job `{name}` takes no incremental checkpoints (execution.checkpointing.incremental is false): ask for \
                 CONFIGURED or FULL, or start it with that key set to true"
            ))
        } else {
            None
        };
        if let Some(message) = refusal {
            let result = Err(CheckpointFailure::new(FailureReason::PeriodicSchedulerShutdown, message));
            return self.out.push(JobCommand::Reply { request, result });
        }
        let full = kind == CheckpointType::Full;
        self.coordinate(Event::TriggerRequested { request, savepoint: None, full, forced: false });
    }

    /// Everything that time alone brings about.
    fn on_tick(&mut self) {
        let now = self.at.now;
        if self.coordinator_wake.is_some_and(|at| at <= now) {
            self.coordinator_wake = None;
            self.coordinate(Event::Tick);
        }
        match &mut self.phase {
            JobPhase::WaitingToRestart { at } if *at <= now => {
                self.advance(JobStatus::Created);
                self.request_attempt();
            }
            JobPhase::Preparing { until } if until.is_some_and(|until| until <= now) => {
                self.snapshot_overdue()
            }
            JobPhase::Draining { until } if until.is_some_and(|until| until <= now) => {
                *until = None;
                self.give_up_waiting();
            }
            JobPhase::Stopping { .. } => self.on_stopping_time(),
            _ => {}
        }
        self.on_drain_time();
    }
}
