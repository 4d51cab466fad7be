//! Event time: how records get their times, and how a stream knows how far it is.

mod generator;
mod strategy;

pub use strategy::{NoTimes, WatermarkStrategy};

use stillstream_state::Data;
use stillstream_types::Timestamp;

use crate::data_stream::DataStream;
use crate::graph::NodeSpec;
pub(crate) use generator::WatermarkGenerator;

/// Event time.
impl<T: Data> DataStream<T> {
    /// Gives records their event times, and makes the watermarks by which windows and event-time timers fire. Best called
    /// on a source, before anything that mixes its subtasks.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// let env = StreamExecutionEnvironment::new();
    /// let clicks = env
    ///     .from_collection(vec![("home", 1_000i64), ("cart", 3_000)].into_iter().map(|(page, at)| (page.to_string(), at)))
    ///     .watermarks(
    ///         WatermarkStrategy::bounded_out_of_orderness(seconds(5))
    ///             .timestamp(|click: &(String, i64)| Timestamp::from_millis(click.1)),
    ///     );
    /// # let _ = clicks;
    /// ```
    pub fn watermarks(&self, strategy: WatermarkStrategy<T>) -> DataStream<T> {
        self.operator(NodeSpec::stateful("watermarks"), move || Ok(WatermarkGenerator::new(strategy.clone())))
    }

    /// Gives records their event times without making watermarks: windows fire at the end of the input.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// let env = StreamExecutionEnvironment::new();
    /// let times = env.from_collection(1..=3u64).assign_timestamps(|n| Timestamp::from_millis(*n as i64));
    /// # let _ = times;
    /// ```
    pub fn assign_timestamps(
        &self,
        timestamp: impl Fn(&T) -> Timestamp + Send + Sync + 'static,
    ) -> DataStream<T> {
        self.watermarks(WatermarkStrategy::none().timestamp(timestamp))
    }
}
