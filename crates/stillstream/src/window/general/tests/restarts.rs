//! Every kind of window over restarts and changes of the parallelism: as if nothing had happened, whatever
//! the backend.

use super::*;
use crate::testing::DriverSnapshot;
use crate::window::{
    ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger, CountEvictor, CountTrigger, DeltaTrigger,
    PurgingTrigger, TimeEvictor,
};

/// Key, sum or number, end of the window.
type Line = (String, u64, i64);

/// Numbers the windows of each key, and sums the records.
struct Numbered {
    number: ValueState<u64>,
    firings: ListState<u64>,
}

impl ProcessWindow for Numbered {
    type Key = String;
    type In = Vec<Record>;
    type Out = Line;

    fn open(states: &mut WindowStates<'_, String>) -> Result<Self> {
        let firings = states.per_window()?.list("firings")?;
        Ok(Self { number: states.per_key().value("number")?, firings })
    }

    fn process(&mut self, records: Vec<Record>, ctx: &mut WindowContext<'_, String, Line>) -> Result<()> {
        let sum: u64 = records.iter().map(|record| record.1).sum();
        let number = self.number.get(&ctx.key_state())?.unwrap_or(0) + 1;
        self.number.set(&ctx.key_state(), number)?;
        self.firings.add(&ctx.window_state(), sum)?;
        let all: u64 = self.firings.get(&ctx.window_state())?.iter().sum();
        let end = ctx.window().end.as_millis();
        ctx.emit((ctx.key().clone(), all * 1_000 + number, end));
        Ok(())
    }
}

#[expect(clippy::ptr_arg, reason = "the signature is that of a window's function")]
fn lines(key: &String, window: TimeWindow, records: Vec<Record>, out: &mut Collector<Line>) -> Result<()> {
    out.emit((key.clone(), records.iter().map(|record| record.1).sum(), window.end.as_millis()));
    Ok(())
}

fn gap(record: &Record) -> Duration {
    millis(3 + record.1 % 9)
}

/// Makes one of the windows.
type Build = fn(&DataStream<Record>) -> DataStream<Line>;

const BUILDS: [(&str, Build); 12] = [
    ("tumbling, with state", |records| {
        let windows = records.key_by_ref(name).window(Tumbling::of(millis(10)));
        windows.allowed_lateness(millis(7)).process::<Numbered>()
    }),
    ("sliding, counts", |records| {
        let windows = records.key_by_ref(name).window(Sliding::of(millis(20), millis(5)));
        windows.trigger(CountTrigger::of(3)).apply(lines)
    }),
    ("sessions, counts that purge", |records| {
        let windows = records.key_by_ref(name).window(Session::with_gap(millis(6)));
        windows.trigger(PurgingTrigger::of(CountTrigger::of(2))).apply(lines)
    }),
    ("sessions, continuous", |records| {
        let windows =
            records.key_by_ref(name).window(Session::with_gap(millis(6))).allowed_lateness(millis(9));
        windows.trigger(ContinuousEventTimeTrigger::of(millis(4))).apply(lines)
    }),
    ("dynamic sessions", |records| {
        let windows = records.key_by_ref(name).window(Session::with_dynamic_gap(gap));
        windows.allowed_lateness(millis(5)).apply(lines)
    }),
    ("count", |records| records.key_by_ref(name).count_window(3).apply(lines)),
    ("sliding count", |records| records.key_by_ref(name).count_window_sliding(4, 3).apply(lines)),
    ("delta", |records| {
        let delta = DeltaTrigger::of(8.0, |a: &Record, b: &Record| a.1.abs_diff(b.1) as f64);
        let windows = records.key_by_ref(name).window(GlobalWindows::create()).trigger(delta);
        windows.evictor(CountEvictor::of(3)).apply(lines)
    }),
    ("evicted tumbling", |records| {
        let windows = records.key_by_ref(name).window(Tumbling::of(millis(12)));
        windows.allowed_lateness(millis(6)).evictor(TimeEvictor::of(millis(5))).apply(lines)
    }),
    ("processing time, tumbling", |records| {
        records.key_by_ref(name).window(Tumbling::of(millis(10)).processing_time()).apply(lines)
    }),
    ("processing time, dynamic sessions", |records| {
        records.key_by_ref(name).window(Session::with_dynamic_gap(gap).processing_time()).apply(lines)
    }),
    ("processing time, continuous", |records| {
        let windows = records.key_by_ref(name).window(Sliding::of(millis(24), millis(12)).processing_time());
        windows.trigger(ContinuousProcessingTimeTrigger::of(millis(5))).apply(lines)
    }),
];

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Where the restarted job keeps its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Backend {
    Heap,
    #[cfg(feature = "rocksdb")]
    RocksDb,
}

