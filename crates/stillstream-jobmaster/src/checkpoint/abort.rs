//! Checkpoints that do not make it: their files go, everybody is told, and the failure is counted.

use stillstream_types::{CheckpointId, CheckpointKind, ErrorKind};

use super::{Abandoned, CheckpointCoordinator, Pending, Phase, REMEMBERED};
use crate::checkpoint::command::Command;
use crate::checkpoint::failure::{CheckpointFailure, FailureReason, Verdict};
use crate::checkpoint::register::Purpose;
use crate::checkpoint::statistics::{
    CheckpointStatus, CheckpointSummary, LongestPhases, Slowest, explain, missing_text, slowest_phase,
};
use crate::message::Control;

impl CheckpointCoordinator {
    /// Aborts a checkpoint and deletes its files; does nothing while the register may already name it.
    pub(super) fn fail_checkpoint(&mut self, id: CheckpointId, reason: FailureReason, message: &str) {
        if self.register.is_writing(id) {
            return;
        }
        self.register.withdraw(id);
        let Some((path, phase)) = self.pending.get(&id).map(|p| (p.checkpoint.path.clone(), p.phase)) else {
            return;
        };
        let mut shared = self.shared.abort(id);
        if phase == Phase::WritingMetadata {
            let (path, shared) = (path.clone(), std::mem::take(&mut shared));
            self.abandoned_writes.insert(id, Abandoned { path, shared });
        }
        self.fail_and_leave(id, reason, message);
        if phase != Phase::WritingMetadata {
            self.discard_directory(id, &path, shared);
        }
        // a task that declined, or that is late, may have written more than it said
        self.sweep_wanted = true;
        let released = self.released();
        self.discard_shared(released);
    }

    /// Aborts a checkpoint without touching its files.
    pub(super) fn fail_and_leave(&mut self, id: CheckpointId, reason: FailureReason, message: &str) {
        let Some(pending) = self.pending.remove(&id) else { return };
        let summary = self.summary(&pending, CheckpointStatus::Failed(format!("{message} ({reason})")));
        match reason {
            // nobody was slow: the attempt ended under it, and the end has its own line
            FailureReason::JobFailoverRegion | FailureReason::CheckpointCoordinatorShutdown => {
                self.info(format!("checkpoint {id} was given up: {message}"));
            }
            _ => self.warn(explain(&summary)),
        }
        self.statistics.on_ended(summary);
        self.remembered.push_back((id, pending.checkpoint.path.clone()));
        if self.remembered.len() > REMEMBERED {
            self.remembered.pop_front();
        }
        let generation = pending.generation;
        if self.attempt_of(generation).is_some() {
            self.tell(generation, Control::Aborted { id });
        }
        if let Some(request) = pending.checkpoint.request {
            let result = Err(CheckpointFailure::new(reason, format!("checkpoint {id} failed: {message}")));
            self.out.push(Command::Reply { request, result });
        }
        let message = format!("checkpoint {id} failed: {message}");
        if pending.checkpoint.kind == CheckpointKind::Final {
            self.retry_final(&message);
        }
        self.count_failure(id, reason, &message);
    }

    /// Counts a failure, and fails the job if it was one too many.
    pub(super) fn count_failure(&mut self, id: CheckpointId, reason: FailureReason, message: &str) {
        if self.attempt.is_none() {
            return;
        }
        if let Verdict::Exceeded(count) = self.failures.on_failure(id, reason) {
            let message = format!(
                "{message} ({reason}); {count} in a row, \
                 execution.checkpointing.tolerable-failed-checkpoints allows {}",
                self.config.tolerable_failed_checkpoints
            );
            self.out.push(Command::FailJob { kind: ErrorKind::Checkpoint, message });
        }
    }

