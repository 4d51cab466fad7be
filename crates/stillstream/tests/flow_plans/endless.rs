//! A source that never ends: rows, then, when a gate opens, last rows that lie far in the future, then
//! nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use stillstream::connect::{SourceContext, SplitNews, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};

/// How a reader that has nothing now is called again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// It wakes itself.
    Woken,
    /// It asks to be polled.
    Polled,
}

/// Opens when this many rows have been seen.
#[derive(Default)]
pub struct Gate {
    seen: AtomicU64,
    wanted: AtomicU64,
    readers: Mutex<Vec<SourceContext>>,
}

impl Gate {
    /// One that is open until it is told what it waits for.
    pub fn open() -> Arc<Self> {
        Arc::default()
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
pub struct Endless<T> {
    pub splits: Vec<Arc<Vec<T>>>,
    /// What every split with rows emits when the gate is open.
    pub last: Arc<Vec<T>>,
    pub waiting: Waiting,
    pub gate: Arc<Gate>,
}

impl<T: Data + Sync> SplitSource for Endless<T> {
    type Item = T;
    /// Number of the split, and of its next row.
    type Split = (u64, u64);

    fn splits(&self) -> Result<Vec<(u64, u64)>> {
        Ok((0..self.splits.len() as u64).map(|split| (split, 0)).collect())
    }

    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<T, (u64, u64)>>> {
        self.gate.readers.lock().unwrap().push(context.clone());
        Ok(Box::new(Reader {
            rows: self.splits.clone(),
            last: self.last.clone(),
            waiting: self.waiting,
            gate: self.gate.clone(),
            context: context.clone(),
            splits: Vec::new(),
            turn: 0,
            current: None,
            told: 0,
        }))
    }
}

struct Reader<T> {
    rows: Vec<Arc<Vec<T>>>,
    last: Arc<Vec<T>>,
    waiting: Waiting,
    gate: Arc<Gate>,
    context: SourceContext,
    splits: Vec<(u64, u64)>,
    turn: usize,
    current: Option<usize>,
    /// So many splits were told of.
    told: usize,
}

impl<T: Data + Sync> SplitReader<T, (u64, u64)> for Reader<T> {
    fn assign(&mut self, splits: Vec<(u64, u64)>) -> Result<()> {
        self.splits.extend(splits);
        Ok(())
    }

    fn poll(&mut self, max_records: usize, out: &mut Batch<T>) -> Result<SourceStatus> {
        self.current = None;
        for _ in 0..self.splits.len() {
            self.turn = (self.turn + 1) % self.splits.len();
            let (split, next) = &mut self.splits[self.turn];
            let rows = &self.rows[*split as usize];
            let have = rows.len() as u64;
            let last = if rows.is_empty() { 0 } else { self.last.len() as u64 };
            let until = if self.gate.is_open() { have + last } else { have };
            if *next < until {
                let end = until.min(*next + max_records.min(50) as u64);
                let row = |n: u64| match n.checked_sub(have) {
                    None => rows[n as usize].clone(),
                    Some(n) => self.last[n as usize].clone(),
                };
                out.values.extend((*next..end).map(row));
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
        // each is open as soon as it is assigned
        let opened = (self.told..self.splits.len()).collect();
        self.told = self.splits.len();
        Some(SplitNews { opened, current: self.current, ended: Vec::new() })
    }
}
