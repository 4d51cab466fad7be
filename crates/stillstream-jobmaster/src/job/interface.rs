//! What goes into the engine and what comes out of it.

use std::time::Duration;

use stillstream_types::{
    CheckpointType, CompletedRef, Error, Generation, JobId, RegisterRecord, RestartStrategy, Result,
    SavepointTarget,
};

use super::figures::Measured;
use crate::checkpoint::command::CheckpointReport;
use crate::checkpoint::config::CheckpointConfig;
use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::CheckpointFailure;
use crate::checkpoint::storage::{StorageAnswer, StorageCall};
use crate::message::{AttemptSpec, Control, Enumerated, Report, RestoredState};
use crate::plan::TaskInfo;

/// Which job, and how.
#[derive(Clone, Debug)]
pub struct JobSetup {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// When and how checkpoints are taken.
    pub checkpoint: CheckpointConfig,
    /// What happens after a failure.
    pub restart: RestartStrategy,
    /// All subtasks.
    pub tasks: Vec<TaskInfo>,
    /// How many workers each attempt has.
    pub workers: usize,
    /// The snapshot that a person named, to start from where the job has no checkpoint of its own.
    pub from_snapshot: Option<String>,
    /// Where checkpoints are, for messages.
    pub place: String,
    /// Whether a later start finds them.
    pub durable: bool,
    /// What the register holds since this process claimed it: its generation is this process's alone, and the
    /// first attempt runs under it. `None` only if there surely is no record: then the first attempt claims
    /// the first generation. An unreadable register is an error of the shell's, never `None`: a job that had
    /// a checkpoint must not start empty.
    pub register: Option<RegisterRecord>,
    /// Which share of the interval passes before the first periodic checkpoint of an attempt, from 0 to 1: a
    /// random number, so that jobs that start together do not take their checkpoints together for ever.
    pub first_delay: f64,
    /// How long the workers of an attempt may take to stop (`task.cancellation.timeout`).
    pub cancellation_timeout: Duration,
    /// How long the record of the job's end may take. Tasks may be given for ever to stop; a wait for storage
    /// ends.
    pub end_timeout: Duration,
}

/// How a job is to stop: all its output is committed, and it can go on from where it stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopRequest {
    /// The savepoint that it leaves; `None`: a checkpoint, from which its next start goes on by itself.
    pub savepoint: Option<SavepointTarget>,
    /// Event time ends first, so that every window and timer fires.
    pub drain: bool,
}

/// What happened. A shell hands each to [`JobEngine::handle`](super::engine::JobEngine::handle).
#[derive(Debug)]
pub enum JobEvent {
    /// The job is to run. Comes first, and once.
    Submitted,
    /// Time passed: sent at [`JobEngine::wake_at`](super::engine::JobEngine::wake_at), or at any time.
    Tick,
    /// A worker of this generation reports.
    Report(Generation, Report),
    /// The enumerator of a source of this generation has found or assigned something. They come in the order
    /// in which it has done so.
    Enumerated(Generation, Enumerated),
    /// The enumerator of a source of this generation has failed.
    EnumeratorFailed(Generation, Error),
    /// The answer to [`JobCommand::Storage`].
    Storage(StorageAnswer),
    /// The answer to [`JobCommand::ReadSnapshot`].
    Restored {
        /// For which attempt.
        generation: Generation,
        /// What its tasks start from; `None`: from nothing.
        result: Result<Option<RestoredState>>,
    },
    /// [`JobCommand::Deploy`] could not be carried out: no worker of the attempt runs.
    NotDeployed {
        /// Which attempt.
        generation: Generation,
        /// Why.
        error: Error,
    },
    /// The answer to [`JobCommand::Replace`]: these workers are gone, and others will do in their place.
    Replaced {
        /// Which.
        workers: Vec<usize>,
    },
    /// The answer to [`JobCommand::Replace`], if a worker cannot be replaced: it is left behind, and no
    /// attempt can follow.
    NotReplaced {
        /// Who it is, and why it cannot be replaced.
        error: Error,
    },
    /// A person cancels the job.
    Cancel,
    /// A person wants a checkpoint.
    TriggerCheckpoint(RequestId, CheckpointType),
    /// A person wants a savepoint.
    TriggerSavepoint(RequestId, SavepointTarget),
    /// A person wants the job to stop. The reply comes when all is committed and the stop is recorded, or
    /// when it has failed: then the job goes on.
    Stop(RequestId, StopRequest),
    /// What the workers have counted so far. Whatever may be the last word of a job comes behind a fresh one.
    Measured(Measured),
    /// A thread of the runtime has panicked, and with it went an answer that the engine may be waiting for.
    Panicked(Error),
}

