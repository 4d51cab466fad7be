//! Failures and restarts of real jobs: within the process, and of the whole program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::paced::Paced;
use stillstream::Batch;
use stillstream::config::options;
use stillstream::connect::{Committer, Plain, Prepared, Sink, SinkContext, SinkWriter};
use stillstream::prelude::*;
use stillstream_types::CheckpointId;

const COUNT: u64 = 4_000;
const KEYS: u64 = 10;
/// Records for each checkpoint: a failure at a late record comes after checkpoints, however slow the machine
/// is.
const STEP: u64 = 200;

/// (key, running sum)
type Sums = Collect<(u64, u64)>;

fn environment(dir: &Path) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(Duration::from_millis(10))
        .set_state_backend(FsStateBackend::new(dir.to_str().unwrap()))
        .set_restart_strategy(RestartStrategy::none());
    env
}

/// Running sums by key; fails at a record if it is told to.
fn sums(env: &StreamExecutionEnvironment, out: &Sums, fail_at: Option<u64>) {
    env.from_source("numbers", Paced::new(Generator::new(COUNT, |n| n), STEP, STEP))
        .uid("numbers")
        .try_map(move |n| match fail_at == Some(n) {
            true => Err(Error::msg("told to")),
            false => Ok(n),
        })
        .key_by(|n| n % KEYS)
        .map_with_state("sum", |sum: &mut u64, n| {
            *sum += n;
            (n % KEYS, *sum)
        })
        .uid("sums")
        .sink_to("out", out.clone())
        .uid("out");
}

fn expected() -> Vec<(u64, u64)> {
    let mut sums = BTreeMap::<u64, u64>::new();
    let mut rows: Vec<_> = (0..COUNT)
        .map(|n| {
            let sum = sums.entry(n % KEYS).or_default();
            *sum += n;
            (n % KEYS, *sum)
        })
        .collect();
    rows.sort_unstable();
    rows
}

/// A job that failed at its record 3000 and has left checkpoints.
fn failed_job(dir: &Path, out: &Sums) {
    let env = environment(dir);
    sums(&env, out, Some(3_000));
    let text = env.execute("sums").unwrap_err().to_string();
    assert!(text.contains("told to"), "{text}");
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn all_metadata(dir: &Path) -> Vec<PathBuf> {
    let is_metadata = |path: &PathBuf| path.file_name().is_some_and(|name| name == "_metadata");
    files(dir).into_iter().filter(is_metadata).collect()
}

fn metadata(dir: &Path) -> PathBuf {
    all_metadata(dir).pop().expect("the job has left a checkpoint")
}

/// Runs the job for a while and cancels it; where its newest checkpoint is.
fn cancelled(env: &StreamExecutionEnvironment, name: &str, dir: &Path, out: &Sums) -> PathBuf {
    sums(env, out, None);
    let job = env.execute_async(name).unwrap();
    assert!(job.wait_until(Duration::from_secs(10), |_| out.len() > 500));
    let watch = job.clone();
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    newest(dir, &watch)
}

/// Where the newest complete checkpoint is. One that was cut short by the end of the job may be beside it.
fn newest(dir: &Path, job: &JobClient) -> PathBuf {
    let newest = format!("chk-{}", job.checkpoint_statistics().last_completed.unwrap().id);
    let is_newest = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with(&newest));
    let file = all_metadata(dir).into_iter().find(|path| is_newest(path)).expect("it is retained");
    file.parent().unwrap().to_path_buf()
}

#[test]
fn a_failed_job_resumes_from_its_checkpoint_when_it_is_started_again() {
    let (dir, out) = (tempfile::tempdir().unwrap(), Sums::new());
    failed_job(dir.path(), &out);
    let env = environment(dir.path());
    sums(&env, &out, None);
    let result = env.execute("sums").unwrap();
    assert!(result.resumed_from.is_some() && result.records_in < COUNT, "{result}");
    assert_eq!(out.sorted(), expected());
}

