//! Watermarks: how far event time has come, as told from the records.
//!
//! A [`WatermarkStrategy`] says which event time a record has and how much later than others it may come.
//! [`DataStream::watermarks`] applies it, wherever it stands: on a source, after a map, a `key_by`, a union,
//! on a side output.

mod generator;
mod operator;
mod saved;
#[cfg(test)]
mod tests;

pub use generator::{WatermarkGenerator, WatermarkOutput};
pub(crate) use operator::AssignWatermarks;
pub(crate) use saved::SavedTime;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::plan::EventTimeRole;
use stillstream_runtime::watermark_groups::GroupSettings;
use stillstream_state::Data;
use stillstream_types::Timestamp;

use crate::data_stream::DataStream;
use crate::graph::NodeSpec;

/// Fills the column of event times; one call a batch.
type Times<T> = Arc<dyn Fn(&[T], &mut Vec<i64>) + Send + Sync>;
/// Makes a generator.
type MakeGenerator<T> = Arc<dyn Fn() -> Box<dyn WatermarkGenerator<T>> + Send + Sync>;

/// Where watermarks come from.
enum Source<T> {
    /// There are none before the end of the input.
    Nowhere,
    /// From the largest event time, this many milliseconds behind it.
    Largest(i64),
    /// From a generator.
    Generator(MakeGenerator<T>),
}

impl<T> Clone for Source<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Nowhere => Self::Nowhere,
            Self::Largest(delay) => Self::Largest(*delay),
            Self::Generator(make) => Self::Generator(make.clone()),
        }
    }
}

/// Which event time records have, and how far event time has come after each of them (Flink's
/// `WatermarkStrategy`).
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
    source: Source<T>,
    times: Option<Times<T>>,
    idleness: Option<i64>,
    alignment: Option<GroupSettings>,
}

impl<T> Clone for WatermarkStrategy<T> {
    fn clone(&self) -> Self {
        Self {
            source: self.source.clone(),
            times: self.times.clone(),
            idleness: self.idleness,
            alignment: self.alignment.clone(),
        }
    }
}

