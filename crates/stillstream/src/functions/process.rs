//! [`Process`] and [`ConnectedProcess`]: functions without keys, with operator state and timers of processing
//! time.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, DerefMut};

use stillstream_state::{BroadcastState, Data, Key, OperatorListState, OperatorStateBackend, StateError};
use stillstream_types::{Result, Timestamp};

use super::{ProcessContext, RuntimeContext};

/// Makes the states of a function without keys. They belong to the subtask, and are dealt out anew when the
/// parallelism changes.
pub struct OperatorStates<'a> {
    pub(crate) backend: &'a mut OperatorStateBackend,
    pub(crate) runtime: RuntimeContext,
}

impl fmt::Debug for OperatorStates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorStates({:?})", self.runtime)
    }
}

impl OperatorStates<'_> {
    /// A list of items of this subtask, which are dealt out evenly on restore.
    ///
    /// # Errors
    /// If the name is taken by a state of another kind or type, or if what was restored under it cannot be
    /// read.
    pub fn list<T: Data>(&mut self, name: &str) -> Result<OperatorListState<T>> {
        self.backend.list(name).map_err(StateError::into_error)
    }

    /// A list of which every subtask gets all items on restore. It must then keep its own part and drop the
    /// rest, or the state grows with every restore.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn union_list<T: Data>(&mut self, name: &str) -> Result<OperatorListState<T>> {
        self.backend.union_list(name).map_err(StateError::into_error)
    }

    /// A map that is equal in all subtasks: only records of a broadcast stream may change it.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn broadcast<K: Key, V: Data>(&mut self, name: &str) -> Result<BroadcastState<K, V>> {
        self.backend.broadcast(name).map_err(StateError::into_error)
    }

    /// Where the function runs.
    pub fn runtime(&self) -> &RuntimeContext {
        &self.runtime
    }
}

/// What a call of a [`Process`] or [`ConnectedProcess`] is told: what a [`ProcessContext`] has, and timers.
pub struct TimedContext<'a, O> {
    pub(crate) call: ProcessContext<'a, O>,
    pub(crate) timers: &'a mut BTreeSet<i64>,
}

impl<O> fmt::Debug for TimedContext<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

impl<'a, O> Deref for TimedContext<'a, O> {
    type Target = ProcessContext<'a, O>;
    fn deref(&self) -> &Self::Target {
        &self.call
    }
}

impl<O> DerefMut for TimedContext<'_, O> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.call
    }
}

impl<O> TimedContext<'_, O> {
    /// Calls `on_timer` when the clock reaches `at`; at once after a restore if that moment has passed
    /// meanwhile. A timer that is set twice for the same time fires once.
    pub fn on_processing_time(&mut self, at: Timestamp) {
        self.timers.insert(at.as_millis());
    }

    /// Deletes a timer; one that is not there is no error.
    pub fn delete_processing_time(&mut self, at: Timestamp) {
        self.timers.remove(&at.as_millis());
    }
}

