//! [`Trigger`]: when a window fires, and when what it holds is thrown away.
//!
//! | trigger | fires |
//! |---|---|
//! | [`EventTimeTrigger`] | when the watermark passes the end of the window |
//! | [`ProcessingTimeTrigger`] | when the clock passes the end of the window |
//! | [`CountTrigger`] | after each `n` records |
//! | [`ContinuousEventTimeTrigger`], [`ContinuousProcessingTimeTrigger`] | at an interval, and at the end of the window |
//! | [`DeltaTrigger`] | when a record differs enough from the one that fired last |
//! | [`PurgingTrigger`] | as another one, and purges each time |

mod continuous;
mod count;
mod default;
mod delta;
mod purging;
mod time;

pub use continuous::{ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger};
pub use count::CountTrigger;
pub use default::DefaultTrigger;
pub(crate) use default::Fires;
pub use delta::DeltaTrigger;
pub use purging::PurgingTrigger;
pub use time::{EventTimeTrigger, ProcessingTimeTrigger};

use stillstream_state::{Data, TimeDomain};
use stillstream_types::{Result, Timestamp};

use super::TimeWindow;

/// What is to be done with a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TriggerResult {
    /// Nothing.
    Continue,
    /// Its result is emitted; what it holds stays, and goes into the next result too.
    Fire,
    /// What it holds is forgotten. The window itself goes on.
    Purge,
    /// Its result is emitted, then what it holds is forgotten.
    FireAndPurge,
}

impl TriggerResult {
    /// Whether the window's result is emitted.
    pub fn is_fire(self) -> bool {
        matches!(self, Self::Fire | Self::FireAndPurge)
    }

    /// Whether what the window holds is forgotten.
    pub fn is_purge(self) -> bool {
        matches!(self, Self::Purge | Self::FireAndPurge)
    }
}

