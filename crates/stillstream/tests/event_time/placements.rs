//! Every placement of a watermark strategy: windows fire, and their results are those of an offline
//! computation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;

use stillstream::config::options;
use stillstream::prelude::*;

use crate::endless::{Endless, Gate, Waiting};

/// Key, event time in milliseconds, number.
type Row = (u64, i64, u64);

/// Event times of rows lie below this; those of the last rows of each split, far above it.
const SPAN: i64 = 10_000;

const ASIDE: OutputTag<Row> = OutputTag::new("aside");
const ROWS: u64 = 600;
const SPLITS: u64 = 4;
const WINDOW: i64 = 500;

/// What a placement makes of a source: the stream with event time, and how often each row comes.
type Place = fn(&StreamExecutionEnvironment, DataStream<Row>, u64) -> (DataStream<Row>, u64);

/// Everything may come in any order behind an exchange: a row is never late before the gate has opened.
fn strategy() -> WatermarkStrategy<Row> {
    WatermarkStrategy::bounded_out_of_orderness(Duration::from_millis(SPAN as u64))
        .timestamp(|row: &Row| Timestamp::from_millis(row.1))
        .idleness(millis(40))
}

fn with_state(rows: &DataStream<Row>, uid: &str) -> DataStream<Row> {
    let count = |seen: &mut u64, row: Row| {
        *seen += 1;
        row
    };
    rows.key_by(|row| row.0).map_with_state("seen", count).uid(uid)
}

fn timed(rows: &DataStream<Row>, uid: &str) -> DataStream<Row> {
    rows.watermarks(strategy()).uid(uid)
}

/// Passes both inputs on.
struct Both;

impl CoProcess for Both {
    type Key = u64;
    type In1 = Row;
    type In2 = Row;
    type Out = Row;
    fn open(_: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self)
    }
    fn process1(&mut self, row: Row, ctx: &mut CoContext<Self>) -> Result<()> {
        ctx.emit(row);
        Ok(())
    }
    fn process2(&mut self, row: Row, ctx: &mut CoContext<Self>) -> Result<()> {
        ctx.emit(row);
        Ok(())
    }
}

pub const PLACES: &[(&str, Place)] = &[
    ("on the source", |_, rows, _| (timed(&rows, "time"), 1)),
    ("after a map", |_, rows, _| (timed(&rows.map(|row| row), "time"), 1)),
    ("after a map with a task of its own", |_, rows, _| {
        (timed(&rows.map(|row| row).disable_chaining(), "time"), 1)
    }),
    ("on a source with a task of its own", |_, rows, _| (timed(&rows.disable_chaining(), "time"), 1)),
    ("after a stateful operator", |_, rows, _| (timed(&with_state(&rows, "state"), "time"), 1)),
    ("after rebalance", |_, rows, _| (timed(&rows.rebalance(), "time"), 1)),
    ("after rebalance and a map", |_, rows, _| (timed(&rows.rebalance().map(|row| row), "time"), 1)),
    ("after broadcast", |_, rows, p| (timed(&rows.broadcast().map(|row| row), "time"), p)),
    ("after a union of two", |_, rows, _| {
        let (a, b) = (rows.filter(|row| row.2 % 2 == 0), rows.filter(|row| row.2 % 2 == 1));
        (timed(&a.union(&b), "time"), 1)
    }),
    ("after a union of three", |_, rows, _| {
        let part = |n: u64| rows.filter(move |row| row.2 % 3 == n);
        (timed(&part(0).union(&part(1)).union(&part(2).rebalance()), "time"), 1)
    }),
    ("before a union", |_, rows, _| {
        let part = |n: u64, uid| timed(&rows.filter(move |row| row.2 % 2 == n), uid);
        (part(0, "time-0").union(&part(1, "time-1")), 1)
    }),
    ("on a side output", |_, rows, _| {
        (timed(&rows.split_off(&ASIDE, |_| true).side_output(&ASIDE), "time"), 1)
    }),
    ("before a side output", |_, rows, _| {
        (timed(&rows, "time").split_off(&ASIDE, |_| true).side_output(&ASIDE).map(|row| row), 1)
    }),
    ("after connect", |_, rows, _| {
        let (a, b) = (rows.filter(|row| row.2 % 2 == 0), rows.filter(|row| row.2 % 2 == 1));
        let both = a.connect(&b).key_by(|row| row.0, |row| row.0).process::<Both>().uid("both");
        (timed(&both, "time"), 1)
    }),
    ("before connect", |_, rows, _| {
        let rows = timed(&rows, "time");
        let (a, b) = (rows.filter(|row| row.2 % 2 == 0), rows.filter(|row| row.2 % 2 == 1));
        (a.connect(&b).key_by(|row| row.0, |row| row.0).process::<Both>().uid("both"), 1)
    }),
    ("at a higher parallelism", |_, rows, p| {
        (timed(&rows.map(|row| row).set_parallelism(p as u32 + 2), "time").set_parallelism(p as u32 + 2), 1)
    }),
    ("at a lower parallelism", |_, rows, _| (timed(&rows, "time").set_parallelism(1), 1)),
    ("before a lower parallelism", |_, rows, _| (timed(&rows, "time").map(|row| row).set_parallelism(1), 1)),
    ("with two consumers of the source", |_, rows, _| {
        rows.filter(|_| false).discard();
        (timed(&rows, "time"), 1)
    }),
    ("twice on one source", |_, rows, _| {
        timed(&rows, "other").discard();
        (timed(&rows, "time"), 1)
    }),
    ("two in a row", |_, rows, _| (timed(&timed(&rows, "first").rebalance(), "time"), 1)),
];

