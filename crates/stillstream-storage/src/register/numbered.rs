//! The register where a store can only create if absent: version `n` is the file `register-<n>`, and the
//! highest is the truth.
//!
//! *Why a stalled writer cannot win.* A writer reads the highest number `h`, and creates `h + 1` in a way
//! that fails if it exists. Old versions are deleted, so a writer that stalled between the two may find the
//! name `h + 1` free again, although it was used and collected. Therefore every writer looks at the highest
//! number once more *after* it has created: the highest is never deleted, so if `h + 1` was ever used before,
//! something higher is there now, and the write does not count. It is reported as indeterminate, since the
//! same is seen when the write did count and was followed at once.
//!
//! *Why a writer cannot go on in another register.* The folder may be moved away under a writer, and another
//! one put in its place, whose versions have the same numbers. Therefore a writer looks whether the version
//! that it expects is the one that it knows: every write has an id of its own.
//!
//! *Why a job cannot start empty because a listing lied.* `register-1` is never deleted, so the first write
//! of a job that already has a register fails, whatever the listing said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stillstream_types::RegisterRecord;
use tokio::runtime::Handle;

use super::{Loaded, REGISTER_DIR, Register, Version, WriteId, decode, encode};
use crate::error::{CasError, StorageError};
use crate::store::{BlobStore, Created, join};

/// How many versions stay, for a reader that is slow and for one whose newest file is damaged.
const KEEP: u64 = 16;
/// How often a reader starts over when the version it wants was collected under its hands.
const READ_ATTEMPTS: u32 = 32;

/// See the [module's description](self).
#[derive(Clone, Debug)]
pub struct NumberedRegister {
    store: Arc<dyn BlobStore>,
    /// The folder.
    dir: String,
    writer: u64,
    /// Where old versions are deleted, off the way of whoever writes.
    background: Handle,
    collecting: Arc<AtomicBool>,
}

impl NumberedRegister {
    /// The register of the job whose folder within `store` is `job`.
    pub fn new(store: Arc<dyn BlobStore>, job: &str, writer: u64, background: Handle) -> Self {
        let dir = join(job, REGISTER_DIR);
        Self { store, dir, writer, background, collecting: Arc::default() }
    }

    fn key(&self, number: u64) -> String {
        format!("{}/register-{number:020}", self.dir)
    }

    /// All versions, highest first.
    fn numbers(&self) -> Result<Vec<u64>, StorageError> {
        let number = |key: &str| key.rsplit('/').next()?.strip_prefix("register-")?.parse().ok();
        let mut numbers: Vec<u64> =
            self.store.list(&self.dir)?.iter().filter_map(|entry| number(&entry.key)).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        Ok(numbers)
    }

    /// One look. `None`: the version was collected meanwhile, look again.
    fn try_load(&self, numbers: &[u64]) -> Result<Option<Loaded>, StorageError> {
        let Some(&highest) = numbers.first() else { return Ok(None) };
        let mut damaged = Vec::new();
        let mut reasons = Vec::new();
        // Only an unbroken run counts: `register-1`, which is always there, says nothing about today.
        for (number, expected) in numbers.iter().zip((1..=highest).rev()) {
            if *number != expected {
                break;
            }
            let key = self.key(*number);
            let path = self.store.display(&key);
            let bytes = match self.store.get(&key) {
                Ok((bytes, _)) => bytes,
                Err(error) if error.is_not_found() => {
                    if damaged.is_empty() {
                        return Ok(None);
                    }
                    break;
                }
                Err(error) => return Err(error),
            };
            match self.decode(*number, &bytes) {
                Ok((record, write)) => {
                    // what is passed over cannot say who wrote it
                    let version = Version::numbered(highest, damaged.is_empty().then_some(write));
                    return Ok(Some(Loaded { record, version, damaged, writer: write.writer }));
                }
                Err(error) => {
                    tracing::warn!(%path, %error, "a version of the register is damaged: the one before is used");
                    damaged.push(path);
                    reasons.push(error.to_string());
                }
            }
        }
        Err(StorageError::RegisterUnreadable { looked_at: self.display(), reason: reasons.join("; ") })
    }

    /// What the file of version `number` holds; a file of another version is none of this one.
    fn decode(&self, number: u64, bytes: &[u8]) -> Result<(RegisterRecord, WriteId), StorageError> {
        let path = self.store.display(&self.key(number));
        let (record, found, write) = decode(&path, bytes)?;
        match found == number {
            true => Ok((record, write)),
            false => Err(StorageError::corrupt(path, "version of the register", number, found)),
        }
    }

