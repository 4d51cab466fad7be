//! A job with every kind of keyed state: running sums, windows, and records that wait for a timer. All its
//! output is known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use stillstream::config::options;
use stillstream::prelude::*;
use stillstream_config::ByteSize;

use crate::paced::Paced;

/// Records of a whole run.
pub const RECORDS: u64 = 48_000;
/// Records for each checkpoint: a run has at least 15.
pub const STEP: u64 = 3_000;
/// Event time of a window, of which every record is a millisecond.
const WINDOW: u64 = 4_000;
const WINDOW_KEYS: u64 = 40;

/// Keys of the sums. Each comes once in the beginning; after that one record in a hundred is of any key and
/// the others are of 50 of them, so that a checkpoint finds most sums unchanged.
const KEYS: u64 = 2 * STEP;

fn key(n: u64) -> u64 {
    if n < KEYS || n.is_multiple_of(100) { n * 7 % KEYS } else { n % 50 }
}

/// An environment for jobs whose checkpoints lie in `folder`, all of them in files.
pub fn environment(folder: &Path) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(10))
        .set_incremental_checkpoints(true)
        .set_parallelism(2)
        .set_state_backend(FsStateBackend::new(folder.join("checkpoints").to_string_lossy()))
        .set_restart_strategy(RestartStrategy::none());
    env.configuration_mut().set(options::DATA_INLINE_THRESHOLD, ByteSize::from_bytes(0));
    env
}

/// Records at which the job fails, each once.
#[derive(Clone, Default)]
pub struct Failures(Arc<Vec<(u64, AtomicBool)>>);

impl Failures {
    pub fn at(records: impl IntoIterator<Item = u64>) -> Self {
        Self(Arc::new(records.into_iter().map(|n| (n, AtomicBool::new(true))).collect()))
    }

    fn check(&self, n: u64) -> Result<()> {
        match self.0.iter().any(|(at, armed)| *at == n && armed.swap(false, SeqCst)) {
            true => Err(Error::msg("told to")),
            false => Ok(()),
        }
    }

    /// How many there were.
    pub fn happened(&self) -> usize {
        self.0.iter().filter(|(_, armed)| !armed.load(SeqCst)).count()
    }
}

struct Count;

impl Aggregate for Count {
    type In = u64;
    type Acc = u64;
    type Out = u64;
    fn create(&self) -> u64 {
        0
    }
    fn add(&self, count: &mut u64, _: u64) {
        *count += 1;
    }
    fn merge(&self, count: &mut u64, other: u64) {
        *count += other;
    }
    fn result(&self, count: &u64) -> u64 {
        *count
    }
}

/// Holds each record back until a timer fires.
struct Delay {
    held: MapState<i64, u64>,
}

impl KeyedProcess for Delay {
    type Key = u64;
    type In = u64;
    type Out = (u64, u64);

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { held: states.map("held")? })
    }

    fn process(&mut self, n: u64, ctx: &mut Context<Self>) -> Result<()> {
        let at = Timestamp::from_millis(n as i64) + seconds(2);
        self.held.put(ctx, at.as_millis(), n)?;
        ctx.timers().on_event_time(at)?;
        Ok(())
    }

    fn on_timer(&mut self, at: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        let at = at.as_millis();
        let n = self.held.get(ctx, &at)?.ok_or_else(|| Error::msg("a timer without its record"))?;
        self.held.delete(ctx, &at)?;
        ctx.emit((*ctx.key(), n));
        Ok(())
    }
}

/// Builds the job; its rows go to folders below `folder`.
pub fn build(env: &StreamExecutionEnvironment, folder: &Path, failures: &Failures) {
    build_paced(env, folder, failures, STEP);
}

