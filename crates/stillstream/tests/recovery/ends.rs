//! The end of a job: finished, cancelled, failed, with storage there or away. It comes in its time, it is
//! told once, and a job whose end is recorded does not run again unasked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use stillstream::connect::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId, JobStatus};

/// Far more than any of these jobs needs, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);

/// A sink whose commits wait at a gate.
#[derive(Clone, Default)]
struct Gated {
    wrote: bool,
    began: Arc<AtomicU64>,
    open: Arc<AtomicBool>,
}

impl Sink<u64> for Gated {
    type Committable = u64;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
        Ok(Box::new(self.clone()))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
        let Self { began, open, .. } = self.clone();
        Ok(Box::new(move |_: &u64| {
            began.fetch_add(1, SeqCst);
            while !open.load(SeqCst) {
                std::thread::sleep(millis(1));
            }
            Ok(())
        }))
    }
}

impl SinkWriter<u64, u64> for Gated {
    fn write(&mut self, _: Batch<u64>) -> Result<()> {
        self.wrote = true;
        Ok(())
    }
    fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<u64>>> {
        Ok(std::mem::take(&mut self.wrote).then(|| Prepared::done(id.0)))
    }
}

/// A job at its end, whose last commit waits at the gate.
fn at_the_last_commit(sink: &Gated, change: impl FnOnce(&mut StreamExecutionEnvironment)) -> JobClient {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(hours(24)).set_cancellation_timeout(millis(300));
    change(&mut env);
    env.from_source("n", Generator::new(100, |n| n)).uid("n").sink_to("gated", sink.clone()).uid("gated");
    let job = env.execute_async("last commit").unwrap();
    assert!(job.wait_until(LONG, |_| sink.began.load(SeqCst) > 0), "no commit began: {:?}", job.status());
    job
}

fn ended(job: &JobClient) -> bool {
    job.wait_until(LONG, |job| job.status().is_terminal())
}

#[test]
fn a_cancel_while_a_last_commit_hangs_ends_the_job_within_its_time() {
    let sink = Gated::default();
    let job = at_the_last_commit(&sink, |_| {});
    job.cancel();
    assert!(ended(&job), "{:?}", job.status());
    assert_eq!(job.status(), JobStatus::Canceled);
    assert!(job.wait().is_err());
    sink.open.store(true, SeqCst);
}

#[test]
fn a_last_commit_that_is_slower_than_the_checkpoint_timeout_fails_the_attempt_and_the_restart_strategy_decides()
 {
    let sink = Gated::default();
    let job = at_the_last_commit(&sink, |env| {
        env.set_checkpoint_timeout(millis(50))
            .set_cancellation_timeout(LONG)
            .set_restart_strategy(RestartStrategy::fixed_delay(u32::MAX, millis(10)));
    });
    assert!(job.wait_until(LONG, |job| job.status() != JobStatus::Running), "its deadline has no effect");
    sink.open.store(true, SeqCst);
    assert!(ended(&job), "{:?}", job.status());
    job.wait().unwrap();
}

#[test]
fn a_cancel_that_comes_while_the_last_commits_are_confirmed_ends_finished_or_cancelled() {
    for _ in 0..20 {
        let sink = Gated::default();
        let job = at_the_last_commit(&sink, |env| {
            env.set_cancellation_timeout(LONG);
        });
        let opener = sink.open.clone();
        let open = move || opener.store(true, SeqCst);
        let opening = std::thread::Builder::new().spawn(open).unwrap();
        job.cancel();
        opening.join().unwrap();
        assert!(ended(&job), "{:?}", job.status());
        let status = job.status();
        match job.wait() {
            Ok(_) => assert_eq!(status, JobStatus::Finished),
            Err(error) => {
                assert_eq!((status, error.kind()), (JobStatus::Canceled, ErrorKind::Cancelled), "{error}");
            }
        }
    }
}

