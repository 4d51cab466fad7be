//! Deleting: idempotent, never an error for the job, and refusing when unsure.
//!
//! Call these off the checkpoint path, and only once the register no longer names what is to go.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use stillstream_types::crash::crash_point;
use stillstream_types::{CheckpointId, Generation, RegisterRecord, StreamHandle, checkpoint_paths};

use crate::checkpoint::JobStorage;
use crate::error::StorageError;
use crate::metadata::METADATA_FILE;
use crate::store::{Deleted, join};

/// A file in a checkpoint's directory that says: a person decides about this one.
pub const KEEP_FILE: &str = "_keep";

/// How often one file is tried at once. What still fails is in the report, and is swept at the next start.
const ATTEMPTS: u32 = 3;

const UNKNOWN_NUMBER: &str = "its number is higher than any that the register knows";

/// What a deletion did.
#[derive(Debug, Default)]
#[must_use = "what failed should be logged and tried again later"]
pub struct DiscardReport {
    /// Files that were deleted.
    pub deleted: u64,
    /// Files that were gone already.
    pub missing: u64,
    /// What could not be deleted, and why. Try again later.
    pub failed: Vec<StorageError>,
}

impl DiscardReport {
    /// Whether nothing is left to do.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }

    fn merge(&mut self, other: Self) {
        self.deleted += other.deleted;
        self.missing += other.missing;
        self.failed.extend(other.failed);
    }
}

/// What the clean-up at start did.
#[derive(Debug, Default)]
#[must_use = "what was left should be logged"]
pub struct SweepReport {
    /// Checkpoint directories that were deleted.
    pub swept: Vec<CheckpointId>,
    /// Files that were deleted, and failures.
    pub files: DiscardReport,
    /// What was left alone, and why.
    pub left: Vec<String>,
}

impl JobStorage {
    /// Deletes the directory of a checkpoint. `_metadata` goes first and durably: what is half deleted must
    /// not be taken for a whole checkpoint. The register must no longer name it, and no other checkpoint may
    /// name files in it. Files in `shared/` stay: see [`discard_files`](Self::discard_files).
    pub fn discard_checkpoint(&self, id: CheckpointId) -> DiscardReport {
        self.discard_directory(id, &HashSet::new())
    }

    /// The same, and then these files in `shared/`, which no other checkpoint names: they go last, and only
    /// if the directory is gone, so that no metadata is left that names them.
    pub fn discard_checkpoint_and_shared(&self, id: CheckpointId, shared: &[String]) -> DiscardReport {
        let mut report = self.discard_checkpoint(id);
        if report.is_complete() && !shared.is_empty() {
            let dir = self.store().display(&self.key(checkpoint_paths::SHARED_FOLDER));
            match crash_point("before-shared-discarded") {
                Ok(()) => report.merge(self.discard_files(shared.iter().map(String::as_str))),
                Err(crash) => report.failed.push(StorageError::io("delete", dir, crash.into())),
            }
        }
        report
    }

    fn discard_directory(&self, id: CheckpointId, spare: &HashSet<String>) -> DiscardReport {
        let (dir, mut report) = (self.key(&checkpoint_paths::checkpoint(id)), DiscardReport::default());
        self.delete(&join(&dir, METADATA_FILE), &mut report);
        if !report.is_complete() {
            // the rest must stay as long as the metadata names it
            return report;
        }
        // that there was none is no news: an aborted checkpoint has none
        report.missing = 0;
        let mut steps = || {
            crash_point("half-discarded")
                .map_err(|crash| StorageError::io("delete", self.store().display(&dir), crash.into()))?;
            self.store().sync_folder(&dir)?;
            let keys = self.store().list(&dir)?.into_iter().map(|entry| entry.key);
            self.delete_all(&keys.filter(|key| !spare.contains(key)).collect::<Vec<_>>(), &mut report);
            self.store().remove_empty_dirs(&dir)
        };
        if let Err(error) = steps() {
            report.failed.push(error);
        }
        report
    }

