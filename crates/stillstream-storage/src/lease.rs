//! The right of one generation to write the register.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use stillstream_types::crash::crash_point;
use stillstream_types::{CheckpointId, Generation, JobId, JobOutcome, RegisterRecord};

use crate::checkpoint::JobStorage;
use crate::cleanup::KEEP_FILE;
use crate::error::{CasError, StorageError};
use crate::register::{Register, Version};
use crate::salvage::checkpoint_dirs;
use crate::store::join;

/// How often a change is tried when others change the register at the same time.
const ATTEMPTS: u32 = 16;

/// A claim on a job: this generation, and no other, may write its register.
///
/// On a local disk it also holds a lock on the job's directory, which the operating system releases when the process dies.
/// Invariants: `generation` and `last_checkpoint_id` of the record never go back; once fenced, every change fails.
#[derive(Debug)]
pub struct Lease {
    register: Arc<dyn Register>,
    record: RegisterRecord,
    version: Version,
    /// The last write may have happened: the register must be read before the next one.
    unsure: bool,
    previous: Option<RegisterRecord>,
    /// Tells this lease's writes from all others.
    writer: u64,
    _lock: Option<File>,
}

impl Lease {
    pub(crate) fn claim(storage: &JobStorage, job_name: &str) -> Result<Self, StorageError> {
        let lock = lock(storage)?;
        let (writer, register) = storage.writing_register();
        for _ in 0..ATTEMPTS {
            let loaded = storage.load_register()?;
            let (expected, previous) = match loaded {
                Some(loaded) => (Some(loaded.version), Some(loaded.record)),
                None => (None, None),
            };
            let mut record = previous.clone().unwrap_or_else(|| new_record(storage.job, job_name));
            record.generation.0 = record.generation.0.saturating_add(1);
            record.job_name = job_name.to_owned();
            match register.compare_and_set(expected.as_ref(), &record) {
                Ok(version) => {
                    return Ok(Self {
                        register,
                        record,
                        version,
                        unsure: false,
                        previous,
                        writer,
                        _lock: lock,
                    });
                }
                // also when our own write may have happened: the next round claims a generation above it
                Err(CasError::Conflict(_) | CasError::Indeterminate(_)) => {}
                Err(CasError::Storage(error)) => return Err(error),
            }
        }
        match register.load()? {
            Some(_) => Err(StorageError::Contended { path: register.display(), attempts: ATTEMPTS }),
            // the first version is never deleted: a listing that does not show it lies
            None => Err(StorageError::RegisterMissing {
                looked_at: register.display(),
                found: "a first version, which the listing does not show".into(),
            }),
        }
    }

    pub(crate) fn claim_fresh(storage: &JobStorage, job_name: &str) -> Result<Self, StorageError> {
        let lock = lock(storage)?;
        let (writer, register) = storage.writing_register();
        for _ in 0..ATTEMPTS {
            let expected = register.head()?;
            let previous = match register.load() {
                Ok(loaded) => loaded.map(|loaded| loaded.record),
                Err(StorageError::RegisterUnreadable { .. }) => None,
                Err(error) => return Err(error),
            };
            let mut record = new_record(storage.job, job_name);
            let (highest_id, highest_generation) = keep_all(storage)?;
            let known = previous.as_ref();
            record.last_checkpoint_id =
                highest_id.max(known.map_or(CheckpointId(0), |r| r.last_checkpoint_id));
            // A lost record's generation is not known; each version raised it by one at most.
            let versions = expected.as_ref().map_or(0, |version| version.number);
            let bound = highest_generation.max(known.map_or(Generation(0), |r| r.generation)).0;
            record.generation.0 = bound.saturating_add(versions).saturating_add(1);
            match register.compare_and_set(expected.as_ref(), &record) {
                Ok(version) => {
                    return Ok(Self {
                        register,
                        record,
                        version,
                        unsure: false,
                        previous,
                        writer,
                        _lock: lock,
                    });
                }
                Err(CasError::Conflict(_) | CasError::Indeterminate(_)) => {}
                Err(CasError::Storage(error)) => return Err(error),
            }
        }
        Err(StorageError::Contended { path: storage.register.display(), attempts: ATTEMPTS })
    }

