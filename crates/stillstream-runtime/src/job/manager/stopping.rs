//! How an attempt stops, by a failure, a person or another leader, and what follows: a restart, or the end of the job.

use super::*;

impl Manager {
    pub(super) fn finish_job(&mut self, outcome: JobOutcome) {
        match outcome {
            JobOutcome::Finished => {
                self.state.finished = true;
                if matches!(self.state.phase, Phase::Running) {
                    self.state.phase = Phase::Draining;
                    self.fleet.send(Control::Finish);
                }
            }
            JobOutcome::Cancelled => {
                self.advance(JobStatus::Canceled);
                let error =
                    Error::new(ErrorKind::Cancelled, format!("job `{}` was cancelled", self.settings.name));
                let error = match std::mem::replace(&mut self.state.phase, Phase::Ended) {
                    Phase::Ending { error } => error,
                    _ => error,
                };
                self.state.result = Some(Err(error));
            }
            JobOutcome::Failed | JobOutcome::Running => {
                self.advance(JobStatus::Failed);
                let error = match std::mem::replace(&mut self.state.phase, Phase::Ended) {
                    Phase::Ending { error } => error,
                    _ => Error::new(ErrorKind::User, format!("job `{}` failed", self.settings.name)),
                };
                self.state.result = Some(Err(error));
            }
        }
    }

    pub(super) fn fail(&mut self, error: Error) {
        match self.state.phase {
            Phase::Preparing => self.give_up(error),
            Phase::Deploying(_) | Phase::Running | Phase::Draining => {
                // it is said once it is known what follows from it
                tracing::debug!(job = %self.settings.name, "{error}");
                self.advance(JobStatus::Failing);
                self.stop(Why::Failure(error));
            }
            // what follows from a failure is not news
            _ => tracing::debug!(job = %self.settings.name, "{error}"),
        }
    }

    pub(super) fn cancel(&mut self) {
        match self.state.phase {
            Phase::Deploying(_) | Phase::Running | Phase::Draining => {
                self.advance(JobStatus::Cancelling);
                self.stop(Why::Cancel);
            }
            Phase::Stopping { ref mut why, .. } => {
                if matches!(why, Why::Failure(_)) {
                    *why = Why::Cancel;
                }
                self.advance(JobStatus::Cancelling);
            }
            Phase::Preparing | Phase::WaitingToRestart { .. } => {
                self.advance(JobStatus::Cancelling);
                self.end_with(
                    JobOutcome::Cancelled,
                    Error::new(ErrorKind::Cancelled, format!("job `{}` was cancelled", self.settings.name)),
                );
            }
            Phase::Ending { .. } | Phase::Ended => {}
        }
    }

    pub(super) fn stop(&mut self, why: Why) {
        if let Phase::Stopping { why: old, .. } = &mut self.state.phase {
            *old = why;
            return;
        }
        let deadline = self.clock.elapsed() + self.settings.cancellation_timeout;
        self.state.phase = Phase::Stopping { why, deadline, warned: false };
        self.fleet.send(Control::Stop);
        self.all_stopped();
    }

    /// Goes on when every worker has dropped its dataflow.
    pub(super) fn all_stopped(&mut self) {
        if self.state.stopped.len() < self.fleet.workers() {
            return;
        }
        match std::mem::replace(&mut self.state.phase, Phase::Preparing) {
            Phase::Draining => {
                self.advance(JobStatus::Finished);
                self.state.result = Some(Ok(()));
                self.state.phase = Phase::Ended;
            }
            Phase::Stopping { why, .. } => {
                let generation = self.state.generation;
                match why {
                    Why::Fenced(error) => {
                        self.advance(JobStatus::Failed);
                        self.state.result = Some(Err(error));
                        self.state.phase = Phase::Ended;
                    }
                    Why::Cancel => {
                        self.engine(Event::AttemptStopped {
                            generation,
                            reason: "the job was cancelled".into(),
                        });
                        let error = Error::new(
                            ErrorKind::Cancelled,
                            format!("job `{}` was cancelled", self.settings.name),
                        );
                        self.end_with(JobOutcome::Cancelled, error);
                    }
                    Why::Failure(error) => {
                        self.engine(Event::AttemptStopped { generation, reason: error.to_string() });
                        self.after_failure(error);
                    }
                }
            }
            other => self.state.phase = other,
        }
    }

    /// Restart or give up.
    pub(super) fn after_failure(&mut self, error: Error) {
        if error.is_fatal() || self.state.finished {
            return self.give_up(error);
        }
        let random = random_unit();
        match self.state.strategy.on_failure(self.clock.elapsed(), random) {
            RestartDecision::RestartAfter(delay) => {
                self.advance(JobStatus::Restarting);
                self.say_restart(&error, delay);
                self.state.phase = Phase::WaitingToRestart { at: self.clock.elapsed() + delay };
            }
            RestartDecision::Fail(reason) => {
                self.give_up(
                    error.context(format!(
                        "job `{}` failed and is not restarted ({reason})",
                        self.settings.name
                    )),
                );
            }
        }
    }

    pub(super) fn give_up(&mut self, error: Error) {
        if self.state.job.status() != JobStatus::Failing {
            self.advance(JobStatus::Failing);
        }
        self.end_with(JobOutcome::Failed, error);
    }

    pub(super) fn end_with(&mut self, outcome: JobOutcome, error: Error) {
        self.state.phase = Phase::Ending { error };
        match self.state.finished {
            // the coordinator has written its last outcome and answers no more
            true => self.finish_job(outcome),
            false => self.engine(Event::JobEnded { outcome }),
        }
    }

    /// Who has not stopped, and where it is.
    pub(super) fn unstopped(&self) -> String {
        let metrics = self.fleet.metrics();
        let name = |worker: usize| {
            let task = metrics.get(worker).and_then(|metrics| metrics.activity().1);
            match task.and_then(|task| self.physical.tasks.get(task as usize)) {
                Some(task) => format!("`{}` subtask {worker} (its code does not return)", task.name),
                None => format!("worker {worker}"),
            }
        };
        (0..self.fleet.workers())
            .filter(|worker| !self.state.stopped.contains(worker))
            .map(name)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The time to stop is over.
    pub(super) fn give_up_waiting(&mut self) {
        let missing: Vec<usize> =
            (0..self.fleet.workers()).filter(|worker| !self.state.stopped.contains(worker)).collect();
        let who = self.unstopped();
        let timeout = self.settings.cancellation_timeout;
        let message = format!("{who} did not stop within {timeout:?} (task.cancellation.timeout)");
        tracing::error!(job = %self.settings.name, "{message}");
        match self.fleet.replace(&missing) {
            Ok(()) => {
                self.state.stopped.extend(missing);
                self.all_stopped();
            }
            Err(error) => {
                let cancelled = matches!(self.state.phase, Phase::Stopping { why: Why::Cancel, .. });
                let error = error.context(message).with_kind(ErrorKind::Timeout);
                let generation = self.state.generation;
                self.state.phase = Phase::Preparing;
                self.engine(Event::AttemptStopped { generation, reason: error.to_string() });
                self.end_with(if cancelled { JobOutcome::Cancelled } else { JobOutcome::Failed }, error);
            }
        }
    }
}

/// A random number from 0 to 1.
fn random_unit() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
