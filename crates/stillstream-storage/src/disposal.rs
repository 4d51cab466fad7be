//! Deleting a savepoint because a person asks for it. The system deletes none by itself.

use stillstream_types::{CheckpointKind, StreamHandle, checkpoint_paths};

use crate::error::StorageError;
use crate::metadata::METADATA_FILE;
use crate::options::StorageOptions;
use crate::retained::RetainedCheckpoint;
use crate::store::join;

/// Deletes the savepoint at a path or URI: the files that its `_metadata` names, then `_metadata` itself,
/// then its directory if nothing else is in it. What was interrupted can be repeated.
///
/// # Errors
/// Nothing is deleted if there is no savepoint, if it is a checkpoint, which belongs to its job, or if it
/// names a file outside its directory. Otherwise: the file that could not be deleted.
pub fn dispose_of_savepoint(location: &str, options: &StorageOptions) -> Result<(), StorageError> {
    let found = RetainedCheckpoint::open(location, options)?;
    let bad = |reason: String| StorageError::BadLocation { location: location.into(), reason };
    if found.metadata().kind != CheckpointKind::Savepoint {
        return Err(bad(
            "this is a checkpoint, and a job deletes its checkpoints itself; only savepoints are deleted on request".into(),
        ));
    }
    // the directory within the store, which is the folder above it
    let directory = found.key();
    if directory.is_empty() {
        return Err(bad("the root of a file system is not deleted".into()));
    }
    let streams = found.streams();
    let mut keys = Vec::new();
    for path in found.metadata().streams().filter_map(StreamHandle::path) {
        let key = join(&streams.anchor, path);
        if !checkpoint_paths::is_below(&key, directory) {
            return Err(bad(format!(
                "it names the file `{path}`, which is not in its directory and may be somebody else's: nothing was deleted"
            )));
        }
        keys.push(key);
    }
    let store = &streams.store;
    for deleted in store.delete_all(&keys) {
        deleted?;
    }
    // the last one: as long as it is there, the rest can be found
    store.delete(&join(directory, METADATA_FILE))?;
    store.remove_empty_dirs(directory)
}
