//! [`GlobalWindows`]: one window for each key, which never ends.

use super::assigner::{Assigner, Windows};

/// One window for each key, which never ends: a trigger says when it fires, and what it holds is kept until
/// the trigger purges it. Flink's `GlobalWindows`.
///
/// Without a trigger it would never fire, and `execute` says so. Its results have the event time of the
/// record or of the event-time timer that made it fire, since the window itself has no last moment. No record
/// is late for it.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::window::{CountTrigger, PurgingTrigger};
///
/// /// Each hundred sales of a shop, as [`count_window`](KeyedStream::count_window) does too.
/// fn hundreds(sales: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
///     sales
///         .key_by_ref(|sale| &sale.0)
///         .window(GlobalWindows::create())
///         .trigger(PurgingTrigger::of(CountTrigger::of(100)))
///         .reduce(|a, b| (a.0, a.1 + b.1))
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GlobalWindows {
    fire_at_end: bool,
}

impl GlobalWindows {
    /// A window that fires when its trigger says so: add `.trigger(..)`.
    pub const fn create() -> Self {
        Self { fire_at_end: false }
    }

    /// A window that fires once, at the end of a bounded input, where no other trigger is given.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// let env = StreamExecutionEnvironment::new();
    /// let all = GlobalWindows::create_with_end_of_stream_trigger();
    /// let sum = env.from_collection(1..=4u64).window_all(all).reduce(|a, b| a + b).collect();
    /// env.execute("sum")?;
    /// assert_eq!(sum.items(), [10]);
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn create_with_end_of_stream_trigger() -> Self {
        Self { fire_at_end: true }
    }
}

impl<T> Assigner<T> for GlobalWindows {
    fn windows(self) -> Result<Windows<T>, String> {
        Ok(Windows::Global { fire_at_end: self.fire_at_end })
    }
}
