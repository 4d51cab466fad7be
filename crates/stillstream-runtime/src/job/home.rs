//! Where a job's checkpoints live: a directory, or the JobManager's memory.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use stillstream_checkpoint::{DiscardTarget, RegisterOutcome, WriteOutcome};
use stillstream_types::{CheckpointId, CheckpointMetadata, Error, ErrorKind, RegisterRecord, Result};

use crate::snapshot_pool::SnapshotStores;

/// Carries out what the coordinator wants done with storage. Calls block; they are made on IO threads.
pub(crate) trait CheckpointHome: Send + Sync + fmt::Debug {
    /// The register as it was when this process claimed the job; the coordinator starts from it.
    fn claimed(&self) -> Option<RegisterRecord>;
    fn update_register(&self, expected: Option<RegisterRecord>, record: RegisterRecord) -> RegisterOutcome;
    fn read_register(&self) -> Result<Option<RegisterRecord>, String>;
    fn list_directories(&self) -> Vec<String>;
    fn prepare(&self, id: CheckpointId, directory: &str) -> Result<(), String>;
    fn write_metadata(&self, directory: &str, metadata: &CheckpointMetadata) -> WriteOutcome;
    fn read_metadata(&self, directory: &str) -> Result<CheckpointMetadata>;
    /// "Not found" is success.
    fn discard(&self, target: &DiscardTarget) -> Result<(), String>;
    fn stores(&self) -> Arc<dyn SnapshotStores>;
    /// For messages: where it is.
    fn describe(&self) -> String;
}

/// Checkpoints in this process's memory: they survive failures of the job, not the end of the process.
#[derive(Debug)]
pub(crate) struct MemoryHome {
    stores: Arc<dyn SnapshotStores>,
    register: Mutex<Option<RegisterRecord>>,
    metadata: Mutex<HashMap<String, CheckpointMetadata>>,
}

impl MemoryHome {
    pub fn new(stores: Arc<dyn SnapshotStores>) -> Self {
        Self { stores, register: Mutex::default(), metadata: Mutex::default() }
    }
}

impl CheckpointHome for MemoryHome {
    fn claimed(&self) -> Option<RegisterRecord> {
        None
    }

    fn update_register(&self, expected: Option<RegisterRecord>, record: RegisterRecord) -> RegisterOutcome {
        let mut register = self.register.lock();
        if *register != expected {
            return RegisterOutcome::Unknown("the register in memory holds another record".into());
        }
        *register = Some(record);
        RegisterOutcome::Written
    }

    fn read_register(&self) -> Result<Option<RegisterRecord>, String> {
        Ok(self.register.lock().clone())
    }

    fn list_directories(&self) -> Vec<String> {
        self.metadata.lock().keys().cloned().collect()
    }

    fn prepare(&self, _: CheckpointId, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn write_metadata(&self, directory: &str, metadata: &CheckpointMetadata) -> WriteOutcome {
        self.metadata.lock().insert(directory.to_string(), metadata.clone());
        WriteOutcome::Written
    }

    fn read_metadata(&self, directory: &str) -> Result<CheckpointMetadata> {
        self.metadata.lock().get(directory).cloned().ok_or_else(|| {
            Error::new(ErrorKind::CorruptSnapshot, format!("checkpoint {directory} is not in the JobManager's memory"))
        })
    }

    fn discard(&self, target: &DiscardTarget) -> Result<(), String> {
        if let DiscardTarget::Directory(directory) = target {
            self.metadata.lock().remove(directory);
        }
        Ok(())
    }

    fn stores(&self) -> Arc<dyn SnapshotStores> {
        self.stores.clone()
    }

    fn describe(&self) -> String {
        "the JobManager's memory".into()
    }
}