impl JobEvent {
    /// Whether the job may end on this: then it comes behind a fresh [`Measured`](Self::Measured).
    pub fn may_end_the_job(&self) -> bool {
        match self {
            Self::Report(_, report) => {
                matches!(report, Report::Committed { .. } | Report::Stopped { .. } | Report::Failed { .. })
            }
            Self::Submitted | Self::Storage(_) | Self::Restored { .. } | Self::Enumerated(..) => false,
            Self::TriggerCheckpoint(..) | Self::TriggerSavepoint(..) | Self::Measured(_) => false,
            Self::Tick | Self::Cancel | Self::Stop(..) | Self::Panicked(_) | Self::EnumeratorFailed(..) => {
                true
            }
            Self::NotDeployed { .. } | Self::Replaced { .. } | Self::NotReplaced { .. } => true,
        }
    }
}

/// What an attempt starts from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestoreFrom {
    /// A checkpoint of the job's own, or the savepoint of a stop that did not come to its end: then the path
    /// is a location.
    Own(CompletedRef),
    /// The snapshot that a person named.
    Snapshot(String),
    /// Nothing.
    Nothing,
}

/// How important a line of the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// For whoever looks into the engine.
    Debug,
    /// An event of a job's normal life.
    Info,
    /// Something to look at.
    Warn,
    /// Something has gone wrong that nothing mends by itself.
    Error,
}

/// What a shell has to do, in this order. Whatever must be durable before a command may run is durable when
/// it is given.
#[derive(Debug)]
pub enum JobCommand {
    /// Call storage. Answer: [`JobEvent::Storage`].
    Storage(StorageCall),
    /// Read what an attempt starts from, and divide it among its subtasks. Answer: [`JobEvent::Restored`].
    ReadSnapshot {
        /// The attempt.
        generation: Generation,
        /// What to read.
        from: RestoreFrom,
    },
    /// Start the attempt on all workers; the one before has stopped. Answer: [`JobEvent::NotDeployed`] if
    /// that fails.
    Deploy(AttemptSpec),
    /// Tell every worker of the attempt.
    Tell {
        /// The attempt.
        generation: Generation,
        /// What.
        control: Control,
    },
    /// These workers did not stop in their time: replace them. The answer, [`JobEvent::Replaced`] or
    /// [`JobEvent::NotReplaced`], must not wait for anything.
    Replace {
        /// Which.
        workers: Vec<usize>,
    },
    /// Answer the request for a checkpoint.
    Reply {
        /// Which.
        request: RequestId,
        /// The outcome.
        result: Result<CheckpointReport, CheckpointFailure>,
    },
    /// Say that an attempt has failed, and that another one follows.
    Restarting {
        /// Why it failed.
        error: Error,
        /// The pause before the next one.
        delay: Duration,
        /// The how-manieth failure of its kind this is since the newest checkpoint.
        times: u64,
    },
    /// Say that the attempt takes its time to stop.
    StillStopping {
        /// The workers that have not stopped.
        workers: Vec<usize>,
        /// Why it stops, if it failed.
        after: Option<String>,
    },
    /// Warn; of a flood of warnings that differ in numbers only a few need to be written.
    Warn(String),
    /// Write a line into the log.
    Log(Level, String),
    /// A place where a test may make the JobManager die; nothing is to be done.
    Reached(&'static str),
    /// The job has ended. What is under way with storage may still be answered, and nothing else is wanted
    /// any more.
    End(Result<()>),
}
