//! Keyed state in a backend's own form: chains of the heap, files of RocksDB.

use std::ops::ControlFlow;

use stillstream_state::StateError;
use stillstream_state::snapshot::{SnapshotEntry, for_each_entry_of_chain};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{IncrementalFormat, IncrementalHandle};

/// What a person is told of the form.
pub(crate) fn form(handle: &IncrementalHandle) -> &'static str {
    match handle.format {
        IncrementalFormat::HeapChain => "an image and changes after it (heap backend)",
        IncrementalFormat::RocksDb => {
            "files of RocksDB, which --state, --key and --groups copy to the folder for temporary files to look inside"
        }
    }
}

/// Hands out all entries until `found` breaks off.
pub(crate) fn for_each_entry(
    handle: &IncrementalHandle,
    store: &dyn SnapshotStore,
    found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
) -> Result<(), StateError> {
    match handle.format {
        IncrementalFormat::HeapChain => for_each_entry_of_chain(handle, store, found),
        IncrementalFormat::RocksDb => files_of_rocksdb(handle, store, found),
    }
}

#[cfg(feature = "rocksdb")]
fn files_of_rocksdb(
    handle: &IncrementalHandle,
    store: &dyn SnapshotStore,
    found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
) -> Result<(), StateError> {
    stillstream_rocksdb::for_each_entry(handle, store, &std::env::temp_dir(), found)
}

#[cfg(not(feature = "rocksdb"))]
fn files_of_rocksdb(
    handle: &IncrementalHandle,
    _: &dyn SnapshotStore,
    _: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
) -> Result<(), StateError> {
    Err(StateError::Malformed {
        path: handle.meta.path().unwrap_or("(inline state)").into(),
        part: "its form".into(),
        why: "it consists of files of RocksDB, and this command was built without the cargo feature `rocksdb`: install it with \
              `--features rocksdb` to look inside"
            .into(),
    })
}