fn files(dir: &Path, change: impl FnOnce(&mut StreamExecutionEnvironment)) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(20))
        .set_cancellation_timeout(seconds(1))
        .set_checkpoint_timeout(LONG)
        .set_state_backend(FsStateBackend::new(dir.to_str().unwrap()));
    change(&mut env);
    env
}

/// An unbounded job that has completed some checkpoints in `dir`.
fn running(dir: &Path, change: impl FnOnce(&mut StreamExecutionEnvironment)) -> JobClient {
    let env = files(dir, change);
    env.from_source("n", Generator::unbounded(|n| n).records_per_second(1_000.0)).uid("n").discard();
    let job = env.execute_async("away").unwrap();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed > 2));
    job
}

/// A cancel at any moment of a short job: it ends, and what the next start does agrees with how it ended.
#[test]
fn whenever_a_cancel_comes_the_job_ends_and_its_register_agrees_with_its_result() {
    let (mut finished, mut cancelled) = (0, 0);
    for round in 0..60u64 {
        let dir = tempfile::tempdir().unwrap();
        let seen = Arc::new(AtomicU64::new(0));
        let start = || {
            let env = files(dir.path(), |env| {
                env.enable_checkpointing(hours(24)).set_cancellation_timeout(LONG);
            });
            let seen = seen.clone();
            env.from_collection(0..100u64)
                .uid("n")
                .map(move |n| {
                    seen.fetch_add(1, SeqCst);
                    n
                })
                .uid("map")
                .discard();
            env.execute_async("short")
        };
        let job = start().unwrap();
        // from the first record to after the end
        job.wait_until(LONG, |job| {
            seen.load(SeqCst) >= (round * 2).min(100)
                && (round < 20 || job.checkpoint_statistics().counts.completed > 0)
                || job.status().is_terminal()
        });
        if round >= 40 {
            // some hundred microseconds, in which the end is recorded
            (0..(round - 40) * 50_000).for_each(|_| std::hint::spin_loop());
        }
        job.cancel();
        assert!(ended(&job), "round {round}: {:?}", job.status());
        match job.wait() {
            Ok(result) => {
                finished += 1;
                assert_eq!((result.records_in, result.finished_before), (100, None));
                let again = start().unwrap().wait().unwrap();
                assert!(again.finished_before.is_some(), "round {round}: it ran again");
                assert_eq!(again.records_in, 100);
            }
            Err(error) => {
                cancelled += 1;
                assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
                assert_eq!(start().unwrap_err().kind(), ErrorKind::Cancelled);
            }
        }
    }
    println!("{finished} finished, {cancelled} cancelled");
}

#[test]
fn a_finished_job_is_not_run_again_and_gives_its_recorded_result_and_the_later_jobs_of_the_program_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("checkpoints");
    let first = |env: &StreamExecutionEnvironment| {
        env.from_source("n", Generator::new(1_000, |n| n))
            .uid("n")
            .sink_to("out", FileSink::lines(folder.path().join("first")))
            .uid("out");
        env.execute("first")
    };
    let second = |env: &StreamExecutionEnvironment, fails: bool| {
        env.from_source("n", Generator::new(1_000, |n| n))
            .uid("n")
            .try_map(move |n| if fails && n == 900 { Err(Error::msg("told to")) } else { Ok(n) })
            .sink_to("out", FileSink::lines(folder.path().join("second")))
            .uid("out");
        env.execute("second")
    };
    let env = || {
        files(&dir, |env| {
            env.set_restart_strategy(RestartStrategy::none());
        })
    };
    let program = env();
    let before = first(&program).unwrap();
    assert_eq!((before.records_in, before.records_out, before.finished_before), (1_000, 1_000, None));
    second(&program, true).unwrap_err();
    // the same program again
    let program = env();
    let again = first(&program).unwrap();
    assert_eq!((again.records_in, again.records_out), (1_000, 1_000));
    assert_eq!(again.checkpoints.completed, before.checkpoints.completed);
    assert!(again.finished_before.unwrap() > Timestamp::from_millis(0));
    assert!(again.to_string().contains("finished before, at 2"), "{again}");
    assert_eq!(second(&program, false).unwrap().finished_before, None);
    for name in ["first", "second"] {
        assert_eq!(lines(&folder.path().join(name)), (0..1_000).collect::<Vec<u64>>(), "{name}");
    }
    // and only when it is asked for
    let mut fresh = env();
    fresh.start_fresh();
    let anew = first(&fresh).unwrap();
    assert_eq!((anew.records_in, anew.finished_before), (1_000, None));
    assert_eq!(lines(&folder.path().join("first")).len(), 2_000);
}

