//! Windows: results per key and span of time, or per number of records.
//!
//! A window fires when its [`trigger`] says so. Without one an event-time window fires when the watermark
//! reaches its last moment, and a processing-time window when the clock does. A record that comes for an
//! event-time window after that is late. Within the allowed lateness it makes its window fire again; later it
//! is counted as `<operator name>.late`, and goes to the late output if there is one.
//!
//! | windows | made by |
//! |---|---|
//! | of one size, one after another | [`Tumbling`] |
//! | of one size, overlapping | [`Sliding`] |
//! | bursts of records, with a gap that is fixed or depends on the record | [`Session`] |
//! | one that never ends, for a trigger | [`GlobalWindows`] |
//! | of a number of records | [`KeyedStream::count_window`], [`KeyedStream::count_window_sliding`] |
//! | over all keys together | [`DataStream::window_all`] |
//!
//! Each of the first three is of event time, or of processing time by its method `processing_time`. What is
//! done with a window is one of [`reduce`](WindowedStream::reduce), [`aggregate`](WindowedStream::aggregate),
//! [`count`](WindowedStream::count), [`apply`](WindowedStream::apply) and
//! [`process`](WindowedStream::process), or an aggregate and a function of its result:
//! [`aggregate_process`](WindowedStream::aggregate_process). An [`evictor`](WindowedStream::evictor) throws
//! records out first.

mod aggregates;
mod aligned;
mod assigner;
mod context;
mod event_clock;
mod evicting;
mod evictor;
mod functions;
mod general;
mod global;
mod key_sessions;
mod process;
#[cfg(test)]
mod restarts;
mod session;
mod shell;
mod shortcuts;
mod states;
#[cfg(test)]
mod tests;
pub mod trigger;

pub use assigner::{DynamicSession, Session, Sliding, TimeWindow, Tumbling, WindowAssigner};
pub use context::{StateScope, WindowContext};
pub(crate) use event_clock::EventClock;
pub use evicting::EvictingWindowedStream;
pub use evictor::{CountEvictor, DeltaEvictor, Evictor, EvictorContext, TimeEvictor, TimestampedValue};
pub use global::GlobalWindows;
pub use process::ProcessWindow;
pub use shortcuts::OneKey;
pub use states::{ScopedStates, WindowStates};
pub use trigger::{
    ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger, CountTrigger, DefaultTrigger, DeltaTrigger,
    EventTimeTrigger, ProcessingTimeTrigger, PurgingTrigger, Trigger, TriggerContext, TriggerResult,
};

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::plan::EventTimeRole;
use stillstream_state::{Aggregate, Data, TimeDomain};
use stillstream_types::Result;

use crate::collector::Collector;
use crate::data_stream::DataStream;
use crate::graph::NodeSpec;
use crate::keyed_stream::KeyedStream;
use crate::side_output::{OutputTag, Sides};
use crate::watermark::millis_of;
use aggregates::{Count, Reduce};
use aligned::AlignedWindows;
use assigner::{Aligned, Kind, Windows};
use general::{Aggregated, Contents, Function, GeneralWindows, Parts};
use process::Plain;
use session::SessionWindows;
use shell::{Emit, Settings};
use trigger::Fires;

impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    /// Groups the records of each key into windows. Windows of event time need event times and
    /// [`watermarks`](DataStream::watermarks).
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn per_hour(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     clicks.key_by_ref(|click| &click.0).window(Tumbling::of(hours(1))).count()
    /// }
    /// ```
    pub fn window(&self, assigner: impl WindowAssigner<T>) -> WindowedStream<T, S> {
        let windows = assigner::Assigner::windows(assigner).unwrap_or_else(|mistake| {
            self.graph().mistake(mistake);
            Windows::Fixed(Kind::Aligned(Aligned { size: 1, slide: 1, offset: 0 }), TimeDomain::EventTime)
        });
        let fires = match (&windows, windows.domain()) {
            (Windows::Global { fire_at_end: false }, _) => Fires::Never,
            (_, Some(TimeDomain::ProcessingTime)) => Fires::ProcessingTime,
            _ => Fires::EventTime,
        };
        let settings = Settings { lateness: 0, late: None, sides: Sides::new() };
        let trigger = Arc::new(DefaultTrigger(fires));
        WindowedStream { input: self.clone(), windows, settings, trigger, all_in_one: false }
    }
}

