//! The checkpoint directory and the directory of one job within it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stillstream_types::crash::{Crash, crash_point};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, CheckpointMetadata, CompletedRef, JobId, checkpoint_paths};
use tokio::runtime::Handle;

use crate::error::StorageError;
use crate::identity;
use crate::lease::Lease;
use crate::location::Location;
use crate::metadata::{Anchor, METADATA_FILE, decode, encode};
use crate::options::StorageOptions;
use crate::register::{Loaded, NumberedRegister, Register, TaggedRegister};
use crate::salvage::salvage;
use crate::snapshot::{Streams, SubtaskSnapshots};
use crate::store::{BlobStore, CasSupport, Created, Deleted, Replaced, Tag, join};
use crate::verify::{VerifyMode, verify};

/// A checkpoint directory (`execution.checkpointing.dir`), which many jobs may share.
#[derive(Clone, Debug)]
pub struct CheckpointStorage {
    store: Arc<dyn BlobStore>,
    options: StorageOptions,
    handle: Handle,
}

impl CheckpointStorage {
    /// The directory at a path or URI. Nothing is read or written yet; see
    /// [`probe_writable`](Self::probe_writable).
    ///
    /// ```
    /// use stillstream_storage::{CheckpointStorage, StorageOptions};
    /// use stillstream_types::{CheckpointId, JobId};
    /// use stillstream_types::streams::{SnapshotStore, SnapshotStream};
    /// use std::io::Write;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path().to_str().ok_or("path")?;
    /// let storage = CheckpointStorage::open(dir, StorageOptions::default(), runtime.handle().clone())?;
    /// storage.probe_writable()?;
    /// let job = storage.job(JobId::from_name("flights"));
    /// let snapshots = job.snapshot_store(CheckpointId(1), "0-3");
    /// let mut stream = snapshots.create("window-state")?;
    /// stream.write_all(b"some state")?;
    /// let handle = stream.finish()?;
    /// assert_eq!(snapshots.read_all(&handle)?, b"some state");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`Location::parse`] and [`Location::open`].
    pub fn open(uri: &str, options: StorageOptions, handle: Handle) -> Result<Self, StorageError> {
        let store = Location::parse(uri)?.open(&options)?;
        Ok(Self::with_store(store, options, handle))
    }

    /// A directory in a store of your own: an [`ObjectBlobStore`](crate::ObjectBlobStore), or one that fails
    /// on purpose.
    pub fn with_store(store: Arc<dyn BlobStore>, options: StorageOptions, handle: Handle) -> Self {
        Self { store, options, handle }
    }

    /// The directory of one job.
    pub fn job(&self, job: JobId) -> JobStorage {
        let streams = Streams { store: self.store.clone(), anchor: job.to_string(), own: true };
        let (options, handle) = (self.options.clone(), self.handle.clone());
        let register = register(&streams, options.process_tag, &handle);
        JobStorage { job, streams, register, options, handle }
    }

    /// Writes, reads and deletes a small file, so that a directory that cannot be used is found before the
    /// job starts. A store that replaces objects on condition of their tag must show that it does.
    ///
    /// # Errors
    /// [`StorageError::NotWritable`] with path and reason; [`StorageError::NoCompareAndSet`] where no
    /// register can live.
    pub fn probe_writable(&self) -> Result<(), StorageError> {
        let key = format!("probe-{:016x}", self.options.process_tag);
        let path = self.store.display("");
        self.probe(&key, key.as_bytes()).map_err(|error| match error {
            StorageError::NoCompareAndSet { .. } => error,
            // that it may have been written after all is no news of a file that is to be deleted
            StorageError::Indeterminate { reason, .. } => StorageError::NotWritable { path, reason },
            error => StorageError::NotWritable { path, reason: error.to_string() },
        })
    }

    fn probe(&self, key: &str, content: &[u8]) -> Result<(), StorageError> {
        let mut writer = self.store.create(key)?;
        writer.write(content)?;
        writer.finish()?;
        let (found, _) = self.store.get(key)?;
        if found != content {
            let what = "a file that was written a moment ago";
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            return Err(StorageError::corrupt(self.store.display(key), what, shown(content), shown(&found)));
        }
        if self.store.cas_support() == CasSupport::Tags {
            self.probe_conditions(key, content)?;
        }
        match self.store.delete(key)? {
            Deleted::Yes => Ok(()),
            Deleted::NotFound => Err(StorageError::NotFound { path: self.store.display(key) }),
        }
    }

