//! [`ProcessWindow`]: a function of what a window holds, with a context and state.

use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_state::{Aggregate, Data, Key};
use stillstream_types::Result;

use super::TimeWindow;
use super::context::WindowContext;
use super::general::Function;
use super::shell::Emit;
use super::states::WindowStates;
use crate::collector::Collector;

/// A function that is called when a window fires (Flink's `ProcessWindowFunction`).
///
/// [`WindowedStream::process`](super::WindowedStream::process) gives it all records of the window, in the
/// order in which they came: `In` is `Vec<T>`.
/// [`aggregate_process`](super::WindowedStream::aggregate_process) and
/// [`reduce_process`](super::WindowedStream::reduce_process) give it the one result of the aggregate: `In` is
/// that result, and the window holds no more than the accumulator.
///
/// Says for each hour whether it had more sales than the hour before, and how often it has said so already:
///
/// ```
/// use stillstream::prelude::*;
///
/// struct Trend { before: ValueState<u64>, firings: ValueState<u32> }
///
/// impl ProcessWindow for Trend {
///     type Key = String;
///     type In = Vec<(String, u64)>;
///     type Out = (Timestamp, bool, u32);
///
///     fn open(states: &mut WindowStates<String>) -> Result<Self> {
///         let before = states.per_key().value("before")?;
///         Ok(Self { before, firings: states.per_window()?.value("firings")? })
///     }
///
///     fn process(&mut self, sales: Self::In, ctx: &mut WindowContext<String, Self::Out>) -> Result<()> {
///         let sum = sales.iter().map(|sale| sale.1).sum();
///         let before = self.before.get(&ctx.key_state())?.unwrap_or(0);
///         self.before.set(&ctx.key_state(), sum)?;
///         let firings = self.firings.update(&ctx.window_state(), || 0, |n| { *n += 1; *n })?;
///         ctx.emit((ctx.window().start, sum > before, firings));
///         Ok(())
///     }
/// }
///
/// fn trends(sales: &DataStream<(String, u64)>) -> DataStream<(Timestamp, bool, u32)> {
///     let hours = sales.key_by_ref(|sale| &sale.0).window(Tumbling::of(hours(1)));
///     hours.allowed_lateness(minutes(5)).process::<Trend>()
/// }
/// ```
pub trait ProcessWindow: Sized + 'static {
    /// What the stream is keyed by; `()` for [`window_all`](crate::DataStream::window_all).
    type Key: Key;
    /// What it is given when the window fires: all records, or the result of an aggregate.
    type In;
    /// What goes out.
    type Out: Data;

    /// Makes one parallel instance and its states.
    ///
    /// # Errors
    /// An error ends the attempt.
    fn open(states: &mut WindowStates<'_, Self::Key>) -> Result<Self>;

    /// A window of one key fires.
    ///
    /// # Errors
    /// An error fails the job, which then restarts by its restart strategy.
    fn process(&mut self, input: Self::In, ctx: &mut WindowContext<'_, Self::Key, Self::Out>) -> Result<()>;

    /// The window is forgotten. State that was made [per window](WindowStates::per_window) is forgotten
    /// afterwards without being asked; this is for what else there is to do.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn clear(&mut self, ctx: &mut WindowContext<'_, Self::Key, Self::Out>) -> Result<()> {
        let _ = ctx;
        Ok(())
    }

    /// Called once when all input is through and the last checkpoint is complete. A function whose job fails
    /// or is cancelled is only dropped, so what must happen in any case belongs into `Drop`.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Makes a [`ProcessWindow`].
pub(crate) type Open<P> =
    Arc<dyn Fn(&mut WindowStates<'_, <P as ProcessWindow>::Key>) -> Result<P> + Send + Sync>;

/// Calls a [`ProcessWindow`].
pub(crate) struct Process<P: ProcessWindow>(pub Open<P>);

impl<P: ProcessWindow> Function<P::Key, P::In> for Process<P> {
    type Out = P::Out;
    type Instance = P;

    fn open(&self, states: &mut WindowStates<'_, P::Key>) -> Result<P> {
        (self.0)(states)
    }

    fn call(
        &self,
        function: &mut P,
        input: P::In,
        ctx: &mut WindowContext<'_, P::Key, P::Out>,
    ) -> Result<()> {
        function.process(input, ctx)
    }

    fn clear(&self, function: &mut P, ctx: &mut WindowContext<'_, P::Key, P::Out>) -> Result<()> {
        function.clear(ctx)
    }

    fn close(&self, function: &mut P) -> Result<()> {
        function.close()
    }
}

/// Calls a function with what there is, if anything: a window that fires has a record, so its reduced value
/// is there.
pub(crate) struct OfSome<F>(pub F);

impl<K: Key, In, F: Function<K, In>> Function<K, Option<In>> for OfSome<F> {
    type Out = F::Out;
    type Instance = F::Instance;

    fn open(&self, states: &mut WindowStates<'_, K>) -> Result<F::Instance> {
        self.0.open(states)
    }

    fn call(
        &self,
        instance: &mut F::Instance,
        input: Option<In>,
        ctx: &mut WindowContext<'_, K, F::Out>,
    ) -> Result<()> {
        input.map_or(Ok(()), |input| self.0.call(instance, input, ctx))
    }

    fn clear(&self, instance: &mut F::Instance, ctx: &mut WindowContext<'_, K, F::Out>) -> Result<()> {
        self.0.clear(instance, ctx)
    }

    fn close(&self, instance: &mut F::Instance) -> Result<()> {
        self.0.close(instance)
    }
}

/// Calls a function without state.
pub(crate) struct Plain<E>(pub Arc<E>);

impl<K: Key, In, E: Emit<K, In>> Function<K, In> for Plain<E> {
    type Out = E::Result;
    type Instance = ();

    fn open(&self, _: &mut WindowStates<'_, K>) -> Result<()> {
        Ok(())
    }

    fn call(&self, (): &mut (), input: In, ctx: &mut WindowContext<'_, K, E::Result>) -> Result<()> {
        self.0.emit(ctx.key, ctx.window, input, ctx.out)
    }

    fn clear(&self, (): &mut (), _: &mut WindowContext<'_, K, E::Result>) -> Result<()> {
        Ok(())
    }
}

/// A function of key, window and records.
pub(crate) struct Apply<F, R>(pub F, pub PhantomData<fn() -> R>);

impl<K, T, R, F> Emit<K, Vec<T>> for Apply<F, R>
where
    R: Data,
    F: Fn(&K, TimeWindow, Vec<T>, &mut Collector<R>) -> Result<()> + Send + Sync + 'static,
{
    type Result = R;
    fn emit(&self, key: &K, window: TimeWindow, records: Vec<T>, results: &mut Collector<R>) -> Result<()> {
        (self.0)(key, window, records, results)
    }
}

/// Keeps all records.
pub(crate) struct Collect<T>(pub PhantomData<fn(T)>);

impl<T: Data> Aggregate for Collect<T> {
    type In = T;
    type Acc = Vec<T>;
    type Out = Vec<T>;

    fn create(&self) -> Vec<T> {
        Vec::new()
    }

    fn add(&self, acc: &mut Vec<T>, value: T) {
        acc.push(value);
    }

    fn merge(&self, acc: &mut Vec<T>, mut other: Vec<T>) {
        acc.append(&mut other);
    }

    fn result(&self, acc: &Vec<T>) -> Vec<T> {
        acc.clone()
    }
}
