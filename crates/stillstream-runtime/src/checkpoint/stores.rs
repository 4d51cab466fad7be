//! Where the subtasks of a job write their snapshots, and read what they start from.

use std::sync::Arc;

use stillstream_state::MemorySnapshotStore;
use stillstream_storage::{JobStorage, RetainedCheckpoint, SavepointDirectory, StorageError, StorageOptions};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, Result, SavepointTarget};

use crate::checkpoint::snapshot_pool::SnapshotStores;

fn foreign(location: &str, options: &StorageOptions) -> Result<Arc<dyn SnapshotStore>> {
    let retained = RetainedCheckpoint::open(location, options).map_err(StorageError::into_error)?;
    Ok(Arc::new(retained.streams().clone()))
}

/// A savepoint has its own directory, whatever the job's checkpoints have.
fn savepoint(
    target: &SavepointTarget,
    label: &str,
    options: &StorageOptions,
) -> Result<Box<dyn SnapshotStore>> {
    let directory = SavepointDirectory::open(&target.location, options).map_err(StorageError::into_error)?;
    Ok(Box::new(directory.snapshot_store(label)))
}

/// The memory backend: state goes into the acknowledgement.
#[derive(Debug)]
pub(crate) struct MemoryStores {
    pub max_state_size: u64,
    /// Where earlier checkpoints of the job may have written files, if it had another backend then.
    pub files: Option<JobStorage>,
    /// How savepoints are written, and what lies elsewhere is read.
    pub options: StorageOptions,
}

impl SnapshotStores for MemoryStores {
    fn store(
        &self,
        _: CheckpointId,
        label: &str,
        target: Option<&SavepointTarget>,
    ) -> Result<Box<dyn SnapshotStore>> {
        match target {
            Some(target) => savepoint(target, label, &self.options),
            None => Ok(Box::new(MemorySnapshotStore::with_max_state_size(self.max_state_size))),
        }
    }

    fn reader(&self, location: Option<&str>) -> Result<Arc<dyn SnapshotStore>> {
        match (location, &self.files) {
            (Some(location), _) => foreign(location, &self.options),
            (None, Some(files)) => Ok(files.reader()),
            (None, None) => Ok(Arc::new(MemorySnapshotStore::default())),
        }
    }
}

/// The file system backend: state goes into files of the checkpoint's directory.
#[derive(Debug)]
pub(crate) struct FileStores {
    pub files: JobStorage,
    /// How savepoints are written, and what lies elsewhere is read.
    pub options: StorageOptions,
}

impl SnapshotStores for FileStores {
    fn store(
        &self,
        checkpoint: CheckpointId,
        label: &str,
        target: Option<&SavepointTarget>,
    ) -> Result<Box<dyn SnapshotStore>> {
        match target {
            Some(target) => savepoint(target, label, &self.options),
            None => Ok(Box::new(self.files.snapshot_store(checkpoint, label))),
        }
    }

    fn reader(&self, location: Option<&str>) -> Result<Arc<dyn SnapshotStore>> {
        match location {
            Some(location) => foreign(location, &self.options),
            None => Ok(self.files.reader()),
        }
    }
}
