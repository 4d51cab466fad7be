//! [`MemorySnapshotStore`]: snapshots as bytes in their handles.

use std::io;
use std::sync::Arc;

use stillstream_types::StreamHandle;
use stillstream_types::streams::{SnapshotStore, SnapshotStream};

/// Gives each stream back as an inline handle: the snapshot goes to the JobManager inside the
/// acknowledgement.
///
/// ```
/// use std::io::Write;
/// use stillstream_state::MemorySnapshotStore;
/// use stillstream_types::streams::SnapshotStore;
///
/// let store = MemorySnapshotStore::default();
/// let mut stream = store.create("counts")?;
/// stream.write_all(b"state")?;
/// let handle = stream.finish()?;
/// assert_eq!(store.read_all(&handle)?, b"state");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemorySnapshotStore {
    max_state_size: Option<u64>,
}

impl MemorySnapshotStore {
    /// A store without a limit, as `default()`.
    pub const fn unlimited() -> Self {
        Self { max_state_size: None }
    }

    /// A store that takes at most so many bytes of one state.
    pub const fn with_max_state_size(bytes: u64) -> Self {
        Self { max_state_size: Some(bytes) }
    }
}

impl SnapshotStore for MemorySnapshotStore {
    fn create(&self, _: &str) -> io::Result<Box<dyn SnapshotStream>> {
        Ok(Box::new(MemoryStream(Vec::new())))
    }

    fn max_state_size(&self) -> Option<u64> {
        self.max_state_size
    }

    fn read(&self, handle: &StreamHandle, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let bytes = content(handle)?;
        let part = offset
            .checked_add(len)
            .and_then(|end| bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?));
        part.map(<[u8]>::to_vec).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{len} bytes at {offset} wanted, the inline state has {}", bytes.len()),
            )
        })
    }

    fn read_all(&self, handle: &StreamHandle) -> io::Result<Vec<u8>> {
        content(handle).map(<[u8]>::to_vec)
    }
}

fn content(handle: &StreamHandle) -> io::Result<&[u8]> {
    match handle {
        StreamHandle::Inline { bytes } => Ok(bytes),
        StreamHandle::File { path, .. } => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("`{path}` is a file, which the memory store does not have"),
        )),
    }
}

struct MemoryStream(Vec<u8>);

impl io::Write for MemoryStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SnapshotStream for MemoryStream {
    fn finish(self: Box<Self>) -> io::Result<StreamHandle> {
        Ok(StreamHandle::Inline { bytes: Arc::from(self.0) })
    }
}
