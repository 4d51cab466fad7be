//! The checkpoint coordinator: ties the parts together. Each file handles one kind of event.
//!
//! | file | what it handles |
//! |---|---|
//! | `attempt` | claims the register for a new attempt, cleans up what a crash left, starts and stops attempts |
//! | `trigger` | requests, the timer, and ids |
//! | `acknowledge` | acknowledgements and declines, and files of those that came too late |
//! | `complete` | metadata, then register, then "complete" |
//! | `abort` | failures, timeouts, and what they mean for the job |
//! | `shared` | files that several checkpoints name |
//! | `stop` | a person's stop, up to its last checkpoint or savepoint |
//! | `finish` | the end of the input, the final checkpoint, commits, and the end of the job |
//!
//! **Ids.** A checkpoint's directory carries its id, so an id must never be used twice, not even by a process
//! that crashed before anything was recorded. Ids are therefore reserved in the register *before* any task
//! hears of one: each record that is written (a claim, a completed checkpoint) also moves
//! `last_checkpoint_id` to [`ID_RESERVE`] beyond the highest id in use, so that in the steady state no extra
//! write is needed; when checkpoints fail in a row and the reserve is used up, the next trigger first writes
//! a record that only reserves. A new claim begins behind everything that was reserved. After a crash of the
//! coordinator up to `ID_RESERVE` numbers are left out; within one process ids grow by one, over all
//! attempts.
//!
//! **Savepoints.** One of a running job is in no register: it is answered when its metadata is durable, and
//! changes nothing else. The one with which a job stops is put into the register before anybody commits, as
//! every other checkpoint is, for whatever happens between two commits has to go on from there.

mod abort;
mod acknowledge;
mod attempt;
pub(crate) mod cleaner;
pub(crate) mod command;
mod complete;
mod completed;
pub(crate) mod config;
pub(crate) mod distribution;
pub(crate) mod event;
pub(crate) mod failure;
mod finish;
mod pending;
mod register;
mod request_queue;
mod shared;
mod shared_files;
pub(crate) mod statistics;
mod stop;
pub(crate) mod storage;
mod trigger;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use stillstream_types::{
    CheckpointId, CompletedRef, ErrorKind, Generation, JobFigures, JobId, JobOutcome, RegisterRecord,
};

use crate::checkpoint::cleaner::Cleaner;
use crate::checkpoint::command::Command;
use crate::checkpoint::config::{CheckpointConfig, ConfigError};
use crate::checkpoint::event::Event;
use crate::checkpoint::failure::FailureCounter;
use crate::checkpoint::pending::{Files, PendingCheckpoint};
use crate::checkpoint::register::Register;
use crate::checkpoint::request_queue::RequestQueue;
use crate::checkpoint::shared_files::SharedFiles;
use crate::checkpoint::statistics::{CheckpointStatistics, CheckpointSummary};
use crate::checkpoint::storage::{StorageAnswer, StorageCall};
use crate::message::Control;
use crate::moment::Moment;

use attempt::Attempt;
use finish::Closing;
use shared::Reading;
use stop::Stop;
use trigger::Starting;

/// So many ids are reserved beyond the highest one in use.
pub const ID_RESERVE: u64 = 8;
/// So many aborted checkpoints are remembered, to tell late acknowledgements from unknown ones.
const REMEMBERED: usize = 16;

/// Which job, and how.
#[derive(Clone, Debug)]
pub struct CoordinatorSetup {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub job_name: String,
    /// The settings.
    pub config: CheckpointConfig,
    /// What the register holds, read from the same authority that writes go to; `None` only if there surely
    /// is no record. An unreadable register is an error of the shell's, never `None`: a job that had a
    /// checkpoint must not start empty.
    pub register: Option<RegisterRecord>,
    /// Which share of the interval passes before the first periodic checkpoint of an attempt, from 0 to 1: a
    /// random number, so that jobs that start together do not take their checkpoints together for ever.
    pub first_delay: f64,
    /// How long the record of the job's end may take (`task.cancellation.timeout`).
    pub end_timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Collecting,
    WritingMetadata,
    Registering,
}

