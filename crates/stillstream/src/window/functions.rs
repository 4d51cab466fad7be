//! Functions of whole windows: [`apply`](WindowedStream::apply), [`process`](WindowedStream::process), and
//! functions of an aggregate's result.

use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_runtime::exchange::KeySelector;
use stillstream_state::{Aggregate, Data};
use stillstream_types::Result;

use super::aggregates::Reduce;
use super::general::{Aggregated, Listed};
use super::process::{Apply, Collect, OfSome, Plain, Process, ProcessWindow};
use super::states::WindowStates;
use super::trigger::Trigger;
use super::{TimeWindow, WindowedStream};
use crate::collector::Collector;
use crate::data_stream::DataStream;

impl<T: Data, S: KeySelector<T>, Tr: Trigger<T>> WindowedStream<T, S, Tr> {
    /// What a function makes of all records of each key and window, in the order in which they came. They are
    /// all kept until the window is forgotten: where a running result is enough,
    /// [`aggregate`](Self::aggregate) needs far less memory. For a function with state and side outputs see
    /// [`process`](Self::process).
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn medians(sales: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     let days = sales.key_by_ref(|sale| &sale.0).window(Tumbling::of(days(1)));
    ///     days.apply(|shop, _window, mut sales, out| {
    ///         sales.sort_by_key(|sale| sale.1);
    ///         out.emit((shop.clone(), sales[sales.len() / 2].1));
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn apply<R: Data>(
        self,
        f: impl Fn(&S::Key, TimeWindow, Vec<T>, &mut Collector<R>) -> Result<()> + Send + Sync + 'static,
    ) -> DataStream<R> {
        let f = Apply(f, PhantomData);
        match self.usual() {
            Some(_) => self.build(Collect(PhantomData), f),
            None => self.general(Listed(PhantomData), Plain(Arc::new(f))),
        }
        .name("window.apply")
    }

    /// What a [`ProcessWindow`] makes of all records of each key and window: with a context, state and side
    /// outputs. All records are kept until the window is forgotten;
    /// [`aggregate_process`](Self::aggregate_process) needs less.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// struct Median;
    /// impl ProcessWindow for Median {
    ///     type Key = String;
    ///     type In = Vec<(String, u64)>;
    ///     type Out = (String, Timestamp, u64);
    ///
    ///     fn open(_: &mut WindowStates<String>) -> Result<Self> {
    ///         Ok(Median)
    ///     }
    ///     fn process(
    ///         &mut self,
    ///         mut sales: Self::In,
    ///         ctx: &mut WindowContext<String, Self::Out>,
    ///     ) -> Result<()> {
    ///         sales.sort_by_key(|sale| sale.1);
    ///         ctx.emit((ctx.key().clone(), ctx.window().start, sales[sales.len() / 2].1));
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn medians(sales: &DataStream<(String, u64)>) -> DataStream<(String, Timestamp, u64)> {
    ///     sales.key_by_ref(|sale| &sale.0).window(Tumbling::of(days(1))).process::<Median>()
    /// }
    /// ```
    pub fn process<P>(self) -> DataStream<P::Out>
    where
        P: ProcessWindow<Key = S::Key, In = Vec<T>>,
    {
        self.process_with(P::open)
    }

    /// [`process`](Self::process) with a function that is made by a closure, so that it can be given
    /// parameters.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// struct AtLeast(usize);
    /// impl ProcessWindow for AtLeast {
    ///     type Key = u64;
    ///     type In = Vec<u64>;
    ///     type Out = u64;
    ///     fn open(_: &mut WindowStates<u64>) -> Result<Self> {
    ///         Ok(AtLeast(1))
    ///     }
    ///     fn process(&mut self, records: Vec<u64>, ctx: &mut WindowContext<u64, u64>) -> Result<()> {
    ///         if records.len() >= self.0 {
    ///             ctx.emit(*ctx.key());
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn busy(users: &DataStream<u64>) -> DataStream<u64> {
    ///     users.key_by(|user| *user).window(Tumbling::of(seconds(1))).process_with(|_| Ok(AtLeast(100)))
    /// }
    /// ```
    pub fn process_with<P>(
        self,
        open: impl Fn(&mut WindowStates<'_, S::Key>) -> Result<P> + Send + Sync + 'static,
    ) -> DataStream<P::Out>
    where
        P: ProcessWindow<Key = S::Key, In = Vec<T>>,
    {
        self.general(Listed(PhantomData), Process::<P>(Arc::new(open))).name("window.process")
    }

    /// An aggregate per key and window, whose result goes to a [`ProcessWindow`] when the window fires:
    /// little memory, and a context with window, state and side outputs. Flink's
    /// `aggregate(aggregateFunction, processWindowFunction)`.
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
    /// const RECORD: OutputTag<(String, u64)> = OutputTag::new("record");
    ///
    /// /// Totals, and those that were higher than any before.
    /// struct Best { best: ValueState<u64> }
    /// impl ProcessWindow for Best {
    ///     type Key = String;
    ///     type In = u64;
    ///     type Out = (String, u64);
    ///     fn open(states: &mut WindowStates<String>) -> Result<Self> {
    ///         Ok(Best { best: states.per_key().value("best")? })
    ///     }
    ///     fn process(&mut self, total: u64, ctx: &mut WindowContext<String, Self::Out>) -> Result<()> {
    ///         let result = (ctx.key().clone(), total);
    ///         if self.best.get(&ctx.key_state())?.is_none_or(|best| total > best) {
    ///             self.best.set(&ctx.key_state(), total)?;
    ///             ctx.side(&RECORD, result.clone())?;
    ///         }
    ///         ctx.emit(result);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn records(sales: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     let days = sales.key_by_ref(|sale| &sale.0).window(Tumbling::of(days(1)));
    ///     days.aggregate_process::<Best>(Total).side_output(&RECORD)
    /// }
    /// ```
    pub fn aggregate_process<P>(
        self,
        aggregate: impl Aggregate<In = T, Out = P::In> + Send + Sync,
    ) -> DataStream<P::Out>
    where
        P: ProcessWindow<Key = S::Key>,
    {
        self.aggregate_process_with(aggregate, P::open)
    }

    /// [`aggregate_process`](Self::aggregate_process) with a function that is made by a closure, so that it
    /// can be given parameters.
    pub fn aggregate_process_with<P>(
        self,
        aggregate: impl Aggregate<In = T, Out = P::In> + Send + Sync,
        open: impl Fn(&mut WindowStates<'_, S::Key>) -> Result<P> + Send + Sync + 'static,
    ) -> DataStream<P::Out>
    where
        P: ProcessWindow<Key = S::Key>,
    {
        self.general(Aggregated(Arc::new(aggregate)), Process::<P>(Arc::new(open))).name("window.process")
    }

    /// Folds the records of each key and window into one, which goes to a [`ProcessWindow`] when the window
    /// fires. Flink's `reduce(reduceFunction, processWindowFunction)`. `f` must be associative.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// /// The highest bid of each window, with the window's end.
    /// struct WithEnd;
    /// impl ProcessWindow for WithEnd {
    ///     type Key = String;
    ///     type In = (String, u64);
    ///     type Out = (Timestamp, (String, u64));
    ///     fn open(_: &mut WindowStates<String>) -> Result<Self> {
    ///         Ok(WithEnd)
    ///     }
    ///     fn process(&mut self, bid: Self::In, ctx: &mut WindowContext<String, Self::Out>) -> Result<()> {
    ///         ctx.emit((ctx.window().end, bid));
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn highest(bids: &DataStream<(String, u64)>) -> DataStream<(Timestamp, (String, u64))> {
    ///     let minutes = bids.key_by_ref(|bid| &bid.0).window(Tumbling::of(minutes(1)));
    ///     minutes.reduce_process::<WithEnd>(|a, b| if b.1 > a.1 { b } else { a })
    /// }
    /// ```
    pub fn reduce_process<P>(self, f: impl Fn(T, T) -> T + Send + Sync + 'static) -> DataStream<P::Out>
    where
        P: ProcessWindow<Key = S::Key, In = T>,
    {
        self.reduce_process_with(f, P::open)
    }

    /// [`reduce_process`](Self::reduce_process) with a function that is made by a closure, so that it can be
    /// given parameters.
    pub fn reduce_process_with<P>(
        self,
        f: impl Fn(T, T) -> T + Send + Sync + 'static,
        open: impl Fn(&mut WindowStates<'_, S::Key>) -> Result<P> + Send + Sync + 'static,
    ) -> DataStream<P::Out>
    where
        P: ProcessWindow<Key = S::Key, In = T>,
    {
        let (reduce, process) = (Aggregated(Arc::new(Reduce::new(f))), Process::<P>(Arc::new(open)));
        self.general(reduce, OfSome(process)).name("window.process")
    }
}
