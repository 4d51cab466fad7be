//! From a request to the barrier in the sources.

use std::time::Duration;

use stillstream_types::{CheckpointId, CheckpointKind, SavepointTarget, checkpoint_paths};

use super::CheckpointCoordinator;
use super::in_progress::Pending;
use crate::checkpoint::config::CheckpointConfig;
use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::{CheckpointFailure, FailureReason};
use crate::checkpoint::pending::{PendingCheckpoint, word};
use crate::checkpoint::register::Purpose;
use crate::checkpoint::request_queue::{Decision, Request, RequestQueue, Situation, Submitted};
use crate::message::Control;

/// A trigger in its first phase: it has an id, and waits until that is reserved.
#[derive(Clone, Debug)]
struct Starting {
    id: CheckpointId,
    request: Request,
    since: Duration,
}

/// The requests that are no checkpoints yet, and the timer that makes them.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    queue: RequestQueue,
    starting: Option<Starting>,
    // when the timer goes off; `None`: it does not run
    next_periodic: Option<Duration>,
    last_completed_at: Option<Duration>,
    // which share of the time between two checkpoints passes before the first of an attempt
    first_delay: f64,
}

impl Requests {
    pub(super) fn new(first_delay: f64) -> Self {
        Self {
            queue: RequestQueue::default(),
            starting: None,
            next_periodic: None,
            last_completed_at: None,
            // also NaN
            first_delay: if first_delay >= 0.0 { first_delay.min(1.0) } else { 1.0 },
        }
    }

    /// An attempt begins. Flink's: at random between the pause and the interval.
    pub(super) fn start_timer(&mut self, now: Duration, config: &CheckpointConfig) {
        let pause = config.min_pause;
        let first = |period: Duration| pause + period.saturating_sub(pause).mul_f64(self.first_delay);
        self.next_periodic = config.period().map(|period| now + first(period));
    }

    /// The timer begins anew, with a whole period.
    pub(super) fn restart_timer(&mut self, now: Duration, config: &CheckpointConfig) {
        self.next_periodic = config.period().map(|period| now + period);
    }

    pub(super) fn stop_timer(&mut self) {
        self.next_periodic = None;
    }

    /// Whether the timer has gone off. A timer that was late does not make up for what it missed.
    fn timer_went_off(&mut self, now: Duration, period: Duration) -> bool {
        let Some(due) = self.next_periodic.filter(|due| *due <= now) else { return false };
        self.next_periodic = Some(if due + period > now { due + period } else { now + period });
        true
    }

    /// Whether any request waits for its turn.
    pub(super) fn are_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes out those that wait for their turn.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Request> + use<> {
        self.queue.drain()
    }

    /// Takes out all, that in its first phase included.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Request> + use<> {
        self.queue.drain().chain(self.starting.take().map(|starting| starting.request))
    }

    /// Whether the trigger in its first phase has taken too long.
    pub(super) fn start_is_overdue(&self, now: Duration, timeout: Duration) -> bool {
        self.starting.as_ref().is_some_and(|starting| now >= starting.since + timeout)
    }

    /// A checkpoint is completed: the pause begins.
    pub(super) fn on_completed(&mut self, now: Duration) {
        self.last_completed_at = Some(now);
    }

    /// When the timer goes off, or the trigger in its first phase has taken too long.
    pub(super) fn wake_at(&self, timeout: Duration) -> Option<Duration> {
        let late = self.starting.as_ref().map(|starting| starting.since + timeout);
        late.into_iter().chain(self.next_periodic).min()
    }
}

impl CheckpointCoordinator {
    pub(super) fn on_trigger_requested(
        &mut self,
        request: RequestId,
        savepoint: Option<SavepointTarget>,
        full: bool,
        forced: bool,
    ) {
        let by_hand = Request::by_hand(request, savepoint, forced, self.clock.now());
        let wanted = Request { full, ..by_hand };
        match self.why_none_begins() {
            Some(message) => self.refuse(wanted, FailureReason::NotAllRequiredTasksRunning, message),
            None => self.submit(wanted),
        }
    }