fn lines(folder: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let mut found: Vec<u64> = files
        .flat_map(|path| read(path).lines().map(|line| line.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    found.sort_unstable();
    found
}

/// Puts a folder back that was moved away, in place of what came there meanwhile.
fn put_back(away: &Path, dir: &Path) {
    let _ = std::fs::remove_dir_all(dir);
    std::fs::rename(away, dir).unwrap();
}

#[test]
fn a_cancel_while_storage_is_away_ends_in_its_time_and_says_from_where_the_next_start_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, away) = (folder.path().join("ck"), folder.path().join("away"));
    let job = running(&dir, |env| {
        env.set_tolerable_checkpoint_failures(1_000);
    });
    std::fs::rename(&dir, &away).unwrap();
    let statistics = job.clone();
    job.cancel();
    assert!(ended(&job), "{:?}", job.status());
    assert_eq!(job.status(), JobStatus::Canceled);
    let error = job.wait().unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{text}");
    let newest = statistics.checkpoint_statistics().last_completed.unwrap().id;
    assert!(text.contains(&format!("the next start resumes from checkpoint {newest} in ")), "{text}");
    put_back(&away, &dir);
    let again = running(&dir, |_| {});
    again.cancel();
    assert_eq!(again.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_job_that_fails_while_storage_is_away_ends_in_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, away) = (folder.path().join("ck"), folder.path().join("away"));
    let fails = Arc::new(AtomicBool::new(false));
    let told = fails.clone();
    let env = files(&dir, |env| {
        env.set_tolerable_checkpoint_failures(1_000).set_restart_strategy(RestartStrategy::none());
    });
    env.from_source("n", Generator::unbounded(|n| n).records_per_second(1_000.0))
        .uid("n")
        .try_map(move |n| if told.load(SeqCst) { Err(Error::msg("a bad record")) } else { Ok(n) })
        .discard();
    let job = env.execute_async("fails").unwrap();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed > 2));
    std::fs::rename(&dir, &away).unwrap();
    fails.store(true, SeqCst);
    assert!(ended(&job), "{:?}", job.status());
    assert_eq!(job.status(), JobStatus::Failed);
    let text = job.wait().unwrap_err().to_string();
    assert!(
        text.contains("a bad record") && text.contains("the next start resumes from checkpoint"),
        "{text}"
    );
}

#[test]
fn a_job_whose_storage_goes_away_for_good_does_not_wait_for_its_end_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("ck");
    let go_on = Arc::new(AtomicBool::new(false));
    let told = go_on.clone();
    let env = files(&dir, |env| {
        env.set_checkpoint_timeout(seconds(1))
            .set_tolerable_checkpoint_failures(1_000)
            .set_restart_strategy(RestartStrategy::fixed_delay(1, millis(10)));
    });
    env.from_source("n", Generator::new(100, |n| n))
        .uid("n")
        .map(move |n| {
            while n == 99 && !told.load(SeqCst) {
                std::thread::sleep(millis(1));
            }
            n
        })
        .discard();
    let job = env.execute_async("gone").unwrap();
    assert!(job.wait_until(LONG, |job| job.status() == JobStatus::Running));
    std::fs::rename(&dir, folder.path().join("away")).unwrap();
    go_on.store(true, SeqCst);
    assert!(ended(&job), "{:?}", job.status());
    assert_eq!(job.status(), JobStatus::Failed);
    job.wait().unwrap_err();
}

