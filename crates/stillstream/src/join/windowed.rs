//! The window join: the records of two streams that have the same key and lie in the same window.

use std::fmt;
use std::time::Duration;

use stillstream_runtime::exchange::KeySelector;
use stillstream_state::Data;
use stillstream_types::Result;

use super::two_inputs::{BothKeys, Either, Ports, merge};
use crate::collector::Collector;
use crate::data_stream::DataStream;
use crate::keyed_stream::KeyedStream;
use crate::side_output::OutputTag;
use crate::window::{
    DefaultTrigger, EvictingWindowedStream, Evictor, TimeWindow, Trigger, WindowAssigner, WindowedStream,
};

impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    /// Joins the stream with one of the same key, window by window. What follows says how:
    /// [`inner`](WindowJoin::inner), [`left_outer`](WindowJoin::left_outer),
    /// [`right_outer`](WindowJoin::right_outer), [`full_outer`](WindowJoin::full_outer), or
    /// [`co_group`](WindowJoin::co_group) for both sides as lists.
    ///
    /// Any windows will do, with triggers, evictors and allowed lateness, as [`window`](Self::window) has
    /// them. All records of a window are kept until it is forgotten.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// use stillstream::testing::ConnectedDriver;
    ///
    /// /// The clicks of each user in the ten minutes of each purchase.
    /// fn led_to(
    ///     clicks: &DataStream<(u64, String)>,
    ///     purchases: &DataStream<(u64, u32)>,
    /// ) -> DataStream<(String, u32)> {
    ///     clicks
    ///         .key_by(|click| click.0)
    ///         .join(&purchases.key_by(|purchase| purchase.0))
    ///         .window(Tumbling::of(minutes(10)))
    ///         .inner(|click, purchase| (click.1.clone(), purchase.1))
    ///         .uid("led-to")
    /// }
    ///
    /// let at = |minute| Timestamp::from_millis(0) + minutes(minute);
    /// let mut driver = ConnectedDriver::new(led_to);
    /// driver.record1_at((1, "shoes".into()), at(3))?;
    /// driver.record2_at((1, 80), at(9))?;
    /// driver.record2_at((1, 20), at(10))?;
    /// driver.watermark(at(20))?;
    /// assert_eq!(driver.output(), [("shoes".to_string(), 80)]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn join<U, S2>(&self, other: &KeyedStream<U, S2>) -> Joined<T, U, S, S2>
    where
        U: Data,
        S2: KeySelector<U, Key = S::Key>,
    {
        self.check_same(other.graph(), "join");
        let ports = Ports { upstreams: [self.upstreams(), other.upstreams()].into(), merge: merge::<T, U>() };
        let keys = BothKeys::new(self.selector(), other.selector());
        Joined { both: KeyedStream::of_ports(self.graph().clone(), ports, keys) }
    }
}

/// Two keyed streams to be joined, as [`KeyedStream::join`] makes it.
#[derive(Debug)]
pub struct Joined<T, U, S1, S2> {
    both: KeyedStream<Either<T, U>, BothKeys<S1, S2>>,
}

impl<T: Data, U: Data, S1: KeySelector<T>, S2: KeySelector<U, Key = S1::Key>> Joined<T, U, S1, S2> {
    /// Groups the records of both streams into windows; see [`KeyedStream::window`]. What looks at a record,
    /// such as the gap of a session, is given [`Either`].
    pub fn window(&self, assigner: impl WindowAssigner<Either<T, U>>) -> WindowJoin<T, U, S1, S2> {
        WindowJoin { windows: self.both.window(assigner) }
    }
}

/// Two streams in windows; `Tr` says when they fire. A pair has the event time of the last moment of its
/// window.
pub struct WindowJoin<T, U, S1, S2, Tr = DefaultTrigger> {
    windows: WindowedStream<Either<T, U>, BothKeys<S1, S2>, Tr>,
}

impl<T, U, S1, S2, Tr> fmt::Debug for WindowJoin<T, U, S1, S2, Tr> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WindowJoin").field(&self.windows).finish()
    }
}

