//! [`EachKey`]: one state of all keys, for a function that is called for something that is about all of them.

use std::fmt;

use stillstream_runtime::backends::KeyedValue;
use stillstream_state::{Data, Key, KeyedBackend, KeyedValues, StateError};
use stillstream_types::{KeyGroups, Result};

use super::KeyedStates;

/// One [`ValueState`](crate::state::ValueState), of all keys that this subtask has: for a broadcast record
/// that changes what was kept for each key. Flink's `applyToKeyedState`.
///
/// ```
/// use stillstream::functions::EachKey;
/// use stillstream::prelude::*;
/// use stillstream::testing::ConnectedDriver;
///
/// /// Counts the records of each key, until a broadcast record halves all counts.
/// struct Decaying { seen: ValueState<u64>, all: EachKey<String, u64> }
///
/// impl BroadcastProcess for Decaying {
///     type Key = String;
///     type In = String;
///     type Rule = u64;
///     type Out = (String, u64);
///
///     fn open(states: &mut KeyedStates<String>, _: &mut BroadcastStates) -> Result<Self> {
///         Ok(Self { seen: states.value("seen")?, all: states.each_key("seen")? })
///     }
///     fn process(&mut self, word: String, ctx: &mut KeyedContext<String, Self::Out>) -> Result<()> {
///         let seen = self.seen.update(ctx, || 0, |seen| { *seen += 1; *seen })?;
///         ctx.emit((word, seen));
///         Ok(())
///     }
///     fn process_broadcast(&mut self, by: u64, _: &mut BroadcastContext<Self::Out>) -> Result<()> {
///         self.all.apply(|_word, seen| {
///             // a key without a value is forgotten
///             *seen = seen.map(|seen| seen / by).filter(|seen| *seen > 0);
///             Ok(())
///         })
///     }
/// }
///
/// let mut driver = ConnectedDriver::new(|words: &DataStream<String>, halve: &DataStream<u64>| {
///     words.key_by_ref(|word| word).connect_broadcast(halve).process::<Decaying>()
/// });
/// for word in ["a", "a", "a", "b"] {
///     driver.record1(word.into())?;
/// }
/// driver.record2(2)?;
/// driver.output();
/// driver.record1("a".into())?;
/// driver.record1("b".into())?;
/// assert_eq!(driver.output(), [("a".to_string(), 2), ("b".to_string(), 1)]);
/// # Ok::<(), Error>(())
/// ```
pub struct EachKey<K: Key, V: Data> {
    values: KeyedValue<K, V>,
    groups: KeyGroups,
}

impl<K: Key, V: Data> fmt::Debug for EachKey<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EachKey").finish_non_exhaustive()
    }
}

impl<K: Key, V: Data> EachKey<K, V> {
    /// Calls `f` with each key that has a value, in no order that a program may rely on. What it leaves is
    /// the key's value from then on; where it leaves `None`, the key has none. The keys are copied first, so
    /// this takes memory for all of them.
    ///
    /// # Errors
    /// Those of `f`, which ends with the first, and of the state.
    pub fn apply(&self, mut f: impl FnMut(&K, &mut Option<V>) -> Result<()>) -> Result<()> {
        let mut keys = Vec::new();
        self.values.for_each(|key, _| keys.push(key.clone())).map_err(StateError::into_error)?;
        for key in keys {
            let hash = key.key_hash(self.groups);
            let mut value = self.values.get(hash, &key).map_err(StateError::into_error)?;
            f(&key, &mut value)?;
            match value {
                Some(value) => self.values.insert(hash, &key, value),
                None => self.values.remove(hash, &key).map(drop),
            }
            .map_err(StateError::into_error)?;
        }
        Ok(())
    }

    /// Calls `f` with each key and its value, without changing it.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn for_each(&self, f: impl FnMut(&K, &V)) -> Result<()> {
        self.values.for_each(f).map_err(StateError::into_error)
    }
}

impl<K: Key> KeyedStates<K> {
    /// The value state of that name, of all keys that this subtask has; see [`EachKey`]. It may be registered
    /// by [`value`](Self::value) too.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn each_key<V: Data>(&mut self, name: &str) -> Result<EachKey<K, V>> {
        let values = self.backend.keyed_value(name).map_err(StateError::into_error)?;
        Ok(EachKey { values, groups: self.backend.options().groups })
    }
}
