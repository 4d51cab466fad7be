//! Two streams as one: each record says where it came from.

use std::sync::Arc;

use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::{AnyBatch, Batch, Operator, Output};
use stillstream_state::Data;
use stillstream_types::{Result, Timestamp};

use crate::graph::Upstream;
use crate::operators::delegate::delegate_rest;

/// A record of one of two streams.
///
/// ```
/// use stillstream::join::Either;
/// let records = vec![Either::First(1), Either::Second("a"), Either::First(2)];
/// assert_eq!(Either::split(records), (vec![1, 2], vec!["a"]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Data)]
#[data(crate = stillstream_state)]
pub enum Either<T, U> {
    /// Of the stream that `join` was called on.
    First(T),
    /// Of the other one.
    Second(U),
}

impl<T, U> Either<T, U> {
    /// The records of each stream, in order.
    pub fn split(records: impl IntoIterator<Item = Self>) -> (Vec<T>, Vec<U>) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        records.into_iter().for_each(|record| match record {
            Self::First(record) => first.push(record),
            Self::Second(record) => second.push(record),
        });
        (first, second)
    }
}

/// Finds the key of a record of either stream.
#[derive(Debug)]
pub struct BothKeys<S1, S2> {
    first: Arc<S1>,
    second: Arc<S2>,
}

impl<S1, S2> BothKeys<S1, S2> {
    pub(super) fn new(first: Arc<S1>, second: Arc<S2>) -> Self {
        Self { first, second }
    }
}

impl<T, U, S1, S2> KeySelector<Either<T, U>> for BothKeys<S1, S2>
where
    S1: KeySelector<T>,
    S2: KeySelector<U, Key = S1::Key>,
{
    type Key = S1::Key;

    #[inline(always)]
    fn with_key<R>(&self, record: &Either<T, U>, f: impl FnOnce(&S1::Key) -> R) -> R {
        match record {
            Either::First(record) => self.first.with_key(record, f),
            Either::Second(record) => self.second.with_key(record, f),
        }
    }

    #[inline(always)]
    fn prefetch(&self, record: &Either<T, U>) {
        match record {
            Either::First(record) => self.first.prefetch(record),
            Either::Second(record) => self.second.prefetch(record),
        }
    }
}

/// The inputs of an operator for one stream that is given the records of several.
#[derive(Clone)]
pub(crate) struct Ports {
    pub upstreams: Arc<[Vec<Upstream>]>,
    pub merge: Merge,
}

/// Makes a batch of the operator's one type of one that came to a port. Times and hashes stay.
pub(crate) type Merge = Arc<dyn Fn(usize, AnyBatch) -> Result<AnyBatch> + Send + Sync>;

/// A batch of `T` as one of `V`.
fn as_batch_of<T: Data, V: Data>(batch: AnyBatch, f: impl Fn(T) -> V) -> Result<AnyBatch> {
    let Batch { values, times, hashes } = batch.take::<T>()?;
    Ok(Batch { values: values.into_iter().map(f).collect(), times, hashes }.into())
}

/// Port 0 has the first stream's records, every other one the second's.
pub(super) fn merge<T: Data, U: Data>() -> Merge {
    Arc::new(|port, batch| match port {
        0 => as_batch_of(batch, Either::<T, U>::First),
        _ => as_batch_of(batch, Either::<T, U>::Second),
    })
}

/// An operator for one stream, given the records of several.
pub(crate) struct Merged<O> {
    pub inner: O,
    pub merge: Merge,
}

impl<O: Operator> Operator for Merged<O> {
    fn process(&mut self, port: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let batch = (self.merge)(port, batch)?;
        self.inner.process(0, batch, out)
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        self.inner.watermark(watermark, out)
    }

    fn end_of_input(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        self.inner.end_of_input(now_ms, out)
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        self.inner.resume(out)
    }

    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        self.inner.processing_time(now_ms, out)
    }

    delegate_rest!(inner);
}