/// The ways to end a join, for windows with and without an evictor.
macro_rules! joins {
    () => {
        /// Emits what `f` makes of each pair of records of one key and window. A record without a partner is
        /// dropped.
        pub fn inner<R: Data>(self, f: impl Fn(&T, &U) -> R + Send + Sync + 'static) -> DataStream<R> {
            self.pairs(move |first, second| first.zip(second).map(|(first, second)| f(first, second)))
        }

        /// Emits what `f` makes of each pair, and of each record of the first stream that has no partner in
        /// its window.
        pub fn left_outer<R: Data>(
            self,
            f: impl Fn(&T, Option<&U>) -> R + Send + Sync + 'static,
        ) -> DataStream<R> {
            self.pairs(move |first, second| first.map(|first| f(first, second)))
        }

        /// Emits what `f` makes of each pair, and of each record of the second stream that has no partner in
        /// its window.
        pub fn right_outer<R: Data>(
            self,
            f: impl Fn(Option<&T>, &U) -> R + Send + Sync + 'static,
        ) -> DataStream<R> {
            self.pairs(move |first, second| second.map(|second| f(first, second)))
        }

        /// Emits what `f` makes of each pair, and of each record of either stream that has no partner in its
        /// window: one of both is always there.
        pub fn full_outer<R: Data>(
            self,
            f: impl Fn(Option<&T>, Option<&U>) -> R + Send + Sync + 'static,
        ) -> DataStream<R> {
            self.pairs(move |first, second| Some(f(first, second)))
        }

        fn pairs<R: Data>(
            self,
            f: impl Fn(Option<&T>, Option<&U>) -> Option<R> + Send + Sync + 'static,
        ) -> DataStream<R> {
            let each_pair = move |first: Vec<T>, second: Vec<U>, out: &mut Collector<R>| {
                let mut emit = |first, second| f(first, second).into_iter().for_each(|pair| out.emit(pair));
                match (first.is_empty(), second.is_empty()) {
                    (true, _) => second.iter().for_each(|second| emit(None, Some(second))),
                    (_, true) => first.iter().for_each(|first| emit(Some(first), None)),
                    _ => first
                        .iter()
                        .for_each(|first| second.iter().for_each(|second| emit(Some(first), Some(second)))),
                }
            };
            let joined = self.windows.apply(move |_, _, records, out| {
                let (first, second) = Either::split(records);
                each_pair(first, second, out);
                Ok(())
            });
            joined.name("window_join")
        }

        /// Calls `f` with the records of both streams, in order, for each key and window that has records of
        /// at least one of them. Flink's `coGroup`.
        ///
        /// ```
        /// use stillstream::prelude::*;
        ///
        /// /// Stock that was counted less what was sold, for each hour.
        /// type Row = (u64, i64);
        /// fn left(counted: &DataStream<Row>, sold: &DataStream<Row>) -> DataStream<Row> {
        ///     counted
        ///         .key_by(|row| row.0)
        ///         .join(&sold.key_by(|row| row.0))
        ///         .window(Tumbling::of(hours(1)))
        ///         .co_group(|item, _window, counted, sold, out| {
        ///             let sum = |rows: Vec<(u64, i64)>| rows.iter().map(|row| row.1).sum::<i64>();
        ///             out.emit((*item, sum(counted) - sum(sold)));
        ///             Ok(())
        ///         })
        /// }
        /// # let _ = left;
        /// ```
        pub fn co_group<R: Data>(
            self,
            f: impl Fn(&S1::Key, TimeWindow, Vec<T>, Vec<U>, &mut Collector<R>) -> Result<()>
            + Send
            + Sync
            + 'static,
        ) -> DataStream<R> {
            let grouped = self.windows.apply(move |key, window, records, out| {
                let (first, second) = Either::split(records);
                f(key, window, first, second, out)
            });
            grouped.name("co_group")
        }
    };
}

impl<T, U, S1, S2, Tr> WindowJoin<T, U, S1, S2, Tr>
where
    T: Data,
    U: Data,
    S1: KeySelector<T>,
    S2: KeySelector<U, Key = S1::Key>,
    Tr: Trigger<Either<T, U>>,
{
    /// Lets `trigger` say when a window fires; see [`WindowedStream::trigger`].
    pub fn trigger<Other: Trigger<Either<T, U>>>(self, trigger: Other) -> WindowJoin<T, U, S1, S2, Other> {
        WindowJoin { windows: self.windows.trigger(trigger) }
    }

    /// Lets `evictor` throw records out of a window when it fires; see [`WindowedStream::evictor`].
    pub fn evictor<E: Evictor<Either<T, U>>>(self, evictor: E) -> EvictingWindowJoin<T, U, S1, S2, Tr, E> {
        EvictingWindowJoin { windows: self.windows.evictor(evictor) }
    }

    /// Keeps each window for this long after it has fired; see [`WindowedStream::allowed_lateness`]. All
    /// pairs of the window come again when it fires again.
    pub fn allowed_lateness(self, lateness: Duration) -> Self {
        Self { windows: self.windows.allowed_lateness(lateness) }
    }

    /// Sends records of either stream that come too late into a side output; see
    /// [`WindowedStream::late_output`].
    pub fn late_output(self, tag: &OutputTag<Either<T, U>>) -> Self {
        Self { windows: self.windows.late_output(tag) }
    }

    /// The windows as those of one stream: for a [`ProcessWindow`](crate::window::ProcessWindow) with state,
    /// or an aggregate.
    pub fn as_windows(self) -> WindowedStream<Either<T, U>, BothKeys<S1, S2>, Tr> {
        self.windows
    }

    joins!();
}

/// Two streams in windows with an evictor, as [`WindowJoin::evictor`] makes it.
pub struct EvictingWindowJoin<T, U, S1, S2, Tr, E> {
    windows: EvictingWindowedStream<Either<T, U>, BothKeys<S1, S2>, Tr, E>,
}

impl<T, U, S1, S2, Tr, E> fmt::Debug for EvictingWindowJoin<T, U, S1, S2, Tr, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EvictingWindowJoin").field(&self.windows).finish()
    }
}

impl<T, U, S1, S2, Tr, E> EvictingWindowJoin<T, U, S1, S2, Tr, E>
where
    T: Data,
    U: Data,
    S1: KeySelector<T>,
    S2: KeySelector<U, Key = S1::Key>,
    Tr: Trigger<Either<T, U>>,
    E: Evictor<Either<T, U>>,
{
    joins!();
}