/// What makes event time hard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    Woken,
    Polled,
    /// One split of the source never has a row.
    SilentSplit,
    /// A second input of the window never has a row.
    SilentInput(Waiting),
}

fn rows(split: u64) -> Arc<Vec<Row>> {
    let row = |n: u64| {
        let number = split * ROWS + n;
        (number % 7, (number * 7919 % SPAN as u64) as i64, number)
    };
    Arc::new((0..ROWS).map(row).collect())
}

/// Window by key and start: how many rows, and the sum of their numbers.
type Counts = BTreeMap<(u64, i64), (u64, u64)>;

fn offline(splits: &[Arc<Vec<Row>>], copies: u64) -> Counts {
    let mut counts = Counts::new();
    for row in splits.iter().flat_map(|rows| rows.iter()) {
        let window = counts.entry((row.0, row.1 / WINDOW * WINDOW)).or_default();
        *window = (window.0 + copies, window.1 + copies * row.2);
    }
    counts
}

struct Sum;

impl Aggregate for Sum {
    type In = Row;
    type Acc = (u64, u64);
    type Out = (u64, u64);
    fn create(&self) -> (u64, u64) {
        (0, 0)
    }
    fn add(&self, acc: &mut (u64, u64), row: Row) {
        *acc = (acc.0 + 1, acc.1 + row.2);
    }
    fn merge(&self, acc: &mut (u64, u64), other: (u64, u64)) {
        *acc = (acc.0 + other.0, acc.1 + other.1);
    }
    fn result(&self, acc: &(u64, u64)) -> (u64, u64) {
        *acc
    }
}

/// A bounded job with the strategy at that place: rows by key and window, and late ones by key, go into
/// files.
pub fn run_bounded(
    env: &mut StreamExecutionEnvironment,
    place: usize,
    count: u64,
    out: &std::path::Path,
) -> Result<()> {
    const LATE: OutputTag<Row> = OutputTag::new("late");
    let rows = Generator::new(count, |n| (n % 7, (n / 10) as i64, n)).records_per_second(count as f64);
    let source = env.from_source("rows", rows).uid("rows");
    let (stream, _) = PLACES[place].1(env, source, 1);
    let counted = stream
        .key_by(|row| row.0)
        .window(Tumbling::of(millis(WINDOW as u64)))
        .late_output(&LATE)
        .aggregate_with(Sum, |key, window, sum| (*key, window.start.as_millis(), sum.0))
        .uid("windows");
    let late = counted.side_output(&LATE).map(|row| (row.0, -1i64, 1u64));
    late.union(&counted).sink_to("out", FileSink::csv(out)).uid("out");
    env.execute("placed").map(drop)
}

