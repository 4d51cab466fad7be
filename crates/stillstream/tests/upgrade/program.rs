//! Programs of which there are several versions, and what they leave.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use stillstream::JobStatus;
use stillstream::prelude::*;

pub const LONG: Duration = Duration::from_secs(60);

/// A folder with checkpoints of jobs.
pub struct Place(pub tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn dir(&self) -> PathBuf {
        self.0.path().join("ck")
    }

    /// An environment whose job keeps its checkpoints here, each part of its state in a file of its own.
    pub fn env(&self) -> StreamExecutionEnvironment {
        let mut env = StreamExecutionEnvironment::new();
        env.set_parallelism(2).enable_checkpointing(hours(24)).set_num_retained(1);
        env.set_state_backend(FsStateBackend::new(self.dir().display().to_string()));
        env.set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
        env.set_restart_strategy(RestartStrategy::none());
        let inline = stillstream::config::options::DATA_INLINE_THRESHOLD;
        env.configuration_mut().set(inline, stillstream::config::ByteSize::from_bytes(0));
        env
    }
}

/// Numbers without an end.
pub fn numbers(env: &StreamExecutionEnvironment) -> DataStream<u64> {
    let numbers = Generator::unbounded(|n| n).records_per_second(20_000.0);
    env.from_source("numbers", numbers).uid("numbers")
}

/// Counts numbers by their last digit in value state `seen`; `largest` is the largest count.
pub fn count(numbers: DataStream<u64>, uid: &str, largest: &Arc<AtomicU64>) {
    let largest = largest.clone();
    numbers
        .key_by(|n| n % 10)
        .map_with_state("seen", move |seen: &mut u64, _| {
            *seen += 1;
            largest.fetch_max(*seen, SeqCst);
        })
        .name("count")
        .uid(uid)
        .discard();
}

/// Waits until a job runs, with all its subtasks, and has read so many records.
#[track_caller]
pub fn reads(job: &JobClient, records: u64) {
    let far = |job: &JobClient| job.status() == JobStatus::Running && job.metrics().records_in > records;
    assert!(job.wait_until(LONG, far), "{:?}", job.status());
}

/// Runs a job until it has read so many records, takes a checkpoint and cancels it. Gives the checkpoint's
/// directory.
pub fn take(env: &StreamExecutionEnvironment, name: &str, records: u64) -> PathBuf {
    let job = env.execute_async(name).unwrap();
    reads(&job, records);
    let taken = job.trigger_checkpoint().unwrap();
    job.cancel();
    assert!(job.wait().is_err());
    PathBuf::from(taken.path)
}

/// Runs job `first` until it has read so many records, takes a savepoint and cancels it. Gives the
/// savepoint's directory.
pub fn savepoint(env: &StreamExecutionEnvironment, place: &Place, records: u64) -> PathBuf {
    let job = env.execute_async("first").unwrap();
    reads(&job, records);
    let folder = place.0.path().join("savepoints");
    let taken = job.trigger_savepoint(Some(folder.to_str().unwrap()), SavepointFormat::Canonical).unwrap();
    job.cancel();
    assert!(job.wait().is_err());
    PathBuf::from(taken.path)
}

/// Starts a job and cancels it when it has read a few records; or says why it was refused.
pub fn starts(env: &StreamExecutionEnvironment, name: &str) -> Result<()> {
    let job = env.execute_async(name)?;
    assert!(job.wait_until(LONG, |job| job.metrics().records_in > 100 || job.status().is_terminal()));
    job.cancel();
    match job.wait() {
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(()),
        other => other.map(drop),
    }
}

/// The refusal of a start, as one text.
#[track_caller]
pub fn refused(env: &StreamExecutionEnvironment, name: &str) -> String {
    let error = starts(env, name).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    error.to_string()
}

/// All files below a folder with their contents.
pub fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push((path.clone(), std::fs::read(&path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

#[track_caller]
pub fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` in: {text}");
    }
}
