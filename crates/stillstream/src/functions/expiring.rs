//! What a function makes its states with a time to live with.

use std::fmt;

use stillstream_runtime::backends::KeyedStateBackend;
use stillstream_state::{
    Aggregate, AggregatingState, Data, Key, KeyedBackend, ListState, MapState, ReducingState, StateError,
    StateTtlConfig, ValueState, WithTtl,
};
use stillstream_types::Result;

use super::KeyedStates;

/// Makes keyed states whose values are gone some time after the last touch; see [`KeyedStates::with_ttl`].
///
/// # Errors
/// Of each method: as the method of the same name of [`KeyedStates`]; and if the configuration makes no
/// sense, or differs from the one with which the name was registered before.
pub struct ExpiringStates<'a, K: Key>(WithTtl<'a, KeyedStateBackend<K>>);

impl<K: Key> fmt::Debug for ExpiringStates<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<K: Key> KeyedStates<K> {
    /// Makes states with a time to live: what nobody has touched for that long, by processing time, is gone.
    ///
    /// An expired value is never read, unless [its visibility](StateTtlConfig::visibility) is set so. Its
    /// memory comes back a little later: [`StateTtlConfig`] says who cleans up when. How many entries of each
    /// state have gone is counted in [`JobResult::counters`](crate::JobResult::counters), as
    /// `<operator>.<state>.expired`.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::testing::KeyedProcessDriver;
    ///
    /// /// Passes on the first of equal records within a day.
    /// struct Distinct { seen: ValueState<()> }
    /// impl KeyedProcess for Distinct {
    ///     type Key = String;
    ///     type In = String;
    ///     type Out = String;
    ///     fn open(states: &mut States<Self>) -> Result<Self> {
    ///         let a_day = StateTtlConfig::new(days(1));
    ///         Ok(Self { seen: states.with_ttl(&a_day).value("seen")? })
    ///     }
    ///     fn process(&mut self, word: String, ctx: &mut Context<Self>) -> Result<()> {
    ///         if self.seen.get(ctx)?.is_none() {
    ///             self.seen.set(ctx, ())?;
    ///             ctx.emit(word);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let mut driver = KeyedProcessDriver::<Distinct>::new(|word| word.clone());
    /// driver.record("a".into())?;
    /// driver.record("a".into())?;
    /// assert_eq!(driver.output(), ["a"]);
    /// driver.advance_clock(days(1))?;
    /// driver.record("a".into())?;
    /// assert_eq!(driver.output(), ["a"]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_ttl<'a>(&'a mut self, ttl: &'a StateTtlConfig) -> ExpiringStates<'a, K> {
        ExpiringStates(self.backend.with_ttl(ttl))
    }
}

impl<K: Key> ExpiringStates<'_, K> {
    /// One value for each key.
    pub fn value<V: Data>(&mut self, name: &str) -> Result<ValueState<V>> {
        self.0.value(name).map_err(StateError::into_error)
    }

    /// A list for each key; each item lives for itself.
    pub fn list<V: Data>(&mut self, name: &str) -> Result<ListState<V>> {
        self.0.list(name).map_err(StateError::into_error)
    }

    /// A map for each key; each entry lives for itself.
    pub fn map<MK: Key, MV: Data>(&mut self, name: &str) -> Result<MapState<MK, MV>> {
        self.0.map(name).map_err(StateError::into_error)
    }

    /// One value for each key, into which others are folded; adding touches it.
    pub fn reducing<V: Data>(
        &mut self,
        name: &str,
        reduce: impl Fn(&mut V, V) + 'static,
    ) -> Result<ReducingState<V>> {
        self.0.reducing(name, reduce).map_err(StateError::into_error)
    }

    /// An accumulator for each key; adding touches it.
    pub fn aggregating<A: Aggregate>(
        &mut self,
        name: &str,
        aggregate: A,
    ) -> Result<AggregatingState<A::In, A::Out>> {
        self.0.aggregating(name, aggregate).map_err(StateError::into_error)
    }
}
