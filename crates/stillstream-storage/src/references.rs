//! Which files checkpoints name: what must be known before anything in `shared/` may be deleted.

use std::collections::{BTreeSet, HashSet};

use stillstream_types::checkpoint_paths::{self, SHARED_FOLDER};
use stillstream_types::{CheckpointId, CheckpointMetadata, CompletedRef, RegisterRecord, StreamHandle};

use crate::checkpoint::JobStorage;
use crate::cleanup::KEEP_FILE;
use crate::error::StorageError;

/// What checkpoints name in `shared/`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharedReferences {
    /// By checkpoint, the paths relative to the job's directory. A checkpoint of [`RegisterRecord::retained`]
    /// that its owner has deleted names none.
    pub found: Vec<(CheckpointId, Vec<String>)>,
    /// Which of these a person keeps by a file `_keep`; the register does not name them.
    pub kept: Vec<CheckpointId>,
    /// Checkpoints that cannot be read, and why. As long as there is one, it is not known what is an orphan.
    pub unreadable: Vec<String>,
}

impl JobStorage {
    /// The files in `shared/`, by their paths relative to the job's directory; also what unfinished writers
    /// left there.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn list_shared(&self) -> Result<Vec<String>, StorageError> {
        let entries = self.store().list(&self.key(SHARED_FOLDER))?;
        Ok(entries.iter().filter_map(|entry| self.path_of(&entry.key)).map(str::to_owned).collect())
    }

    /// Reads what these checkpoints name in `shared/`, and what those name that a person keeps by a file
    /// `_keep`. `completed` and `retained` are of the register's record. What cannot be read is in the
    /// answer: nothing is left out in silence.
    pub fn shared_references(
        &self,
        completed: &[CompletedRef],
        retained: &[CompletedRef],
    ) -> SharedReferences {
        let mut references = SharedReferences::default();
        let mut add = |id, read: Result<Option<CheckpointMetadata>, StorageError>| match read {
            Ok(metadata) => references.found.push((id, shared_paths(metadata.as_ref()))),
            Err(error) => references.unreadable.push(error.to_string()),
        };
        for checkpoint in completed {
            // a savepoint names files of its own directory only
            let read = match checkpoint.is_savepoint() {
                true => Ok(None),
                false => self.read_metadata(&checkpoint.path).map(Some),
            };
            add(checkpoint.id, read);
        }
        for checkpoint in retained {
            add(checkpoint.id, self.read_retained(checkpoint));
        }
        let kept = match self.kept_directories() {
            Ok(kept) => kept,
            Err(error) => {
                references.unreadable.push(error.to_string());
                return references;
            }
        };
        for id in kept {
            add(id, self.read_kept(id));
            references.kept.push(id);
        }
        references
    }

    /// Keys of all files that the record's checkpoints name, and those that a person keeps.
    pub(crate) fn referenced(&self, record: &RegisterRecord) -> Result<HashSet<String>, StorageError> {
        let mut referenced = HashSet::new();
        let mut add = |metadata: Option<CheckpointMetadata>| {
            let streams = metadata.iter().flat_map(CheckpointMetadata::streams);
            referenced.extend(streams.filter_map(StreamHandle::path).map(|path| self.key(path)));
        };
        for completed in record.completed.iter().filter(|completed| !completed.is_savepoint()) {
            add(Some(self.read_metadata(&completed.path)?));
        }
        for retained in &record.retained {
            add(self.read_retained(retained)?);
        }
        for id in self.kept_directories()? {
            add(self.read_kept(id)?);
        }
        Ok(referenced)
    }

    /// The metadata of a checkpoint that belongs to a person; `None` if that one has deleted it, so that
    /// nothing is left in its directory, and for a savepoint, which names nothing here.
    fn read_retained(&self, retained: &CompletedRef) -> Result<Option<CheckpointMetadata>, StorageError> {
        let path = &retained.path;
        if retained.is_savepoint() {
            return Ok(None);
        }
        match self.read_metadata(path) {
            Err(error) if error.is_not_found() && self.store().list(&self.key(path))?.is_empty() => Ok(None),
            read => read.map(Some),
        }
    }

    /// The metadata in a directory that is marked with `_keep`; `None` if it has none: then it is no
    /// checkpoint.
    fn read_kept(&self, id: CheckpointId) -> Result<Option<CheckpointMetadata>, StorageError> {
        match self.read_metadata(&checkpoint_paths::checkpoint(id)) {
            Err(error) if error.is_not_found() => Ok(None),
            read => read.map(Some),
        }
    }

    /// The checkpoints whose directories are marked with a file `_keep`.
    pub(crate) fn kept_directories(&self) -> Result<BTreeSet<CheckpointId>, StorageError> {
        let entries = self.store().list(&self.streams.anchor)?;
        let kept = |key: &str| match self.path_of(key)?.split_once('/')? {
            (dir, KEEP_FILE) => checkpoint_paths::checkpoint_of(dir),
            _ => None,
        };
        Ok(entries.iter().filter_map(|entry| kept(&entry.key)).collect())
    }
}

fn shared_paths(metadata: Option<&CheckpointMetadata>) -> Vec<String> {
    let streams = metadata.into_iter().flat_map(CheckpointMetadata::streams);
    let shared = streams.filter(|stream| stream.is_shared()).filter_map(StreamHandle::path);
    shared.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}