    /// Why nobody's request can be taken now.
    pub(super) fn why_none_begins(&self) -> Option<&'static str> {
        if self.attempts.running().is_none() {
            return Some("no attempt runs: try again when the job runs");
        }
        self.end.why_none_begins(self.stop.is_some())
    }

    pub(super) fn submit(&mut self, request: Request) {
        match self.requests.queue.submit(request) {
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
            self.commands.reply(request, result);
        }
    }

    /// The periodic timer.
    pub(super) fn on_timer(&mut self) {
        let (now, Some(period)) = (self.clock.now(), self.config.period()) else { return };
        if !self.end.is_open() || !self.requests.timer_went_off(now, period) {
            return;
        }
        if !self.requests.queue.has_periodic() {
            self.submit(Request::periodic(now));
        }
    }

    pub(super) fn start_requests(&mut self) {
        let now = self.clock.now();
        while self.attempts.running().is_some()
            && self.requests.starting.is_none()
            && !self.shared.holds_back()
        {
            let situation = Situation {
                now,
                pending: self.in_progress.len(),
                cleaning: self.cleaner.holding_back(now),
                max_concurrent: self.config.max_concurrent,
                min_pause: self.config.min_pause,
                last_completed_at: self.requests.last_completed_at,
            };
            match self.requests.queue.decide(&situation) {
                Decision::Wait => return,
                Decision::TooEarly { request, retry_at } => {
                    self.requests.next_periodic = Some(retry_at);
                    self.refuse(request, FailureReason::MinimumTimeBetweenCheckpoints, "too early");
                }
                Decision::Start(request) => {
                    let id = self.ids.hand_out();
                    self.requests.starting = Some(Starting { id, request, since: now });
                    self.begin();
                }
            }
        }
    }

    /// Begins the checkpoint in its first phase, as soon as its id is reserved.
    pub(super) fn begin(&mut self) {
        let Some(id) = self.requests.starting.as_ref().map(|starting| starting.id) else { return };
        let now = self.clock.now();
        let own = self.register.durable().filter(|record| self.attempts.owns(record));
        let is_reserved = own.is_some_and(|record| id <= record.last_checkpoint_id);
        if !is_reserved {
            if !self.register.has(|purpose| *purpose == Purpose::Reserve) {
                self.register.push(Purpose::Reserve, now);
            }
            return;
        }
        let (Some(starting), Some(attempt)) = (self.requests.starting.take(), self.attempts.running()) else {
            return;
        };
        let Request { request, kind, target: savepoint, full, last, forced, .. } = starting.request;
        let at_ms = self.clock.wall_ms();
        let path = match &savepoint {
            Some(target) => target.location.clone(),
            None => checkpoint_paths::checkpoint(id).into(),
        };
        let mut checkpoint = PendingCheckpoint::new(id, kind, forced, path, attempt.subtasks(), now);
        (checkpoint.request, checkpoint.triggered_at_ms) = (request, at_ms);
        checkpoint.last = last;
        checkpoint.format = savepoint.as_ref().map(|target| target.format);
        checkpoint.enumerators = attempt.enumerators().clone();
        let generation = attempt.generation();
        let base = self.latest_completed().map(|completed| completed.id);
        self.in_progress.begin(Pending::new(checkpoint, generation, base));
        self.statistics.on_started();
        let stop = last && self.on_last_begun(id);
        self.commands.tell(generation, Control::Trigger { id, at_ms, savepoint, full, stop });
    }

    /// Gives the checkpoint in its first phase up.
    pub(super) fn abandon_start(&mut self, reason: FailureReason, message: &str) {
        let Some(Starting { id, request, .. }) = self.requests.starting.take() else { return };
        let message = format!("{} {id} could not be started: {message}", word(request.kind));
        match reason.counts() {
            true => self.commands.warn(format!("{message} ({reason})")),
            false => self.commands.info(format!("{message} ({reason})")),
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
