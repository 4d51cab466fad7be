//! The door between state and storage.
//!
//! A backend writes its snapshot through [`SnapshotStore`] and does not know whether the bytes go to a
//! folder, an object store or into the acknowledgement. All calls block; they are made on the snapshot pool,
//! never by a worker.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::handle::StreamHandle;

/// Makes streams for one snapshot of one subtask, and reads streams of earlier ones.
pub trait SnapshotStore: Send + Sync + fmt::Debug {
    /// Opens a stream for new state. `name` tells a person what is inside (letters, digits, `-`); the store
    /// makes the path unique.
    fn create(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>>;

    /// Whether [`create_shared`](Self::create_shared) works: later checkpoints may name what this one writes.
    /// Without it every snapshot is a full one.
    fn keeps_shared(&self) -> bool {
        false
    }

    /// Opens a stream for a file that later checkpoints may name too. It always becomes a file, below
    /// `shared/`.
    ///
    /// # Errors
    /// `Unsupported`, unless [`keeps_shared`](Self::keeps_shared) says otherwise.
    fn create_shared(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "`{name}` cannot be shared between checkpoints: this storage keeps each snapshot by itself"
            ),
        ))
    }

    /// Whether the shared files that are read here are the job's own, so that its next checkpoints may name
    /// them again. If not (the snapshot was taken by another job, or belongs to a person), a backend that is
    /// restored from them has to write everything anew.
    fn owns_shared(&self) -> bool {
        false
    }

    /// The largest snapshot of one single state that this store takes, if it has such a limit (the memory
    /// backend's `max_state_size`). A backend checks it state by state, so that its error can name the state.
    fn max_state_size(&self) -> Option<u64> {
        None
    }

    /// Reads `len` bytes at `offset`. Fails with `UnexpectedEof` where the stream is shorter. The caller
    /// checks the checksum of what it reads (see [`KeyGroupSection`](crate::KeyGroupSection)).
    fn read(&self, handle: &StreamHandle, offset: u64, len: u64) -> io::Result<Vec<u8>>;

    /// Reads a whole stream and verifies length and checksum; the error names the path, what was expected and
    /// what was found.
    fn read_all(&self, handle: &StreamHandle) -> io::Result<Vec<u8>>;
}

/// One stream of snapshot bytes being written. Dropped without [`finish`](SnapshotStream::finish), it leaves
/// nothing behind.
pub trait SnapshotStream: io::Write + Send {
    /// Makes everything durable and returns the handle; only then may it be acknowledged.
    fn finish(self: Box<Self>) -> io::Result<StreamHandle>;
}

/// Another store that counts the bytes which are read through it.
#[derive(Debug)]
pub struct CountedReads<'a> {
    store: &'a dyn SnapshotStore,
    bytes: AtomicU64,
}

impl<'a> CountedReads<'a> {
    /// Nothing is read yet.
    pub fn new(store: &'a dyn SnapshotStore) -> Self {
        Self { store, bytes: AtomicU64::new(0) }
    }

    /// How many bytes were read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn counted(&self, read: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
        read.inspect(|bytes| {
            self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        })
    }
}

impl SnapshotStore for CountedReads<'_> {
    fn create(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        self.store.create(name)
    }

    fn keeps_shared(&self) -> bool {
        self.store.keeps_shared()
    }

    fn create_shared(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        self.store.create_shared(name)
    }

    fn owns_shared(&self) -> bool {
        self.store.owns_shared()
    }

    fn max_state_size(&self) -> Option<u64> {
        self.store.max_state_size()
    }

    fn read(&self, handle: &StreamHandle, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        self.counted(self.store.read(handle, offset, len))
    }

    fn read_all(&self, handle: &StreamHandle) -> io::Result<Vec<u8>> {
        self.counted(self.store.read_all(handle))
    }
}
