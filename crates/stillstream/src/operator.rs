//! Operators of one's own: what runs behind every method of a stream, for what no method does.
//!
//! Most jobs need none of this: a function with state and timers is a [`KeyedProcess`](crate::KeyedProcess)
//! or a [`Process`](crate::functions::Process). An operator is what those are made of. It is given whole
//! batches, marks of event time between them, and is asked for a snapshot at each barrier;
//! [`DataStream::transform`], [`KeyedStream::transform`] and [`ConnectedStreams::transform`] put it into the
//! graph, as all built-in ones are put there.
//!
//! | an operator | does it by |
//! |---|---|
//! | takes a batch of records | [`Operator::process`], [`AnyBatch::take`] |
//! | emits records, and watermarks | [`Output`] |
//! | keeps state by key | [`keyed_state`], a [`KeyedBackend`], in [`Operator::open`] |
//! | keeps state of its subtask | [`operator_state`], an [`OperatorStateBackend`] |
//! | takes part in checkpoints | [`Operator::snapshot`], with [`freeze_keyed`] or [`freeze_operator`] |
//! | does something later | [`Operator::processing_time`], or a [`Waker`] from another thread |
//!
//! All methods are called on one thread, one at a time, and must not block.
//!
//! ```
//! use stillstream::operator::{AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output};
//! use stillstream::operator::{OperatorStateBackend, freeze_operator, operator_state};
//! use stillstream::prelude::*;
//! use stillstream::testing::StreamDriver;
//! use stillstream::operator::{CheckpointId, SnapshotForm};
//!
//! /// Passes on every batch with its number, which goes on after a restore.
//! #[derive(Default)]
//! struct Numbered {
//!     opened: Option<(OperatorStateBackend, OperatorListState<u64>)>,
//!     batches: u64,
//! }
//!
//! impl Operator for Numbered {
//!     fn open(&mut self, context: &mut OpenContext) -> Result<()> {
//!         let mut backend = operator_state(context)?;
//!         let saved = backend.list::<u64>("batches")?;
//!         self.batches = saved.get()?.into_iter().sum();
//!         self.opened = Some((backend, saved));
//!         Ok(())
//!     }
//!     fn process(&mut self, _port: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
//!         let Batch { values, times, .. } = batch.take::<String>()?;
//!         self.batches += 1;
//!         let numbered = values.into_iter().map(|value| (self.batches, value)).collect();
//!         out.batch(Batch::timed(numbered, times));
//!         Ok(())
//!     }
//!     fn snapshot(&mut self, _: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
//!         let Some((backend, saved)) = &self.opened else { return Ok(None) };
//!         saved.update(vec![self.batches])?;
//!         freeze_operator(backend, "numbered").map(Some)
//!     }
//! }
//!
//! let new = || {
//!     StreamDriver::new(|words: &DataStream<String>| {
//!         words.transform::<(u64, String), _>("numbered", || Ok(Numbered::default())).uid("numbered")
//!     })
//! };
//! let mut driver = new();
//! driver.record("a".into())?;
//! let mut restored = new().restored(driver.snapshot()?);
//! restored.record("b".into())?;
//! assert_eq!(restored.output(), [(2, "b".to_string())]);
//! # Ok::<(), Error>(())
//! ```

use stillstream_runtime::exchange::KeySelector;
use stillstream_state::{Data, Key, StateError};
use stillstream_types::{OperatorSubtaskState, Result};

pub use stillstream_runtime::backends::KeyedStateBackend;
pub use stillstream_runtime::waker::Waker;
pub use stillstream_runtime::{
    AnyBatch, AsyncSnapshot, Batch, Emission, OpenContext, Operator, Output, PendingTimers,
};
pub use stillstream_state::{KeyedBackend, OperatorStateBackend};
pub use stillstream_types::{CheckpointId, SnapshotForm};

use crate::data_stream::DataStream;
use crate::graph::NodeSpec;
use crate::keyed_functions::ConnectedStreams;
use crate::keyed_stream::KeyedStream;
use crate::operators::keyed_state;

/// The keyed backend of this subtask, with what was restored. Its states are registered by the methods of
/// [`KeyedBackend`], whose names are those in the snapshot.
///
/// # Errors
/// If the backend cannot be made, or what was restored cannot be read.
pub fn keyed_state<K: Key>(context: &OpenContext) -> Result<KeyedStateBackend<K>> {
    keyed_state::open_keyed(context)
}

/// The operator state of this subtask, with what was restored.
///
/// # Errors
/// If what was restored cannot be read.
pub fn operator_state(context: &OpenContext) -> Result<OperatorStateBackend> {
    keyed_state::open_operator_state(context)
}

/// The synchronous part of a snapshot of keyed state, and of operator state if there is some: what
/// [`Operator::snapshot`] returns. `name` is the operator's, for the files. An operator with keyed state also
/// hands [`Operator::checkpoint_complete`] and [`Operator::checkpoint_aborted`] on to its backend.
///
/// # Errors
/// If state cannot be frozen.
pub fn freeze_keyed<K: Key>(
    keyed: &mut KeyedStateBackend<K>,
    operator: Option<&OperatorStateBackend>,
    name: &str,
    id: CheckpointId,
    form: SnapshotForm,
) -> Result<AsyncSnapshot> {
    keyed_state::freeze(keyed, operator, name, id, form)
}

/// The synchronous part of a snapshot of operator state alone; as [`freeze_keyed`].
///
/// # Errors
/// If state cannot be frozen.
pub fn freeze_operator(operator: &OperatorStateBackend, name: &str) -> Result<AsyncSnapshot> {
    let (frozen, name) = (operator.freeze().map_err(StateError::into_error)?, name.to_string());
    Ok(Box::new(move |store| {
        let operator = frozen.write(store, &name).map_err(StateError::into_error)?;
        Ok(OperatorSubtaskState { operator, ..OperatorSubtaskState::default() })
    }))
}

impl<T: Data> DataStream<T> {
    /// Appends an operator of one's own; `make` makes one parallel instance. It emits records of type `U`: of
    /// another type they are an error of the operator behind it. See [`operator`](crate::operator).
    pub fn transform<U: Data, O: Operator>(
        &self,
        name: &str,
        make: impl Fn() -> Result<O> + Send + Sync + 'static,
    ) -> DataStream<U> {
        self.operator(NodeSpec::stateful(name), make)
    }
}

impl<T: Data, S: KeySelector<T>> KeyedStream<T, S> {
    /// Appends an operator of one's own; as [`DataStream::transform`]. Its batches have the hash of each
    /// record's key, and `make` is given what finds the key.
    pub fn transform<U: Data, O: Operator>(
        &self,
        name: &str,
        make: impl Fn(std::sync::Arc<S>) -> Result<O> + Send + Sync + 'static,
    ) -> DataStream<U> {
        self.operator(NodeSpec::stateful(name), make)
    }
}

impl<T: Data, U: Data> ConnectedStreams<T, U> {
    /// Appends an operator of one's own that reads both: the first stream as port 0, the second as port 1. As
    /// [`DataStream::transform`].
    pub fn transform<R: Data, O: Operator>(
        &self,
        name: &str,
        make: impl Fn() -> Result<O> + Send + Sync + 'static,
    ) -> DataStream<R> {
        self.operator(NodeSpec::stateful(name), make)
    }
}
