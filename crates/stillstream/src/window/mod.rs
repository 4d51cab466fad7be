//! Windows over keyed streams: results per key and span of event time.
//!
//! A window fires when the watermark reaches its last moment. A record that comes after that is late. Within the allowed
//! lateness it makes its window fire again; later it goes to the late output, or is dropped and counted as
//! `<operator name>.late`.

mod aggregates;
mod aligned;
mod assigner;
mod bursts;
mod event_clock;
mod process;
#[cfg(test)]
mod restarts;
mod session;
mod shell;
#[cfg(test)]
mod tests;

pub use assigner::{Session, Sliding, TimeWindow, Tumbling, WindowAssigner};
pub use process::ProcessWindow;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::exchange::KeySelector;
use stillstream_state::{Aggregate, Data};
use stillstream_types::Result;

use crate::collector::Collector;
use crate::data_stream::DataStream;
use crate::graph::NodeSpec;
use crate::keyed_stream::KeyedStream;
use crate::side_output::{OutputTag, Sides};
use crate::watermark::millis_of;
use aggregates::{Count, Reduce};
use aligned::AlignedWindows;
use assigner::{Aligned, Kind};
use process::{Collect, Process};
use session::SessionWindows;
use shell::{Emit, Settings};

impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    /// Groups the records of each key into windows of event time. The stream needs event times and
    /// [`watermarks`](DataStream::watermarks).
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn per_hour(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     clicks.key_by_ref(|click| &click.0).window(Tumbling::of(hours(1))).count()
    /// }
    /// ```
    pub fn window(&self, assigner: impl WindowAssigner) -> WindowedStream<T, S> {
        let kind = assigner::Assigner::kind(&assigner).unwrap_or_else(|mistake| {
            self.graph().mistake(mistake);
            Kind::Aligned(Aligned { size: 1, slide: 1, offset: 0 })
        });
        let settings = Settings { lateness: 0, late: None, sides: Sides::new() };
        WindowedStream { input: self.clone(), kind, settings }
    }
}

/// A keyed stream in windows, as [`KeyedStream::window`] makes it.
///
/// The records are not kept: each is added to its window's aggregate when it comes. Results have the event time of the last
/// moment of their window.
pub struct WindowedStream<T, S> {
    input: KeyedStream<T, S>,
    kind: Kind,
    settings: Settings<T>,
}

impl<T, S> Clone for WindowedStream<T, S> {
    fn clone(&self) -> Self {
        // two operators must not share their side outputs
        let settings = Settings { sides: Sides::new(), ..self.settings.clone() };
        Self { input: self.input.clone(), kind: self.kind, settings }
    }
}

impl<T, S> fmt::Debug for WindowedStream<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowedStream")
            .field("input", &self.input)
            .field("windows", &self.kind)
            .field("allowed_lateness_ms", &self.settings.lateness)
            .field("late_output", &self.settings.late)
            .finish()
    }
}

/// A function of a key, its window and the aggregate's result.
struct With<F, R>(F, PhantomData<fn() -> R>);

impl<K, Out, R: Data, F> Emit<K, Out> for With<F, R>
where
    F: Fn(&K, TimeWindow, Out) -> Option<R> + Send + Sync + 'static,
{
    type Result = R;
    #[inline(always)]
    fn emit(&self, key: &K, window: TimeWindow, out: Out, results: &mut Collector<R>) -> Result<()> {
        if let Some(result) = (self.0)(key, window, out) {
            results.emit(result);
        }
        Ok(())
    }
}

impl<T: Data, S: KeySelector<T>> WindowedStream<T, S> {
    /// Keeps each window for so long (in event time) after it has fired. A record that comes for it within that time makes
    /// it fire again for the record's key, with the record included: readers must let a later result replace an earlier
    /// one. Without it a window is forgotten when it has fired.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn per_hour(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     let hours = clicks.key_by_ref(|click| &click.0).window(Tumbling::of(hours(1)));
    ///     hours.allowed_lateness(minutes(5)).count()
    /// }
    /// ```
    pub fn allowed_lateness(mut self, lateness: Duration) -> Self {
        self.settings.lateness = millis_of(lateness);
        self
    }

    /// Sends records that come too late for every window of theirs into a side output. Without it they are counted as
    /// `<operator name>.late` and dropped.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// const LATE: OutputTag<(String, u64)> = OutputTag::new("late");
    ///
    /// fn per_hour(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     let hours = clicks.key_by_ref(|click| &click.0).window(Tumbling::of(hours(1)));
    ///     let counts = hours.late_output(&LATE).count();
    ///     counts.side_output(&LATE)
    /// }
    /// ```
    pub fn late_output(mut self, tag: &OutputTag<T>) -> Self {
        self.settings.late = Some(*tag);
        self
    }

