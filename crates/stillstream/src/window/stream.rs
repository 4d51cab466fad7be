//! [`WindowedStream`]: a keyed stream that is cut into windows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::exchange::KeySelector;
use stillstream_state::{Aggregate, Data};

use super::TimeWindow;
use super::assigner::{Fixed, Shape, WindowAssigner};
use super::fixed::FixedWindows;
use super::function::{Aggregated, Collected, Counted, ProcessWindow, Reduced, WindowLogic};
use super::late::LatePolicy;
use super::session::SessionWindows;
use super::sessions::Rules;
use crate::data_stream::DataStream;
use crate::graph::NodeSpec;
use crate::keyed_stream::KeyedStream;
use crate::side_output::{OutputTag, Sides};

impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    /// Cuts the records of each key into windows of event time.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// fn main() -> Result<()> {
    ///     let mut env = StreamExecutionEnvironment::new();
    ///     env.from_collection(vec![("a".to_string(), 1_000i64), ("b".to_string(), 2_000), ("a".to_string(), 61_000)])
    ///         .watermarks(WatermarkStrategy::monotonic().timestamp(|click: &(String, i64)| Timestamp::from_millis(click.1)))
    ///         .key_by_ref(|click| &click.0)
    ///         .window(Tumbling::of(minutes(1)))
    ///         .count()
    ///         .uid("clicks-a-minute")
    ///         .print();
    ///     env.execute("clicks").map(drop)
    /// }
    /// ```
    pub fn window(&self, assigner: impl WindowAssigner) -> WindowedStream<T, S> {
        let shape = assigner.shape().unwrap_or_else(|mistake| {
            self.graph().mistake(format!("{mistake} (the window of `{:?}`)", self));
            Shape::Session { gap: 1 }
        });
        WindowedStream {
            input: self.clone(),
            shape,
            lateness: Duration::ZERO,
            late: LatePolicy { tag: None, sides: Sides::new() },
        }
    }
}

/// A keyed stream cut into windows, as [`window`](KeyedStream::window) makes it: say what to do with late records, then
/// what to make of each window.
pub struct WindowedStream<T, S> {
    input: KeyedStream<T, S>,
    shape: Shape,
    lateness: Duration,
    late: LatePolicy<T>,
}

impl<T, S> fmt::Debug for WindowedStream<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowedStream")
            .field("input", &self.input)
            .field("windows", &self.shape)
            .field("allowed_lateness", &self.lateness)
            .finish()
    }
}

impl<T: Data, S: KeySelector<T>> WindowedStream<T, S> {
    /// Keeps windows for so long after they have fired. A record that comes in this time makes its window fire again,
    /// with all records so far: the results then replace each other.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// # let clicks = env.from_collection(vec![("a".to_string(), 1i64)])
    /// #     .assign_timestamps(|click| Timestamp::from_millis(click.1)).key_by_ref(|click| &click.0);
    /// clicks.window(Tumbling::of(hours(1))).allowed_lateness(minutes(10)).count().discard();
    /// ```
    pub fn allowed_lateness(mut self, lateness: Duration) -> Self {
        self.lateness = lateness;
        self
    }

    /// Sends late records to a side output, to be read with [`side_output`](DataStream::side_output) from the stream of
    /// results. Otherwise they are dropped and counted as `<operator>.late`.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// # let clicks = env.from_collection(vec![("a".to_string(), 1i64)])
    /// #     .assign_timestamps(|click| Timestamp::from_millis(click.1)).key_by_ref(|click| &click.0);
    /// const LATE: OutputTag<(String, i64)> = OutputTag::new("late");
    /// let counts = clicks.window(Tumbling::of(hours(1))).late_output(&LATE).count();
    /// counts.side_output(&LATE).print();
    /// ```
    pub fn late_output(mut self, tag: &OutputTag<T>) -> Self {
        self.late.tag = Some(*tag);
        self
    }

    /// [`late_output`](Self::late_output) under Flink's name.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// # let clicks = env.from_collection(vec![("a".to_string(), 1i64)])
    /// #     .assign_timestamps(|click| Timestamp::from_millis(click.1)).key_by_ref(|click| &click.0);
    /// const LATE: OutputTag<(String, i64)> = OutputTag::new("late");
    /// let counts = clicks.window(Session::with_gap(minutes(5))).side_output_late(&LATE).count();
    /// counts.side_output(&LATE).print();
    /// ```
    pub fn side_output_late(self, tag: &OutputTag<T>) -> Self {
        self.late_output(tag)
    }

    fn apply<L: WindowLogic<S::Key, T>>(
        &self,
        name: &str,
        make: impl Fn() -> L + Send + Sync + 'static,
    ) -> DataStream<L::Out> {
        let late = self.late.clone();
        let lateness = i64::try_from(self.lateness.as_millis()).unwrap_or(i64::MAX);
        let spec = NodeSpec::stateful(name).with_sides(late.sides.clone());
        match self.shape {
            Shape::Fixed { size, slide, offset } => self.input.operator(spec, move |selector| {
                let windows = Fixed { size, slide, offset };
                Ok(FixedWindows::new(windows, lateness, late.clone(), selector, make()))
            }),
            Shape::Session { gap } => self.input.operator(spec, move |selector| {
                Ok(SessionWindows::new(Rules { gap, lateness }, late.clone(), selector, make()))
            }),
        }
    }

