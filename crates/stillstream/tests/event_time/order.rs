//! Late and early may differ by one record: whatever stands before a mark on its channel came before it, and
//! nothing else did.

use std::collections::BTreeMap;
use std::path::Path;

use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};

/// Key, event time, whether a watermark of that time stands behind it.
type Row = (u64, i64, bool);

const LATE: OutputTag<Row> = OutputTag::new("late");
const WINDOW: i64 = 10;

/// One split with all rows, read by one subtask: every receiver has one channel, whose order is all that
/// counts.
struct Rows {
    count: u64,
    /// Rows that one call returns.
    batch: usize,
}

/// A row that is random, and always the same.
fn row(n: u64) -> Row {
    let mixed = |salt: u64| (n ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) >> 20;
    // watermarks go on by 1 every few rows, and every other row is near one
    let base = n as i64 / 3;
    (mixed(1) % 5, base + (mixed(2) % 4) as i64 * 10 - 20, mixed(3) % 4 == 0)
}

impl SplitSource for Rows {
    type Item = Row;
    type Split = u64;
    fn splits(&self) -> Result<Vec<u64>> {
        Ok(vec![0])
    }
    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<Row, u64>>> {
        Ok(Box::new(Reader { count: self.count, batch: self.batch, next: Vec::new() }))
    }
}

struct Reader {
    count: u64,
    batch: usize,
    next: Vec<u64>,
}

impl SplitReader<Row, u64> for Reader {
    fn assign(&mut self, splits: Vec<u64>) -> Result<()> {
        self.next = splits;
        Ok(())
    }
    fn poll(&mut self, max_records: usize, out: &mut Batch<Row>) -> Result<SourceStatus> {
        let Some(next) = self.next.first_mut() else { return Ok(SourceStatus::Ended) };
        let until = self.count.min(*next + max_records.min(self.batch) as u64);
        out.values.extend((*next..until).map(row));
        *next = until;
        Ok(if until == self.count { SourceStatus::Ended } else { SourceStatus::More })
    }
    fn positions(&self) -> Vec<u64> {
        self.next.clone()
    }
}

/// Rows by key and window; late ones by key, with a window of -1.
pub type Counts = BTreeMap<(u64, i64), u64>;

/// What comes out when this many rows are read one after the other.
pub fn offline(count: u64) -> Counts {
    let (mut counts, mut watermark) = (Counts::new(), i64::MIN);
    for (key, at, mark) in (0..count).map(row) {
        let start = at.div_euclid(WINDOW) * WINDOW;
        let late = start + WINDOW - 1 <= watermark;
        *counts.entry((key, if late { -1 } else { start })).or_default() += 1;
        if mark {
            watermark = watermark.max(at);
        }
    }
    counts
}

/// Runs the job, whose results go into files.
pub fn run(env: &mut StreamExecutionEnvironment, count: u64, batch: usize, out: &Path) -> Result<JobResult> {
    let strategy = WatermarkStrategy::punctuated(|row: &Row, at| row.2.then_some(at))
        .timestamp(|row: &Row| Timestamp::from_millis(row.1));
    let counted = env
        .from_source("rows", Rows { count, batch })
        .uid("rows")
        .set_parallelism(1)
        .watermarks(strategy)
        .uid("time")
        .set_parallelism(1)
        .key_by(|row| row.0)
        .window(Tumbling::of(millis(WINDOW as u64)))
        .late_output(&LATE)
        .aggregate_with(Count, |key, window, n| (*key, window.start.as_millis(), n))
        .uid("windows");
    counted
        .side_output(&LATE)
        .map(|row| (row.0, -1i64, 1u64))
        .union(&counted)
        .sink_to("out", FileSink::csv(out))
        .uid("out");
    env.execute("order")
}

struct Count;

impl Aggregate for Count {
    type In = Row;
    type Acc = u64;
    type Out = u64;
    fn create(&self) -> u64 {
        0
    }
    fn add(&self, acc: &mut u64, _: Row) {
        *acc += 1;
    }
    fn merge(&self, acc: &mut u64, other: u64) {
        *acc += other;
    }
    fn result(&self, acc: &u64) -> u64 {
        *acc
    }
}

/// What lies in the files.
pub fn read(out: &Path) -> Counts {
    let mut counts = Counts::new();
    for entry in std::fs::read_dir(out).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            for line in std::fs::read_to_string(path).unwrap().lines() {
                let mut numbers = line.split(',').map(|number| number.parse::<i64>().unwrap());
                let mut next = || numbers.next().unwrap();
                let (key, window, n) = (next() as u64, next(), next() as u64);
                let known = counts.entry((key, window)).or_default();
                assert!(*known == 0 || window == -1, "window {window} of key {key} fired twice");
                *known += n;
            }
        }
    }
    counts
}

#[test]
fn late_and_early_differ_by_one_record_between_two_marks_at_any_parallelism() {
    let expected = offline(6_000);
    let late: u64 = expected.iter().filter(|((_, window), _)| *window == -1).map(|(_, n)| n).sum();
    assert!((500..5_000).contains(&late), "the rows say something: {late} late");
    for parallelism in [1, 2, 7] {
        for (batch, chaining) in [(1, true), (7, false), (1_000, true)] {
            let folder = tempfile::tempdir().unwrap();
            let mut env = StreamExecutionEnvironment::new();
            env.set_parallelism(parallelism);
            if !chaining {
                env.disable_operator_chaining();
            }
            run(&mut env, 6_000, batch, folder.path()).unwrap();
            assert_eq!(read(folder.path()), expected, "parallelism {parallelism}, batches of {batch}");
        }
    }
}