/// Says when a window fires (Flink's `Trigger`), for
/// [`WindowedStream::trigger`](super::WindowedStream::trigger).
///
/// One trigger serves all keys and windows: what it must remember about one key's window is its
/// [`State`](Self::State), which is kept with the window, goes into snapshots, and is forgotten with the
/// window. Timers that it sets by the [`TriggerContext`] call it again for that key and window; of equal ones
/// there is one.
///
/// Fires with each record that is over a limit, and at the end of the window:
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::testing::StreamDriver;
/// use stillstream::window::{Trigger, TriggerContext, TriggerResult};
///
/// struct Over(u64);
///
/// impl Trigger<u64> for Over {
///     type State = ();
///
///     fn on_element(
///         &self,
///         record: &u64,
///         _: Option<Timestamp>,
///         _: &mut (),
///         ctx: &mut TriggerContext,
///     ) -> Result<TriggerResult> {
///         ctx.register_event_time_timer(ctx.window().last());
///         Ok(if *record > self.0 { TriggerResult::Fire } else { TriggerResult::Continue })
///     }
///     fn on_event_time(
///         &self,
///         at: Timestamp,
///         _: &mut (),
///         ctx: &mut TriggerContext,
///     ) -> Result<TriggerResult> {
///         Ok(if at == ctx.window().last() { TriggerResult::Fire } else { TriggerResult::Continue })
///     }
///     fn clear(&self, _: &(), ctx: &mut TriggerContext) -> Result<()> {
///         ctx.delete_event_time_timer(ctx.window().last());
///         Ok(())
///     }
/// }
///
/// let mut driver = StreamDriver::new(|numbers: &DataStream<u64>| {
///     numbers.key_by(|n| n % 2).window(Tumbling::of(seconds(1))).trigger(Over(10)).reduce(|a, b| a + b)
/// });
/// for n in [2, 4, 12, 6] {
///     driver.record_at(n, Timestamp::from_millis(500))?;
/// }
/// assert_eq!(driver.output(), [18]);
/// driver.watermark(Timestamp::from_millis(999))?;
/// assert_eq!(driver.output(), [24]);
/// # Ok::<(), Error>(())
/// ```
pub trait Trigger<T>: Send + Sync + 'static {
    /// What is remembered for each key and window; `()` for nothing. A state that is equal to the default
    /// takes no room.
    type State: Data + Default;

    /// A record has come into the window. It has been added to what the window holds.
    ///
    /// # Errors
    /// An error fails the job, which then restarts by its restart strategy.
    fn on_element(
        &self,
        record: &T,
        timestamp: Option<Timestamp>,
        state: &mut Self::State,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult>;

    /// An event-time timer fires that the trigger has set, or the one at which the window is forgotten.
    ///
    /// # Errors
    /// As [`on_element`](Self::on_element).
    fn on_event_time(
        &self,
        at: Timestamp,
        state: &mut Self::State,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        let _ = (at, state, ctx);
        Ok(TriggerResult::Continue)
    }

    /// A processing-time timer fires that the trigger has set, or the one at which the window is forgotten.
    ///
    /// # Errors
    /// As [`on_element`](Self::on_element).
    fn on_processing_time(
        &self,
        at: Timestamp,
        state: &mut Self::State,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        let _ = (at, state, ctx);
        Ok(TriggerResult::Continue)
    }

    /// Whether it can be used with windows that merge: sessions. One that says so has an
    /// [`on_merge`](Self::on_merge).
    fn can_merge(&self) -> bool {
        false
    }

    /// Windows have merged into the one of the context. `state` is that of the new window, still the default;
    /// `merged` are those of the windows that it is made of. Afterwards the old windows are
    /// [cleared](Self::clear).
    ///
    /// # Errors
    /// As [`on_element`](Self::on_element).
    fn on_merge(
        &self,
        state: &mut Self::State,
        merged: Vec<Self::State>,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<()> {
        let _ = (state, merged, ctx);
        Ok(())
    }

    /// The window is forgotten, and the state with it: deletes the timers that are still set.
    ///
    /// # Errors
    /// As [`on_element`](Self::on_element).
    fn clear(&self, state: &Self::State, ctx: &mut TriggerContext<'_>) -> Result<()> {
        let _ = (state, ctx);
        Ok(())
    }

    /// What is wrong with the trigger's parameters; `execute` reports it before the job starts.
    ///
    /// # Errors
    /// One sentence.
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A timer that a trigger sets or deletes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimerRequest {
    pub domain: TimeDomain,
    pub at: Timestamp,
    pub delete: bool,
}

/// What a call of a [`Trigger`] is told, and the timers of its key and window.
#[derive(Debug)]
pub struct TriggerContext<'a> {
    pub(crate) window: TimeWindow,
    pub(crate) watermark: Timestamp,
    pub(crate) now_ms: i64,
    /// Done by the operator after the call, in this order.
    pub(crate) requests: &'a mut Vec<TimerRequest>,
}

impl TriggerContext<'_> {
    /// The window that the call is about.
    pub fn window(&self) -> TimeWindow {
        self.window
    }

    /// How far event time has come: no earlier record will come, late ones aside.
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// Processing time.
    pub fn processing_time(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms)
    }

    /// Calls [`Trigger::on_event_time`] when the watermark reaches `at`; with the next watermark if it has
    /// already.
    pub fn register_event_time_timer(&mut self, at: Timestamp) {
        self.requests.push(TimerRequest { domain: TimeDomain::EventTime, at, delete: false });
    }

    /// Calls [`Trigger::on_processing_time`] when the clock reaches `at`.
    pub fn register_processing_time_timer(&mut self, at: Timestamp) {
        self.requests.push(TimerRequest { domain: TimeDomain::ProcessingTime, at, delete: false });
    }

    /// Deletes an event-time timer; one that is not there is no mistake.
    pub fn delete_event_time_timer(&mut self, at: Timestamp) {
        self.requests.push(TimerRequest { domain: TimeDomain::EventTime, at, delete: true });
    }

    /// Deletes a processing-time timer; one that is not there is no mistake.
    pub fn delete_processing_time_timer(&mut self, at: Timestamp) {
        self.requests.push(TimerRequest { domain: TimeDomain::ProcessingTime, at, delete: true });
    }
}
