//! Snapshots as RocksDB's own files: incremental checkpoints, of which only new files are uploaded, and
//! native savepoints.
//!
//! The synchronous part puts the checkpoint into the order of the writer, behind all entries that were
//! changed before it. The asynchronous one waits for it (RocksDB writes its memory tables and makes hard
//! links) and uploads: files of sorted entries never change, so one that the last *completed* checkpoint
//! holds is named again; all others are uploaded, also those that a checkpoint holds which was given up or is
//! still under way, since nobody keeps them. A full checkpoint uploads them all, and so do those after it
//! until its outcome is known: completed, it takes the place of all before it, and their files go.
//! `MANIFEST`, `CURRENT` and `OPTIONS` say which files belong together and are uploaded each time.
//!
//! A native savepoint has the same files and shares none of them: all are uploaded to the place of the
//! savepoint, and no checkpoint learns of them. So a savepoint can be moved and deleted by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stillstream_state::StateError;
use stillstream_state::snapshot::Header;
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, IncrementalFormat, IncrementalHandle, KeyGroupRange, KeyedSnapshot, NamedStream,
    StreamHandle,
};

use crate::db::Database;
use crate::error::disk;
use crate::options::RocksDbOptions;
use crate::transfer::{Sharing, in_parallel, upload};
use crate::writer::Pending;

/// Files by the name that the database knows them by.
pub(crate) type Files = BTreeMap<String, StreamHandle>;

/// Which files lie in the storage.
#[derive(Debug, Default)]
struct Known {
    /// Of the last completed checkpoint.
    confirmed: Arc<Files>,
    /// The newest checkpoint that is known to be completed.
    completed: Option<CheckpointId>,
    /// Of checkpoints that were written and may become completed.
    written: BTreeMap<CheckpointId, Files>,
    /// Full checkpoints whose outcome nobody told: once one is completed, nobody keeps what is confirmed
    /// here.
    full: BTreeSet<CheckpointId>,
}

/// What earlier checkpoints of this backend hold; shared by the worker and the snapshot pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uploads(Arc<Mutex<Known>>);

impl Uploads {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of a checkpoint that was restored: it is completed.
    pub fn restored(&self, files: Files) {
        self.lock().confirmed = Arc::new(files);
    }

    /// The files that checkpoint `id` may name again, none if it is to be `full`.
    fn begin(&self, id: CheckpointId, full: bool) -> Arc<Files> {
        let mut known = self.lock();
        if !full && known.full.is_empty() {
            return known.confirmed.clone();
        }
        // one that is taken meanwhile stands for itself like the full one before it
        known.full.insert(id);
        Arc::default()
    }

    fn written(&self, id: CheckpointId, files: Files) {
        let mut known = self.lock();
        if known.completed.is_none_or(|completed| id > completed) {
            known.written.insert(id, files);
        }
    }

    /// Notices can be lost: this one is also about all older checkpoints.
    pub fn completed(&self, id: CheckpointId) {
        let mut known = self.lock();
        if known.completed.is_some_and(|completed| completed >= id) {
            return;
        }
        known.completed = Some(id);
        known.full.retain(|full| *full > id);
        // a notice of the checkpoint that was restored is about files that are confirmed already
        if let Some(files) = known.written.remove(&id) {
            known.confirmed = Arc::new(files);
        }
        known.written = known.written.split_off(&id);
    }

    pub fn aborted(&self, id: CheckpointId) {
        let mut known = self.lock();
        known.written.remove(&id);
        known.full.remove(&id);
    }
}

/// A folder that is deleted when nobody needs it any more.
#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the files are uploaded for.
enum Purpose {
    /// A checkpoint, which names the files again that a completed one holds, and whose files later ones may
    /// name.
    Checkpoint { id: CheckpointId, confirmed: Arc<Files>, uploads: Uploads },
    /// A savepoint, which has all its files for itself.
    Savepoint,
}

/// What the asynchronous part needs.
pub(crate) struct NativeSnapshot {
    purpose: Purpose,
    folder: Arc<Temporary>,
    /// The files are there.
    made: Pending<()>,
    header: Vec<u8>,
    range: KeyGroupRange,
    options: Arc<RocksDbOptions>,
    // keeps the work folder, of which `folder` is a part
    _database: Arc<Database>,
}

