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
use crate::checkpoint::shared_files::SharedFiles;
use crate::checkpoint::storage::{References, StorageCall};

/// What is being read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// So many answers are to come.
    answers: u32,
    since: Duration,
    /// The checkpoint that the tasks build on could not be read: once more at this time.
    retry_at: Option<Duration>,
    /// No checkpoint is triggered meanwhile.
    holds_back: bool,
}

/// What is known of the files below `shared/`.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedDirectory {
    files: SharedFiles,
    reading: Option<Reading>,
    // somebody may have left files there that nobody reported
    sweep_wanted: bool,
}

impl SharedDirectory {
    /// Whether no checkpoint may be triggered, since acknowledgements could not be judged.
    pub(super) fn holds_back(&self) -> bool {
        self.reading.is_some_and(|reading| reading.holds_back)
    }

    /// The next success is to be followed by a look for files that nobody reported.
    pub(super) fn want_sweep(&mut self) {
        self.sweep_wanted = true;
    }

    /// The checkpoint is completed: what it wrote may be named by later ones.
    pub(super) fn confirm(&mut self, id: CheckpointId) {
        self.files.confirm(id);
    }

    /// The checkpoint will never be completed: forgets what it wrote, and gives it back to be deleted.
    pub(super) fn abort(&mut self, id: CheckpointId) -> Vec<String> {
        self.files.abort(id)
    }

    /// When [`on_reading_time`](CheckpointCoordinator::on_reading_time) has something to do.
    pub(super) fn wake_at(&self, timeout: Duration) -> Option<Duration> {
        let reading = self.reading.as_ref()?;
        let late = reading.holds_back.then_some(reading.since + timeout);
        late.into_iter().chain(reading.retry_at).min()
    }
}

impl CheckpointCoordinator {
    /// A new attempt: makes sure that it is known what the register's checkpoints name, then sweeps.
    pub(super) fn read_references(&mut self) {
        let Some(missing) = self.shared.files.missing(self.register.named()) else {
            return self.sweep_shared();
        };
        self.shared.files.distrust(self.ids.first_own());
        let (answers, since) =
            self.shared.reading.map_or((0, self.clock.now()), |reading| (reading.answers, reading.since));
        self.shared.reading = Some(Reading { answers: answers + 1, since, retry_at: None, holds_back: true });
        self.ask_for(&missing);
    }

    fn ask_for(&mut self, missing: &BTreeSet<CheckpointId>) {
        let Some(record) = self.register.durable() else { return };
        let select = |all: &[CompletedRef]| {
            all.iter().filter(|checkpoint| missing.contains(&checkpoint.id)).cloned().collect()
        };
        let (completed, retained) = (select(&record.completed), select(&record.retained));
        self.commands.call(StorageCall::ReadReferences { completed, retained });
    }

    pub(super) fn on_references_read(&mut self, references: References) {
        for reason in &references.unreadable {
            self.commands.warn(format!(
                "shared files of earlier checkpoints are not cleaned up, since it is not known who needs them: {reason}"
            ));
        }
        let known = self.shared.files.recover(references, self.register.named());
        // the tasks will name its files, and each such acknowledgement would be refused
        let unread = |newest: &CompletedRef| !newest.is_savepoint() && !self.shared.files.covers(newest.id);
        let retry = self.latest_completed().is_some_and(unread);
        if let Some(reading) = &mut self.shared.reading {
            reading.answers = reading.answers.saturating_sub(1);
            match reading.answers {
                0 if retry => reading.retry_at = Some(self.clock.now() + RETRY),
                0 => self.shared.reading = None,
                _ => {}
            }
        }
        if known && self.shared.reading.is_none() {
            self.sweep_shared();
        }
    }

    /// Reads once more, or goes on without, if storage does not say what earlier checkpoints name; nothing of
    /// theirs is deleted then.
    pub(super) fn on_reading_time(&mut self) {
        let (now, timeout) = (self.clock.now(), self.config.timeout);
        let Some(reading) = &mut self.shared.reading else { return };
        let retry = reading.retry_at.is_some_and(|at| now >= at);
        if retry {
            (reading.retry_at, reading.answers) = (None, 1);
        }
        let late = reading.holds_back && now >= reading.since + timeout;
        if late {
            reading.holds_back = false;
            self.commands.warn(format!(
                "storage did not say within {timeout:?} (execution.checkpointing.timeout) which shared files earlier checkpoints \
                 name: none of them is cleaned up, and checkpoints that name them are refused until it does"
            ));
        }
        if retry {
            let missing = self.shared.files.missing(self.register.named()).unwrap_or_default();
            self.ask_for(&missing);
        }
    }

    /// Wants to know what lies in `shared/`.
    fn sweep_shared(&mut self) {
        self.shared.sweep_wanted = false;
        self.commands.call(StorageCall::ListShared);
    }

    /// Tasks that fail or come too late may leave files that nobody reported: after the next success they are
    /// looked for.
    pub(super) fn sweep_after_failures(&mut self) {
        if self.shared.sweep_wanted && !self.shared.files.is_empty() {
            self.sweep_shared();
        }
    }

    pub(super) fn on_shared_listed(&mut self, result: Result<Vec<String>, String>) {
        let listed = match result {
            Ok(listed) => listed,
            Err(text) => return self.commands.warn(format!("`shared/` is not cleaned up this time: {text}")),
        };
        if !self.attempts.has_claim() || self.shared.reading.is_some() {
            return;
        }
        self.distrust_unread();
        let is_over = |by: CheckpointId| self.ids.is_used(by) && self.in_progress.is_over(by);
        let orphans = self.shared.files.orphans(listed, is_over);
        if !orphans.is_empty() {
            self.commands
                .info(format!("{} files in `shared/` that no checkpoint names are deleted", orphans.len()));
        }
        self.discard_shared(orphans);
    }

    /// Forgets and gives back the shared files that nobody needs any more.
    pub(super) fn released(&mut self) -> Vec<String> {
        if self.shared.files.is_empty() {
            return Vec::new();
        }
        self.distrust_unread();
        let named = self.register.named().map(|checkpoint| checkpoint.id);
        let needed: BTreeSet<CheckpointId> = named.chain(self.in_progress.with_bases()).collect();
        self.shared.files.release(&needed)
    }

    /// The files of a late or unknown acknowledgement that nobody names.
    pub(super) fn strays(&mut self, id: CheckpointId, snapshot: &TaskSnapshot) -> Vec<String> {
        self.distrust_unread();
        self.shared.files.strays(id, cleaner::shared_files_of(snapshot))
    }

    /// A checkpoint that a former leader completed may name any file that is not newer.
    fn distrust_unread(&mut self) {
        let known = |named: &&CompletedRef| !self.in_progress.contains(named.id);
        let unread = self.shared.files.missing(self.register.named().filter(known));
        if let Some(last) = unread.and_then(|unread| unread.last().copied()) {
            self.shared.files.distrust(last.next());
        }
    }

    pub(super) fn discard_shared(&mut self, paths: Vec<String>) {
        if let Some(call) = self.cleaner.discard_shared(paths, self.clock.now()) {
            self.commands.call(call);
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
                .files
                .register(id, std::iter::once(first).chain(paths))
                .map_err(|error| error.to_string()),
        }
    }
}