/// A keyed stream in windows, as [`KeyedStream::window`] makes it; `Tr` says when they fire.
///
/// With `reduce`, `aggregate` and `count` the records are not kept: each is added to its window's aggregate
/// when it comes. Results have the event time of the last moment of their window.
pub struct WindowedStream<T, S, Tr = DefaultTrigger> {
    input: KeyedStream<T, S>,
    windows: Windows<T>,
    settings: Settings<T>,
    trigger: Arc<Tr>,
    /// There is one key, so one subtask does it all.
    all_in_one: bool,
}

impl<T, S, Tr> Clone for WindowedStream<T, S, Tr> {
    fn clone(&self) -> Self {
        // two operators must not share their side outputs
        let settings = Settings { sides: Sides::new(), ..self.settings.clone() };
        let (input, windows, trigger) = (self.input.clone(), self.windows.clone(), self.trigger.clone());
        Self { input, windows, settings, trigger, all_in_one: self.all_in_one }
    }
}

impl<T, S, Tr> fmt::Debug for WindowedStream<T, S, Tr> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowedStream")
            .field("input", &self.input)
            .field("windows", &self.windows)
            .field("trigger", &std::any::type_name::<Tr>())
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

impl<T: Data, S: KeySelector<T>, Tr: Trigger<T>> WindowedStream<T, S, Tr> {
    /// Lets `trigger` say when a window fires, in place of the end of the window. See [`trigger`] for those
    /// that there are, and [`Trigger`] for one of your own.
    ///
    /// A window is forgotten at its end all the same (later by the allowed lateness), and what has not fired
    /// by then is gone. Sessions need a trigger that [can merge](Trigger::can_merge).
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::window::ContinuousEventTimeTrigger;
    ///
    /// /// The count of each day so far, every hour.
    /// fn so_far(clicks: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     let days = clicks.key_by_ref(|click| &click.0).window(Tumbling::of(days(1)));
    ///     days.trigger(ContinuousEventTimeTrigger::of(hours(1))).count()
    /// }
    /// ```
    pub fn trigger<Other: Trigger<T>>(self, trigger: Other) -> WindowedStream<T, S, Other> {
        let Self { input, windows, settings, all_in_one, .. } = self;
        WindowedStream { input, windows, settings, trigger: Arc::new(trigger), all_in_one }
    }

    /// Lets `evictor` throw records out of a window when it fires. All records are kept for it, so there is
    /// no running aggregate: what follows is [`apply`](EvictingWindowedStream::apply) or
    /// [`process`](EvictingWindowedStream::process).
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::window::TimeEvictor;
    ///
    /// /// The clicks of the last ten seconds of each visit.
    /// fn last_clicks(clicks: &DataStream<(u64, String)>) -> DataStream<(u64, String)> {
    ///     clicks
    ///         .key_by(|click| click.0)
    ///         .window(Session::with_gap(minutes(30)))
    ///         .evictor(TimeEvictor::of(seconds(10)))
    ///         .apply(|_, _, clicks, out| {
    ///             clicks.into_iter().for_each(|click| out.emit(click));
    ///             Ok(())
    ///         })
    /// }
    /// ```
    ///
    /// An aggregate has no records that could be thrown out, so the compiler refuses it:
    ///
    /// ```compile_fail,E0599
    /// use stillstream::prelude::*;
    /// use stillstream::window::TimeEvictor;
    ///
    /// fn wrong(clicks: &DataStream<(u64, String)>) -> DataStream<(u64, u64)> {
    ///     let visits = clicks.key_by(|click| click.0).window(Session::with_gap(minutes(30)));
    ///     visits.evictor(TimeEvictor::of(seconds(10))).count()
    /// }
    /// ```
    pub fn evictor<E: Evictor<T>>(self, evictor: E) -> EvictingWindowedStream<T, S, Tr, E> {
        EvictingWindowedStream::new(self, Arc::new(evictor))
    }

    /// Keeps each window for this long (in event time) after it has fired. A record that comes for it within
    /// that time makes it fire again for the record's key, with the record included: readers must let a later
    /// result replace an earlier one. Without it a window is forgotten when it has fired. Windows of
    /// processing time and global ones know no late record, so it changes nothing for them.
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