#[test]
fn storage_that_is_away_between_two_attempts_costs_restarts_and_no_job() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, away) = (folder.path().join("ck"), folder.path().join("away"));
    let fails = Arc::new(AtomicBool::new(false));
    let told = fails.clone();
    let env = files(&dir, |env| {
        // below what a claim takes while the folder is away
        env.set_checkpoint_timeout(millis(200))
            .set_tolerable_checkpoint_failures(1_000)
            .set_restart_strategy(RestartStrategy::fixed_delay(u32::MAX, millis(50)));
    });
    env.from_source("n", Generator::unbounded(|n| n).records_per_second(1_000.0))
        .uid("n")
        .try_map(move |n| if told.load(SeqCst) { Err(Error::msg("a bad record")) } else { Ok(n) })
        .discard();
    let job = env.execute_async("between").unwrap();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed > 2));
    std::fs::rename(&dir, &away).unwrap();
    fails.store(true, SeqCst);
    let restarted = |job: &JobClient| job.restarts() > 2 || job.status().is_terminal();
    assert!(job.wait_until(LONG, restarted), "{:?}", job.status());
    fails.store(false, SeqCst);
    put_back(&away, &dir);
    let before = job.checkpoint_statistics().counts.completed;
    let goes_on = |job: &JobClient| job.checkpoint_statistics().counts.completed > before;
    assert!(job.wait_until(LONG, goes_on), "{:?} after {} restarts", job.status(), job.restarts());
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_jobmanager_that_is_fenced_between_two_attempts_ends_at_once() {
    use stillstream_storage::{CheckpointStorage, StorageOptions};
    let folder = tempfile::tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let told = fails.clone();
    let env = files(folder.path(), |env| {
        env.set_cancellation_timeout(hours(1))
            .set_restart_strategy(RestartStrategy::fixed_delay(u32::MAX, millis(500)));
    });
    env.from_source("n", Generator::unbounded(|n| n).records_per_second(1_000.0))
        .uid("n")
        .try_map(move |n| if told.load(SeqCst) { Err(Error::msg("a bad record")) } else { Ok(n) })
        .discard();
    let job = env.execute_async("taken over").unwrap();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed > 2));
    fails.store(true, SeqCst);
    assert!(job.wait_until(LONG, |job| job.status() == JobStatus::Restarting));
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let options = StorageOptions { exclusive_lock: false, ..StorageOptions::default() };
    let uri = folder.path().to_str().unwrap();
    let storage = CheckpointStorage::open(uri, options, tokio.handle().clone()).unwrap();
    // the job may be on its way to the next attempt: whoever claims last owns it
    let standby = storage.job(stillstream_types::JobId::from_name("taken over"));
    let mut lease = standby.claim("taken over").unwrap();
    for _ in 0..3 {
        lease = match lease.update(|_| {}).map(drop) {
            Ok(_) => lease,
            Err(_) => standby.claim("taken over").unwrap(),
        };
    }
    assert!(ended(&job), "{:?}", job.status());
    assert_eq!(job.status(), JobStatus::Failed);
    let error = job.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
}

