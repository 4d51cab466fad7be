//! From the last acknowledgement to "complete": metadata, then register, then the announcement, then
//! deletions.

use std::collections::BTreeMap;

use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointMetadata, CompletedRef, ErrorKind, Generation, OperatorId,
    OperatorState,
};

use super::in_progress::{Abandoned, CheckpointPhase, Pending};
use super::{CheckpointCoordinator, records};
use crate::checkpoint::command::{CheckpointReport, Command};
use crate::checkpoint::failure::{CheckpointFailure, FailureReason};
use crate::checkpoint::pending::Files;
use crate::checkpoint::register::{Purpose, Settled};
use crate::checkpoint::statistics::CheckpointStatus;
use crate::checkpoint::storage::{StorageCall, WriteOutcome};
use crate::message::Control;

impl CheckpointCoordinator {
    /// All have acknowledged.
    pub(super) fn write_metadata(&mut self, id: CheckpointId) {
        let Some(operators) = self.in_progress.get(id).map(|pending| self.operators(pending)) else { return };
        let Some(pending) = self.in_progress.get_mut(id) else { return };
        pending.enter(CheckpointPhase::WritingMetadata);
        let savepoint = pending.checkpoint.is_savepoint().then(|| pending.checkpoint.path.clone());
        let metadata = Box::new(CheckpointMetadata {
            id,
            job: self.job.id(),
            job_name: self.job.name().to_owned(),
            generation: pending.generation(),
            kind: pending.checkpoint.kind,
            triggered_at_ms: pending.checkpoint.triggered_at_ms,
            operators,
        });
        self.commands.call(StorageCall::WriteMetadata { metadata, savepoint });
    }

    /// The state of all operators that have any, in the plan's order.
    fn operators(&self, pending: &Pending) -> Vec<OperatorState> {
        let tasks = self.attempts.running().into_iter().flat_map(|attempt| attempt.tasks());
        let mut at: BTreeMap<OperatorId, usize> = BTreeMap::new();
        let mut operators: Vec<OperatorState> = Vec::new();
        for info in tasks.flat_map(|task| &task.operators) {
            at.entry(info.id).or_insert_with(|| {
                operators.push(OperatorState {
                    id: info.id,
                    uid: info.uid.clone(),
                    name: info.name.clone(),
                    parallelism: info.parallelism,
                    max_parallelism: info.max_parallelism,
                    subtasks: BTreeMap::new(),
                    enumerator: pending.checkpoint.enumerators.get(&info.id).cloned(),
                });
                operators.len() - 1
            });
        }
        for (subtask, part) in pending.checkpoint.acknowledged() {
            for (id, state) in part.snapshot.operators.iter().filter(|(_, state)| !state.is_empty()) {
                if let Some(operator) = at.get(id).and_then(|at| operators.get_mut(*at)) {
                    let all = operator.subtasks.entry(subtask.index).or_default();
                    all.keyed.extend_from_slice(&state.keyed);
                    all.incremental.extend_from_slice(&state.incremental);
                    all.operator.extend_from_slice(&state.operator);
                }
            }
        }
        operators.retain(|operator| !operator.is_empty());
        operators
    }

    pub(super) fn on_metadata_written(&mut self, id: CheckpointId, outcome: WriteOutcome) {
        if let Some(Abandoned { files, shared }) = self.in_progress.take_abandoned(id) {
            return match (files, outcome) {
                (Files::Savepoint(location), WriteOutcome::Unknown(text)) => self.commands.warn(format!(
                    "savepoint {id} was given up, and it is not known whether {location}/_metadata was written ({text}): what \
                     is there is left in place"
                )),
                (files, _) => self.discard_all(id, &files, shared),
            };
        }
        let Some(pending) =
            self.in_progress.get_mut(id).filter(|p| p.phase() == CheckpointPhase::WritingMetadata)
        else {
            return;
        };
        let (path, last) = (pending.checkpoint.path.clone(), pending.checkpoint.last);
        let is_savepoint = pending.checkpoint.is_savepoint();
        let reason = FailureReason::FinalizeCheckpointFailure;
        match outcome {
            WriteOutcome::Written if is_savepoint && !last => self.announce(id),
            WriteOutcome::Written => {
                pending.enter(CheckpointPhase::Registering);
                let path = path.to_string();
                self.register.push(Purpose::Complete(CompletedRef { id, path }), self.clock.now());
            }
            WriteOutcome::Failed(text) => {
                pending.enter(CheckpointPhase::Collecting);
                self.fail_checkpoint(id, reason, &format!("{path}/_metadata could not be written: {text}"));
            }
            WriteOutcome::Unknown(text) if is_savepoint => {
                // it may be whole, and a person may already use it: leave it and say so
                let message = format!(
                    "it is not known whether {path}/_metadata was written ({text}); its files are left in place: inspect the \
                     savepoint, then use it or delete it"
                );
                self.fail_and_leave(id, reason, &message);
            }
            WriteOutcome::Unknown(text) => {
                // the register does not name it and never will, so nobody will read it; if the file appears
                // after the deletion, the next start removes it
                pending.enter(CheckpointPhase::Collecting);
                let message = format!("it is not known whether {path}/_metadata was written: {text}");
                self.fail_checkpoint(id, reason, &message);
            }
        }
    }

