//! What a function makes its state with, when it is opened.

use std::fmt;

use stillstream_runtime::backends::KeyedStateBackend;
use stillstream_state::{
    Aggregate, AggregatingState, BroadcastState, Data, Key, KeyedBackend, ListState, MapState,
    OperatorStateBackend, ReducingState, StateError, ValueState,
};
use stillstream_types::Result;

use super::RuntimeContext;

/// Makes the keyed states of a function. Each has a name of its own, under which it is found again after a
/// restart.
pub struct KeyedStates<K: Key> {
    pub(crate) backend: KeyedStateBackend<K>,
    pub(crate) runtime: RuntimeContext,
}

impl<K: Key> fmt::Debug for KeyedStates<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyedStates(subtask {} of {})", self.subtask(), self.parallelism())
    }
}

impl<K: Key> KeyedStates<K> {
    /// One value for each key.
    ///
    /// # Errors
    /// If the name is taken by a state of another kind or type, or if what was restored under it cannot be
    /// read as `V`.
    pub fn value<V: Data>(&mut self, name: &str) -> Result<ValueState<V>> {
        self.backend.value(name).map_err(StateError::into_error)
    }

    /// A list for each key.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn list<V: Data>(&mut self, name: &str) -> Result<ListState<V>> {
        self.backend.list(name).map_err(StateError::into_error)
    }

    /// A map for each key.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn map<MK: Key, MV: Data>(&mut self, name: &str) -> Result<MapState<MK, MV>> {
        self.backend.map(name).map_err(StateError::into_error)
    }

    /// One value for each key, into which others are folded: `|sum, value| *sum += value`.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn reducing<V: Data>(
        &mut self,
        name: &str,
        reduce: impl Fn(&mut V, V) + 'static,
    ) -> Result<ReducingState<V>> {
        self.backend.reducing(name, reduce).map_err(StateError::into_error)
    }

    /// An accumulator for each key.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn aggregating<A: Aggregate>(
        &mut self,
        name: &str,
        aggregate: A,
    ) -> Result<AggregatingState<A::In, A::Out>> {
        self.backend.aggregating(name, aggregate).map_err(StateError::into_error)
    }

    /// Where the function runs, and counters of its own.
    pub fn runtime(&self) -> &RuntimeContext {
        &self.runtime
    }

    /// Which parallel instance this is, from 0.
    pub fn subtask(&self) -> u32 {
        self.runtime.subtask()
    }

    /// How many parallel instances there are.
    pub fn parallelism(&self) -> u32 {
        self.runtime.parallelism()
    }
}

/// Makes the broadcast states of a function: the same in every subtask, since every subtask gets every record
/// that changes them.
pub struct BroadcastStates<'a> {
    pub(crate) backend: &'a mut OperatorStateBackend,
}

impl fmt::Debug for BroadcastStates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BroadcastStates")
    }
}

impl BroadcastStates<'_> {
    /// A map that every subtask has a copy of.
    ///
    /// # Errors
    /// If the name is taken by a state of another kind or type, or if what was restored under it cannot be
    /// read.
    pub fn map<K: Key, V: Data>(&mut self, name: &str) -> Result<BroadcastState<K, V>> {
        self.backend.broadcast(name).map_err(StateError::into_error)
    }
}