impl NativeSnapshot {
    /// The synchronous part of a checkpoint.
    pub fn checkpoint(
        database: &Arc<Database>,
        (id, full): (CheckpointId, bool),
        header: &Header,
        range: KeyGroupRange,
        uploads: &Uploads,
    ) -> Result<Self, StateError> {
        let purpose =
            Purpose::Checkpoint { id, confirmed: uploads.begin(id, full), uploads: uploads.clone() };
        Self::make(database, purpose, &format!("chk-{id}"), header, range)
    }

    /// The synchronous part of a savepoint.
    pub fn savepoint(
        database: &Arc<Database>,
        header: &Header,
        range: KeyGroupRange,
    ) -> Result<Self, StateError> {
        // two of them may be under way at once
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = format!("savepoint-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self::make(database, Purpose::Savepoint, &folder, header, range)
    }

    fn make(
        database: &Arc<Database>,
        purpose: Purpose,
        folder: &str,
        header: &Header,
        range: KeyGroupRange,
    ) -> Result<Self, StateError> {
        let folder = database.dir.path().join(folder);
        // of the same checkpoint, tried before
        let _ = fs::remove_dir_all(&folder);
        let folder = Arc::new(Temporary(folder));
        let (of_job, wanted) = (database.clone(), Arc::downgrade(&folder));
        let made = database.writer.barrier(move || match wanted.upgrade() {
            Some(folder) => of_job.checkpoint(&folder.0),
            // the snapshot was given up meanwhile
            None => Ok(()),
        })?;
        Ok(Self {
            purpose,
            folder,
            made,
            header: header.to_bytes(),
            range,
            options: database.tuning.options.clone(),
            _database: database.clone(),
        })
    }

    /// The asynchronous part.
    pub fn write(self, store: &dyn SnapshotStore, label: &str) -> Result<KeyedSnapshot, StateError> {
        self.made.wait()?;
        let folder = &self.folder.0;
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(|e| disk(folder, "listing it", &e))? {
            let entry = entry.map_err(|e| disk(folder, "listing it", &e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // the write-ahead log is off, and what is in the log of messages is for people
            if !name.ends_with(".log") && !name.starts_with("LOG") && name != "IDENTITY" {
                names.push(name);
            }
        }
        names.sort();
        let confirmed = match &self.purpose {
            Purpose::Checkpoint { confirmed, .. } if store.keeps_shared() => Some(confirmed),
            _ => None,
        };
        let threads = self.options.transfer_threads.max(1) as usize;
        let files = in_parallel(threads, &names, |name| {
            let shared = confirmed.filter(|_| name.ends_with(".sst"));
            if let Some(stream) = shared.and_then(|confirmed| confirmed.get(name)) {
                return Ok(NamedStream { name: name.clone(), stream: stream.clone() });
            }
            let sharing = if shared.is_some() { Sharing::Shared } else { Sharing::Private };
            upload(folder, name, sharing, store, label)
        })?;
        let failed = |source| StateError::Io { what: format!("writing the snapshot `{label}`"), source };
        let mut meta = store.create(&format!("{label}-states")).map_err(failed)?;
        meta.write_all(&self.header).map_err(failed)?;
        let meta = meta.finish().map_err(failed)?;
        if let Purpose::Checkpoint { id, uploads, .. } = &self.purpose {
            uploads.written(*id, nameable(&files));
            if let Some(local) = &self.options.local_recovery {
                local.keep(*id, folder);
            }
        }
        let handle = IncrementalHandle {
            range: self.range,
            format: IncrementalFormat::RocksDb,
            backend: self.options.instance,
            meta,
            files,
        };
        Ok(KeyedSnapshot { incremental: vec![handle], ..KeyedSnapshot::default() })
    }
}

/// The files that later checkpoints may name.
pub(crate) fn nameable(files: &[NamedStream]) -> Files {
    let tables = files.iter().filter(|file| file.name.ends_with(".sst") && file.stream.is_shared());
    tables.map(|file| (file.name.clone(), file.stream.clone())).collect()
}
