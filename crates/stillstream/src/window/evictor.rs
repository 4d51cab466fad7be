//! [`Evictor`]: throws records out of a window before or after its function is called.

use std::fmt;
use std::time::Duration;

use stillstream_state::Data;
use stillstream_types::{Result, Timestamp};

use super::TimeWindow;
use crate::watermark::millis_of;

/// A record in a window, and its event time.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct TimestampedValue<T: Data> {
    /// The record.
    pub value: T,
    /// Its event time; `None` if the records have none.
    pub timestamp: Option<Timestamp>,
}

/// What a call of an [`Evictor`] is told.
#[derive(Clone, Copy, Debug)]
pub struct EvictorContext {
    pub(crate) window: TimeWindow,
    pub(crate) watermark: Timestamp,
    pub(crate) now_ms: i64,
}

impl EvictorContext {
    /// The window.
    pub fn window(&self) -> TimeWindow {
        self.window
    }

    /// How far event time has come.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Processing time.
    pub fn processing_time(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms)
    }
}

/// Throws records out of a window when it fires (Flink's `Evictor`), for
/// [`WindowedStream::evictor`](super::WindowedStream::evictor). What it throws out is forgotten.
///
/// The records are in the order in which they came. Every method does nothing unless it is written.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::{Evictor, EvictorContext, TimestampedValue};
///
/// /// Lets a window's function see each value once.
/// struct Distinct;
/// impl Evictor<u64> for Distinct {
///     fn evict_before(&self, records: &mut Vec<TimestampedValue<u64>>, _: &EvictorContext) -> Result<()> {
///         records.sort_by_key(|record| record.value);
///         records.dedup_by_key(|record| record.value);
///         Ok(())
///     }
/// }
/// # let _ = Distinct;
/// ```
pub trait Evictor<T: Data>: Send + Sync + 'static {
    /// Before the window's function sees the records.
    ///
    /// # Errors
    /// An error fails the job, which then restarts by its restart strategy.
    fn evict_before(&self, records: &mut Vec<TimestampedValue<T>>, ctx: &EvictorContext) -> Result<()> {
        let _ = (records, ctx);
        Ok(())
    }

    /// After it.
    ///
    /// # Errors
    /// As [`evict_before`](Self::evict_before).
    fn evict_after(&self, records: &mut Vec<TimestampedValue<T>>, ctx: &EvictorContext) -> Result<()> {
        let _ = (records, ctx);
        Ok(())
    }
}

/// Which of the two calls a built-in evictor works at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Before,
    After,
}

/// An evictor that does the same thing, be it before or after.
trait Evict<T: Data> {
    fn evict(&self, records: &mut Vec<TimestampedValue<T>>);
}

macro_rules! at_one_call {
    ($name:ty $(, $f:ident: $($bound:tt)+)?) => {
        impl<T: Data $(, $f: $($bound)+)?> Evictor<T> for $name {
            fn evict_before(&self, records: &mut Vec<TimestampedValue<T>>, _: &EvictorContext) -> Result<()> {
                if self.when == When::Before {
                    self.evict(records);
                }
                Ok(())
            }
            fn evict_after(&self, records: &mut Vec<TimestampedValue<T>>, _: &EvictorContext) -> Result<()> {
                if self.when == When::After {
                    self.evict(records);
                }
                Ok(())
            }
        }
    };
}

/// Keeps a given number of records: the last ones.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::CountEvictor;
///
/// /// The largest of the last three bids in each minute.
/// fn last_three(bids: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
///     bids.key_by_ref(|bid| &bid.0)
///         .window(Tumbling::of(minutes(1)))
///         .evictor(CountEvictor::of(3))
///         .apply(|_, _, bids, out| {
///             bids.into_iter().max_by_key(|bid| bid.1).into_iter().for_each(|bid| out.emit(bid));
///             Ok(())
///         })
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountEvictor {
    most: usize,
    when: When,
}

