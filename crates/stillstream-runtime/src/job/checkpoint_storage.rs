//! Where a job's checkpoints live: a directory, or the JobManager's memory.

use std::collections::HashMap;
use std::fmt;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_jobmaster::{
    DiscardTarget, FoundRegister, References, RegisterOutcome, StorageAnswer, StorageCall, WriteOutcome,
};
use stillstream_storage::{
    JobStorage, Lease, Neighbours, RetainedCheckpoint, SavepointDirectory, SharedReferences, StorageError,
    StorageOptions,
};
use stillstream_types::{
    CheckpointMetadata, CompletedRef, Error, ErrorKind, JobOutcome, RegisterRecord, Result, StartedFrom,
    checkpoint_paths,
};

use super::beginning::Beginning;
use super::settings::JobSettings;
use crate::catch::spawn;

/// How long the end of a job waits for a write of the register that is under way.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Carries out what the engine wants done with storage. Calls block; they are made on IO threads.
pub(crate) trait JobCheckpointStorage: Send + Sync + fmt::Debug {
    /// The register as it was when this process claimed the job; the coordinator starts from it.
    fn claimed(&self) -> Option<RegisterRecord>;
    /// How snapshots outside of the job's directory are reached.
    fn options(&self) -> &StorageOptions;
    /// Carries out what the engine wants.
    fn answer(&self, call: StorageCall) -> StorageAnswer {
        match call {
            StorageCall::UpdateRegister { expected, record } => {
                StorageAnswer::RegisterUpdated { outcome: self.update_register(expected, record) }
            }
            StorageCall::ReadRegister => StorageAnswer::RegisterRead { result: self.read_register() },
            StorageCall::ListDirectories => {
                StorageAnswer::DirectoriesListed { names: self.list_directories() }
            }
            StorageCall::ReadReferences { completed, retained } => {
                StorageAnswer::ReferencesRead { references: self.read_references(&completed, &retained) }
            }
            StorageCall::ListShared => StorageAnswer::SharedListed { result: self.list_shared() },
            StorageCall::WriteMetadata { metadata, savepoint } => {
                let outcome = match savepoint {
                    Some(location) => write_savepoint(&metadata, &location, self.options()),
                    None => self.write_metadata(&metadata),
                };
                let checkpoint = metadata.id;
                StorageAnswer::MetadataWritten { checkpoint, outcome }
            }
            StorageCall::Discard { discard, target } => {
                let done = match &target {
                    DiscardTarget::Savepoint(location) => discard_savepoint(location, self.options()),
                    DiscardTarget::Directory { .. } | DiscardTarget::Files(_) => self.discard(&target),
                };
                StorageAnswer::DiscardDone { discard, failure: done.err() }
            }
        }
    }
    fn update_register(&self, expected: Option<RegisterRecord>, record: RegisterRecord) -> RegisterOutcome;
    fn read_register(&self) -> Result<FoundRegister, String>;
    fn list_directories(&self) -> Vec<String>;
    /// Which files below `shared/` these name, and those that a person keeps.
    fn read_references(&self, completed: &[CompletedRef], retained: &[CompletedRef]) -> References;
    /// The files below `shared/`, relative to the job's checkpoint directory.
    fn list_shared(&self) -> Result<Vec<String>, String>;
    fn write_metadata(&self, metadata: &CheckpointMetadata) -> WriteOutcome;
    fn read_metadata(&self, directory: &str) -> Result<CheckpointMetadata>;
    /// Metadata of a checkpoint of the job's own, or of the savepoint that it was stopped with: then also
    /// where that lies.
    fn read_own(&self, own: &CompletedRef) -> Result<(CheckpointMetadata, Option<String>)> {
        match own.is_savepoint() {
            true => Ok((self.read_foreign(&own.path)?, Some(own.path.clone()))),
            false => Ok((self.read_metadata(&own.path)?, None)),
        }
    }
    /// Metadata of a snapshot that the user named.
    fn read_foreign(&self, location: &str) -> Result<CheckpointMetadata> {
        let retained =
            RetainedCheckpoint::open(location, self.options()).map_err(StorageError::into_error)?;
        Ok(retained.metadata().clone())
    }
    /// What lies in the job's own directory; a savepoint does not. "Not found" is success.
    fn discard(&self, target: &DiscardTarget) -> Result<(), String>;
    /// When nobody writes any more: deletes what no checkpoint that stays names.
    fn tidy(&self) {}
    /// For messages: where it is.
    fn describe(&self) -> String;
    /// Where a person finds what is at this place in the job's directory; a savepoint's place is the whole
    /// location.
    fn locate(&self, path: &str) -> String {
        match checkpoint_paths::is_location(path) {
            true => path.to_string(),
            false => format!("{}/{path}", self.describe()),
        }
    }
    /// For messages: the other jobs in the same place.
    fn neighbours(&self) -> Neighbours {
        Neighbours::default()
    }
    /// Whether a later start finds what was written.
    fn is_durable(&self) -> bool {
        true
    }
    /// Gives the claim up: from here on nothing is written, and another start may claim the job.
    fn release(&self) {}
}