/// Makes drivers of one backend, each with a folder of its own.
struct Maker {
    build: Build,
    backend: Backend,
    #[cfg(feature = "rocksdb")]
    folder: tempfile::TempDir,
    made: u32,
}

impl Maker {
    fn new(build: Build, backend: Backend) -> Self {
        Self {
            build,
            backend,
            #[cfg(feature = "rocksdb")]
            folder: tempfile::tempdir().unwrap(),
            made: 0,
        }
    }

    fn driver(&mut self, parallelism: u32) -> Driver<Line> {
        self.made += 1;
        let driver = Driver::new(self.build).parallelism(parallelism);
        match self.backend {
            Backend::Heap => driver,
            #[cfg(feature = "rocksdb")]
            Backend::RocksDb => {
                use stillstream_runtime::backends::{RocksDbOptions, rocksdb};
                let options = RocksDbOptions::new(self.folder.path().join(self.made.to_string()));
                driver.on_backend(rocksdb(false, options))
            }
        }
    }
}

/// What came out of both, in no order: subtasks take turns.
fn check(straight: &mut Driver<Line>, restarted: &mut Driver<Line>, what: &str) -> usize {
    let (mut expected, mut found) = (straight.timed_output(), restarted.timed_output());
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "{what}");
    found.len()
}

/// Runs a window without and with restarts, and compares after each step. Gives back how many results there
/// were.
fn compare(what: &str, build: Build, backend: Backend, seed: u64) -> usize {
    let (mut random, mut maker) = (Random(seed + 1), Maker::new(build, backend));
    let (mut straight, mut restarted) = (Driver::new(build), maker.driver(1 + random.below(3) as u32));
    let (mut now, mut time, mut results) = (0u64, 0i64, 0);
    for step in 0..60 {
        let what = format!("{what}, {backend:?}, seed {seed}, step {step}");
        match random.below(10) {
            0..6 => {
                for _ in 0..random.below(5) {
                    let record = (format!("k{}", random.below(5)), random.below(20));
                    let at = at(time - random.below(15) as i64);
                    straight.record_at(record.clone(), at).unwrap();
                    restarted.record_at(record, at).unwrap();
                }
                time += random.below(6) as i64;
            }
            6..7 => {
                let watermark = at(time - 8);
                straight.watermark(watermark).unwrap();
                restarted.watermark(watermark).unwrap();
            }
            7..8 => {
                let by = random.below(8);
                now += by;
                straight.advance_clock(millis(by)).unwrap();
                restarted.advance_clock(millis(by)).unwrap();
            }
            _ => {
                let snapshot: DriverSnapshot = restarted.snapshot().unwrap();
                drop(restarted);
                restarted = maker.driver(1 + random.below(4) as u32).restored(snapshot);
                restarted.advance_clock(millis(now)).unwrap();
            }
        }
        results += check(&mut straight, &mut restarted, &what);
    }
    straight.end_input().unwrap();
    restarted.end_input().unwrap();
    straight.advance_clock(seconds(10)).unwrap();
    restarted.advance_clock(seconds(10)).unwrap();
    results + check(&mut straight, &mut restarted, &format!("{what}, {backend:?}, seed {seed}, the end"))
}

#[test]
fn every_window_goes_on_after_a_restart_with_any_parallelism() {
    for (what, build) in BUILDS {
        let results: usize = (0..25).map(|seed| compare(what, build, Backend::Heap, seed)).sum();
        assert!(results > 100, "{what}: {results} results");
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn every_window_goes_on_after_a_restart_in_rocksdb_too() {
    for (seed, (what, build)) in BUILDS.into_iter().enumerate() {
        compare(what, build, Backend::RocksDb, seed as u64);
    }
}

#[test]
fn a_reduced_window_of_processing_time_goes_on_after_a_restart() {
    let new = || {
        StreamDriver::new(|records: &DataStream<Record>| {
            let windows = records.key_by_ref(name).window(Tumbling::of(millis(10)).processing_time());
            windows.reduce(add)
        })
    };
    let mut driver = new();
    driver.record(record(1)).unwrap();
    let mut driver = new().restored(driver.snapshot().unwrap());
    driver.record(record(2)).unwrap();
    driver.advance_clock(millis(9)).unwrap();
    assert_eq!(driver.output(), [record(3)]);
}
