//! A file that is written from start to end, past the page cache where it is large.
//!
//! A snapshot is written once and synced at once. By way of the page cache each byte is copied into memory
//! that the kernel has to find and clear first, and the sync writes it all at the end: for 80 MB that took 30
//! to 180 ms of CPU time and a sync of 70 to 150 ms. Direct writes took 10 ms, the disk was at work from the
//! first of them on, and the sync took 5 ms.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Memory and length of direct writes are multiples of it: the largest block that disks and file systems ask
/// for.
const ALIGN: usize = 4096;
/// Buffers that are kept for later files: as many as a process usually writes at once.
const SPARE: usize = 4;

/// How a file is written.
#[derive(Debug)]
enum Direct {
    /// Not asked yet: it has been small so far.
    Unknown,
    /// By a second handle.
    Yes(File),
    /// The file system does not do it.
    No,
}

/// A file that nobody else writes, of which all bytes lie in the operating system or in a [`Buffer`].
#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
    direct: Direct,
    len: u64,
}

impl DiskFile {
    /// A new file.
    pub fn new(file: File) -> Self {
        Self { file, direct: Direct::Unknown, len: 0 }
    }

    /// Appends. All but the last call should write a full [`Buffer`], which then goes past the page cache;
    /// `path` is the file's.
    pub fn write(&mut self, mut bytes: &[u8], path: &Path) -> io::Result<()> {
        let blocks =
            |bytes: &[u8]| bytes.as_ptr().addr().is_multiple_of(ALIGN) && bytes.len().is_multiple_of(ALIGN);
        if blocks(bytes) && self.len.is_multiple_of(ALIGN as u64) {
            if let Direct::Unknown = self.direct {
                self.direct = open_direct(path).map_or(Direct::No, Direct::Yes);
            }
            while let (Direct::Yes(direct), false) = (&mut self.direct, bytes.is_empty()) {
                match direct.write(bytes) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        self.len += written as u64;
                        bytes = &bytes[written..];
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // it wants larger blocks, or has written a part of one
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.direct = Direct::No,
                    Err(error) => return Err(error),
                }
            }
        }
        if !bytes.is_empty() {
            // direct writes do not move it
            self.file.seek(SeekFrom::Start(self.len))?;
            self.file.write_all(bytes)?;
            self.len += bytes.len() as u64;
        }
        Ok(())
    }

    /// Makes all bytes durable, those of direct writes too: the disk may have them in its cache, and the file
    /// its old length.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // file systems without it refuse to open
    std::fs::OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &Path) -> Option<File> {
    None
}

/// Bytes that are gathered for one write.
#[derive(Default)]
pub(super) struct Buffer {
    /// The bytes from `start` on are aligned. Empty until it is needed, then never moved.
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// Copies what fits, and says how much that was. `capacity` is the same in all calls.
    pub fn fill(&mut self, bytes: &[u8], capacity: usize, spare: &Spare) -> usize {
        if self.memory.is_empty() {
            self.memory = spare.take(capacity + ALIGN);
            self.start = self.memory.as_ptr().align_offset(ALIGN);
        }
        let count = bytes.len().min(capacity - self.len);
        let at = self.start + self.len;
        self.memory[at..at + count].copy_from_slice(&bytes[..count]);
        self.len += count;
        count
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Gives the memory back.
    pub fn give_back(&mut self, spare: &Spare) {
        spare.give(std::mem::take(self).memory);
    }
}

/// Memory of buffers that are not in use.
#[derive(Default)]
pub(super) struct Spare(Mutex<Vec<Vec<u8>>>);

// what is in them is users' state, and no message's business
impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spare")
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

impl Spare {
    fn take(&self, len: usize) -> Vec<u8> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.filter(|memory| memory.len() == len).unwrap_or_else(|| vec![0; len])
    }

    fn give(&self, memory: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !memory.is_empty() && spare.len() < SPARE {
            spare.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 2 * ALIGN;

    /// Writes `bytes` in pieces; says what became of direct writes.
    fn write(path: &Path, bytes: &[u8], piece: usize, direct: Direct) -> io::Result<Direct> {
        let spare = Spare::default();
        let mut file = DiskFile { file: File::create_new(path)?, direct, len: 0 };
        let mut buffer = Buffer::default();
        for mut piece in bytes.chunks(piece) {
            while !piece.is_empty() {
                if buffer.bytes().len() == CAPACITY {
                    file.write(buffer.bytes(), path)?;
                    buffer.clear();
                }
                piece = &piece[buffer.fill(piece, CAPACITY, &spare)..];
            }
        }
        if !bytes.is_empty() {
            file.write(buffer.bytes(), path)?;
        }
        file.sync()?;
        Ok(file.direct)
    }

    #[test]
    fn a_file_of_any_length_holds_what_was_written_whether_or_not_the_file_system_does_direct_writes()
    -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let all: Vec<u8> = (0..10 * ALIGN as u32).map(|n| ((n * n) >> 5) as u8).collect();
        let lengths = [0, 1, CAPACITY - 1, CAPACITY, CAPACITY + 1, 3 * ALIGN, 4 * ALIGN, 10 * ALIGN - 7];
        for (at, len) in lengths.into_iter().enumerate() {
            for piece in [100, ALIGN, 3 * ALIGN + 1] {
                let bytes = &all[..len];
                let direct = dir.path().join(format!("direct-{at}-{piece}"));
                write(&direct, bytes, piece, Direct::Unknown)?;
                assert!(std::fs::read(&direct)? == bytes, "{len} bytes in pieces of {piece}");
                let cached = dir.path().join(format!("cached-{at}-{piece}"));
                write(&cached, bytes, piece, Direct::No)?;
                assert!(std::fs::read(&cached)? == bytes, "{len} bytes in pieces of {piece}, by the cache");
            }
        }
        Ok(())
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_a_direct_write_refuses_is_written_through_the_cache() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("file");
        // a handle that is open for reading refuses every write, though not as one that wants other blocks
        let mut file = DiskFile { file: File::create_new(&path)?, direct: Direct::Unknown, len: 0 };
        let (spare, mut buffer) = (Spare::default(), Buffer::default());
        buffer.fill(&[7; ALIGN], ALIGN, &spare);
        file.direct = Direct::Yes(File::open("/dev/null")?);
        assert!(file.write(buffer.bytes(), &path).is_err(), "an error is not passed over");
        // timers refuse writes with EINVAL, as file systems refuse blocks that are too small
        // SAFETY: makes a file descriptor that nobody else has
        let timer = unsafe {
            use std::os::fd::FromRawFd;
            File::from_raw_fd(libc::timerfd_create(libc::CLOCK_MONOTONIC, 0))
        };
        file.direct = Direct::Yes(timer);
        file.write(buffer.bytes(), &path)?;
        assert!(matches!(file.direct, Direct::No));
        file.write(b"tail", &path)?;
        assert_eq!(std::fs::read(&path)?, [&[7; ALIGN][..], b"tail"].concat());
        Ok(())
    }
}