/// The same, with this many records for each checkpoint, at most [`STEP`].
pub fn build_paced(env: &StreamExecutionEnvironment, folder: &Path, failures: &Failures, step: u64) {
    let failures = failures.clone();
    // subtasks are at most a few steps apart
    let watermarks = WatermarkStrategy::bounded_out_of_orderness(millis(4 * STEP))
        .timestamp(|n: &u64| Timestamp::from_millis(*n as i64));
    let numbers = env
        .from_source("numbers", Paced::new(Generator::new(RECORDS, |n| n), 2 * step, step))
        .uid("numbers")
        .try_map(move |n| failures.check(n).map(|()| n))
        .watermarks(watermarks)
        .uid("watermarks");
    numbers
        .key_by(|n| key(*n))
        .map_with_state("sum", |sum: &mut u64, n| {
            *sum += n;
            (n, *sum)
        })
        .uid("sums")
        .sink_to("sums out", FileSink::csv(folder.join("sums")))
        .uid("sums out");
    numbers
        .key_by(|n| n % WINDOW_KEYS)
        .window(Tumbling::of(millis(WINDOW)))
        .aggregate_with(Count, |key, window, count| (*key, window.start.as_millis() as u64, count))
        .uid("windows")
        .sink_to("windows out", FileSink::csv(folder.join("windows")))
        .uid("windows out");
    numbers
        .key_by(|n| n % 500)
        .process::<Delay>()
        .uid("delay")
        .sink_to("delay out", FileSink::csv(folder.join("delayed")))
        .uid("delay out");
}

/// The committed rows of a sink; nothing else may be in its folder.
fn rows(folder: &Path, what: &str) -> Vec<Vec<u64>> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        assert!(path.extension().is_some_and(|e| e == "csv"), "{what}: left over: {}", path.display());
        let text = fs::read_to_string(path).unwrap();
        rows.extend(text.lines().map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()));
    }
    rows
}

/// The folders in which sinks keep what is not committed yet, and what was.
pub fn hidden(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for sink in ["sums", "windows", "delayed"] {
        let entries = fs::read_dir(folder.join(sink)).into_iter().flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        found.extend(paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with('.')));
    }
    found
}

/// Deletes what belongs to `others`; there must be nothing else.
pub fn forget(folder: &Path, others: &BTreeSet<PathBuf>) {
    let left = hidden(folder);
    assert!(left.is_subset(others), "{left:?} of {others:?}");
    left.iter().for_each(|path| fs::remove_dir_all(path).unwrap());
}

/// Copies the folders of the sinks.
pub fn copy_output(from: &Path, to: &Path) {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let (path, copied) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                copy(&path, &copied);
            } else {
                fs::copy(path, copied).unwrap();
            }
        }
    }
    for sink in ["sums", "windows", "delayed"] {
        copy(&from.join(sink), &to.join(sink));
    }
}

/// Checks that each key's last sum is right.
pub fn check_totals(folder: &Path, what: &str) {
    let mut totals = BTreeMap::<u64, u64>::new();
    for n in 0..RECORDS {
        *totals.entry(key(n)).or_default() += n;
    }
    let mut highest = BTreeMap::<u64, u64>::new();
    for row in rows(&folder.join("sums"), what) {
        let highest = highest.entry(key(row[0])).or_default();
        *highest = row[1].max(*highest);
    }
    assert!(highest == totals, "{what}: the last sum of each key");
}

/// Checks that every sum, window and timer came out exactly once and with the right total.
pub fn check(folder: &Path, what: &str) {
    check_totals(folder, what);
    let sums = rows(&folder.join("sums"), what);
    let numbers: BTreeSet<u64> = sums.iter().map(|row| row[0]).collect();
    assert_eq!((sums.len() as u64, numbers.len() as u64), (RECORDS, RECORDS), "{what}: sums");

    let mut windows = rows(&folder.join("windows"), what);
    windows.sort();
    let each = |key| (0..RECORDS / WINDOW).map(move |n| vec![key, n * WINDOW, WINDOW / WINDOW_KEYS]);
    assert!(windows == (0..WINDOW_KEYS).flat_map(each).collect::<Vec<_>>(), "{what}: windows");

    let mut delayed = rows(&folder.join("delayed"), what);
    delayed.sort_by_key(|row| row[1]);
    assert!(delayed == (0..RECORDS).map(|n| vec![n % 500, n]).collect::<Vec<_>>(), "{what}: timers");
}
