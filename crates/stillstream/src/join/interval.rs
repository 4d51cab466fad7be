//! The interval join: pairs of records whose event times are not further apart than two bounds.

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::metrics::Counters;
use stillstream_runtime::plan::EventTimeRole;
use stillstream_runtime::{AnyBatch, OpenContext};
use stillstream_state::{Data, Key, MapState, OperatorStateBackend, StateError};
use stillstream_types::{Error, ErrorKind, Result, Timestamp};

use super::bounds::{Interval, TimeOffset};
use crate::data_stream::DataStream;
use crate::functions::{KeyedContext, KeyedStates};
use crate::graph::NodeSpec;
use crate::keyed_stream::KeyedStream;
use crate::operators::keyed_process::{Call, KeyedOperator, Logic, MakeLogic};
use crate::side_output::{OutputTag, SideCollectors, Sides};
use crate::window::EventClock;

impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    /// Pairs each record with the records of `other` that have the same key and an event time that lies
    /// within `bounds` of its own: `time + lower <= other time <= time + upper`. Flink's `intervalJoin`, with
    /// `between` and the exclusive bounds as one range.
    ///
    /// A bound is a [`Duration`](std::time::Duration), or [`before`](super::before) and
    /// [`after`](super::after) of one, so that it can be negative. A pair has the later one of both event
    /// times. Each record is kept until the watermark says that it can find no partner any more, and no
    /// longer.
    ///
    /// A record whose time is before the watermark is late: it finds no partner, is counted as
    /// `<operator name>.late`, and goes into a side output if [`interval`](Self::interval) names one.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::testing::ConnectedDriver;
    ///
    /// /// Orders with what was shipped for them within four hours.
    /// fn shipped(
    ///     orders: &DataStream<(u64, String)>,
    ///     shipments: &DataStream<(u64, u32)>,
    /// ) -> DataStream<(String, u32)> {
    ///     let orders = orders.key_by(|order| order.0);
    ///     let shipments = shipments.key_by(|shipment| shipment.0);
    ///     orders
    ///         .interval_join(&shipments, Duration::ZERO..=hours(4), |order, shipment| {
    ///             (order.1.clone(), shipment.1)
    ///         })
    ///         .uid("shipped")
    /// }
    ///
    /// let at = |hour| Timestamp::from_millis(0) + hours(hour);
    /// let mut driver = ConnectedDriver::new(shipped);
    /// driver.record1_at((1, "tea".into()), at(1))?;
    /// driver.record2_at((1, 500), at(5))?;
    /// driver.record2_at((1, 70), at(6))?;
    /// assert_eq!(driver.output(), [("tea".to_string(), 500)]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn interval_join<U, S2, B, R>(
        &self,
        other: &KeyedStream<U, S2>,
        bounds: impl RangeBounds<B>,
        f: impl Fn(&T, &U) -> R + Send + Sync + 'static,
    ) -> DataStream<R>
    where
        U: Data,
        S2: KeySelector<U, Key = S::Key>,
        B: Into<TimeOffset> + Copy,
        R: Data,
    {
        self.interval(other, bounds).join(f)
    }

    /// [`interval_join`](Self::interval_join) with more to say: where late records go, and a function that
    /// sees the event times and has side outputs.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// const LATE: OutputTag<(u64, u32)> = OutputTag::new("late shipments");
    ///
    /// /// How long it took to ship each order.
    /// fn delays(
    ///     orders: &DataStream<(u64, String)>,
    ///     shipments: &DataStream<(u64, u32)>,
    /// ) -> DataStream<(String, Duration)> {
    ///     orders
    ///         .key_by(|order| order.0)
    ///         .interval(&shipments.key_by(|shipment| shipment.0), before(minutes(5))..=after(hours(4)))
    ///         .late_second(&LATE)
    ///         .process(|order, _, ctx| {
    ///             let took = ctx.second_timestamp() - ctx.first_timestamp();
    ///             ctx.emit((order.1.clone(), took));
    ///             Ok(())
    ///         })
    /// }
    /// # let _ = delays;
    /// ```
    pub fn interval<U, S2, B>(
        &self,
        other: &KeyedStream<U, S2>,
        bounds: impl RangeBounds<B>,
    ) -> IntervalJoin<T, U, S, S2>
    where
        U: Data,
        S2: KeySelector<U, Key = S::Key>,
        B: Into<TimeOffset> + Copy,
    {
        self.check_same(other.graph(), "interval_join");
        let interval = Interval::of(&bounds).unwrap_or_else(|mistake| {
            self.graph().mistake(mistake);
            Interval { lower: 0, upper: 0 }
        });
        let (first, second) = (self.clone(), other.clone());
        IntervalJoin { first, second, interval, late_first: None, late_second: None }
    }
}

