//! What a call of a keyed function is told, and what it emits through.

use std::fmt;

use stillstream_runtime::backends::Timers;
use stillstream_state::{CurrentKey, Data, Key, Keyed, StateError, TimeDomain, Timer, TimerService};
use stillstream_types::{KeyHash, Result, Timestamp};

use crate::collector::Collector;
use crate::side_output::{OutputTag, SideCollectors};

/// The context of one call: the current key, time, timers, and the outputs.
///
/// Hand it to a state to read or change the value of the current key: `self.open.get(ctx)?`.
pub struct KeyedContext<'a, K: Key, O> {
    pub(crate) key: &'a K,
    pub(crate) hash: KeyHash,
    pub(crate) time: Option<i64>,
    /// Of the timer, if it is one that fires.
    pub(crate) domain: Option<TimeDomain>,
    pub(crate) watermark: Timestamp,
    pub(crate) now_ms: i64,
    pub(crate) event_timers: &'a Timers<K, ()>,
    pub(crate) processing_timers: &'a Timers<K, ()>,
    pub(crate) out: &'a mut Collector<O>,
    pub(crate) sides: &'a mut SideCollectors,
}

impl<K: Key + fmt::Debug, O> fmt::Debug for KeyedContext<'_, K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedContext")
            .field("key", self.key)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

impl<K: Key, O> Keyed for KeyedContext<'_, K, O> {
    #[inline(always)]
    fn current_key(&self) -> CurrentKey<'_> {
        CurrentKey::new(self.key, self.hash)
    }
}

impl<K: Key, O: Data> KeyedContext<'_, K, O> {
    /// The key of the record or of the timer.
    pub fn key(&self) -> &K {
        self.key
    }

    /// Event time of the record, or of the timer that fires; `None` if the records have no event time.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.time.map(Timestamp::from_millis)
    }

    /// In `on_timer`: which clock the timer followed; `None` while a record is processed.
    ///
    /// A time can be set by both clocks at once, and each timer fires by its own:
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::testing::KeyedProcessDriver;
    ///
    /// struct Both;
    /// impl KeyedProcess for Both {
    ///     type Key = u64;
    ///     type In = u64;
    ///     type Out = (u64, bool);
    ///     fn open(_: &mut States<Self>) -> Result<Self> {
    ///         Ok(Both)
    ///     }
    ///     fn process(&mut self, at: u64, ctx: &mut Context<Self>) -> Result<()> {
    ///         let at = Timestamp::from_millis(at as i64);
    ///         ctx.timers().on_event_time(at)?;
    ///         ctx.timers().on_processing_time(at)
    ///     }
    ///     fn on_timer(&mut self, _: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
    ///         ctx.emit((*ctx.key(), ctx.time_domain() == Some(TimeDomain::EventTime)));
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let mut driver = KeyedProcessDriver::<Both>::new(|at| *at);
    /// driver.record(100)?;
    /// driver.watermark(Timestamp::from_millis(100))?;
    /// assert_eq!(driver.output(), [(100, true)]);
    /// driver.advance_clock(millis(100))?;
    /// assert_eq!(driver.output(), [(100, false)]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn time_domain(&self) -> Option<TimeDomain> {
        self.domain
    }

    /// How far event time has come: no earlier record will come, late ones aside.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Processing time.
    pub fn processing_time(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms)
    }

    /// Emits a record, with the event time of the record or timer that caused it.
    #[inline(always)]
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

    /// Timers of the current key.
    pub fn timers(&self) -> TimerAccess<'_, K> {
        TimerAccess {
            key: self.key,
            hash: self.hash,
            event: self.event_timers,
            processing: self.processing_timers,
        }
    }
}

/// Sets and deletes timers of the current key. A timer that is set twice for the same time fires once.
///
/// # Errors
/// Timers are state: where they lie in RocksDB, setting one can fail as writing any state can.
pub struct TimerAccess<'a, K: Key> {
    key: &'a K,
    hash: KeyHash,
    event: &'a Timers<K, ()>,
    processing: &'a Timers<K, ()>,
}

impl<K: Key> fmt::Debug for TimerAccess<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimerAccess")
    }
}

impl<K: Key> TimerAccess<'_, K> {
    fn timer(&self, time: Timestamp) -> Timer<K, ()> {
        Timer { time, hash: self.hash, key: self.key.clone(), namespace: () }
    }

    /// Calls `on_timer` when the watermark reaches `at`.
    pub fn on_event_time(&self, at: Timestamp) -> Result<()> {
        self.event.set(self.timer(at)).map_err(StateError::into_error)
    }

    /// Calls `on_timer` when the clock reaches `at`; at once after a restore if that moment has passed
    /// meanwhile.
    pub fn on_processing_time(&self, at: Timestamp) -> Result<()> {
        self.processing.set(self.timer(at)).map_err(StateError::into_error)
    }

    /// Deletes an event-time timer; one that is not there is no error.
    pub fn delete_event_time(&self, at: Timestamp) -> Result<()> {
        self.event.unset(self.timer(at)).map_err(StateError::into_error)
    }

    /// Deletes a processing-time timer; one that is not there is no error.
    pub fn delete_processing_time(&self, at: Timestamp) -> Result<()> {
        self.processing.unset(self.timer(at)).map_err(StateError::into_error)
    }
}
