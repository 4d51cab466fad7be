//! [`Collector`]: takes what a function emits, record by record, and makes batches of it.

use std::fmt;

use stillstream_runtime::{Batch, Output};
use stillstream_state::Data;

/// Records of one batch that an operator makes. A longer emission becomes several batches.
pub(crate) const BATCH: usize = 4096;

/// Takes records that a function emits. Each gets the event time of the record that caused it.
///
/// ```
/// use stillstream::prelude::*;
///
/// let env = StreamExecutionEnvironment::new();
/// let words = env
///     .from_collection(vec!["to be or not to be".to_string()])
///     .flat_map_into(|line, out| line.split(' ').for_each(|word| out.emit(word.to_string())));
/// # let _ = words;
/// ```
pub struct Collector<T> {
    batch: Batch<T>,
    full: Vec<Batch<T>>,
    time: Option<i64>,
}

impl<T> Default for Collector<T> {
    fn default() -> Self {
        Self { batch: Batch::default(), full: Vec::new(), time: None }
    }
}

impl<T> fmt::Debug for Collector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("pending", &self.batch.len()).finish_non_exhaustive()
    }
}

impl<T> Collector<T> {
    /// Emits one record.
    #[inline(always)]
    pub fn emit(&mut self, value: T) {
        self.emit_at(value, self.time);
    }

    /// Sets the event time of the records that follow.
    #[inline(always)]
    pub(crate) fn set_time(&mut self, time: Option<i64>) {
        self.time = time;
    }

    #[inline(always)]
    pub(crate) fn emit_at(&mut self, value: T, time: Option<i64>) {
        let len = self.batch.values.len();
        // a batch has times for all its records or for none
        if len >= BATCH || (len > 0 && time.is_some() == self.batch.times.is_empty()) {
            self.start_another(time.is_some());
        }
        self.batch.push(value, time);
    }

    /// An emission of more than one batch fills most of them.
    #[cold]
    fn start_another(&mut self, timed: bool) {
        let times = if timed { Vec::with_capacity(BATCH) } else { Vec::new() };
        let next = Batch::timed(Vec::with_capacity(BATCH), times);
        self.full.push(std::mem::replace(&mut self.batch, next));
    }

    /// Makes room for this many further records.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.batch.values.reserve(n.min(BATCH));
    }
}

impl<T: Data> Collector<T> {
    /// Hands on what was emitted, in order.
    pub(crate) fn flush(&mut self, out: &mut Output) {
        for batch in self.full.drain(..) {
            out.batch(batch);
        }
        if !self.batch.is_empty() {
            out.batch(std::mem::take(&mut self.batch));
        }
    }

    /// Hands on what was emitted as side output `side`.
    pub(crate) fn flush_side(&mut self, side: u32, out: &mut Output) {
        for batch in self.full.drain(..) {
            out.side(side, batch);
        }
        if !self.batch.is_empty() {
            out.side(side, std::mem::take(&mut self.batch));
        }
    }
}
