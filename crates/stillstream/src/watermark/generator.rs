//! Generators of watermarks: the one of the strategies that are built in, and users' own.

use std::fmt;

use stillstream_types::Timestamp;

/// Tells from the records of one split, or of one subtask, how far event time is (Flink's
/// `WatermarkGenerator`).
///
/// ```
/// use stillstream::prelude::*;
///
/// /// A record that closes a batch of the source says how far event time is.
/// struct Batches;
///
/// impl WatermarkGenerator<(i64, bool)> for Batches {
///     fn on_event(&mut self, record: &(i64, bool), at: Timestamp, out: &mut WatermarkOutput) {
///         if record.1 {
///             out.emit(at);
///         }
///     }
/// }
///
/// let strategy = WatermarkStrategy::generator(|| Batches)
///     .timestamp(|record: &(i64, bool)| Timestamp::from_millis(record.0));
/// # let _ = strategy;
/// ```
pub trait WatermarkGenerator<T>: 'static {
    /// Called for each record, with its event time. A watermark that is emitted here stands directly behind
    /// the record.
    fn on_event(&mut self, record: &T, at: Timestamp, out: &mut WatermarkOutput);

    /// Called at each `pipeline.auto-watermark-interval` (200 ms), whether records came or not.
    fn on_periodic(&mut self, out: &mut WatermarkOutput) {
        let _ = out;
    }
}

/// What a [`WatermarkGenerator`] says.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct WatermarkOutput {
    pub(super) watermark: Option<i64>,
    pub(super) idle: Option<bool>,
}

impl fmt::Debug for WatermarkOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatermarkOutput").field("watermark", &self.watermark).finish_non_exhaustive()
    }
}

impl WatermarkOutput {
    /// No record with an event time of `watermark` or earlier will come, late ones aside. One that is not
    /// later than those before says nothing. It also ends idleness.
    pub fn emit(&mut self, watermark: Timestamp) {
        // the end of event time is not a generator's to say
        self.watermark = Some(watermark.as_millis().min(i64::MAX - 1));
        self.idle = Some(false);
    }

    /// Nothing is expected for now: nobody waits for this split or subtask until it emits a watermark again.
    pub fn mark_idle(&mut self) {
        self.idle = Some(true);
    }
}

/// [`WatermarkStrategy::punctuated`](super::WatermarkStrategy::punctuated).
pub(super) struct Punctuated<F>(pub F);

impl<T, F: Fn(&T, Timestamp) -> Option<Timestamp> + 'static> WatermarkGenerator<T> for Punctuated<F> {
    fn on_event(&mut self, record: &T, at: Timestamp, out: &mut WatermarkOutput) {
        (self.0)(record, at).into_iter().for_each(|watermark| out.emit(watermark));
    }
}
