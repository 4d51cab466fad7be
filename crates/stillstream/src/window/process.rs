//! [`ProcessWindow`]: a function of all records of a window.

use std::marker::PhantomData;

use stillstream_state::{Aggregate, Data, Key};
use stillstream_types::Result;

use super::TimeWindow;
use super::shell::Emit;
use crate::collector::Collector;

/// A function of all records of a window (Flink's `ProcessWindowFunction`), for
/// [`WindowedStream::process`](super::WindowedStream::process), which has an example.
pub trait ProcessWindow: Send + Sync + 'static {
    /// What the stream is keyed by.
    type Key: Key;
    /// What comes in.
    type In: Data;
    /// What goes out.
    type Out: Data;

    /// One key's records of one window, at least one, in the order in which they came; sessions that merged put theirs one
    /// behind the other.
    fn process(
        &self,
        key: &Self::Key,
        window: TimeWindow,
        records: Vec<Self::In>,
        out: &mut Collector<Self::Out>,
    ) -> Result<()>;
}

/// Calls the function.
pub(crate) struct Process<P>(pub P);

impl<P: ProcessWindow> Emit<P::Key, Vec<P::In>> for Process<P> {
    type Result = P::Out;
    fn emit(
        &self,
        key: &P::Key,
        window: TimeWindow,
        records: Vec<P::In>,
        results: &mut Collector<P::Out>,
    ) -> Result<()> {
        self.0.process(key, window, records, results)
    }
}

/// Keeps all records.
pub(crate) struct Collect<T>(pub PhantomData<fn(T)>);

impl<T: Data> Aggregate for Collect<T> {
    type In = T;
    type Acc = Vec<T>;
    type Out = Vec<T>;

    fn create(&self) -> Vec<T> {
        Vec::new()
    }

    fn add(&self, acc: &mut Vec<T>, value: T) {
        acc.push(value);
    }

    fn merge(&self, acc: &mut Vec<T>, mut other: Vec<T>) {
        acc.append(&mut other);
    }

    fn result(&self, acc: &Vec<T>) -> Vec<T> {
        acc.clone()
    }
}
