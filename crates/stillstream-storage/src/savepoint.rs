//! The directory of one savepoint: it holds everything that the savepoint names, and can be moved or copied
//! alone.

use std::sync::Arc;

use stillstream_types::CheckpointMetadata;
use stillstream_types::crash::{Crash, crash_point};

use crate::cleanup::DiscardReport;
use crate::error::StorageError;
use crate::location::Location;
use crate::metadata::{Anchor, METADATA_FILE, encode};
use crate::options::StorageOptions;
use crate::snapshot::{Streams, SubtaskSnapshots};
use crate::store::{BlobStore, Created, Deleted};

/// How often a failed savepoint's directory is gone through: a task that is late may write into it meanwhile.
const ROUNDS: u32 = 3;

/// A directory in which a savepoint is written. It is read as a
/// [`RetainedCheckpoint`](crate::RetainedCheckpoint).
///
/// Paths in its metadata start at the directory itself. It has no register, and no other snapshot names its
/// files.
///
/// ```
/// use stillstream_storage::{RetainedCheckpoint, SavepointDirectory, StorageOptions};
/// use stillstream_types::streams::SnapshotStore;
/// # use stillstream_types::{CheckpointId, CheckpointKind, CheckpointMetadata, Generation, JobId};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = |name: &str| dir.path().join(name).display().to_string();
/// # let metadata = CheckpointMetadata {
/// #     id: CheckpointId(7), job: JobId::from_name("flights"), job_name: "flights".into(),
/// #     generation: Generation(1),
/// #     kind: CheckpointKind::Savepoint, triggered_at_ms: 0, operators: Vec::new(),
/// # };
/// let options = StorageOptions::default();
/// let savepoint = SavepointDirectory::create(&path("savepoint-1"), &options)?;
/// let snapshots = savepoint.snapshot_store("0-3");
/// let mut stream = snapshots.create("window-state")?; // and so on, as for a checkpoint
/// savepoint.write_metadata(&metadata)?;
/// std::fs::rename(path("savepoint-1"), path("elsewhere"))?;
/// assert_eq!(RetainedCheckpoint::open(&path("elsewhere"), &options)?.metadata(), &metadata);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SavepointDirectory {
    store: Arc<dyn BlobStore>,
    options: StorageOptions,
}

impl SavepointDirectory {
    /// Makes the directory, and those above it. One that is there must be empty.
    ///
    /// # Errors
    /// [`StorageError::BadLocation`] if there is something in it, or it is no place for a savepoint; or it
    /// cannot be made.
    pub fn create(location: &str, options: &StorageOptions) -> Result<Self, StorageError> {
        let store = Location::parse(location)?.open(options)?;
        if let Some(entry) = store.list("")?.first() {
            let reason =
                format!("a savepoint has a directory of its own, and there is `{}` in this one", entry.key);
            return Err(StorageError::BadLocation { location: location.into(), reason });
        }
        // elsewhere a folder is made with the first file in it
        store.local_folder("")?;
        Ok(Self::with_store(store, options))
    }

    /// A directory that somebody has [created](Self::create), also another process. Where it is moved away or
    /// deleted from here on, writes fail.
    ///
    /// # Errors
    /// [`StorageError::NotFound`] if there is none, on a disk: elsewhere a folder is there as soon as a file
    /// is.
    pub fn open(location: &str, options: &StorageOptions) -> Result<Self, StorageError> {
        let location = Location::parse(location)?;
        if let Location::Local(path) = &location
            && !path.is_dir()
        {
            return Err(StorageError::NotFound { path: path.display().to_string() });
        }
        let store = location.open(options)?;
        store.local_folder("")?;
        Ok(Self::with_store(store, options))
    }

    /// The root of a store of your own, such as one that fails on purpose.
    pub fn with_store(store: Arc<dyn BlobStore>, options: &StorageOptions) -> Self {
        Self { store, options: options.clone() }
    }

    /// The directory, for people.
    pub fn display(&self) -> String {
        self.store.display("")
    }

    /// Where one subtask writes its state. `subtask` is a label for people and must differ between the
    /// subtasks of a job, as in `3-0` for subtask 0 of task 3.
    pub fn snapshot_store(&self, subtask: &str) -> SubtaskSnapshots {
        let streams = Streams { store: self.store.clone(), anchor: String::new(), own: false };
        SubtaskSnapshots::new(streams, None, subtask, &self.options)
    }

