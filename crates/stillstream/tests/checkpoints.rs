//! Checkpoints of real jobs: when they are taken, why they fail, what they leave behind.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

use stillstream::connect::{
    Committer, Prepared, Sink, SinkContext, SinkWriter, SourceContext, SplitReader, SplitSource,
};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointStatistics, JobStatus, SourceStatus};
use stillstream_types::CheckpointId;

const LONG: Duration = Duration::from_secs(10);

fn environment(interval_ms: u64) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(Duration::from_millis(interval_ms))
        .set_restart_strategy(RestartStrategy::none());
    env
}

fn ticks(env: &StreamExecutionEnvironment) -> DataStream<u64> {
    env.from_source("ticks", Generator::unbounded(|n| n).records_per_second(2_000.0)).uid("ticks")
}

/// Directories of complete checkpoints below `dir`.
fn checkpoints(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = jobs(dir)
        .flat_map(|job| std::fs::read_dir(job).into_iter().flatten())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("_metadata").exists())
        .collect();
    found.sort();
    found
}

fn jobs(dir: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
}

fn failed(statistics: &CheckpointStatistics) -> Option<String> {
    statistics.history.iter().find_map(|summary| match &summary.status {
        status if status_text(status).starts_with("Failed") => {
            Some(format!("{} {:?}", status_text(status), summary.missing))
        }
        _ => None,
    })
}

fn status_text(status: &impl std::fmt::Debug) -> String {
    format!("{status:?}")
}

fn cancel(job: JobClient) {
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

/// A sink whose transactions do not become durable as long as the gate is shut.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

impl Sink<u64> for Gate {
    type Committable = u64;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
        Ok(Box::new(self.clone()))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
        Ok(Box::new(|_: &u64| Ok(())))
    }
}

impl SinkWriter<u64, u64> for Gate {
    fn write(&mut self, _: Batch<u64>) -> Result<()> {
        Ok(())
    }
    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<u64>>> {
        let gate = self.0.clone();
        let wait = move || {
            drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap());
            Ok(())
        };
        Ok(Some(Prepared { committable: checkpoint.0, make_durable: Some(Box::new(wait)) }))
    }
}

/// A source that emits 0, 1, 2 .. below a limit that the test raises, and fails once when it is told to.
#[derive(Clone, Default)]
struct Valve {
    limit: Arc<AtomicU64>,
    fail: Arc<AtomicBool>,
}

struct ValveReader(Valve, Vec<u64>);

impl SplitSource for Valve {
    type Item = u64;
    type Split = u64;
    fn splits(&self) -> Result<Vec<u64>> {
        Ok(vec![0])
    }
    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<u64, u64>>> {
        Ok(Box::new(ValveReader(self.clone(), Vec::new())))
    }
}

impl SplitReader<u64, u64> for ValveReader {
    fn assign(&mut self, splits: Vec<u64>) -> Result<()> {
        self.1 = splits;
        Ok(())
    }
    fn poll(&mut self, max: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
        if self.0.fail.swap(false, SeqCst) {
            return Err(Error::msg("told to"));
        }
        let limit = self.0.limit.load(SeqCst);
        let Some(next) = self.1.first_mut() else { return Ok(SourceStatus::Ended) };
        let until = limit.min(*next + max as u64);
        out.values.extend(*next..until);
        *next = until;
        Ok(SourceStatus::More)
    }
    fn positions(&self) -> Vec<u64> {
        self.1.clone()
    }
}

#[test]
fn a_checkpoint_that_takes_too_long_fails_the_job_with_the_names_of_the_missing_subtasks() {
    let gate = Gate::default();
    let mut env = environment(10);
    env.set_checkpoint_timeout(Duration::from_millis(50))
        .set_restart_strategy(RestartStrategy::fixed_delay(100, Duration::ZERO));
    ticks(&env).sink_to("slow gate", gate.clone()).uid("gate");
    let job = env.execute_async("timeout").unwrap();
    let failing = |job: &JobClient| job.status() == JobStatus::Failing;
    assert!(job.wait_until(LONG, failing), "none tolerated: it fails over");
    let text = failed(&job.checkpoint_statistics()).unwrap();
    assert!(text.contains("did not acknowledge") && text.contains("slow gate"), "{text}");
    assert!(
        text.contains("CHECKPOINT_EXPIRED") && text.contains("execution.checkpointing.timeout"),
        "{text}"
    );
    // what the old attempt is still writing holds up the next one
    assert_eq!(job.restarts(), 0);
    gate.open();
    assert!(job.wait_until(LONG, |job| job.restarts() > 0));
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed > 0));
    cancel(job);
}

