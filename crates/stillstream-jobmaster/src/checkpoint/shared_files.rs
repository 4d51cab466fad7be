//! Files that several checkpoints name: who wrote each, who named it last, and when it may go.
//!
//! Flink's `SharedStateRegistryImpl` is the model. There is one entry for each path, with the first and the
//! last checkpoint that named it, and no count of references. The rules:
//!
//! 1. An acknowledgement of checkpoint n may name a file that n itself wrote (its number is in the name, see
//!    [`shared_file`]), or one that a completed checkpoint of the job names. Any other may be gone already.
//! 2. A file is needed as long as the number of a checkpoint that the register names, that a person keeps or
//!    that is under way lies between the first and the last one that named it. Those in between count too,
//!    whether they name it or not: that is at most too careful.
//! 3. A file that an aborted checkpoint wrote goes with it: by rule 1 nobody else may have named it.
//! 4. What this coordinator did not see being written or named is deleted only when it has read what every
//!    checkpoint that stays names. One that cannot be read keeps all older files in place.
//!
//! Entries come from acknowledgements, and after a start from the metadata of the checkpoints that the
//! register names. Files of a snapshot that was taken elsewhere have no entry, so they are never deleted.

use std::collections::{BTreeMap, BTreeSet};

use stillstream_types::{CheckpointId, CompletedRef, checkpoint_paths};

use crate::checkpoint::storage::References;

/// One file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Usage {
    /// The first and the last checkpoint that named it.
    first: CheckpointId,
    last: CheckpointId,
    /// A completed checkpoint named it, so that later ones may.
    confirmed: bool,
    /// Its name says who wrote it; a file of any other name is never deleted.
    ours: bool,
}

/// Why an acknowledgement is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "it names {path}, which neither checkpoint {checkpoint} wrote nor a completed checkpoint of this job names: the file may be \
     gone, it has to be written again"
)]
pub struct UnknownFile {
    /// The file.
    pub path: String,
    /// The checkpoint that was acknowledged.
    pub checkpoint: CheckpointId,
}

/// The entries of all shared files that anything may name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedFiles {
    files: BTreeMap<String, Usage>,
    /// Checkpoints that the register names and whose files have entries.
    covered: BTreeSet<CheckpointId>,
    /// Checkpoints that the register does not name but a person keeps; `None` until they have been read.
    kept: Option<BTreeSet<CheckpointId>>,
    /// Of files that were written before this checkpoint it is not known whether somebody needs them.
    unsure_before: CheckpointId,
}

