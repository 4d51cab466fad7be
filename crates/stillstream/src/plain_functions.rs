//! Functions without keyed state that see time and have side outputs.

use std::sync::Arc;

use stillstream_state::Data;
use stillstream_types::Result;

use crate::collector::Collector;
use crate::data_stream::DataStream;
use crate::functions::{ConnectedProcess, OperatorStates, Process, ProcessContext};
use crate::graph::NodeSpec;
use crate::keyed_functions::ConnectedStreams;
use crate::operators::plain_process::PlainProcess;
use crate::operators::stateless::CoFlatMap;
use crate::operators::timed_process::{OneStream, OpenTimed, TimedOperator, TwoStreams};
use crate::side_output::{OutputTag, Sides};

impl<T: Data> DataStream<T> {
    /// Any number of records out for each record in, with event time, watermark and side outputs.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// const LATE: OutputTag<u64> = OutputTag::new("late");
    ///
    /// let env = StreamExecutionEnvironment::new();
    /// let on_time = env.from_collection(0..10u64).process(|n, ctx| {
    ///     match ctx.timestamp() {
    ///         Some(at) if at <= ctx.watermark() => ctx.side(&LATE, n)?,
    ///         _ => ctx.emit(n),
    ///     }
    ///     Ok(())
    /// });
    /// let late = on_time.side_output(&LATE);
    /// # let _ = late;
    /// ```
    pub fn process<U: Data>(
        &self,
        f: impl Fn(T, &mut ProcessContext<'_, U>) -> Result<()> + Send + Sync + 'static,
    ) -> DataStream<U> {
        let (f, sides) = (Arc::new(f), Sides::new());
        self.operator(NodeSpec::stateless("process").with_sides(sides.clone()), move || {
            Ok(PlainProcess::<T, U, _>::new(f.clone(), sides.clone()))
        })
    }

    /// A function with operator state and timers of processing time, made by a closure; see [`Process`].
    pub fn process_with<F: Process<In = T>>(
        &self,
        open: impl Fn(&mut OperatorStates<'_>) -> Result<F> + Send + Sync + 'static,
    ) -> DataStream<F::Out> {
        let sides = Sides::new();
        let open: OpenTimed<OneStream<F>> = Arc::new(move |states| open(states).map(OneStream));
        self.operator(NodeSpec::stateful("process").with_sides(sides.clone()), move || {
            Ok(TimedOperator::new(open.clone(), sides.clone()))
        })
    }

    /// Puts the stream beside one whose every record goes to every subtask, for a function that sees both and
    /// keeps no state by key; see [`ConnectedProcess`]. For state by key, begin with
    /// [`key_by`](Self::key_by).
    pub fn connect_broadcast<R: Data>(&self, rules: &DataStream<R>) -> ConnectedStreams<T, R> {
        self.connect(&rules.broadcast())
    }

    /// Moves the records for which `f` is true into a side output; the others go on.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// const ODD: OutputTag<u64> = OutputTag::new("odd");
    /// # let env = StreamExecutionEnvironment::new();
    /// let even = env.from_collection(0..10u64).split_off(&ODD, |n| n % 2 == 1);
    /// let odd = even.side_output(&ODD);
    /// # let _ = odd;
    /// ```
    pub fn split_off(
        &self,
        tag: &OutputTag<T>,
        f: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> DataStream<T> {
        let tag = *tag;
        self.process(move |record, ctx| {
            if f(&record) {
                return ctx.side(&tag, record);
            }
            ctx.emit(record);
            Ok(())
        })
        .name("split_off")
    }
}

impl<T: Data, U: Data> ConnectedStreams<T, U> {
    /// A function of both streams with operator state and timers of processing time, made by a closure; see
    /// [`ConnectedProcess`].
    pub fn process_with<F: ConnectedProcess<In1 = T, In2 = U>>(
        &self,
        open: impl Fn(&mut OperatorStates<'_>) -> Result<F> + Send + Sync + 'static,
    ) -> DataStream<F::Out> {
        let sides = Sides::new();
        let open: OpenTimed<TwoStreams<F>> = Arc::new(move |states| open(states).map(TwoStreams));
        self.operator(NodeSpec::stateful("co_process").with_sides(sides.clone()), move || {
            Ok(TimedOperator::new(open.clone(), sides.clone()))
        })
    }

    /// One record out for each record of either stream, by a function for each.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let env = StreamExecutionEnvironment::new();
    /// let numbers = env.from_collection(vec![1u64]);
    /// let words = env.from_collection(vec!["one".to_string()]);
    /// let texts = numbers.connect(&words).map(|n| n.to_string(), |word| word).collect();
    /// env.execute("texts")?;
    /// assert_eq!(texts.sorted(), ["1", "one"]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn map<R: Data>(
        &self,
        first: impl Fn(T) -> R + Send + Sync + 'static,
        second: impl Fn(U) -> R + Send + Sync + 'static,
    ) -> DataStream<R> {
        self.flat_map(move |record| Some(first(record)), move |record| Some(second(record))).name("co_map")
    }

    /// Any number of records out for each record of either stream, by a function for each; as
    /// [`DataStream::flat_map`].
    pub fn flat_map<I1, I2>(
        &self,
        first: impl Fn(T) -> I1 + Send + Sync + 'static,
        second: impl Fn(U) -> I2 + Send + Sync + 'static,
    ) -> DataStream<I1::Item>
    where
        I1: IntoIterator,
        I2: IntoIterator<Item = I1::Item>,
        I1::Item: Data,
    {
        let (first, second) = (Arc::new(first), Arc::new(second));
        self.operator(NodeSpec::stateless("co_flat_map"), move || {
            let (first, second) = (first.clone(), second.clone());
            Ok(CoFlatMap::<T, U, _, _, _>::new(
                move |record, out: &mut Collector<I1::Item>| {
                    first(record).into_iter().for_each(|value| out.emit(value));
                },
                move |record, out: &mut Collector<I1::Item>| {
                    second(record).into_iter().for_each(|value| out.emit(value));
                },
            ))
        })
    }
}