/// Two keyed streams that are joined by event time, as [`KeyedStream::interval`] makes it.
pub struct IntervalJoin<T, U, S1, S2> {
    first: KeyedStream<T, S1>,
    second: KeyedStream<U, S2>,
    interval: Interval,
    late_first: Option<OutputTag<T>>,
    late_second: Option<OutputTag<U>>,
}

impl<T, U, S1, S2> fmt::Debug for IntervalJoin<T, U, S1, S2> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntervalJoin")
            .field("first", &self.first)
            .field("second", &self.second)
            .field("interval_ms", &self.interval)
            .finish_non_exhaustive()
    }
}

impl<T: Data, U: Data, S1: KeySelector<T>, S2: KeySelector<U, Key = S1::Key>> IntervalJoin<T, U, S1, S2> {
    /// Sends records of the first stream that are late into a side output. They are counted all the same.
    pub fn late_first(mut self, tag: &OutputTag<T>) -> Self {
        self.late_first = Some(*tag);
        self
    }

    /// Sends records of the second stream that are late into a side output. They are counted all the same.
    pub fn late_second(mut self, tag: &OutputTag<U>) -> Self {
        self.late_second = Some(*tag);
        self
    }

    /// Emits what `f` makes of each pair.
    pub fn join<R: Data>(self, f: impl Fn(&T, &U) -> R + Send + Sync + 'static) -> DataStream<R> {
        self.process(move |first, second, ctx| {
            ctx.emit(f(first, second));
            Ok(())
        })
    }

    /// Calls `f` for each pair, with the event times of both and the outputs; Flink's `ProcessJoinFunction`.
    /// An error fails the job, which then restarts by its restart strategy.
    pub fn process<R: Data>(
        self,
        f: impl Fn(&T, &U, &mut IntervalJoinContext<'_, R>) -> Result<()> + Send + Sync + 'static,
    ) -> DataStream<R> {
        let (sides, f) = (Sides::new(), Arc::new(f));
        let (graph, upstreams) =
            (self.first.graph().clone(), [self.first.upstreams(), self.second.upstreams()]);
        let (interval, late_first, late_second) = (self.interval, self.late_first, self.late_second);
        let (first, second) = (self.first.selector(), self.second.selector());
        let spec = NodeSpec::stateful("interval_join").with_sides(sides.clone());
        let make = move || {
            let (f, first, second) = (f.clone(), first.clone(), second.clone());
            let make: MakeLogic<Join<T, U, S1, S2, R, _>> = Arc::new(move |states, _| {
                Ok(Join {
                    f: f.clone(),
                    interval,
                    first: Side::open(states, "first", first.clone(), late_first)?,
                    second: Side::open(states, "second", second.clone(), late_second)?,
                    clock: None,
                    found: Vec::new(),
                })
            });
            Ok(KeyedOperator::new(make, sides.clone(), true))
        };
        let upstream = graph.operator(spec, &[&upstreams[0], &upstreams[1]], make);
        DataStream::new(graph, upstream)
            .change("interval_join", |node| node.event_time = EventTimeRole::Needs)
    }
}

/// What a function of a pair is told, and what it emits through.
pub struct IntervalJoinContext<'a, R> {
    first: i64,
    second: i64,
    found: &'a mut Vec<Found<R>>,
    /// The time of the record that was there already: pairs are emitted in its order.
    partner: Place,
    sides: &'a mut SideCollectors,
}

impl<R> fmt::Debug for IntervalJoinContext<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntervalJoinContext")
            .field("first", &self.first)
            .field("second", &self.second)
            .finish_non_exhaustive()
    }
}

impl<R: Data> IntervalJoinContext<'_, R> {
    /// Event time of the first stream's record.
    pub fn first_timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.first)
    }

    /// Event time of the second stream's record.
    pub fn second_timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.second)
    }

    /// Event time of what is emitted: the later one of both.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.first.max(self.second))
    }

    /// Emits a record.
    pub fn emit(&mut self, value: R) {
        self.found.push((self.partner, self.first.max(self.second), value));
    }

    /// Emits a record into a side output. One that nobody reads drops it.
    ///
    /// # Errors
    /// If the side output is read as another type.
    pub fn side<O: Data>(&mut self, tag: &OutputTag<O>, value: O) -> Result<()> {
        self.sides.emit(tag, value, Some(self.first.max(self.second)))
    }
}

