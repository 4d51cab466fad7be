//! Streams of state: inline below a threshold, files above, checksummed on the way.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stillstream_types::streams::{SnapshotStore, SnapshotStream};
use stillstream_types::{CheckpointId, StreamHandle, checkpoint_paths};

use crate::error::{MISSING, SHORT, StorageError};
use crate::frame::checksum;
use crate::options::StorageOptions;
use crate::store::{BlobStore, BlobWriter, join};

/// How much of a file is read at once where all of it must be looked at.
const CHUNK: u64 = 1 << 20;

/// Reads the streams of snapshots whose paths start at one anchor.
#[derive(Clone, Debug)]
pub struct Streams {
    pub(crate) store: Arc<dyn BlobStore>,
    /// The anchor within the store.
    pub(crate) anchor: String,
    /// Whether the anchor is the directory of the job that reads.
    pub(crate) own: bool,
}

impl Streams {
    fn key(&self, path: &str) -> Result<String, StorageError> {
        crate::store::check_key(path)?;
        Ok(join(&self.anchor, path))
    }

    /// Reads part of a stream; see [`SnapshotStore::read`].
    pub fn read(&self, handle: &StreamHandle, offset: u64, len: u64) -> Result<Vec<u8>, StorageError> {
        let end = offset.saturating_add(len);
        match handle {
            StreamHandle::Inline { bytes } => usize::try_from(end)
                .ok()
                .and_then(|end| bytes.get(end - len as usize..end))
                .map(<[u8]>::to_vec)
                .ok_or_else(|| {
                    StorageError::corrupt("inline state", SHORT, format!("at least {end}"), bytes.len())
                }),
            StreamHandle::File { path, len: whole, .. } => {
                let key = self.key(path)?;
                if end > *whole {
                    let (shown, least) = (self.store.display(&key), format!("at least {end}"));
                    return Err(StorageError::corrupt(shown, SHORT, least, whole));
                }
                self.store.read(&key, offset, len).map_err(|error| missing(error, *whole))
            }
        }
    }

    /// Reads a whole stream and verifies it.
    pub fn read_all(&self, handle: &StreamHandle) -> Result<Vec<u8>, StorageError> {
        match handle {
            StreamHandle::Inline { bytes } => Ok(bytes.to_vec()),
            StreamHandle::File { path, len, crc32c } => {
                self.check_len(handle)?;
                let key = self.key(path)?;
                let bytes = self.store.read(&key, 0, *len)?;
                match crc32c::crc32c(&bytes) {
                    found if found != *crc32c => Err(checksum(&self.store.display(&key), *crc32c, found)),
                    _ => Ok(bytes),
                }
            }
        }
    }

    /// Checks that the file is there and has its length.
    pub fn check_len(&self, handle: &StreamHandle) -> Result<(), StorageError> {
        let StreamHandle::File { path, len, .. } = handle else { return Ok(()) };
        let key = self.key(path)?;
        let found = self.store.len(&key).map_err(|error| missing(error, *len))?;
        if found == *len {
            return Ok(());
        }
        let what = if found < *len { SHORT } else { "length in bytes (too long)" };
        Err(StorageError::corrupt(self.store.display(&key), what, len, found))
    }

    /// Checks length and checksum, reading a piece at a time.
    pub fn check_sum(&self, handle: &StreamHandle) -> Result<(), StorageError> {
        let StreamHandle::File { path, len, crc32c } = handle else { return Ok(()) };
        self.check_len(handle)?;
        let key = self.key(path)?;
        let (mut at, mut found) = (0, 0);
        while at < *len {
            let piece = self.store.read(&key, at, CHUNK.min(len - at))?;
            found = crc32c::crc32c_append(found, &piece);
            at += piece.len() as u64;
        }
        if found == *crc32c { Ok(()) } else { Err(checksum(&self.store.display(&key), *crc32c, found)) }
    }
}

impl SnapshotStore for Streams {
    /// Always fails: these are streams of somebody's finished snapshot.
    fn create(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        let reason = format!("`{name}` cannot be written to a finished snapshot, which is only read");
        let location = self.store.display(&self.anchor);
        Err(StorageError::BadLocation { location, reason }.into())
    }

    fn owns_shared(&self) -> bool {
        self.own
    }

    fn read(&self, handle: &StreamHandle, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        Ok(Streams::read(self, handle, offset, len)?)
    }

    fn read_all(&self, handle: &StreamHandle) -> io::Result<Vec<u8>> {
        Ok(Streams::read_all(self, handle)?)
    }
}

/// A file that a handle names and that is not there is damage: to try again cannot help.
fn missing(error: StorageError, len: u64) -> StorageError {
    match error {
        StorageError::NotFound { path } => {
            StorageError::corrupt(path, MISSING, format!("{len} bytes"), "no file")
        }
        other => other,
    }
}

