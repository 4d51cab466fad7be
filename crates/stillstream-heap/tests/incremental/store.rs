//! A store in memory that keeps files between checkpoints, and deletes what no checkpoint names.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use stillstream_state::MemorySnapshotStore;
use stillstream_types::streams::{SnapshotStore, SnapshotStream};
use stillstream_types::{KeyedSnapshot, StreamHandle};

#[derive(Clone, Debug, Default)]
pub struct SharedFiles {
    files: Arc<Mutex<Files>>,
    /// The files are another job's.
    foreign: bool,
}

#[derive(Debug, Default)]
struct Files {
    files: BTreeMap<String, Vec<u8>>,
    next: u64,
}

struct FileStream {
    store: SharedFiles,
    bytes: Vec<u8>,
}

impl Write for FileStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SnapshotStream for FileStream {
    fn finish(self: Box<Self>) -> io::Result<StreamHandle> {
        let mut files = self.store.files.lock().unwrap();
        files.next += 1;
        let path = format!("shared/{}", files.next);
        let (len, crc32c) = (self.bytes.len() as u64, crc32c::crc32c(&self.bytes));
        files.files.insert(path.clone(), self.bytes);
        Ok(StreamHandle::File { path, len, crc32c })
    }
}

impl SharedFiles {
    /// The same files as another job sees them.
    pub fn of_another_job(&self) -> Self {
        Self { foreign: true, ..self.clone() }
    }

    /// Deletes all files but those that these snapshots name.
    pub fn keep<'a>(&self, snapshots: impl IntoIterator<Item = &'a KeyedSnapshot>) {
        let handles = snapshots.into_iter().flat_map(|snapshot| &snapshot.incremental);
        let named: Vec<&str> =
            handles.flat_map(|handle| handle.streams()).filter_map(StreamHandle::path).collect();
        self.files.lock().unwrap().files.retain(|path, _| named.contains(&path.as_str()));
    }

    /// Whether every file that it names is there.
    pub fn has_all(&self, snapshot: &KeyedSnapshot) -> bool {
        let files = &self.files.lock().unwrap().files;
        let mut streams = snapshot.incremental.iter().flat_map(|handle| handle.streams());
        streams.all(|stream| stream.path().is_none_or(|path| files.contains_key(path)))
    }

    /// Turns one bit around in a file.
    pub fn damage(&self, path: &str, at: usize) {
        self.files.lock().unwrap().files.get_mut(path).unwrap()[at] ^= 4;
    }
}

impl SnapshotStore for SharedFiles {
    fn create(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        MemorySnapshotStore::unlimited().create(name)
    }
    fn keeps_shared(&self) -> bool {
        true
    }
    fn owns_shared(&self) -> bool {
        !self.foreign
    }
    fn create_shared(&self, _: &str) -> io::Result<Box<dyn SnapshotStream>> {
        Ok(Box::new(FileStream { store: self.clone(), bytes: Vec::new() }))
    }
    fn read(&self, handle: &StreamHandle, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let StreamHandle::File { path, .. } = handle else {
            return MemorySnapshotStore::unlimited().read(handle, offset, len);
        };
        let files = self.files.lock().unwrap();
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("`{path}` is gone"));
        let bytes = files.files.get(path).ok_or_else(missing)?;
        let part = bytes.get(offset as usize..(offset + len) as usize);
        part.map(<[u8]>::to_vec).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }
    fn read_all(&self, handle: &StreamHandle) -> io::Result<Vec<u8>> {
        self.read(handle, 0, handle.len())
    }
}