fn run(name: &str, place: Place, case: Case, parallelism: u32, chaining: bool) {
    let what = format!("{name}, {case:?}, parallelism {parallelism}, chaining {chaining}");
    let mut splits: Vec<Arc<Vec<Row>>> = (0..SPLITS).map(rows).collect();
    let waiting = match case {
        Case::Polled | Case::SilentInput(Waiting::Polled) => Waiting::Polled,
        _ => Waiting::Woken,
    };
    if case == Case::SilentSplit {
        splits[1] = Arc::default();
    }
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism).set_restart_strategy(RestartStrategy::none());
    // a worker that sleeps over something, over credits that it owes for instance, does so for good
    env.configuration_mut().set(options::LONGEST_SLEEP, minutes(60));
    if !chaining {
        env.disable_operator_chaining();
    }
    let total: u64 = splits.iter().map(|rows| rows.len() as u64).sum();
    let gate = Gate::open();
    // enough of them to reach every subtask after any exchange
    let last: Arc<Vec<Row>> = Arc::new((0..64).map(|n| (n, 10 * SPAN + n as i64, n)).collect());
    let endless = |splits, waiting| Endless { splits, last: last.clone(), waiting, gate: gate.clone() };
    let source = env.from_source("rows", endless(splits.clone(), waiting)).uid("rows");
    let (mut stream, copies) = place(&env, source, parallelism.into());
    gate.set_wanted(total * copies);
    if let Case::SilentInput(waiting) = case {
        let silent = env.from_source("silent", endless(vec![Arc::default()], waiting)).uid("silent");
        stream = stream.union(&timed(&silent, "silent time"));
    }
    let (results, fired) = mpsc::channel();
    let results = std::sync::Mutex::new(results);
    stream
        .inspect(move |_| gate.count())
        .key_by(|row| row.0)
        .window(Tumbling::of(millis(WINDOW as u64)))
        .aggregate_with(Sum, |key, window, sum| (*key, window.start.as_millis(), sum))
        .uid("windows")
        // a test that has seen enough does not listen
        .inspect(move |row| _ = results.lock().unwrap().send(*row))
        .discard();
    let expected = offline(&splits, copies);
    let job = env.execute_async("placements").unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut found = Counts::new();
    while found.len() < expected.len() {
        let Ok((key, start, sum)) = fired.recv_timeout(seconds(60)) else {
            panic!("{what}: {} of {} windows have fired: {:?}", found.len(), expected.len(), job.status());
        };
        assert!(found.insert((key, start), sum).is_none(), "{what}: window {start} of {key} fired twice");
    }
    job.cancel();
    assert!(job.wait().is_err(), "{what}: it was cancelled");
    assert_eq!(found, expected, "{what}");
}

fn all(cases: &[Case], parallelisms: &[u32]) {
    for (n, (name, place)) in PLACES.iter().enumerate() {
        for (m, case) in cases.iter().enumerate() {
            let parallelism = parallelisms[(n + m) % parallelisms.len()];
            run(name, *place, *case, parallelism, (n + m) % 5 != 4);
        }
    }
}

#[test]
fn windows_fire_wherever_the_strategy_stands() {
    all(&[Case::Woken, Case::Polled], &[2, 3]);
}

#[test]
fn a_silent_split_holds_no_window_back() {
    all(&[Case::SilentSplit], &[1, 2, 4]);
}

#[test]
fn a_silent_input_holds_no_window_back() {
    all(&[Case::SilentInput(Waiting::Woken), Case::SilentInput(Waiting::Polled)], &[1, 2, 3]);
}
