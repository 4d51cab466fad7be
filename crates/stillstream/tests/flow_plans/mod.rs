//! Plans made from a seed, whose weight at the end is known: of sources that end, or of some that never do.

pub mod endless;

use std::sync::{Arc, mpsc};

use endless::{Endless, Gate, Waiting};

use stillstream::join::{Either, IntervalJoinContext};
use stillstream::prelude::*;

/// Key, weight, event time in milliseconds. What a plan does to the sum of the weights is known.
pub type Row = (u64, u64, i64);

/// Xorshift: the same plan for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// The sum of the weights.
pub struct Weight;

impl Aggregate for Weight {
    type In = Row;
    type Acc = u64;
    type Out = u64;

    fn create(&self) -> u64 {
        0
    }
    fn add(&self, acc: &mut u64, row: Row) {
        *acc += row.1;
    }
    fn merge(&self, acc: &mut u64, other: u64) {
        *acc += other;
    }
    fn result(&self, acc: &u64) -> u64 {
        *acc
    }
}

/// Passes both inputs on, and counts them by key.
pub struct Join {
    seen: ValueState<(u64, u64)>,
}

impl CoProcess for Join {
    type Key = u64;
    type In1 = Row;
    type In2 = Row;
    type Out = Row;

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self { seen: states.value("seen")? })
    }
    fn process1(&mut self, row: Row, ctx: &mut CoContext<Self>) -> Result<()> {
        let (left, right) = self.seen.get(ctx)?.unwrap_or_default();
        self.seen.set(ctx, (left + 1, right))?;
        ctx.emit(row);
        Ok(())
    }
    fn process2(&mut self, row: Row, ctx: &mut CoContext<Self>) -> Result<()> {
        let (left, right) = self.seen.get(ctx)?.unwrap_or_default();
        self.seen.set(ctx, (left, right + 1))?;
        ctx.emit(row);
        Ok(())
    }
}

/// The end of the job, if it comes within `limit`.
pub fn end_within(client: &JobClient, limit: Duration) -> Option<Result<JobResult>> {
    let (ended, end) = mpsc::channel();
    let client = client.clone();
    let waiting = std::thread::Builder::new().spawn(move || {
        // a test that has given up does not listen
        _ = ended.send(client.wait());
    });
    waiting.expect("a thread");
    end.recv_timeout(limit).ok()
}

/// Passes rows on and counts them, with a timer that says nothing.
struct Counted<F> {
    rows: OperatorListState<u64>,
    step: F,
}