#[test]
fn waiting_for_a_condition_takes_its_whole_time_however_busy_the_job_is() {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(10)).set_parallelism(2);
    env.from_source("n", Generator::unbounded(|n| n).records_per_second(100.0))
        .uid("n")
        .rebalance()
        .discard();
    let job = env.execute_async("busy").unwrap();
    let clock = stillstream_runtime::clock::SystemClock::default();
    let elapsed = || stillstream_runtime::clock::Clock::elapsed(&clock);
    let before = elapsed();
    assert!(!job.wait_until(seconds(1), |_| false));
    assert!(elapsed() - before >= seconds(1), "{:?}", elapsed() - before);
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_collection_that_has_become_shorter_ends_the_job_instead_of_restarting_it_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let start = |records: u64, strategy| {
        let env = files(dir.path(), |env| {
            env.set_restart_strategy(strategy);
        });
        let told = fails.clone();
        env.from_collection(0..records)
            .uid("n")
            .try_map(move |n| {
                std::thread::sleep(millis(1));
                if told.load(SeqCst) { Err(Error::msg("told to")) } else { Ok(n) }
            })
            .discard();
        env.execute_async("shorter").unwrap()
    };
    let job = start(100_000, RestartStrategy::none());
    let completed = |job: &JobClient| job.checkpoint_statistics().counts.completed;
    assert!(job.wait_until(LONG, |job| job.metrics().records_in > 10));
    let before = completed(&job);
    assert!(job.wait_until(LONG, |job| completed(job) > before + 1));
    fails.store(true, SeqCst);
    job.wait().unwrap_err();
    let job = start(10, RestartStrategy::fixed_delay(u32::MAX, millis(1)));
    assert!(ended(&job), "{} restarts", job.restarts());
    assert_eq!(job.restarts(), 0);
    let text = job.wait().unwrap_err().to_string();
    assert!(text.contains("the collection has 10 records"), "{text}");
}

/// A sink whose part of a checkpoint becomes durable when the gate is opened.
#[derive(Clone, Default)]
struct SlowlyDurable(Arc<AtomicBool>);

impl Sink<u64> for SlowlyDurable {
    type Committable = u64;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
        Ok(Box::new(self.clone()))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
        Ok(Box::new(|_: &u64| Ok(())))
    }
}

impl SinkWriter<u64, u64> for SlowlyDurable {
    fn write(&mut self, _: Batch<u64>) -> Result<()> {
        Ok(())
    }
    fn prepare(&mut self, id: CheckpointId) -> Result<Option<Prepared<u64>>> {
        let open = self.0.clone();
        let wait = move || {
            while !open.load(SeqCst) {
                std::thread::sleep(millis(1));
            }
            Ok(())
        };
        Ok(Some(Prepared { committable: id.0, make_durable: Some(Box::new(wait)) }))
    }
}

#[test]
fn a_checkpoints_metadata_says_when_it_was_triggered_and_not_when_it_was_written() {
    use stillstream_runtime::clock::{Clock, SystemClock};
    use stillstream_storage::{CheckpointStorage, StorageOptions};
    let (dir, sink, clock) = (tempfile::tempdir().unwrap(), SlowlyDurable::default(), SystemClock::default());
    let env = files(dir.path(), |env| {
        env.set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation)
            .set_num_retained(1_000)
            .enable_checkpointing(millis(200));
    });
    env.from_source("n", Generator::unbounded(|n| n).records_per_second(100.0))
        .uid("n")
        .sink_to("slow", sink.clone())
        .uid("slow");
    let job = env.execute_async("triggered").unwrap();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.in_progress > 0));
    let triggered_by = clock.now_ms();
    assert!(job.wait_until(LONG, |_| clock.now_ms() > triggered_by + 50));
    sink.0.store(true, SeqCst);
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let uri = dir.path().to_str().unwrap();
    let storage = CheckpointStorage::open(uri, StorageOptions::default(), tokio.handle().clone()).unwrap();
    let storage = storage.job(stillstream_types::JobId::from_name("triggered"));
    let mut found = None;
    assert!(job.wait_until(LONG, |_| {
        let first = storage.read_metadata("chk-1");
        found = found.or(first.ok().map(|metadata| metadata.triggered_at_ms));
        found.is_some()
    }));
    // less the two clocks' rounding, but far less than the part took to become durable
    assert!(found.unwrap() < triggered_by + 10, "{found:?}, {triggered_by}");
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}
