//! The state of one parallel instance of a keyed operator: restored when it is opened, frozen at each barrier.

use stillstream_runtime::job::RocksDbSettings;
use stillstream_runtime::{AsyncSnapshot, OpenContext};
use stillstream_state::{
    BackendOptions, Key, KeyedStateBackend, OperatorStateBackend, StateClock, StateError,
};
use stillstream_types::{CheckpointId, KeyedSnapshot, OperatorSubtaskState, Result};
#[cfg(not(feature = "rocksdb"))]
use stillstream_types::{Error, ErrorKind};

/// The keyed backend for this subtask, with what was restored.
pub(crate) fn open_keyed<K: Key>(context: &OpenContext) -> Result<KeyedStateBackend<K>> {
    let options = BackendOptions::new(context.key_groups, context.key_group_range())
        .asynchronous(context.asynchronous_snapshots)
        .incremental(context.incremental_checkpoints);
    let mut backend = match &context.rocksdb {
        None => KeyedStateBackend::heap(options),
        Some(rocksdb) => open_rocksdb(options, rocksdb, context)?,
    };
    let clock = context.clock.clone();
    backend.set_clock(StateClock::new(move || clock.now_ms()));
    if let Some(restored) = &context.restored {
        backend
            .restore_snapshot(&restored.keyed_snapshot(), &*context.store)
            .map_err(StateError::into_error)?;
    }
    Ok(backend)
}

#[cfg(feature = "rocksdb")]
fn open_rocksdb<K: Key>(
    options: BackendOptions,
    rocksdb: &RocksDbSettings,
    context: &OpenContext,
) -> Result<KeyedStateBackend<K>> {
    // attempts are counted by the generation, and a job has fewer subtasks than key groups
    let instance = context.generation << 16 | u64::from(context.subtask.0);
    let folders = [context.operator.to_string(), context.subtask.0.to_string()];
    let settings = rocksdb.options.for_subtask(instance, &folders.each_ref().map(String::as_str));
    KeyedStateBackend::rocksdb(options.incremental(rocksdb.incremental), settings)
        .map_err(StateError::into_error)
}

#[cfg(not(feature = "rocksdb"))]
fn open_rocksdb<K: Key>(
    _: BackendOptions,
    _: &RocksDbSettings,
    _: &OpenContext,
) -> Result<KeyedStateBackend<K>> {
    let message = "this program was built without RocksDB: add the cargo feature `rocksdb` to `stillstream`";
    Err(Error::new(ErrorKind::Configuration, message))
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
