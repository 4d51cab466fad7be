//! A person stops the job: its last checkpoint or savepoint is taken, and the commits follow as for the final
//! checkpoint.
//!
//! | state | what is under way | ends with |
//! |---|---|---|
//! | `Draining` | the sources end, and everything follows that the end causes | all subtasks have ended |
//! | `Stopping` | the last checkpoint, behind whose barrier nobody emits anything | the register names it |
//! | `Committing` | every subtask commits and confirms | the last confirmation |
//! | `Ending` | the outcome is recorded | the record |
//!
//! From the first of them on no other checkpoint begins. What fails before the record fails the stop: its
//! request is answered, and if the tasks have heard of it by then, the attempt begins anew, since they have
//! stopped emitting or have said to the windows that time has ended. The request is answered with success
//! when the end is recorded, and not before.

use stillstream_types::{CheckpointId, CheckpointKind, Generation, JobOutcome, SavepointTarget};

use super::CheckpointCoordinator;
use super::attempt::Attempt;
use super::in_progress::CheckpointPhase;
use crate::checkpoint::command::{CheckpointReport, Command};
use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::{CheckpointFailure, FailureReason};
use crate::checkpoint::request_queue::Request;
use crate::message::Control;

/// A stop that is under way.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    request: RequestId,
    target: Option<SavepointTarget>,
    drain: bool,
    /// The tasks have heard of it: they do not go on by themselves.
    told: bool,
    /// Its last checkpoint, once that has begun.
    id: Option<CheckpointId>,
    /// The register names it.
    report: Option<CheckpointReport>,
}

impl Stop {
    /// Whether the job stops with this checkpoint.
    pub(super) fn is_last(&self, id: CheckpointId) -> bool {
        self.id == Some(id)
    }

    /// What becomes of the job. After a drain nothing can go on from a plain checkpoint, since event time has
    /// ended in it.
    fn outcome(&self) -> JobOutcome {
        match (&self.target, self.drain) {
            (Some(_), _) => JobOutcome::Stopped,
            (None, false) => JobOutcome::Suspended,
            (None, true) => JobOutcome::Finished,
        }
    }
}

impl CheckpointCoordinator {
    pub(super) fn on_stop_requested(
        &mut self,
        request: RequestId,
        target: Option<SavepointTarget>,
        drain: bool,
    ) {
        let generation = self.attempts.running().map(Attempt::generation);
        let (Some(generation), None) = (generation, self.why_none_begins()) else {
            let message = self.why_none_begins().unwrap_or("no attempt runs: try again when the job runs");
            let result = Err(CheckpointFailure::new(FailureReason::NotAllRequiredTasksRunning, message));
            return self.commands.reply(request, result);
        };
        self.stop = Some(Stop { request, target, drain, told: drain, id: None, report: None });
        self.requests.stop_timer();
        let (reason, message) = (FailureReason::NotAllRequiredTasksRunning, "the job is being stopped");
        self.abandon_start(reason, message);
        for waiting in self.requests.drain() {
            self.refuse(waiting, reason, message);
        }
        if drain {
            self.end.drain();
            self.commands.tell(generation, Control::Drain);
        } else {
            self.take_last();
        }
    }

    /// The last checkpoint of the stop is wanted now.
    pub(super) fn take_last(&mut self) {
        let Some(stop) = &self.stop else { return };
        let kind = match (&stop.target, stop.drain) {
            (Some(_), _) => CheckpointKind::Savepoint,
            (None, false) => CheckpointKind::Checkpoint,
            (None, true) => CheckpointKind::Final,
        };
        let (target, at) = (stop.target.clone(), self.clock.now());
        self.end.hold();
        self.submit(Request {
            kind,
            target,
            last: true,
            forced: true,
            periodic: false,
            ..Request::periodic(at)
        });
    }

    /// Its barrier leaves the sources. Returns whether it holds them: after a drain nothing is left to hold.
    pub(super) fn on_last_begun(&mut self, id: CheckpointId) -> bool {
        self.stop.as_mut().is_some_and(|stop| {
            (stop.id, stop.told) = (Some(id), true);
            !stop.drain
        })
    }