impl SharedFiles {
    /// What has to be read before it is known who needs which file: the checkpoints of `named` whose files
    /// have no entries. `None` if nothing is missing. A savepoint names no shared file, so it is never read.
    pub fn missing<'a>(
        &self,
        named: impl Iterator<Item = &'a CompletedRef>,
    ) -> Option<BTreeSet<CheckpointId>> {
        let checkpoints = named.filter(|named| !named.is_savepoint()).map(|named| named.id);
        let missing: BTreeSet<_> = checkpoints.filter(|id| !self.covered.contains(id)).collect();
        (!missing.is_empty() || self.kept.is_none()).then_some(missing)
    }

    /// Whether it is known what this checkpoint, which the register names, names itself.
    pub fn covers(&self, id: CheckpointId) -> bool {
        self.covered.contains(&id)
    }

    /// From here on, until [`recover`](Self::recover) says more, no file that was written before checkpoint
    /// `first_own` is deleted.
    pub fn distrust(&mut self, first_own: CheckpointId) {
        self.unsure_before = self.unsure_before.max(first_own);
    }

    /// Takes in what was read of the checkpoints that stay; `named` is all that the register names now.
    /// Returns whether everything is known.
    pub fn recover<'a>(
        &mut self,
        references: References,
        named: impl Iterator<Item = &'a CompletedRef>,
    ) -> bool {
        for (id, paths) in references.found {
            for path in paths {
                let usage = self.files.entry(path).or_insert_with_key(|path| Usage::new(path, id));
                usage.used_by(id);
                usage.confirmed = true;
            }
            self.covered.insert(id);
        }
        if references.unreadable.is_empty() {
            self.kept = Some(references.kept.into_iter().collect());
        }
        let known = self.missing(named).is_none();
        if known {
            self.unsure_before = CheckpointId(0);
        }
        known
    }

    /// A task names these files for checkpoint `id`.
    ///
    /// # Errors
    /// When one of them may be gone; then those that `id` wrote are registered all the same, so that they go
    /// with it.
    pub fn register<'a>(
        &mut self,
        id: CheckpointId,
        paths: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), UnknownFile> {
        let mut unknown = Ok(());
        for path in paths {
            match self.files.get_mut(path) {
                Some(usage) if usage.confirmed || usage.first == id => usage.used_by(id),
                None if checkpoint_paths::creator(path) == Some(id) => {
                    self.files.insert(path.to_owned(), Usage::new(path, id));
                }
                _ => unknown = Err(UnknownFile { path: path.to_owned(), checkpoint: id }),
            }
        }
        unknown
    }

    /// Checkpoint `id` is completed: what it wrote may be named by later ones.
    pub fn confirm(&mut self, id: CheckpointId) {
        self.covered.insert(id);
        for usage in self.files.values_mut().filter(|usage| usage.first == id) {
            usage.confirmed = true;
        }
    }

    /// Checkpoint `id` will never be completed: forgets what it wrote, and gives it back to be deleted.
    pub fn abort(&mut self, id: CheckpointId) -> Vec<String> {
        self.take(|usage| usage.first == id && !usage.confirmed)
    }

    /// Forgets the files that nobody needs any more, and gives them back to be deleted. `needed` are all
    /// checkpoints that the register names or may name, that are under way, or on whose files one that is
    /// under way may build.
    pub fn release(&mut self, needed: &BTreeSet<CheckpointId>) -> Vec<String> {
        self.covered.retain(|id| needed.contains(id));
        let (kept, unsure_before) = (self.kept.clone().unwrap_or_default(), self.unsure_before);
        let within = |ids: &BTreeSet<CheckpointId>, usage: &Usage| {
            ids.range(usage.first..=usage.last).next().is_some()
        };
        self.take(|usage| {
            usage.ours && usage.first >= unsure_before && !within(needed, usage) && !within(&kept, usage)
        })
    }

    fn take(&mut self, goes: impl Fn(&Usage) -> bool) -> Vec<String> {
        self.files.extract_if(.., |_, usage| goes(usage)).map(|(path, _)| path).collect()
    }

    /// Of the files that came with an acknowledgement that is part of no checkpoint, those that may be
    /// deleted: written for `id` itself, and named by nobody.
    pub fn strays<'a>(&self, id: CheckpointId, paths: impl Iterator<Item = &'a str>) -> Vec<String> {
        let stray = |path: &&str| checkpoint_paths::creator(path) == Some(id) && self.is_orphan(id, path);
        paths.filter(stray).map(str::to_owned).collect()
    }

    /// Of the files that lie in `shared/`, those that nobody names and nobody will: written, completely or
    /// not, for a checkpoint that `is_over`.
    pub fn orphans(&self, listed: Vec<String>, is_over: impl Fn(CheckpointId) -> bool) -> Vec<String> {
        let orphan = |path: &String| {
            checkpoint_paths::creator_of_leftover(path)
                .is_some_and(|by| is_over(by) && self.is_orphan(by, path))
        };
        listed.into_iter().filter(orphan).collect()
    }

    fn is_orphan(&self, by: CheckpointId, path: &str) -> bool {
        by >= self.unsure_before && !self.files.contains_key(path)
    }

    /// Whether there is no shared file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl Usage {
    fn new(path: &str, id: CheckpointId) -> Self {
        let creator = checkpoint_paths::creator(path);
        Self {
            first: creator.map_or(id, |by| by.min(id)),
            last: id,
            confirmed: false,
            ours: creator.is_some(),
        }
    }

    fn used_by(&mut self, id: CheckpointId) {
        self.first = self.first.min(id);
        self.last = self.last.max(id);
    }
}

#[cfg(test)]
#[path = "shared_files_tests.rs"]
mod tests;
