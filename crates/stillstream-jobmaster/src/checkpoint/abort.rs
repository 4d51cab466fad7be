//! Checkpoints that do not make it: their files go, everybody is told, and the failure is counted.

use stillstream_types::{CheckpointId, CheckpointKind, ErrorKind, SubtaskId};

use super::CheckpointCoordinator;
use super::in_progress::{Abandoned, CheckpointPhase, Pending};
use crate::checkpoint::command::Command;
use crate::checkpoint::failure::{CheckpointFailure, FailureReason, Verdict};
use crate::checkpoint::pending::{Acknowledged, Files};
use crate::checkpoint::register::Purpose;
use crate::checkpoint::statistics::{
    CheckpointStatus, CheckpointSummary, LongestPhases, Slowest, SubtaskStatistics, explain, missing_text,
    slowest_phase,
};
use crate::message::Control;

impl CheckpointCoordinator {
    /// Aborts a checkpoint and deletes its files; does nothing while the register may already name it.
    pub(super) fn fail_checkpoint(&mut self, id: CheckpointId, reason: FailureReason, message: &str) {
        if self.register.is_writing(id) {
            return;
        }
        self.register.withdraw(id);
        let Some((files, phase)) = self.in_progress.get(id).map(|p| (p.checkpoint.files(), p.phase())) else {
            return;
        };
        if let (Files::Savepoint(location), CheckpointPhase::Registering) = (&files, phase) {
            let message =
                format!("{message}; the savepoint itself is complete, and is left in place: {location}");
            return self.fail_and_leave(id, reason, &message);
        }
        let mut shared = self.shared.abort(id);
        if phase == CheckpointPhase::WritingMetadata {
            let (files, shared) = (files.clone(), std::mem::take(&mut shared));
            self.in_progress.abandon_write(id, Abandoned { files, shared });
        }
        self.give_up(id, reason, message, Some(files.clone()));
        if phase != CheckpointPhase::WritingMetadata {
            self.discard_all(id, &files, shared);
        }
        // a task that declined, or that is late, may have written more than it said
        self.shared.want_sweep();
        let released = self.released();
        self.discard_shared(released);
    }

    /// Aborts a checkpoint without touching its files.
    pub(super) fn fail_and_leave(&mut self, id: CheckpointId, reason: FailureReason, message: &str) {
        self.give_up(id, reason, message, None);
    }

    /// Aborts a checkpoint. `deleted` are its files, if late ones of them are to be deleted.
    fn give_up(&mut self, id: CheckpointId, reason: FailureReason, message: &str, deleted: Option<Files>) {
        let Some(pending) = self.in_progress.take(id) else { return };
        let summary = self.summary(&pending, CheckpointStatus::Failed(format!("{message} ({reason})")));
        match reason {
            // nobody was slow: the attempt ended under it, and the end has its own line
            FailureReason::JobFailoverRegion | FailureReason::CheckpointCoordinatorShutdown => {
                self.commands.info(format!("{} was given up: {message}", pending.checkpoint.label()));
            }
            _ => self.commands.warn(explain(&summary)),
        }
        self.statistics.on_ended(summary);
        self.in_progress.remember(id, deleted);
        let generation = pending.generation();
        if self.attempts.of(generation).is_some() {
            self.commands.tell(generation, Control::Aborted { id });
        }
        let message = format!("{} failed: {message}", pending.checkpoint.label());
        if let Some(request) = pending.checkpoint.request {
            let result = Err(CheckpointFailure::new(reason, message.clone()));
            self.commands.reply(request, result);
        }
        match pending.checkpoint.kind {
            _ if pending.checkpoint.last => self.last_failed(id, reason, &message),
            // it is a person's, and nothing depends on it
            CheckpointKind::Savepoint => {}
            CheckpointKind::Final | CheckpointKind::Checkpoint => {
                if pending.checkpoint.kind == CheckpointKind::Final {
                    self.retry_final(&message);
                }
                self.count_failure(id, reason, &message);
            }
        }
    }

