//! From a request to the barrier in the sources.

use std::time::Duration;

use stillstream_types::{CheckpointId, CheckpointKind, RegisterRecord, SavepointTarget, checkpoint_paths};

use super::{CheckpointCoordinator, Closing, Pending, Phase};
use crate::checkpoint::command::Command;
use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::{CheckpointFailure, FailureReason};
use crate::checkpoint::pending::{PendingCheckpoint, word};
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
    pub(super) fn on_trigger_requested(
        &mut self,
        request: RequestId,
        savepoint: Option<SavepointTarget>,
        forced: bool,
    ) {
        let wanted = Request::by_hand(request, savepoint, forced, self.now);
        match self.why_none_begins() {
            Some(message) => self.refuse(wanted, FailureReason::NotAllRequiredTasksRunning, message),
            None => self.submit(wanted),
        }
    }

    /// Why nobody's request can be taken now.
    pub(super) fn why_none_begins(&self) -> Option<&'static str> {
        if self.attempt.is_none() {
            return Some("no attempt runs: try again when the job runs");
        }
        match self.closing {
            Closing::Open => None,
            Closing::Draining | Closing::Stopping => {
                Some("the job is being stopped: try again if it goes on, or start from what its stop leaves")
            }
            _ if self.stop.is_some() => {
                Some("the job has been stopped, and its last output is being committed")
            }
            _ => Some("the job has reached the end of its input and takes its final checkpoint"),
        }
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
            self.submit(Request::periodic(self.now));
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
        let Request { request, kind, target: savepoint, last, forced, .. } = starting.request;
        let path = match &savepoint {
            Some(target) => target.location.clone(),
            None => checkpoint_paths::checkpoint(id).into(),
        };
        let mut checkpoint = PendingCheckpoint::new(id, kind, forced, path, attempt.subtasks(), self.now);
        (checkpoint.request, checkpoint.triggered_at_ms) = (request, self.wall_ms);
        checkpoint.last = last;
        let generation = attempt.generation;
        let base = self.latest_completed().map(|completed| completed.id);
        self.pending.insert(id, Pending { checkpoint, generation, phase: Phase::Collecting, base });
        self.statistics.on_started();
        let (at_ms, stop) = (self.wall_ms, last && self.on_last_begun(id));
        self.tell(generation, Control::Trigger { id, at_ms, savepoint, stop });
    }

    /// Gives the checkpoint in its first phase up.
    pub(super) fn abandon_start(&mut self, reason: FailureReason, message: &str) {
        let Some(Starting { id, request, .. }) = self.starting.take() else { return };
        let message = format!("{} {id} could not be started: {message}", word(request.kind));
        match reason.counts() {
            true => self.warn(format!("{message} ({reason})")),
            false => self.info(format!("{message} ({reason})")),
        }
        let (kind, last) = (request.kind, request.last);
        self.refuse(request, reason, &message);
        match kind {
            _ if last => self.stop_failed(reason, &message),
            CheckpointKind::Savepoint => {}
            CheckpointKind::Final | CheckpointKind::Checkpoint => {
                if kind == CheckpointKind::Final {
                    self.retry_final(&message);
                }
                self.count_failure(id, reason, &message);
            }
        }
    }
}
