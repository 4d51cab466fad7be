//! What is kept of a window, and what comes out of it.

use std::sync::Arc;

use stillstream_state::{Aggregate, Data, Key};
use stillstream_types::Result;

use super::TimeWindow;
use crate::collector::Collector;

/// A function of all records of a window (Flink's `ProcessWindowFunction`). All records are kept until the window
/// fires: where a running result is enough, an [`Aggregate`] needs far less memory.
///
/// ```
/// use stillstream::prelude::*;
///
/// /// The median of the values of each key.
/// #[derive(Clone)]
/// struct Median;
///
/// impl ProcessWindow for Median {
///     type Key = String;
///     type In = (String, u64);
///     type Out = (String, u64);
///
///     fn process(
///         &mut self,
///         key: &String,
///         _window: TimeWindow,
///         mut records: Vec<(String, u64)>,
///         out: &mut Collector<(String, u64)>,
///     ) -> Result<()> {
///         records.sort_by_key(|record| record.1);
///         out.emit((key.clone(), records[records.len() / 2].1));
///         Ok(())
///     }
/// }
/// ```
pub trait ProcessWindow: 'static {
    /// What the stream is keyed by.
    type Key: Key;
    /// What comes in.
    type In: Data;
    /// What goes out.
    type Out: Data;

    /// One key's records of one window, in the order in which they came. There is at least one.
    fn process(
        &mut self,
        key: &Self::Key,
        window: TimeWindow,
        records: Vec<Self::In>,
        out: &mut Collector<Self::Out>,
    ) -> Result<()>;
}

/// One parallel instance of what is done with windows.
pub(crate) trait WindowLogic<K, T>: 'static {
    type Acc: Data;
    type Out: Data;
    fn create(&self) -> Self::Acc;
    fn add(&self, acc: &mut Self::Acc, record: T);
    fn merge(&self, acc: &mut Self::Acc, other: Self::Acc);
    fn fire(
        &mut self,
        key: &K,
        window: TimeWindow,
        acc: Self::Acc,
        out: &mut Collector<Self::Out>,
    ) -> Result<()>;
}

/// An aggregate, and a closure from its result to a record.
pub(crate) struct Aggregated<A, F> {
    pub aggregate: Arc<A>,
    pub output: Arc<F>,
}

impl<K, U, A, F> WindowLogic<K, A::In> for Aggregated<A, F>
where
    A: Aggregate,
    U: Data,
    F: Fn(&K, TimeWindow, A::Out) -> U + 'static,
{
    type Acc = A::Acc;
    type Out = U;
    #[inline(always)]
    fn create(&self) -> A::Acc {
        self.aggregate.create()
    }
    #[inline(always)]
    fn add(&self, acc: &mut A::Acc, record: A::In) {
        self.aggregate.add(acc, record);
    }
    fn merge(&self, acc: &mut A::Acc, other: A::Acc) {
        self.aggregate.merge(acc, other);
    }
    #[inline]
    fn fire(&mut self, key: &K, window: TimeWindow, acc: A::Acc, out: &mut Collector<U>) -> Result<()> {
        out.emit((self.output)(key, window, self.aggregate.result(&acc)));
        Ok(())
    }
}

/// Two records into one.
pub(crate) struct Reduced<F>(pub Arc<F>);

impl<K, T: Data, F: Fn(T, T) -> T + 'static> WindowLogic<K, T> for Reduced<F> {
    type Acc = Option<T>;
    type Out = T;
    #[inline(always)]
    fn create(&self) -> Option<T> {
        None
    }
    #[inline(always)]
    fn add(&self, acc: &mut Option<T>, record: T) {
        *acc = Some(match acc.take() {
            Some(old) => (self.0)(old, record),
            None => record,
        });
    }
    fn merge(&self, acc: &mut Option<T>, other: Option<T>) {
        if let Some(other) = other {
            WindowLogic::<K, T>::add(self, acc, other);
        }
    }
    fn fire(&mut self, _: &K, _: TimeWindow, acc: Option<T>, out: &mut Collector<T>) -> Result<()> {
        acc.into_iter().for_each(|record| out.emit(record));
        Ok(())
    }
}

/// All records.
pub(crate) struct Collected<P>(pub P);

impl<P: ProcessWindow> WindowLogic<P::Key, P::In> for Collected<P> {
    type Acc = Vec<P::In>;
    type Out = P::Out;
    fn create(&self) -> Vec<P::In> {
        Vec::new()
    }
    fn add(&self, acc: &mut Vec<P::In>, record: P::In) {
        acc.push(record);
    }
    fn merge(&self, acc: &mut Vec<P::In>, mut other: Vec<P::In>) {
        acc.append(&mut other);
    }
    fn fire(
        &mut self,
        key: &P::Key,
        window: TimeWindow,
        acc: Vec<P::In>,
        out: &mut Collector<P::Out>,
    ) -> Result<()> {
        self.0.process(key, window, acc, out)
    }
}

/// How many records there are.
pub(crate) struct Counted;

impl<K: Key, T: 'static> WindowLogic<K, T> for Counted {
    type Acc = u64;
    type Out = (K, u64);
    #[inline(always)]
    fn create(&self) -> u64 {
        0
    }
    #[inline(always)]
    fn add(&self, acc: &mut u64, _: T) {
        *acc += 1;
    }
    fn merge(&self, acc: &mut u64, other: u64) {
        *acc += other;
    }
    #[inline]
    fn fire(&mut self, key: &K, _: TimeWindow, acc: u64, out: &mut Collector<(K, u64)>) -> Result<()> {
        out.emit((key.clone(), acc));
        Ok(())
    }
}