/// Where some records of one key lie: their event time, and a number.
type Place = (i64, u32);

/// The partner's place, the pair's time, and what was made of the pair.
type Found<R> = (Place, i64, R);

/// Records of one key and time that lie together. A record is added by writing all of them anew, so they are
/// few, also where a window has given thousands the same time.
const TOGETHER: usize = 32;

/// One of the two streams: its records that may still find a partner. Those of one time lie in places that
/// are numbered in a row.
struct Side<T, S> {
    records: MapState<Place, Vec<T>>,
    selector: Arc<S>,
    late: Option<OutputTag<T>>,
}

impl<T: Data, S: KeySelector<T>> Side<T, S> {
    fn open(
        states: &mut KeyedStates<S::Key>,
        name: &str,
        selector: Arc<S>,
        late: Option<OutputTag<T>>,
    ) -> Result<Self> {
        Ok(Self { records: states.map(name)?, selector, late })
    }

    fn is_taken<O>(&self, at: i64, number: u32, ctx: &KeyedContext<'_, S::Key, O>) -> Result<bool> {
        self.records.contains(ctx, &(at, number)).map_err(StateError::into_error)
    }

    /// The number of the last place of that time; 0 if there is none.
    fn last<O>(&self, at: i64, ctx: &KeyedContext<'_, S::Key, O>) -> Result<u32> {
        // `taken` is, or is 0, and `free` is not
        let (mut taken, mut free) = (0, 1);
        while self.is_taken(at, free, ctx)? {
            (taken, free) = (free, free.saturating_mul(2));
        }
        while free - taken > 1 {
            let middle = taken + (free - taken) / 2;
            match self.is_taken(at, middle, ctx)? {
                true => taken = middle,
                false => free = middle,
            }
        }
        Ok(taken)
    }

    fn keep<O>(&self, record: T, at: i64, ctx: &KeyedContext<'_, S::Key, O>) -> Result<()> {
        let mut number = self.last(at, ctx)?;
        let together = self.records.get(ctx, &(at, number)).map_err(StateError::into_error)?;
        let mut together = together.unwrap_or_default();
        if together.len() >= TOGETHER {
            (number, together) = (number + 1, Vec::new());
        }
        together.push(record);
        self.records.put(ctx, (at, number), together).map_err(StateError::into_error)
    }

    /// Forgets all records of that time.
    fn forget<O>(&self, at: i64, ctx: &KeyedContext<'_, S::Key, O>) -> Result<()> {
        for number in 0..=self.last(at, ctx)? {
            self.records.remove(ctx, &(at, number)).map_err(StateError::into_error)?;
        }
        Ok(())
    }
}

/// How far event time is, and how many records were late.
struct Lateness {
    clock: EventClock,
    counters: Arc<Counters>,
    counter: String,
}

struct Join<T, U, S1, S2, R, F> {
    f: Arc<F>,
    interval: Interval,
    first: Side<T, S1>,
    second: Side<U, S2>,
    clock: Option<Lateness>,
    /// What was made of one record's pairs.
    found: Vec<Found<R>>,
}

/// A record at the watermark is not late: what it may find is forgotten when the watermark has passed it.
fn forget_after<K: Key, R: Data>(moment: i64, ctx: &KeyedContext<'_, K, R>) -> Result<()> {
    ctx.timers().on_event_time(Timestamp::from_millis(moment.saturating_add(1)))
}

fn no_time() -> Error {
    Error::new(
        ErrorKind::Plan,
        "the records have no event time, so an interval join cannot tell how far apart they are: add \
         `.watermarks(WatermarkStrategy::bounded_out_of_orderness(..).timestamp(|record| ..))` to both streams before `key_by`",
    )
}

