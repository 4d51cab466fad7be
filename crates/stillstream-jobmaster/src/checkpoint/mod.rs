//! The checkpoint coordinator: ties the parts together. Each file handles one kind of event.
//!
//! | file | what it handles | its own state |
//! |---|---|---|
//! | `attempt` | claims the register for a new attempt, cleans up what a crash left, starts and stops attempts | `Attempts` |
//! | `trigger` | requests, the timer, and the way to the barrier | `Requests` |
//! | `acknowledge` | acknowledgements and declines, and files of those that came too late | |
//! | `complete` | metadata, then register, then "complete" | |
//! | `abort` | failures, timeouts, and what they mean for the job | |
//! | `shared` | files that several checkpoints name | `SharedDirectory` |
//! | `stop` | a person's stop, up to its last checkpoint or savepoint | `Stop` |
//! | `finish` | the end of the input, the final checkpoint, commits, and the end of the job | `End` |
//!
//! What several of them need has a file of its own: the ids (`ids`), the checkpoints that are under way
//! (`in_progress`), the register and what is written there (`register`, `records`), deletions (`cleaner`),
//! the time (`clock`) and what is said to the shell (`commands`). Fields are private to their file; the
//! others call its methods.
//!
//! **Savepoints.** One of a running job is in no register: it is answered when its metadata is durable, and
//! changes nothing else. The one with which a job stops is put into the register before anybody commits, as
//! every other checkpoint is, for whatever happens between two commits has to go on from there.

mod abort;
mod acknowledge;
mod attempt;
pub(crate) mod cleaner;
mod clock;
pub(crate) mod command;
mod commands;
mod complete;
mod completed;
pub(crate) mod config;
pub(crate) mod distribution;
pub(crate) mod event;
pub(crate) mod failure;
mod finish;
mod ids;
mod in_progress;
mod pending;
mod records;
mod register;
mod request_queue;
mod shared;
mod shared_files;
pub(crate) mod statistics;
mod stop;
pub(crate) mod storage;
mod trigger;

use std::time::Duration;

use stillstream_types::{CompletedRef, ErrorKind, JobId, JobOutcome, RegisterRecord};

use crate::checkpoint::cleaner::Cleaner;
use crate::checkpoint::command::Command;
use crate::checkpoint::config::{CheckpointConfig, ConfigError};
use crate::checkpoint::event::Event;
use crate::checkpoint::failure::FailureCounter;
use crate::checkpoint::register::Register;
use crate::checkpoint::statistics::{CheckpointStatistics, CheckpointSummary};
use crate::checkpoint::storage::StorageAnswer;
use crate::moment::Moment;

use attempt::Attempts;
use clock::Clock;
use commands::Commands;
use finish::End;
use ids::CheckpointIds;
use in_progress::InProgress;
use records::JobIdentity;
use shared::SharedDirectory;
use stop::Stop;
use trigger::Requests;

/// Which job, and how.
#[derive(Clone, Debug)]
pub struct CoordinatorSetup {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub job_name: String,
    /// The settings.
    pub config: CheckpointConfig,
    /// What the register holds since this process claimed it: its generation is this process's alone, and the
    /// first attempt runs under it. `None` only if there surely is no record: then the first attempt claims
    /// the first generation. An unreadable register is an error of the shell's, never `None`: a job that had
    /// a checkpoint must not start empty.
    pub register: Option<RegisterRecord>,
    /// Which share of the interval passes before the first periodic checkpoint of an attempt, from 0 to 1: a
    /// random number, so that jobs that start together do not take their checkpoints together for ever.
    pub first_delay: f64,
    /// How long the record of the job's end may take (`task.cancellation.timeout`).
    pub end_timeout: Duration,
}

