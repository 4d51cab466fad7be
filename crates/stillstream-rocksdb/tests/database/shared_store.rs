//! A storage in a folder whose files several checkpoints may name, for tests of incremental snapshots.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use stillstream_types::StreamHandle;
use stillstream_types::streams::{SnapshotStore, SnapshotStream};

/// Paths are relative to `root`, `shared/..` or `own/..`.
#[derive(Debug)]
pub struct SharedStore {
    root: PathBuf,
    count: AtomicU64,
    /// Names that `create_shared` was called with since the last look.
    uploaded: std::sync::Arc<Mutex<Vec<String>>>,
    /// Every write fails.
    pub full: AtomicBool,
    shares: bool,
    /// Bytes written since the last look.
    bytes: std::sync::Arc<AtomicU64>,
}

impl SharedStore {
    pub fn new(root: &Path) -> Self {
        for folder in ["shared", "own"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        Self {
            root: root.into(),
            count: AtomicU64::new(0),
            uploaded: Default::default(),
            full: AtomicBool::new(false),
            shares: true,
            bytes: Default::default(),
        }
    }

    /// The same storage, as one that keeps each snapshot by itself.
    #[allow(dead_code, reason = "not every test program uses it")]
    pub fn without_sharing(root: &Path) -> Self {
        Self { shares: false, ..Self::new(root) }
    }

    /// How many bytes were written, to shared files or not, since the last call.
    #[allow(dead_code, reason = "not every test program uses it")]
    pub fn take_bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::Relaxed)
    }

    /// How many shared files were written since the last call.
    #[allow(dead_code, reason = "not every test program uses it")]
    pub fn take_uploads(&self) -> usize {
        std::mem::take(&mut *self.uploaded.lock().expect("no panic while it was held")).len()
    }

    /// Where a stream lies.
    #[allow(dead_code, reason = "not every test program uses it")]
    pub fn path(&self, handle: &StreamHandle) -> PathBuf {
        self.root.join(handle.path().expect("a file"))
    }

    fn stream(&self, folder: &str, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        if self.full.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(28));
        }
        let n = self.count.fetch_add(1, Ordering::Relaxed);
        let relative = format!("{folder}/{n}-{name}");
        let file = File::create(self.root.join(&relative))?;
        Ok(Box::new(Stream { file, relative, len: 0, crc: 0, bytes: self.bytes.clone() }))
    }
}

impl SnapshotStore for SharedStore {
    fn create(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        self.stream("own", name)
    }

    fn keeps_shared(&self) -> bool {
        self.shares
    }

    fn owns_shared(&self) -> bool {
        self.shares
    }

    fn create_shared(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        assert!(self.shares, "a backend asks first");
        self.uploaded.lock().expect("no panic while it was held").push(name.into());
        self.stream("shared", name)
    }

    fn read(&self, handle: &StreamHandle, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path(handle))?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = vec![0; len as usize];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn read_all(&self, handle: &StreamHandle) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.path(handle))?;
        let StreamHandle::File { len, crc32c, .. } = handle else { return Err(io::Error::other("no file")) };
        match bytes.len() as u64 == *len && crc32c::crc32c(&bytes) == *crc32c {
            true => Ok(bytes),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "length or checksum are wrong")),
        }
    }
}

struct Stream {
    file: File,
    relative: String,
    len: u64,
    crc: u32,
    bytes: std::sync::Arc<AtomicU64>,
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.len += n as u64;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl SnapshotStream for Stream {
    fn finish(self: Box<Self>) -> io::Result<StreamHandle> {
        Ok(StreamHandle::File { path: self.relative, len: self.len, crc32c: self.crc })
    }
}
