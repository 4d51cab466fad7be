//! A person stops the job, or suspends it.
//!
//! While the tasks run, the coordinator takes the last checkpoint and has everything committed
//! ([`stop`](crate::checkpoint)); here is what surrounds that. A *suspend*, which is a stop without a
//! savepoint and without a drain, works in each phase: where no attempt runs there is nothing uncommitted
//! beyond the newest checkpoint, so that the end is recorded at once, and an attempt that is being deployed
//! or has failed is stopped first.
//!
//! A job without checkpoints has nothing that could be kept without a savepoint. There a suspend is a cancel.

use std::time::Duration;

use stillstream_types::{CheckpointKind, Error, ErrorKind, JobOutcome};

use super::engine::{JobEngine, JobPhase};
use super::interface::{JobCommand, Level, StopRequest};
use super::stopping::StopReason;
use crate::checkpoint::command::CheckpointReport;
use crate::checkpoint::event::{Event, RequestId};
use crate::checkpoint::failure::{CheckpointFailure, FailureReason};

impl JobEngine {
    pub(super) fn on_stop_requested(&mut self, request: RequestId, stop: StopRequest) {
        let StopRequest { savepoint, drain } = stop;
        if savepoint.is_none() && !self.job.checkpointing() {
            return self.stop_without_checkpoints(request, drain);
        }
        let suspends = savepoint.is_none() && !drain;
        let refusal = match &mut self.phase {
            JobPhase::Running => return self.coordinate(Event::StopRequested { request, savepoint, drain }),
            _ if self.recorded.is_some() => "the job has ended",
            JobPhase::Ended | JobPhase::Ending { .. } | JobPhase::Draining { .. } => {
                "the job is ending already"
            }
            JobPhase::Stopping { reason: StopReason::Cancel, .. } => "the job is being cancelled",
            JobPhase::Stopping { reason: StopReason::Over(_) | StopReason::Recorded, .. } => {
                "the job is ending already"
            }
            _ if self.suspend.is_some() => "the job is being stopped already",
            _ if !suspends => "no attempt runs: try again when the job runs",
            JobPhase::Preparing { .. } | JobPhase::WaitingToRestart { .. } => {
                self.suspend = Some(request);
                return self.end_suspended();
            }
            JobPhase::Deploying(_) | JobPhase::Stopping { .. } => {
                self.suspend = Some(request);
                return self.stop(StopReason::Suspend);
            }
        };
        self.refuse(request, refusal);
    }

    fn refuse(&mut self, request: RequestId, message: impl Into<String>) {
        let reason = FailureReason::NotAllRequiredTasksRunning;
        let result = Err(CheckpointFailure::new(reason, message));
        self.out.push(JobCommand::Reply { request, result });
    }

    fn stop_without_checkpoints(&mut self, request: RequestId, drain: bool) {
        let name = &self.job.name;
        let none = format!(
            "job `{name}` takes no checkpoints (`enable_checkpointing`, execution.checkpointing.interval, changes that)"
        );
        match self.phase {
            _ if drain => self.refuse(request, format!("{none}: name a savepoint that the stop is to leave")),
            JobPhase::Ended | JobPhase::Ending { .. } => self.refuse(request, "the job is ending already"),
            _ => {
                self.refuse(request, format!("{none}, so nothing of it can be kept: it is cancelled"));
                self.cancel();
            }
        }
    }

    /// Has the end recorded of a job of which nothing runs: the newest checkpoint holds all that is not
    /// committed.
    pub(super) fn end_suspended(&mut self) {
        // it is seen if the record does not come about
        let error = Error::new(ErrorKind::Storage, format!("job `{}` was to be suspended", self.job.name));
        self.end_with(JobOutcome::Suspended, error);
    }

    /// What the next start of a suspended job does.
    pub(super) fn next_start(&self) -> String {
        match (self.coordinator.latest_completed(), &self.job.from_snapshot) {
            _ if !self.job.durable => {
                "its checkpoints were in this process only: nothing of it survives, and its next start begins anew".into()
            }
            (Some(newest), _) => format!("its next start goes on from {newest}"),
            (None, Some(snapshot)) => format!(
                "no checkpoint was completed: `--from {snapshot}` begins where it had begun, and a start without that begins anew"
            ),
            (None, None) => "no checkpoint was completed, so its next start begins without one".into(),
        }
    }

    /// The job does not end suspended, or not as the register has it.
    pub(super) fn suspend_failed(&mut self, message: &str) {
        if let Some(request) = self.suspend.take() {
            self.refuse(request, format!("the job is not suspended: {message}"));
        }
    }

    /// The register says that it is suspended, or that it had come to another good end before.
    pub(super) fn suspend_recorded(&mut self) {
        let Some(request) = self.suspend.take() else { return };
        let Some(newest) = self.coordinator.latest_completed().cloned() else {
            return self.refuse(request, format!("the job has ended: {}", self.next_start()));
        };
        let last = self.statistics().last_completed.as_ref().filter(|last| last.id == newest.id);
        let (size_bytes, duration) =
            last.map_or((0, Duration::ZERO), |last| (last.size_bytes, last.duration));
        let kind = match newest.is_savepoint() {
            true => CheckpointKind::Savepoint,
            false => CheckpointKind::Checkpoint,
        };
        let report = CheckpointReport { id: newest.id, kind, path: newest.path, size_bytes, duration };
        self.out.push(JobCommand::Reply { request, result: Ok(report) });
    }

    /// The sources are told to end.
    pub(super) fn drain_begins(&mut self) {
        self.attempt.drained = true;
        self.attempt.drain_until = Some(self.at.now + self.job.checkpoint.timeout);
    }

    fn drains(&self) -> bool {
        matches!(self.phase, JobPhase::Running) && self.coordinator.is_draining()
    }

    pub(super) fn drain_wake_at(&self) -> Option<Duration> {
        self.attempt.drain_until.filter(|_| self.drains())
    }

    pub(super) fn on_drain_time(&mut self) {
        if self.drain_wake_at().is_none_or(|until| until > self.at.now) {
            return;
        }
        self.attempt.drain_until = None;
        let named: Vec<String> =
            self.attempt.not_ended.iter().take(10).map(|subtask| self.job.task_name(*subtask)).collect();
        let message = format!(
            "its sources were told to end, and {} subtasks have not ended within {:?} (execution.checkpointing.timeout): {}",
            self.attempt.not_ended.len(),
            self.job.checkpoint.timeout,
            named.join(", ")
        );
        self.coordinate(Event::DrainOverdue { message });
    }

    /// The tasks do not go on by themselves after a stop that has failed. It is nobody's fault, so the
    /// restart strategy is not asked and there is no pause.
    pub(super) fn restart_attempt(&mut self, message: String) {
        self.log(Level::Warn, message.clone());
        let error = Error::new(ErrorKind::Checkpoint, message);
        if matches!(self.phase, JobPhase::Running) {
            self.advance(super::status::JobStatus::Failing);
            self.stop(StopReason::Restart(error));
        }
    }
}
