//! Functions of one value for each key that is gone some time after its last touch.

use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_runtime::exchange::KeySelector;
use stillstream_state::{Aggregate, Data, Key, StateTtlConfig, ValueState};
use stillstream_types::Result;

use crate::data_stream::DataStream;
use crate::functions::{Context, KeyedProcess, States};
use crate::keyed_stream::KeyedStream;

/// One step: the value of the key, if it has one, and a record.
type Step<V, T, U> = Arc<dyn Fn(Option<V>, T) -> (V, U) + Send + Sync>;

/// Keeps one value for each key.
struct Expiring<K, T, V: Data, U> {
    value: ValueState<V>,
    step: Step<V, T, U>,
    key: PhantomData<fn() -> K>,
}

impl<K: Key, T: Data, V: Data, U: Data> KeyedProcess for Expiring<K, T, V, U> {
    type Key = K;
    type In = T;
    type Out = U;

    fn open(_: &mut States<Self>) -> Result<Self> {
        // it is made by `expiring`, which knows its name and its time to live
        Err(stillstream_types::Error::msg("a function with a time to live was opened without one"))
    }

    fn process(&mut self, record: T, ctx: &mut Context<'_, Self>) -> Result<()> {
        let (value, result) = (self.step)(self.value.get(ctx)?, record);
        self.value.set(ctx, value)?;
        ctx.emit(result);
        Ok(())
    }
}

/// Functions whose state has a time to live. [`StateTtlConfig`] says what touches a value, and when its
/// memory comes back.
impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    fn expiring<V: Data, U: Data>(
        &self,
        name: &str,
        state: &str,
        ttl: StateTtlConfig,
        step: impl Fn(Option<V>, T) -> (V, U) + Send + Sync + 'static,
    ) -> DataStream<U> {
        let (state, step): (String, Step<V, T, U>) = (state.into(), Arc::new(step));
        let results = self.process_with::<Expiring<S::Key, T, V, U>>(move |states| {
            let value = states.with_ttl(&ttl).value(&state)?;
            Ok(Expiring { value, step: step.clone(), key: PhantomData })
        });
        results.name(name)
    }

    /// [`map_with_state`](Self::map_with_state) where the value of a key that has had no record for the time
    /// to live begins anew.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::testing::StreamDriver;
    ///
    /// let mut driver = StreamDriver::new(|words: &DataStream<String>| {
    ///     words.key_by_ref(|word| word).map_with_expiring_state(
    ///         "seen",
    ///         StateTtlConfig::new(hours(1)),
    ///         |seen: &mut u64, word| { *seen += 1; (word, *seen) },
    ///     )
    /// });
    /// driver.record("a".into())?;
    /// driver.record("a".into())?;
    /// driver.advance_clock(hours(1))?;
    /// driver.record("a".into())?;
    /// let counts: Vec<u64> = driver.output().into_iter().map(|(_, seen)| seen).collect();
    /// assert_eq!(counts, [1, 2, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn map_with_expiring_state<V: Data + Default, U: Data>(
        &self,
        state: &str,
        ttl: StateTtlConfig,
        f: impl Fn(&mut V, T) -> U + Send + Sync + 'static,
    ) -> DataStream<U> {
        self.expiring("map_with_state", state, ttl, move |value: Option<V>, record| {
            let mut value = value.unwrap_or_default();
            let result = f(&mut value, record);
            (value, result)
        })
    }

    /// [`reduce`](Self::reduce) with a time to live.
    pub fn reduce_expiring(
        &self,
        ttl: StateTtlConfig,
        f: impl Fn(T, T) -> T + Send + Sync + 'static,
    ) -> DataStream<T> {
        self.expiring("reduce", "reduced", ttl, move |old: Option<T>, record: T| {
            let next = match old {
                Some(old) => f(old, record),
                None => record,
            };
            (next.clone(), next)
        })
    }

    /// [`aggregate`](Self::aggregate) with a time to live.
    pub fn aggregate_expiring<A: Aggregate<In = T> + Send + Sync>(
        &self,
        ttl: StateTtlConfig,
        aggregate: A,
    ) -> DataStream<A::Out>
    where
        A::Out: Data,
    {
        self.expiring("aggregate", "accumulator", ttl, move |acc: Option<A::Acc>, record: T| {
            let mut acc = acc.unwrap_or_else(|| aggregate.create());
            aggregate.add(&mut acc, record);
            let result = aggregate.result(&acc);
            (acc, result)
        })
    }
}
