//! The state of one parallel instance of a keyed operator: restored when it is opened, frozen at each barrier.

use stillstream_runtime::{AsyncSnapshot, OpenContext};
use stillstream_state::{BackendOptions, Key, KeyedStateBackend, OperatorStateBackend, StateError};
use stillstream_types::{CheckpointId, KeyedSnapshot, OperatorSubtaskState, Result};

/// The keyed backend for this subtask, with what was restored.
pub(crate) fn open_keyed<K: Key>(context: &OpenContext) -> Result<KeyedStateBackend<K>> {
    let options = BackendOptions::new(context.key_groups, context.key_group_range())
        .asynchronous(context.asynchronous_snapshots);
    let mut backend = KeyedStateBackend::heap(options);
    if let Some(restored) = &context.restored {
        backend
            .restore_snapshot(&restored.keyed_snapshot(), &*context.store)
            .map_err(StateError::into_error)?;
    }
    Ok(backend)
}

/// The operator state for this subtask, with what was restored.
pub(crate) fn open_operator_state(context: &OpenContext) -> Result<OperatorStateBackend> {
    let mut backend = OperatorStateBackend::new(context.subtask);
    if let Some(restored) = &context.restored {
        backend.restore(&restored.operator, &*context.store).map_err(StateError::into_error)?;
    }
    Ok(backend)
}

/// Freezes both; the returned part writes them.
pub(crate) fn freeze<K: Key>(
    keyed: &mut KeyedStateBackend<K>,
    operator: Option<&OperatorStateBackend>,
    name: &str,
    id: CheckpointId,
) -> Result<AsyncSnapshot> {
    let keyed = keyed.freeze_checkpoint(id).map_err(StateError::into_error)?;
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
