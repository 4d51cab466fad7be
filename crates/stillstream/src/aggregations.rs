//! Sums and extremes of keyed and windowed streams, and aggregates that can fail.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::plan::NodeBody;
use stillstream_runtime::{AnyBatch, Operator, Output};
use stillstream_state::{Aggregate, Data};
use stillstream_types::{Error, ErrorKind, Result, Timestamp};

use crate::data_stream::DataStream;
use crate::keyed_stream::KeyedStream;
use crate::operators::delegate::delegate_rest;
use crate::operators::keyed_value::Step;
use crate::window::{Trigger, WindowedStream};

/// What [`sum`](KeyedStream::sum) adds up. A sum that the type cannot hold fails the job; it does not wrap
/// around.
///
/// ```
/// use stillstream::Summable;
/// assert_eq!(250u8.plus(5), Some(255));
/// assert_eq!(250u8.plus(6), None);
/// ```
pub trait Summable: Data {
    /// The sum of nothing.
    const ZERO: Self;
    /// The sum of both, if the type can hold it.
    fn plus(self, other: Self) -> Option<Self>;
}

macro_rules! summable {
    ($($int:ty)*; $($float:ty)*) => {
        $(impl Summable for $int {
            const ZERO: Self = 0;
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
        })*
        $(impl Summable for $float {
            const ZERO: Self = 0.0;
            fn plus(self, other: Self) -> Option<Self> {
                Some(self + other)
            }
        })*
    };
}

summable!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128; f32 f64);

impl Summable for Duration {
    const ZERO: Self = Self::ZERO;
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
}

#[cold]
fn too_large<V>() -> Error {
    let message = format!(
        "a sum is more than `{}` can hold: add up a larger type, as in `.sum(|record| record.amount as i128)`",
        std::any::type_name::<V>()
    );
    Error::new(ErrorKind::User, message)
}

/// An aggregate whose every step can fail: what [`Aggregate`] is, with errors. An error fails the job, which
/// then restarts by its restart strategy.
///
/// ```
/// use stillstream::prelude::*;
///
/// /// Adds up amounts that are written as text.
/// struct Total;
/// impl TryAggregate for Total {
///     type In = (String, String);
///     type Acc = u64;
///     type Out = u64;
///     fn create(&self) -> u64 {
///         0
///     }
///     fn add(&self, acc: &mut u64, (_, amount): Self::In) -> Result<()> {
///         *acc += amount.parse::<u64>()?;
///         Ok(())
///     }
///     fn merge(&self, acc: &mut u64, other: u64) -> Result<()> {
///         *acc += other;
///         Ok(())
///     }
///     fn result(&self, acc: &u64) -> Result<u64> {
///         Ok(*acc)
///     }
/// }
///
/// fn totals(sales: &DataStream<(String, String)>) -> DataStream<u64> {
///     sales.key_by_ref(|sale| &sale.0).window(Tumbling::of(days(1))).try_aggregate(Total).uid("totals")
/// }
/// # let _ = totals;
/// ```
pub trait TryAggregate: Send + Sync + 'static {
    /// What is added.
    type In: Data;
    /// What is kept.
    type Acc: Data;
    /// What is read.
    type Out: Data;

    /// The accumulator of nothing.
    fn create(&self) -> Self::Acc;
    /// Takes one input in.
    ///
    /// # Errors
    /// An error fails the job.
    fn add(&self, acc: &mut Self::Acc, value: Self::In) -> Result<()>;
    /// Takes another accumulator in: windows that merge need it.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    fn merge(&self, acc: &mut Self::Acc, other: Self::Acc) -> Result<()>;
    /// What the accumulator stands for.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    fn result(&self, acc: &Self::Acc) -> Result<Self::Out>;
}

/// A fold of one value for each key, whose steps can fail.
struct TryStep<I, F>(I, F);

impl<T, V, U, I, F> Step<T, V, Result<U>> for TryStep<I, F>
where
    I: Fn() -> V + Send + Sync + 'static,
    F: Fn(&mut V, T) -> Result<U> + Send + Sync + 'static,
{
    #[inline(always)]
    fn init(&self) -> V {
        (self.0)()
    }
    #[inline(always)]
    fn step(&self, value: &mut V, record: T) -> Result<U> {
        (self.1)(value, record)
    }
}

