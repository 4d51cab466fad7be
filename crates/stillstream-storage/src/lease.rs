//! The right of one generation to write the register.

use std::sync::Arc;

use stillstream_types::crash::crash_point;
use stillstream_types::{CheckpointId, Generation, JobId, JobOutcome, RegisterRecord, checkpoint_paths};

use crate::checkpoint::JobStorage;
use crate::cleanup::KEEP_FILE;
use crate::error::{CasError, StorageError};
use crate::job_lock::{JobLock, Noted};
use crate::register::{Loaded, Register, Version};
use crate::salvage::checkpoint_dirs;
use crate::store::join;

/// How often a change is tried when others change the register at the same time.
const ATTEMPTS: u32 = 16;

/// A claim on a job: this generation, and no other, may write its register.
///
/// On a local disk it also holds a lock on the job's directory, which the operating system releases when the
/// process dies. Invariants: `generation` and `last_checkpoint_id` of the record never go back; once fenced,
/// every change fails.
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
    lock: Option<JobLock>,
}

impl Lease {
    pub(crate) fn claim(storage: &JobStorage, job_name: &str) -> Result<Self, StorageError> {
        let mut lock = JobLock::take(storage)?;
        let (writer, register) = storage.writing_register();
        for _ in 0..ATTEMPTS {
            let loaded = storage.load_register()?;
            refuse_roll_back(storage, lock.as_ref(), loaded.as_ref())?;
            let (expected, previous) = match loaded {
                Some(loaded) => (Some(loaded.version), Some(loaded.record)),
                None => (None, None),
            };
            let mut record = previous.clone().unwrap_or_else(|| new_record(storage.job, job_name));
            record.generation.0 = record.generation.0.saturating_add(1);
            record.job_name = job_name.to_owned();
            match register.compare_and_set(expected.as_ref(), &record) {
                Ok(version) => {
                    note(&mut lock, &version);
                    return Ok(Self { register, record, version, unsure: false, previous, writer, lock });
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
        let mut lock = JobLock::take(storage)?;
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
                    note(&mut lock, &version);
                    return Ok(Self { register, record, version, unsure: false, previous, writer, lock });
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

    /// What the register said before the claim; `None` for a new job. [`record`](Self::record) has the same
    /// outcome and checkpoints until they are changed, so that a crash in between loses nothing.
    pub fn previous(&self) -> Option<&RegisterRecord> {
        self.previous.as_ref()
    }

    /// Changes the record, for callers without a coordinator that settles what is not known: each unknown
    /// outcome is read back, and the change tried again. `change` may be called more than once and gets the
    /// current record each time; what it does must depend on nothing else. `generation` and `job` are set for
    /// it.
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
    /// [is indeterminate](StorageError::is_indeterminate): it may have been written; delete nothing that the
    /// change would have named. Any other: surely not written. After the latter two the lease stays usable.
    pub fn update(
        &mut self,
        mut change: impl FnMut(&mut RegisterRecord),
    ) -> Result<&RegisterRecord, StorageError> {
        // what this call may have written already: a later failure is not determinate then
        let mut attempted: Option<RegisterRecord> = None;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            if self.unsure {
                self.reload(attempted.is_some())?;
                if attempted.as_ref() == Some(&self.record) {
                    break; // it did happen
                }
            }
            let mut next = self.record.clone();
            change(&mut next);
            (next.job, next.generation) = (self.record.job, self.record.generation);
            match self.write(next.clone()) {
                Ok(()) => break,
                Err(error) if error.is_indeterminate() && self.unsure => {
                    (last, attempted) = (Some(error), Some(next));
                }
                Err(error) if attempted.is_some() && !matches!(error, StorageError::Fenced { .. }) => {
                    return Err(self.unknown(error));
                }
                Err(error) => return Err(error),
            }
        }
        match (self.unsure, last) {
            (true, Some(error)) => Err(error),
            _ => Ok(&self.record),
        }
    }

    /// Puts `next` in place of `expected`, in one try: the generation of `next` may be higher than the
    /// lease's.
    ///
    /// # Errors
    /// [`StorageError::Fenced`]: another process has the job. An error that
    /// [is indeterminate](StorageError::is_indeterminate): it may have been written, or the register holds
    /// another record than `expected`; [`refresh`](Self::refresh) tells which. Any other: surely not written.
    pub fn compare_and_set(
        &mut self,
        expected: &RegisterRecord,
        next: &RegisterRecord,
    ) -> Result<(), StorageError> {
        if self.unsure || self.record != *expected {
            self.reload(false)?;
        }
        if self.record != *expected {
            return Err(self.unknown("it holds another record than expected"));
        }
        self.write(next.clone())
    }

    /// Reads the register again: what an indeterminate write left there is this lease's record from now on.
    ///
    /// # Errors
    /// [`StorageError::Fenced`] when another process wrote it, [`StorageError::RegisterMissing`] when it is
    /// gone; or it cannot be read now.
    pub fn refresh(&mut self) -> Result<&RegisterRecord, StorageError> {
        self.unsure = true;
        self.reload(false)?;
        Ok(&self.record)
    }

    /// One try.
    fn write(&mut self, next: RegisterRecord) -> Result<(), StorageError> {
        self.check(&next)?;
        self.crash_point("before-register")?;
        match self.register.compare_and_set(Some(&self.version), &next) {
            Ok(version) => {
                note(&mut self.lock, &version);
                (self.version, self.record, self.unsure) = (version, next, false);
                self.crash_point("after-register")
            }
            Err(CasError::Storage(error)) => Err(error),
            Err(CasError::Conflict(_)) => {
                self.unsure = true;
                self.reload(false)?;
                Err(self.unknown("it holds another version than expected"))
            }
            Err(CasError::Indeterminate(error)) => {
                self.unsure = true;
                Err(self.unknown(error))
            }
        }
    }

    fn unknown(&self, why: impl ToString) -> StorageError {
        let (path, reason) = (self.register.display(), why.to_string());
        StorageError::Indeterminate { operation: "change", path, reason }
    }

    fn crash_point(&self, point: &str) -> Result<(), StorageError> {
        crash_point(point).map_err(|crash| StorageError::Indeterminate {
            operation: "change",
            path: self.register.display(),
            reason: crash.to_string(),
        })
    }

    /// What is found is durable: a caller may take it for the outcome of its write.
    fn reload(&mut self, attempted: bool) -> Result<(), StorageError> {
        let path = || self.register.display();
        let loaded = match self.register.sync().and_then(|()| self.register.load()) {
            Ok(Some(loaded)) => loaded,
            Ok(None) => {
                let found = format!("a lease on generation {}", self.record.generation);
                return Err(StorageError::RegisterMissing { looked_at: path(), found });
            }
            Err(error) if attempted => return Err(self.unknown(error)),
            Err(error) => return Err(error),
        };
        // Whatever its generation, what another one wrote was not written under this lease. Of a damaged
        // version nobody knows who wrote it: then the one before it speaks, which may be of the process that
        // had the job before.
        let newer = loaded.record.generation > self.record.generation;
        if loaded.writer != self.writer && (newer || loaded.damaged.is_empty()) {
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

/// Writes the register's version into the lock file, where the next start compares it.
fn note(lock: &mut Option<JobLock>, version: &Version) {
    if let Some(lock) = lock {
        lock.note(version.number);
    }
}

/// Refuses a register whose newest versions are missing: what was started from it would do again what was
/// done already.
///
/// Two things show that they are: the lock file says so, or a checkpoint is there whose number or generation
/// the register does not know, although both are recorded before they are used. A whole checkpoint that is
/// newer and shows neither was complete but not announced when the process died.
fn refuse_roll_back(
    storage: &JobStorage,
    lock: Option<&JobLock>,
    loaded: Option<&Loaded>,
) -> Result<(), StorageError> {
    let noted = lock.map_or(Noted::Nothing, JobLock::noted);
    let looked_at = storage.register.display();
    let shown = || lock.map_or_else(String::new, |lock| lock.path().display().to_string());
    let Some(Loaded { record, version, damaged, .. }) = loaded else {
        let found = match noted {
            Noted::Nothing | Noted::Version(0) => return Ok(()),
            Noted::Version(number) => format!("`{}`, which says that version {number} was written", shown()),
            Noted::Process => format!("`{}` of a process that had the job", shown()),
        };
        return Err(StorageError::RegisterMissing { looked_at, found });
    };
    let newest = record.completed.last().map_or(CheckpointId(0), |completed| completed.id);
    // the note says by itself that no version is missing
    let is_newest = matches!(noted, Noted::Version(number) if number > 0 && number == version.number);
    let mut found = Vec::new();
    if let Noted::Version(number) = noted
        && number > version.number
    {
        found.push(format!("`{}` says that version {number} was written", shown()));
    }
    let kept = storage.kept_directories()?;
    for (id, has_metadata) in checkpoint_dirs(storage)?.split_off(&CheckpointId(newest.0.saturating_add(1))) {
        let path = checkpoint_paths::checkpoint(id);
        // one that a person keeps is of an earlier run
        let retained = record.retained.iter().any(|retained| retained.id == id);
        if !has_metadata || retained || kept.contains(&id) {
            continue;
        }
        let Ok(metadata) = storage.read_metadata(&path) else { continue };
        let place = storage.store().display(&storage.key(&path));
        let unknown =
            metadata.id > record.last_checkpoint_id || !is_newest && metadata.generation > record.generation;
        match unknown && damaged.is_empty() {
            true => {
                found.push(format!("`{place}` is a whole checkpoint of generation {}", metadata.generation))
            }
            false if !found.is_empty() => found.push(format!("`{place}` is a whole checkpoint")),
            false if record.outcome != JobOutcome::Running => {}
            false => tracing::warn!(
                "`{place}` is a whole checkpoint, but the register in `{looked_at}` does not name it: it was not complete when \
                 its process ended, and the job goes on from checkpoint {newest}"
            ),
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let newest =
        record.completed.last().map_or("no checkpoint".into(), |newest| format!("checkpoint {}", newest.id));
    let register = format!("version {version}, which names {newest} of generation {}", record.generation);
    Err(StorageError::RegisterBehind { looked_at, register, found: found.join(", and ") })
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
        began: None,
    }
}

/// Marks every completed checkpoint as one that a person decides about. Gives the highest number and
/// generation seen.
fn keep_all(storage: &JobStorage) -> Result<(CheckpointId, Generation), StorageError> {
    let (mut highest, mut generation) = (CheckpointId(0), Generation(0));
    for (id, has_metadata) in checkpoint_dirs(storage)? {
        highest = highest.max(id);
        if !has_metadata {
            continue;
        }
        let path = checkpoint_paths::checkpoint(id);
        match storage.read_metadata(&path) {
            Ok(metadata) => generation = generation.max(metadata.generation),
            Err(error) => tracing::warn!(%error, "a checkpoint cannot be read; it is kept"),
        }
        storage.store().put_new(&storage.key(&join(&path, KEEP_FILE)), b"")?;
    }
    Ok((highest, generation))
}
