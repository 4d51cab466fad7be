//! What the coordinator wants.

use std::time::Duration;

use stillstream_types::{CheckpointId, CheckpointKind, CompletedRef, ErrorKind, Generation, JobOutcome};

use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::CheckpointFailure;
use crate::checkpoint::storage::StorageCall;
use crate::message::Control;

/// The answer to a request for a checkpoint or savepoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointReport {
    /// Its number.
    pub id: CheckpointId,
    /// What it is.
    pub kind: CheckpointKind,
    /// Its directory: of a savepoint its location, otherwise relative to that of the job, and from the root
    /// (as `--from` takes it) where a client of a job gets it.
    pub path: String,
    /// Bytes of state.
    pub size_bytes: u64,
    /// From trigger to completion.
    pub duration: Duration,
}

/// What is to be done. Commands of one answer are started in their order; what must be durable before a
/// command may run is already durable when the command is given, so that nobody has to wait for one before
/// the next is started.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Call storage. The answer is an [`Event::Storage`](super::event::Event::Storage).
    Storage(StorageCall),
    /// The register belongs to `generation`: start its tasks, from this checkpoint or from nothing.
    BeginAttempt {
        /// Which attempt.
        generation: Generation,
        /// The newest completed checkpoint.
        restore_from: Option<CompletedRef>,
    },
    /// Tell the tasks.
    Tell {
        /// Of which attempt.
        generation: Generation,
        /// What.
        control: Control,
    },
    /// Answer a request.
    Reply {
        /// Which.
        request: RequestId,
        /// The outcome.
        result: Result<CheckpointReport, CheckpointFailure>,
    },
    /// Fail the attempt; the restart strategy decides what follows (a fatal kind: nothing).
    FailJob {
        /// What kind of error.
        kind: ErrorKind,
        /// What, where, and what to do.
        message: String,
    },
    /// The stop of the job has failed after its tasks had heard of it: begin the attempt anew, at once, and
    /// not as a task's fault.
    RestartAttempt {
        /// Why.
        message: String,
    },
    /// The outcome is in the register: the job may report it and let its tasks go.
    FinishJob {
        /// Finished, stopped, suspended, cancelled or failed.
        outcome: JobOutcome,
    },
    /// The outcome could not be recorded in its time, or cannot be at all: the job ends with it all the same,
    /// and nothing else is tried. What the register says instead, and what the next start makes of that, is
    /// in the message. No command follows.
    EndUnrecorded {
        /// Finished, stopped, suspended, cancelled or failed.
        outcome: JobOutcome,
        /// Why, and what it means.
        message: String,
    },
    /// Another generation owns the job. Stop all tasks, report nothing, delete nothing. No command follows.
    StepDown {
        /// The owner.
        owner: Generation,
    },
    /// Send a [`Tick`](super::event::Event::Tick) at this time (since the coordinator's zero). Replaces an
    /// earlier one.
    WakeAt(Duration),
    /// For the log.
    Warn(String),
    /// For the log.
    Info(String),
}