#[test]
fn a_job_goes_on_when_late_checkpoints_are_tolerated() {
    let gate = Gate::default();
    let mut env = environment(10);
    env.set_checkpoint_timeout(Duration::from_millis(500)).set_tolerable_checkpoint_failures(1);
    ticks(&env).sink_to("slow gate", gate.clone()).uid("gate");
    let job = env.execute_async("tolerant").unwrap();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.failed >= 1));
    gate.open();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed > 2));
    assert_eq!((job.status(), job.restarts()), (JobStatus::Running, 0));
    cancel(job);
}

fn large_state(tolerable: u32) -> (StreamExecutionEnvironment, &'static str) {
    let mut env = environment(10);
    env.set_state_backend(MemoryStateBackend::new().max_state_size(500))
        .set_tolerable_checkpoint_failures(tolerable);
    ticks(&env)
        .key_by(|n| *n)
        .map_with_state("huge sums", |sum: &mut u64, n| {
            *sum += n;
            *sum
        })
        .uid("sums")
        .discard();
    (env, "large")
}

#[test]
fn state_above_the_limit_of_the_memory_backend_is_refused_with_its_name_size_limit_and_remedy() {
    let (env, name) = large_state(0);
    // both are above the limit: the positions of the generator's 128 splits, and soon the sums; the first to
    // say so is named
    let text = env.execute(name).unwrap_err().to_string();
    assert!(text.contains("500") && text.contains("max_state_size"), "{text}");
    assert!(text.contains("state `splits`") || text.contains("state `huge sums`"), "{text}");
    assert!(
        text.contains("has a snapshot of ") && text.contains(" bytes, more than the limit of 500"),
        "{text}"
    );
    assert!(text.contains("`execution.checkpointing.dir`"), "{text}");
    assert!(text.contains("tolerable-failed-checkpoints allows 0"), "{text}");
}

#[test]
fn a_job_goes_on_within_the_tolerable_number_of_declined_checkpoints() {
    let (env, name) = large_state(1_000);
    let job = env.execute_async(name).unwrap();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.failed >= 3));
    assert_eq!((job.status(), job.restarts()), (JobStatus::Running, 0));
    cancel(job);
}

#[test]
fn checkpoints_keep_their_interval_and_the_pause_between_them() {
    for (interval, pause) in [(60, 0), (10, 60)] {
        let mut env = environment(interval);
        env.set_min_pause_between_checkpoints(Duration::from_millis(pause));
        ticks(&env).discard();
        let job = env.execute_async("pauses").unwrap();
        assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed >= 5));
        let history = job.checkpoint_statistics().history;
        for (first, second) in history.iter().zip(history.iter().skip(1)) {
            let apart = second.triggered_at - first.triggered_at;
            let idle = apart.saturating_sub(first.duration);
            // a trigger may be late, and the next one on time again
            assert!(apart >= Duration::from_millis(interval.max(pause) / 2), "{apart:?}");
            assert!(
                idle + Duration::from_millis(2) >= Duration::from_millis(pause),
                "{idle:?} of {pause} ms"
            );
        }
        cancel(job);
    }
}

#[test]
fn no_more_checkpoints_are_under_way_than_allowed() {
    for allowed in [1, 2] {
        let gate = Gate::default();
        let mut env = environment(10);
        env.set_max_concurrent_checkpoints(allowed);
        ticks(&env).sink_to("gate", gate.clone()).uid("gate");
        let job = env.execute_async("concurrent").unwrap();
        let under_way = |job: &JobClient| job.checkpoint_statistics().counts.in_progress;
        assert!(job.wait_until(LONG, |job| under_way(job) == u64::from(allowed)));
        assert!(!job.wait_until(Duration::from_millis(150), |job| under_way(job) > u64::from(allowed)));
        gate.open();
        assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed >= 5));
        cancel(job);
    }
}

