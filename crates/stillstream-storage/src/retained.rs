//! A checkpoint or savepoint at a place that a user names: the argument of `--from-savepoint`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stillstream_types::{CheckpointKind, CheckpointMetadata, JobId, checkpoint_paths};

use crate::error::StorageError;
use crate::identity;
use crate::local::LocalStore;
use crate::location::Location;
use crate::metadata::{Anchor, METADATA_FILE, decode};
use crate::options::StorageOptions;
use crate::snapshot::Streams;
use crate::store::{BlobStore, join};
use crate::verify::{VerifyMode, verify};

/// A finished snapshot and the way to its streams.
#[derive(Clone, Debug)]
pub struct RetainedCheckpoint {
    metadata: CheckpointMetadata,
    streams: Streams,
    directory: String,
    /// The directory within the store.
    key: String,
    /// All files that it names lie in its directory.
    owns_all: bool,
}

impl RetainedCheckpoint {
    /// Opens the snapshot at a path or URI: its directory (`../chk-17`), or the `_metadata` file in it.
    ///
    /// The paths within a checkpoint start at the directory above `chk-17`, so that a job directory can be
    /// moved as a whole; those within a savepoint start at its own directory, which can be moved alone.
    ///
    /// # Errors
    /// [`StorageError::BadLocation`] when there is no snapshot, with a hint when a job directory was given;
    /// [`StorageError::Corrupt`] when `_metadata` is damaged; [`StorageError::Foreign`] when it is not of the
    /// checkpoint or job that its folders are named after.
    pub fn open(location: &str, options: &StorageOptions) -> Result<Self, StorageError> {
        match Location::parse(location)? {
            Location::Local(path) => Self::open_local(&path, location, options),
            remote @ Location::Remote(_) => Self::open_remote(remote, location, options),
        }
    }

    fn open_remote(place: Location, location: &str, options: &StorageOptions) -> Result<Self, StorageError> {
        let directory = match place.split() {
            Some((above, name)) if name == METADATA_FILE => above,
            _ => place,
        };
        let (above, name) = directory.split().unwrap_or_else(|| (directory.clone(), String::new()));
        let store = above.open(options)?;
        let found = match Self::in_store(store.clone(), &name) {
            Err(error) if error.is_not_found() => {
                let reason = match newest_in_store(&*store, &name)? {
                    Some(newest) => format!(
                        "there is no `{METADATA_FILE}` in it; did you mean `{}`?",
                        directory.join(&newest)
                    ),
                    None => format!(
                        "there is no `{METADATA_FILE}` in it; name a checkpoint's directory, such as `../chk-17`"
                    ),
                };
                return Err(StorageError::BadLocation { location: location.into(), reason });
            }
            found => found?,
        };
        let job = above.split().and_then(|(_, job)| job.parse::<JobId>().ok());
        found.of_its_place(&directory.join(METADATA_FILE).to_string(), &name, job)
    }

    /// The folder of a job has the job's id as its name, unless a person gave it another.
    fn of_its_place(self, shown: &str, name: &str, job: Option<JobId>) -> Result<Self, StorageError> {
        // a savepoint may lie anywhere, and below another job's directory too
        let job = job.filter(|_| self.metadata.kind != CheckpointKind::Savepoint);
        identity::check(shown, name, job, &self.metadata)?;
        Ok(self)
    }

    fn open_local(path: &Path, location: &str, options: &StorageOptions) -> Result<Self, StorageError> {
        let directory = directory_of(path, location)?;
        let above = directory.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let job = above.and_then(|name| name.parse::<JobId>().ok());
        let found = match (directory.parent(), directory.file_name().and_then(|name| name.to_str())) {
            (Some(parent), Some(name)) => Self::in_store(Arc::new(LocalStore::new(parent, options)), name),
            _ => Self::in_store(Arc::new(LocalStore::new(&directory, options)), ""),
        }?;
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let shown = directory.join(METADATA_FILE).display().to_string();
        found.of_its_place(&shown, name, job)
    }

