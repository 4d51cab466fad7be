//! Files that several checkpoints name: what must be read before any is deleted, and when they are.
//!
//! The rules are in [`shared_files`](crate::checkpoint::shared_files). Here is what surrounds them: at the
//! start of an attempt the metadata of the checkpoints that the register names is read, where it is not known
//! yet; until that is answered no checkpoint is triggered, so that no acknowledgement comes that cannot be
//! judged. Then the folder is listed, and what nobody names goes.

use std::collections::BTreeSet;
use std::time::Duration;

use stillstream_types::{CheckpointId, CheckpointKind, CompletedRef, TaskSnapshot};

use super::CheckpointCoordinator;
use crate::checkpoint::cleaner;
use crate::checkpoint::register::RETRY;
use crate::checkpoint::storage::{References, StorageCall};

/// What is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// So many answers are to come.
    answers: u32,
    since: Duration,
    /// The checkpoint that the tasks build on could not be read: once more at this time.
    retry_at: Option<Duration>,
    /// No checkpoint is triggered meanwhile.
    pub(super) holds_back: bool,
}

impl CheckpointCoordinator {
    /// A new attempt: makes sure that it is known what the register's checkpoints name, then sweeps.
    pub(super) fn read_references(&mut self) {
        let Some(missing) = self.shared.missing(self.register.named()) else {
            return self.sweep_shared();
        };
        self.shared.distrust(self.first_own);
        let (answers, since) = self.reading.map_or((0, self.now), |reading| (reading.answers, reading.since));
        self.reading = Some(Reading { answers: answers + 1, since, retry_at: None, holds_back: true });
        self.ask_for(&missing);
    }

    fn ask_for(&mut self, missing: &BTreeSet<CheckpointId>) {
        let Some(record) = self.register.durable() else { return };
        let select = |all: &[CompletedRef]| {
            all.iter().filter(|checkpoint| missing.contains(&checkpoint.id)).cloned().collect()
        };
        let (completed, retained) = (select(&record.completed), select(&record.retained));
        self.call(StorageCall::ReadReferences { completed, retained });
    }

    pub(super) fn on_references_read(&mut self, references: References) {
        for reason in &references.unreadable {
            self.warn(format!(
                "shared files of earlier checkpoints are not cleaned up, since it is not known who needs them: {reason}"
            ));
        }
        let known = self.shared.recover(references, self.register.named());
        // the tasks will name its files, and each such acknowledgement would be refused
        let unread = |newest: &CompletedRef| !newest.is_savepoint() && !self.shared.covers(newest.id);
        let retry = self.latest_completed().is_some_and(unread);
        if let Some(reading) = &mut self.reading {
            reading.answers = reading.answers.saturating_sub(1);
            match reading.answers {
                0 if retry => reading.retry_at = Some(self.now + RETRY),
                0 => self.reading = None,
                _ => {}
            }
        }
        if known && self.reading.is_none() {
            self.sweep_shared();
        }
    }

    /// Reads once more, or goes on without, if storage does not say what earlier checkpoints name; nothing of
    /// theirs is deleted then.
    pub(super) fn on_reading_time(&mut self) {
        let (now, timeout) = (self.now, self.config.timeout);
        let Some(reading) = &mut self.reading else { return };
        let retry = reading.retry_at.is_some_and(|at| now >= at);
        if retry {
            (reading.retry_at, reading.answers) = (None, 1);
        }
        let late = reading.holds_back && now >= reading.since + timeout;
        if late {
            reading.holds_back = false;
            self.warn(format!(
                "storage did not say within {timeout:?} (execution.checkpointing.timeout) which shared files earlier checkpoints \
                 name: none of them is cleaned up, and checkpoints that name them are refused until it does"
            ));
        }
        if retry {
            let missing = self.shared.missing(self.register.named()).unwrap_or_default();
            self.ask_for(&missing);
        }
    }

    /// When [`on_reading_time`](Self::on_reading_time) has something to do.
    pub(super) fn reading_wake_at(&self) -> Option<Duration> {
        let reading = self.reading.as_ref()?;
        let late = reading.holds_back.then_some(reading.since + self.config.timeout);
        late.into_iter().chain(reading.retry_at).min()
    }

    /// Wants to know what lies in `shared/`.
    fn sweep_shared(&mut self) {
        self.sweep_wanted = false;
        self.call(StorageCall::ListShared);
    }

    /// Tasks that fail or come too late may leave files that nobody reported: after the next success they are
    /// looked for.
    pub(super) fn sweep_after_failures(&mut self) {
        if self.sweep_wanted && !self.shared.is_empty() {
            self.sweep_shared();
        }
    }

    pub(super) fn on_shared_listed(&mut self, result: Result<Vec<String>, String>) {
        let listed = match result {
            Ok(listed) => listed,
            Err(text) => return self.warn(format!("`shared/` is not cleaned up this time: {text}")),
        };
        if self.claimed.is_none() || self.reading.is_some() {
            return;
        }
        self.distrust_unread();
        let is_over = |by: CheckpointId| {
            by <= self.used && !self.pending.contains_key(&by) && !self.abandoned_writes.contains_key(&by)
        };
        let orphans = self.shared.orphans(listed, is_over);
        if !orphans.is_empty() {
            self.info(format!("{} files in `shared/` that no checkpoint names are deleted", orphans.len()));
        }
        self.discard_shared(orphans);
    }

    /// Forgets and gives back the shared files that nobody needs any more.
    pub(super) fn released(&mut self) -> Vec<String> {
        if self.shared.is_empty() {
            return Vec::new();
        }
        self.distrust_unread();
        let pending = self.pending.iter().flat_map(|(id, pending)| [Some(*id), pending.base]);
        let named = self.register.named().map(|checkpoint| checkpoint.id);
        let needed: BTreeSet<CheckpointId> = named.chain(pending.flatten()).collect();
        self.shared.release(&needed)
    }

    /// The files of a late or unknown acknowledgement that nobody names.
    pub(super) fn strays(&mut self, id: CheckpointId, snapshot: &TaskSnapshot) -> Vec<String> {
        self.distrust_unread();
        self.shared.strays(id, cleaner::shared_files_of(snapshot))
    }

    /// A checkpoint that a former leader completed may name any file that is not newer.
    fn distrust_unread(&mut self) {
        let known = |named: &&CompletedRef| !self.pending.contains_key(&named.id);
        let unread = self.shared.missing(self.register.named().filter(known));
        if let Some(last) = unread.and_then(|unread| unread.last().copied()) {
            self.shared.distrust(last.next());
        }
    }

    pub(super) fn discard_shared(&mut self, paths: Vec<String>) {
        if let Some(call) = self.cleaner.discard_shared(paths, self.now) {
            self.call(call);
        }
    }

    /// Takes the shared files of an acknowledgement in, or says why it cannot be part of the checkpoint.
    pub(super) fn register_shared(
        &mut self,
        id: CheckpointId,
        kind: CheckpointKind,
        snapshot: &TaskSnapshot,
    ) -> Result<(), String> {
        let mut paths = cleaner::shared_files_of(snapshot);
        match (kind, paths.next()) {
            (_, None) => Ok(()),
            (CheckpointKind::Savepoint, Some(path)) => {
                Err(format!("it names {path}, but a savepoint owns all its files, so that it can be moved"))
            }
            (_, Some(first)) => self
                .shared
                .register(id, std::iter::once(first).chain(paths))
                .map_err(|error| error.to_string()),
        }
    }
}