    /// Sends records that come too late for every window of theirs into a side output. They are counted as
    /// `<operator name>.late` all the same; without an output they are dropped.
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

    /// Like [`aggregate`](Self::aggregate); `f` makes the result from the key, the window and the aggregate's
    /// result.
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

    /// Like [`aggregate_with`](Self::aggregate_with), where there may be no result.
    pub(crate) fn aggregate_if<A, R: Data>(
        self,
        aggregate: A,
        f: impl Fn(&S::Key, TimeWindow, A::Out) -> Option<R> + Send + Sync + 'static,
    ) -> DataStream<R>
    where
        A: Aggregate<In = T> + Send + Sync,
    {
        self.build(aggregate, With(f, PhantomData))
    }

    /// Folds the records of each key and window into one. `f` must be associative: sessions fold what they
    /// have each.
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

    /// The kind of window if one of the operators for the usual cases knows it.
    fn usual(&self) -> Option<Kind> {
        match self.windows {
            Windows::Fixed(kind, TimeDomain::EventTime)
                if TypeId::of::<Tr>() == TypeId::of::<DefaultTrigger>() =>
            {
                Some(kind)
            }
            _ => None,
        }
    }

    fn build<A, E>(self, aggregate: A, emit: E) -> DataStream<E::Result>
    where
        A: Aggregate<In = T> + Send + Sync,
        E: Emit<S::Key, A::Out>,
    {
        let (aggregate, emit) = (Arc::new(aggregate), Arc::new(emit));
        let Some(kind) = self.usual() else { return self.general(Aggregated(aggregate), Plain(emit)) };
        let (settings, all_in_one) = (self.settings, self.all_in_one);
        let spec = NodeSpec::stateful("window").with_sides(settings.sides.clone());
        let results = match kind {
            Kind::Aligned(windows) => self.input.operator(spec, move |selector| {
                let (aggregate, emit) = (aggregate.clone(), emit.clone());
                Ok(AlignedWindows::new(windows, settings.clone(), selector, aggregate, emit))
            }),
            Kind::Session { gap } => self.input.operator(spec, move |selector| {
                let (aggregate, emit) = (aggregate.clone(), emit.clone());
                Ok(SessionWindows::new(gap, settings.clone(), selector, aggregate, emit))
            }),
        };
        settle(results, all_in_one, true)
    }

    /// Any window, by the operator that knows all of them.
    fn general<C, F>(self, contents: C, function: F) -> DataStream<F::Out>
    where
        C: Contents<T>,
        F: Function<S::Key, C::Out>,
    {
        let Self { input, windows, settings, trigger, all_in_one } = self;
        if let Err(mistake) = trigger.validate() {
            input.graph().mistake(mistake);
        }
        if windows.merge() && !trigger.can_merge() {
            input.graph().mistake(format!(
                "{} cannot be used with session windows, since it does not say what becomes of its state when windows merge: \
                 use another trigger, or write its `on_merge` and let its `can_merge` return true",
                std::any::type_name::<Tr>()
            ));
        }
        if windows.merge()
            && let Some(mistake) = states::mistake_where_windows_merge::<S::Key, C::Out>(&function)
        {
            input.graph().mistake(mistake.into());
        }
        let needs_watermarks = windows.domain() == Some(TimeDomain::EventTime);
        let spec = NodeSpec::stateful("window").with_sides(settings.sides.clone());
        let (contents, function) = (Arc::new(contents), Arc::new(function));
        let parts = Parts { windows, settings, trigger, contents, function };
        let results = input.operator(spec, move |selector| Ok(GeneralWindows::new(parts.clone(), selector)));
        settle(results, all_in_one, needs_watermarks)
    }
}

/// Windows over all keys have one key, and so one subtask and one key group; windows of event time do nothing
/// without watermarks.
fn settle<R: Data>(results: DataStream<R>, all_in_one: bool, needs_watermarks: bool) -> DataStream<R> {
    let results = match all_in_one {
        true => results.set_parallelism(1).set_max_parallelism(1),
        false => results,
    };
    results.change("a window", |node| {
        if needs_watermarks {
            node.event_time = EventTimeRole::Needs;
        }
    })
}