    /// The generation that this lease writes with.
    pub fn generation(&self) -> Generation {
        self.record.generation
    }

    /// The record as this lease last read or wrote it.
    pub fn record(&self) -> &RegisterRecord {
        &self.record
    }

    /// What the register said before the claim; `None` for a new job. [`record`](Self::record) has the same outcome and
    /// checkpoints until they are changed, so that a crash in between loses nothing.
    pub fn previous(&self) -> Option<&RegisterRecord> {
        self.previous.as_ref()
    }

    /// Raises the generation for another attempt by the same process; messages and files of the attempt before are told
    /// apart by it.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn next_generation(&mut self) -> Result<Generation, StorageError> {
        let next = Generation(self.record.generation.0.saturating_add(1));
        self.change(next, |_| {})?;
        Ok(next)
    }

    /// Changes the record. `change` may be called more than once and gets the current record each time; what it does must
    /// depend on nothing else. `generation` and `job` are set for it.
    ///
    /// ```
    /// # use stillstream_storage::{CheckpointStorage, StorageOptions, StorageError};
    /// # use stillstream_types::{CheckpointId, JobId};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let dir = dir.path().to_str().unwrap();
    /// # let storage = CheckpointStorage::open(dir, StorageOptions::default(), runtime.handle().clone())?;
    /// let job = storage.job(JobId::from_name("flights"));
    /// let mut lease = job.claim("flights")?;
    /// // an id is used only after the register knows it
    /// lease.update(|record| record.last_checkpoint_id = record.last_checkpoint_id.next())?;
    /// assert_eq!(lease.record().last_checkpoint_id, CheckpointId(1));
    /// # Ok::<(), StorageError>(())
    /// ```
    ///
    /// # Errors
    /// [`StorageError::Fenced`] when a higher generation is found: stop, delete nothing. An error that
    /// [is indeterminate](StorageError::is_indeterminate): it may have been written; delete nothing that the change would
    /// have named. Any other: surely not written. After the latter two the lease stays usable.
    pub fn update(
        &mut self,
        change: impl FnMut(&mut RegisterRecord),
    ) -> Result<&RegisterRecord, StorageError> {
        self.change(self.record.generation, change)
    }

    /// Puts `record` in place of the present one, under the record's own generation, which may be higher than the lease's.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn replace(&mut self, record: &RegisterRecord) -> Result<&RegisterRecord, StorageError> {
        self.change(record.generation, |present| *present = record.clone())
    }

    fn change(
        &mut self,
        generation: Generation,
        mut change: impl FnMut(&mut RegisterRecord),
    ) -> Result<&RegisterRecord, StorageError> {
        // what this call may have written already
        let mut attempted: Option<RegisterRecord> = None;
        for _ in 0..ATTEMPTS {
            if self.unsure {
                self.reload(attempted.is_some())?;
            }
            let next = match &attempted {
                // It did happen. It is written once more, which is sure to be durable, and not changed once more.
                Some(attempted) if *attempted == self.record => attempted.clone(),
                _ => {
                    let mut next = self.record.clone();
                    change(&mut next);
                    next.job = self.record.job;
                    next.generation = generation.max(self.record.generation);
                    next
                }
            };
            self.check(&next)?;
            self.crash_point("before-register")?;
            match self.register.compare_and_set(Some(&self.version), &next) {
                Ok(version) => {
                    (self.version, self.record, self.unsure) = (version, next, false);
                    self.crash_point("after-register")?;
                    return Ok(&self.record);
                }
                Err(CasError::Storage(error)) if attempted.is_none() => return Err(error),
                Err(CasError::Storage(error)) => return Err(self.unknown(error)),
                Err(CasError::Conflict(_)) => self.unsure = true,
                Err(CasError::Indeterminate(_)) => {
                    self.unsure = true;
                    attempted = Some(next);
                }
            }
        }
        let (path, attempts) = (self.register.display(), ATTEMPTS);
        let error = StorageError::Contended { path, attempts };
        Err(if attempted.is_some() { self.unknown(error) } else { error })
    }

    /// An earlier try of the same change may have happened, so a later failure is not determinate either.
    fn unknown(&self, error: StorageError) -> StorageError {
        let (path, reason) = (self.register.display(), error.to_string());
        StorageError::Indeterminate { operation: "change", path, reason }
    }

    fn crash_point(&self, point: &str) -> Result<(), StorageError> {
        crash_point(point).map_err(|crash| StorageError::Indeterminate {
            operation: "change",
            path: self.register.display(),
            reason: crash.to_string(),
        })
    }

    fn reload(&mut self, attempted: bool) -> Result<(), StorageError> {
        let path = || self.register.display();
        let loaded = match self.register.load() {
            Ok(Some(loaded)) => loaded,
            Ok(None) => {
                let found = format!("a lease on generation {}", self.record.generation);
                return Err(StorageError::RegisterMissing { looked_at: path(), found });
            }
            Err(error) if attempted => return Err(self.unknown(error)),
            Err(error) => return Err(error),
        };
        // an attempt of this lease's own to raise its generation may have been written
        if loaded.record.generation > self.record.generation && loaded.writer != self.writer {
            return Err(StorageError::Fenced {
                path: path(),
                ours: self.record.generation,
                found: loaded.record.generation,
            });
        }
        (self.record, self.version, self.unsure) = (loaded.record, loaded.version, false);
        Ok(())
    }

    fn check(&self, next: &RegisterRecord) -> Result<(), StorageError> {
        let refuse = |rule, expected: String, found: String| {
            Err(StorageError::Invalid { path: self.register.display(), rule, expected, found })
        };
        let (old, new) = (self.record.last_checkpoint_id, next.last_checkpoint_id);
        if new < old {
            return refuse(
                "the last checkpoint's id never goes back",
                format!("at least {old}"),
                new.to_string(),
            );
        }
        if let Some(pair) = next.completed.windows(2).find(|pair| pair[0].id >= pair[1].id) {
            let expected = format!("an id above {}", pair[0].id);
            return refuse(
                "completed checkpoints go from the oldest to the newest",
                expected,
                pair[1].id.to_string(),
            );
        }
        match next.completed.last() {
            Some(newest) if newest.id > new => refuse(
                "a completed checkpoint's id was used",
                format!("at most {new}"),
                newest.id.to_string(),
            ),
            _ => Ok(()),
        }
    }
}