#[test]
fn a_fresh_start_is_without_state_although_there_are_checkpoints() {
    let (dir, out) = (tempfile::tempdir().unwrap(), Sums::new());
    failed_job(dir.path(), &out);
    let (mut env, out) = (environment(dir.path()), Sums::new());
    env.start_fresh();
    sums(&env, &out, None);
    let result = env.execute("sums").unwrap();
    assert_eq!((result.resumed_from, result.records_in), (None, COUNT));
    assert_eq!(out.sorted(), expected());
}

#[test]
fn a_job_of_another_name_starts_from_a_retained_checkpoint() {
    let (dir, out) = (tempfile::tempdir().unwrap(), Sums::new());
    let mut env = environment(dir.path());
    env.set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
    let retained = cancelled(&env, "first", dir.path(), &out);
    let mut env = environment(dir.path());
    env.restore_from(retained.to_str().unwrap());
    sums(&env, &out, None);
    let result = env.execute("second").unwrap();
    assert!(result.resumed_from.is_some() && result.records_in < COUNT, "{result}");
    assert_eq!(out.sorted(), expected());
    assert!(retained.join("_metadata").exists(), "what was restored from belongs to its owner");
}

#[test]
fn a_checkpoint_directory_that_cannot_be_written_is_named_before_the_job_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("taken");
    std::fs::write(&file, "not a folder").unwrap();
    let (env, out) = (environment(&file), Sums::new());
    sums(&env, &out, None);
    let text = env.execute("sums").unwrap_err().to_string();
    assert!(text.contains("taken") && text.contains("execution.checkpointing.dir"), "{text}");
    assert!(out.is_empty());
}

/// Damages what `failed_job` has left, and starts the program again with endless restarts.
fn start_damaged(inline: bool, damage: impl FnOnce(&Path) -> PathBuf) -> (String, String) {
    let (dir, out) = (tempfile::tempdir().unwrap(), Sums::new());
    let env = |strategy| {
        let mut env = environment(dir.path());
        env.set_restart_strategy(strategy);
        if !inline {
            env.configuration_mut()
                .set(options::DATA_INLINE_THRESHOLD, stillstream_config::ByteSize::from_bytes(0));
        }
        env
    };
    let first = env(RestartStrategy::none());
    sums(&first, &out, Some(3_000));
    first.execute("sums").unwrap_err();
    let file = damage(dir.path());
    let second = env(RestartStrategy::fixed_delay(u32::MAX, Duration::ZERO));
    sums(&second, &out, None);
    // what the start reads ends it before anything is begun, and the rest when it is read
    let text = match second.execute_async("sums") {
        Err(error) => error.to_string(),
        Ok(job) => {
            let watch = job.clone();
            let text = job.wait().unwrap_err().to_string();
            assert_eq!(watch.restarts(), 0, "restarted on a damaged checkpoint: {text}");
            text
        }
    };
    (text, file.file_name().unwrap().to_str().unwrap().to_string())
}

#[test]
fn a_cut_metadata_file_ends_the_start_with_its_name_and_what_was_expected() {
    let (text, name) = start_damaged(true, |dir| {
        // a checkpoint that the failure cut short may have left one beside the one that counts
        for file in all_metadata(dir) {
            let bytes = std::fs::read(&file).unwrap();
            std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        }
        metadata(dir)
    });
    assert!(text.contains(&name) && text.contains("expected") && text.contains("found"), "{text}");
}

#[test]
fn a_flipped_bit_in_a_state_file_ends_the_start_with_its_name_and_what_was_expected() {
    let (text, name) = start_damaged(false, |dir| {
        let mut damaged = PathBuf::new();
        for metadata in all_metadata(dir) {
            let state = files(metadata.parent().unwrap());
            damaged = state.into_iter().find(|file| *file != metadata).unwrap();
            let mut bytes = std::fs::read(&damaged).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(&damaged, bytes).unwrap();
        }
        damaged
    });
    assert!(text.contains(&name) && text.contains("expected") && text.contains("found"), "{text}");
}