    /// Aborts whatever can still be aborted, and refuses what waits.
    pub(super) fn abort_all(&mut self, reason: FailureReason, message: &str) {
        self.abandon_start(reason, message);
        for id in self.pending.keys().copied().collect::<Vec<_>>() {
            self.fail_checkpoint(id, reason, message);
        }
        for request in self.queue.drain() {
            self.refuse(request, reason, message);
        }
    }

    /// Aborts what is older than the timeout.
    pub(super) fn expire(&mut self) {
        let timeout = self.config.timeout;
        if self.starting.as_ref().is_some_and(|starting| self.now >= starting.since + timeout) {
            let message =
                format!("storage did not answer within {timeout:?} (execution.checkpointing.timeout)");
            self.abandon_start(FailureReason::IoException, &message);
        }
        let expired: Vec<CheckpointId> = self
            .pending
            .iter()
            .filter(|(_, pending)| self.now >= pending.checkpoint.triggered_at + timeout)
            .map(|(id, _)| *id)
            .collect();
        for id in expired {
            let Some(pending) = self.pending.get(&id) else { continue };
            let missing = pending.checkpoint.missing().len();
            let what = match missing {
                0 => "its metadata or the register was not written".to_owned(),
                _ => missing_text(missing, pending.checkpoint.subtasks(), &self.missing_names(pending)),
            };
            let message = format!(
                "it expired after {timeout:?} (execution.checkpointing.timeout changes that): {what}"
            );
            self.fail_checkpoint(id, FailureReason::CheckpointExpired, &message);
        }
    }

    /// A write of the register has been open for too long. Its outcome is not known, so no file is touched.
    pub(super) fn on_register_overdue(&mut self) {
        let timeout = self.config.timeout;
        let Some(purpose) = self.register.overdue(self.now, timeout) else { return };
        let text = format!("the job's register has not answered for {timeout:?}");
        match purpose {
            Purpose::Complete(new) => {
                let message = format!(
                    "checkpoint {}: {text}; it is not known whether it is completed, its files are left in place",
                    new.id
                );
                self.warn(message.clone());
                self.count_failure(new.id, FailureReason::CheckpointExpired, &message);
            }
            Purpose::Claim => {
                let message = format!("{text}, so no attempt can begin");
                self.out.push(Command::FailJob { kind: ErrorKind::Storage, message });
            }
            Purpose::Reserve => self.warn(text),
            // it has a deadline of its own
            Purpose::End(_) => {}
        }
    }

    fn missing_names(&self, pending: &Pending) -> Vec<(stillstream_types::SubtaskId, String)> {
        let attempt = self.attempt_of(pending.generation);
        let name = |id| attempt.map_or_else(|| "task".to_owned(), |attempt| attempt.name(id).to_owned());
        pending.checkpoint.missing().take(10).map(|id| (id, name(id))).collect()
    }

    pub(super) fn summary(&self, pending: &Pending, status: CheckpointStatus) -> CheckpointSummary {
        let checkpoint = &pending.checkpoint;
        let attempt = self.attempt_of(pending.generation);
        let slowest = checkpoint.last_acknowledged().and_then(|(subtask, at)| {
            let (phase, phase_took) = slowest_phase(&checkpoint.acknowledged().get(&subtask)?.metrics);
            let name = attempt.map_or_else(|| "task".to_owned(), |attempt| attempt.name(subtask).to_owned());
            let after = at.saturating_sub(checkpoint.triggered_at);
            Some(Slowest { subtask, name, after, phase, phase_took })
        });
        CheckpointSummary {
            id: checkpoint.id,
            kind: checkpoint.kind,
            status,
            triggered_at: checkpoint.triggered_at,
            duration: self.now.saturating_sub(checkpoint.triggered_at),
            size_bytes: checkpoint.size_bytes(),
            acknowledged: checkpoint.acknowledged().len(),
            subtasks: checkpoint.subtasks(),
            missing: self.missing_names(pending),
            slowest,
            phases: LongestPhases::of(checkpoint.acknowledged().values().map(|part| &part.metrics)),
        }
    }
}