    /// Counts a failure, and fails the job if it was one too many.
    pub(super) fn count_failure(&mut self, id: CheckpointId, reason: FailureReason, message: &str) {
        if self.attempts.running().is_none() {
            return;
        }
        if let Verdict::Exceeded(count) = self.failures.on_failure(id, reason) {
            let message = format!(
                "{message} ({reason}); {count} in a row, \
                 execution.checkpointing.tolerable-failed-checkpoints allows {}",
                self.config.tolerable_failed_checkpoints
            );
            self.commands.push(Command::FailJob { kind: ErrorKind::Checkpoint, message });
        }
    }

    /// Aborts whatever can still be aborted, and refuses what waits.
    pub(super) fn abort_all(&mut self, reason: FailureReason, message: &str) {
        self.abandon_start(reason, message);
        for id in self.in_progress.ids() {
            self.fail_checkpoint(id, reason, message);
        }
        for request in self.requests.drain() {
            self.refuse(request, reason, message);
        }
    }

    /// Aborts what is older than the timeout.
    pub(super) fn expire(&mut self) {
        let (now, timeout) = (self.clock.now(), self.config.timeout);
        if self.requests.start_is_overdue(now, timeout) {
            let message =
                format!("storage did not answer within {timeout:?} (execution.checkpointing.timeout)");
            self.abandon_start(FailureReason::IoException, &message);
        }
        for id in self.in_progress.expired(now, timeout) {
            let Some(pending) = self.in_progress.get(id) else { continue };
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
        let Some(purpose) = self.register.overdue(self.clock.now(), timeout) else { return };
        let text = format!("the job's register has not answered for {timeout:?}");
        match purpose {
            Purpose::Complete(new) => {
                let message = format!(
                    "{new}: {text}; it is not known whether it is completed, its files are left in place"
                );
                self.commands.warn(message.clone());
                match self.stop.as_ref().is_some_and(|stop| stop.is_last(new.id)) {
                    true => self.stop_failed(FailureReason::CheckpointExpired, &message),
                    false => self.count_failure(new.id, FailureReason::CheckpointExpired, &message),
                }
            }
            Purpose::Claim => {
                let message = format!("{text}, so no attempt can begin");
                self.commands.push(Command::FailJob { kind: ErrorKind::Storage, message });
            }
            Purpose::Reserve => self.commands.warn(text),
            // it has a deadline of its own
            Purpose::End(_) => {}
        }
    }

    fn missing_names(&self, pending: &Pending) -> Vec<(SubtaskId, String)> {
        let attempt = self.attempts.of(pending.generation());
        let name = |id| attempt.map_or_else(|| "task".to_owned(), |attempt| attempt.name(id).to_owned());
        pending.checkpoint.missing().take(10).map(|id| (id, name(id))).collect()
    }

    pub(super) fn summary(&self, pending: &Pending, status: CheckpointStatus) -> CheckpointSummary {
        let checkpoint = &pending.checkpoint;
        let attempt = self.attempts.of(pending.generation());
        let detail = |(subtask, part): (&SubtaskId, &Acknowledged)| SubtaskStatistics {
            subtask: *subtask,
            after: part.at.saturating_sub(checkpoint.triggered_at),
            size_bytes: part.snapshot.len(),
            metrics: part.metrics,
        };
        let slowest = checkpoint.last_acknowledged().and_then(|(subtask, at)| {
            let (phase, phase_took) = slowest_phase(&checkpoint.acknowledged().get(&subtask)?.metrics);
            let name = attempt.map_or_else(|| "task".to_owned(), |attempt| attempt.name(subtask).to_owned());
            let after = at.saturating_sub(checkpoint.triggered_at);
            Some(Slowest { subtask, name, after, phase, phase_took })
        });
        CheckpointSummary {
            id: checkpoint.id,
            kind: checkpoint.kind,
            format: checkpoint.format,
            status,
            triggered_at: checkpoint.triggered_at,
            duration: self.clock.now().saturating_sub(checkpoint.triggered_at),
            size_bytes: checkpoint.size_bytes(),
            acknowledged: checkpoint.acknowledged().len(),
            subtasks: checkpoint.subtasks(),
            missing: self.missing_names(pending),
            slowest,
            phases: LongestPhases::of(checkpoint.acknowledged().values().map(|part| &part.metrics)),
            path: checkpoint.path.clone(),
            triggered_at_ms: checkpoint.triggered_at_ms,
            details: checkpoint.acknowledged().iter().map(detail).collect(),
        }
    }
}