    /// Starts the next write of the register, if none is under way.
    pub(super) fn write_register(&mut self) {
        while let Some((purpose, since)) = self.register.next() {
            let durable = self.register.durable();
            let record = match &purpose {
                Purpose::Claim => Some(self.claim_record()),
                Purpose::Reserve => records::reserve(durable, &self.ids),
                Purpose::Complete(new) => {
                    records::complete(durable, &self.ids, new.clone(), self.config.num_retained)
                }
                Purpose::End(outcome) => Some(self.end_record(*outcome)),
            };
            match (record, purpose) {
                (Some(record), purpose) => {
                    let command = self.register.begin(purpose, since, record);
                    self.commands.call(command);
                    return;
                }
                (None, Purpose::Complete(new)) => {
                    let message = "a later checkpoint completed first";
                    self.fail_checkpoint(new.id, FailureReason::CheckpointSubsumed, message);
                }
                (None, _) => {}
            }
        }
    }

    pub(super) fn on_register_settled(&mut self, settled: Settled) {
        match settled {
            Settled::Written(purpose, dropped) => {
                match purpose {
                    Purpose::Claim => self.on_claimed(),
                    Purpose::Reserve => {}
                    Purpose::Complete(new) => {
                        self.shared.confirm(new.id);
                        self.announce(new.id);
                        self.sweep_after_failures();
                    }
                    Purpose::End(outcome) => self.on_end_recorded(outcome),
                }
                self.discard_dropped(dropped);
                self.begin();
            }
            Settled::Failed(Purpose::Complete(new), text) => {
                let message = format!("the job's register could not be written: {text}");
                self.fail_checkpoint(new.id, FailureReason::FinalizeCheckpointFailure, &message);
            }
            Settled::Failed(_, text) => {
                self.abandon_start(FailureReason::IoException, &format!("no id could be reserved: {text}"));
            }
            Settled::Open(command, said) => {
                self.commands.extend(said.map(Command::Warn));
                self.commands.extend(command.map(Command::Storage));
            }
            Settled::Fenced(owner) => self.step_down(owner),
            Settled::Broken(text) => {
                let why = format!(
                    "{text}: nothing is written or deleted any more; look for a second job of this name, and restore the \
                     register or start afresh on purpose"
                );
                let kind = ErrorKind::CorruptSnapshot;
                let reason = FailureReason::FinalizeCheckpointFailure;
                self.answer_stop(Err(CheckpointFailure::new(
                    reason,
                    format!("the job is not stopped: {why}"),
                )));
                let message = why.clone();
                self.commands.push(match self.end.ending() {
                    Some(outcome) => Command::EndUnrecorded { outcome, message },
                    None => Command::FailJob { kind, message },
                });
                self.decide_no_more(kind, why);
            }
        }
    }

    /// Deletes checkpoints that the register names no longer, and with the last of them the shared files that
    /// nobody needs any more. A savepoint stays where it is.
    fn discard_dropped(&mut self, mut dropped: Vec<CompletedRef>) {
        dropped.retain(|old| !old.is_savepoint());
        let released = self.released();
        let Some(last) = dropped.pop() else { return self.discard_shared(released) };
        for old in dropped {
            self.discard_directory(old.id, &old.path, Vec::new());
        }
        self.discard_directory(last.id, &last.path, released);
    }

    fn step_down(&mut self, owner: Generation) {
        let reason = FailureReason::CheckpointCoordinatorSuspend;
        for pending in self.in_progress.take_all() {
            if let Some(request) = pending.checkpoint.request {
                let id = pending.checkpoint.id;
                let message = format!("checkpoint {id} was given up: generation {owner} took the job over");
                let result = Err(CheckpointFailure::new(reason, message));
                self.commands.reply(request, result);
            }
        }
        for request in self.requests.take_all() {
            self.refuse(request, reason, &format!("generation {owner} took the job over"));
        }
        let why = format!("generation {owner} took the job over");
        self.answer_stop(Err(CheckpointFailure::new(reason, format!("the job is not stopped here: {why}"))));
        // nothing follows this command
        self.commands.push(Command::StepDown { owner });
        self.decide_no_more(ErrorKind::Fenced, why);
    }

    /// The checkpoint is the truth (or the savepoint is whole): tell everybody whom it concerns.
    fn announce(&mut self, id: CheckpointId) {
        let Some(pending) = self.in_progress.take(id) else { return };
        let summary = self.summary(&pending, CheckpointStatus::Completed);
        let (kind, last, path) = (pending.checkpoint.kind, pending.checkpoint.last, &pending.checkpoint.path);
        let report = CheckpointReport {
            id,
            kind,
            path: path.to_string(),
            size_bytes: summary.size_bytes,
            duration: summary.duration,
        };
        self.statistics.on_ended(summary);
        let commits = last || kind != CheckpointKind::Savepoint;
        let generation = pending.generation();
        if commits && self.attempts.of(generation).is_some() {
            self.commands.tell(generation, Control::Complete { id });
        }
        if let Some(request) = pending.checkpoint.request {
            self.commands.reply(request, Ok(report.clone()));
        }
        if !commits {
            // it leaves everything as it was; whoever acknowledges it once more must not have its files
            // deleted
            return self.in_progress.remember(id, None);
        }
        self.failures.on_success(id);
        self.requests.on_completed(self.clock.now());
        for older in self.in_progress.subsumed_by(id) {
            let message = format!("checkpoint {id} completed first");
            self.fail_checkpoint(older, FailureReason::CheckpointSubsumed, &message);
        }
        if last {
            self.on_last_completed(report, generation);
        } else if kind == CheckpointKind::Final {
            self.await_commits(id, generation);
        }
    }
}
