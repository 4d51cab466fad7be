//! [`WatermarkStrategy`]: where a record's time comes from, and how late records may be.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::Timestamp;

/// The record type of a [`WatermarkStrategy`] that has not been told yet where times come from.
#[derive(Clone, Copy, Debug)]
pub struct NoTimes(());

pub(crate) type TimestampFn<T> = Arc<dyn Fn(&T) -> Timestamp + Send + Sync>;

/// How a stream gets its event time (Flink's `WatermarkStrategy`).
///
/// A watermark says that no record with an earlier time follows; windows fire when it passes their end. It is made of the
/// largest time so far, once a batch: `largest - delay - 1 ms`.
///
/// ```
/// use std::time::Duration;
/// use stillstream::prelude::*;
///
/// let strategy = WatermarkStrategy::bounded_out_of_orderness(Duration::from_secs(5))
///     .timestamp(|record: &(String, Timestamp)| record.1)
///     .idleness(Duration::from_secs(60));
/// # let _ = strategy;
/// ```
pub struct WatermarkStrategy<T = NoTimes> {
    /// `None`: no watermarks are made.
    pub(crate) delay_ms: Option<i64>,
    pub(crate) idleness_ms: Option<i64>,
    pub(crate) timestamp: Option<TimestampFn<T>>,
    record: PhantomData<fn(&T)>,
}

impl<T> Clone for WatermarkStrategy<T> {
    fn clone(&self) -> Self {
        Self {
            delay_ms: self.delay_ms,
            idleness_ms: self.idleness_ms,
            timestamp: self.timestamp.clone(),
            record: PhantomData,
        }
    }
}

impl<T> fmt::Debug for WatermarkStrategy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatermarkStrategy")
            .field("delay_ms", &self.delay_ms)
            .field("idleness_ms", &self.idleness_ms)
            .finish_non_exhaustive()
    }
}

fn as_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl WatermarkStrategy {
    fn with_delay(delay_ms: Option<i64>) -> Self {
        Self { delay_ms, idleness_ms: None, timestamp: None, record: PhantomData }
    }

    /// Times never go back within a subtask of the source.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::monotonic().timestamp(|at: &Timestamp| *at);
    /// # let _ = strategy;
    /// ```
    pub fn monotonic() -> Self {
        Self::with_delay(Some(0))
    }

    /// A record is at most `delay` behind the largest time before it; what is later than that is late.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::bounded_out_of_orderness(hours(22)).timestamp(|at: &Timestamp| *at);
    /// # let _ = strategy;
    /// ```
    pub fn bounded_out_of_orderness(delay: Duration) -> Self {
        Self::with_delay(Some(as_millis(delay)))
    }

    /// Only times, no watermarks: event-time windows and timers fire at the end of the input.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::none().timestamp(|at: &Timestamp| *at);
    /// # let _ = strategy;
    /// ```
    pub fn none() -> Self {
        Self::with_delay(None)
    }
}

impl<T> WatermarkStrategy<T> {
    /// Where a record's time comes from. Without this the time that the source gave is kept.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::monotonic().timestamp(|log: &(Timestamp, String)| log.0);
    /// # let _ = strategy;
    /// ```
    pub fn timestamp<U>(
        self,
        timestamp: impl Fn(&U) -> Timestamp + Send + Sync + 'static,
    ) -> WatermarkStrategy<U> {
        WatermarkStrategy {
            delay_ms: self.delay_ms,
            idleness_ms: self.idleness_ms,
            timestamp: Some(Arc::new(timestamp)),
            record: PhantomData,
        }
    }

    /// Keeps the times that the source gave to the records.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::monotonic().source_timestamps::<String>();
    /// # let _ = strategy;
    /// ```
    pub fn source_timestamps<U>(self) -> WatermarkStrategy<U> {
        WatermarkStrategy {
            delay_ms: self.delay_ms,
            idleness_ms: self.idleness_ms,
            timestamp: None,
            record: PhantomData,
        }
    }

    /// After `idleness` of processing time without a record a subtask no longer holds event time back: it follows the
    /// slowest subtask that has records, and never runs ahead of it.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::monotonic().timestamp(|at: &Timestamp| *at).idleness(seconds(30));
    /// # let _ = strategy;
    /// ```
    pub fn idleness(mut self, idleness: Duration) -> Self {
        self.idleness_ms = Some(as_millis(idleness).max(1));
        self
    }

    /// The watermark after records up to `max_ms`.
    pub(crate) fn watermark(&self, max_ms: i64) -> i64 {
        match self.delay_ms {
            Some(delay) if max_ms > i64::MIN => max_ms.saturating_sub(delay).saturating_sub(1),
            _ => i64::MIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_types::time::seconds;

    #[test]
    fn the_watermark_is_one_millisecond_below_the_earliest_time_that_may_follow() {
        assert_eq!(WatermarkStrategy::monotonic().watermark(1000), 999);
        assert_eq!(WatermarkStrategy::bounded_out_of_orderness(seconds(5)).watermark(7000), 1999);
        assert_eq!(WatermarkStrategy::none().watermark(7000), i64::MIN);
    }

    #[test]
    fn without_a_record_there_is_no_watermark_and_extremes_do_not_overflow() {
        let strategy = WatermarkStrategy::bounded_out_of_orderness(Duration::MAX);
        assert_eq!(strategy.watermark(i64::MIN), i64::MIN);
        assert_eq!(strategy.watermark(-5), i64::MIN);
    }
}
