//! [`StreamDriver`] and [`ConnectedDriver`]: whatever a stream's method makes, driven by hand.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use stillstream_runtime::Batch;
use stillstream_state::Data;
use stillstream_types::{PendingTimers, Result, Timestamp};

use super::DriverSnapshot;
use super::driven::Driven;
use crate::data_stream::DataStream;
use crate::environment::StreamExecutionEnvironment;
use crate::side_output::OutputTag;

/// Drives one transformation of a stream, such as a window: a closure that makes it is all it needs.
///
/// It runs the operator that a job runs, with an event time and a clock that only the test moves. Records
/// come out in the order in which they were emitted.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::testing::StreamDriver;
///
/// const LATE: OutputTag<(String, u64)> = OutputTag::new("late");
///
/// let new = || {
///     let driver = StreamDriver::new(|sales: &DataStream<(String, u64)>| {
///         sales
///             .key_by_ref(|sale| &sale.0)
///             .window(Tumbling::of(seconds(10)))
///             .late_output(&LATE)
///             .reduce(|a, b| (a.0, a.1 + b.1))
///     });
///     driver.reading(&LATE)
/// };
/// let at = Timestamp::from_millis;
/// let mut driver = new();
/// driver.record_at(("a".into(), 1), at(1_000))?;
/// driver.record_at(("a".into(), 2), at(9_000))?;
///
/// let mut restored = new().restored(driver.snapshot()?);
/// restored.watermark(at(9_999))?;
/// assert_eq!(restored.output(), [("a".to_string(), 3)]);
/// restored.record_at(("a".into(), 4), at(5_000))?;
/// assert_eq!(restored.side(&LATE)?, [("a".to_string(), 4)]);
/// assert_eq!(restored.counter("late"), 1);
/// # Ok::<(), Error>(())
/// ```
pub struct StreamDriver<T, R> {
    driven: Driven<R>,
    records: PhantomData<fn(T)>,
}

impl<T, R> fmt::Debug for StreamDriver<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamDriver").field(&self.driven).finish()
    }
}

/// The methods that every driver has.
macro_rules! driver_methods {
    () => {
        /// Runs this many subtasks, over which records are dealt out as the operator asks for. Before the
        /// first record.
        pub fn parallelism(mut self, parallelism: u32) -> Self {
            self.driven.set_parallelism(parallelism);
            self
        }

        /// Starts from a snapshot, which may be of another parallelism. Before the first record.
        pub fn restored(mut self, snapshot: DriverSnapshot) -> Self {
            self.driven.restore(snapshot);
            self
        }

        /// Keeps what is emitted into a side output, for [`side`](Self::side). Before the first record.
        pub fn reading<O: Data>(mut self, tag: &OutputTag<O>) -> Self {
            self.driven.read(tag);
            self
        }

        /// Moves event time on, in all inputs: fires what is due up to and including `watermark`.
        ///
        /// # Errors
        /// The function's own.
        pub fn watermark(&mut self, watermark: Timestamp) -> Result<()> {
            self.driven.watermark(watermark)
        }

        /// What becomes of timers of processing time that are set when the input ends; they are dropped if
        /// this is not called. Before the first record.
        pub fn pending_timers(mut self, pending: PendingTimers) -> Self {
            self.driven.set_pending_timers(pending);
            self
        }

        /// Ends the input: the watermark becomes [`Timestamp::MAX`], and all event timers fire. Before that
        /// the clock moves on to timers of processing time that are to be awaited.
        ///
        /// # Errors
        /// The function's own.
        pub fn end_input(&mut self) -> Result<()> {
            self.driven.end_input()
        }

        /// Moves the clock on: fires processing-time timers that are due.
        ///
        /// # Errors
        /// The function's own.
        pub fn advance_clock(&mut self, by: Duration) -> Result<()> {
            self.driven.advance_clock(by)
        }

        /// Waits for an operator that [asks elsewhere](DataStream::async_map), until this many records have come out and
        /// were not taken.
        ///
        /// # Errors
        /// The function's own, and if nothing happens in half a minute.
        pub fn await_output(&mut self, records: usize) -> Result<()> {
            self.driven.await_output(records)
        }

        /// Takes what was emitted so far.
        pub fn output(&mut self) -> Vec<R> {
            self.driven.output().into_iter().map(|(record, _)| record).collect()
        }

        /// Takes what was emitted so far, with event times.
        pub fn timed_output(&mut self) -> Vec<(R, Option<Timestamp>)> {
            self.driven.output()
        }

        /// Takes what was emitted into a side output so far; see [`reading`](Self::reading).
        ///
        /// # Errors
        /// If the side output was not announced, or is read as another type than it is emitted into.
        pub fn side<O: Data>(&mut self, tag: &OutputTag<O>) -> Result<Vec<O>> {
            self.driven.side(tag)
        }

        /// The job's counter `<operator>.<name>`, such as `late`.
        pub fn counter(&self, name: &str) -> u64 {
            self.driven.counter(name)
        }

        /// Takes a snapshot of state and timers.
        ///
        /// # Errors
        /// If state cannot be written.
        pub fn snapshot(&mut self) -> Result<DriverSnapshot> {
            self.driven.snapshot()
        }
    };
}

