//! [`BroadcastProcess`]: a keyed stream beside one that every subtask gets whole, such as rules or prices.

use std::fmt;

use stillstream_state::{Data, Key};
use stillstream_types::{Result, Timestamp};

use super::context::KeyedContext;
use super::states::{BroadcastStates, KeyedStates};
use crate::collector::Collector;
use crate::side_output::{OutputTag, SideCollectors};

/// What a call for a broadcast record is told: there is no current key.
pub struct BroadcastContext<'a, O> {
    pub(crate) time: Option<i64>,
    pub(crate) watermark: Timestamp,
    pub(crate) out: &'a mut Collector<O>,
    pub(crate) sides: &'a mut SideCollectors,
}

impl<O> fmt::Debug for BroadcastContext<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext").field("time", &self.time).finish_non_exhaustive()
    }
}

impl<O: Data> BroadcastContext<'_, O> {
    /// Event time of the record.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.time.map(Timestamp::from_millis)
    }

    /// How far event time has come.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Emits a record. Every subtask is called for a broadcast record, so every subtask emits.
    pub fn emit(&mut self, value: O) {
        self.out.emit_at(value, self.time);
    }

    /// Emits a record into a side output.
    ///
    /// # Errors
    /// If the side output is read as another type.
    pub fn side<T: Data>(&mut self, tag: &OutputTag<T>, value: T) -> Result<()> {
        self.sides.emit(tag, value, self.time)
    }
}

/// A function over a keyed stream and a broadcast one. Flink's `KeyedBroadcastProcessFunction`.
///
/// ```
/// use stillstream::prelude::*;
///
/// /// Lets through what the newest rule for its kind allows.
/// struct Rules { limits: BroadcastState<String, u64> }
///
/// impl BroadcastProcess for Rules {
///     type Key = String;
///     type In = (String, u64);
///     type Rule = (String, u64);
///     type Out = (String, u64);
///
///     fn open(_: &mut KeyedStates<String>, broadcasts: &mut BroadcastStates) -> Result<Self> {
///         Ok(Self { limits: broadcasts.map("limits")? })
///     }
///     fn process(
///         &mut self,
///         record: (String, u64),
///         ctx: &mut KeyedContext<String, Self::Out>,
///     ) -> Result<()> {
///         if self.limits.get(&record.0)?.is_none_or(|limit| record.1 <= limit) {
///             ctx.emit(record);
///         }
///         Ok(())
///     }
///     fn process_broadcast(
///         &mut self,
///         (kind, limit): (String, u64),
///         _: &mut BroadcastContext<Self::Out>,
///     ) -> Result<()> {
///         Ok(self.limits.put(kind, limit)?)
///     }
/// }
///
/// let env = StreamExecutionEnvironment::new();
/// let records = env.from_collection(vec![("a".to_string(), 5u64)]);
/// let rules = env.from_collection(vec![("a".to_string(), 3u64)]);
/// let limited = records.key_by_ref(|record| &record.0).connect_broadcast(&rules).process::<Rules>();
/// limited.uid("rules").discard();
/// ```
pub trait BroadcastProcess: Sized + 'static {
    /// The key's type.
    type Key: Key;
    /// Records of the keyed stream.
    type In: Data;
    /// Records of the broadcast stream.
    type Rule: Data;
    /// Records out.
    type Out: Data;

    /// Makes one parallel instance and its states.
    ///
    /// # Errors
    /// An error ends the attempt.
    fn open(states: &mut KeyedStates<Self::Key>, broadcasts: &mut BroadcastStates<'_>) -> Result<Self>;

    /// Called for each record of the keyed stream.
    ///
    /// # Errors
    /// An error fails the job, which then restarts by its restart strategy.
    fn process(&mut self, record: Self::In, ctx: &mut KeyedContext<'_, Self::Key, Self::Out>) -> Result<()>;

    /// Called in every subtask for each record of the broadcast stream. It must change broadcast state in the
    /// same way everywhere.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn process_broadcast(
        &mut self,
        rule: Self::Rule,
        ctx: &mut BroadcastContext<'_, Self::Out>,
    ) -> Result<()>;

    /// Called for each timer that fires, with the time that it was set for; see
    /// [`KeyedProcess::on_timer`](super::KeyedProcess::on_timer).
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn on_timer(&mut self, at: Timestamp, ctx: &mut KeyedContext<'_, Self::Key, Self::Out>) -> Result<()> {
        let _ = (at, ctx);
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
