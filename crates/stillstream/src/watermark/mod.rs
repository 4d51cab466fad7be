//! Watermarks: how far event time has come, as told from the records.
//!
//! A [`WatermarkStrategy`] says which event time a record has and how much later than others it may come.
//! [`DataStream::watermarks`] applies it. Put it as near to the source as possible: each subtask then sees the records in
//! the order of its source.

mod operator;
mod saved;
#[cfg(test)]
mod tests;

pub(crate) use saved::SavedTime;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stillstream_state::Data;
use stillstream_types::Timestamp;

use crate::data_stream::DataStream;
use crate::graph::NodeSpec;
pub(crate) use operator::AssignWatermarks;

/// Fills the column of event times; one call a batch.
type Times<T> = Arc<dyn Fn(&[T], &mut Vec<i64>) + Send + Sync>;

/// Which event time records have, and how far event time has come after each of them (Flink's `WatermarkStrategy`).
///
/// ```
/// use stillstream::prelude::*;
///
/// #[derive(Clone, Data)]
/// # #[data(crate = stillstream_state)]
/// struct Click { at: Timestamp, user: u64 }
///
/// fn with_time(clicks: &DataStream<Click>) -> DataStream<Click> {
///     clicks.watermarks(
///         WatermarkStrategy::bounded_out_of_orderness(seconds(5))
///             .timestamp(|click: &Click| click.at)
///             .idleness(minutes(1)),
///     )
/// }
/// ```
pub struct WatermarkStrategy<T> {
    /// Milliseconds; without it there are no watermarks before the end of the input.
    delay: Option<i64>,
    times: Option<Times<T>>,
    idleness: Option<i64>,
}

impl<T> Clone for WatermarkStrategy<T> {
    fn clone(&self) -> Self {
        Self { delay: self.delay, times: self.times.clone(), idleness: self.idleness }
    }
}

impl<T> fmt::Debug for WatermarkStrategy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatermarkStrategy")
            .field("delay_ms", &self.delay)
            .field("timestamp", &self.times.is_some())
            .field("idleness_ms", &self.idleness)
            .finish()
    }
}

/// Whole milliseconds, far enough from the ends of event time that sums do not overflow.
pub(crate) fn millis_of(duration: Duration) -> i64 {
    duration.as_millis().min(i64::MAX as u128 / 4) as i64
}

impl<T: 'static> WatermarkStrategy<T> {
    /// Event times never go back within a subtask: the watermark is the largest event time so far, less 1 ms.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::monotonic().timestamp(|at: &Timestamp| *at);
    /// # let _ = strategy;
    /// ```
    pub fn monotonic() -> Self {
        Self::bounded_out_of_orderness(Duration::ZERO)
    }

    /// A record comes at most `delay` after another one with a later event time: the watermark is the largest event time so
    /// far, less `delay` and 1 ms. Records that come later still are late.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::bounded_out_of_orderness(hours(22)).timestamp(|at: &Timestamp| *at);
    /// # let _ = strategy;
    /// ```
    pub fn bounded_out_of_orderness(delay: Duration) -> Self {
        Self { delay: Some(millis_of(delay)), times: None, idleness: None }
    }

    /// Event times, but no watermark before the input ends: windows fire only then.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::none().timestamp(|at: &Timestamp| *at);
    /// # let _ = strategy;
    /// ```
    pub fn none() -> Self {
        Self { delay: None, times: None, idleness: None }
    }

    /// How to tell a record's event time. Without it records keep the event time that their source gave them.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy =
    ///     WatermarkStrategy::monotonic().timestamp(|record: &(u64, i64)| Timestamp::from_millis(record.1));
    /// # let _ = strategy;
    /// ```
    pub fn timestamp(mut self, timestamp: impl Fn(&T) -> Timestamp + Send + Sync + 'static) -> Self {
        self.times = Some(Arc::new(move |records, times| {
            times.clear();
            times.extend(records.iter().map(|record| timestamp(record).as_millis()));
        }));
        self
    }

    /// A subtask that got no record for this long (in processing time) holds event time back no longer: its watermark
    /// follows those of the active subtasks, and never runs ahead of them. At least 1 ms.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy =
    ///     WatermarkStrategy::monotonic().timestamp(|at: &Timestamp| *at).idleness(seconds(30));
    /// # let _ = strategy;
    /// ```
    pub fn idleness(mut self, after: Duration) -> Self {
        self.idleness = Some(millis_of(after).max(1));
        self
    }
}

impl<T: Data> DataStream<T> {
    /// Gives records their event times, and the stream its watermarks. Watermarks that the stream had before end here.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn with_time(ticks: &DataStream<(String, i64)>) -> DataStream<(String, i64)> {
    ///     let time = |tick: &(String, i64)| Timestamp::from_millis(tick.1);
    ///     ticks.watermarks(WatermarkStrategy::monotonic().timestamp(time))
    /// }
    /// ```
    pub fn watermarks(&self, strategy: WatermarkStrategy<T>) -> DataStream<T> {
        self.operator(NodeSpec::stateful("watermarks"), move || Ok(AssignWatermarks::new(strategy.clone())))
    }
}
