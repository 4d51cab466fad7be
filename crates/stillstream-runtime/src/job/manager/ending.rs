//! The job's end: finished, cancelled, failed or taken over.
//!
//! The coordinator records the outcome and answers with `FinishJob`, or with `EndUnrecorded` when its time is over: so
//! [`Phase::Ending`] is left in any case. *Finished* comes before everything else: it is recorded when all output is
//! committed, and neither a cancel nor a failure that comes later can take that back.

use super::*;

impl Manager {
    fn cancelled(&self) -> Error {
        let name = &self.settings.name;
        let how = match self.settings.checkpoint.retention {
            Retention::RetainOnCancellation => match self.coordinator.latest_completed() {
                Some(newest) => format!(
                    "its checkpoint {} is kept: `--from {}/{}` goes on from it, `--start-fresh` begins anew",
                    newest.id,
                    self.home.describe(),
                    newest.path
                ),
                None => "no checkpoint was completed: `--start-fresh` begins anew".into(),
            },
            _ => "its checkpoints are deleted (execution.checkpointing.externalized-checkpoint-retention): `--start-fresh` \
                  begins anew"
                .into(),
        };
        let message = match self.checkpointing() && self.home.is_durable() {
            true => format!("job `{name}` was cancelled; {how}"),
            false => format!("job `{name}` was cancelled"),
        };
        Error::new(ErrorKind::Cancelled, message)
    }

    /// The outcome is in the register.
    pub(super) fn finish_job(&mut self, outcome: JobOutcome) {
        if outcome == JobOutcome::Finished {
            passing("after-finish");
            self.state.finished = true;
            match self.state.phase {
                Phase::Running => {
                    let until = Some(self.clock.elapsed() + self.settings.cancellation_timeout);
                    self.state.phase = Phase::Draining { until };
                    self.fleet.send(Control::Finish);
                }
                // a cancel or a failure is stopping the workers; the job has finished all the same
                Phase::Stopping { .. } | Phase::Draining { .. } | Phase::Ended => {}
                Phase::Deploying(_) => self.stop(Why::Cancel),
                Phase::Ending { .. } | Phase::Preparing { .. } | Phase::WaitingToRestart { .. } => {
                    self.end_finished()
                }
            }
            return;
        }
        let phase = std::mem::replace(&mut self.state.phase, Phase::Ended);
        let error = match (phase, outcome) {
            (Phase::Ending { error }, _) => error,
            (_, JobOutcome::Cancelled) => self.cancelled(),
            _ => Error::new(ErrorKind::User, format!("job `{}` failed", self.settings.name)),
        };
        match outcome {
            JobOutcome::Cancelled => {
                self.advance(JobStatus::Canceled);
                tracing::info!(job = %self.settings.name, "{error}");
                self.state.result = Some(Err(error));
            }
            _ => self.end_failed(error),
        }
    }

    /// The outcome could not be recorded.
    pub(super) fn end_unrecorded(&mut self, outcome: JobOutcome, message: &str) {
        tracing::error!(job = %self.settings.name, "{message} in {}", self.home.describe());
        let phase = std::mem::replace(&mut self.state.phase, Phase::Ended);
        match phase {
            Phase::Ending { error } => {
                let cancelled = outcome == JobOutcome::Cancelled || error.kind() == ErrorKind::Cancelled;
                let error = error.context(format!("{message} in {}", self.home.describe()));
                match cancelled {
                    true => {
                        self.advance(JobStatus::Canceled);
                        self.state.result = Some(Err(error));
                    }
                    false => self.end_failed(error),
                }
            }
            Phase::Ended => {}
            // everything is committed, and the workers wait for the word that the end is recorded
            other => {
                self.state.phase = other;
                let error = Error::new(
                    ErrorKind::Storage,
                    format!("all output is committed, but {message} in {}", self.home.describe()),
                );
                self.advance(JobStatus::Failing);
                self.stop(Why::Over(error));
            }
        }
    }

    /// All output is committed, and the register says that the job has finished.
    pub(super) fn end_finished(&mut self) {
        self.advance(JobStatus::Finished);
        self.state.result = Some(Ok(()));
        self.state.phase = Phase::Ended;
    }

    pub(super) fn end_failed(&mut self, error: Error) {
        if !matches!(self.state.job.status(), JobStatus::Failing | JobStatus::Cancelling) {
            self.advance(JobStatus::Failing);
        }
        self.advance(JobStatus::Failed);
        self.state.result = Some(Err(error));
        self.state.phase = Phase::Ended;
    }

    pub(super) fn end_cancelled(&mut self) {
        let error = self.cancelled();
        self.end_with(JobOutcome::Cancelled, error);
    }

    pub(super) fn give_up(&mut self, error: Error) {
        if self.state.job.status() != JobStatus::Failing {
            self.advance(JobStatus::Failing);
        }
        self.end_with(JobOutcome::Failed, error);
    }

    /// Has the outcome recorded; the coordinator answers.
    pub(super) fn end_with(&mut self, outcome: JobOutcome, error: Error) {
        if self.state.finished {
            tracing::warn!(job = %self.settings.name, "the job had finished before: {error}");
            return self.end_finished();
        }
        self.state.phase = Phase::Ending { error };
        self.measure();
        self.engine(Event::JobEnded { outcome });
    }
}
