//! From a request to the barrier in the sources.

use std::time::Duration;

use stillstream_types::{CheckpointId, CheckpointKind};

use super::{CheckpointCoordinator, Closing, Pending, Phase};
use crate::cleaner;
use crate::command::Command;
use crate::event::RequestId;
use crate::failure::{CheckpointFailure, FailureReason};
use crate::pending::PendingCheckpoint;
use crate::register::Purpose;
use crate::request_queue::{Decision, Request, Situation, Submitted};

/// A trigger in its first phase: it has an id, and waits for the id's reservation or for its location.
#[derive(Clone, Debug)]
pub(super) struct Starting {
    pub(super) id: CheckpointId,
    pub(super) request: Request,
    pub(super) since: Duration,
    preparing: bool,
}

impl CheckpointCoordinator {
    pub(super) fn on_trigger_requested(&mut self, request: RequestId, kind: CheckpointKind, forced: bool) {
        let (request, at) = (Some(request), self.now);
        let request = Request { request, kind, forced, periodic: false, at };
        if self.attempt.is_none() || !matches!(self.closing, Closing::Open) || kind == CheckpointKind::Final {
            let message = match self.attempt {
                None => "no attempt runs: try again when the job runs",
                Some(_) if kind == CheckpointKind::Final => {
                    "the final checkpoint is taken by the system alone"
                }
                Some(_) => "the job has reached the end of its input and takes its final checkpoint",
            };
            self.refuse(request, FailureReason::NotAllRequiredTasksRunning, message);
            return;
        }
        self.submit(request);
    }

    pub(super) fn submit(&mut self, request: Request) {
        match self.queue.submit(request) {
            Submitted::Queued => {}
            Submitted::Displaced(request) | Submitted::Refused(request) => self.refuse(
                request,
                FailureReason::TooManyCheckpointRequests,
                "too many checkpoints are waiting: try again when some have completed",
            ),
        }
    }

    /// Answers a request that never became a checkpoint.
    pub(super) fn refuse(&mut self, request: Request, reason: FailureReason, message: &str) {
        if let Some(request) = request.request {
            let result = Err(CheckpointFailure::new(reason, message));
            self.out.push(Command::Reply { request, result });
        }
    }

    /// The periodic timer.
    pub(super) fn on_timer(&mut self) {
        let (Some(due), Some(period)) = (self.next_periodic, self.config.period()) else { return };
        if due > self.now || !matches!(self.closing, Closing::Open) {
            return;
        }
        // a timer that was late does not make up for what it missed
        self.next_periodic = Some(if due + period > self.now { due + period } else { self.now + period });
        if !self.queue.has_periodic() {
            let (kind, at) = (CheckpointKind::Checkpoint, self.now);
            self.submit(Request { request: None, kind, forced: false, periodic: true, at });
        }
    }

    pub(super) fn start_requests(&mut self) {
        let held_back = self.reading.is_some_and(|reading| reading.holds_back);
        while self.attempt.is_some() && self.starting.is_none() && !held_back {
            let situation = Situation {
                now: self.now,
                starting: false,
                pending: self.pending.len(),
                cleaning: self.cleaner.holding_back(self.now),
                max_concurrent: self.config.max_concurrent,
                min_pause: self.config.min_pause,
                last_completed_at: self.last_completed_at,
            };
            match self.queue.decide(&situation) {
                Decision::Wait => return,
                Decision::TooEarly { request, retry_at } => {
                    self.next_periodic = Some(retry_at);
                    self.refuse(request, FailureReason::MinimumTimeBetweenCheckpoints, "too early");
                }
                Decision::Start(request) => {
                    self.used = self.used.next();
                    let (id, since) = (self.used, self.now);
                    self.starting = Some(Starting { id, request, since, preparing: false });
                    self.prepare_location();
                }
            }
        }
    }

    /// Prepares the location of the trigger in its first phase, as soon as its id is reserved.
    pub(super) fn prepare_location(&mut self) {
        let Some(starting) = self.starting.as_mut().filter(|starting| !starting.preparing) else { return };
        let reserved = self
            .register
            .durable()
            .is_some_and(|r| Some(r.generation) == self.claimed && starting.id <= r.last_checkpoint_id);
        if reserved {
            starting.preparing = true;
            let (checkpoint, kind) = (starting.id, starting.request.kind);
            self.out.push(Command::PrepareLocation { checkpoint, kind });
        } else if !self.register.has(|purpose| *purpose == Purpose::Reserve) {
            self.register.push(Purpose::Reserve, self.now);
        }
    }

    pub(super) fn on_location_prepared(&mut self, id: CheckpointId, result: Result<String, String>) {
        if self.abandoned_locations.remove(&id) {
            if let Ok(path) = result {
                self.discard_directory(id, &path, Vec::new());
            }
            return;
        }
        if !self.starting.as_ref().is_some_and(|starting| starting.id == id && starting.preparing) {
            return;
        }
        let Some(starting) = self.starting.take() else { return };
        let path = match result {
            Ok(path) if starting.request.kind == CheckpointKind::Savepoint => path,
            Ok(path) if path == cleaner::directory(id) => path,
            Ok(path) => {
                let message = format!("{} was expected, {path} was prepared", cleaner::directory(id));
                self.fail_start(starting, FailureReason::TriggerCheckpointFailure, &message);
                return;
            }
            Err(message) => {
                self.fail_start(starting, FailureReason::IoException, &message);
                return;
            }
        };
        let Some(attempt) = &self.attempt else { return };
        let (kind, forced) = (starting.request.kind, starting.request.forced);
        let subtasks = attempt.subtasks.iter().copied();
        let mut checkpoint = PendingCheckpoint::new(id, kind, forced, path.clone(), subtasks, self.now);
        checkpoint.request = starting.request.request;
        let (generation, sources) = (attempt.generation, attempt.sources.clone());
        let base = self.latest_completed().map(|completed| completed.id);
        self.pending.insert(id, Pending { checkpoint, generation, phase: Phase::Collecting, base });
        self.statistics.on_started();
        let subtasks = sources;
        self.out.push(Command::TriggerSources { generation, checkpoint: id, kind, path, subtasks });
    }

    /// The trigger in its first phase failed.
    pub(super) fn fail_start(&mut self, starting: Starting, reason: FailureReason, message: &str) {
        let Starting { id, request, .. } = starting;
        let message = format!("checkpoint {id} could not be started: {message}");
        self.warn(format!("{message} ({reason})"));
        if request.kind == CheckpointKind::Final {
            self.retry_final(&message);
        }
        self.refuse(request, reason, &message);
        self.count_failure(id, reason, &message);
    }

    /// Gives the trigger in its first phase up.
    pub(super) fn abandon_start(&mut self, reason: FailureReason, message: &str) {
        let Some(starting) = self.starting.take() else { return };
        if starting.preparing {
            self.abandoned_locations.insert(starting.id);
        }
        self.fail_start(starting, reason, message);
    }
}
