//! A job made from a seed, and what must come out of it.

use std::collections::BTreeMap;
use std::path::Path;

use stillstream::prelude::*;

use crate::faults::place;
use crate::functions::{ASIDE, Everything, HELD, Join, LATE, Later, Ruled, Weight, joined};
use crate::ledger::{Entry, Ledger};
use crate::plan::Random;
use crate::source::{Row, Rows};

/// Rows of a stream by key and weight, each with how often it is there.
pub type Bag = BTreeMap<(u64, u64), u64>;

/// What comes out of a stream: always the sum of each key's weights; each row only where that does not depend
/// on which records come late.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub exact: Option<Bag>,
    pub sums: BTreeMap<u64, u64>,
}

impl Totals {
    fn of(rows: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        let (mut bag, mut sums) = (Bag::new(), BTreeMap::new());
        for (key, weight, times) in rows {
            *bag.entry((key, weight)).or_default() += times;
            let sum: &mut u64 = sums.entry(key).or_default();
            *sum = sum.wrapping_add(weight.wrapping_mul(times));
        }
        Self { exact: Some(bag), sums }
    }

    fn with_keys(&self, change: impl Fn(u64) -> Option<u64>) -> Self {
        let bag = self.exact.as_ref();
        let exact = bag.map(|bag| {
            let changed =
                |(&(key, weight), &times): (&(u64, u64), &u64)| Some(((change(key)?, weight), times));
            bag.iter().filter_map(changed).collect()
        });
        let sums = self.sums.iter().filter_map(|(key, sum)| Some((change(*key)?, *sum))).collect();
        Self { exact, sums }
    }

    fn plus(&self, other: &Self) -> Self {
        let exact = self.exact.clone().zip(other.exact.as_ref()).map(|(mut bag, other)| {
            other.iter().for_each(|(row, times)| *bag.entry(*row).or_default() += times);
            bag
        });
        let mut sums = self.sums.clone();
        for (key, more) in &other.sums {
            let sum = sums.entry(*key).or_default();
            *sum = sum.wrapping_add(*more);
        }
        Self { exact, sums }
    }

    fn loose(self) -> Self {
        Self { exact: None, ..self }
    }

    fn sum_of(&self, key: u64) -> u64 {
        self.sums.get(&key).copied().unwrap_or_default()
    }
}

#[derive(Clone)]
struct Part {
    stream: DataStream<Row>,
    totals: Totals,
}

struct Builder<'a> {
    env: &'a StreamExecutionEnvironment,
    random: Random,
    text: String,
    steps: u64,
    parts: Vec<Part>,
    /// Streams that go to the sinks as they are.
    held: Vec<Part>,
}

/// What must come out of the job, by the number of the stream, and the job in words.
pub struct Expected {
    pub streams: Vec<Totals>,
    pub text: String,
}

/// Builds the job of a seed into an environment.
pub fn build(env: &StreamExecutionEnvironment, seed: u64, folder: &Path) -> Expected {
    let random = Random::new(seed);
    let mut builder = Builder { env, random, text: String::new(), steps: 0, parts: vec![], held: vec![] };
    for _ in 0..1 + builder.random.below(3) {
        builder.source();
    }
    for _ in 0..2 + builder.random.below(5) {
        builder.step();
    }
    let mut parts = builder.parts;
    parts.append(&mut builder.held);
    let labelled = |(label, part): (usize, &Part)| -> DataStream<Entry> {
        part.stream.map(move |row| (label as u64, row.0, row.1))
    };
    let all = parts.iter().enumerate().map(labelled).reduce(|all, more| all.union(&more)).expect("a source");
    all.sink_to("files", FileSink::csv(folder.join("out"))).uid("files");
    all.sink_to("ledger", Ledger::new(&folder.join("ledger"))).uid("ledger");
    Expected { streams: parts.into_iter().map(|part| part.totals).collect(), text: builder.text }
}