#[test]
fn a_lost_register_is_never_taken_for_a_job_that_had_no_checkpoints() {
    let (dir, out) = (tempfile::tempdir().unwrap(), Sums::new());
    failed_job(dir.path(), &out);
    let job = metadata(dir.path()).ancestors().nth(2).unwrap().to_path_buf();
    std::fs::rename(job.join("register"), dir.path().join("hidden")).unwrap();
    let (env, out) = (environment(dir.path()), Sums::new());
    sums(&env, &out, None);
    let text = env.execute("sums").unwrap_err().to_string();
    assert!(text.contains("register") && text.contains("--start-fresh"), "{text}");
    assert!(text.contains(job.to_str().unwrap()), "{text}");
    assert!(out.is_empty());
}

#[test]
fn state_that_no_operator_claims_is_an_error_unless_it_may_be_left_behind() {
    let (dir, out) = (tempfile::tempdir().unwrap(), Sums::new());
    failed_job(dir.path(), &out);
    let numbers = |env: &StreamExecutionEnvironment| {
        env.from_source("numbers", Generator::new(COUNT, |n| n)).uid("numbers").discard();
    };
    let env = environment(dir.path());
    numbers(&env);
    let text = env.execute("sums").unwrap_err().to_string();
    assert!(text.contains("uid \"sums\"") && text.contains("--allow-non-restored-state"), "{text}");
    let mut env = environment(dir.path());
    env.allow_non_restored_state();
    numbers(&env);
    let result = env.execute("sums").unwrap();
    assert!(result.resumed_from.is_some() && result.records_in < COUNT, "{result}");
}

#[test]
fn another_max_parallelism_is_refused_with_both_numbers() {
    let (dir, out) = (tempfile::tempdir().unwrap(), Sums::new());
    failed_job(dir.path(), &out);
    let mut env = environment(dir.path());
    env.set_max_parallelism(64);
    sums(&env, &out, None);
    let text = env.execute("sums").unwrap_err().to_string();
    assert!(text.contains("max parallelism 128") && text.contains("64"), "{text}");
}

#[test]
fn a_job_goes_on_at_another_parallelism_with_exact_sums_and_each_row_once() {
    for (before, after) in [(1, 3), (3, 1), (2, 4), (3, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let rows = dir.path().join("rows");
        let run = |parallelism: u32, fail_at: Option<u64>| {
            let mut env = environment(&dir.path().join("checkpoints"));
            env.set_parallelism(parallelism);
            env.from_source("numbers", Paced::new(Generator::new(COUNT, |n| n), STEP, STEP))
                .uid("numbers")
                .key_by(|n| n % KEYS)
                .map_with_state("sum", move |sum: &mut u64, n| {
                    assert!(fail_at != Some(n), "told to");
                    *sum += n;
                    (n, *sum)
                })
                .uid("sums")
                .sink_to("rows", FileSink::csv(&rows))
                .uid("rows");
            env.execute("rescaled")
        };
        run(before, Some(3_000)).unwrap_err();
        let result = run(after, None).unwrap();
        assert!(result.resumed_from.is_some() && result.records_in < COUNT, "{before} -> {after}: {result}");
        let mut numbers = Vec::new();
        let mut totals = BTreeMap::<u64, u64>::new();
        for file in files(&rows) {
            for line in std::fs::read_to_string(file).unwrap().lines() {
                let (n, sum) = line.split_once(',').unwrap();
                let (n, sum): (u64, u64) = (n.parse().unwrap(), sum.parse().unwrap());
                numbers.push(n);
                let total = totals.entry(n % KEYS).or_default();
                *total = sum.max(*total);
            }
        }
        numbers.sort_unstable();
        assert!(numbers == (0..COUNT).collect::<Vec<_>>(), "{before} -> {after}: {} rows", numbers.len());
        for (key, total) in totals {
            assert_eq!(total, (0..COUNT).filter(|n| n % KEYS == key).sum::<u64>(), "{before} -> {after}");
        }
    }
}

#[test]
fn operator_state_does_not_grow_over_restores() {
    let dir = tempfile::tempdir().unwrap();
    let (mut sizes, mut from) = (Vec::new(), None::<PathBuf>);
    for run in 0..8 {
        let mut env = environment(dir.path());
        env.set_parallelism(4)
            .set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
        if let Some(from) = &from {
            env.restore_from(from.to_str().unwrap());
        }
        env.from_source("ticks", Generator::unbounded(|n| n).records_per_second(1_000.0))
            .uid("ticks")
            .watermarks(WatermarkStrategy::monotonic().timestamp(|n| Timestamp::from_millis(*n as i64)))
            .uid("watermarks")
            .discard();
        let job = env.execute_async("lists").unwrap();
        let watch = job.clone();
        let ready =
            |job: &JobClient| job.status().is_terminal() || job.checkpoint_statistics().counts.completed > 1;
        assert!(job.wait_until(Duration::from_secs(10), ready));
        job.cancel();
        let error = job.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "run {run}: {error}");
        sizes.push(watch.checkpoint_statistics().last_completed.unwrap().size_bytes);
        from = Some(newest(dir.path(), &watch));
    }
    let (first, last) = (sizes[1], sizes[sizes.len() - 1]);
    assert!(last <= first + first / 20, "{sizes:?}");
}

