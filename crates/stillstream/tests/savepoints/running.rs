//! A savepoint of a job that goes on.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use stillstream::connect::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId};

use crate::program::{Backend, FILES, KEYS, LONG, RECORDS, Run, STEP, check, files, rows, wait_for};

/// Commits the rows that lie in the snapshot itself: what a savepoint has pre-committed can so be committed
/// by a job that has nothing else of the first one.
#[derive(Clone, Default)]
struct Rows {
    written: Vec<(u64, u64)>,
    committed: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Rows {
    fn items(&self) -> Vec<(u64, u64)> {
        self.committed.lock().unwrap().clone()
    }
}

impl Sink<(u64, u64)> for Rows {
    type Committable = Vec<(u64, u64)>;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<(u64, u64), Vec<(u64, u64)>>>> {
        Ok(Box::new(self.clone()))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<Vec<(u64, u64)>>>> {
        let committed = self.committed.clone();
        Ok(Box::new(move |rows: &Vec<(u64, u64)>| {
            committed.lock().unwrap().extend(rows);
            Ok(())
        }))
    }
}

impl SinkWriter<(u64, u64), Vec<(u64, u64)>> for Rows {
    fn write(&mut self, batch: Batch<(u64, u64)>) -> Result<()> {
        self.written.extend(batch.values);
        Ok(())
    }
    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<Vec<(u64, u64)>>>> {
        Ok(Some(Prepared::done(std::mem::take(&mut self.written))))
    }
}

fn collected(run: &Run) -> (JobClient, Rows) {
    let (env, out) = (run.environment(), Rows::default());
    run.sums(&env).sink_to("out", out.clone()).uid("out");
    (env.execute_async("sums").unwrap(), out)
}

/// Takes a savepoint in the middle, lets the job go on to its end, moves the savepoint, deletes everything
/// else, and starts from it.
fn goes_on_and_is_restored(backend: Backend, format: SavepointFormat, parallelism: [u32; 2]) {
    let what = format!("{backend:?} {format:?} {parallelism:?}");
    let folder = tempfile::tempdir().unwrap();
    // one checkpoint at a time, when this test asks for it
    let run =
        Run { interval: Some(hours(24)), parallelism: parallelism[0], ..Run::new(folder.path(), backend) };
    let (job, out) = collected(&run);
    wait_for(&job, STEP);
    job.trigger_checkpoint().unwrap();
    wait_for(&job, STEP + STEP);
    // the commit has a thread of its own
    assert!(job.wait_until(LONG, |_| out.items().len() as u64 == STEP), "{what}");
    let (before, statistics) = (out.items(), job.checkpoint_statistics().counts);
    let checkpoints = files(&folder.path().join("checkpoints"));
    let report = job.trigger_savepoint(None, format).unwrap();
    let path = Path::new(&report.path);
    assert_eq!(path.parent(), Some(run.savepoints().as_path()), "{what}");
    assert!(path.join("_metadata").is_file(), "{what}");
    assert_eq!(out.items(), before, "{what}: it commits nothing");
    let after = files(&folder.path().join("checkpoints"));
    let of_checkpoints = |files: &[String]| -> Vec<String> {
        files.iter().filter(|file| file.contains("chk-") || file.contains("shared")).cloned().collect()
    };
    assert_eq!(
        of_checkpoints(&after),
        of_checkpoints(&checkpoints),
        "{what}: nor does it touch a checkpoint"
    );
    assert_eq!(job.checkpoint_statistics().counts.failed, statistics.failed);
    // the job goes on as if nothing had been, and the next checkpoints build on the last
    while !job.has_ended() {
        let _ = job.trigger_checkpoint();
    }
    let result = job.wait().unwrap();
    assert_eq!((result.restarts, &result.ending), (0, &JobEnding::Finished), "{what}");
    check(out.items(), &what);

    let moved = folder.path().join("moved to another place");
    fs::rename(path, &moved).unwrap();
    fs::remove_dir_all(folder.path().join("checkpoints")).unwrap();
    let run = Run {
        parallelism: parallelism[1],
        interval: Some(millis(20)),
        checkpoints: "other checkpoints",
        ..run.from(moved.display().to_string())
    };
    let (job, out) = collected(&run);
    let result = job.wait().unwrap();
    assert!(result.resumed_from.is_some(), "{what}");
    // what was prepared and not committed is in the savepoint
    let all = before.into_iter().chain(out.items()).collect();
    check(all, &format!("{what}, from the savepoint"));
    assert!(moved.join("_metadata").is_file(), "{what}: it is never deleted");
}

#[test]
fn a_canonical_savepoint_of_a_running_job_disturbs_nothing_and_is_restored_elsewhere_at_any_parallelism() {
    for backend in FILES {
        for parallelism in [[2, 2], [1, 4], [4, 1], [3, 2]] {
            goes_on_and_is_restored(*backend, SavepointFormat::Canonical, parallelism);
        }
    }
}

#[test]
fn a_native_savepoint_of_a_running_job_disturbs_nothing_and_is_restored_elsewhere() {
    for backend in FILES {
        for parallelism in [[2, 2], [2, 3]] {
            goes_on_and_is_restored(*backend, SavepointFormat::Native, parallelism);
        }
    }
}

#[test]
fn a_job_with_checkpoints_in_memory_leaves_a_savepoint_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run { interval: Some(hours(24)), ..Run::new(folder.path(), Backend::Memory) };
    let (job, _) = collected(&run);
    wait_for(&job, STEP);
    let report = job.trigger_savepoint(None, SavepointFormat::Canonical).unwrap();
    job.cancel();
    assert!(job.wait().is_err());
    let run = Run { backend: Backend::Heap, interval: Some(millis(20)), ..run.from(report.path) };
    let (job, out) = collected(&run);
    job.wait().unwrap();
    check(out.items(), "from memory");
}

#[test]
fn state_above_the_limit_of_the_memory_storage_fails_checkpoints_with_its_size_and_goes_into_a_savepoint() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run { interval: Some(hours(24)), ..Run::new(folder.path(), Backend::Memory) };
    let mut env = run.environment();
    env.set_state_backend(MemoryStateBackend::new().max_state_size(500)).set_tolerable_checkpoint_failures(9);
    let out = Rows::default();
    run.sums(&env).sink_to("out", out.clone()).uid("out");
    let job = env.execute_async("sums").unwrap();
    wait_for(&job, STEP);
    let error = job.trigger_checkpoint().unwrap_err().to_string();
    // which of the two large states is written first is open: the sums, or the rows that wait for their
    // commit
    for part in ["state `", "more than the limit of 500", "execution.checkpointing.dir"] {
        assert!(error.contains(part), "{part} in: {error}");
    }
    for format in [SavepointFormat::Native, SavepointFormat::Canonical] {
        let report = job.trigger_savepoint(None, format).unwrap();
        let len = |file: &str| fs::metadata(Path::new(&report.path).join(file)).unwrap().len();
        let written = files(Path::new(&report.path));
        assert!(written.iter().any(|file| len(file) > 500), "{written:?}");
    }
    let report = job.stop_with_savepoint(None, false, SavepointFormat::Canonical).unwrap();
    job.wait().unwrap();
    assert_eq!(out.items().len() as u64, STEP);
    let run = Run { backend: Backend::Heap, interval: Some(millis(20)), ..run.from(report.path) };
    let (job, out) = collected(&run);
    job.wait().unwrap();
    // this sink commits what a snapshot holds as often as it is restored
    check(out.items(), "from the savepoint");
}

