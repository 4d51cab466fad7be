//! Windows by count, and windows over all keys together.

use stillstream_runtime::exchange::{KeySelector, OwnedKey};
use stillstream_state::Data;

use super::trigger::{CountTrigger, PurgingTrigger};
use super::{CountEvictor, EvictingWindowedStream, GlobalWindows, WindowAssigner, WindowedStream};
use crate::data_stream::DataStream;
use crate::keyed_stream::KeyedStream;

impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    /// Windows of `size` records of each key, one after another. A window that is not full when the input
    /// ends does not fire.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::testing::StreamDriver;
    ///
    /// let mut driver = StreamDriver::new(|numbers: &DataStream<u64>| {
    ///     numbers.key_by(|n| n % 2).count_window(2).reduce(|a, b| a + b)
    /// });
    /// for n in 1..=6 {
    ///     driver.record(n)?;
    /// }
    /// assert_eq!(driver.output(), [1 + 3, 2 + 4]);
    /// driver.record(7)?;
    /// assert_eq!(driver.output(), [5 + 7]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn count_window(&self, size: u64) -> WindowedStream<T, S, PurgingTrigger<CountTrigger>> {
        self.window(GlobalWindows::create()).trigger(PurgingTrigger::of(CountTrigger::of(size)))
    }

    /// The last `size` records of each key, after every `slide` records of it; the first windows hold fewer.
    /// All records are kept that the next window needs.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::testing::StreamDriver;
    ///
    /// let mut driver = StreamDriver::new(|numbers: &DataStream<u64>| {
    ///     numbers.key_by(|_| 0u32).count_window_sliding(3, 2).reduce(|a, b| a + b)
    /// });
    /// for n in [1, 10, 100, 1000] {
    ///     driver.record(n)?;
    /// }
    /// assert_eq!(driver.output(), [11, 1110]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn count_window_sliding(
        &self,
        size: usize,
        slide: u64,
    ) -> EvictingWindowedStream<T, S, CountTrigger, CountEvictor> {
        if size == 0 {
            self.graph().mistake("a sliding count window of 0 records: it needs at least 1".into());
        }
        let windows = self.window(GlobalWindows::create()).trigger(CountTrigger::of(slide));
        windows.evictor(CountEvictor::of(size))
    }
}

/// The key of all records.
pub type OneKey<T> = OwnedKey<fn(&T)>;

impl<T: Data> DataStream<T> {
    /// Windows over all records together, whatever they are. One subtask does it all, so this is as fast as
    /// one processor is: where possible, reduce by key first. The key is `()`.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn total_per_hour(sales: &DataStream<u64>) -> DataStream<u64> {
    ///     sales.window_all(Tumbling::of(hours(1))).reduce(|a, b| a + b)
    /// }
    /// ```
    pub fn window_all(&self, assigner: impl WindowAssigner<T>) -> WindowedStream<T, OneKey<T>> {
        let all: fn(&T) = |_| ();
        self.key_by(all).window(assigner).all_in_one()
    }

    /// Windows of `size` records, whatever they are, one after another; see [`window_all`](Self::window_all).
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn sums_of_ten(numbers: &DataStream<u64>) -> DataStream<u64> {
    ///     numbers.count_window_all(10).reduce(|a, b| a + b)
    /// }
    /// ```
    pub fn count_window_all(&self, size: u64) -> WindowedStream<T, OneKey<T>, PurgingTrigger<CountTrigger>> {
        let trigger = PurgingTrigger::of(CountTrigger::of(size));
        self.window_all(GlobalWindows::create()).trigger(trigger)
    }
}

impl<T, S, Tr> WindowedStream<T, S, Tr> {
    fn all_in_one(mut self) -> Self {
        self.all_in_one = true;
        self
    }
}