/// Whether `new` takes the place of `old`: an equal one does not, nor one that cannot be compared.
type Better<V> = fn(&V, &V) -> bool;

fn less<V: PartialOrd>(new: &V, old: &V) -> bool {
    new < old
}

fn more<V: PartialOrd>(new: &V, old: &V) -> bool {
    new > old
}

/// The sum of a number of each record, the least or greatest one so far, or the record that has it. Each
/// record in is one out.
impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    /// Adds up a number of the records of each key, and emits key and sum after each record. A sum that its
    /// type cannot hold fails the job.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let env = StreamExecutionEnvironment::new();
    /// let sales = env.from_collection(vec![("a".to_string(), 3u64), ("a".to_string(), 4)]);
    /// let sums = sales.key_by_ref(|sale| &sale.0).sum(|sale| sale.1).uid("sums").collect();
    /// env.execute("sums")?;
    /// assert_eq!(sums.items(), [("a".to_string(), 3), ("a".to_string(), 7)]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn sum<V: Summable>(&self, f: impl Fn(&T) -> V + Send + Sync + 'static) -> DataStream<(S::Key, V)> {
        let selector = self.selector();
        let add = move |sum: &mut V, record: T| {
            *sum = sum.clone().plus(f(&record)).ok_or_else(too_large::<V>)?;
            Ok((selector.key(&record), sum.clone()))
        };
        self.by_fallible_value("sum", "sum", TryStep(|| V::ZERO, add))
    }

    /// The least value of the records of each key so far: key and value after each record. One that cannot be
    /// compared, as NaN, is passed over, unless it is the first.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// fn cheapest(offers: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     offers.key_by_ref(|offer| &offer.0).min(|offer| offer.1).uid("cheapest")
    /// }
    /// # let _ = cheapest;
    /// ```
    pub fn min<V: Data + PartialOrd>(
        &self,
        f: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> DataStream<(S::Key, V)> {
        self.extreme("min", f, less)
    }

    /// The greatest value of the records of each key so far; as [`min`](Self::min).
    pub fn max<V: Data + PartialOrd>(
        &self,
        f: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> DataStream<(S::Key, V)> {
        self.extreme("max", f, more)
    }

    /// The record with the least value of each key so far, after each record; the first of those that have
    /// it.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// fn cheapest(offers: &DataStream<(String, u64, String)>) -> DataStream<(String, u64, String)> {
    ///     offers.key_by_ref(|offer| &offer.0).min_by(|offer| offer.1).uid("cheapest")
    /// }
    /// # let _ = cheapest;
    /// ```
    pub fn min_by<V: PartialOrd>(&self, f: impl Fn(&T) -> V + Send + Sync + 'static) -> DataStream<T> {
        self.reduce(move |old, new| if less(&f(&new), &f(&old)) { new } else { old }).name("min_by")
    }

    /// The record with the greatest value of each key so far, after each record; the first of those that have
    /// it.
    pub fn max_by<V: PartialOrd>(&self, f: impl Fn(&T) -> V + Send + Sync + 'static) -> DataStream<T> {
        self.reduce(move |old, new| if more(&f(&new), &f(&old)) { new } else { old }).name("max_by")
    }

    fn extreme<V: Data>(
        &self,
        name: &str,
        f: impl Fn(&T) -> V + Send + Sync + 'static,
        better: Better<V>,
    ) -> DataStream<(S::Key, V)> {
        let selector = self.selector();
        let step = move |best: &mut Option<V>, record: T| {
            let (key, new) = (selector.key(&record), f(&record));
            let best = match best.take() {
                Some(old) if !better(&new, &old) => best.insert(old),
                _ => best.insert(new),
            };
            Ok((key, best.clone()))
        };
        self.by_fallible_value(name, name, TryStep(|| None, step))
    }

    /// [`map_with_state`](Self::map_with_state) with a function that can fail. An error fails the job, which
    /// then restarts by its restart strategy.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// fn totals(sales: &DataStream<(String, String)>) -> DataStream<(String, u64)> {
    ///     sales
    ///         .key_by_ref(|sale| &sale.0)
    ///         .try_map_with_state("total", |total: &mut u64, (shop, amount)| {
    ///             *total += amount.parse::<u64>()?;
    ///             Ok((shop, *total))
    ///         })
    ///         .uid("totals")
    /// }
    /// # let _ = totals;
    /// ```
    pub fn try_map_with_state<V: Data + Default, U: Data>(
        &self,
        state: &str,
        f: impl Fn(&mut V, T) -> Result<U> + Send + Sync + 'static,
    ) -> DataStream<U> {
        self.by_fallible_value("map_with_state", state, TryStep(V::default, f))
    }

    /// [`reduce`](Self::reduce) with a function that can fail.
    pub fn try_reduce(&self, f: impl Fn(T, T) -> Result<T> + Send + Sync + 'static) -> DataStream<T> {
        let step = move |value: &mut Option<T>, record: T| {
            let next = match value.take() {
                Some(old) => f(old, record)?,
                None => record,
            };
            *value = Some(next.clone());
            Ok(next)
        };
        self.by_fallible_value("reduce", "reduced", TryStep(|| None, step))
    }

    /// [`aggregate`](Self::aggregate) with an aggregate that can fail; see [`TryAggregate`].
    pub fn try_aggregate<A: TryAggregate<In = T>>(&self, aggregate: A) -> DataStream<A::Out> {
        let aggregate = Arc::new(aggregate);
        let created = aggregate.clone();
        let step = move |acc: &mut A::Acc, record: T| {
            aggregate.add(acc, record)?;
            aggregate.result(acc)
        };
        self.by_fallible_value("aggregate", "accumulator", TryStep(move || created.create(), step))
    }
}

/// Sums and extremes of windows. They keep one value, or one record, for each key and window.
impl<T: Data, S: KeySelector<T>, Tr: Trigger<T>> WindowedStream<T, S, Tr> {
    /// Adds up a number of the records of each key and window. A sum that its type cannot hold fails the job.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// fn per_day(sales: &DataStream<(String, u64)>) -> DataStream<(String, u64)> {
    ///     sales.key_by_ref(|sale| &sale.0).window(Tumbling::of(days(1))).sum(|sale| sale.1).uid("per-day")
    /// }
    /// # let _ = per_day;
    /// ```
    pub fn sum<V: Summable>(self, f: impl Fn(&T) -> V + Send + Sync + 'static) -> DataStream<(S::Key, V)> {
        let sum = Sum { f, types: PhantomData };
        self.try_aggregate_with(sum, |key, _, sum| (key.clone(), sum)).name("window.sum")
    }

    /// The least value of the records of each key and window. One that cannot be compared, as NaN, is passed
    /// over, unless it is the first.
    pub fn min<V: Data + PartialOrd>(
        self,
        f: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> DataStream<(S::Key, V)> {
        self.extreme(f, less).name("window.min")
    }

    /// The greatest value of the records of each key and window. One that cannot be compared, as NaN, is
    /// passed over, unless it is the first.
    pub fn max<V: Data + PartialOrd>(
        self,
        f: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> DataStream<(S::Key, V)> {
        self.extreme(f, more).name("window.max")
    }

    fn extreme<V: Data>(
        self,
        f: impl Fn(&T) -> V + Send + Sync + 'static,
        better: Better<V>,
    ) -> DataStream<(S::Key, V)> {
        let extreme = Extreme { f, better, types: PhantomData };
        self.aggregate_if(Noting(extreme), |key, _, value| Some((key.clone(), value??)))
    }

    /// The record with the least value of each key and window; the first of those that have it.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// fn cheapest(offers: &DataStream<(String, u64, String)>) -> DataStream<(String, u64, String)> {
    ///     offers.key_by_ref(|offer| &offer.0).window(Tumbling::of(days(1))).min_by(|offer| offer.1)
    /// }
    /// # let _ = cheapest;
    /// ```
    pub fn min_by<V: PartialOrd>(self, f: impl Fn(&T) -> V + Send + Sync + 'static) -> DataStream<T> {
        self.reduce(move |old, new| if less(&f(&new), &f(&old)) { new } else { old }).name("window.min_by")
    }

    /// The record with the greatest value of each key and window; the first of those that have it.
    pub fn max_by<V: PartialOrd>(self, f: impl Fn(&T) -> V + Send + Sync + 'static) -> DataStream<T> {
        self.reduce(move |old, new| if more(&f(&new), &f(&old)) { new } else { old }).name("window.max_by")
    }

    /// [`aggregate`](Self::aggregate) with an aggregate that can fail; see [`TryAggregate`].
    pub fn try_aggregate<A: TryAggregate<In = T>>(self, aggregate: A) -> DataStream<A::Out> {
        self.try_aggregate_with(aggregate, |_, _, out| out)
    }

    /// [`aggregate_with`](Self::aggregate_with) with an aggregate that can fail; see [`TryAggregate`].
    pub fn try_aggregate_with<A, R: Data>(
        self,
        aggregate: A,
        f: impl Fn(&S::Key, crate::window::TimeWindow, A::Out) -> R + Send + Sync + 'static,
    ) -> DataStream<R>
    where
        A: TryAggregate<In = T>,
    {
        let results = self.aggregate_if(Noting(aggregate), move |key, window, out: Option<A::Out>| {
            out.map(|out| f(key, window, out))
        });
        results.change("try_aggregate", |node| {
            if let NodeBody::Operator(make) = &node.body {
                let make = make.clone();
                node.body = NodeBody::Operator(Arc::new(move || Ok(Box::new(Failing { inner: make()? }))));
            }
        })
    }
}

/// The sum of what `f` makes of each record.
struct Sum<T, V, F> {
    f: F,
    types: PhantomData<fn(T) -> V>,
}

impl<T: Data, V: Summable, F: Fn(&T) -> V + Send + Sync + 'static> TryAggregate for Sum<T, V, F> {
    type In = T;
    type Acc = V;
    type Out = V;

    fn create(&self) -> V {
        V::ZERO
    }
    fn add(&self, acc: &mut V, value: T) -> Result<()> {
        self.merge(acc, (self.f)(&value))
    }
    fn merge(&self, acc: &mut V, other: V) -> Result<()> {
        *acc = acc.clone().plus(other).ok_or_else(too_large::<V>)?;
        Ok(())
    }
    fn result(&self, acc: &V) -> Result<V> {
        Ok(acc.clone())
    }
}

/// The least or greatest of what `f` makes of each record.
struct Extreme<T, V, F> {
    f: F,
    better: Better<V>,
    types: PhantomData<fn(T)>,
}

impl<T: Data, V: Data, F: Fn(&T) -> V + Send + Sync + 'static> TryAggregate for Extreme<T, V, F> {
    type In = T;
    type Acc = Option<V>;
    type Out = Option<V>;

    fn create(&self) -> Option<V> {
        None
    }
    fn add(&self, acc: &mut Option<V>, value: T) -> Result<()> {
        self.merge(acc, Some((self.f)(&value)))
    }
    fn merge(&self, acc: &mut Option<V>, other: Option<V>) -> Result<()> {
        if let Some(new) = other
            && acc.as_ref().is_none_or(|old| (self.better)(&new, old))
        {
            *acc = Some(new);
        }
        Ok(())
    }
    fn result(&self, acc: &Option<V>) -> Result<Option<V>> {
        Ok(acc.clone())
    }
}

thread_local! {
    /// The first error of an aggregate during the present call of its operator, which a table of state has no
    /// way to return.
    static FAILED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Notes the errors of an aggregate for [`Failing`], which runs around it.
struct Noting<A>(A);

fn note<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            FAILED.with_borrow_mut(|failed| _ = failed.get_or_insert(error));
            None
        }
    }
}

