//! The job's end: finished, stopped, suspended, cancelled, failed or taken over.
//!
//! The coordinator records the outcome and answers with `FinishJob`, or with `EndUnrecorded` when its time is
//! over: so [`JobPhase::Ending`] is left in any case. *Finished* comes before everything else: it is recorded
//! when all output is committed, and neither a cancel nor a failure that comes later can take that back.

use stillstream_types::{Error, ErrorKind, ExternalizedCheckpointRetention as Retention, JobOutcome, Result};

use super::engine::{JobEngine, JobPhase};
use super::interface::{JobCommand, Level};
use super::status::JobStatus;
use super::stopping::StopReason;
use crate::checkpoint::event::Event;
use crate::message::Control;

impl JobEngine {
    fn cancelled(&self) -> Error {
        let name = &self.job.name;
        let anew = "`--start-fresh` begins anew";
        let kept = self.job.checkpoint.retention == Retention::RetainOnCancellation;
        let how = match (self.coordinator.latest_completed(), &self.job.from_snapshot) {
            // that of a stop which did not come to its end
            (Some(newest), _) if newest.is_savepoint() => {
                format!("`--from {}` goes on from its savepoint, {anew}", newest.path)
            }
            (Some(newest), _) if kept => format!(
                "its checkpoint {} is kept: `--from {}/{}` goes on from it, {anew}",
                newest.id, self.job.place, newest.path
            ),
            (None, Some(snapshot)) => format!(
                "no checkpoint was completed: `--from {snapshot}` goes on from where it had started, {anew}"
            ),
            (None, None) if kept => format!("no checkpoint was completed: {anew}"),
            _ => format!(
                "its checkpoints are deleted (execution.checkpointing.externalized-checkpoint-retention): {anew}"
            ),
        };
        let message = match self.job.checkpointing() && self.job.durable {
            true => format!("job `{name}` was cancelled; {how}"),
            false => format!("job `{name}` was cancelled"),
        };
        Error::new(ErrorKind::Cancelled, message)
    }

    /// The outcome is in the register.
    pub(super) fn finish_job(&mut self, outcome: JobOutcome) {
        if matches!(outcome, JobOutcome::Finished | JobOutcome::Stopped | JobOutcome::Suspended) {
            return self.on_good_end_recorded(outcome);
        }
        // a job ends once
        if matches!(self.phase, JobPhase::Ended) {
            return;
        }
        let phase = std::mem::replace(&mut self.phase, JobPhase::Ended);
        let error = match (phase, outcome) {
            (JobPhase::Ending { error }, _) => error,
            (_, JobOutcome::Cancelled) => self.cancelled(),
            _ => Error::new(ErrorKind::User, format!("job `{}` failed", self.job.name)),
        };
        match outcome {
            JobOutcome::Cancelled => {
                self.advance(JobStatus::Canceled);
                self.log(Level::Info, error.to_string());
                self.end(Err(error));
            }
            _ => self.end_failed(error),
        }
    }

    fn on_good_end_recorded(&mut self, outcome: JobOutcome) {
        self.out.push(JobCommand::Reached("after-finish"));
        self.recorded = Some(outcome);
        match self.phase {
            JobPhase::Running if outcome == JobOutcome::Finished || self.attempt.drained => {
                self.phase = JobPhase::Draining { until: self.stop_by() };
                self.tell(Control::Finish);
            }
            // the tasks hold back what they have behind the last barrier: it is not to be emitted
            JobPhase::Running => self.stop(StopReason::Recorded),
            // a cancel or a failure is stopping the workers; the job has finished all the same
            JobPhase::Stopping { .. } | JobPhase::Draining { .. } | JobPhase::Ended => {}
            JobPhase::Deploying(_) => self.stop(StopReason::Cancel),
            JobPhase::Ending { .. } | JobPhase::Preparing { .. } | JobPhase::WaitingToRestart { .. } => {
                self.end_well()
            }
        }
    }

    /// The outcome could not be recorded.
    pub(super) fn end_unrecorded(&mut self, outcome: JobOutcome, message: &str) {
        let text = format!("{message} in {}", self.job.place);
        self.log(Level::Error, text.clone());
        match std::mem::replace(&mut self.phase, JobPhase::Ended) {
            JobPhase::Ending { error } => {
                let cancelled = outcome == JobOutcome::Cancelled || error.kind() == ErrorKind::Cancelled;
                let error = error.context(text);
                match cancelled {
                    true => {
                        self.advance(JobStatus::Canceled);
                        self.end(Err(error));
                    }
                    false => self.end_failed(error),
                }
            }
            JobPhase::Ended => {}
            // everything is committed, and the workers wait for the word that the end is recorded
            other => {
                self.phase = other;
                let message = format!("all output is committed, but {text}");
                self.advance(JobStatus::Failing);
                self.stop(StopReason::Over(Error::new(ErrorKind::Storage, message)));
            }
        }
    }

    /// The register says that the job has finished, or was stopped in order.
    pub(super) fn end_well(&mut self) {
        self.suspend_recorded();
        let suspended = self.recorded == Some(JobOutcome::Suspended);
        if suspended {
            self.log(Level::Info, format!("job `{}` is suspended: {}", self.job.name, self.next_start()));
        }
        self.advance(if suspended { JobStatus::Suspended } else { JobStatus::Finished });
        self.end(Ok(()));
    }

    pub(super) fn end_failed(&mut self, error: Error) {
        if !matches!(self.status.status(), JobStatus::Failing | JobStatus::Cancelling) {
            self.advance(JobStatus::Failing);
        }
        self.advance(JobStatus::Failed);
        self.end(Err(error));
    }

    pub(super) fn end_cancelled(&mut self) {
        let error = self.cancelled();
        self.end_with(JobOutcome::Cancelled, error);
    }

    pub(super) fn give_up(&mut self, error: Error) {
        if self.status.status() != JobStatus::Failing {
            self.advance(JobStatus::Failing);
        }
        self.end_with(JobOutcome::Failed, error);
    }

    /// Has the outcome recorded; the coordinator answers.
    pub(super) fn end_with(&mut self, outcome: JobOutcome, error: Error) {
        if self.recorded.is_some() {
            self.log(Level::Warn, format!("the job had ended before: {error}"));
            return self.end_well();
        }
        self.phase = JobPhase::Ending { error };
        self.measure();
        self.coordinate(Event::JobEnded { outcome });
    }

    fn end(&mut self, result: Result<()>) {
        self.phase = JobPhase::Ended;
        if let Err(error) = &result {
            self.suspend_failed(&error.to_string());
        }
        self.out.push(JobCommand::End(result));
    }
}