    /// Deletes the files of handles that no checkpoint names: those of a declined, late or aborted snapshot.
    pub fn discard_streams<'a>(&self, handles: impl IntoIterator<Item = &'a StreamHandle>) -> DiscardReport {
        self.discard_files(handles.into_iter().filter_map(StreamHandle::path))
    }

    /// Deletes files that no checkpoint names, by their paths relative to the job's directory, and the
    /// directory of a checkpoint in which nothing is left then: one that was deleted comes back with the file
    /// of a task that is late.
    pub fn discard_files<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> DiscardReport {
        let mut report = DiscardReport::default();
        let mut dirs = BTreeSet::new();
        let mut keys = Vec::new();
        for path in paths {
            match crate::store::check_key(path) {
                Ok(()) => keys.push(self.key(path)),
                Err(error) => report.failed.push(error),
            }
            let dir = path.split_once('/').map(|(dir, _)| dir);
            dirs.extend(dir.filter(|dir| checkpoint_paths::checkpoint_of(dir).is_some()));
        }
        self.delete_all(&keys, &mut report);
        for dir in dirs {
            // a writer whose folder goes while it begins makes it again
            if let Err(error) = self.store().remove_empty_dirs(&self.key(dir)) {
                report.failed.push(error);
            }
        }
        report
    }

    /// Removes the folders of the job in which nothing is: what a process that was killed between the last
    /// file of a folder and the folder leaves. A writer whose folder goes while it begins makes it again.
    ///
    /// # Errors
    /// If a folder cannot be listed or removed.
    pub fn remove_empty_folders(&self) -> Result<(), StorageError> {
        self.store().remove_empty_dirs(&self.streams.anchor)
    }

    fn delete(&self, key: &str, report: &mut DiscardReport) {
        let first = self.store().delete(key);
        self.count(key, first, report);
    }

    fn delete_all(&self, keys: &[String], report: &mut DiscardReport) {
        for (key, deleted) in keys.iter().zip(self.store().delete_all(keys)) {
            self.count(key, deleted, report);
        }
    }

    /// Notes what the first attempt did, or makes further ones.
    fn count(&self, key: &str, mut deleted: Result<Deleted, StorageError>, report: &mut DiscardReport) {
        let mut attempt = 1;
        loop {
            match deleted {
                Ok(Deleted::Yes) => report.deleted += 1,
                Ok(Deleted::NotFound) => report.missing += 1,
                // no answer took the whole deadline: not now
                Err(error) if attempt < ATTEMPTS && !error.is_indeterminate() => {
                    attempt += 1;
                    deleted = self.store().delete(key);
                    continue;
                }
                Err(error) => report.failed.push(error),
            }
            return;
        }
    }

    /// Names of the checkpoint directories of the job, as in `chk-17`, without those that a person decides
    /// about ([`KEEP_FILE`]).
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn list_directories(&self) -> Result<Vec<String>, StorageError> {
        let entries = self.store().list(&self.streams.anchor)?;
        let kept = self.kept_directories()?;
        let dirs = entries.iter().filter_map(|entry| self.path_of(&entry.key)?.split_once('/'));
        let found: BTreeSet<&str> = dirs
            .map(|(dir, _)| dir)
            .filter(|dir| checkpoint_paths::checkpoint_of(dir).is_some_and(|id| !kept.contains(&id)))
            .collect();
        Ok(found.into_iter().map(str::to_owned).collect())
    }

    /// Clean-up while nobody writes: at a job's start, after [`claim`](Self::claim) and before the first
    /// checkpoint, and at its end, when all tasks have stopped. Deletes what a crash or a task that came too
    /// late left. `record` is the register's record, `current` this process' generation.
    ///
    /// Deleted are checkpoint directories that the register does not name and whose number is at most
    /// `record.last_checkpoint_id`, and files in `shared/` of such numbers that no named checkpoint and none
    /// with a file `_keep` refers to. Left alone, with the reason in the report, is everything when another
    /// generation owns the register or when a checkpoint that is to stay cannot be read; numbers above;
    /// directories with a file `_keep`; files that a checkpoint that stays refers to; files in `shared/`
    /// whose name no release gives.
    pub fn sweep_orphans(&self, record: &RegisterRecord, current: Generation) -> SweepReport {
        let mut report = SweepReport::default();
        match self.load_register() {
            Ok(Some(loaded)) if loaded.record == *record && record.generation == current => {}
            Ok(_) => {
                report
                    .left
                    .push(format!("everything: the register does not say what generation {current} wrote"));
                return report;
            }
            Err(error) => {
                report.left.push(format!("everything: {error}"));
                return report;
            }
        }
        match self.referenced(record) {
            Ok(referenced) => {
                if let Err(error) = self.sweep(record, &referenced, &mut report) {
                    report.files.failed.push(error);
                }
            }
            Err(error) => {
                report.left.push(format!("everything, since a checkpoint that stays cannot be read: {error}"))
            }
        }
        report
    }

    fn sweep(
        &self,
        record: &RegisterRecord,
        referenced: &HashSet<String>,
        report: &mut SweepReport,
    ) -> Result<(), StorageError> {
        // whether a person decides about it
        let mut dirs = BTreeMap::<CheckpointId, bool>::new();
        let mut unnamed = Vec::new();
        for entry in self.store().list(&self.streams.anchor)? {
            let Some((dir, file)) = self.path_of(&entry.key).and_then(|path| path.split_once('/')) else {
                continue;
            };
            if let Some(id) = checkpoint_paths::checkpoint_of(dir) {
                *dirs.entry(id).or_insert(false) |= file == KEEP_FILE;
            } else if dir == checkpoint_paths::SHARED_FOLDER && !referenced.contains(&entry.key) {
                match checkpoint_paths::creator_of_leftover(&format!("{dir}/{file}")) {
                    Some(creator) if creator <= record.last_checkpoint_id => {
                        unnamed.push(entry.key);
                    }
                    Some(_) => report.left.push(format!("{dir}/{file}: {UNKNOWN_NUMBER}")),
                    None => report.left.push(format!("{dir}/{file}: its name is not one that is given here")),
                }
            }
        }
        self.delete_all(&unnamed, &mut report.files);
        for (&id, &keep) in &dirs {
            if record.completed.iter().chain(&record.retained).any(|named| named.id == id) {
                continue;
            }
            let reason = if keep {
                "it is marked with a file `_keep`"
            } else if id > record.last_checkpoint_id {
                UNKNOWN_NUMBER
            } else {
                let files = self.discard_directory(id, referenced);
                if files.is_complete() {
                    report.swept.push(id);
                }
                report.files.merge(files);
                continue;
            };
            report.left.push(format!("{}: {reason}", checkpoint_paths::checkpoint(id)));
        }
        // folders that a crash left before their first file
        self.remove_empty_folders()
    }
}