impl<T, U, S1, S2, R, F> Join<T, U, S1, S2, R, F>
where
    T: Data,
    U: Data,
    S1: KeySelector<T>,
    S2: KeySelector<U, Key = S1::Key>,
    R: Data,
    F: Fn(&T, &U, &mut IntervalJoinContext<'_, R>) -> Result<()> + Send + Sync + 'static,
{
    /// The time of a record, or `None` if it is late, which is counted.
    fn time_of<O: Data>(&self, ctx: &KeyedContext<'_, S1::Key, O>) -> Result<Option<i64>> {
        let (Some(at), Some(lateness)) = (ctx.time, &self.clock) else { return Err(no_time()) };
        if at >= lateness.clock.at(ctx.hash) {
            return Ok(Some(at));
        }
        lateness.counters.add(&lateness.counter, 1);
        Ok(None)
    }

    fn emit_found(found: &mut Vec<Found<R>>, ctx: &mut KeyedContext<'_, S1::Key, R>) {
        // a map has no order: pairs come in that of the partners
        found.sort_by_key(|(partner, _, _)| *partner);
        found.drain(..).for_each(|(_, at, value)| ctx.out.emit_at(value, Some(at)));
    }

    fn first(&mut self, record: T, ctx: &mut KeyedContext<'_, S1::Key, R>) -> Result<()> {
        let Some(at) = self.time_of(ctx)? else {
            return self.first.late.map_or(Ok(()), |tag| ctx.side(&tag, record));
        };
        let Self { f, interval, second, found, .. } = self;
        let (key, sides) = (stillstream_state::CurrentKey::new(ctx.key, ctx.hash), &mut *ctx.sides);
        let mut done = Ok(());
        let visit = |place: &Place, partners: &Vec<U>| {
            let other = &place.0;
            if interval.pairs(at, *other) && done.is_ok() {
                let mut context = IntervalJoinContext {
                    first: at,
                    second: *other,
                    partner: *place,
                    found: &mut *found,
                    sides: &mut *sides,
                };
                done = partners.iter().try_for_each(|partner| f(&record, partner, &mut context));
            }
        };
        second.records.for_each(&key, visit).map_err(StateError::into_error)?;
        done?;
        Self::emit_found(&mut self.found, ctx);
        self.first.keep(record, at, ctx)?;
        forget_after(self.interval.first_is_needed_until(at), ctx)
    }

    fn second(&mut self, record: U, ctx: &mut KeyedContext<'_, S1::Key, R>) -> Result<()> {
        let Some(at) = self.time_of(ctx)? else {
            return self.second.late.map_or(Ok(()), |tag| ctx.side(&tag, record));
        };
        let Self { f, interval, first, found, .. } = self;
        let (key, sides) = (stillstream_state::CurrentKey::new(ctx.key, ctx.hash), &mut *ctx.sides);
        let mut done = Ok(());
        let visit = |place: &Place, partners: &Vec<T>| {
            let other = &place.0;
            if interval.pairs(*other, at) && done.is_ok() {
                let mut context = IntervalJoinContext {
                    first: *other,
                    second: at,
                    partner: *place,
                    found: &mut *found,
                    sides: &mut *sides,
                };
                done = partners.iter().try_for_each(|partner| f(partner, &record, &mut context));
            }
        };
        first.records.for_each(&key, visit).map_err(StateError::into_error)?;
        done?;
        Self::emit_found(&mut self.found, ctx);
        self.second.keep(record, at, ctx)?;
        forget_after(self.interval.second_is_needed_until(at), ctx)
    }
}

impl<T, U, S1, S2, R, F> Logic for Join<T, U, S1, S2, R, F>
where
    T: Data,
    U: Data,
    S1: KeySelector<T>,
    S2: KeySelector<U, Key = S1::Key>,
    R: Data,
    F: Fn(&T, &U, &mut IntervalJoinContext<'_, R>) -> Result<()> + Send + Sync + 'static,
{
    type Key = S1::Key;
    type Out = R;

    fn opened(&mut self, context: &OpenContext, operator: &mut OperatorStateBackend) -> Result<()> {
        let clock = EventClock::open(operator, context)?;
        let counter = format!("{}.late", context.name);
        self.clock = Some(Lateness { clock, counters: context.counters.clone(), counter });
        Ok(())
    }

    fn batch(&mut self, port: usize, batch: AnyBatch, call: &mut Call<'_, S1::Key, R>) -> Result<()> {
        let (first, second) = (self.first.selector.clone(), self.second.selector.clone());
        match port {
            0 => call.each::<T, S1>(batch, &first, |record, ctx| self.first(record, ctx)),
            _ => call.each::<U, S2>(batch, &second, |record, ctx| self.second(record, ctx)),
        }
    }

    fn watermark(&mut self, watermark: Timestamp) {
        if let Some(lateness) = &mut self.clock {
            lateness.clock.advance(watermark.as_millis());
            lateness.clock.settle();
        }
    }

    /// Forgets the records of either side that were needed until just before.
    fn timer(&mut self, at: Timestamp, ctx: &mut KeyedContext<'_, S1::Key, R>) -> Result<()> {
        let at = at.as_millis().saturating_sub(1);
        self.first.forget(self.interval.first_of(at), ctx)?;
        self.second.forget(self.interval.second_of(at), ctx)
    }

    fn save(&self) -> Result<()> {
        self.clock.as_ref().map_or(Ok(()), |lateness| lateness.clock.save())
    }
}