impl CountEvictor {
    /// Keeps the last `n` records, before the window's function is called.
    pub const fn of(n: usize) -> Self {
        Self { most: n, when: When::Before }
    }

    /// Evicts after the window's function instead.
    pub const fn evict_after(self) -> Self {
        Self { when: When::After, ..self }
    }
}

impl<T: Data> Evict<T> for CountEvictor {
    fn evict(&self, records: &mut Vec<TimestampedValue<T>>) {
        records.drain(..records.len().saturating_sub(self.most));
    }
}

at_one_call!(CountEvictor);

/// Keeps the records whose event time is less than a duration before the latest one's. Records without event
/// time stay.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::{CountTrigger, TimeEvictor};
///
/// /// After each click, how many there were in the ten seconds before it.
/// fn recent(clicks: &DataStream<(String, u64)>) -> DataStream<u64> {
///     clicks
///         .key_by_ref(|click| &click.0)
///         .window(GlobalWindows::create())
///         .trigger(CountTrigger::of(1))
///         .evictor(TimeEvictor::of(seconds(10)))
///         .apply(|_, _, clicks, out| {
///             out.emit(clicks.len() as u64);
///             Ok(())
///         })
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeEvictor {
    span: i64,
    when: When,
}

impl TimeEvictor {
    /// Keeps the last `span` of event time, before the window's function is called.
    pub fn of(span: Duration) -> Self {
        Self { span: millis_of(span), when: When::Before }
    }

    /// Evicts after the window's function instead.
    pub const fn evict_after(self) -> Self {
        Self { when: When::After, ..self }
    }
}

impl<T: Data> Evict<T> for TimeEvictor {
    fn evict(&self, records: &mut Vec<TimestampedValue<T>>) {
        let Some(latest) = records.iter().filter_map(|record| record.timestamp).max() else { return };
        let cutoff = latest.as_millis().saturating_sub(self.span);
        records.retain(|record| record.timestamp.is_none_or(|at| at.as_millis() > cutoff));
    }
}

at_one_call!(TimeEvictor);

/// Throws out the records that differ from the last one by a threshold or more.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::DeltaEvictor;
///
/// /// Prices within 10 of the newest one.
/// fn near(prices: &DataStream<(String, f64)>) -> DataStream<u64> {
///     let near = DeltaEvictor::of(10.0, |a: &(String, f64), last: &(String, f64)| (a.1 - last.1).abs());
///     let minute = prices.key_by_ref(|price| &price.0).window(Tumbling::of(minutes(1)));
///     minute.evictor(near).apply(|_, _, prices, out| {
///         out.emit(prices.len() as u64);
///         Ok(())
///     })
/// }
/// ```
#[derive(Clone, Copy)]
pub struct DeltaEvictor<F> {
    threshold: f64,
    delta: F,
    when: When,
}

impl<F> fmt::Debug for DeltaEvictor<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaEvictor")
            .field("threshold", &self.threshold)
            .field("when", &self.when)
            .finish_non_exhaustive()
    }
}

impl<F> DeltaEvictor<F> {
    /// `delta` tells how far a record is from the last one; it works before the window's function is called.
    pub const fn of<T>(threshold: f64, delta: F) -> Self
    where
        F: Fn(&T, &T) -> f64 + Send + Sync + 'static,
    {
        Self { threshold, delta, when: When::Before }
    }

    /// Evicts after the window's function instead.
    pub fn evict_after(self) -> Self {
        Self { when: When::After, ..self }
    }
}

impl<T: Data, F: Fn(&T, &T) -> f64 + Send + Sync + 'static> Evict<T> for DeltaEvictor<F> {
    fn evict(&self, records: &mut Vec<TimestampedValue<T>>) {
        let Some(last) = records.last().cloned() else { return };
        records.retain(|record| (self.delta)(&record.value, &last.value) < self.threshold);
    }
}

at_one_call!(DeltaEvictor<F>, F: Fn(&T, &T) -> f64 + Send + Sync + 'static);
