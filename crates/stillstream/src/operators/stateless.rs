//! Operators that look at one record at a time and keep nothing.

use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_runtime::{AnyBatch, Batch, Operator, Output};
use stillstream_state::Data;
use stillstream_types::Result;

use crate::collector::Collector;

macro_rules! operator {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* }) => {
        $(#[$doc])*
        pub(crate) struct $name<T, U, F> {
            f: Arc<F>,
            $($field: $type,)*
            types: PhantomData<fn(T) -> U>,
        }

        impl<T, U, F> $name<T, U, F> {
            pub fn new(f: Arc<F>) -> Self {
                Self { f, $($field: Default::default(),)* types: PhantomData }
            }
        }
    };
}

operator!(
    /// Works in place where both types have the same layout; event times stay in their column.
    Map {}
);
operator!(
    /// [`Map`] with a function that can fail.
    TryMap {}
);
operator!(
    /// Any number of records for each.
    FlatMap { out: Collector<U> }
);
operator!(
    /// [`FlatMap`] with a function that can fail.
    TryFlatMap { out: Collector<U> }
);

impl<T: Data, U: Data, F: Fn(T) -> U + Send + Sync + 'static> Operator for Map<T, U, F> {
    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let Batch { values, times, .. } = batch.take::<T>()?;
        let values = values.into_iter().map(&*self.f).collect();
        out.batch(Batch::timed(values, times));
        Ok(())
    }
}

impl<T: Data, U: Data, F: Fn(T) -> Result<U> + Send + Sync + 'static> Operator for TryMap<T, U, F> {
    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let Batch { values, times, .. } = batch.take::<T>()?;
        let values = values.into_iter().map(&*self.f).collect::<Result<_>>()?;
        out.batch(Batch::timed(values, times));
        Ok(())
    }
}

/// Keeps some records, with their event times.
pub(crate) struct Filter<T, F> {
    f: Arc<F>,
    types: PhantomData<fn(T)>,
}

impl<T, F> Filter<T, F> {
    pub fn new(f: Arc<F>) -> Self {
        Self { f, types: PhantomData }
    }
}

impl<T: Data, F: Fn(&T) -> bool + Send + Sync + 'static> Operator for Filter<T, F> {
    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let Batch { mut values, mut times, .. } = batch.take::<T>()?;
        if times.is_empty() {
            values.retain(&*self.f);
        } else {
            let (mut at, mut kept) = (0, 0);
            values.retain(|value| {
                let keep = (self.f)(value);
                times[kept] = times[at];
                at += 1;
                kept += usize::from(keep);
                keep
            });
            times.truncate(kept);
        }
        out.batch(Batch::timed(values, times));
        Ok(())
    }
}

impl<T, U, F> Operator for FlatMap<T, U, F>
where
    T: Data,
    U: Data,
    F: Fn(T, &mut Collector<U>) + Send + Sync + 'static,
{
    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let Batch { values, times, .. } = batch.take::<T>()?;
        self.out.reserve(values.len());
        for (i, value) in values.into_iter().enumerate() {
            self.out.set_time(times.get(i).copied());
            (self.f)(value, &mut self.out);
        }
        self.out.flush(out);
        Ok(())
    }
}

impl<T, U, F> Operator for TryFlatMap<T, U, F>
where
    T: Data,
    U: Data,
    F: Fn(T, &mut Collector<U>) -> Result<()> + Send + Sync + 'static,
{
    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let Batch { values, times, .. } = batch.take::<T>()?;
        for (i, value) in values.into_iter().enumerate() {
            self.out.set_time(times.get(i).copied());
            (self.f)(value, &mut self.out)?;
        }
        self.out.flush(out);
        Ok(())
    }
}

/// Any number of records for each of either stream.
pub(crate) struct CoFlatMap<T, U, R, F1, F2> {
    first: F1,
    second: F2,
    out: Collector<R>,
    types: PhantomData<fn(T, U)>,
}

impl<T, U, R, F1, F2> CoFlatMap<T, U, R, F1, F2> {
    pub fn new(first: F1, second: F2) -> Self {
        Self { first, second, out: Collector::default(), types: PhantomData }
    }
}

fn each<T: Data, R: Data>(
    batch: AnyBatch,
    collector: &mut Collector<R>,
    f: impl Fn(T, &mut Collector<R>),
) -> Result<()> {
    let Batch { values, times, .. } = batch.take::<T>()?;
    for (i, value) in values.into_iter().enumerate() {
        collector.set_time(times.get(i).copied());
        f(value, collector);
    }
    Ok(())
}

impl<T, U, R, F1, F2> Operator for CoFlatMap<T, U, R, F1, F2>
where
    T: Data,
    U: Data,
    R: Data,
    F1: Fn(T, &mut Collector<R>) + 'static,
    F2: Fn(U, &mut Collector<R>) + 'static,
{
    fn process(&mut self, port: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        match port {
            0 => each(batch, &mut self.out, &self.first)?,
            _ => each(batch, &mut self.out, &self.second)?,
        }
        self.out.flush(out);
        Ok(())
    }
}