/// The coordinator of one job's checkpoints, for all attempts that this process makes.
///
/// Invariants: a checkpoint is announced only when a durable register names it; nothing that a register
/// record names, or that a record under way would name, is discarded; ids only grow.
#[derive(Clone, Debug)]
pub struct CheckpointCoordinator {
    job: JobIdentity,
    config: CheckpointConfig,
    clock: Clock,
    commands: Commands,
    register: Register,
    ids: CheckpointIds,
    attempts: Attempts,
    requests: Requests,
    in_progress: InProgress,
    failures: FailureCounter,
    cleaner: Cleaner,
    shared: SharedDirectory,
    statistics: CheckpointStatistics,
    // the stop that is under way
    stop: Option<Stop>,
    end: End,
    // nothing is decided any more
    stopped: Option<Stopped>,
}

/// Why a coordinator has stopped.
#[derive(Clone, Debug)]
struct Stopped {
    kind: ErrorKind,
    why: String,
}

impl CheckpointCoordinator {
    /// A coordinator that has done nothing yet; fails if the settings cannot work.
    pub fn new(setup: CoordinatorSetup) -> Result<Self, ConfigError> {
        let CoordinatorSetup { job, job_name, config, register, first_delay, end_timeout } = setup;
        config.validate()?;
        // a deletion may hold back checkpoints for one period, never longer
        let patience = config.period().unwrap_or(Duration::from_secs(10));
        Ok(Self {
            job: JobIdentity::new(job, job_name),
            clock: Clock::default(),
            commands: Commands::default(),
            ids: CheckpointIds::new(),
            attempts: Attempts::new(register.as_ref().map(|record| record.generation)),
            register: Register::new(register),
            requests: Requests::new(first_delay),
            in_progress: InProgress::default(),
            failures: FailureCounter::new(config.tolerable_failed_checkpoints),
            cleaner: Cleaner::new(patience),
            shared: SharedDirectory::default(),
            statistics: CheckpointStatistics::default(),
            stop: None,
            end: End::new(end_timeout),
            stopped: None,
            config,
        })
    }