    /// Writes `_metadata`, atomically. Call it when everything that the metadata names is durable. Writing
    /// the same content again is fine, so an indeterminate failure may be tried again.
    ///
    /// # Errors
    /// [`StorageError::AlreadyExists`] when another content is there; [`StorageError::BadLocation`] when the
    /// metadata names a file that other snapshots may name too, or that cannot lie in the directory: nothing
    /// is written then.
    pub fn write_metadata(&self, metadata: &CheckpointMetadata) -> Result<(), StorageError> {
        for path in metadata.streams().filter_map(|stream| stream.path()) {
            if !is_state(path) {
                let reason = format!("its savepoint would name `{path}`, which is no file of its directory");
                return Err(StorageError::BadLocation { location: self.display(), reason });
            }
        }
        let bytes = encode(metadata, Anchor::Directory);
        let crashed = |crash: Crash| {
            let (path, reason) = (self.store.display(METADATA_FILE), crash.to_string());
            StorageError::Indeterminate { operation: "create", path, reason }
        };
        crash_point("before-metadata").map_err(crashed)?;
        if self.store.put_new(METADATA_FILE, &bytes)? == Created::Exists
            && self.store.get(METADATA_FILE)?.0 != bytes
        {
            return Err(StorageError::AlreadyExists { path: self.store.display(METADATA_FILE) });
        }
        self.store.sync_folder("")?;
        crash_point("after-metadata").map_err(crashed)
    }

    /// Deletes what a savepoint that failed has written here, and the directory if nothing else is in it.
    ///
    /// A directory with `_metadata` is left alone: the savepoint may be complete, and then it is a person's.
    /// So are files that no savepoint writes. In the report each is a failure.
    pub fn discard(&self) -> DiscardReport {
        let mut report = DiscardReport::default();
        for _ in 0..ROUNDS {
            let entries = match self.store.list("") {
                Ok(entries) => entries,
                Err(error) => {
                    report.failed.push(error);
                    return report;
                }
            };
            if entries.is_empty() {
                break;
            }
            if entries.iter().any(|entry| entry.key == METADATA_FILE) {
                let reason = format!("there is a `{METADATA_FILE}` in it: only a person deletes a savepoint");
                report.failed.push(StorageError::BadLocation { location: self.display(), reason });
                return report;
            }
            if let Some(other) = entries.iter().find(|entry| !is_written_here(&entry.key)) {
                let reason =
                    format!("a savepoint that failed is not deleted there: it did not write `{}`", other.key);
                report.failed.push(StorageError::BadLocation { location: self.display(), reason });
                return report;
            }
            let keys: Vec<String> = entries.into_iter().map(|entry| entry.key).collect();
            for deleted in self.store.delete_all(&keys) {
                match deleted {
                    Ok(Deleted::Yes) => report.deleted += 1,
                    Ok(Deleted::NotFound) => report.missing += 1,
                    Err(error) => {
                        report.failed.push(error);
                        return report;
                    }
                }
            }
        }
        if let Err(error) = self.store.remove_empty_dirs("") {
            report.failed.push(error);
        }
        report
    }
}

/// Whether [`SubtaskSnapshots`] makes this name: `<subtask>-<name>-<process tag>-<count>`.
fn is_state(name: &str) -> bool {
    let mut parts = name.rsplitn(3, '-');
    let (count, tag, rest) = (parts.next(), parts.next(), parts.next());
    let is_count = count.is_some_and(|count| count.parse::<u64>().is_ok());
    let plain = |rest: &str| rest.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    is_count && tag.is_some_and(is_tag) && rest.is_some_and(|rest| !rest.is_empty() && plain(rest))
}

fn is_tag(tag: &str) -> bool {
    tag.len() == 16 && tag.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The same, and the temporary names under which files are written at first:
/// `.<name>.<process tag>-<number>.tmp`.
fn is_written_here(name: &str) -> bool {
    let temporary = || {
        let (name, tag) = name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.')?;
        let (tag, number) = tag.split_once('-')?;
        Some(is_tag(tag) && number.parse::<u64>().is_ok() && (name == METADATA_FILE || is_state(name)))
    };
    is_state(name) || temporary().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_savepoint_writes_is_taken_for_its_own() {
        for ours in ["3-0-state-00ff00ff00ff00ff-12", "0-0-a-b-0123456789abcdef-0"] {
            assert!(is_state(ours) && is_written_here(ours), "{ours}");
            assert!(is_written_here(&format!(".{ours}.0123456789abcdef-3.tmp")));
        }
        assert!(is_written_here("._metadata.0123456789abcdef-3.tmp"));
        for other in [
            "notes.txt",
            "_metadata",
            "chk-1/3-0-state-00ff00ff00ff00ff-12",
            "../3-0-state-00ff00ff00ff00ff-12",
            "shared/1-a",
            "3-0-state-00ff-12",
            "state-00ff00ff00ff00ff-x",
            ".notes.0123456789abcdef-3.tmp",
            ".tmp",
        ] {
            assert!(!is_written_here(other), "{other}");
        }
    }
}