impl<A: TryAggregate> Aggregate for Noting<A> {
    type In = A::In;
    type Acc = A::Acc;
    type Out = Option<A::Out>;

    fn create(&self) -> A::Acc {
        self.0.create()
    }
    fn add(&self, acc: &mut A::Acc, value: A::In) {
        note(self.0.add(acc, value));
    }
    fn merge(&self, acc: &mut A::Acc, other: A::Acc) {
        note(self.0.merge(acc, other));
    }
    fn result(&self, acc: &A::Acc) -> Option<A::Out> {
        note(self.0.result(acc))
    }
}

/// Returns what aggregates have noted during a call of the operator: the job fails before anything that
/// follows from it is kept.
struct Failing {
    inner: Box<dyn Operator>,
}

fn failed<R>(result: Result<R>) -> Result<R> {
    match FAILED.take() {
        Some(error) => Err(error),
        None => result,
    }
}

impl Operator for Failing {
    fn process(&mut self, port: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        failed(self.inner.process(port, batch, out))
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        failed(self.inner.watermark(watermark, out))
    }

    fn end_of_input(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        failed(self.inner.end_of_input(now_ms, out))
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        failed(self.inner.resume(out))
    }

    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        failed(self.inner.processing_time(now_ms, out))
    }

    delegate_rest!(inner);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::testing::StreamDriver;

    type Row = (u64, i32, String);

    fn rows() -> Vec<Row> {
        [(1, 5, "a"), (2, 7, "b"), (1, 3, "c"), (1, 3, "d"), (1, 9, "e")]
            .map(|(key, value, name)| (key, value, name.to_string()))
            .to_vec()
    }

    fn run<R: Data>(build: impl FnOnce(&DataStream<Row>) -> DataStream<R>) -> Vec<R> {
        let mut driver = StreamDriver::new(build);
        for (time, row) in rows().into_iter().enumerate() {
            driver.record_at(row, Timestamp::from_millis(time as i64)).unwrap();
        }
        driver.end_input().unwrap();
        driver.output()
    }

    #[test]
    fn sums_and_extremes_of_a_key_come_after_each_record() {
        assert_eq!(
            run(|rows| rows.key_by(|row| row.0).sum(|row| row.1)),
            [(1, 5), (2, 7), (1, 8), (1, 11), (1, 20)]
        );
        assert_eq!(
            run(|rows| rows.key_by(|row| row.0).min(|row| row.1)),
            [(1, 5), (2, 7), (1, 3), (1, 3), (1, 3)]
        );
        assert_eq!(
            run(|rows| rows.key_by(|row| row.0).max(|row| row.1)),
            [(1, 5), (2, 7), (1, 5), (1, 5), (1, 9)]
        );
        let names = |rows: Vec<Row>| rows.into_iter().map(|row| row.2).collect::<Vec<_>>();
        assert_eq!(
            names(run(|rows| rows.key_by(|row| row.0).min_by(|row| row.1))),
            ["a", "b", "c", "c", "c"]
        );
        assert_eq!(
            names(run(|rows| rows.key_by(|row| row.0).max_by(|row| row.1))),
            ["a", "b", "a", "a", "e"]
        );
    }

    #[test]
    fn sums_and_records_with_extremes_of_a_window_come_when_it_fires() {
        let windows = |rows: &DataStream<Row>| rows.key_by(|row| row.0).window(Tumbling::of(seconds(1)));
        let mut sums = run(|rows| windows(rows).sum(|row| row.1));
        sums.sort_unstable();
        assert_eq!(sums, [(1, 20), (2, 7)]);
        let mut least = run(|rows| windows(rows).min_by(|row| row.1));
        least.sort_unstable();
        assert_eq!(least, [(1, 3, "c".to_string()), (2, 7, "b".to_string())]);
        let mut most = run(|rows| windows(rows).max_by(|row| row.1));
        most.sort_unstable();
        assert_eq!(most, [(1, 9, "e".to_string()), (2, 7, "b".to_string())]);
    }

    #[test]
    fn extremes_of_a_window_are_key_and_value() {
        let env = StreamExecutionEnvironment::new();
        let by_time =
            WatermarkStrategy::monotonic().timestamp(|row: &Row| Timestamp::from_millis(row.1.into()));
        let timed = env.from_collection(rows()).watermarks(by_time);
        let windows = timed.key_by(|row| row.0).window(GlobalWindows::create_with_end_of_stream_trigger());
        let (least, most) = (windows.clone().min(|row| row.1).collect(), windows.max(|row| row.1).collect());
        env.execute("extremes").unwrap();
        assert_eq!((least.sorted(), most.sorted()), (vec![(1, 3), (2, 7)], vec![(1, 9), (2, 7)]));
    }

    #[test]
    fn a_sum_that_its_type_cannot_hold_fails_the_job_and_says_so() {
        let windows = |rows: &DataStream<u8>| rows.key_by(|_| 0u64).window(Tumbling::of(seconds(1)));
        let mut keyed = StreamDriver::new(|rows: &DataStream<u8>| rows.key_by(|_| 0u64).sum(|row| *row));
        let mut windowed = StreamDriver::new(|rows: &DataStream<u8>| windows(rows).sum(|row| *row));
        for driver in [&mut keyed, &mut windowed] {
            driver.record_at(200, Timestamp::from_millis(1)).unwrap();
            let text = driver.record_at(56, Timestamp::from_millis(2)).unwrap_err().to_string();
            assert!(text.contains("`u8`"), "{text}");
        }
    }

    /// Adds up text.
    struct Total;

    impl TryAggregate for Total {
        type In = String;
        type Acc = u64;
        type Out = u64;

        fn create(&self) -> u64 {
            0
        }
        fn add(&self, acc: &mut u64, value: String) -> Result<()> {
            *acc += value.parse::<u64>()?;
            Ok(())
        }
        fn merge(&self, acc: &mut u64, other: u64) -> Result<()> {
            match other {
                13 => Err(Error::msg("13 is not merged")),
                _ => {
                    *acc += other;
                    Ok(())
                }
            }
        }
        fn result(&self, acc: &u64) -> Result<u64> {
            match acc {
                99 => Err(Error::msg("99 is no result")),
                _ => Ok(*acc),
            }
        }
    }

    #[test]
    fn each_step_of_an_aggregate_can_fail_the_job_in_every_kind_of_window() {
        let at = Timestamp::from_millis;
        let keyed = |rows: &DataStream<String>| rows.key_by(|_| 0u64);
        type Build = fn(&DataStream<String>) -> DataStream<u64>;
        let all: [Build; 4] = [
            |rows| rows.key_by(|_| 0u64).window(Tumbling::of(seconds(1))).try_aggregate(Total),
            |rows| rows.key_by(|_| 0u64).window(Session::with_gap(seconds(1))).try_aggregate(Total),
            |rows| rows.key_by(|_| 0u64).count_window(3).try_aggregate(Total),
            |rows| rows.key_by(|_| 0u64).try_aggregate(Total),
        ];
        for (n, build) in all.into_iter().enumerate() {
            let mut driver = StreamDriver::new(build);
            driver.record_at("3".into(), at(1)).unwrap();
            let text = driver.record_at("x".into(), at(2)).unwrap_err().to_string();
            assert!(text.contains("invalid digit"), "{n}: {text}");
        }
        let mut result =
            StreamDriver::new(|rows| keyed(rows).window(Tumbling::of(seconds(1))).try_aggregate(Total));
        result.record_at("99".into(), at(1)).unwrap();
        let text = result.watermark(at(1_000)).unwrap_err().to_string();
        assert!(text.contains("99 is no result"), "{text}");
        let mut merged =
            StreamDriver::new(|rows| keyed(rows).window(Session::with_gap(seconds(1))).try_aggregate(Total));
        for (value, time) in [("13", 0), ("13", 1_900)] {
            merged.record_at(value.into(), at(time)).unwrap();
        }
        let text = merged.record_at("1".into(), at(950)).unwrap_err().to_string();
        assert!(text.contains("13 is not merged"), "{text}");
    }

    #[test]
    fn state_and_folds_of_a_key_can_fail_the_job() {
        let parse = |sum: &mut u64, text: String| {
            *sum += text.parse::<u64>()?;
            Ok(*sum)
        };
        let mut driver = StreamDriver::new(move |rows: &DataStream<String>| {
            rows.key_by(|_| 0u64).try_map_with_state("sum", parse)
        });
        driver.record("1".into()).unwrap();
        driver.record("2".into()).unwrap();
        assert_eq!(driver.output(), [1, 3]);
        driver.record("x".into()).unwrap_err();
        let mut driver = StreamDriver::new(|rows: &DataStream<u8>| {
            rows.key_by(|_| 0u64).try_reduce(|a, b| a.checked_add(b).ok_or_else(|| Error::msg("too much")))
        });
        driver.record(200).unwrap();
        let text = driver.record(200).unwrap_err().to_string();
        assert!(text.contains("too much"), "{text}");
    }
}
