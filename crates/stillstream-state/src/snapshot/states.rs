//! Which states a snapshot has, by its headers alone: nothing of the state itself is read.

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{IncrementalFormat, IncrementalHandle, KeyedStateHandle};

use super::chain::ChainMeta;
use super::delta::DeltaHeader;
use super::header::{Header, path_of};
use super::read::{read_header, read_header_bytes};
use crate::StateError;

/// Key type, key groups and states of a keyed snapshot. Blocks.
///
/// # Errors
/// A header that is missing, damaged, or of a newer release.
pub fn header_of(handle: &KeyedStateHandle, store: &dyn SnapshotStore) -> Result<Header, StateError> {
    read_header(handle, store)
}

/// The same of a snapshot in a backend's own form. Blocks.
///
/// # Errors
/// As [`header_of`].
pub fn header_of_incremental(
    handle: &IncrementalHandle,
    store: &dyn SnapshotStore,
) -> Result<Header, StateError> {
    let path = handle.meta.path().unwrap_or("(inline state)");
    match handle.format {
        IncrementalFormat::RocksDb => {
            let bytes = store.read_all(&handle.meta).map_err(|source| StateError::reading(path, source))?;
            Header::from_bytes(&bytes, path)
        }
        // the newest file names the states that there are
        IncrementalFormat::HeapChain => match ChainMeta::read(handle, store)?.files.as_slice() {
            [image] => read_header(&image.handle, store),
            [.., newest] => {
                let bytes = read_header_bytes(&newest.handle, store)?;
                Ok(DeltaHeader::from_bytes(&bytes, path_of(&newest.handle))?.header)
            }
            [] => Err(StateError::Malformed {
                path: path.into(),
                part: "its list of files".into(),
                why: "there is no file in it".into(),
            }),
        },
    }
}