impl Builder<'_> {
    fn note(&mut self, text: &str) {
        self.text += text;
        self.text.push(' ');
    }

    fn uid(&self, name: &str) -> String {
        format!("{name}-{}", self.steps)
    }

    fn rows(&mut self, most: u64) -> (DataStream<Row>, Rows) {
        self.steps += 1;
        let rows = Rows {
            number: self.steps,
            count: 1 + self.random.below(most),
            keys: self.random.one_of(&[1, 7, 60, 400]),
            splits: 1 + self.random.below(5),
            step: 30 + self.random.below(100),
            apart: self.random.below(2) == 0,
        };
        self.note(&format!("source({} rows, {} keys, {} splits)", rows.count, rows.keys, rows.splits));
        let uid = self.uid("source");
        (self.env.from_source(&uid, rows.clone()).uid(&uid), rows)
    }

    fn source(&mut self) {
        let (stream, rows) = self.rows(3_000);
        let stream = stream.try_map(|row| place("map").map(|()| row));
        self.parts.push(Part { stream, totals: Totals::of(rows.all().map(|row| (row.0, row.1, 1))) });
    }

    fn take(&mut self) -> Part {
        if self.parts.is_empty() {
            self.source();
        }
        let at = self.random.below(self.parts.len() as u64) as usize;
        self.parts.swap_remove(at)
    }

    /// A stream that says what a function held at the end: one row for each key.
    fn hold(&mut self, stream: &DataStream<Row>, rows: impl Iterator<Item = (u64, u64)>) {
        let totals = Totals::of(rows.map(|(key, weight)| (key, weight, 1)));
        self.held.push(Part { stream: stream.side_output(&HELD), totals });
    }

    fn windows(&mut self, part: Part) -> Part {
        let sliding = self.random.below(3) == 0;
        let delay = if sliding { 1 << 40 } else { self.random.one_of(&[0, 100, 100_000]) };
        let time = |row: &Row| Timestamp::from_millis(row.2);
        let strategy = WatermarkStrategy::bounded_out_of_orderness(millis(delay)).timestamp(time);
        let timed = part.stream.watermarks(strategy).uid(self.uid("time"));
        let keyed = timed.key_by(|row| row.0);
        let session = self.random.below(2) == 0;
        let (windowed, kind) = match (sliding, session) {
            (true, _) => (keyed.window(Sliding::of(millis(200), millis(100))), "sliding"),
            (_, true) => (keyed.window(Session::with_gap(millis(20))), "session"),
            _ => (keyed.window(Tumbling::of(millis(100))), "tumbling"),
        };
        self.note(&format!("{kind}(delay {delay})"));
        let results = windowed
            .late_output(&LATE)
            .aggregate_with(Weight, |key, window, weight| (*key, weight, window.last().as_millis()))
            .uid(self.uid("windows"));
        let stream = results.union(&results.side_output(&LATE)).map(|row| row);
        let totals = if sliding { part.totals.plus(&part.totals) } else { part.totals };
        Part { stream, totals: totals.loose() }
    }

    fn step(&mut self) {
        let Part { stream, totals } = self.take();
        self.steps += 1;
        let part = match self.random.below(13) {
            0 => {
                self.note("map");
                let totals = totals.with_keys(|key| Some(key * 7 + 1));
                Part { stream: stream.map(|(key, weight, at)| (key * 7 + 1, weight, at)), totals }
            }
            1 => {
                self.note("side");
                let kept = stream.split_off(&ASIDE, |row| row.0 % 3 == 0);
                let aside = totals.with_keys(|key| (key % 3 == 0).then_some(key));
                self.parts.push(Part { stream: kept.side_output(&ASIDE), totals: aside });
                Part { stream: kept, totals: totals.with_keys(|key| (key % 3 != 0).then_some(key)) }
            }
            2 | 3 => {
                self.note("everything");
                let stream = stream.key_by(|row| row.0).process::<Everything>().uid(self.uid("everything"));
                self.hold(&stream, totals.sums.clone().into_iter());
                Part { stream, totals }
            }
            4 | 5 => self.windows(Part { stream, totals }),
            6 => {
                self.note("later");
                let stream = stream.key_by(|row| row.0).process::<Later>().uid(self.uid("later"));
                Part { stream, totals }
            }
            7 => {
                self.note("join");
                let uid = self.uid("join");
                let other = self.take();
                let connected = stream.connect(&other.stream).key_by(|row| row.0, |row| row.0);
                let stream = connected.process::<Join>().uid(uid);
                let both = totals.plus(&other.totals);
                let of = |key: u64| (key, joined(totals.sum_of(key), other.totals.sum_of(key)));
                self.hold(&stream, both.sums.keys().map(|key| of(*key)));
                Part { stream, totals: both }
            }
            8 => {
                self.note("ruled by");
                let uid = self.uid("ruled");
                let (rules, all) = self.rows(40);
                let sum = all.all().fold(0u64, |sum, rule| sum.wrapping_add(rule.1));
                let stream = stream.key_by(|row| row.0).connect_broadcast(&rules).process::<Ruled>().uid(uid);
                self.hold(&stream, totals.sums.keys().map(|key| (*key, sum)));
                Part { stream, totals }
            }
            9 => {
                self.note("diamond");
                let union =
                    stream.map(|row| row).union(&stream.rebalance().map(|row| row).disable_chaining());
                Part { stream: union.map(|row| row), totals: totals.plus(&totals) }
            }
            10 => {
                let ordered = self.random.below(2) == 0;
                self.note(&format!("ask(ordered {ordered})"));
                let asked = stream.async_map(|row: Row| async move {
                    // some are always under way when the job fails
                    tokio::time::sleep(Duration::from_micros(row.1 % 2_000)).await;
                    place("map").map(|()| row)
                });
                let asked = asked.capacity(1 + self.random.below(100) as usize);
                let answers = if ordered { asked.ordered() } else { asked.unordered() };
                Part { stream: answers.uid(self.uid("asked")), totals }
            }
            11 => {
                self.note("shuffle, rescale");
                let one = stream.shuffle().map(|row| row).set_parallelism(1);
                Part { stream: one.rescale().map(|row| row), totals }
            }
            _ => {
                self.note("one, union");
                let other = self.take();
                let one = stream.map(|row| row).set_parallelism(1);
                Part { stream: one.union(&other.stream), totals: totals.plus(&other.totals) }
            }
        };
        self.parts.push(part);
    }
}