#[test]
fn as_many_checkpoints_are_kept_as_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut env = environment(10);
    env.set_state_backend(FsStateBackend::new(folder.path().to_str().unwrap()))
        .set_num_retained(3)
        .set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
    ticks(&env).discard();
    let job = env.execute_async("retained").unwrap();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed >= 6));
    cancel(job);
    let left = checkpoints(folder.path());
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn checkpoints_are_deleted_when_the_job_is_cancelled_or_finished_unless_they_are_to_be_retained() {
    use ExternalizedCheckpointRetention::*;
    for (retention, finish, expected) in [
        (DeleteOnCancellation, false, 0),
        (NoExternalizedCheckpoints, false, 0),
        (RetainOnCancellation, false, 1),
        (RetainOnCancellation, true, 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut env = environment(10);
        env.set_state_backend(FsStateBackend::new(folder.path().to_str().unwrap()))
            .set_externalized_retention(retention);
        let count = if finish { 100 } else { u64::MAX };
        let source = Generator::new(count, |n| n).records_per_second(2_000.0);
        env.from_source("numbers", source).uid("numbers").discard();
        let job = env.execute_async("ending").unwrap();
        if finish {
            assert!(job.wait().unwrap().checkpoints.completed > 0);
        } else {
            assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed >= 2));
            cancel(job);
        }
        let left = checkpoints(folder.path());
        assert_eq!(left.len(), expected, "{retention:?}, finished: {finish}: {left:?}");
    }
}

#[test]
fn a_checkpoint_can_be_taken_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let mut env = environment(3_600_000);
    env.set_state_backend(FsStateBackend::new(folder.path().to_str().unwrap())).set_num_retained(5);
    ticks(&env).discard();
    let job = env.execute_async("by hand").unwrap();
    assert!(job.wait_until(LONG, |job| job.status() == JobStatus::Running));
    let (first, second) = (job.trigger_checkpoint().unwrap(), job.trigger_checkpoint().unwrap());
    assert_eq!((first.id.0, second.id.0), (1, 2));
    assert!(second.size_bytes > 0);
    let names: Vec<_> = checkpoints(folder.path()).iter().map(|path| path.display().to_string()).collect();
    // the whole path, as `--from` takes it
    assert_eq!(names, [first.path, second.path]);
    let other = job.clone();
    cancel(job);
    let text = other.trigger_checkpoint().unwrap_err().to_string();
    assert!(text.contains("by hand") && text.contains("ended"), "{text}");
}

#[test]
fn a_bounded_job_ends_with_everything_committed_in_each_of_30_runs() {
    for run in 0..30u64 {
        let mut env = environment(10);
        env.set_parallelism(1 + (run % 3) as u32);
        let out = env
            .from_source("numbers", Generator::new(1_000 + run, |n| n))
            .uid("numbers")
            .rebalance()
            .map(|n| n)
            .collect();
        env.execute("bounded").unwrap();
        assert_eq!(out.sorted(), (0..1_000 + run).collect::<Vec<_>>(), "run {run}");
    }
}

#[test]
fn checkpoints_without_a_record_do_not_hold_up_what_comes_after_them_and_after_a_restart() {
    let valve = Valve::default();
    let mut env = environment(10);
    env.set_restart_strategy(RestartStrategy::fixed_delay(1, Duration::ZERO));
    let out = env.from_source("valve", valve.clone()).uid("valve").rebalance().map(|n| n).collect();
    let job = env.execute_async("empty").unwrap();
    let completed = |job: &JobClient| job.checkpoint_statistics().counts.completed;
    valve.limit.store(10, SeqCst);
    assert!(job.wait_until(LONG, |_| out.len() == 10));
    let before = completed(&job);
    assert!(job.wait_until(LONG, |job| completed(job) >= before + 3));
    valve.fail.store(true, SeqCst);
    assert!(job.wait_until(LONG, |job| job.restarts() == 1));
    let before = completed(&job);
    assert!(job.wait_until(LONG, |job| completed(job) >= before + 2));
    valve.limit.store(20, SeqCst);
    assert!(job.wait_until(LONG, |_| out.len() >= 20));
    assert_eq!(out.sorted(), (0..20).collect::<Vec<_>>());
    cancel(job);
}

