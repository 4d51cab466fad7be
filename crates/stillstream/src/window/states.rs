//! [`WindowStates`]: what a window function makes its state with.

use std::fmt;

use stillstream_runtime::backends::{HeapBackendFactory, KeyedStateBackend, heap};
use stillstream_state::{
    Aggregate, AggregatingState, BackendFactory, CurrentKey, Data, Key, KeyedBackend, ListState, MapState,
    ReducingState, StateError, ValueState,
};
use stillstream_types::{Error, ErrorKind, KeyGroups, Result};

use super::general::{Function, WindowKey};
use crate::functions::RuntimeContext;

/// Forgets one state of a key and window.
pub(crate) type Forget = Box<dyn Fn(CurrentKey<'_>) -> Result<(), StateError>>;

/// Makes the states of a window function, when it is opened.
///
/// A state is either one for each key and window, or one for each key. What a handle is used with says which:
/// see [`WindowContext::window_state`](super::WindowContext::window_state) and
/// [`WindowContext::key_state`](super::WindowContext::key_state).
pub struct WindowStates<'a, K: Key> {
    pub(crate) backend: &'a mut KeyedStateBackend<WindowKey<K>>,
    pub(crate) forget: &'a mut Vec<Forget>,
    pub(crate) windows_merge: bool,
    /// State per window has been asked for where windows merge.
    pub(crate) refused: bool,
    pub(crate) runtime: RuntimeContext,
}

impl<K: Key> fmt::Debug for WindowStates<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WindowStates(subtask {} of {})", self.subtask(), self.parallelism())
    }
}

const WINDOWS_MERGE: &str = "state per window is not possible with session windows, since they merge: use \
    `states.per_key()`, or another kind of window";

/// What is wrong with the states of a function over windows that merge; it is opened once for that, with
/// states that lead nowhere.
pub(crate) fn mistake_where_windows_merge<K: Key, In>(
    function: &impl Function<K, In>,
) -> Option<&'static str> {
    let groups = KeyGroups::new(1);
    let mut backend = heap(HeapBackendFactory::default()).create(groups, groups.all()).ok()?;
    let mut states = WindowStates {
        backend: &mut backend,
        forget: &mut Vec::new(),
        windows_merge: true,
        refused: false,
        runtime: RuntimeContext::nowhere(),
    };
    // any other error of the function is the job's, when it runs
    let _ = function.open(&mut states);
    states.refused.then_some(WINDOWS_MERGE)
}

impl<K: Key> WindowStates<'_, K> {
    /// Where the function runs, and counters of its own.
    pub fn runtime(&self) -> &RuntimeContext {
        &self.runtime
    }

    /// States of which each key has one in each window. They are forgotten with the window. Flink's
    /// `windowState()`.
    ///
    /// # Errors
    /// With session windows, which merge: nobody could tell how two states become one. `execute` says so
    /// before the job starts.
    pub fn per_window(&mut self) -> Result<ScopedStates<'_, K>> {
        if self.windows_merge {
            self.refused = true;
            return Err(Error::new(ErrorKind::Plan, WINDOWS_MERGE));
        }
        Ok(ScopedStates { backend: &mut *self.backend, forget: Some(&mut *self.forget) })
    }

    /// States of which each key has one, whatever the window. They stay until the function clears them.
    /// Flink's `globalState()`.
    pub fn per_key(&mut self) -> ScopedStates<'_, K> {
        ScopedStates { backend: &mut *self.backend, forget: None }
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

/// Makes states per window or per key; see [`WindowStates`].
///
/// # Errors
/// Of each method: if the name is taken by a state of another kind or type, or if what was restored under it
/// cannot be read. The operator's own states are called `window-..`.
pub struct ScopedStates<'a, K: Key> {
    backend: &'a mut KeyedStateBackend<WindowKey<K>>,
    forget: Option<&'a mut Vec<Forget>>,
}

impl<K: Key> fmt::Debug for ScopedStates<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.forget.is_some() { "states per window" } else { "states per key" })
    }
}

impl<K: Key> ScopedStates<'_, K> {
    /// A state that was made, which is forgotten with its window if it belongs to one.
    fn made<S: Clone + 'static>(
        &mut self,
        state: Result<S, StateError>,
        clear: impl Fn(&S, CurrentKey<'_>) -> Result<(), StateError> + 'static,
    ) -> Result<S> {
        let state = state.map_err(StateError::into_error)?;
        if let Some(forget) = &mut self.forget {
            let own = state.clone();
            forget.push(Box::new(move |key| clear(&own, key)));
        }
        Ok(state)
    }

    /// One value.
    pub fn value<V: Data>(&mut self, name: &str) -> Result<ValueState<V>> {
        let state = self.backend.value(name);
        self.made(state, |state: &ValueState<V>, key| state.clear(&key))
    }

    /// A list.
    pub fn list<V: Data>(&mut self, name: &str) -> Result<ListState<V>> {
        let state = self.backend.list(name);
        self.made(state, |state: &ListState<V>, key| state.clear(&key))
    }

    /// A map.
    pub fn map<MK: Key, MV: Data>(&mut self, name: &str) -> Result<MapState<MK, MV>> {
        let state = self.backend.map(name);
        self.made(state, |state: &MapState<MK, MV>, key| state.clear(&key))
    }

    /// One value, into which others are folded: `|sum, value| *sum += value`.
    pub fn reducing<V: Data>(
        &mut self,
        name: &str,
        reduce: impl Fn(&mut V, V) + 'static,
    ) -> Result<ReducingState<V>> {
        let state = self.backend.reducing(name, reduce);
        self.made(state, |state: &ReducingState<V>, key| state.clear(&key))
    }

    /// An accumulator.
    pub fn aggregating<A: Aggregate>(
        &mut self,
        name: &str,
        aggregate: A,
    ) -> Result<AggregatingState<A::In, A::Out>> {
        let state = self.backend.aggregating(name, aggregate);
        self.made(state, |state: &AggregatingState<A::In, A::Out>, key| state.clear(&key))
    }
}