    /// Opens the snapshot whose `_metadata` lies in folder `directory` of `store`.
    pub fn in_store(store: Arc<dyn BlobStore>, directory: &str) -> Result<Self, StorageError> {
        let key = join(directory, METADATA_FILE);
        let (bytes, _) = store.get(&key)?;
        let (metadata, anchor) = decode(&store.display(&key), &bytes)?;
        let owns_all = anchor == Anchor::Directory;
        let anchor = match anchor {
            Anchor::Directory => directory.to_owned(),
            Anchor::Parent if directory.is_empty() => {
                let reason =
                    "a checkpoint's files lie beside its directory: name a directory that has one above it";
                let location = store.display(&key);
                return Err(StorageError::BadLocation { location, reason: reason.into() });
            }
            Anchor::Parent => directory.rsplit_once('/').map_or("", |(above, _)| above).to_owned(),
        };
        let shown = store.display(directory);
        Ok(Self {
            metadata,
            streams: Streams { store, anchor, own: false },
            directory: shown,
            key: directory.to_owned(),
            owns_all,
        })
    }

    /// What `_metadata` says.
    pub fn metadata(&self) -> &CheckpointMetadata {
        &self.metadata
    }

    /// Reads the streams that the metadata names, which belong to somebody else; also a
    /// [`SnapshotStore`](stillstream_types::streams::SnapshotStore).
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The directory of `_metadata`, for people and for [`open`](Self::open) in another process.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Its directory within the store.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Whether all files that it names lie in its directory: that of a savepoint.
    pub(crate) fn owns_all(&self) -> bool {
        self.owns_all
    }

    /// Checks every file that it names.
    pub fn verify(&self, mode: VerifyMode) -> Result<(), StorageError> {
        verify(&self.streams, &self.metadata, mode)
    }
}

fn directory_of(path: &Path, location: &str) -> Result<PathBuf, StorageError> {
    let bad = |reason: String| StorageError::BadLocation { location: location.into(), reason };
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // the folder above may be a job's, and the number a wrong one
            let hint = path.parent().map(|above| hint(above, "kept there: ")).unwrap_or_default();
            return Err(bad(format!(
                "nothing is there; name a checkpoint's directory, such as `../chk-17`{hint}"
            )));
        }
        Err(error) => return Err(StorageError::io("look at", path.display().to_string(), error)),
    };
    if found.is_file() {
        return match path.parent() {
            Some(parent) if path.file_name().is_some_and(|name| name == METADATA_FILE) => Ok(parent.into()),
            _ => Err(bad(format!(
                "this file is not called `{METADATA_FILE}`; name the checkpoint's directory"
            ))),
        };
    }
    // `..` at the end and links: the parent must be the true one
    let path =
        fs::canonicalize(path).map_err(|e| StorageError::io("look at", path.display().to_string(), e))?;
    if path.join(METADATA_FILE).is_file() {
        return Ok(path);
    }
    let hint = hint(&path, "did you mean one of those in it? ");
    Err(bad(format!("there is no `{METADATA_FILE}` in it, so it is not a completed checkpoint{hint}")))
}

/// At most so many are named.
const NAMED: usize = 10;

/// The snapshots in `path`, the newest first, if it is the directory of a job or one of savepoints.
fn hint(path: &Path, said: &str) -> String {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let whole = names.filter(|name| path.join(name).join(METADATA_FILE).is_file());
    let mut found: Vec<_> = whole.map(|name| (checkpoint_paths::checkpoint_of(&name), name)).collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    let named = found.iter().take(NAMED).map(|(_, name)| format!("`{}`", path.join(name).display()));
    match (found.len(), named.collect::<Vec<_>>().join(", ")) {
        (0, _) => String::new(),
        (count, named) if count > NAMED => format!("; {said}{named} and {} more", count - NAMED),
        (_, named) => format!("; {said}{named}"),
    }
}

/// The same in a store that is reached over the network.
fn newest_in_store(store: &dyn BlobStore, directory: &str) -> Result<Option<String>, StorageError> {
    let folders = store.folders(directory)?;
    let numbered = folders.iter().filter_map(|name| Some((checkpoint_paths::checkpoint_of(name)?, name)));
    let whole = |name: &str| store.len(&join(directory, &join(name, METADATA_FILE))).is_ok();
    Ok(numbered.filter(|(_, name)| whole(name)).max().map(|(_, name)| name.clone()))
}