/// Fails always, at record `at`.
fn failing(strategy: RestartStrategy) -> (String, u64) {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(Duration::from_millis(10)).set_restart_strategy(strategy);
    env.from_collection(0..100u64)
        .uid("numbers")
        .try_map(|n| if n == 50 { Err(Error::msg("a bad record")) } else { Ok(n) })
        .name("parse")
        .discard();
    let job = env.execute_async("failing").unwrap();
    let watch = job.clone();
    let text = job.wait().unwrap_err().to_string();
    assert!(text.contains("a bad record"), "{text}");
    (text, watch.restarts())
}

#[test]
fn a_restart_strategy_that_gives_up_says_why_and_which_key_changes_it() {
    let (text, restarts) = failing(RestartStrategy::none());
    assert!(text.contains("restart-strategy.type"), "{text}");
    assert_eq!(restarts, 0);
    let (text, restarts) = failing(RestartStrategy::fixed_delay(2, Duration::ZERO));
    assert!(text.contains("all 2 restarts of `restart-strategy.fixed-delay.attempts` are used up"), "{text}");
    assert_eq!(restarts, 2);
    let (text, restarts) = failing(RestartStrategy::failure_rate(3, minutes(1), Duration::ZERO));
    assert!(text.contains("4 failures within") && text.contains("max-failures-per-interval"), "{text}");
    assert_eq!(restarts, 3);
}

#[test]
fn exponential_delay_restarts_until_the_job_goes_through() {
    let failures = Arc::new(AtomicU64::new(0));
    let seen = failures.clone();
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(Duration::from_millis(10)).set_restart_strategy(
        RestartStrategy::exponential_delay(Duration::from_millis(10), Duration::from_millis(40), 2.0),
    );
    let out = env
        .from_collection(0..100u64)
        .uid("numbers")
        .try_map(move |n| match n == 50 && seen.fetch_add(1, SeqCst) < 4 {
            true => Err(Error::msg("not yet")),
            false => Ok(n),
        })
        .collect();
    let result = env.execute("exponential").unwrap();
    assert_eq!(result.restarts, 4);
    // 10, 20, 40, 40, spread by 10 %
    assert!(result.duration >= Duration::from_millis(98), "{:?}", result.duration);
    assert_eq!(out.sorted(), (0..100).collect::<Vec<_>>());
}

/// Where a job fails, and how.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    Map,
    Process,
    Window,
    SinkWrite,
    SinkPrepare,
    SinkCommit,
}