/// Writes the streams of one subtask for one checkpoint, and reads those of earlier ones.
///
/// A file is called `chk-<n>/<subtask>-<name>-<process tag>-<count>`, one that later checkpoints may name too
/// `shared/<n>-<subtask>-<name>-<process tag>-<count>`. No other writer makes the same name: within an
/// attempt the subtask differs, a retry in the same process has another count, and another process another
/// tag. In a savepoint's own directory a file has the first name without `chk-<n>/`, and none of the second
/// kind is made.
#[derive(Clone, Debug)]
pub struct SubtaskSnapshots {
    streams: Streams,
    /// `None`: a savepoint, whose files lie at the anchor itself, and of which no other snapshot names one.
    checkpoint: Option<CheckpointId>,
    subtask: String,
    options: StorageOptions,
}

/// Counts over the whole process, since one subtask may open several stores for one checkpoint.
static NEXT_FILE: AtomicU64 = AtomicU64::new(0);

impl SubtaskSnapshots {
    pub(crate) fn new(
        streams: Streams,
        checkpoint: Option<CheckpointId>,
        subtask: &str,
        options: &StorageOptions,
    ) -> Self {
        Self { streams, checkpoint, subtask: plain(subtask), options: options.clone() }
    }

    fn file_name(&self, name: &str) -> String {
        let count = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
        format!("{}-{}-{:016x}-{count}", self.subtask, plain(name), self.options.process_tag)
    }

    fn open(&self, path: String, threshold: usize) -> io::Result<Box<dyn SnapshotStream>> {
        Ok(Box::new(StateStream {
            store: self.streams.store.clone(),
            key: self.streams.key(&path)?,
            path,
            threshold,
            start: Vec::new(),
            writer: None,
            len: 0,
            crc32c: 0,
            failed: false,
        }))
    }
}

/// Keeps letters, digits, `-`, `_` and turns the rest into `_`, so that a name is one part of a path
/// everywhere.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).take(100).collect()
}

impl SnapshotStore for SubtaskSnapshots {
    fn create(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        let name = self.file_name(name);
        let path = match self.checkpoint {
            Some(checkpoint) => join(&checkpoint_paths::checkpoint(checkpoint), &name),
            None => name,
        };
        let threshold = match self.options.inline_threshold() {
            0 => 0,
            threshold => threshold.max(self.streams.store.inline_at_least()),
        };
        self.open(path, threshold)
    }

    fn keeps_shared(&self) -> bool {
        self.checkpoint.is_some()
    }

    fn owns_shared(&self) -> bool {
        self.streams.own
    }

    fn create_shared(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        let Some(checkpoint) = self.checkpoint else {
            let location = self.streams.store.display(&self.streams.anchor);
            let reason = format!("`{name}` cannot be shared with other snapshots by a savepoint");
            return Err(StorageError::BadLocation { location, reason }.into());
        };
        // a handle can be named again only if it names a file, however small
        self.open(checkpoint_paths::shared_file(checkpoint, &self.file_name(name)), 0)
    }

    fn read(&self, handle: &StreamHandle, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        Ok(self.streams.read(handle, offset, len)?)
    }

    fn read_all(&self, handle: &StreamHandle) -> io::Result<Vec<u8>> {
        Ok(self.streams.read_all(handle)?)
    }
}

/// One stream: gathered in memory until it outgrows the threshold, a file from then on.
#[derive(Debug)]
struct StateStream {
    store: Arc<dyn BlobStore>,
    key: String,
    path: String,
    threshold: usize,
    start: Vec<u8>,
    writer: Option<Box<dyn BlobWriter>>,
    len: u64,
    crc32c: u32,
    /// A write failed: what follows must not be taken for the whole stream.
    failed: bool,
}

impl StateStream {
    fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        self.len += bytes.len() as u64;
        if let Some(writer) = &mut self.writer {
            return writer.write(bytes);
        }
        if self.len < self.threshold as u64 {
            self.start.extend_from_slice(bytes);
            return Ok(());
        }
        self.writer.insert(self.store.create(&self.key)?).write(&std::mem::take(&mut self.start))?;
        self.append_to_file(bytes)
    }

    fn append_to_file(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(bytes))
    }

    fn close(mut self) -> Result<StreamHandle, StorageError> {
        if self.failed {
            let reason = "an earlier write to it failed".into();
            return Err(StorageError::BadLocation { location: self.store.display(&self.key), reason });
        }
        // a threshold of nought means files always, for an empty stream too
        if self.writer.is_none() && self.len >= self.threshold as u64 {
            self.writer = Some(self.store.create(&self.key)?);
        }
        match self.writer.take() {
            None => Ok(StreamHandle::Inline { bytes: std::mem::take(&mut self.start).into() }),
            Some(writer) => {
                writer.finish()?;
                let path = std::mem::take(&mut self.path);
                Ok(StreamHandle::File { path, len: self.len, crc32c: self.crc32c })
            }
        }
    }
}

impl io::Write for StateStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.append(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.failed = true;
                self.writer = None;
                Err(error.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // only `finish` makes anything durable; to flush half a stream would help nobody
        Ok(())
    }
}

impl SnapshotStream for StateStream {
    fn finish(self: Box<Self>) -> io::Result<StreamHandle> {
        Ok((*self).close()?)
    }
}
