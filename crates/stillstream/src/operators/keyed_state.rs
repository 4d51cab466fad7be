//! The state of one parallel instance of a keyed operator: restored when it is opened, frozen at each
//! barrier.

use std::fmt;

use stillstream_runtime::backends::KeyedStateBackend;
use stillstream_runtime::{AsyncSnapshot, OpenContext};
use stillstream_state::{BackendFactory, Key, KeyedBackend, OperatorStateBackend, StateClock, StateError};
use stillstream_types::streams::CountedReads;
use stillstream_types::{CheckpointId, KeyedSnapshot, OperatorSubtaskState, Result, SnapshotForm};

/// The keyed backend for this subtask, with what was restored.
pub(crate) fn open_keyed<K: Key>(context: &OpenContext) -> Result<KeyedStateBackend<K>> {
    // attempts are counted by the generation, and a job has fewer subtasks than key groups
    let instance = context.generation << 16 | u64::from(context.subtask.0);
    let folders = [context.operator.to_string(), context.subtask.0.to_string()];
    let factory = context.backend.for_subtask(instance, &folders.each_ref().map(String::as_str));
    let mut backend =
        factory.create::<K>(context.key_groups, context.key_group_range()).map_err(StateError::into_error)?;
    let clock = context.clock.clone();
    backend.set_clock(StateClock::new(move || clock.now_ms()));
    if let Some(snapshot) = context.restored.as_ref().map(OperatorSubtaskState::keyed_snapshot)
        && !snapshot.is_empty()
    {
        let store = CountedReads::new(&*context.store);
        backend.restore_snapshot(&snapshot, &store).map_err(StateError::into_error)?;
        tracing::debug!(
            "`{}` subtask {} restored {} of {} for key groups {}",
            context.name,
            context.subtask,
            Bytes(store.bytes()),
            Bytes(snapshot.len()),
            context.key_group_range(),
        );
    }
    Ok(backend)
}

/// A number of bytes as one reads it.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..10_000 => write!(f, "{} B", self.0),
            10_000..10_000_000 => write!(f, "{} kB", self.0 / 1_000),
            _ => write!(f, "{} MB", self.0 / 1_000_000),
        }
    }
}

/// The operator state for this subtask, with what was restored.
pub(crate) fn open_operator_state(context: &OpenContext) -> Result<OperatorStateBackend> {
    let mut backend = OperatorStateBackend::new(context.subtask);
    if let Some(restored) = &context.restored {
        backend.restore(&restored.operator, &*context.store).map_err(StateError::into_error)?;
    }
    Ok(backend)
}

/// What an operator does when it hears how a checkpoint has ended: it tells its keyed backend, which is found
/// like this in what the operator has opened.
macro_rules! checkpoint_notices {
    ($opened:ident => $($backend:tt)+) => {
        fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
            if let Some(opened) = &mut self.$opened {
                opened.$($backend)+.checkpoint_completed(id);
            }
            Ok(())
        }

        fn checkpoint_aborted(&mut self, id: CheckpointId) -> Result<()> {
            if let Some(opened) = &mut self.$opened {
                opened.$($backend)+.checkpoint_aborted(id);
            }
            Ok(())
        }
    };
}
pub(crate) use checkpoint_notices;

/// Freezes both; the returned part writes them.
pub(crate) fn freeze<K: Key>(
    keyed: &mut KeyedStateBackend<K>,
    operator: Option<&OperatorStateBackend>,
    name: &str,
    id: CheckpointId,
    form: SnapshotForm,
) -> Result<AsyncSnapshot> {
    let keyed = keyed.freeze_as(id, form).map_err(StateError::into_error)?;
    let operator = operator.map(OperatorStateBackend::freeze).transpose().map_err(StateError::into_error)?;
    let name = name.to_string();
    Ok(Box::new(move |store| {
        let KeyedSnapshot { keyed, incremental } =
            keyed.write(store, &name).map_err(StateError::into_error)?;
        let operator = match operator {
            Some(operator) => operator.write(store, &name).map_err(StateError::into_error)?,
            None => Vec::new(),
        };
        Ok(OperatorSubtaskState { keyed, incremental, operator })
    }))
}
