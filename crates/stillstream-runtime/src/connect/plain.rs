//! A sink without transactions.

use std::fmt;
use std::marker::PhantomData;

use stillstream_state::Data;
use stillstream_types::{CheckpointId, Result};

use super::sink::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use crate::operator::batch::Batch;

/// Writes batches somewhere, at once.
pub trait PlainWriter<T>: 'static {
    /// Writes a batch.
    fn write(&mut self, batch: Batch<T>) -> Result<()>;

    /// Whether the writer takes a batch now. One that says no wakes its operator by [`SinkContext::waker`].
    fn ready(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Hands over everything that was written: called before each checkpoint is acknowledged, and at the end.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<T, F: FnMut(Batch<T>) -> Result<()> + 'static> PlainWriter<T> for F {
    fn write(&mut self, batch: Batch<T>) -> Result<()> {
        self(batch)
    }
}

/// A sink without transactions: **at-least-once**. After a failure the records since the last checkpoint are
/// written again, so the target must bear duplicates (a log for people, a store that overwrites by key).
///
/// ```
/// use stillstream_runtime::{Batch, connect::Plain};
/// let sink = Plain::new(|context| {
///     let name = context.name.clone();
///     Ok(move |batch: Batch<u64>| {
///         batch.values.iter().for_each(|value| println!("{name}: {value}"));
///         Ok(())
///     })
/// });
/// # fn check(_: impl stillstream_runtime::connect::Sink<u64>) {}
/// # check(sink);
/// ```
pub struct Plain<T, F> {
    make: F,
    items: PhantomData<fn(T)>,
}

impl<T, F> fmt::Debug for Plain<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

impl<T, W, F> Plain<T, F>
where
    T: Data,
    W: PlainWriter<T>,
    F: Fn(&SinkContext) -> Result<W> + Send + Sync + 'static,
{
    /// A sink whose subtasks each get a writer from `make`.
    pub fn new(make: F) -> Self {
        Self { make, items: PhantomData }
    }
}

impl<T, W, F> Sink<T> for Plain<T, F>
where
    T: Data,
    W: PlainWriter<T>,
    F: Fn(&SinkContext) -> Result<W> + Send + Sync + 'static,
{
    type Committable = ();

    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<T, ()>>> {
        Ok(Box::new(Adapter((self.make)(context)?)))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<()>>> {
        Ok(Box::new(|_: &()| Ok(())))
    }
}

struct Adapter<W>(W);

impl<T, W: PlainWriter<T>> SinkWriter<T, ()> for Adapter<W> {
    fn write(&mut self, batch: Batch<T>) -> Result<()> {
        self.0.write(batch)
    }
    fn ready(&mut self) -> Result<bool> {
        self.0.ready()
    }
    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<()>>> {
        self.0.flush()?;
        Ok(None)
    }
}