    /// Who wrote version `number`; `None` if it is gone or damaged.
    fn written_by(&self, number: u64) -> Result<Option<WriteId>, StorageError> {
        match self.store.get(&self.key(number)) {
            Ok((bytes, _)) => Ok(self.decode(number, &bytes).ok().map(|(_, write)| write)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes old versions, and what writers that were killed left of versions that somebody has written
    /// since; returns how many files that were. Runs by itself in the background after each write.
    pub fn collect_old(&self) -> Result<u64, StorageError> {
        let numbers = self.numbers()?;
        let Some(&highest) = numbers.first() else { return Ok(0) };
        let mut deleted = 0;
        for &number in numbers.iter().filter(|&&n| n != 1 && n + KEEP <= highest) {
            self.store.delete(&self.key(number))?;
            deleted += 1;
        }
        // a write of an older version can no longer succeed, so its temporary file is nobody's
        for entry in self.store.list(&self.dir)? {
            if half_written(&entry.key).is_some_and(|number| number < highest) {
                self.store.delete(&entry.key)?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    fn collect_in_background(&self) {
        if self.collecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let register = self.clone();
        self.background.spawn_blocking(move || {
            if let Err(error) = register.collect_old() {
                tracing::warn!(%error, "old versions of the register could not be deleted; the next write tries again");
            }
            register.collecting.store(false, Ordering::Release);
        });
    }
}

impl Register for NumberedRegister {
    fn display(&self) -> String {
        self.store.display(&self.dir)
    }

    fn load(&self) -> Result<Option<Loaded>, StorageError> {
        for _ in 0..READ_ATTEMPTS {
            let numbers = self.numbers()?;
            if numbers.is_empty() {
                return Ok(None);
            }
            if let Some(loaded) = self.try_load(&numbers)? {
                return Ok(Some(loaded));
            }
        }
        Err(StorageError::Contended { path: self.display(), attempts: READ_ATTEMPTS })
    }

    fn head(&self) -> Result<Option<Version>, StorageError> {
        let Some(&number) = self.numbers()?.first() else { return Ok(None) };
        Ok(Some(Version::numbered(number, self.written_by(number)?)))
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.store.sync_folder(&self.dir)
    }

    fn compare_and_set(&self, expected: Option<&Version>, new: &RegisterRecord) -> Result<Version, CasError> {
        let conflict = |number| match self.written_by(number) {
            Ok(write) => CasError::Conflict(Version::numbered(number, write)),
            Err(error) => CasError::Storage(error),
        };
        let known = expected.and_then(|version| version.write);
        let expected = expected.map_or(0, |version| version.number);
        let highest = self.numbers()?.first().copied().unwrap_or(0);
        if highest != expected {
            return Err(conflict(highest));
        }
        if let Some(known) = known
            && let Some(found) = self.written_by(expected)?
            && found != known
        {
            return Err(CasError::Conflict(Version::numbered(expected, Some(found))));
        }
        let next = expected + 1;
        let key = self.key(next);
        let write = WriteId::next(self.writer);
        let bytes = encode(new, next, write);
        // what exists may be our own: a request whose answer was lost is sent again, and meets its own result
        if self.store.put_new(&key, &bytes)? == Created::Exists && self.written_by(next)? != Some(write) {
            return Err(conflict(next));
        }
        let unknown = |reason: String| {
            let path = self.store.display(&key);
            CasError::Indeterminate(StorageError::Indeterminate { operation: "create", path, reason })
        };
        let after =
            self.numbers().map_err(|error| unknown(format!("the folder could not be listed: {error}")))?;
        match after.first() {
            Some(&highest) if highest == next => {
                self.collect_in_background();
                Ok(Version::numbered(next, Some(write)))
            }
            Some(&highest) if highest > next => {
                if next + KEEP <= highest && next != 1 {
                    // a name that was used and collected before: take the stray away again
                    let _ = self.store.delete(&key);
                }
                Err(unknown(format!("version {highest} is there already")))
            }
            _ => Err(unknown("it is not in the listing of its folder".into())),
        }
    }
}

/// The version that a temporary file `.register-<version>.<writer>.tmp` was to become.
fn half_written(key: &str) -> Option<u64> {
    let name = key.rsplit('/').next()?.strip_prefix(".register-")?.strip_suffix(".tmp")?;
    name.split('.').next()?.parse().ok()
}
