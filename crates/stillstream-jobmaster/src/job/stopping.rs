//! How an attempt stops, by a failure, a person or another leader, and what follows: a restart, or the end of
//! the job.

use std::time::Duration;

use stillstream_types::{Error, ErrorKind, JobOutcome};

use super::engine::{JobEngine, JobPhase};
use super::exceptions::ExceptionEntry;
use super::interface::{JobCommand, Level};
use super::restart::RestartDecision;
use super::start::way_back;
use super::status::JobStatus;
use crate::checkpoint::event::Event;
use crate::message::Control;

/// Why an attempt stops.
#[derive(Debug)]
pub(super) enum StopReason {
    /// The restart strategy decides.
    Failure(Error),
    /// The attempt begins anew, whatever the restart strategy says.
    Restart(Error),
    /// A person wants it.
    Cancel,
    /// A person wants it, and the next start is to go on from the newest checkpoint.
    Suspend,
    /// The register has the job's good end, and nothing may be emitted any more.
    Recorded,
    /// The job ends with this error, and nothing can be recorded: another process owns it, or the register is
    /// away.
    Over(Error),
}

impl JobEngine {
    /// The attempt has failed, in whichever phase it is. The restart strategy decides what follows.
    pub(super) fn fail(&mut self, error: Error) {
        match &mut self.phase {
            JobPhase::Preparing { .. } => {
                self.advance(JobStatus::Failing);
                self.after_failure(error);
            }
            JobPhase::Draining { .. } if self.recorded.is_some() => {
                self.log(Level::Warn, format!("after the job had finished: {error}"));
            }
            JobPhase::Deploying(_) | JobPhase::Running | JobPhase::Draining { .. } => {
                // it is said once it is known what follows from it
                self.log(Level::Debug, error.to_string());
                self.advance(JobStatus::Failing);
                self.stop(StopReason::Failure(error));
            }
            // no attempt can begin after this one
            JobPhase::WaitingToRestart { .. } if error.is_fatal() => {
                self.advance(JobStatus::Failing);
                self.remember(&error, false);
                self.give_up(error);
            }
            JobPhase::Stopping { reason: StopReason::Failure(old), .. }
                if error.is_fatal() && !old.is_fatal() =>
            {
                *old = error
            }
            JobPhase::Stopping { reason: reason @ StopReason::Restart(_), .. } if error.is_fatal() => {
                *reason = StopReason::Failure(error)
            }
            // what follows from a failure is not news
            _ => self.log(Level::Debug, error.to_string()),
        }
    }

    pub(super) fn cancel(&mut self) {
        match &mut self.phase {
            // everything is committed and recorded
            JobPhase::Draining { .. } | JobPhase::Stopping { .. } if self.recorded.is_some() => {}
            JobPhase::Deploying(_) | JobPhase::Running | JobPhase::Draining { .. } => {
                self.advance(JobStatus::Cancelling);
                self.stop(StopReason::Cancel);
            }
            JobPhase::Stopping { reason: StopReason::Over(_), .. } => {}
            JobPhase::Stopping { reason, .. } => {
                *reason = StopReason::Cancel;
                self.advance(JobStatus::Cancelling);
            }
            JobPhase::Preparing { .. } | JobPhase::WaitingToRestart { .. } => {
                self.advance(JobStatus::Cancelling);
                self.end_cancelled();
            }
            JobPhase::Ending { .. } | JobPhase::Ended => {}
        }
    }

    pub(super) fn stop(&mut self, reason: StopReason) {
        match &mut self.phase {
            JobPhase::Ended => {}
            JobPhase::Stopping { reason: old, .. } => *old = reason,
            // nothing runs
            JobPhase::Preparing { .. } | JobPhase::WaitingToRestart { .. } | JobPhase::Ending { .. } => {
                self.stopped(reason)
            }
            JobPhase::Deploying(_) | JobPhase::Running | JobPhase::Draining { .. } => {
                let deadline = Some(self.at.now + self.job.cancellation_timeout);
                self.phase = JobPhase::Stopping { reason, deadline, warned: false };
                self.tell(Control::Stop);
                self.all_stopped();
            }
        }
    }

    /// Goes on when every worker has dropped its dataflow.
    pub(super) fn all_stopped(&mut self) {
        if self.attempt.stopped.len() < self.job.workers {
            return;
        }
        match self.leave_phase() {
            JobPhase::Draining { .. } => self.end_well(),
            JobPhase::Stopping { reason, .. } => self.stopped(reason),
            other => self.phase = other,
        }
    }

    fn leave_phase(&mut self) -> JobPhase {
        std::mem::replace(&mut self.phase, JobPhase::Preparing { until: None })
    }

    /// No worker has an attempt any more.
    fn stopped(&mut self, reason: StopReason) {
        if self.recorded.is_some() {
            if let StopReason::Failure(error) | StopReason::Over(error) = reason {
                self.log(Level::Warn, format!("after the job had ended: {error}"));
            }
            return self.end_well();
        }
        match reason {
            StopReason::Over(error) => {
                self.remember(&error, false);
                self.end_failed(error);
            }
            StopReason::Cancel | StopReason::Recorded => {
                self.attempt_stopped("the job was cancelled".into(), false);
                self.end_cancelled();
            }
            StopReason::Suspend => {
                self.attempt_stopped("the job is suspended".into(), false);
                self.end_suspended();
            }
            StopReason::Restart(error) => {
                self.attempt_stopped(error.to_string(), true);
                if self.coordinator.ending().is_some() {
                    return self.await_the_record(error);
                }
                self.restart_after(error, Duration::ZERO, 1);
            }
            StopReason::Failure(error) => self.after_failure(error),
        }
    }

