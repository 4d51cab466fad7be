//! Places and their owners: what a job leaves behind, and two jobs or two sinks at one place.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use stillstream::config::options;
use stillstream::connect::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId, JobStatus};
use stillstream_config::ByteSize;

const LONG: Duration = Duration::from_secs(60);

fn environment(dir: &Path) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(30))
        .set_state_backend(FsStateBackend::new(dir.to_str().unwrap()))
        .set_restart_strategy(RestartStrategy::none());
    // files also for small state
    env.configuration_mut().set(options::DATA_INLINE_THRESHOLD, ByteSize::from_bytes(0));
    env
}

#[expect(clippy::disallowed_methods, reason = "a test that waits has a deadline")]
fn wait_for(what: &str, mut until: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !until() {
        assert!(begun.elapsed() < LONG, "{what} did not come about within {LONG:?}");
        std::thread::yield_now();
    }
}

fn completed(job: &JobClient) -> u64 {
    job.checkpoint_statistics().counts.completed
}

/// Counts by key, without an end.
fn counts(env: &StreamExecutionEnvironment) -> DataStream<u64> {
    let numbers = Generator::unbounded(|n| n).records_per_second(20_000.0);
    let count = |count: &mut u64, n| {
        *count += 1;
        n
    };
    env.from_source("n", numbers).uid("n").key_by(|n| n % 1000).map_with_state("c", count).uid("c")
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => {
                found.push(entry.path());
                files_below(&entry.path(), found);
            }
            false => found.push(entry.path()),
        }
    }
}

/// What is left in the only job's folder beside the register and the lock.
fn left(dir: &Path) -> Vec<String> {
    let job = fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let mut found = Vec::new();
    files_below(&job, &mut found);
    let names = found.iter().map(|path| path.strip_prefix(&job).unwrap().display().to_string());
    names.filter(|name| name != ".lock" && !name.starts_with("register")).collect()
}

/// A sink whose transactions become durable only while a gate is open.
#[derive(Clone, Default)]
struct Gated(Arc<(Mutex<bool>, Condvar)>);

impl Gated {
    fn set(&self, open: bool) {
        *self.0.0.lock().unwrap() = open;
        self.0.1.notify_all();
    }
}

impl Sink<u64> for Gated {
    type Committable = u64;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
        Ok(Box::new(self.clone()))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
        Ok(Box::new(|_: &u64| Ok(())))
    }
}

impl SinkWriter<u64, u64> for Gated {
    fn write(&mut self, _: Batch<u64>) -> Result<()> {
        Ok(())
    }
    fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<u64>>> {
        let gate = self.0.clone();
        let wait = move || {
            let (open, changed) = &*gate;
            drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
            Ok(())
        };
        Ok(Some(Prepared { committable: id.0, make_durable: Some(Box::new(wait)) }))
    }
}

#[test]
fn after_a_cancel_that_deletes_nothing_but_register_and_lock_is_left() {
    for incremental in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let gate = Gated::default();
        gate.set(true);
        let mut env = environment(dir.path());
        env.set_incremental_checkpoints(incremental)
            .set_externalized_retention(ExternalizedCheckpointRetention::DeleteOnCancellation);
        counts(&env).sink_to("gated", gate.clone()).uid("gated");
        let job = env.execute_async("gone").unwrap();
        wait_for("three checkpoints", || completed(&job) >= 3);
        // one that cannot end before the job is told to
        gate.set(false);
        wait_for("a checkpoint under way", || job.checkpoint_statistics().counts.in_progress > 0);
        job.cancel();
        wait_for("the cancel", || job.status() != JobStatus::Running);
        gate.set(true);
        assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(left(dir.path()), Vec::<String>::new(), "incremental: {incremental}");
    }
}

#[test]
fn a_finished_job_leaves_no_empty_folder_of_checkpoints_that_failed() {
    let dir = tempfile::tempdir().unwrap();
    let mut env = environment(dir.path());
    env.set_tolerable_checkpoint_failures(1000);
    let n = env.from_source("n", Generator::new(600, |n| n).records_per_second(1000.0)).uid("n");
    n.sink_to("declines", Declining).uid("declines");
    n.rebalance()
        .map(|n| n)
        .sink_to("other", Gated(Arc::new((Mutex::new(true), Condvar::new()))))
        .uid("other");
    let result = env.execute("empty").unwrap();
    assert!(result.checkpoints.completed > 0, "{result}");
    assert_eq!(left(dir.path()), Vec::<String>::new());
}

/// Declines each second checkpoint.
struct Declining;

impl Sink<u64> for Declining {
    type Committable = u64;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
        Ok(Box::new(Self))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
        Ok(Box::new(|_: &u64| Ok(())))
    }
}

