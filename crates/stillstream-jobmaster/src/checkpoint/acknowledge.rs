//! Acknowledgements and declines. Each answer has its own rule for the files that came with it (Flink's
//! `CheckpointCoordinator.receiveAcknowledgeMessage`):
//!
//! | answer | files |
//! |---|---|
//! | success | part of the checkpoint |
//! | duplicate | left alone: the first report may name the same ones |
//! | unknown subtask | deleted, unless the checkpoint names one of them |
//! | aborted or expired checkpoint ("late"), unknown checkpoint, another generation | deleted, unless the register names that checkpoint or the id was never used |
//! | success, but it names a shared file that may be gone | the checkpoint is aborted, and all its files go |
//!
//! Of files below `shared/`, only those are deleted that the checkpoint itself wrote and that no other one
//! names.

use std::collections::BTreeSet;

use stillstream_types::{CheckpointId, Generation, SubtaskId, TaskSnapshot, checkpoint_paths};

use super::CheckpointCoordinator;
use super::in_progress::CheckpointPhase;
use crate::checkpoint::cleaner::files_of;
use crate::checkpoint::command::Command;
use crate::checkpoint::failure::FailureReason;
use crate::checkpoint::pending::{AckOutcome, Files};
use crate::message::AckMetrics;

impl CheckpointCoordinator {
    pub(super) fn on_acknowledge(
        &mut self,
        generation: Generation,
        id: CheckpointId,
        subtask: SubtaskId,
        snapshot: TaskSnapshot,
        metrics: AckMetrics,
    ) {
        let Some(attempt) = self.attempts.of(generation) else {
            self.discard_stray(id, &snapshot, &format!("{subtask} of generation {generation}"));
            return;
        };
        let label = attempt.label(subtask);
        let pending = self.in_progress.get(id).filter(|pending| pending.generation() == generation);
        let Some((kind, is_missing)) = pending.map(|p| (p.checkpoint.kind, p.checkpoint.waits_for(subtask)))
        else {
            self.discard_stray(id, &snapshot, &label);
            return;
        };
        if is_missing && let Err(refusal) = self.register_shared(id, kind, &snapshot) {
            let message = format!("the acknowledgement of {label} is refused: {refusal}");
            self.fail_checkpoint(id, FailureReason::CheckpointDeclined, &message);
            return;
        }
        let (Some(attempt), Some(pending)) = (self.attempts.running(), self.in_progress.get_mut(id)) else {
            return;
        };
        let foreign = attempt.task(subtask).and_then(|task| {
            let has = |id| task.operators.iter().any(|operator| operator.id == id);
            snapshot.operators.iter().map(|(id, _)| *id).find(|id| !has(*id))
        });
        match pending.checkpoint.acknowledge(subtask, snapshot, metrics, self.clock.now()) {
            AckOutcome::Success { last } => {
                if let Some(operator) = foreign {
                    let message =
                        format!("{label} acknowledged state of operator {operator}, which it does not run");
                    self.fail_checkpoint(id, FailureReason::CheckpointDeclined, &message);
                } else if last && pending.phase() == CheckpointPhase::Collecting {
                    self.write_metadata(id);
                }
            }
            AckOutcome::Duplicate => {
                self.commands.info(format!("{label} acknowledged checkpoint {id} twice; the first stays"));
            }
            AckOutcome::Unknown(snapshot) => {
                let parts = pending.checkpoint.acknowledged().values();
                let ours: BTreeSet<&str> = parts.flat_map(|part| files_of(&part.snapshot)).collect();
                let shared = files_of(&snapshot).any(|path| ours.contains(path));
                let files = pending.checkpoint.files();
                self.commands.warn(format!("{label} acknowledged checkpoint {id} but takes no part in it"));
                // what lies in a savepoint's directory goes with it, or stays in it
                if let (Files::Checkpoint(path), false) = (files, shared) {
                    self.discard_files(id, &path, &snapshot);
                }
            }
        }
    }

    /// The files of an acknowledgement that is of no checkpoint under way.
    fn discard_stray(&mut self, id: CheckpointId, snapshot: &TaskSnapshot, who: &str) {
        if self.in_progress.contains(id) || !self.ids.is_used(id) || !self.attempts.has_claim() {
            self.commands.warn(format!(
                "{who} acknowledged checkpoint {id}, which is not its own: its files are left alone"
            ));
            return;
        }
        if self.register.named().any(|checkpoint| checkpoint.id == id) {
            self.commands.info(format!(
                "{who} acknowledged checkpoint {id} once more: it is completed, its files are left alone"
            ));
            return;
        }
        let late = self.in_progress.remembered(id).map(|files| files.cloned());
        let deleted = "its files are deleted";
        match late {
            Some(Some(files)) => {
                self.commands.warn(format!("{who} acknowledged checkpoint {id} too late: {deleted}"));
                match files {
                    Files::Checkpoint(path) => self.discard_files(id, &path, snapshot),
                    // nothing else is in its directory, or will be
                    Files::Savepoint(_) => self.discard_all(id, &files, Vec::new()),
                }
            }
            Some(None) => {
                self.commands
                    .info(format!("{who} acknowledged savepoint {id} once more: its files are left alone"));
            }
            None => {
                self.commands
                    .warn(format!("{who} acknowledged checkpoint {id}, which is not under way: {deleted}"));
                self.discard_files(id, &checkpoint_paths::checkpoint(id), snapshot);
            }
        }
    }

    pub(super) fn discard_files(&mut self, id: CheckpointId, directory: &str, snapshot: &TaskSnapshot) {
        let strays = self.strays(id, snapshot);
        self.discard_shared(strays);
        match self.cleaner.discard_snapshot(id, directory, snapshot, self.register.named(), self.clock.now())
        {
            Ok(call) => self.commands.extend(call.map(Command::Storage)),
            Err(refusal) => self.commands.warn(refusal.to_string()),
        }
    }

    pub(super) fn discard_directory(&mut self, id: CheckpointId, path: &str, shared: Vec<String>) {
        match self.cleaner.discard_directory(id, path, shared, self.register.named(), self.clock.now()) {
            Ok(call) => self.commands.call(call),
            Err(refusal) => self.commands.warn(refusal.to_string()),
        }
    }

    /// Deletes all that one checkpoint or savepoint has written, and then `shared`.
    pub(super) fn discard_all(&mut self, id: CheckpointId, files: &Files, shared: Vec<String>) {
        match files {
            Files::Checkpoint(path) => self.discard_directory(id, path, shared),
            Files::Savepoint(location) => {
                let named = self.register.named();
                match self.cleaner.discard_savepoint(id, location, named, self.clock.now()) {
                    Ok(call) => self.commands.call(call),
                    Err(refusal) => self.commands.warn(refusal.to_string()),
                }
            }
        }
    }

    pub(super) fn on_decline(
        &mut self,
        generation: Generation,
        id: CheckpointId,
        subtask: SubtaskId,
        message: &str,
    ) {
        let Some(attempt) = self.attempts.of(generation) else { return };
        let message = format!("{} declined: {message}", attempt.label(subtask));
        // who has acknowledged cannot take it back, and who takes no part has no say
        if self.in_progress.get(id).is_some_and(|pending| pending.checkpoint.waits_for(subtask)) {
            self.fail_checkpoint(id, FailureReason::CheckpointAsyncException, &message);
        }
    }
}
