//! [`KeyedProcess`]: a function with state and timers over one keyed stream.

use stillstream_state::{Data, Key};
use stillstream_types::{Result, Timestamp};

use super::context::KeyedContext;
use super::states::KeyedStates;

/// Makes the states of `F`.
pub type States<F> = KeyedStates<<F as KeyedProcess>::Key>;
/// What a call of `F` is told.
pub type Context<'a, F> = KeyedContext<'a, <F as KeyedProcess>::Key, <F as KeyedProcess>::Out>;

/// A function with state and timers, called for each record of a keyed stream. Flink's
/// `KeyedProcessFunction`.
///
/// Counts the records of each key and says so a minute (of event time) after the last one:
///
/// ```
/// use stillstream::prelude::*;
///
/// struct Quiet { last: ValueState<Timestamp>, seen: ValueState<u64> }
///
/// impl KeyedProcess for Quiet {
///     type Key = String;
///     type In = (String, Timestamp);
///     type Out = (String, u64);
///
///     fn open(states: &mut States<Self>) -> Result<Self> {
///         Ok(Self { last: states.value("last")?, seen: states.value("seen")? })
///     }
///
///     fn process(&mut self, (_, at): Self::In, ctx: &mut Context<Self>) -> Result<()> {
///         self.seen.update(ctx, || 0, |seen| *seen += 1)?;
///         self.last.set(ctx, at)?;
///         ctx.timers().on_event_time(at + minutes(1))?;
///         Ok(())
///     }
///
///     fn on_timer(&mut self, at: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
///         if self.last.get(ctx)? == Some(at - minutes(1)) {
///             let seen = self.seen.get(ctx)?.unwrap_or(0);
///             ctx.emit((ctx.key().clone(), seen));
///         }
///         Ok(())
///     }
/// }
///
/// let env = StreamExecutionEnvironment::new();
/// let records = env.from_collection(vec![("a".to_string(), Timestamp::from_millis(0))]);
/// records.key_by_ref(|record| &record.0).process::<Quiet>().uid("quiet").discard();
/// ```
pub trait KeyedProcess: Sized + 'static {
    /// The key's type.
    type Key: Key;
    /// Records in.
    type In: Data;
    /// Records out.
    type Out: Data;

    /// Makes one parallel instance and its states.
    ///
    /// # Errors
    /// An error ends the attempt.
    fn open(states: &mut States<Self>) -> Result<Self>;

    /// Called for each record.
    ///
    /// # Errors
    /// An error fails the job, which then restarts by its restart strategy.
    fn process(&mut self, record: Self::In, ctx: &mut Context<'_, Self>) -> Result<()>;

    /// Called for each timer that fires, with the time that it was set for, in the order of those times. The
    /// context knows the [key](KeyedContext::key) and [by which clock](KeyedContext::time_domain) it fires;
    /// its [`timestamp`](KeyedContext::timestamp) is the timer's time for one of event time, and `None` for
    /// one of processing time.
    ///
    /// A timer of event time fires behind every record that came before its watermark, and before every
    /// record that came after.
    ///
    /// At the end of a bounded input the watermark is [`Timestamp::MAX`], and every timer of event time is
    /// due, also one that is set then: a function that sets the next timer with each must stop when it sees
    /// that watermark, or the job never ends. Timers of processing time that are not yet due are dropped,
    /// unless [`set_pending_timers`](crate::StreamExecutionEnvironment::set_pending_timers) says otherwise.
    ///
    /// # Errors
    /// As [`process`](Self::process).
    fn on_timer(&mut self, at: Timestamp, ctx: &mut Context<'_, Self>) -> Result<()> {
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
