//! [`ProcessContext`]: what a function without keyed state is told.

use std::fmt;

use stillstream_state::Data;
use stillstream_types::{Result, Timestamp};

use crate::collector::Collector;
use crate::side_output::{OutputTag, SideCollectors};

/// The context of one call of a function given to [`DataStream::process`](crate::DataStream::process).
pub struct ProcessContext<'a, O> {
    pub(crate) time: Option<i64>,
    pub(crate) watermark: Timestamp,
    pub(crate) now_ms: i64,
    pub(crate) out: &'a mut Collector<O>,
    pub(crate) sides: &'a mut SideCollectors,
}

impl<O> fmt::Debug for ProcessContext<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessContext")
            .field("time", &self.time)
            .field("watermark", &self.watermark)
            .finish_non_exhaustive()
    }
}

impl<O: Data> ProcessContext<'_, O> {
    /// Event time of the record; `None` if the records have no event time.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.time.map(Timestamp::from_millis)
    }

    /// How far event time has come: no earlier record will come, late ones aside.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Processing time.
    pub fn processing_time(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms)
    }

    /// Emits a record, with the event time of the record that caused it.
    #[inline(always)]
    pub fn emit(&mut self, value: O) {
        self.out.emit_at(value, self.time);
    }

    /// Emits a record into a side output. One that nobody reads drops it.
    ///
    /// # Errors
    /// If the side output is read as another type.
    pub fn side<T: Data>(&mut self, tag: &OutputTag<T>, value: T) -> Result<()> {
        self.sides.emit(tag, value, self.time)
    }
}
