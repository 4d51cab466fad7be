//! The job of these tests: numbers, a running sum by key, and rows that are committed exactly once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use stillstream::config::options;
use stillstream::prelude::*;

use crate::paced::Paced;

pub const RECORDS: u64 = 30_000;
pub const KEYS: u64 = 100;
/// How many records there are for each checkpoint.
pub const STEP: u64 = RECORDS / 10;
/// Far more than anything here needs, however busy the machine is.
pub const LONG: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    Memory,
    Heap,
    #[cfg(feature = "rocksdb")]
    RocksDb,
}

pub const FILES: &[Backend] = &[
    Backend::Heap,
    #[cfg(feature = "rocksdb")]
    Backend::RocksDb,
];

/// A run of the job.
#[derive(Clone, Debug)]
pub struct Run {
    pub folder: PathBuf,
    pub backend: Backend,
    /// The folder of checkpoints, within `folder`.
    pub checkpoints: &'static str,
    pub parallelism: u32,
    pub interval: Option<Duration>,
    pub from: Option<String>,
    pub incremental: bool,
}

impl Run {
    pub fn new(folder: &Path, backend: Backend) -> Self {
        Self {
            folder: folder.into(),
            backend,
            checkpoints: "checkpoints",
            parallelism: 2,
            interval: Some(millis(20)),
            from: None,
            incremental: true,
        }
    }

    pub fn from(self, from: impl Into<String>) -> Self {
        Self { from: Some(from.into()), ..self }
    }

    pub fn environment(&self) -> StreamExecutionEnvironment {
        let mut env = StreamExecutionEnvironment::new();
        let checkpoints = self.folder.join(self.checkpoints).display().to_string();
        match self.backend {
            Backend::Memory => {}
            Backend::Heap => {
                env.set_state_backend(FsStateBackend::new(checkpoints));
                env.set_incremental_checkpoints(self.incremental);
            }
            #[cfg(feature = "rocksdb")]
            Backend::RocksDb => {
                env.set_state_backend(RocksDbStateBackend::new(checkpoints).incremental(self.incremental));
                let local = self.folder.join("local").display().to_string();
                env.configuration_mut().set(options::ROCKSDB_LOCAL_DIR, Some(local));
            }
        }
        env.set_parallelism(self.parallelism)
            .set_restart_strategy(RestartStrategy::fixed_delay(5, millis(1)))
            .set_default_savepoint_dir(self.folder.join("savepoints").display().to_string());
        env.configuration_mut().set(options::DATA_INLINE_THRESHOLD, config_bytes(100));
        if let Some(interval) = self.interval {
            env.enable_checkpointing(interval);
        }
        if let Some(from) = &self.from {
            env.restore_from(from);
        }
        env
    }

    /// The sums, as a stream.
    pub fn sums(&self, env: &StreamExecutionEnvironment) -> DataStream<(u64, u64)> {
        env.from_source("numbers", Paced::new(Generator::new(RECORDS, |n| n), STEP, STEP))
            .uid("numbers")
            .key_by(|n| n % KEYS)
            .map_with_state("sum", |sum: &mut u64, n| {
                *sum += n;
                (n, *sum)
            })
            .uid("sum")
    }

    /// Starts the job, with rows in `folder/out`.
    pub fn start(&self) -> JobClient {
        let env = self.environment();
        self.sums(&env).sink_to("out", FileSink::csv(self.folder.join("out"))).uid("out");
        env.execute_async("sums").unwrap()
    }

    pub fn savepoints(&self) -> PathBuf {
        self.folder.join("savepoints")
    }
}

fn config_bytes(bytes: u64) -> stillstream::config::ByteSize {
    stillstream::config::ByteSize::from_bytes(bytes)
}

/// Waits until at least so many records have reached a sink.
pub fn wait_for(job: &JobClient, records: u64) {
    let there = job.wait_until(LONG, |job| job.metrics().records_out >= records || job.has_ended());
    assert!(there && !job.has_ended(), "{:?} after {} records", job.status(), job.metrics().records_out);
}

/// The committed rows; everything else in the folder is what a job keeps for itself.
pub fn rows(out: &Path) -> Vec<(u64, u64)> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(out).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            let text = fs::read_to_string(path).unwrap();
            rows.extend(text.lines().map(|line| {
                let (n, sum) = line.split_once(',').unwrap();
                (n.parse::<u64>().unwrap(), sum.parse::<u64>().unwrap())
            }));
        }
    }
    rows
}

/// Each record is there once, and the largest sum of each key is that of an undisturbed run.
pub fn check(mut rows: Vec<(u64, u64)>, what: &str) {
    let mut largest = BTreeMap::<u64, u64>::new();
    for (n, sum) in &rows {
        let of_key = largest.entry(n % KEYS).or_default();
        *of_key = sum.max(of_key).to_owned();
    }
    rows.sort_unstable();
    let numbers: Vec<u64> = rows.iter().map(|(n, _)| *n).collect();
    assert!(numbers == (0..RECORDS).collect::<Vec<_>>(), "{what}: {} rows", numbers.len());
    for key in 0..KEYS {
        let expected: u64 = (key..RECORDS).step_by(KEYS as usize).sum();
        assert_eq!(largest[&key], expected, "{what}: the last sum of key {key}");
    }
}

/// All files below a folder, by their paths within it.
pub fn files(folder: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(root, &path, found),
                false => found.push(path.strip_prefix(root).unwrap().display().to_string()),
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}