    pub(super) fn on_drain_overdue(&mut self, message: &str) {
        if self.end.is_draining() {
            self.stop_failed(FailureReason::CheckpointExpired, message);
        }
    }

    /// A last checkpoint has failed; perhaps that of a stop which has been answered since.
    pub(super) fn last_failed(&mut self, id: CheckpointId, reason: FailureReason, message: &str) {
        if self.stop.as_ref().is_some_and(|stop| stop.is_last(id)) {
            self.stop_failed(reason, message);
        }
    }

    /// The stop does not come about: the job goes on.
    pub(super) fn stop_failed(&mut self, reason: FailureReason, message: &str) {
        let Some(stop) = &self.stop else { return };
        if stop.told {
            let message = format!("the job is not stopped: {message}");
            let text = format!("{message}; it is restarted and goes on from {}", self.where_it_goes_on());
            self.answer_stop(Err(CheckpointFailure::new(reason, text)));
            // until the attempt has stopped nothing begins
            self.end.hold();
            self.commands.push(Command::RestartAttempt { message });
        } else {
            let text = format!("the job is not stopped: {message}; it goes on");
            self.answer_stop(Err(CheckpointFailure::new(reason, text)));
            self.end.reopen();
            self.requests.restart_timer(self.clock.now(), &self.config);
        }
    }

    /// The register names the last checkpoint: everybody commits.
    pub(super) fn on_last_completed(&mut self, report: CheckpointReport, generation: Generation) {
        if let Some(stop) = self.stop.as_mut().filter(|stop| stop.is_last(report.id)) {
            let id = report.id;
            stop.report = Some(report);
            self.await_commits(id, generation);
        }
    }

    /// The attempt of the stop is gone. Says so to whoever waits, and what became of the snapshot by then.
    pub(super) fn stop_lost(&mut self, reason: &str, restarts: bool) {
        let Some(stop) = &self.stop else { return };
        let what = match &stop.target {
            Some(target) => format!("savepoint {}", target.location),
            None => "its last checkpoint".to_owned(),
        };
        let whole = stop.report.is_some();
        let last = stop.id.and_then(|id| Some((id, self.in_progress.get(id)?.phase())));
        let fate = match last {
            _ if stop.report.is_some() => format!("; {what} is complete"),
            Some((id, _)) if self.register.is_writing(id) => {
                format!("; it is not known yet whether {what} is complete")
            }
            Some((_, CheckpointPhase::Registering)) if stop.target.is_some() => {
                format!("; {what} is complete")
            }
            _ => String::new(),
        };
        // it cannot be taken back: the snapshot is the truth, and its output is being committed
        let drained = match whole && stop.drain {
            true => {
                "; event time has ended in it, so that windows which were open have fired, and what is read from here on \
                     comes into windows of its own"
            }
            false => "",
        };
        let then = match restarts {
            true => format!("the job restarts and goes on from {}{drained}", self.where_it_goes_on()),
            false => "the job ends".to_owned(),
        };
        let text = format!("the job is not stopped: its attempt ended: {reason}{fate}; {then}");
        self.answer_stop(Err(CheckpointFailure::new(FailureReason::JobFailoverRegion, text)));
    }

    fn where_it_goes_on(&self) -> String {
        match self.latest_completed() {
            Some(newest) => newest.to_string(),
            None => "where it had begun, for it has no checkpoint".to_owned(),
        }
    }

    /// How the job ends when everything is committed.
    pub(super) fn outcome_of_the_end(&self) -> JobOutcome {
        self.stop.as_ref().map_or(JobOutcome::Finished, Stop::outcome)
    }

    /// The end is recorded.
    pub(super) fn stop_recorded(&mut self) {
        if let Some(report) = self.stop.as_ref().and_then(|stop| stop.report.clone()) {
            self.answer_stop(Ok(report));
        }
    }

    pub(super) fn answer_stop(&mut self, result: Result<CheckpointReport, CheckpointFailure>) {
        if let Some(Stop { request, .. }) = self.stop.take() {
            self.commands.reply(request, result);
        }
    }
}
