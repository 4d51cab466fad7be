//! [`SavedTime`]: a moment of event time per subtask, in operator state.

use stillstream_runtime::OpenContext;
use stillstream_state::{FrozenOperatorState, OperatorListState, OperatorStateBackend, StateError};
use stillstream_types::Result;

/// One moment per subtask, in a union list. Each subtask gets its own back if the parallelism is the same,
/// and the least of all otherwise: any subtask may then have keys or splits of any other.
pub(crate) struct SavedTime {
    backend: OperatorStateBackend,
    list: OperatorListState<(u32, i64)>,
    subtask: u32,
}

impl SavedTime {
    /// The state, and what was restored.
    pub fn open(context: &OpenContext, name: &str) -> Result<(Self, Option<i64>)> {
        let mut backend = OperatorStateBackend::new(context.subtask);
        if let Some(restored) = &context.restored {
            backend.restore(&restored.operator, &*context.store).map_err(StateError::into_error)?;
        }
        let list = backend.union_list::<(u32, i64)>(name).map_err(StateError::into_error)?;
        let items = list.get().map_err(StateError::into_error)?;
        let subtask = context.subtask.0;
        let own =
            items.iter().find(|(owner, _)| *owner == subtask && items.len() == context.parallelism as usize);
        let restored = own.or_else(|| items.iter().min_by_key(|(_, at)| *at)).map(|(_, at)| *at);
        Ok((Self { backend, list, subtask }, restored))
    }

    /// The synchronous part of a snapshot.
    pub fn freeze(&self, at: i64) -> Result<FrozenOperatorState> {
        let freeze = || {
            self.list.update(vec![(self.subtask, at)])?;
            self.backend.freeze()
        };
        freeze().map_err(StateError::into_error)
    }
}