    /// Takes in what happened and says what to do.
    pub fn handle(&mut self, event: Event, at: Moment) -> Vec<Command> {
        if let Some(stopped) = &self.stopped {
            return self.after_the_stop(stopped, &event);
        }
        self.clock.advance(at);
        match event {
            Event::AttemptRequested => self.on_attempt_requested(),
            Event::AttemptStarted { generation, tasks, enumerators } => {
                self.on_attempt_started(generation, tasks, enumerators);
            }
            Event::Enumerated { generation, operator, state } => {
                self.attempts.enumerated(generation, operator, state);
            }
            Event::AttemptStopped { generation, reason, restarts } => {
                self.on_attempt_stopped(generation, &reason, restarts);
            }
            Event::SourceEnded { generation, subtask } => self.on_source_ended(generation, subtask),
            Event::CommitConfirmed { generation, checkpoint, subtask } => {
                self.on_commit_confirmed(generation, checkpoint, subtask);
            }
            Event::Tick => self.commands.forget_wake(),
            Event::TriggerRequested { request, savepoint, full, forced } => {
                self.on_trigger_requested(request, savepoint, full, forced);
            }
            Event::StopRequested { request, savepoint, drain } => {
                self.on_stop_requested(request, savepoint, drain);
            }
            Event::DrainOverdue { message } => self.on_drain_overdue(&message),
            Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics } => {
                self.on_acknowledge(generation, checkpoint, subtask, snapshot, metrics);
            }
            Event::Decline { generation, checkpoint, subtask, message } => {
                self.on_decline(generation, checkpoint, subtask, &message);
            }
            Event::Storage(answer) => self.on_answer(answer),
            Event::Measured { figures } => self.end.measured(figures),
            Event::JobEnded { outcome } => self.on_job_ended(outcome),
        }
        if self.stopped.is_none() {
            self.on_time();
        }
        if self.stopped.is_none() {
            self.start_requests();
            self.write_register();
            self.set_wake();
        }
        self.commands.take()
    }

    fn on_answer(&mut self, answer: StorageAnswer) {
        match answer {
            StorageAnswer::MetadataWritten { checkpoint, outcome } => {
                self.on_metadata_written(checkpoint, outcome)
            }
            StorageAnswer::RegisterUpdated { outcome } => {
                let settled = self.register.on_updated(outcome, self.clock.now());
                self.on_register_settled(settled);
            }
            StorageAnswer::RegisterRead { result } => {
                let settled = self.register.on_read(result, self.clock.now());
                self.on_register_settled(settled);
            }
            StorageAnswer::DirectoriesListed { names } => self.on_directories_listed(&names),
            StorageAnswer::ReferencesRead { references } => self.on_references_read(references),
            StorageAnswer::SharedListed { result } => self.on_shared_listed(result),
            StorageAnswer::DiscardDone { discard, failure } => {
                if let (Some(path), Some(failure)) = (self.cleaner.done(discard), failure) {
                    self.commands
                        .warn(format!("{path} could not be deleted, the next start tries again: {failure}"));
                }
            }
        }
    }

    /// Retained checkpoints as the last durable record names them, oldest first.
    pub fn completed(&self) -> &[CompletedRef] {
        self.register.durable().map_or(&[], |record| &record.completed)
    }

    /// The newest completed checkpoint.
    pub fn latest_completed(&self) -> Option<&CompletedRef> {
        completed::latest(self.completed())
    }

    /// The register's record as far as it is known to be durable.
    pub fn register(&self) -> Option<&RegisterRecord> {
        self.register.durable()
    }

    /// The outcome that is being recorded: no attempt begins any more.
    pub fn ending(&self) -> Option<JobOutcome> {
        self.end.ending()
    }

    /// Whether the job goes on, as far as is known here: no end is under way.
    pub fn is_open(&self) -> bool {
        self.end.is_open()
    }

    /// Whether a stop waits for the sources to end.
    pub fn is_draining(&self) -> bool {
        self.end.is_draining()
    }

    /// Counts and history.
    pub fn statistics(&self) -> &CheckpointStatistics {
        &self.statistics
    }

    /// The checkpoints that are under way, oldest first.
    pub fn in_progress(&self) -> Vec<CheckpointSummary> {
        self.in_progress
            .iter()
            .map(|pending| self.summary(pending, statistics::CheckpointStatus::InProgress))
            .collect()
    }

    /// Whoever waits for an answer gets one, although nothing is decided any more.
    fn after_the_stop(&self, stopped: &Stopped, event: &Event) -> Vec<Command> {
        match event {
            Event::JobEnded { outcome } => {
                let message = format!("{}; {}", stopped.why, self.what_the_next_start_does());
                vec![Command::EndUnrecorded { outcome: *outcome, message }]
            }
            Event::AttemptRequested => {
                vec![Command::FailJob { kind: stopped.kind, message: stopped.why.clone() }]
            }
            _ => Vec::new(),
        }
    }

    /// From now on nothing is decided any more.
    fn decide_no_more(&mut self, kind: ErrorKind, why: String) {
        self.stopped = Some(Stopped { kind, why });
    }

    /// Everything that time alone brings about.
    fn on_time(&mut self) {
        // before anything is tried once more
        self.on_end_overdue();
        if self.stopped.is_some() {
            return;
        }
        if let Some(command) = self.register.tick(self.clock.now()) {
            self.commands.call(command);
        }
        self.on_register_overdue();
        self.expire();
        self.on_reading_time();
        self.on_timer();
        self.on_closing_time();
    }

    fn set_wake(&mut self) {
        let (now, timeout) = (self.clock.now(), self.config.timeout);
        let pending = self.in_progress.iter().filter(|p| !self.register.is_writing(p.checkpoint.id));
        let wake = pending
            .map(|p| p.checkpoint.triggered_at + timeout)
            .chain(self.requests.wake_at(timeout))
            .chain(self.shared.wake_at(timeout))
            .chain(self.register.wake_at(timeout))
            .chain(self.end.wake_at(timeout))
            .chain(self.cleaner.next_overdue(now).filter(|_| self.requests.are_waiting()))
            .min();
        self.commands.wake(wake, now);
    }
}

#[cfg(test)]
mod tests;