fn new_record(job: JobId, job_name: &str) -> RegisterRecord {
    RegisterRecord {
        job,
        job_name: job_name.to_owned(),
        generation: Generation(0),
        outcome: JobOutcome::Running,
        last_checkpoint_id: CheckpointId(0),
        completed: Vec::new(),
        retained: Vec::new(),
        ended: None,
    }
}

/// Marks every completed checkpoint as one that a person decides about. Gives the highest number and generation seen.
fn keep_all(storage: &JobStorage) -> Result<(CheckpointId, Generation), StorageError> {
    let (mut id, mut generation) = (CheckpointId(0), Generation(0));
    for (number, has_metadata) in checkpoint_dirs(storage)? {
        id = id.max(CheckpointId(number));
        if !has_metadata {
            continue;
        }
        let path = format!("chk-{number}");
        match storage.read_metadata(&path) {
            Ok(metadata) => generation = generation.max(metadata.generation),
            Err(error) => tracing::warn!(%error, "a checkpoint cannot be read; it is kept"),
        }
        storage.store().put_new(&storage.key(&join(&path, KEEP_FILE)), b"")?;
    }
    Ok((id, generation))
}

/// The lock on a local job directory; `None` elsewhere, or when it is switched off.
fn lock(storage: &JobStorage) -> Result<Option<File>, StorageError> {
    let Some(dir) = storage.store().local_folder(&storage.streams.anchor)? else { return Ok(None) };
    if !storage.options.exclusive_lock {
        return Ok(None);
    }
    let path = dir.join(".lock");
    let shown = || path.display().to_string();
    let fail = |error| StorageError::io("lock", shown(), error);
    let mut file = open_lock(&path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            let holder = match text.trim() {
                "" => "another process".to_owned(),
                pid => format!("process {pid}"),
            };
            return Err(StorageError::Locked { path: shown(), holder });
        }
        Err(TryLockError::Error(error)) => return Err(fail(error)),
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(fail)?;
    Ok(Some(file))
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}