#[derive(Clone)]
struct Trip {
    place: Place,
    panics: bool,
    left: Arc<AtomicBool>,
}

impl Trip {
    /// Fails once, if the job is to fail here.
    fn at(&self, place: Place, now: bool) -> Result<()> {
        if !now || place != self.place || !self.left.swap(false, SeqCst) {
            return Ok(());
        }
        assert!(!self.panics, "a bug in {place:?}");
        Err(Error::msg("a failure"))
    }
}

type Row = (u64, u64);

struct TripSink(Collect<Row>, Trip);
struct TripWriter<C>(Box<dyn SinkWriter<Row, C>>, Trip);

impl Sink<Row> for TripSink {
    type Committable = <Collect<Row> as Sink<Row>>::Committable;
    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<Row, Self::Committable>>> {
        Ok(Box::new(TripWriter(self.0.writer(context)?, self.1.clone())))
    }
    fn committer(&self, context: &SinkContext) -> Result<Box<dyn Committer<Self::Committable>>> {
        let (mut collect, trip) = (self.0.committer(context)?, self.1.clone());
        Ok(Box::new(move |committable: &Self::Committable| {
            collect.commit(committable)?;
            trip.at(Place::SinkCommit, true)
        }))
    }
}

impl<C: 'static> SinkWriter<Row, C> for TripWriter<C> {
    fn write(&mut self, batch: Batch<Row>) -> Result<()> {
        let late = batch.values.iter().any(|(window, _)| *window >= 15);
        self.0.write(batch)?;
        self.1.at(Place::SinkWrite, late)
    }
    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<C>>> {
        self.1.at(Place::SinkPrepare, checkpoint.0 > 2)?;
        self.0.prepare(checkpoint)
    }
    fn recovered(&mut self, restored: Option<CheckpointId>) -> Result<()> {
        self.0.recovered(restored)
    }
}

#[test]
fn a_job_that_fails_anywhere_by_an_error_or_a_panic_counts_each_record_once() {
    use Place::*;
    for (place, panics) in [
        (Map, false),
        (Map, true),
        (Process, false),
        (Process, true),
        (Window, true),
        (SinkWrite, false),
        (SinkWrite, true),
        (SinkPrepare, false),
        (SinkPrepare, true),
        (SinkCommit, true),
    ] {
        let trip = Trip { place, panics, left: Arc::new(AtomicBool::new(true)) };
        let (map, process, window) = (trip.clone(), trip.clone(), trip.clone());
        let mut env = StreamExecutionEnvironment::new();
        env.enable_checkpointing(Duration::from_millis(10))
            .set_restart_strategy(RestartStrategy::fixed_delay(1, Duration::ZERO));
        env.configuration_mut().set(options::SINK_COMMITTER_RETRIES, 0);
        let out = Collect::new();
        env.from_source("numbers", Paced::new(Generator::new(2_000, |n| n), STEP, STEP))
            .uid("numbers")
            .watermarks(WatermarkStrategy::monotonic().timestamp(|n| Timestamp::from_millis(*n as i64)))
            .uid("watermarks")
            .try_map(move |n| map.at(Map, n == 1_500).map(|()| n))
            .process(move |n, ctx: &mut ProcessContext<(u64, u64)>| {
                process.at(Process, n == 1_500)?;
                ctx.emit((n / 100, n));
                Ok(())
            })
            .key_by(|row| row.0)
            .window(Tumbling::of(Duration::from_millis(100)))
            .reduce(move |a, b| {
                assert!(window.at(Window, b.1 == 1_550).is_ok());
                (a.0, a.1 + b.1)
            })
            .uid("windows")
            .sink_to("out", TripSink(out.clone(), trip))
            .uid("out");
        let result = env.execute("anywhere").unwrap();
        assert_eq!(result.restarts, 1, "{place:?}, panics: {panics}");
        let sum = |window: u64| (window * 100..(window + 1) * 100).sum::<u64>();
        let expected: Vec<Row> = (0..20).map(|window| (window, sum(window))).collect();
        assert_eq!(out.sorted(), expected, "{place:?}, panics: {panics}");
    }
}