/// A function over a stream without keys, with operator state and timers of processing time. Flink's
/// `ProcessFunction`; its timers are part of each checkpoint, as those of keyed functions are.
///
/// It is made by the closure that [`process_with`](crate::DataStream::process_with) is given, which makes its
/// states.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::testing::StreamDriver;
///
/// /// Passes records on together, a second after the first one.
/// struct Together { held: OperatorListState<u64> }
/// impl Process for Together {
///     type In = u64;
///     type Out = Vec<u64>;
///     fn process(&mut self, n: u64, ctx: &mut TimedContext<Vec<u64>>) -> Result<()> {
///         if self.held.with(|held| held.is_empty())? {
///             let due = ctx.processing_time() + seconds(1);
///             ctx.on_processing_time(due);
///         }
///         Ok(self.held.add(n)?)
///     }
///     fn on_timer(&mut self, _: Timestamp, ctx: &mut TimedContext<Vec<u64>>) -> Result<()> {
///         let held = self.held.get()?;
///         self.held.update(Vec::new())?;
///         ctx.emit(held);
///         Ok(())
///     }
/// }
///
/// let mut driver = StreamDriver::new(|numbers: &DataStream<u64>| {
///     numbers.process_with(|states| Ok(Together { held: states.list("held")? })).uid("together")
/// });
/// driver.record(1)?;
/// driver.record(2)?;
/// driver.advance_clock(seconds(1))?;
/// assert_eq!(driver.output(), [[1, 2]]);
/// # Ok::<(), Error>(())
/// ```
pub trait Process: Sized + 'static {
    /// Records in.
    type In: Data;
    /// Records out.
    type Out: Data;

    /// Called for each record.
    ///
    /// # Errors
    /// An error fails the job, which then restarts by its restart strategy.
    fn process(&mut self, record: Self::In, ctx: &mut TimedContext<'_, Self::Out>) -> Result<()>;

    /// Called for each timer that fires, with the time that it was set for, in the order of those times.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn on_timer(&mut self, at: Timestamp, ctx: &mut TimedContext<'_, Self::Out>) -> Result<()> {
        let _ = (at, ctx);
        Ok(())
    }

    /// Called once when all input is through and the last checkpoint is complete: the place to say good-bye
    /// to others. A function whose job fails or is cancelled is only dropped, so what must happen in any case
    /// belongs into `Drop`.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A function over two streams without keys: two that are [connected](crate::DataStream::connect), or one and
/// one that is [broadcast](crate::DataStream::connect_broadcast). Flink's `CoProcessFunction` and
/// `BroadcastProcessFunction`.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::testing::ConnectedDriver;
///
/// /// Lets through what is at most the newest limit, which every subtask knows.
/// struct Limit { limit: BroadcastState<u8, u64> }
/// impl ConnectedProcess for Limit {
///     type In1 = u64;
///     type In2 = u64;
///     type Out = u64;
///     fn process1(&mut self, n: u64, ctx: &mut TimedContext<u64>) -> Result<()> {
///         if self.limit.get(&0)?.is_none_or(|limit| n <= limit) {
///             ctx.emit(n);
///         }
///         Ok(())
///     }
///     fn process2(&mut self, limit: u64, _: &mut TimedContext<u64>) -> Result<()> {
///         Ok(self.limit.put(0, limit)?)
///     }
/// }
///
/// let mut driver = ConnectedDriver::new(|numbers: &DataStream<u64>, limits: &DataStream<u64>| {
///     let both = numbers.connect_broadcast(limits);
///     both.process_with(|states| Ok(Limit { limit: states.broadcast("limit")? }))
/// });
/// driver.record1(7)?;
/// driver.record2(5)?;
/// driver.record1(6)?;
/// driver.record1(5)?;
/// assert_eq!(driver.output(), [7, 5]);
/// # Ok::<(), Error>(())
/// ```
pub trait ConnectedProcess: Sized + 'static {
    /// Records of the first stream.
    type In1: Data;
    /// Records of the second stream.
    type In2: Data;
    /// Records out.
    type Out: Data;

    /// Called for each record of the first stream.
    ///
    /// # Errors
    /// An error fails the job, which then restarts by its restart strategy.
    fn process1(&mut self, record: Self::In1, ctx: &mut TimedContext<'_, Self::Out>) -> Result<()>;

    /// Called for each record of the second stream. If that one is broadcast, every subtask is called for
    /// each of its records, and must change broadcast state in the same way.
    ///
    /// # Errors
    /// As [`process1`](Self::process1).
    fn process2(&mut self, record: Self::In2, ctx: &mut TimedContext<'_, Self::Out>) -> Result<()>;

    /// Called for each timer that fires; see [`Process::on_timer`].
    ///
    /// # Errors
    /// As [`process1`](Self::process1).
    fn on_timer(&mut self, at: Timestamp, ctx: &mut TimedContext<'_, Self::Out>) -> Result<()> {
        let _ = (at, ctx);
        Ok(())
    }

    /// Called once when all input is through; see [`Process::close`].
    ///
    /// # Errors
    /// As [`process1`](Self::process1).
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
