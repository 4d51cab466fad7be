//! Where records go whose windows are over.

use std::sync::Arc;

use stillstream_runtime::Output;
use stillstream_runtime::metrics::Counters;
use stillstream_state::Data;
use stillstream_types::Result;

use crate::side_output::{OutputTag, SideCollectors, Sides};

/// What the user wants to be done with late records.
pub(crate) struct LatePolicy<T> {
    pub tag: Option<OutputTag<T>>,
    pub sides: Sides,
}

impl<T> Clone for LatePolicy<T> {
    fn clone(&self) -> Self {
        Self { tag: self.tag, sides: self.sides.clone() }
    }
}

/// Takes the late records of one parallel instance: into a side output, or dropped and counted.
pub(crate) struct LateRecords<T> {
    tag: Option<OutputTag<T>>,
    sides: SideCollectors,
    counters: Arc<Counters>,
    counter: String,
    dropped: u64,
}

impl<T: Data> LateRecords<T> {
    pub fn open(policy: &LatePolicy<T>, name: &str, counters: Arc<Counters>) -> Self {
        let counter = format!("{name}.late");
        Self { tag: policy.tag, sides: policy.sides.open(), counters, counter, dropped: 0 }
    }

    pub fn take(&mut self, record: T, time: i64) -> Result<()> {
        match &self.tag {
            Some(tag) => self.sides.emit(tag, record, Some(time)),
            None => {
                self.dropped += 1;
                Ok(())
            }
        }
    }

    /// After each batch.
    pub fn flush(&mut self, out: &mut Output) {
        self.sides.flush(out);
        self.counters.add(&self.counter, std::mem::take(&mut self.dropped));
    }
}