fn written(result: Result<(), StorageError>) -> WriteOutcome {
    match result {
        Ok(()) => WriteOutcome::Written,
        Err(error) if error.is_indeterminate() => WriteOutcome::Unknown(error.to_string()),
        Err(error) => WriteOutcome::Failed(error.to_string()),
    }
}

/// Writes the metadata of a savepoint into its own directory, wherever the job's checkpoints are.
fn write_savepoint(metadata: &CheckpointMetadata, location: &str, options: &StorageOptions) -> WriteOutcome {
    let directory = SavepointDirectory::open(location, options);
    written(directory.and_then(|directory| directory.write_metadata(metadata)))
}

/// Deletes what a savepoint that failed has left.
fn discard_savepoint(location: &str, options: &StorageOptions) -> Result<(), String> {
    let report = match SavepointDirectory::open(location, options) {
        Ok(directory) => directory.discard(),
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    report.failed.first().map_or(Ok(()), |error| Err(error.to_string()))
}

/// Checkpoints in this process's memory: they survive failures of the job, not the end of the process.
#[derive(Debug)]
pub(crate) struct JobManagerCheckpointStorage {
    options: StorageOptions,
    register: Mutex<Option<RegisterRecord>>,
    metadata: Mutex<HashMap<String, CheckpointMetadata>>,
}

impl JobManagerCheckpointStorage {
    /// Without any checkpoint. `options` is for savepoints.
    pub fn new(options: StorageOptions) -> Self {
        Self { options, register: Mutex::default(), metadata: Mutex::default() }
    }
}

impl JobCheckpointStorage for JobManagerCheckpointStorage {
    fn options(&self) -> &StorageOptions {
        &self.options
    }

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

    fn read_register(&self) -> Result<FoundRegister, String> {
        Ok(self.register.lock().clone().map_or(FoundRegister::Missing, FoundRegister::Own))
    }

    fn list_directories(&self) -> Vec<String> {
        self.metadata.lock().keys().cloned().collect()
    }

    fn read_references(&self, completed: &[CompletedRef], retained: &[CompletedRef]) -> References {
        // all state is in the handles
        let found = completed.iter().chain(retained).map(|checkpoint| (checkpoint.id, Vec::new())).collect();
        References { found, ..References::default() }
    }

    fn list_shared(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn write_metadata(&self, metadata: &CheckpointMetadata) -> WriteOutcome {
        let directory = checkpoint_paths::checkpoint(metadata.id);
        self.metadata.lock().insert(directory, metadata.clone());
        WriteOutcome::Written
    }

    fn read_metadata(&self, directory: &str) -> Result<CheckpointMetadata> {
        self.metadata.lock().get(directory).cloned().ok_or_else(|| {
            Error::new(
                ErrorKind::CorruptSnapshot,
                format!("checkpoint {directory} is not in the JobManager's memory"),
            )
        })
    }

    fn discard(&self, target: &DiscardTarget) -> Result<(), String> {
        if let DiscardTarget::Directory { path, .. } = target {
            self.metadata.lock().remove(path);
        }
        Ok(())
    }

    fn describe(&self) -> String {
        "the JobManager's memory".into()
    }

    fn locate(&self, path: &str) -> String {
        path.to_string()
    }

    fn is_durable(&self) -> bool {
        false
    }
}

/// Checkpoints in a directory or an object store: they survive the process.
#[derive(Debug)]
pub(crate) struct FileSystemCheckpointStorage {
    storage: JobStorage,
    options: StorageOptions,
    /// `None` once it was given up.
    lease: Mutex<Option<Lease>>,
    claimed: RegisterRecord,
    num_retained: usize,
    /// Deletes the snapshot that the job began with and owns.
    giving_up: Mutex<Option<JoinHandle<()>>>,
}

/// Deletes a snapshot that the job owns. It may be gone: this is tried at each start until it is.
fn discard(from: &StartedFrom, options: &StorageOptions) {
    let location = &from.location;
    let opened = match RetainedCheckpoint::open(location, options) {
        Ok(opened) => opened,
        Err(error) => return tracing::debug!("nothing to delete at `{location}`: {error}"),
    };
    match opened.discard(&from.snapshot) {
        Ok(left) if left.is_empty() => {
            tracing::info!(
                "`{location}`, which the job began with and owns (CLAIM), is not needed any more and was deleted"
            );
        }
        Ok(left) => {
            left.iter().for_each(|text| tracing::warn!("kept of what the job began with and owns: {text}"))
        }
        Err(error) => tracing::warn!(
            "`{location}`, which the job owns, could not be deleted; the next start tries again: {error}"
        ),
    }
}

impl FileSystemCheckpointStorage {
    /// Claims the job: from here on this process, and no other, may write its register.
    ///
    /// # Errors
    /// If the directory cannot be used, or another live process has the job.
    pub fn claim(storage: JobStorage, settings: &JobSettings) -> Result<Self> {
        let name = &settings.name;
        let lease = if settings.start_fresh { storage.claim_fresh(name) } else { storage.claim(name) };
        let lease = lease.map_err(StorageError::into_error)?;
        let claimed = lease.record().clone();
        let num_retained = settings.checkpoint.num_retained;
        Ok(Self {
            storage,
            options: super::storage_options(settings),
            lease: Mutex::new(Some(lease)),
            claimed,
            num_retained,
            giving_up: Mutex::default(),
        })
    }

    /// Notes in the register how the job begins, before the coordinator starts from it.
    ///
    /// # Errors
    /// If the register cannot be written.
    pub fn note(&mut self, beginning: &Beginning) -> Result<()> {
        let Some(lease) = self.lease.get_mut() else { return Ok(()) };
        if beginning.note(&mut self.claimed) {
            let change = |record: &mut RegisterRecord| {
                beginning.note(record);
            };
            lease.update(change).map_err(StorageError::into_error)?;
            self.claimed = lease.record().clone();
        }
        Ok(())
    }

    /// Deletes the snapshot that the job began with, if the job owns it and has enough of its own.
    fn give_up_claimed(&self, record: &RegisterRecord) {
        let from = record.began.as_deref().and_then(|began| began.from.as_ref()).filter(|from| from.claimed);
        let enough = record.completed.len() >= self.num_retained || record.outcome == JobOutcome::Finished;
        let (Some(from), true) = (from.cloned(), enough) else { return };
        let mut giving_up = self.giving_up.lock();
        if giving_up.is_some() {
            return;
        }
        // not on the way of a checkpoint
        let options = self.options.clone();
        let thread =
            spawn("claimed-snapshot", move || discard(&from, &options), |error| tracing::warn!("{error}"));
        match thread {
            Ok(thread) => *giving_up = Some(thread),
            Err(error) => tracing::warn!("the snapshot that the job owns is not deleted this time: {error}"),
        }
    }
}

impl JobCheckpointStorage for FileSystemCheckpointStorage {
    fn options(&self) -> &StorageOptions {
        &self.options
    }

    fn claimed(&self) -> Option<RegisterRecord> {
        Some(self.claimed.clone())
    }

    fn update_register(&self, expected: Option<RegisterRecord>, record: RegisterRecord) -> RegisterOutcome {
        let mut lease = self.lease.lock();
        let Some(lease) = lease.as_mut() else {
            return RegisterOutcome::Failed("the job has ended and given up its claim".into());
        };
        let Some(expected) = expected else {
            return RegisterOutcome::Unknown("the register holds a record, and none is expected".into());
        };
        match lease.compare_and_set(&expected, &record) {
            Ok(()) => {
                self.give_up_claimed(&record);
                RegisterOutcome::Written
            }
            Err(StorageError::Fenced { found, .. }) => RegisterOutcome::Fenced(found),
            Err(error) if error.is_indeterminate() => RegisterOutcome::Unknown(error.to_string()),
            Err(error) => RegisterOutcome::Failed(error.to_string()),
        }
    }

    fn read_register(&self) -> Result<FoundRegister, String> {
        let mut lease = self.lease.lock();
        let Some(lease) = lease.as_mut() else {
            return Err("the job has ended and given up its claim".into());
        };
        // reading through the lease keeps the two in step
        match lease.refresh() {
            Ok(record) => Ok(FoundRegister::Own(record.clone())),
            Err(StorageError::RegisterMissing { .. }) => Ok(FoundRegister::Missing),
            Err(StorageError::Fenced { found, .. }) => Ok(FoundRegister::Foreign(found)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn list_directories(&self) -> Vec<String> {
        self.storage.list_directories().unwrap_or_else(|error| {
            tracing::warn!("leftovers are not cleaned up this time: {error}");
            Vec::new()
        })
    }

    fn read_references(&self, completed: &[CompletedRef], retained: &[CompletedRef]) -> References {
        let SharedReferences { found, kept, unreadable } =
            self.storage.shared_references(completed, retained);
        References { found, kept, unreadable }
    }

    fn list_shared(&self) -> Result<Vec<String>, String> {
        self.storage.list_shared().map_err(|error| error.to_string())
    }

    fn write_metadata(&self, metadata: &CheckpointMetadata) -> WriteOutcome {
        written(self.storage.write_metadata(metadata).map(drop))
    }

    fn read_metadata(&self, directory: &str) -> Result<CheckpointMetadata> {
        self.storage.read_metadata(directory).map_err(StorageError::into_error)
    }

    fn discard(&self, target: &DiscardTarget) -> Result<(), String> {
        let report = match target {
            DiscardTarget::Directory { path, shared } => match checkpoint_paths::checkpoint_of(path) {
                Some(id) => self.storage.discard_checkpoint_and_shared(id, shared),
                None => {
                    return Err(format!("`{path}` is not the directory of a checkpoint; it is left alone"));
                }
            },
            DiscardTarget::Files(paths) => self.storage.discard_files(paths.iter().map(String::as_str)),
            DiscardTarget::Savepoint(location) => return discard_savepoint(location, &self.options),
        };
        match report.failed.first() {
            None => Ok(()),
            Some(error) => Err(error.to_string()),
        }
    }

    fn tidy(&self) {
        if let Some(thread) = self.giving_up.lock().take() {
            // its panic has been said
            let _ = thread.join();
        }
        let lease = self.lease.lock();
        let Some(lease) = lease.as_ref() else { return };
        let report = self.storage.sweep_orphans(lease.record(), lease.generation());
        let place = self.storage.display();
        report.left.iter().for_each(|text| tracing::debug!("kept in {place} at the job's end: {text}"));
        report
            .files
            .failed
            .iter()
            .for_each(|error| tracing::warn!("left in {place} at the job's end: {error}"));
    }

    fn release(&self) {
        // a write that storage does not answer holds the lease: the job's end must not wait for it
        match self.lease.try_lock_for(RELEASE_TIMEOUT) {
            Some(mut lease) => *lease = None,
            None => tracing::warn!(
                "a write of the register in {} has not been answered: the claim on the job ends with this process",
                self.describe()
            ),
        }
    }

    fn describe(&self) -> String {
        self.storage.display()
    }

    fn neighbours(&self) -> Neighbours {
        self.storage.neighbours()
    }
}
