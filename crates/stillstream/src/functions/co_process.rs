//! [`CoProcess`]: a function with state over two keyed streams that have the same key.

use stillstream_state::{Data, Key};
use stillstream_types::{Result, Timestamp};

use super::context::KeyedContext;
use super::states::KeyedStates;

/// Makes the states of `F`.
pub type CoStates<F> = KeyedStates<<F as CoProcess>::Key>;
/// What a call of `F` is told.
pub type CoContext<'a, F> = KeyedContext<'a, <F as CoProcess>::Key, <F as CoProcess>::Out>;

/// A function with state and timers over two streams. Both see the same state of a key. Flink's
/// `KeyedCoProcessFunction`.
///
/// ```
/// use stillstream::prelude::*;
///
/// /// Adds the newest price to each order.
/// struct Price { newest: ValueState<u64> }
///
/// impl CoProcess for Price {
///     type Key = u32;
///     type In1 = (u32, String);
///     type In2 = (u32, u64);
///     type Out = (String, Option<u64>);
///
///     fn open(states: &mut CoStates<Self>) -> Result<Self> {
///         Ok(Self { newest: states.value("newest")? })
///     }
///     fn process1(&mut self, (_, order): (u32, String), ctx: &mut CoContext<Self>) -> Result<()> {
///         let price = self.newest.get(ctx)?;
///         ctx.emit((order, price));
///         Ok(())
///     }
///     fn process2(&mut self, (_, price): (u32, u64), ctx: &mut CoContext<Self>) -> Result<()> {
///         Ok(self.newest.set(ctx, price)?)
///     }
/// }
///
/// let env = StreamExecutionEnvironment::new();
/// let orders = env.from_collection(vec![(1u32, "order".to_string())]);
/// let prices = env.from_collection(vec![(1u32, 10u64)]);
/// let priced = orders.connect(&prices).key_by(|order| order.0, |price| price.0).process::<Price>();
/// priced.uid("price").discard();
/// ```
pub trait CoProcess: Sized + 'static {
    /// The key's type.
    type Key: Key;
    /// Records of the first stream.
    type In1: Data;
    /// Records of the second stream.
    type In2: Data;
    /// Records out.
    type Out: Data;

    /// Makes one parallel instance and its states.
    ///
    /// # Errors
    /// An error ends the attempt.
    fn open(states: &mut CoStates<Self>) -> Result<Self>;

    /// Called for each record of the first stream.
    ///
    /// # Errors
    /// An error fails the job, which then restarts by its restart strategy.
    fn process1(&mut self, record: Self::In1, ctx: &mut CoContext<'_, Self>) -> Result<()>;

    /// Called for each record of the second stream.
    ///
    /// # Errors
    /// As [`process1`](Self::process1).
    fn process2(&mut self, record: Self::In2, ctx: &mut CoContext<'_, Self>) -> Result<()>;

    /// Called for each timer that fires, with the time that it was set for; see
    /// [`KeyedProcess::on_timer`](super::KeyedProcess::on_timer).
    ///
    /// # Errors
    /// As [`process1`](Self::process1).
    fn on_timer(&mut self, at: Timestamp, ctx: &mut CoContext<'_, Self>) -> Result<()> {
        let _ = (at, ctx);
        Ok(())
    }

    /// Called once when all input is through and the last checkpoint is complete. A function whose job fails
    /// or is cancelled is only dropped, so what must happen in any case belongs into `Drop`.
    ///
    /// # Errors
    /// As [`process1`](Self::process1).
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