impl<T> fmt::Debug for WatermarkStrategy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::Nowhere => "none".to_string(),
            Source::Largest(delay) => format!("{delay} ms behind the largest event time"),
            Source::Generator(_) => "a generator".to_string(),
        };
        f.debug_struct("WatermarkStrategy")
            .field("watermarks", &source)
            .field("timestamp", &self.times.is_some())
            .field("idleness_ms", &self.idleness)
            .field("alignment", &self.alignment)
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

    /// A record comes at most `delay` after another one with a later event time: the watermark is the largest
    /// event time so far, less `delay` and 1 ms. Records that come later still are late.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::bounded_out_of_orderness(hours(22)).timestamp(|at: &Timestamp| *at);
    /// # let _ = strategy;
    /// ```
    pub fn bounded_out_of_orderness(delay: Duration) -> Self {
        Self::of(Source::Largest(millis_of(delay)))
    }

    /// A record may say how far event time is: the watermark that `f` makes of it stands directly behind the
    /// record. `f` gets the record and its event time.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::punctuated(|tick: &(i64, bool), at| tick.1.then_some(at))
    ///     .timestamp(|tick: &(i64, bool)| Timestamp::from_millis(tick.0));
    /// # let _ = strategy;
    /// ```
    pub fn punctuated(
        f: impl Fn(&T, Timestamp) -> Option<Timestamp> + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::generator(move || generator::Punctuated(f.clone()))
    }

    /// Watermarks by a generator of one's own; `make` makes one for each split of a source, or for each
    /// subtask.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// /// The least event time of the last records, as long as nothing comes.
    /// #[derive(Default)]
    /// struct Steps { seen: Option<Timestamp> }
    ///
    /// impl WatermarkGenerator<i64> for Steps {
    ///     fn on_event(&mut self, _: &i64, at: Timestamp, _: &mut WatermarkOutput) {
    ///         self.seen = self.seen.max(Some(at));
    ///     }
    ///     fn on_periodic(&mut self, out: &mut WatermarkOutput) {
    ///         self.seen.take().into_iter().for_each(|at| out.emit(at - millis(1)));
    ///     }
    /// }
    ///
    /// let strategy = WatermarkStrategy::generator(Steps::default)
    ///     .timestamp(|at| Timestamp::from_millis(*at));
    /// # let _ = strategy;
    /// ```
    pub fn generator<G: WatermarkGenerator<T>>(make: impl Fn() -> G + Send + Sync + 'static) -> Self {
        Self::of(Source::Generator(Arc::new(move || Box::new(make()))))
    }

    fn of(source: Source<T>) -> Self {
        Self { source, times: None, idleness: None, alignment: None }
    }

    /// Event times, but no watermark before the input ends: windows fire only then.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::none().timestamp(|at: &Timestamp| *at);
    /// # let _ = strategy;
    /// ```
    pub fn none() -> Self {
        Self::of(Source::Nowhere)
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

    /// A split or subtask that got no record for this long (in processing time) is idle: nobody waits for its
    /// watermark until it has records again. When everything is idle event time stands at the largest
    /// watermark. At least 1 ms.
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

    /// Keeps this source together with others in event time: while it is more than `max_drift` ahead of the
    /// slowest one in `group`, it is not read. So a stream that is read faster does not fill the state of a
    /// join with records that have to wait. Barriers are never held up. All subtasks of all sources with the
    /// same group count, in all processes; one that is idle or has ended does not. Only for a strategy that
    /// stands directly on a source.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let strategy = WatermarkStrategy::monotonic()
    ///     .timestamp(|at: &Timestamp| *at)
    ///     .alignment("orders and shipments", minutes(5));
    /// # let _ = strategy;
    /// ```
    pub fn alignment(self, group: impl Into<String>, max_drift: Duration) -> Self {
        self.alignment_every(group, max_drift, Duration::from_secs(1))
    }

    /// Like [`alignment`](Self::alignment); workers tell one another how far they are every `update_interval`
    /// (1 s there).
    pub fn alignment_every(
        mut self,
        group: impl Into<String>,
        max_drift: Duration,
        update_interval: Duration,
    ) -> Self {
        let (name, max_drift_ms) = (group.into(), millis_of(max_drift));
        self.alignment = Some(GroupSettings { name, max_drift_ms, update_interval });
        self
    }
}

impl<T: Data> DataStream<T> {
    /// Gives records their event times, where a record comes at most `delay` after another one with a later event time:
    /// short for [`watermarks`](Self::watermarks) with [`WatermarkStrategy::bounded_out_of_orderness`].
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// #[derive(Clone, Data)]
    /// struct Flight { scheduled: Timestamp, carrier: String }
    ///
    /// fn per_day(flights: &DataStream<Flight>) -> DataStream<(String, u64)> {
    ///     let flights = flights.event_time(|flight| flight.scheduled, minutes(1));
    ///     flights.key_by_ref(|flight| &flight.carrier).window(Tumbling::of(days(1))).count()
    /// }
    /// ```
    pub fn event_time(
        &self,
        time: impl Fn(&T) -> Timestamp + Send + Sync + 'static,
        delay: Duration,
    ) -> DataStream<T> {
        self.watermarks(WatermarkStrategy::bounded_out_of_orderness(delay).timestamp(time))
    }

    /// Gives records their event times, and the stream its watermarks. It may stand anywhere. Watermarks that the stream had
    /// before end here, the end of the input aside.
    ///
    /// Directly on a source each split has a generator of its own, if the source reads its splits side by
    /// side: a slow one holds event time back, and a fast one makes no record of a slow one late. Elsewhere
    /// each subtask has one.
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
        let on_source = self.is_source();
        if let Some(GroupSettings { name, .. }) = strategy.alignment.as_ref().filter(|_| !on_source) {
            self.graph().mistake(format!(
                "the watermark strategy with alignment group `{name}` does not stand on a source: alignment pauses sources, so \
                 call .watermarks(..) directly after from_source(..)"
            ));
        }
        let stream = self
            .operator(NodeSpec::stateful("watermarks"), move || Ok(AssignWatermarks::new(strategy.clone())));
        stream.change("watermarks()", |node| {
            node.event_time = EventTimeRole::Assigns;
            node.with_source = on_source;
        })
    }
}
