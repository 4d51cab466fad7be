//! From a request to the barrier in the sources.

use std::time::Duration;

use stillstream_types::{CheckpointId, CheckpointKind, RegisterRecord, checkpoint_paths};

use super::{CheckpointCoordinator, Closing, Pending, Phase};
use crate::checkpoint::command::Command;
use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::{CheckpointFailure, FailureReason};
use crate::checkpoint::pending::PendingCheckpoint;
use crate::checkpoint::register::Purpose;
use crate::checkpoint::request_queue::{Decision, Request, Situation, Submitted};
use crate::message::Control;

/// A trigger in its first phase: it has an id, and waits until that is reserved.
#[derive(Clone, Debug)]
pub(super) struct Starting {
    pub(super) id: CheckpointId,
    pub(super) request: Request,
    pub(super) since: Duration,
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
                    self.starting = Some(Starting { id: self.used, request, since: self.now });
                    self.begin();
                }
            }
        }
    }

    /// Begins the checkpoint in its first phase, as soon as its id is reserved.
    pub(super) fn begin(&mut self) {
        let Some(id) = self.starting.as_ref().map(|starting| starting.id) else { return };
        let is_reserved =
            |r: &RegisterRecord| Some(r.generation) == self.claimed && id <= r.last_checkpoint_id;
        if !self.register.durable().is_some_and(is_reserved) {
            if !self.register.has(|purpose| *purpose == Purpose::Reserve) {
                self.register.push(Purpose::Reserve, self.now);
            }
            return;
        }
        let (Some(starting), Some(attempt)) = (self.starting.take(), &self.attempt) else { return };
        let (kind, forced) = (starting.request.kind, starting.request.forced);
        let path = checkpoint_paths::directory(self.job, kind, id);
        let mut checkpoint = PendingCheckpoint::new(id, kind, forced, path, attempt.subtasks(), self.now);
        (checkpoint.request, checkpoint.triggered_at_ms) = (starting.request.request, self.wall_ms);
        let generation = attempt.generation;
        let base = self.latest_completed().map(|completed| completed.id);
        self.pending.insert(id, Pending { checkpoint, generation, phase: Phase::Collecting, base });
        self.statistics.on_started();
        let (at_ms, savepoint, stop) = (self.wall_ms, None, false);
        self.tell(generation, Control::Trigger { id, at_ms, savepoint, stop });
    }

    /// Gives the checkpoint in its first phase up.
    pub(super) fn abandon_start(&mut self, reason: FailureReason, message: &str) {
        let Some(Starting { id, request, .. }) = self.starting.take() else { return };
        let message = format!("checkpoint {id} could not be started: {message}");
        self.warn(format!("{message} ({reason})"));
        if request.kind == CheckpointKind::Final {
            self.retry_final(&message);
        }
        self.refuse(request, reason, &message);
        self.count_failure(id, reason, &message);
    }
}