    fn attempt_stopped(&mut self, reason: String, restarts: bool) {
        self.coordinate(Event::AttemptStopped { generation: self.attempt.generation, reason, restarts });
    }

    fn remember(&mut self, error: &Error, restarted: bool) {
        let (at_ms, task) = (self.at.wall_ms, self.attempt.failed_task.take());
        self.exceptions.push(ExceptionEntry { at_ms, message: error.to_string(), task, restarted });
    }

    /// All output is committed, and only the record is missing: its answer, or its deadline, ends the job.
    fn await_the_record(&mut self, error: Error) {
        self.log(Level::Warn, format!("while the end of the job is being recorded: {error}"));
        self.phase = JobPhase::Ending { error };
    }

    /// Where a checkpoint of the job's own cannot be read, says what a person can do.
    fn with_way_back(&self, error: Error) -> Error {
        let newest = self.coordinator.latest_completed().filter(|newest| !newest.is_savepoint());
        match (newest, self.coordinator.register()) {
            (Some(newest), Some(record))
                if error.kind() == ErrorKind::CorruptSnapshot && self.job.durable =>
            {
                error.context(way_back(record, newest.id))
            }
            _ => error,
        }
    }

    /// Restart or give up.
    fn after_failure(&mut self, error: Error) {
        if self.coordinator.ending().is_some() {
            self.attempt_stopped(error.to_string(), false);
            return self.await_the_record(error);
        }
        if error.is_fatal() {
            let error = self.with_way_back(error);
            self.attempt_stopped(error.to_string(), false);
            self.remember(&error, false);
            return self.give_up(error);
        }
        let times = self.repetition.on_failure(self.latest_completed(), &error.to_string());
        match self.strategy.on_failure(self.at.now, self.at.random) {
            RestartDecision::RestartAfter(delay) => {
                self.attempt_stopped(error.to_string(), true);
                self.restart_after(error, delay, times);
            }
            RestartDecision::Fail(reason) => {
                self.attempt_stopped(error.to_string(), false);
                self.remember(&error, false);
                let context = format!("job `{}` failed and is not restarted ({reason})", self.job.name);
                self.give_up(error.context(context));
            }
        }
    }

    fn restart_after(&mut self, error: Error, delay: Duration, times: u64) {
        self.remember(&error, true);
        self.advance(JobStatus::Restarting);
        self.out.push(JobCommand::Restarting { error, delay, times });
        self.phase = JobPhase::WaitingToRestart { at: self.at.now + delay };
    }

    fn unstopped(&self) -> Vec<usize> {
        (0..self.job.workers).filter(|worker| !self.attempt.stopped.contains(worker)).collect()
    }

    /// Half of the time to stop is over, or all of it.
    pub(super) fn on_stopping_time(&mut self) {
        let (now, half) = (self.at.now, self.job.cancellation_timeout / 2);
        let JobPhase::Stopping { reason, deadline, warned } = &mut self.phase else { return };
        let Some(at) = *deadline else { return };
        if now >= at {
            *deadline = None;
            self.give_up_waiting();
        } else if now >= at.saturating_sub(half) && !std::mem::replace(warned, true) {
            let after = match reason {
                StopReason::Failure(error) | StopReason::Restart(error) => Some(error.to_string()),
                StopReason::Cancel | StopReason::Suspend | StopReason::Recorded | StopReason::Over(_) => None,
            };
            let workers = self.unstopped();
            self.out.push(JobCommand::StillStopping { workers, after });
        }
    }

    /// The time to stop is over.
    pub(super) fn give_up_waiting(&mut self) {
        let workers = self.unstopped();
        self.out.push(JobCommand::Replace { workers });
    }

    pub(super) fn on_replaced(&mut self, workers: Vec<usize>) {
        if matches!(self.phase, JobPhase::Draining { .. } | JobPhase::Stopping { .. }) {
            self.attempt.stopped.extend(workers);
            self.all_stopped();
        }
    }

    /// A worker is left behind: no attempt can follow.
    pub(super) fn on_not_replaced(&mut self, error: Error) {
        let error = error.with_kind(ErrorKind::Timeout);
        match self.leave_phase() {
            JobPhase::Stopping { reason: StopReason::Over(over), .. } => self.stopped(StopReason::Over(over)),
            JobPhase::Stopping { reason, .. } => {
                self.attempt_stopped(error.to_string(), false);
                self.remember(&error, false);
                let outcome = match reason {
                    StopReason::Cancel => JobOutcome::Cancelled,
                    StopReason::Suspend => JobOutcome::Suspended,
                    StopReason::Failure(_)
                    | StopReason::Restart(_)
                    | StopReason::Recorded
                    | StopReason::Over(_) => JobOutcome::Failed,
                };
                self.end_with(outcome, error);
            }
            // it drained: the job has finished
            JobPhase::Draining { .. } => self.end_well(),
            other => self.phase = other,
        }
    }

    /// How long the workers of an attempt may take to stop.
    pub(super) fn stop_by(&self) -> Option<Duration> {
        Some(self.at.now + self.job.cancellation_timeout)
    }
}