    /// The result of an aggregate per key and window. Session windows also use its
    /// [`merge`](stillstream_state::Aggregate::merge).
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// struct Mean;
    /// impl Aggregate for Mean {
    ///     type In = (String, f64);
    ///     type Acc = (f64, u64);
    ///     type Out = f64;
    ///     fn create(&self) -> (f64, u64) { (0.0, 0) }
    ///     fn add(&self, acc: &mut (f64, u64), value: (String, f64)) { acc.0 += value.1; acc.1 += 1; }
    ///     fn merge(&self, acc: &mut (f64, u64), other: (f64, u64)) { acc.0 += other.0; acc.1 += other.1; }
    ///     fn result(&self, acc: &(f64, u64)) -> f64 { acc.0 / acc.1 as f64 }
    /// }
    ///
    /// fn means(readings: &DataStream<(String, f64)>) -> DataStream<f64> {
    ///     readings.key_by_ref(|reading| &reading.0).window(Tumbling::of(minutes(1))).aggregate(Mean)
    /// }
    /// ```
    pub fn aggregate<A>(self, aggregate: A) -> DataStream<A::Out>
    where
        A: Aggregate<In = T> + Send + Sync,
        A::Out: Data,
    {
        self.build(aggregate, With(|_: &S::Key, _, out| Some(out), PhantomData))
    }

    /// Like [`aggregate`](Self::aggregate); `f` makes the result from the key, the window and the aggregate's result.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// # struct Total;
    /// # impl Aggregate for Total {
    /// #     type In = (String, u64);
    /// #     type Acc = u64;
    /// #     type Out = u64;
    /// #     fn create(&self) -> u64 { 0 }
    /// #     fn add(&self, acc: &mut u64, value: (String, u64)) { *acc += value.1; }
    /// #     fn merge(&self, acc: &mut u64, other: u64) { *acc += other; }
    /// #     fn result(&self, acc: &u64) -> u64 { *acc }
    /// # }
    ///
    /// fn totals(sales: &DataStream<(String, u64)>) -> DataStream<(String, Timestamp, u64)> {
    ///     sales
    ///         .key_by_ref(|sale| &sale.0)
    ///         .window(Tumbling::of(days(1)))
    ///         .aggregate_with(Total, |shop, window, total| (shop.clone(), window.start, total))
    /// }
    /// ```
    pub fn aggregate_with<A, R: Data>(
        self,
        aggregate: A,
        f: impl Fn(&S::Key, TimeWindow, A::Out) -> R + Send + Sync + 'static,
    ) -> DataStream<R>
    where
        A: Aggregate<In = T> + Send + Sync,
    {
        let f = move |key: &S::Key, window, out| Some(f(key, window, out));
        self.build(aggregate, With(f, PhantomData))
    }

    /// Folds the records of each key and window into one. `f` must be associative: sessions fold what they have each.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn highest(bids: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     bids.key_by_ref(|bid| &bid.0)
    ///         .window(Tumbling::of(minutes(10)))
    ///         .reduce(|a, b| if b.1 > a.1 { b } else { a })
    /// }
    /// ```
    pub fn reduce(self, f: impl Fn(T, T) -> T + Send + Sync + 'static) -> DataStream<T> {
        let emit = With(|_: &S::Key, _, out| out, PhantomData);
        self.build(Reduce::new(f), emit).name("window.reduce")
    }

    /// How many records each key has in each window.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn per_hour(clicks: &DataStream<(u64, String)>) -> DataStream<(u64, u64)> {
    ///     clicks.key_by(|click| click.0).window(Tumbling::of(hours(1))).count()
    /// }
    /// ```
    pub fn count(self) -> DataStream<(S::Key, u64)> {
        let emit = With(|key: &S::Key, _, n| Some((key.clone(), n)), PhantomData);
        self.build(Count(PhantomData), emit).name("window.count")
    }

    /// What a [`ProcessWindow`] makes of all records of each key and window. They are all kept until the window fires:
    /// where a running result is enough, [`aggregate`](Self::aggregate) needs far less memory.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::window::{ProcessWindow, TimeWindow};
    ///
    /// struct Median;
    /// impl ProcessWindow for Median {
    ///     type Key = String;
    ///     type In = (String, u64);
    ///     type Out = (String, u64);
    ///     fn process(
    ///         &self,
    ///         shop: &String,
    ///         _window: TimeWindow,
    ///         mut sales: Vec<(String, u64)>,
    ///         out: &mut Collector<(String, u64)>,
    ///     ) -> Result<()> {
    ///         sales.sort_by_key(|sale| sale.1);
    ///         out.emit((shop.clone(), sales[sales.len() / 2].1));
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn medians(sales: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     sales.key_by_ref(|sale| &sale.0).window(Tumbling::of(days(1))).process(Median)
    /// }
    /// ```
    pub fn process<P: ProcessWindow<Key = S::Key, In = T>>(self, function: P) -> DataStream<P::Out> {
        self.build(Collect(PhantomData), Process(function)).name("window.process")
    }

    fn build<A, E>(self, aggregate: A, emit: E) -> DataStream<E::Result>
    where
        A: Aggregate<In = T> + Send + Sync,
        E: Emit<S::Key, A::Out>,
    {
        let Self { input, kind, settings } = self;
        let (aggregate, emit) = (Arc::new(aggregate), Arc::new(emit));
        let spec = NodeSpec::stateful("window").with_sides(settings.sides.clone());
        match kind {
            Kind::Aligned(windows) => input.operator(spec, move |selector| {
                let (aggregate, emit) = (aggregate.clone(), emit.clone());
                Ok(AlignedWindows::new(windows, settings.clone(), selector, aggregate, emit))
            }),
            Kind::Session { gap } => input.operator(spec, move |selector| {
                let (aggregate, emit) = (aggregate.clone(), emit.clone());
                Ok(SessionWindows::new(gap, settings.clone(), selector, aggregate, emit))
            }),
        }
    }
}