#[test]
fn a_job_can_be_cancelled_while_a_snapshot_does_not_return() {
    let gate = Gate::default();
    let env = environment(10);
    ticks(&env).sink_to("gate", gate.clone()).uid("gate");
    let job = env.execute_async("stuck").unwrap();
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.in_progress == 1));
    job.cancel();
    let ended = job.wait_until(Duration::from_secs(5), |job| job.status().is_terminal());
    gate.open();
    assert!(ended, "{:?}", job.status());
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn without_checkpointing_or_while_none_can_be_taken_a_request_for_one_is_answered() {
    let mut env = StreamExecutionEnvironment::new();
    ticks(&env).discard();
    let job = env.execute_async("off").unwrap();
    let text = answer(&job).expect("an answer");
    assert!(text.contains("`off` takes no checkpoints") && text.contains("interval"), "{text}");
    cancel(job);
    env.enable_checkpointing(Duration::from_secs(3_600))
        .set_restart_strategy(RestartStrategy::fixed_delay(9, Duration::from_secs(3_600)));
    env.from_collection(0..9u64).uid("numbers").try_map(|_| Err::<u64, _>(Error::msg("always"))).discard();
    let job = env.execute_async("waiting").unwrap();
    assert!(job.wait_until(LONG, |job| job.status() == JobStatus::Restarting));
    let text = answer(&job).expect("an answer");
    assert!(text.contains("no attempt runs"), "{text}");
    cancel(job);
}

/// The error of a request for a checkpoint; `None` if there is no answer for seconds.
fn answer(job: &JobClient) -> Option<String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let asked = job.clone();
    std::thread::Builder::new()
        .spawn(move || sender.send(asked.trigger_checkpoint().unwrap_err().to_string()))
        .unwrap();
    receiver.recv_timeout(Duration::from_secs(3)).ok()
}

/// A sink whose transactions fail to become durable, once.
#[derive(Clone)]
struct Fragile {
    panics: bool,
    left: Arc<AtomicBool>,
}

impl Sink<u64> for Fragile {
    type Committable = u64;
    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<u64, u64>>> {
        Ok(Box::new(self.clone()))
    }
    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<u64>>> {
        Ok(Box::new(|_: &u64| Ok(())))
    }
}

impl SinkWriter<u64, u64> for Fragile {
    fn write(&mut self, _: Batch<u64>) -> Result<()> {
        Ok(())
    }
    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<u64>>> {
        let own = self.clone();
        let make_durable = move || match own.left.swap(false, SeqCst) {
            true if own.panics => panic!("a bug while syncing"),
            true => Err(Error::msg("the disk is full")),
            false => Ok(()),
        };
        Ok(Some(Prepared { committable: checkpoint.0, make_durable: Some(Box::new(make_durable)) }))
    }
}

#[test]
fn a_transaction_that_does_not_become_durable_declines_its_checkpoint_by_error_or_panic() {
    for (panics, expected) in [(false, "the disk is full"), (true, "a bug while syncing")] {
        for tolerable in [0, 1] {
            let mut env = environment(10);
            env.set_tolerable_checkpoint_failures(tolerable);
            let sink = Fragile { panics, left: Arc::new(AtomicBool::new(true)) };
            ticks(&env).sink_to("fragile", sink).uid("fragile");
            let job = env.execute_async("declined").unwrap();
            let counts = |job: &JobClient| job.checkpoint_statistics().counts;
            if tolerable == 0 {
                assert!(job.wait_until(LONG, |job| job.status().is_terminal()), "{expected}");
                let text = job.wait().unwrap_err().to_string();
                assert!(text.contains(expected) && text.contains("fragile"), "{text}");
            } else {
                let goes_on = job.wait_until(LONG, |job| counts(job).completed > 1);
                assert!(goes_on, "{expected}: {:?}, {:?}", job.status(), counts(&job));
                assert_eq!((counts(&job).failed, job.restarts()), (1, 0), "{expected}");
                cancel(job);
            }
        }
    }
}