    /// A store that takes no notice of a condition would let two processes run one job.
    fn probe_conditions(&self, key: &str, content: &[u8]) -> Result<(), StorageError> {
        let missing = |found: &str| {
            let _ = self.store.delete(key);
            Err(StorageError::NoCompareAndSet { location: self.store.display(""), found: found.into() })
        };
        let unsupported = |error: &StorageError| matches!(error, StorageError::Io { source, .. } if source.kind() == std::io::ErrorKind::Unsupported);
        match self.store.put_new(key, content) {
            Ok(Created::Exists) => {}
            Ok(Created::New(_)) => {
                return missing("its store creates an object again that exists (`If-None-Match`)");
            }
            Err(error) if unsupported(&error) => return missing("its store has no conditional writes"),
            Err(error) => return Err(error),
        }
        let other =
            Tag { e_tag: Some("\"00000000000000000000000000000000\"".into()), version: Some("1".into()) };
        match self.store.put_if(key, content, &other)? {
            Replaced::Mismatch => Ok(()),
            Replaced::New(_) => missing("its store replaces an object whose tag is another one (`If-Match`)"),
        }
    }

    /// The directory, for people.
    pub fn display(&self) -> String {
        self.store.display("")
    }
}

/// The directory of one job: the anchor of all paths in its checkpoints.
#[derive(Clone, Debug)]
pub struct JobStorage {
    pub(crate) job: JobId,
    pub(crate) streams: Streams,
    pub(crate) register: Arc<dyn Register>,
    pub(crate) options: StorageOptions,
    pub(crate) handle: Handle,
}

/// Counts the writers of this process.
static NEXT_WRITER: AtomicU64 = AtomicU64::new(1);

/// The register in the directory at the anchor, in the form that suits the store.
pub(crate) fn register(streams: &Streams, writer: u64, handle: &Handle) -> Arc<dyn Register> {
    let (store, dir) = (streams.store.clone(), streams.anchor.as_str());
    match store.cas_support() {
        CasSupport::CreateNew => Arc::new(NumberedRegister::new(store, dir, writer, handle.clone())),
        CasSupport::Tags => Arc::new(TaggedRegister::new(store, dir, writer)),
    }
}

impl JobStorage {
    /// Whose directory it is.
    pub fn id(&self) -> JobId {
        self.job
    }

    /// The directory, for people.
    pub fn display(&self) -> String {
        self.store().display(&self.streams.anchor)
    }

    /// Works in this very directory from now on: where it is moved away or deleted, and another one takes its
    /// place, writes and deletions fail. A [claim](Self::claim) does the same; this is for processes that
    /// write state under the claim of another.
    ///
    /// # Errors
    /// [`StorageError::RegisterMissing`] if nobody has claimed it there.
    pub fn hold(&self) -> Result<(), StorageError> {
        if self.register.head()?.is_none() {
            let (looked_at, found) = (self.register.display(), "a process that works for it".into());
            return Err(StorageError::RegisterMissing { looked_at, found });
        }
        self.store().local_folder(&self.streams.anchor).map(drop)
    }

    pub(crate) fn store(&self) -> &Arc<dyn BlobStore> {
        &self.streams.store
    }

    /// A path within the job's directory as a key of the store.
    pub(crate) fn key(&self, path: &str) -> String {
        join(&self.streams.anchor, path)
    }