impl<F: Fn(Row, &mut TimedContext<'_, Row>) -> Result<()> + 'static> Process for Counted<F> {
    type In = Row;
    type Out = Row;

    fn process(&mut self, row: Row, ctx: &mut TimedContext<'_, Row>) -> Result<()> {
        let soon = ctx.processing_time() + millis(3);
        ctx.on_processing_time(soon);
        let rows = self.rows.get()?.into_iter().sum::<u64>();
        self.rows.update(vec![rows + 1])?;
        (self.step)(row, ctx)
    }
}

const LATE_EITHER: OutputTag<Either<Row, Row>> = OutputTag::new("late either");
const LATE: OutputTag<Row> = OutputTag::new("late");
const ASIDE: OutputTag<Row> = OutputTag::new("aside");

/// A stream, and between which bounds the sum of its weights is.
#[derive(Clone)]
struct Part {
    stream: DataStream<Row>,
    least: u64,
    most: u64,
    /// Whether it has watermarks.
    timed: bool,
}

/// The rows that push event time on in streams that never end have this weight, which is no part of the sum.
const PUSH: u64 = 1 << 32;
/// Windows can stand one behind the other: each wave of such rows makes the windows of the wave before it
/// fire.
const WAVES: u64 = 12;
/// Between two waves: more than any delay, window and gap.
const WAVE: i64 = 1_000_000;

/// A row's part of the sum.
pub fn weight(row: &Row) -> u64 {
    row.1 % PUSH
}

/// A plan under construction.
pub struct Plan {
    pub random: Random,
    pub text: String,
    steps: u64,
    parts: Vec<Part>,
    endless: bool,
}

/// The sums that come out: weights of the last stream, and its bounds.
pub struct Outcome {
    pub rows: DataStream<Row>,
    pub least: u64,
    pub most: u64,
    pub text: String,
}

impl Plan {
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), text: String::new(), steps: 0, parts: Vec::new(), endless: false }
    }

    /// A plan whose sources never end. Some have splits without rows, some no rows at all; some are polled.
    pub fn endless(seed: u64) -> Self {
        Self { endless: true, ..Self::new(seed) }
    }

    fn endless_source(&mut self, env: &StreamExecutionEnvironment, count: u64, keys: u64) -> DataStream<Row> {
        let splits = 1 + self.random.below(5);
        let silent = self.random.below(4) == 0 && splits > 1;
        let waiting = [Waiting::Woken, Waiting::Polled][self.random.below(2) as usize];
        self.note(&format!("endless({splits} splits, first silent {silent}, {waiting:?})"));
        let (first, gate) = (u64::from(silent), Gate::open());
        let of = |split: u64| {
            let own = (0..count).filter(|i| split >= first && i % (splits - first) == split - first);
            Arc::new(own.map(|i| (i % keys, i % 2, (i / 2) as i64)).collect::<Vec<Row>>())
        };
        let last =
            (1..=WAVES as i64).flat_map(|wave| (0..64).map(move |key| (key, PUSH, wave * WAVE + key as i64)));
        let rows = Endless {
            splits: (0..splits).map(of).collect(),
            last: Arc::new(last.collect()),
            waiting,
            gate: gate.clone(),
        };
        let uid = format!("source-{}", self.steps);
        let mut stream = env.from_source(&uid, rows).uid(&uid);
        if self.random.below(2) == 0 {
            self.note("paused");
            // the source is silent until all its rows have come further
            gate.set_wanted(count);
            stream = stream.inspect(move |_| gate.count());
        }
        if self.random.below(4) > 0 {
            return stream;
        }
        self.note("silent(union)");
        let rows =
            Endless { splits: vec![Arc::default()], last: Arc::default(), waiting, gate: Gate::open() };
        let uid = format!("silent-{}", self.steps);
        stream.union(&env.from_source(&uid, rows).uid(&uid))
    }

    fn strategy(&mut self) -> WatermarkStrategy<Row> {
        let delay = [0, 100, 100_000][self.random.below(3) as usize];
        self.note(&format!("time(delay {delay})"));
        let time = |row: &Row| Timestamp::from_millis(row.2);
        let strategy = WatermarkStrategy::bounded_out_of_orderness(millis(delay)).timestamp(time);
        if self.endless { strategy.idleness(millis(20)) } else { strategy }
    }

    /// Gives a stream watermarks.
    fn time(&mut self, part: Part) -> Part {
        let strategy = self.strategy();
        let stream = part.stream.watermarks(strategy).uid(format!("time-{}", self.steps));
        Part { stream, timed: true, ..part }
    }

    pub fn note(&mut self, text: &str) {
        self.text += text;
        self.text.push(' ');
    }

    fn source(&mut self, env: &StreamExecutionEnvironment) {
        self.steps += 1;
        let count = 2 * (200 + self.random.below(4_000));
        let keys = [1, 10, 500, 100_000][self.random.below(4) as usize];
        self.note(&format!("source({count} rows, {keys} keys)"));
        if self.endless {
            let stream = self.endless_source(env, count, keys);
            self.parts.push(Part { stream, least: count / 2, most: count / 2, timed: false });
            return;
        }
        let rows = Generator::new(count, move |i| (i % keys, i % 2, (i / 2) as i64));
        let uid = format!("source-{}", self.steps);
        let stream = env.from_source(&uid, rows).uid(&uid);
        self.parts.push(Part { stream, least: count / 2, most: count / 2, timed: false });
    }

    fn windows(&mut self, part: Part) -> Part {
        // a strategy may lie further up
        let part = if part.timed && self.random.below(2) == 0 { part } else { self.time(part) };
        let rows = &part.stream;
        let keyed = rows.key_by(|row| row.0);
        let (windowed, copies, kind) = match self.random.below(3) {
            0 => (keyed.window(Tumbling::of(millis(200))), 1, "tumbling"),
            1 => (keyed.window(Sliding::of(millis(300), millis(100))), 3, "sliding"),
            _ => (keyed.window(Session::with_gap(millis(50))), 1, "session"),
        };
        self.note(kind);
        let sums = windowed
            .late_output(&LATE)
            .aggregate_with(Weight, |key, window, weight| (*key, weight, window.last().as_millis()))
            .uid(format!("windows-{}", self.steps));
        let stream = sums.union(&sums.side_output(&LATE)).map(|row| row);
        // the results have the times of their windows, and what was late has its own
        Part { stream, least: part.least, most: part.most * copies, timed: part.timed }
    }

    /// All rows of two streams, by key and window.
    fn window_join(&mut self, env: &StreamExecutionEnvironment, part: Part) -> Part {
        if self.parts.is_empty() {
            self.source(env);
        }
        let other = self.parts.pop().expect("just made");
        let first = self.time(part);
        self.steps += 1;
        let second = self.time(other);
        self.note("window join");
        let all = first
            .stream
            .key_by(|row| row.0)
            .join(&second.stream.key_by(|row| row.0))
            .window(Tumbling::of(millis(200)))
            .late_output(&LATE_EITHER)
            .co_group(|_, _, first, second, out| {
                first.into_iter().chain(second).for_each(|row| out.emit(row));
                Ok(())
            })
            .uid(format!("window-join-{}", self.steps));
        let late = all.side_output(&LATE_EITHER).map(|row| match row {
            Either::First(row) | Either::Second(row) => row,
        });
        let stream = all.union(&late).map(|row| row);
        Part { stream, least: first.least + second.least, most: first.most + second.most, timed: true }
    }

    /// The rows themselves, beside a join that emits nothing.
    fn interval_join(&mut self, part: Part) -> Part {
        if part.most > 8_000 {
            return part;
        }
        let part = self.time(part);
        self.note("interval join");
        let keyed = part.stream.key_by(|row| row.0);
        // the pairs themselves would flood the plan: behind a window all rows of a key have the same time
        let pairs = keyed
            .interval(&keyed, before(millis(2))..after(millis(2)))
            .process(|_, _, _: &mut IntervalJoinContext<'_, Row>| Ok(()))
            .uid(format!("interval-join-{}", self.steps));
        Part { stream: part.stream.union(&pairs).map(|row| row), ..part }
    }

    /// Asks for each row, and is given it.
    fn ask(&mut self, part: Part) -> Part {
        let (capacity, ordered) = (1 + self.random.below(200) as usize, self.random.below(2) == 0);
        self.note(&format!("ask({capacity}, ordered {ordered})"));
        let asked = part.stream.async_map(|row: Row| async move {
            tokio::task::yield_now().await;
            Ok(row)
        });
        let asked = asked.capacity(capacity);
        let answers = if ordered { asked.ordered() } else { asked.unordered() };
        Part { stream: answers.uid(format!("asked-{}", self.steps)), ..part }
    }

    fn partition(&mut self, part: Part) -> Part {
        let stream = &part.stream;
        let (name, stream) = match self.random.below(6) {
            0 => ("shuffle", stream.shuffle().map(|row| row)),
            1 => {
                ("rescale", stream.rescale().map(|row| row).set_parallelism(1 + self.random.below(4) as u32))
            }
            2 => ("global", stream.global().map(|row| row)),
            3 => {
                let by = |row: &Row, subtasks: u32| (row.0 % u64::from(subtasks)) as u32;
                ("partition_by", stream.partition_by(by).map(|row| row))
            }
            4 => ("new chain", stream.map(|row| row).start_new_chain()),
            _ => ("at once", stream.map(|row| row).set_buffer_timeout(Duration::ZERO)),
        };
        self.note(name);
        Part { stream, ..part }
    }

    fn step(&mut self, env: &StreamExecutionEnvironment, parallelism: u64) {
        self.steps += 1;
        let at = self.random.below(self.parts.len() as u64) as usize;
        let part = self.parts.swap_remove(at);
        let Part { stream, least, most, timed } = part.clone();
        let same = |stream| Part { stream, least, most, timed };
        let part = match self.random.below(17) {
            0 => {
                self.note("map");
                same(stream.map(|(key, weight, at)| (key * 7 + 1, weight, at)))
            }
            1 => {
                self.note("filter");
                same(stream.filter(|row| row.1 != 0))
            }
            2 | 3 => self.windows(part),
            4 => {
                self.note("keyed");
                let step = |seen: &mut u64, row: Row| {
                    *seen += 1;
                    row
                };
                let keyed = stream.key_by(|row| row.0).map_with_state("seen", step);
                same(keyed.uid(format!("keyed-{}", self.steps)))
            }
            5 => {
                if self.parts.is_empty() {
                    self.source(env);
                }
                self.note("join");
                let other = self.parts.pop().expect("just made");
                let joined = stream.connect(&other.stream).key_by(|row| row.0, |row| row.0).process::<Join>();
                let stream = joined.uid(format!("join-{}", self.steps));
                let timed = timed && other.timed;
                Part { stream, least: least + other.least, most: most + other.most, timed }
            }
            6 => {
                self.note("diamond");
                let (left, right) = (stream.map(|row| row), stream.filter(|row| row.1 != 0));
                let stream = match self.random.below(2) {
                    0 => left.union(&right).map(|row| row),
                    _ => left
                        .connect(&right)
                        .key_by(|row| row.0, |row| row.0)
                        .process::<Join>()
                        .uid(format!("diamond-{}", self.steps)),
                };
                Part { stream, least: least * 2, most: most * 2, timed }
            }
            7 => {
                self.note("side");
                let kept = stream.split_off(&ASIDE, |row| row.0 % 3 == 0);
                same(kept.union(&kept.side_output(&ASIDE)).map(|row| row))
            }
            8 => {
                self.note("rebalance");
                same(stream.rebalance().map(|row| row).disable_chaining())
            }
            9 => self.time(part),
            10 => self.window_join(env, part),
            11 => self.interval_join(part),
            12 | 13 => self.ask(part),
            14 => {
                self.note("held");
                let step = |row: Row, ctx: &mut TimedContext<'_, Row>| {
                    ctx.emit(row);
                    Ok(())
                };
                let held =
                    stream.process_with(move |states| Ok(Counted { rows: states.list("rows")?, step }));
                same(held.uid(format!("held-{}", self.steps)))
            }
            15 => self.partition(part),
            _ if most < 20_000 => {
                self.note("broadcast");
                let stream = stream.broadcast().map(|row| row);
                Part { stream, least: least * parallelism, most: most * parallelism, timed }
            }
            _ => {
                self.note("one");
                same(stream.map(|row| row).set_parallelism(1))
            }
        };
        self.parts.push(part);
    }

    /// Sources, steps, and one end.
    pub fn build(mut self, env: &StreamExecutionEnvironment, parallelism: u64) -> Outcome {
        for _ in 0..1 + self.random.below(3) {
            self.source(env);
        }
        for _ in 0..2 + self.random.below(5) {
            self.step(env, parallelism);
        }
        let mut last = self.parts.pop().expect("a source");
        for other in std::mem::take(&mut self.parts) {
            last.stream = last.stream.union(&other.stream);
            last.least += other.least;
            last.most += other.most;
        }
        Outcome { rows: last.stream, least: last.least, most: last.most, text: self.text }
    }
}