impl SinkWriter<u64, u64> for Declining {
    fn write(&mut self, _: Batch<u64>) -> Result<()> {
        Ok(())
    }
    fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<u64>>> {
        let mut declines = id.0.is_multiple_of(2);
        let once = move || match std::mem::take(&mut declines) {
            true => Err(Error::msg("told to")),
            false => Ok(()),
        };
        Ok(Some(Prepared { committable: id.0, make_durable: Some(Box::new(once)) }))
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn after_a_cancel_that_deletes_nothing_of_rocksdb_is_left_on_the_local_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (local, checkpoints) = (dir.path().join("local"), dir.path().join("checkpoints"));
    let start = |retention| {
        let mut env = StreamExecutionEnvironment::new();
        env.enable_checkpointing(millis(30))
            .set_restart_strategy(RestartStrategy::none())
            .set_state_backend(RocksDbStateBackend::new(checkpoints.to_str().unwrap()).incremental(true))
            .set_externalized_retention(retention);
        env.configuration_mut()
            .set(options::ROCKSDB_LOCAL_DIR, Some(local.to_str().unwrap().to_owned()))
            .set(options::LOCAL_BACKUP, true);
        counts(&env).discard();
        let job = env.execute_async("local").unwrap();
        wait_for("three checkpoints", || completed(&job) >= 3);
        job
    };
    let job = start(ExternalizedCheckpointRetention::DeleteOnCancellation);
    let mut found = Vec::new();
    files_below(&local, &mut found);
    assert!(found.iter().any(|path| path.to_str().unwrap().contains("local-recovery")), "{found:?}");
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    let mut found = Vec::new();
    files_below(&local, &mut found);
    found.retain(|path| !path.ends_with("local-recovery"));
    assert_eq!(found, Vec::<PathBuf>::new());
    assert_eq!(left(&checkpoints), Vec::<String>::new());
}

/// A job that fails after some checkpoints, or ends.
fn failing(dir: &Path, from: Option<&str>, fresh: bool, fail: bool) -> Result<JobResult> {
    let mut env = environment(dir);
    env.set_num_retained(100);
    if let Some(from) = from {
        env.restore_from(from);
    }
    if fresh {
        env.start_fresh();
    }
    let numbers = Generator::new(1000, |n| n).records_per_second(2000.0);
    env.from_source("n", numbers)
        .uid("n")
        .try_map(move |n| if fail && n == 900 { Err(Error::msg("told to")) } else { Ok(n) })
        .discard();
    env.execute("back")
}

#[test]
fn a_snapshot_to_start_from_is_not_passed_over_when_the_job_has_checkpoints_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    failing(dir.path(), None, false, true).unwrap_err();
    let job = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let numbers = fs::read_dir(&job)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_prefix("chk-")?.parse::<u64>().ok());
    let numbers: BTreeSet<u64> = numbers.collect();
    let (first, newest) = (numbers.first().unwrap(), numbers.last().unwrap());
    assert!(first < newest, "{numbers:?}");
    let path = |number: &u64| job.join(format!("chk-{number}")).display().to_string();
    for from in [path(first), "/no/such/place/chk-3".to_owned()] {
        let error = failing(dir.path(), Some(&from), false, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        let text = error.to_string();
        for part in [from.as_str(), &path(newest), "--start-fresh", "leave out `--from`"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let id = |number: &u64| Some(CheckpointId(*number));
    // the newest one itself is no contradiction
    failing(dir.path(), Some(&path(newest)), false, true).unwrap_err();
    let result = failing(dir.path(), Some(&path(first)), true, false).unwrap();
    assert_eq!(result.resumed_from, id(first));
}

#[test]
fn a_job_whose_folder_was_moved_away_leaves_the_one_that_took_its_place_alone() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("ck");
    let start = || {
        let mut env = environment(&dir);
        env.set_cancellation_timeout(seconds(5)).set_checkpoint_timeout(seconds(5));
        counts(&env).discard();
        env.execute_async("moved").unwrap()
    };
    let first = start();
    wait_for("three checkpoints", || completed(&first) >= 3);
    fs::rename(&dir, base.path().join("away")).unwrap();
    let second = start();
    wait_for("ten checkpoints of the second", || {
        assert!(!second.status().is_terminal(), "it has a register of its own");
        completed(&second) >= 10
    });
    second.cancel();
    assert_eq!(second.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    wait_for("the end of the first", || first.status().is_terminal());
    let error = first.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
}

#[test]
fn incremental_checkpoints_in_files_are_followed_by_checkpoints_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let start = |in_memory: bool, from: Option<PathBuf>| {
        let mut env = environment(dir.path());
        env.set_incremental_checkpoints(true).set_num_retained(3);
        if in_memory {
            env.configuration_mut().set_text("execution.checkpointing.storage", "jobmanager").unwrap();
        }
        if let Some(from) = from {
            env.restore_from(from.to_str().unwrap());
        }
        let fails = fails.clone();
        let told_to = move |n| if fails.load(SeqCst) { Err(Error::msg("told to")) } else { Ok(n) };
        counts(&env).try_map(told_to).discard();
        env.execute_async(if from_elsewhere(&env) { "another" } else { "both" }).unwrap()
    };
    let end = |job: JobClient| {
        fails.store(true, SeqCst);
        job.wait().unwrap_err();
        fails.store(false, SeqCst);
    };
    let job = start(false, None);
    wait_for("five checkpoints in files", || completed(&job) >= 5);
    end(job);
    let newest = newest_below(dir.path());
    // of another job that begins from its checkpoint, and of the job itself
    for from in [Some(newest), None] {
        let job = start(true, from);
        wait_for("five checkpoints in memory", || {
            let statistics = job.checkpoint_statistics();
            assert_eq!(statistics.counts.failed, 0, "{:?}", statistics.history);
            statistics.counts.completed >= 5
        });
        end(job);
    }
    // and back to files
    let job = start(false, None);
    wait_for("five checkpoints in files again", || completed(&job) >= 5);
    end(job);
}

fn from_elsewhere(env: &StreamExecutionEnvironment) -> bool {
    env.configuration().get(options::RECOVERY_PATH).is_some()
}

fn newest_below(dir: &Path) -> PathBuf {
    let mut found = Vec::new();
    files_below(dir, &mut found);
    let number = |path: &PathBuf| {
        let folder = path.parent()?.file_name()?.to_str()?.strip_prefix("chk-")?.parse::<u64>().ok()?;
        path.ends_with("_metadata").then_some(folder)
    };
    let newest = found.iter().filter_map(|path| Some((number(path)?, path.parent()?))).max();
    newest.expect("a whole checkpoint").1.to_path_buf()
}

/// The lines of all parts in `out`, in order.
fn lines(out: &Path) -> Vec<u64> {
    let parts = fs::read_dir(out).into_iter().flatten().map(|entry| entry.unwrap().path());
    let parts = parts.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("part-"));
    let mut lines: Vec<u64> = parts
        .flat_map(|path| {
            fs::read_to_string(path).unwrap().lines().map(|n| n.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect();
    lines.sort_unstable();
    lines
}

#[test]
fn two_sinks_of_one_job_may_write_into_one_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let env = StreamExecutionEnvironment::new();
    let n = env.from_collection(0..10u64);
    n.filter(|n| n % 2 == 0).sink_to("even", FileSink::lines(&out)).uid("even");
    n.filter(|n| n % 2 == 1).sink_to("odd", FileSink::lines(&out)).uid("odd");
    env.execute("two sinks").unwrap();
    assert_eq!(lines(&out), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_job_with_the_same_output_folder_takes_nothing_away_from_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let (ck, gate) = (dir.path().join("ck"), Gated::default());
    let start = |name: &str, numbers: std::ops::Range<u64>, gate: &Gated| {
        let mut env = environment(&ck);
        if name == "second" {
            // it has finished before
            env.start_fresh();
        }
        let (first, count) = (numbers.start, numbers.end - numbers.start);
        let n = env
            .from_source("n", Generator::new(count, move |n| first + n).records_per_second(1000.0))
            .uid("n");
        n.sink_to("out", FileSink::lines(&out)).uid("out");
        n.sink_to("gated", gate.clone()).uid("gated");
        env.execute_async(name).unwrap()
    };
    let open = Gated::default();
    open.set(true);
    // several runs, so that its generation is the higher one
    for run in 0..3 {
        start("second", 1000 + 10 * run..1010 + 10 * run, &open).wait().unwrap();
    }
    let first = start("first", 0..200, &gate);
    let staged = || {
        let mut found = Vec::new();
        files_below(&out, &mut found);
        found.iter().any(|path| path.extension().is_some_and(|end| end.to_str().unwrap().starts_with("chk-")))
    };
    wait_for("a part that is pre-committed and not complete", staged);
    start("second", 1030..1040, &open).wait().unwrap();
    gate.set(true);
    first.wait().unwrap();
    assert_eq!(lines(&out), (0..200).chain(1000..1040).collect::<Vec<_>>());
}

#[test]
fn a_reader_may_take_finished_parts_away_while_the_job_fails_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (out, taken) = (dir.path().join("out"), dir.path().join("taken"));
    let mut env = environment(&dir.path().join("ck"));
    env.set_restart_strategy(RestartStrategy::fixed_delay(5, millis(20)));
    let (from, to) = (out.clone(), taken.clone());
    let fails_once = move |n| {
        // only once there is something to take away
        let parts: Vec<PathBuf> = fs::read_dir(&from)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<Vec<_>>>()?
            .into_iter()
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("part-")))
            .collect();
        if parts.is_empty() || to.exists() {
            return Ok(n);
        }
        fs::create_dir(&to)?;
        for part in parts {
            if let Some(name) = part.file_name() {
                fs::rename(&part, to.join(name))?;
            }
        }
        Err(Error::msg("fails once"))
    };
    env.from_source("n", Generator::new(1000, |n| n).records_per_second(1000.0))
        .uid("n")
        .try_map(fails_once)
        .sink_to("out", FileSink::lines(&out))
        .uid("out");
    let result = env.execute("reader").unwrap();
    assert_eq!(result.restarts, 1, "{result}");
    let mut all = [lines(&out), lines(&taken)].concat();
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
}