    /// A path of the store as a path within the job's directory.
    pub(crate) fn path_of<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(self.streams.anchor.as_str())?.strip_prefix('/')
    }

    /// Where one subtask writes its state for one checkpoint. `subtask` is a label for people and must differ
    /// between the subtasks of a job, as in `3-0` for subtask 0 of task 3.
    pub fn snapshot_store(&self, checkpoint: CheckpointId, subtask: &str) -> SubtaskSnapshots {
        SubtaskSnapshots::new(self.streams.clone(), Some(checkpoint), subtask, &self.options)
    }

    /// Reads the streams of this job's checkpoints.
    pub fn reader(&self) -> Arc<dyn SnapshotStore> {
        Arc::new(self.streams.clone())
    }

    /// Writes `chk-<n>/_metadata`, atomically. Call it when everything that the metadata names is durable.
    /// Writing the same content again is fine, so an indeterminate failure may be tried again.
    ///
    /// # Errors
    /// [`StorageError::AlreadyExists`] when another content is there: some other process used this
    /// checkpoint's number.
    pub fn write_metadata(&self, metadata: &CheckpointMetadata) -> Result<CompletedRef, StorageError> {
        let path = checkpoint_paths::checkpoint(metadata.id);
        let key = self.key(&join(&path, METADATA_FILE));
        let bytes = encode(metadata, Anchor::Parent);
        crash_point("before-metadata").map_err(|crash| self.crashed(&key, crash))?;
        if self.store().put_new(&key, &bytes)? == Created::Exists && self.store().get(&key)?.0 != bytes {
            return Err(StorageError::AlreadyExists { path: self.store().display(&key) });
        }
        // what exists may be the result of a try whose folder could not be synced, in a folder that another
        // process made
        self.store().sync_folder(&self.key(&path))?;
        self.store().sync_folder(&self.streams.anchor)?;
        crash_point("after-metadata").map_err(|crash| self.crashed(&key, crash))?;
        Ok(CompletedRef { id: metadata.id, path })
    }

    fn crashed(&self, key: &str, crash: Crash) -> StorageError {
        let (path, reason) = (self.store().display(key), crash.to_string());
        StorageError::Indeterminate { operation: "create", path, reason }
    }

    /// Reads the metadata of a checkpoint of this job, and sees that it is that checkpoint's; `path` is that
    /// of a [`CompletedRef`], as in `chk-17`. For snapshots elsewhere see
    /// [`RetainedCheckpoint`](crate::RetainedCheckpoint).
    pub fn read_metadata(&self, path: &str) -> Result<CheckpointMetadata, StorageError> {
        let key = self.key(&join(path, METADATA_FILE));
        let (bytes, _) = self.store().get(&key)?;
        let shown = self.store().display(&key);
        let metadata = decode(&shown, &bytes)?.0;
        identity::check(&shown, path, Some(self.job), &metadata)?;
        Ok(metadata)
    }

    /// Checks every file that the metadata names.
    pub fn verify(&self, metadata: &CheckpointMetadata, mode: VerifyMode) -> Result<(), StorageError> {
        verify(&self.streams, metadata, mode)
    }

    /// The register, without its safeguards: see [`load_register`](Self::load_register) and
    /// [`claim`](Self::claim).
    pub fn register(&self) -> &Arc<dyn Register> {
        &self.register
    }

    /// The register with a writer's tag of its own: the process' tag and a count, spread over all bits.
    pub(crate) fn writing_register(&self) -> (u64, Arc<dyn Register>) {
        let count = NEXT_WRITER.fetch_add(1, Ordering::Relaxed);
        let writer = self.options.process_tag.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (writer, register(&self.streams, writer, &self.handle))
    }

    /// The newest record. `None` only for a job that has no file at all.
    ///
    /// When the newest versions are damaged, the record before them is brought up to date with what lies in
    /// the directory: completed checkpoints that it does not know yet are added, those that are gone are
    /// taken out.
    ///
    /// # Errors
    /// [`StorageError::RegisterMissing`] when the job has files but no register, and
    /// [`StorageError::RegisterUnreadable`] when there is one that cannot be read: neither may lead to a
    /// fresh start.
    pub fn load_register(&self) -> Result<Option<Loaded>, StorageError> {
        let loaded = self.register.load()?;
        if let Some(loaded) = &loaded {
            identity::check_record(&self.register.display(), self.job, &loaded.record)?;
        }
        match loaded {
            Some(loaded) if loaded.damaged.is_empty() => Ok(Some(loaded)),
            Some(loaded) => salvage(self, loaded).map(Some),
            None => match self.sign_of_life()? {
                Some(found) => {
                    Err(StorageError::RegisterMissing { looked_at: self.register.display(), found })
                }
                None => Ok(None),
            },
        }
    }

    /// A file that shows that this job has run before.
    fn sign_of_life(&self) -> Result<Option<String>, StorageError> {
        let entries = self.store().list(&self.streams.anchor)?;
        let mut entries = entries.iter();
        let found = entries.find(|entry| self.path_of(&entry.key).is_some_and(checkpoint_paths::is_of_a_run));
        Ok(found.map(|entry| format!("`{}`", self.store().display(&entry.key))))
    }

    /// Makes this process the one that may write: see [`Lease`].
    ///
    /// # Errors
    /// As [`load_register`](Self::load_register); [`StorageError::Locked`] when another live process owns a
    /// local job directory.
    pub fn claim(&self, job_name: &str) -> Result<Lease, StorageError> {
        Lease::claim(self, job_name)
    }

    /// The same for a job that a person wants to begin without state (`--start-fresh`), whatever the register
    /// says or does not say. Checkpoints that are there stay, marked with a file `_keep` that clean-up heeds;
    /// only a person deletes them.
    pub fn claim_fresh(&self, job_name: &str) -> Result<Lease, StorageError> {
        Lease::claim_fresh(self, job_name)
    }
}