    /// One result for each key and window: what the aggregate makes of the records. Only the accumulator is kept.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// # let clicks = env.from_collection(vec![("a".to_string(), 1i64)])
    /// #     .assign_timestamps(|click| Timestamp::from_millis(click.1)).key_by_ref(|click| &click.0);
    /// struct Latest;
    /// impl Aggregate for Latest {
    ///     type In = (String, i64);
    ///     type Acc = i64;
    ///     type Out = i64;
    ///     fn create(&self) -> i64 { i64::MIN }
    ///     fn add(&self, acc: &mut i64, click: (String, i64)) { *acc = (*acc).max(click.1); }
    ///     fn merge(&self, acc: &mut i64, other: i64) { *acc = (*acc).max(other); }
    ///     fn result(&self, acc: &i64) -> i64 { *acc }
    /// }
    /// clicks.window(Tumbling::of(hours(1))).aggregate(Latest).discard();
    /// ```
    pub fn aggregate<A>(self, aggregate: A) -> DataStream<A::Out>
    where
        A: Aggregate<In = T> + Send + Sync,
        A::Out: Data,
    {
        self.aggregate_with(aggregate, |_, _, result| result)
    }

    /// Like [`aggregate`](Self::aggregate), with key and window at hand for the record that goes out.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// # let clicks = env.from_collection(vec![("a".to_string(), 1i64)])
    /// #     .assign_timestamps(|click| Timestamp::from_millis(click.1)).key_by_ref(|click| &click.0);
    /// # struct Latest;
    /// # impl Aggregate for Latest {
    /// #     type In = (String, i64);
    /// #     type Acc = i64;
    /// #     type Out = i64;
    /// #     fn create(&self) -> i64 { i64::MIN }
    /// #     fn add(&self, acc: &mut i64, click: (String, i64)) { *acc = (*acc).max(click.1); }
    /// #     fn merge(&self, acc: &mut i64, other: i64) { *acc = (*acc).max(other); }
    /// #     fn result(&self, acc: &i64) -> i64 { *acc }
    /// # }
    /// clicks
    ///     .window(Tumbling::of(hours(1)))
    ///     .aggregate_with(Latest, |user, window, latest| (user.clone(), window.start, latest))
    ///     .discard();
    /// ```
    pub fn aggregate_with<A, U: Data>(
        self,
        aggregate: A,
        output: impl Fn(&S::Key, TimeWindow, A::Out) -> U + Send + Sync + 'static,
    ) -> DataStream<U>
    where
        A: Aggregate<In = T> + Send + Sync,
    {
        let (aggregate, output) = (Arc::new(aggregate), Arc::new(output));
        self.apply("window-aggregate", move || Aggregated {
            aggregate: aggregate.clone(),
            output: output.clone(),
        })
    }

    /// One record for each key and window: all its records folded into one.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// # let clicks = env.from_collection(vec![("a".to_string(), 1i64)])
    /// #     .assign_timestamps(|click| Timestamp::from_millis(click.1)).key_by_ref(|click| &click.0);
    /// clicks.window(Tumbling::of(hours(1))).reduce(|a, b| if a.1 > b.1 { a } else { b }).discard();
    /// ```
    pub fn reduce(self, reduce: impl Fn(T, T) -> T + Send + Sync + 'static) -> DataStream<T> {
        let reduce = Arc::new(reduce);
        self.apply("window-reduce", move || Reduced(reduce.clone()))
    }

    /// What a [`ProcessWindow`] makes of all records of each key and window. Each subtask works on a clone of it.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// # let clicks = env.from_collection(vec![("a".to_string(), 1i64)])
    /// #     .assign_timestamps(|click| Timestamp::from_millis(click.1)).key_by_ref(|click| &click.0);
    /// #[derive(Clone)]
    /// struct FirstAndLast;
    /// impl ProcessWindow for FirstAndLast {
    ///     type Key = String;
    ///     type In = (String, i64);
    ///     type Out = (String, i64, i64);
    ///     fn process(
    ///         &mut self,
    ///         user: &String,
    ///         _: TimeWindow,
    ///         clicks: Vec<(String, i64)>,
    ///         out: &mut Collector<(String, i64, i64)>,
    ///     ) -> Result<()> {
    ///         if let (Some(first), Some(last)) = (clicks.first(), clicks.last()) {
    ///             out.emit((user.clone(), first.1, last.1));
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// clicks.window(Session::with_gap(minutes(30))).process(FirstAndLast).discard();
    /// ```
    pub fn process<P>(self, function: P) -> DataStream<P::Out>
    where
        P: ProcessWindow<Key = S::Key, In = T> + Clone + Send + Sync,
    {
        self.apply("window-process", move || Collected(function.clone()))
    }

    /// How many records each key has in each window.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// # let env = StreamExecutionEnvironment::new();
    /// # let clicks = env.from_collection(vec![("a".to_string(), 1i64)])
    /// #     .assign_timestamps(|click| Timestamp::from_millis(click.1)).key_by_ref(|click| &click.0);
    /// let counts: DataStream<(String, u64)> = clicks.window(Sliding::of(hours(1), minutes(5))).count();
    /// # let _ = counts;
    /// ```
    pub fn count(self) -> DataStream<(S::Key, u64)> {
        self.apply("window-count", || Counted)
    }
}
