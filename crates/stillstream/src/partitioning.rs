//! How the records of a stream get to the subtasks of the next operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stillstream_runtime::exchange::{at_random, by_choice};
use stillstream_runtime::plan::Exchange;
use stillstream_state::Data;

use crate::data_stream::DataStream;

/// Partitioning. Without any, records stay within their subtask, or are dealt out evenly where the next
/// operator has another parallelism. Watermarks go to every subtask, whoever gets the records.
impl<T: Data> DataStream<T> {
    /// Deals the records out evenly to the subtasks of the next operator.
    pub fn rebalance(&self) -> DataStream<T> {
        self.with_exchange(Exchange::Rebalance)
    }

    /// Deals the records out evenly to a share of the next operator's subtasks: each subtask has its own
    /// share, so records spread over the network less than with [`rebalance`](Self::rebalance). Two subtasks
    /// before four give two each their records.
    pub fn rescale(&self) -> DataStream<T> {
        self.with_exchange(Exchange::Rescale)
    }

    /// Sends each record to a subtask of the next operator that is drawn at random.
    pub fn shuffle(&self) -> DataStream<T> {
        // each channel has numbers of its own
        let seeds = AtomicU64::new(1);
        let splitter =
            move |_, parallelism| at_random::<T>(seeds.fetch_add(1, Ordering::Relaxed), parallelism);
        self.with_exchange(Exchange::Partition(Arc::new(splitter)))
    }

    /// Sends every record to the first subtask of the next operator, whatever its parallelism.
    pub fn global(&self) -> DataStream<T> {
        self.with_exchange(Exchange::Global)
    }

    /// Leaves the records within their subtask, as they are without any partitioning; here it is a mistake
    /// that `execute` names if the next operator has another parallelism.
    pub fn forward(&self) -> DataStream<T> {
        self.with_exchange(Exchange::ForwardOnly)
    }

    /// Sends every record to every subtask of the next operator.
    pub fn broadcast(&self) -> DataStream<T> {
        self.with_exchange(Exchange::Broadcast)
    }

    /// Sends each record to the subtask of the next operator that `f` says: a number from 0 to less than the
    /// number of subtasks, which it is given. Another number fails the job. This does not make the stream
    /// keyed: see [`key_by`](Self::key_by) for state.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// /// Large orders have a subtask of their own.
    /// fn by_size(orders: &DataStream<u64>) -> DataStream<u64> {
    ///     orders
    ///         .partition_by(|order, subtasks| match *order > 1_000 {
    ///             true => 0,
    ///             false => (*order % u64::from(subtasks)) as u32,
    ///         })
    ///         .map(|order| order * 2)
    /// }
    /// # let _ = by_size;
    /// ```
    pub fn partition_by(&self, f: impl Fn(&T, u32) -> u32 + Send + Sync + 'static) -> DataStream<T> {
        let f = Arc::new(f);
        let splitter = move |_, parallelism| {
            let f = f.clone();
            by_choice(move |record: &T, subtasks| f(record, subtasks), parallelism)
        };
        self.with_exchange(Exchange::Partition(Arc::new(splitter)))
    }
}