#[test]
fn two_runs_of_one_name_that_keep_their_checkpoints_apart_write_into_one_folder_without_harm() {
    let folder = tempfile::tempdir().unwrap();
    let one = Run::new(folder.path(), Backend::Heap);
    let other = Run { checkpoints: "other checkpoints", ..one.clone() };
    let jobs = [one.start(), other.start()];
    for job in jobs {
        assert_eq!(job.wait().unwrap().restarts, 0);
    }
    let mut rows = rows(&folder.path().join("out"));
    rows.sort_unstable();
    let numbers: Vec<u64> = rows.iter().map(|(n, _)| *n).collect();
    assert!(numbers == (0..RECORDS).flat_map(|n| [n, n]).collect::<Vec<_>>(), "{} rows", rows.len());
    for key in 0..KEYS {
        let last: u64 = (key..RECORDS).step_by(KEYS as usize).sum();
        let found = rows.iter().filter(|(n, sum)| n % KEYS == key && *sum == last).count();
        assert_eq!(found, 2, "the last sum of key {key}");
    }
}

#[test]
fn a_job_without_periodic_checkpoints_takes_a_savepoint_and_stops_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run { interval: None, ..Run::new(folder.path(), Backend::Heap) };
    let job = run.start();
    wait_for(&job, STEP);
    let first = job.trigger_savepoint(None, SavepointFormat::Canonical).unwrap();
    let last = job.stop_with_savepoint(None, false, SavepointFormat::Canonical).unwrap();
    assert_ne!(first.path, last.path);
    let result = job.wait().unwrap();
    assert_eq!(result.ending, JobEnding::Stopped(last.path.clone()));
    assert_eq!(rows(&folder.path().join("out")).len() as u64, STEP, "its output is committed");
    let run = Run { interval: Some(millis(20)), ..run.from(last.path) };
    run.start().wait().unwrap();
    check(rows(&folder.path().join("out")), "from a job without checkpoints");
}

#[test]
fn a_savepoint_without_a_folder_says_how_to_name_one() {
    let env = StreamExecutionEnvironment::new();
    env.from_source("ticks", Generator::unbounded(|n| n).records_per_second(100.0)).discard();
    let job = env.execute_async("ticks").unwrap();
    assert!(job.wait_until(LONG, |job| job.metrics().records_in > 0));
    let error = job.trigger_savepoint(None, SavepointFormat::Canonical).unwrap_err().to_string();
    assert!(error.contains("execution.checkpointing.savepoint-dir"), "{error}");
    job.cancel();
    assert!(job.wait().is_err());
}