impl<T: Data, R: Data> StreamDriver<T, R> {
    /// A driver of what `build` makes of a stream: one operator. The clock stands at 1970.
    ///
    /// A mistake in what it makes is the error of the first call.
    pub fn new(build: impl FnOnce(&DataStream<T>) -> DataStream<R>) -> Self {
        let env = StreamExecutionEnvironment::new();
        let records = env.from_collection(Vec::<T>::new());
        Self { driven: Driven::of(&build(&records), 1), records: PhantomData }
    }

    driver_methods!();

    /// Hands a record without event time to the operator.
    ///
    /// # Errors
    /// The function's own.
    pub fn record(&mut self, record: T) -> Result<()> {
        self.driven.push(0, Batch::new(vec![record]).into())
    }

    /// Hands a record with an event time to the operator.
    ///
    /// # Errors
    /// The function's own.
    pub fn record_at(&mut self, record: T, at: Timestamp) -> Result<()> {
        self.driven.push(0, Batch::timed(vec![record], vec![at.as_millis()]).into())
    }

    #[cfg(all(test, feature = "rocksdb"))]
    pub(crate) fn on_backend(mut self, backend: stillstream_runtime::backends::StateBackends) -> Self {
        self.driven.backend = Some(backend);
        self
    }
}

/// Drives one transformation of two streams, such as `connect(..).key_by(..).process()`.
///
/// ```
/// use stillstream::prelude::*;
/// use stillstream::testing::ConnectedDriver;
///
/// /// Adds the newest price to each order.
/// struct Price { newest: ValueState<u64> }
/// impl CoProcess for Price {
///     type Key = u32;
///     type In1 = (u32, String);
///     type In2 = (u32, u64);
///     type Out = (String, Option<u64>);
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
/// type Orders = DataStream<(u32, String)>;
/// let mut driver = ConnectedDriver::new(|orders: &Orders, prices: &DataStream<(u32, u64)>| {
///     orders.connect(prices).key_by(|order| order.0, |price| price.0).process::<Price>()
/// });
/// driver.record2((1, 10))?;
/// driver.record1((1, "tea".into()))?;
/// assert_eq!(driver.output(), [("tea".to_string(), Some(10))]);
/// # Ok::<(), Error>(())
/// ```
pub struct ConnectedDriver<T, U, R> {
    driven: Driven<R>,
    records: PhantomData<fn(T, U)>,
}

impl<T, U, R> fmt::Debug for ConnectedDriver<T, U, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConnectedDriver").field(&self.driven).finish()
    }
}

impl<T: Data, U: Data, R: Data> ConnectedDriver<T, U, R> {
    /// A driver of what `build` makes of two streams: one operator. The clock stands at 1970.
    ///
    /// A mistake in what it makes is the error of the first call.
    pub fn new(build: impl FnOnce(&DataStream<T>, &DataStream<U>) -> DataStream<R>) -> Self {
        let env = StreamExecutionEnvironment::new();
        let first = env.from_collection(Vec::<T>::new());
        let second = env.from_collection(Vec::<U>::new());
        Self { driven: Driven::of(&build(&first, &second), 2), records: PhantomData }
    }

    driver_methods!();

    /// Hands a record without event time to the first input.
    ///
    /// # Errors
    /// The function's own.
    pub fn record1(&mut self, record: T) -> Result<()> {
        self.driven.push(0, Batch::new(vec![record]).into())
    }

    /// Hands a record with an event time to the first input.
    ///
    /// # Errors
    /// The function's own.
    pub fn record1_at(&mut self, record: T, at: Timestamp) -> Result<()> {
        self.driven.push(0, Batch::timed(vec![record], vec![at.as_millis()]).into())
    }

    /// Hands a record without event time to the second input.
    ///
    /// # Errors
    /// The function's own.
    pub fn record2(&mut self, record: U) -> Result<()> {
        self.driven.push(1, Batch::new(vec![record]).into())
    }

    /// Hands a record with an event time to the second input.
    ///
    /// # Errors
    /// The function's own.
    pub fn record2_at(&mut self, record: U, at: Timestamp) -> Result<()> {
        self.driven.push(1, Batch::timed(vec![record], vec![at.as_millis()]).into())
    }
}
