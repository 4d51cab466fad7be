//! [`WindowContext`]: what a window function is told, and what it emits through.

use std::borrow::Cow;
use std::fmt;

use stillstream_state::{CurrentKey, Data, Key, Keyed};
use stillstream_types::{KeyGroups, Result, Timestamp};

use super::TimeWindow;
use super::general::Place;
use crate::collector::Collector;
use crate::side_output::{OutputTag, SideCollectors};

/// The context of one call of a [`ProcessWindow`](super::ProcessWindow): key, window, times, states and
/// outputs.
pub struct WindowContext<'a, K, O> {
    pub(crate) key: &'a K,
    pub(crate) window: TimeWindow,
    pub(crate) place: &'a Place<K>,
    pub(crate) groups: KeyGroups,
    /// The event time of results.
    pub(crate) time: Option<i64>,
    pub(crate) watermark: Timestamp,
    pub(crate) now_ms: i64,
    pub(crate) out: &'a mut Collector<O>,
    pub(crate) sides: &'a mut SideCollectors,
}

impl<K: fmt::Debug, O> fmt::Debug for WindowContext<'_, K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowContext")
            .field("key", self.key)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

impl<K: Key, O: Data> WindowContext<'_, K, O> {
    /// The key.
    pub fn key(&self) -> &K {
        self.key
    }

    /// The window.
    pub fn window(&self) -> TimeWindow {
        self.window
    }

    /// Event time of what is emitted: the last moment of the window; of a global window that of the record or
    /// event-time timer which made it fire.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.time.map(Timestamp::from_millis)
    }

    /// How far event time has come.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Processing time.
    pub fn processing_time(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms)
    }

    /// Hand this to a state to read or change the value of this key in this window.
    ///
    /// Only states that were made [`per_window`](super::WindowStates::per_window) are forgotten with the
    /// window.
    pub fn window_state(&self) -> StateScope<'_, K> {
        StateScope(Cow::Borrowed(self.place))
    }

    /// Hand this to a state to read or change the value of this key in all windows.
    pub fn key_state(&self) -> StateScope<'_, K> {
        StateScope(Cow::Owned(Place::of(self.key, None, self.groups)))
    }

    /// Emits a result.
    pub fn emit(&mut self, value: O) {
        self.out.emit_at(value, self.time);
    }

    /// Emits a record into a side output. One that nobody reads drops it.
    ///
    /// # Errors
    /// If the side output is read as another type.
    pub fn side<T: Data>(&mut self, tag: &OutputTag<T>, value: T) -> Result<()> {
        self.sides.emit(tag, value, self.time)
    }
}

/// Which value of a state is meant: that of a key in a window, or that of a key.
#[derive(Debug)]
pub struct StateScope<'a, K: Clone>(Cow<'a, Place<K>>);

impl<K: Key> Keyed for StateScope<'_, K> {
    fn current_key(&self) -> CurrentKey<'_> {
        self.0.current_key()
    }
}
