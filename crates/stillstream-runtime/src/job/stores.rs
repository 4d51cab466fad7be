//! The snapshot stores of the two heap backends.

use std::sync::Arc;

use stillstream_state::MemorySnapshotStore;
use stillstream_storage::{JobStorage, RetainedCheckpoint, StorageError, StorageOptions};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, Result};

use crate::checkpoint::snapshot_pool::SnapshotStores;

fn foreign(location: &str) -> Result<Arc<dyn SnapshotStore>> {
    let retained =
        RetainedCheckpoint::open(location, &StorageOptions::default()).map_err(StorageError::into_error)?;
    Ok(Arc::new(retained.streams().clone()))
}

/// The memory backend: state goes into the acknowledgement.
#[derive(Debug)]
pub(crate) struct MemoryStores {
    pub max_state_size: u64,
    /// Where earlier checkpoints of the job may have written files, if it had another backend then.
    pub files: Option<JobStorage>,
}

impl SnapshotStores for MemoryStores {
    fn store(&self, _: CheckpointId, _: &str) -> Result<Box<dyn SnapshotStore>> {
        Ok(Box::new(MemorySnapshotStore::with_max_state_size(self.max_state_size)))
    }

    fn reader(&self, location: Option<&str>) -> Result<Arc<dyn SnapshotStore>> {
        match (location, &self.files) {
            (Some(location), _) => foreign(location),
            (None, Some(files)) => Ok(files.reader()),
            (None, None) => Ok(Arc::new(MemorySnapshotStore::default())),
        }
    }
}

/// The file system backend: state goes into files of the checkpoint's directory.
#[derive(Debug)]
pub(crate) struct FileStores(pub JobStorage);

impl SnapshotStores for FileStores {
    fn store(&self, checkpoint: CheckpointId, label: &str) -> Result<Box<dyn SnapshotStore>> {
        Ok(Box::new(self.0.snapshot_store(checkpoint, label)))
    }

    fn reader(&self, location: Option<&str>) -> Result<Arc<dyn SnapshotStore>> {
        match location {
            Some(location) => foreign(location),
            None => Ok(self.0.reader()),
        }
    }
}
