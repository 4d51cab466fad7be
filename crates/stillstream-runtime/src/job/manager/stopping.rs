//! How an attempt stops, by a failure, a person or another leader, and what follows: a restart, or the end of the job.

use super::*;

/// A failure that repeats itself so often is said to do so.
const REPEATED: u64 = 3;

impl Manager {
    /// The attempt has failed, in whichever phase it is. The restart strategy decides what follows.
    pub(super) fn fail(&mut self, error: Error) {
        match &mut self.state.phase {
            Phase::Preparing { .. } => {
                self.advance(JobStatus::Failing);
                self.after_failure(error);
            }
            Phase::Draining { .. } if self.state.finished => {
                tracing::warn!(job = %self.settings.name, "after the job had finished: {error}");
            }
            Phase::Deploying(_) | Phase::Running | Phase::Draining { .. } => {
                tracing::debug!(job = %self.settings.name, "{error}");
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
            _ => tracing::debug!(job = %self.settings.name, "{error}"),
        }
    }

    pub(super) fn cancel(&mut self) {
        match &mut self.state.phase {
            // everything is committed and recorded
            Phase::Draining { .. } if self.state.finished => {}
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
        match &mut self.state.phase {
            Phase::Ended => {}
            Phase::Stopping { why: old, .. } => *old = why,
            // nothing runs
            Phase::Preparing { .. } | Phase::WaitingToRestart { .. } | Phase::Ending { .. } => {
                self.stopped(why)
            }
            Phase::Deploying(_) | Phase::Running | Phase::Draining { .. } => {
                let deadline = self.clock.elapsed() + self.settings.cancellation_timeout;
                self.state.phase = Phase::Stopping { why, deadline, warned: false };
                self.fleet.send(Control::Stop);
                self.all_stopped();
            }
        }
    }

    /// Goes on when every worker has dropped its dataflow.
    pub(super) fn all_stopped(&mut self) {
        if self.state.stopped.len() < self.fleet.workers() {
            return;
        }
        match std::mem::replace(&mut self.state.phase, Phase::Preparing { until: None }) {
            Phase::Draining { .. } => self.end_finished(),
            Phase::Stopping { why, .. } => self.stopped(why),
            other => self.state.phase = other,
        }
    }

    /// No worker has an attempt any more.
    fn stopped(&mut self, why: Why) {
        if self.state.finished {
            if let Why::Failure(error) | Why::Over(error) = why {
                tracing::warn!(job = %self.settings.name, "after the job had finished: {error}");
            }
            return self.end_finished();
        }
        let generation = self.state.generation;
        match why {
            Why::Over(error) => self.end_failed(error),
            Why::Cancel => {
                let reason = "the job was cancelled".into();
                self.engine(Event::AttemptStopped { generation, reason });
                self.end_cancelled();
            }
            Why::Failure(error) => {
                self.engine(Event::AttemptStopped { generation, reason: error.to_string() });
                self.after_failure(error);
            }
        }
    }

    /// Restart or give up.
    fn after_failure(&mut self, error: Error) {
        if self.coordinator.ending().is_some() {
            // all output is committed, and only the record is missing: its answer, or its deadline, ends the job
            tracing::warn!(job = %self.settings.name, "while the end of the job is being recorded: {error}");
            self.state.phase = Phase::Ending { error };
            return;
        }
        if error.is_fatal() {
            return self.give_up(error);
        }
        let newest = self.coordinator.latest_completed().map(|checkpoint| checkpoint.id);
        let times = self.state.repetition.on_failure(newest, &error.to_string());
        match self.state.strategy.on_failure(self.clock.elapsed(), random_unit()) {
            RestartDecision::RestartAfter(delay) => {
                self.advance(JobStatus::Restarting);
                self.say_restart(delay, &error, times, newest);
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

    fn say_restart(&self, delay: Duration, error: &Error, times: u64, newest: Option<CheckpointId>) {
        let job = &self.settings.name;
        let place = || newest.map_or("no checkpoint".into(), |id| format!("checkpoint {id}"));
        match times {
            0..REPEATED => tracing::warn!(%job, "restarting in {delay:?} after: {error}"),
            REPEATED => tracing::warn!(
                %job,
                "the same failure for the {REPEATED}rd time, each time with {} as the newest: a restart alone will hardly mend \
                 it; restarting in {delay:?} after: {error}",
                place()
            ),
            // it has been said
            _ => tracing::warn!(
                %job,
                "restarting in {delay:?} after the same failure, the {times}th with {} as the newest",
                place()
            ),
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
            // the worker is left behind: no attempt can follow
            Err(error) => {
                let error = error.context(message).with_kind(ErrorKind::Timeout);
                match std::mem::replace(&mut self.state.phase, Phase::Preparing { until: None }) {
                    Phase::Stopping { why: Why::Over(over), .. } => self.stopped(Why::Over(over)),
                    Phase::Stopping { why, .. } => {
                        let (generation, reason) = (self.state.generation, error.to_string());
                        self.engine(Event::AttemptStopped { generation, reason });
                        let cancelled = matches!(why, Why::Cancel);
                        self.end_with(
                            if cancelled { JobOutcome::Cancelled } else { JobOutcome::Failed },
                            error,
                        );
                    }
                    // it drained: the job has finished
                    _ => self.end_finished(),
                }
            }
        }
    }
}

/// A random number from 0 to 1.
pub(in crate::job) fn random_unit() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
