//! A source that never ends: some rows, then, when a gate opens, rows far in the future, then nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use stillstream::connect::{SourceContext, SplitNews, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};

/// Key, event time in milliseconds, number.
pub type Row = (u64, i64, u64);

/// Event times of rows lie below this.
pub const SPAN: i64 = 10_000;
/// The rows behind the gate: late enough that the watermark passes all others by far.
const FUTURE: i64 = 10 * SPAN;
/// How many rows behind the gate each split has: enough to reach every subtask after any exchange.
const LAST: u64 = 64;

/// How a reader that has nothing now is called again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// It wakes itself.
    Woken,
    /// It asks to be polled.
    Polled,
}

/// Opens when so many rows have been seen behind the watermark strategies.
#[derive(Default)]
pub struct Gate {
    seen: AtomicU64,
    wanted: AtomicU64,
    readers: Mutex<Vec<SourceContext>>,
}

impl Gate {
    pub fn of(wanted: u64) -> Arc<Self> {
        Arc::new(Self { wanted: AtomicU64::new(wanted), ..Self::default() })
    }

    pub fn set_wanted(&self, wanted: u64) {
        self.wanted.store(wanted, Ordering::SeqCst);
    }

    pub fn count(&self) {
        if self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.wanted.load(Ordering::SeqCst) {
            self.readers.lock().unwrap().iter().for_each(|reader| reader.waker.wake());
        }
    }

    fn is_open(&self) -> bool {
        self.seen.load(Ordering::SeqCst) >= self.wanted.load(Ordering::SeqCst)
    }
}

/// Splits with rows; one without is silent for ever.
pub struct Endless {
    pub splits: Vec<Arc<Vec<Row>>>,
    pub waiting: Waiting,
    pub gate: Arc<Gate>,
}

impl SplitSource for Endless {
    type Item = Row;
    /// Number of the split, and of its next row.
    type Split = (u64, u64);

    fn splits(&self) -> Result<Vec<(u64, u64)>> {
        Ok((0..self.splits.len() as u64).map(|split| (split, 0)).collect())
    }

    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<Row, (u64, u64)>>> {
        self.gate.readers.lock().unwrap().push(context.clone());
        Ok(Box::new(Reader {
            rows: self.splits.clone(),
            waiting: self.waiting,
            gate: self.gate.clone(),
            context: context.clone(),
            splits: Vec::new(),
            turn: 0,
            current: None,
            told: false,
        }))
    }
}

struct Reader {
    rows: Vec<Arc<Vec<Row>>>,
    waiting: Waiting,
    gate: Arc<Gate>,
    context: SourceContext,
    splits: Vec<(u64, u64)>,
    turn: usize,
    current: Option<usize>,
    told: bool,
}

impl SplitReader<Row, (u64, u64)> for Reader {
    fn assign(&mut self, splits: Vec<(u64, u64)>) -> Result<()> {
        self.splits = splits;
        Ok(())
    }

    fn poll(&mut self, max_records: usize, out: &mut Batch<Row>) -> Result<SourceStatus> {
        self.current = None;
        for _ in 0..self.splits.len() {
            self.turn = (self.turn + 1) % self.splits.len();
            let (split, next) = &mut self.splits[self.turn];
            let rows = &self.rows[*split as usize];
            let (have, last) = (rows.len() as u64, if rows.is_empty() { 0 } else { LAST });
            let until = if *next < have { have } else if self.gate.is_open() { have + last } else { have };
            if *next < until {
                let end = until.min(*next + max_records.min(50) as u64);
                let future = |n: u64| (n, FUTURE + n as i64, n);
                out.values.extend((*next..end).map(|n| rows.get(n as usize).copied().unwrap_or_else(|| future(n))));
                *next = end;
                self.current = Some(self.turn);
                return Ok(SourceStatus::More);
            }
        }
        let until_ms = match self.waiting {
            Waiting::Woken => None,
            Waiting::Polled => Some(self.context.clock.now_ms() + 3),
        };
        Ok(SourceStatus::Idle { until_ms })
    }

    fn positions(&self) -> Vec<(u64, u64)> {
        self.splits.clone()
    }

    fn split_news(&mut self) -> Option<SplitNews> {
        // all of them are open from the beginning
        let opened = if self.told { Vec::new() } else { (0..self.splits.len()).collect() };
        self.told = true;
        Some(SplitNews { opened, current: self.current, ended: Vec::new() })
    }
}
