//! How an attempt stops, by a failure, a person or another leader, and what follows: a restart, or the end of the job.

use std::time::Duration;

use stillstream_types::{Error, ErrorKind, JobOutcome};

use super::engine::{JobCommand, JobEngine, Level, Phase};
use super::restart::RestartDecision;
use super::status::JobStatus;
use crate::checkpoint::event::Event;
use crate::message::Control;

/// Why an attempt stops.
#[derive(Debug)]
pub(super) enum Why {
    /// The restart strategy decides.
    Failure(Error),
    /// A person wants it.
    Cancel,
    /// The job ends with this error, and nothing can be recorded: another process owns it, or the register is away.
    Over(Error),
}

impl JobEngine {
    /// The attempt has failed, in whichever phase it is. The restart strategy decides what follows.
    pub(super) fn fail(&mut self, error: Error) {
        match &mut self.phase {
            Phase::Preparing { .. } => {
                self.advance(JobStatus::Failing);
                self.after_failure(error);
            }
            Phase::Draining { .. } if self.finished => {
                self.log(Level::Warn, format!("after the job had finished: {error}"));
            }
            Phase::Deploying(_) | Phase::Running | Phase::Draining { .. } => {
                // it is said once it is known what follows from it
                self.log(Level::Debug, error.to_string());
                self.advance(JobStatus::Failing);
                self.stop(Why::Failure(error));
            }
            // no attempt can begin after this one
            Phase::WaitingToRestart { .. } if error.is_fatal() => {
                self.advance(JobStatus::Failing);
                self.give_up(error);
            }
            Phase::Stopping { why: Why::Failure(old), .. } if error.is_fatal() && !old.is_fatal() => {
                *old = error
            }
            // what follows from a failure is not news
            _ => self.log(Level::Debug, error.to_string()),
        }
    }

    pub(super) fn cancel(&mut self) {
        match &mut self.phase {
            // everything is committed and recorded
            Phase::Draining { .. } if self.finished => {}
            Phase::Deploying(_) | Phase::Running | Phase::Draining { .. } => {
                self.advance(JobStatus::Cancelling);
                self.stop(Why::Cancel);
            }
            Phase::Stopping { why: Why::Over(_), .. } => {}
            Phase::Stopping { why, .. } => {
                *why = Why::Cancel;
                self.advance(JobStatus::Cancelling);
            }
            Phase::Preparing { .. } | Phase::WaitingToRestart { .. } => {
                self.advance(JobStatus::Cancelling);
                self.end_cancelled();
            }
            Phase::Ending { .. } | Phase::Ended => {}
        }
    }

    pub(super) fn stop(&mut self, why: Why) {
        match &mut self.phase {
            Phase::Ended => {}
            Phase::Stopping { why: old, .. } => *old = why,
            // nothing runs
            Phase::Preparing { .. } | Phase::WaitingToRestart { .. } | Phase::Ending { .. } => {
                self.stopped(why)
            }
            Phase::Deploying(_) | Phase::Running | Phase::Draining { .. } => {
                let deadline = Some(self.at.now + self.job.cancellation_timeout);
                self.phase = Phase::Stopping { why, deadline, warned: false };
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
            Phase::Draining { .. } => self.end_finished(),
            Phase::Stopping { why, .. } => self.stopped(why),
            other => self.phase = other,
        }
    }

    fn leave_phase(&mut self) -> Phase {
        std::mem::replace(&mut self.phase, Phase::Preparing { until: None })
    }

    /// No worker has an attempt any more.
    fn stopped(&mut self, why: Why) {
        if self.finished {
            if let Why::Failure(error) | Why::Over(error) = why {
                self.log(Level::Warn, format!("after the job had finished: {error}"));
            }
            return self.end_finished();
        }
        match why {
            Why::Over(error) => self.end_failed(error),
            Why::Cancel => {
                self.attempt_stopped("the job was cancelled".into());
                self.end_cancelled();
            }
            Why::Failure(error) => {
                self.attempt_stopped(error.to_string());
                self.after_failure(error);
            }
        }
    }

    fn attempt_stopped(&mut self, reason: String) {
        self.coordinate(Event::AttemptStopped { generation: self.attempt.generation, reason });
    }

    /// Restart or give up.
    fn after_failure(&mut self, error: Error) {
        if self.coordinator.ending().is_some() {
            // all output is committed, and only the record is missing: its answer, or its deadline, ends the job
            self.log(Level::Warn, format!("while the end of the job is being recorded: {error}"));
            self.phase = Phase::Ending { error };
            return;
        }
        if error.is_fatal() {
            return self.give_up(error);
        }
        let times = self.repetition.on_failure(self.latest_completed(), &error.to_string());
        match self.strategy.on_failure(self.at.now, self.at.random) {
            RestartDecision::RestartAfter(delay) => {
                self.advance(JobStatus::Restarting);
                self.out.push(JobCommand::Restarting { error, delay, times });
                self.phase = Phase::WaitingToRestart { at: self.at.now + delay };
            }
            RestartDecision::Fail(reason) => {
                let context = format!("job `{}` failed and is not restarted ({reason})", self.job.name);
                self.give_up(error.context(context));
            }
        }
    }

    fn unstopped(&self) -> Vec<usize> {
        (0..self.job.workers).filter(|worker| !self.attempt.stopped.contains(worker)).collect()
    }

    /// Half of the time to stop is over, or all of it.
    pub(super) fn on_stopping_time(&mut self) {
        let (now, half) = (self.at.now, self.job.cancellation_timeout / 2);
        let Phase::Stopping { why, deadline, warned } = &mut self.phase else { return };
        let Some(at) = *deadline else { return };
        if now >= at {
            *deadline = None;
            self.give_up_waiting();
        } else if now >= at.saturating_sub(half) && !std::mem::replace(warned, true) {
            let after = match why {
                Why::Failure(error) => Some(error.to_string()),
                Why::Cancel | Why::Over(_) => None,
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
        if matches!(self.phase, Phase::Draining { .. } | Phase::Stopping { .. }) {
            self.attempt.stopped.extend(workers);
            self.all_stopped();
        }
    }

    /// A worker is left behind: no attempt can follow.
    pub(super) fn on_not_replaced(&mut self, error: Error) {
        let error = error.with_kind(ErrorKind::Timeout);
        match self.leave_phase() {
            Phase::Stopping { why: Why::Over(over), .. } => self.stopped(Why::Over(over)),
            Phase::Stopping { why, .. } => {
                self.attempt_stopped(error.to_string());
                let cancelled = matches!(why, Why::Cancel);
                self.end_with(if cancelled { JobOutcome::Cancelled } else { JobOutcome::Failed }, error);
            }
            // it drained: the job has finished
            Phase::Draining { .. } => self.end_finished(),
            other => self.phase = other,
        }
    }

    /// How long the workers of an attempt may take to stop.
    pub(super) fn stop_by(&self) -> Option<Duration> {
        Some(self.at.now + self.job.cancellation_timeout)
    }
}
