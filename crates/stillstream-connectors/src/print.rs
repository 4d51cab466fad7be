//! [`Print`]: records on standard output, for people.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use stillstream_runtime::Batch;
use stillstream_runtime::connect::{Committer, Plain, PlainWriter, Prepared, Sink, SinkContext, SinkWriter};
use stillstream_state::Data;
use stillstream_types::{CheckpointId, Result};

use crate::ConnectorError;

/// Prints each record's `Debug` form on a line of standard output; text as it is, without quotes. At-least-once: after a failure records are
/// printed again.
///
/// ```
/// use stillstream_connectors::Print;
/// let plain = Print::new();
/// let named = Print::with_prefix("delays"); // delays> ...
/// # fn check(_: impl stillstream_runtime::connect::Sink<u64>) {}
/// # check(plain); check(named);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Print {
    prefix: String,
}

impl Print {
    /// Prints records as they are.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `prefix` and `> ` before each record; with several subtasks also the subtask's number, as Flink
    /// does.
    pub fn with_prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }
}

/// The text of a record that is nothing else.
fn text_of<T: 'static>(record: &T) -> Option<&str> {
    let record: &dyn Any = record;
    record
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| record.downcast_ref::<Arc<str>>().map(|text| &**text))
        .or_else(|| record.downcast_ref::<Box<str>>().map(|text| &**text))
        .or_else(|| record.downcast_ref::<Cow<'static, str>>().map(|text| &**text))
}

struct Printer {
    prefix: String,
    text: Vec<u8>,
}

impl<T: fmt::Debug + 'static> PlainWriter<T> for Printer {
    fn write(&mut self, batch: Batch<T>) -> Result<()> {
        self.text.clear();
        for value in &batch.values {
            let written = match text_of(value) {
                Some(text) => writeln!(self.text, "{}{text}", self.prefix),
                None => writeln!(self.text, "{}{value:?}", self.prefix),
            };
            written.map_err(ConnectorError::write("standard output")).map_err(ConnectorError::into_error)?;
        }
        // one write a batch, so that lines of other subtasks do not come between
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(&self.text).and_then(|()| stdout.flush());
        written.map_err(ConnectorError::write("standard output")).map_err(ConnectorError::into_error)
    }
}

impl<T: Data + fmt::Debug> Sink<T> for Print {
    type Committable = ();

    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<T, ()>>> {
        let prefix = match (self.prefix.as_str(), context.parallelism) {
            ("", 0 | 1) => String::new(),
            ("", _) => format!("{}> ", context.subtask),
            (prefix, 0 | 1) => format!("{prefix}> "),
            (prefix, _) => format!("{prefix}:{}> ", context.subtask),
        };
        let plain = Plain::new(move |_| Ok(Printer { prefix: prefix.clone(), text: Vec::new() }));
        Sink::<T>::writer(&plain, context)
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<()>>> {
        Ok(Box::new(|_: &()| Ok(())))
    }
}

/// Counts records and drops them.
///
/// ```
/// use stillstream_connectors::Discard;
/// let discard = Discard::new();
/// let counter = discard.clone(); // shares the count
/// assert_eq!(counter.count(), 0);
/// # fn check(_: impl stillstream_runtime::connect::Sink<u64>) {}
/// # check(discard);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Discard {
    count: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Discard {
    /// A sink whose clones in this process share one count.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many records came, those that came again after a failure included.
    pub fn count(&self) -> u64 {
        self.count.load(std::sync::atomic::Ordering::Relaxed)
    }
}

struct Counting(Discard);

impl<T: Data> SinkWriter<T, ()> for Counting {
    fn write(&mut self, batch: Batch<T>) -> Result<()> {
        self.0.count.fetch_add(batch.len() as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
    fn prepare(&mut self, _: CheckpointId) -> Result<Option<Prepared<()>>> {
        Ok(None)
    }
}

impl<T: Data> Sink<T> for Discard {
    type Committable = ();

    fn writer(&self, _: &SinkContext) -> Result<Box<dyn SinkWriter<T, ()>>> {
        Ok(Box::new(Counting(self.clone())))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<()>>> {
        Ok(Box::new(|_: &()| Ok(())))
    }
}