#[derive(Clone, Debug)]
struct Pending {
    checkpoint: PendingCheckpoint,
    generation: Generation,
    phase: Phase,
    /// The newest completed checkpoint when this one was triggered: tasks may build on its files.
    base: Option<CheckpointId>,
}

/// What is to be deleted of a checkpoint when the write of its metadata has ended.
#[derive(Clone, Debug)]
struct Abandoned {
    files: Files,
    shared: Vec<String>,
}

/// The coordinator of one job's checkpoints, for all attempts that this process makes.
///
/// Invariants: a checkpoint is announced only when a durable register names it; nothing that a register
/// record names, or that a record under way would name, is discarded; ids only grow.
#[derive(Clone, Debug)]
pub struct CheckpointCoordinator {
    job: JobId,
    job_name: String,
    config: CheckpointConfig,
    now: Duration,
    wall_ms: i64,
    register: Register,
    // the generation under which this coordinator may write
    claimed: Option<Generation>,
    attempt_wanted: bool,
    // the highest id handed out
    used: CheckpointId,
    // ids below were all used before the present claim
    first_own: CheckpointId,
    attempt: Option<Attempt>,
    queue: RequestQueue,
    starting: Option<Starting>,
    pending: BTreeMap<CheckpointId, Pending>,
    // given up while their metadata was written: deleted when that has ended
    abandoned_writes: BTreeMap<CheckpointId, Abandoned>,
    // those that ended otherwise than in the register; `None`: their files are left where they are
    remembered: VecDeque<(CheckpointId, Option<Files>)>,
    failures: FailureCounter,
    cleaner: Cleaner,
    shared: SharedFiles,
    reading: Option<Reading>,
    sweep_wanted: bool,
    statistics: CheckpointStatistics,
    next_periodic: Option<Duration>,
    last_completed_at: Option<Duration>,
    closing: Closing,
    // the stop that is under way
    stop: Option<Stop>,
    first_delay: f64,
    end_timeout: Duration,
    figures: JobFigures,
    // nothing is decided any more
    stopped: Option<Stopped>,
    wake_at: Option<Duration>,
    out: Vec<Command>,
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
            job,
            job_name,
            now: Duration::ZERO,
            wall_ms: 0,
            register: Register::new(register),
            claimed: None,
            attempt_wanted: false,
            used: CheckpointId(0),
            first_own: CheckpointId(0),
            attempt: None,
            queue: RequestQueue::default(),
            starting: None,
            pending: BTreeMap::new(),
            abandoned_writes: BTreeMap::new(),
            remembered: VecDeque::new(),
            failures: FailureCounter::new(config.tolerable_failed_checkpoints),
            cleaner: Cleaner::new(patience),
            shared: SharedFiles::default(),
            reading: None,
            sweep_wanted: false,
            statistics: CheckpointStatistics::default(),
            next_periodic: None,
            last_completed_at: None,
            closing: Closing::Open,
            stop: None,
            // also NaN
            first_delay: if first_delay >= 0.0 { first_delay.min(1.0) } else { 1.0 },
            end_timeout,
            figures: JobFigures::default(),
            stopped: None,
            wake_at: None,
            out: Vec::new(),
            config,
        })
    }

    /// Takes in what happened and says what to do.
    pub fn handle(&mut self, event: Event, at: Moment) -> Vec<Command> {
        if let Some(stopped) = &self.stopped {
            return self.after_the_stop(stopped, &event);
        }
        (self.now, self.wall_ms) = (self.now.max(at.now), at.wall_ms);
        match event {
            Event::AttemptRequested => self.on_attempt_requested(),
            Event::AttemptStarted { generation, tasks } => self.on_attempt_started(generation, tasks),
            Event::AttemptStopped { generation, reason, restarts } => {
                self.on_attempt_stopped(generation, &reason, restarts);
            }
            Event::SourceEnded { generation, subtask } => self.on_source_ended(generation, subtask),
            Event::CommitConfirmed { generation, checkpoint, subtask } => {
                self.on_commit_confirmed(generation, checkpoint, subtask);
            }
            // the shell may have carried out an older wish after a newer one, so what is still due is asked
            // for again
            Event::Tick => self.wake_at = None,
            Event::TriggerRequested { request, savepoint, forced } => {
                self.on_trigger_requested(request, savepoint, forced);
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
            Event::Measured { figures } => self.figures = figures,
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
        std::mem::take(&mut self.out)
    }

    fn on_answer(&mut self, answer: StorageAnswer) {
        match answer {
            StorageAnswer::MetadataWritten { checkpoint, outcome } => {
                self.on_metadata_written(checkpoint, outcome)
            }
            StorageAnswer::RegisterUpdated { outcome } => {
                let settled = self.register.on_updated(outcome, self.now);
                self.on_register_settled(settled);
            }
            StorageAnswer::RegisterRead { result } => {
                let settled = self.register.on_read(result, self.now);
                self.on_register_settled(settled);
            }
            StorageAnswer::DirectoriesListed { names } => self.on_directories_listed(&names),
            StorageAnswer::ReferencesRead { references } => self.on_references_read(references),
            StorageAnswer::SharedListed { result } => self.on_shared_listed(result),
            StorageAnswer::DiscardDone { discard, failure } => {
                if let (Some(path), Some(failure)) = (self.cleaner.done(discard), failure) {
                    self.warn(format!("{path} could not be deleted, the next start tries again: {failure}"));
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
        match self.closing {
            Closing::Ending { outcome, .. } => Some(outcome),
            _ => None,
        }
    }

    /// Whether the job goes on, as far as is known here: no end is under way.
    pub fn is_open(&self) -> bool {
        self.closing == Closing::Open
    }

    /// Whether a stop waits for the sources to end.
    pub fn is_draining(&self) -> bool {
        self.closing == Closing::Draining
    }

    /// Counts and history.
    pub fn statistics(&self) -> &CheckpointStatistics {
        &self.statistics
    }

    /// The checkpoints that are under way, oldest first.
    pub fn in_progress(&self) -> Vec<CheckpointSummary> {
        self.pending
            .values()
            .map(|pending| self.summary(pending, statistics::CheckpointStatus::InProgress))
            .collect()
    }

    fn call(&mut self, call: StorageCall) {
        self.out.push(Command::Storage(call));
    }

    fn tell(&mut self, generation: Generation, control: Control) {
        self.out.push(Command::Tell { generation, control });
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.out.push(Command::Warn(text.into()));
    }

    fn info(&mut self, text: impl Into<String>) {
        self.out.push(Command::Info(text.into()));
    }

    /// The attempt, if it is this one.
    fn attempt_of(&self, generation: Generation) -> Option<&Attempt> {
        self.attempt.as_ref().filter(|attempt| attempt.generation == generation)
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

    /// Everything that time alone brings about.
    fn on_time(&mut self) {
        // before anything is tried once more
        self.on_end_overdue();
        if self.stopped.is_some() {
            return;
        }
        if let Some(command) = self.register.tick(self.now) {
            self.call(command);
        }
        self.on_register_overdue();
        self.expire();
        self.on_reading_time();
        self.on_timer();
        self.on_closing_time();
    }

    fn set_wake(&mut self) {
        let timeout = self.config.timeout;
        let pending = self.pending.values().filter(|p| !self.register.is_writing(p.checkpoint.id));
        let wake = pending
            .map(|p| p.checkpoint.triggered_at + timeout)
            .chain(self.starting.iter().map(|starting| starting.since + timeout))
            .chain(self.reading_wake_at())
            .chain(self.next_periodic)
            .chain(self.register.wake_at(timeout))
            .chain(self.closing.wake_at(timeout))
            .chain(self.cleaner.next_overdue(self.now).filter(|_| !self.queue.is_empty()))
            .min();
        if let Some(at) = wake
            && (self.wake_at != wake || at <= self.now)
        {
            self.out.push(Command::WakeAt(at));
        }
        self.wake_at = wake;
    }
}

#[cfg(test)]
mod tests;
