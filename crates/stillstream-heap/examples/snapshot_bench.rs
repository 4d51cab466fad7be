//! What a snapshot costs the worker and writes to the disk:
//! `cargo run --release -p stillstream-heap --example snapshot_bench [keys]` (10^7 by default, 10^5 in a
//! debug build).
//!
//! A thread updates uniform random keys in batches of 1024 while another one writes. *Lost* is what the
//! batches during a snapshot took beyond those before it. The next updates are 1 % of the keys: scattered,
//! then side by side in the table.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stillstream_heap::{HeapKeyedStateBackend, HeapValues};
use stillstream_state::table::KeysBy;
use stillstream_state::{BackendOptions, Key, KeyedBackend, KeyedValues, StateError};
use stillstream_types::streams::{SnapshotStore, SnapshotStream};
use stillstream_types::{CheckpointId, KeyGroups, KeyHash, KeyedSnapshot, StreamHandle};

const BATCH: usize = 1024;

#[expect(clippy::disallowed_methods, reason = "a benchmark needs a clock")]
fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Files in a folder; each is made durable once, at its end.
#[derive(Debug)]
struct Folder(PathBuf, AtomicU64);

struct FolderFile {
    path: PathBuf,
    file: File,
    len: u64,
    crc32c: u32,
}

impl Write for FolderFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        self.len += bytes.len() as u64;
        self.file.write_all(bytes).map(|()| bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SnapshotStream for FolderFile {
    fn finish(self: Box<Self>) -> io::Result<StreamHandle> {
        self.file.sync_data()?;
        std::fs::remove_file(&self.path)?;
        Ok(StreamHandle::File { path: "shared/gone".into(), len: self.len, crc32c: self.crc32c })
    }
}

impl SnapshotStore for Folder {
    fn create(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        let path = self.0.join(format!("{name}-{number}-{}", std::process::id()));
        let file = File::create(&path)?;
        Ok(Box::new(FolderFile { path, file, len: 0, crc32c: 0 }))
    }
    fn keeps_shared(&self) -> bool {
        true
    }
    fn create_shared(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        self.create(name)
    }
    fn read(&self, _: &StreamHandle, _: u64, _: u64) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn read_all(&self, _: &StreamHandle) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

struct Worker {
    backend: HeapKeyedStateBackend<u64>,
    sums: HeapValues<u64, u64>,
    groups: KeyGroups,
    store: Folder,
    keys: u64,
    seed: u64,
    id: u64,
}

impl Worker {
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
    }

    fn update(&self, keys: &[u64], hashes: &[KeyHash]) -> Result<(), StateError> {
        self.sums.update_batch(hashes, &KeysBy(|i: usize| keys[i]), || 0, |_, sum| *sum += 1)
    }

    /// A batch of uniform keys; how long it took.
    fn batch(&mut self) -> Result<Duration, StateError> {
        let keys: Vec<u64> = (0..BATCH).map(|_| self.random() % self.keys).collect();
        let hashes: Vec<KeyHash> = keys.iter().map(|key| key.key_hash(self.groups)).collect();
        let (time, done) = timed(|| self.update(&keys, &hashes));
        done.map(|()| time)
    }

    fn touch(&self, keys: impl Iterator<Item = u64>) -> Result<(), StateError> {
        let keys: Vec<u64> = keys.collect();
        let hashes: Vec<KeyHash> = keys.iter().map(|key| key.key_hash(self.groups)).collect();
        self.update(&keys, &hashes)
    }

    /// A checkpoint while updates go on.
    fn busy_checkpoint(&mut self, what: &str) -> Result<(), StateError> {
        let mut idle: Vec<Duration> = (0..2000).map(|_| self.batch()).collect::<Result<_, _>>()?;
        idle.sort();
        self.checkpoint(what, Some(idle[idle.len() / 2]))
    }

    /// A full snapshot while updates go on, once: nobody tells changes from it.
    fn busy_snapshot(&mut self, what: &str) -> Result<(), StateError> {
        let mut idle: Vec<Duration> = (0..2000).map(|_| self.batch()).collect::<Result<_, _>>()?;
        idle.sort();
        let usual = idle[idle.len() / 2];
        let (sync, frozen) = timed(|| self.backend.freeze());
        let (frozen, store) = (frozen?, Folder(self.store.0.clone(), AtomicU64::new(0)));
        let writer = std::thread::Builder::new().spawn(move || timed(|| frozen.write(&store, "bench")));
        let writer = writer.map_err(|source| StateError::Io { what: "starting a thread".into(), source })?;
        let (mut worst, mut lost, mut batches) = (Duration::ZERO, 0.0, 0);
        while !writer.is_finished() {
            let time = self.batch()?;
            worst = worst.max(time);
            lost += ms(time) - ms(usual);
            batches += 1;
        }
        let Ok((time, handles)) = writer.join() else { return Ok(()) };
        let bytes: u64 = handles?.iter().map(|handle| handle.stream.len()).sum();
        println!(
            "{what:24} {bytes:>11} bytes; freeze {:.2} ms, written in {:.0} ms; {batches} batches meanwhile: worst {:.2} ms, \
             usual {:.3}, lost {lost:.0} ms",
            ms(sync),
            ms(time),
            ms(worst),
            ms(usual),
        );
        Ok(())
    }

    /// A checkpoint; `usual` is the time of a batch, if batches are to go on.
    fn checkpoint(&mut self, what: &str, usual: Option<Duration>) -> Result<(), StateError> {
        self.id += 1;
        let id = CheckpointId(self.id);
        let (sync, frozen) = timed(|| self.backend.freeze_checkpoint(id));
        let (frozen, store) = (frozen?, Folder(self.store.0.clone(), AtomicU64::new(self.id * 100)));
        let writer = std::thread::Builder::new().spawn(move || timed(|| frozen.write(&store, "bench")));
        let writer = writer.map_err(|source| StateError::Io { what: "starting a thread".into(), source })?;
        let (mut worst, mut lost, mut batches) = (Duration::ZERO, 0.0, 0);
        while let Some(usual) = usual
            && !writer.is_finished()
        {
            let time = self.batch()?;
            worst = worst.max(time);
            lost += ms(time) - ms(usual);
            batches += 1;
        }
        let Ok((time, snapshot)) = writer.join() else { return Ok(()) };
        let snapshot: KeyedSnapshot = snapshot?;
        self.backend.checkpoint_completed(id);
        let files = &snapshot.incremental[0].files;
        let bytes = files.last().map_or(0, |file| file.stream.len());
        let size = &self.backend.state_sizes()[0];
        println!(
            "{what:24} {bytes:>11} bytes (file {:>2}); freeze {:.2} ms, written in {:.0} ms; {batches} batches meanwhile: worst \
             {:.2} ms, lost {lost:.0} ms; {:.1} bytes/key in the table",
            files.len(),
            ms(sync),
            ms(time),
            ms(worst),
            size.memory_bytes as f64 / self.keys as f64,
        );
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "an example is a shell")]
fn main() -> Result<(), StateError> {
    let keys = std::env::args().nth(1).and_then(|keys| keys.parse().ok());
    let keys: u64 = keys.unwrap_or(if cfg!(debug_assertions) { 100_000 } else { 10_000_000 });
    let groups = KeyGroups::new(128);
    let mut backend = HeapKeyedStateBackend::new(BackendOptions::new(groups, groups.all()).incremental(true));
    let sums = backend.keyed_value("sums")?;
    let store = Folder(std::env::temp_dir(), AtomicU64::new(0));
    let mut worker = Worker { backend, sums, groups, store, keys, seed: 1, id: 0 };
    for first in (0..keys).step_by(BATCH) {
        worker.touch(first..keys.min(first + BATCH as u64))?;
    }
    for what in ["full, busy", "full, busy", "full, busy"] {
        worker.busy_snapshot(what)?;
    }
    for what in ["first image, busy", "changes, busy", "changes, busy"] {
        worker.busy_checkpoint(what)?;
    }
    worker.checkpoint("(base)", None)?;
    worker.touch((0..keys).step_by(100))?;
    worker.checkpoint("1 % scattered", None)?;
    let wanted = (keys / 100) as usize;
    worker.touch((0..keys).filter(|key| key.key_hash(groups).group().0 < 2).take(wanted))?;
    worker.checkpoint("1 % side by side", None)?;
    worker.checkpoint("nothing", None)
}