#[test]
fn at_least_once_loses_nothing() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (target, failed) = (seen.clone(), Arc::new(AtomicBool::new(false)));
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(Duration::from_millis(10))
        .set_parallelism(2)
        .set_checkpointing_mode(CheckpointingMode::AtLeastOnce)
        .set_restart_strategy(RestartStrategy::fixed_delay(1, Duration::ZERO));
    let sink = Plain::new(move |_: &SinkContext| {
        let target = target.clone();
        Ok(move |batch: Batch<u64>| {
            target.lock().unwrap().extend(batch.values);
            Ok(())
        })
    });
    env.from_source("numbers", Generator::new(4_000, |n| n).records_per_second(40_000.0))
        .uid("numbers")
        .rebalance()
        .try_map(move |n| match n == 3_000 && !failed.swap(true, SeqCst) {
            true => Err(Error::msg("once")),
            false => Ok(n),
        })
        .sink_to("plain", sink);
    let result = env.execute("at least once").unwrap();
    assert_eq!(result.restarts, 1);
    let rows = seen.lock().unwrap();
    assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), (0..4_000).collect());
}

#[test]
fn a_sink_of_another_kind_under_the_old_uid_is_refused_once_with_both_types() {
    // a checkpoint between two steps of the source may find nothing to commit: then the sink has no state to
    // refuse
    let refused = (0..20).find_map(|_| {
        let (dir, out) = (tempfile::tempdir().unwrap(), Sums::new());
        failed_job(dir.path(), &out);
        let mut env = environment(dir.path());
        env.set_restart_strategy(RestartStrategy::fixed_delay(u32::MAX, Duration::ZERO));
        env.allow_non_restored_state();
        env.from_source("numbers", Generator::new(COUNT, |n| n)).uid("numbers").discard().uid("out");
        let job = env.execute_async("sums").unwrap();
        let watch = job.clone();
        assert!(
            job.wait_until(Duration::from_secs(60), |job| job.status().is_terminal()),
            "retried for ever"
        );
        Some((job.wait().err()?.to_string(), watch.restarts()))
    });
    let (text, restarts) = refused.unwrap();
    assert!(text.contains("the snapshot holds") && text.contains("the program wants"), "{text}");
    assert_eq!(restarts, 0);
}

#[test]
fn a_cancelled_job_runs_again_only_when_it_is_told_from_where_and_says_how() {
    let dir = tempfile::tempdir().unwrap();
    let mut env = environment(dir.path());
    env.set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
    let first = Sums::new();
    let retained = cancelled(&env, "sums", dir.path(), &first);
    let (env, out) = (environment(dir.path()), Sums::new());
    sums(&env, &out, None);
    let error = env.execute("sums").unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{text}");
    let from = format!("--from {}", retained.display());
    assert!(text.contains("was cancelled at 2") && text.contains("--start-fresh"), "{text}");
    assert!(text.contains(&from), "{text} does not name {from}");
    assert!(out.is_empty());
    // from where it stood
    let mut env = environment(dir.path());
    env.restore_from(retained.to_str().unwrap());
    sums(&env, &first, None);
    let result = env.execute("sums").unwrap();
    assert!(result.resumed_from.is_some() && result.records_in < COUNT, "{result}");
    assert_eq!(first.sorted(), expected());
    // or from the beginning, which leaves the retained checkpoint alone
    let (mut env, out) = (environment(dir.path()), Sums::new());
    env.start_fresh();
    sums(&env, &out, None);
    let result = env.execute("sums").unwrap();
    assert_eq!((result.resumed_from, result.records_in), (None, COUNT));
    assert_eq!(out.sorted(), expected());
    assert!(retained.join("_metadata").exists());
}
