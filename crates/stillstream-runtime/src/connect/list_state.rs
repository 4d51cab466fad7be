//! The one list of operator state that a source or a sink keeps.

use stillstream_state::{Data, OperatorListState, OperatorStateBackend, StateError};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{OperatorSubtaskState, RedistributionMode, Result};

use crate::operator::OpenContext;

/// A list in operator state, set as a whole at each snapshot.
pub(crate) struct StoredList<T> {
    backend: OperatorStateBackend,
    list: OperatorListState<T>,
    name: &'static str,
}

/// What was restored of a list.
pub(crate) struct RestoredList<T> {
    /// All items, those of one subtask after those of another.
    pub items: Vec<T>,
    /// How many of them each subtask wrote that took part in the snapshot, in the order of the subtasks. For
    /// a list that is dealt out, only what came here.
    pub parts: Vec<usize>,
}

impl<T> RestoredList<T> {
    /// What of a union list belongs to subtask `mine` of `parallelism`: its own items if there were as many
    /// subtasks before; else every `parallelism`-th item.
    pub fn share(self, mine: usize, parallelism: usize) -> Vec<T> {
        let Self { items, parts } = self;
        if parts.len() == parallelism && parts.iter().sum::<usize>() == items.len() {
            let before = parts.iter().take(mine).sum();
            return items.into_iter().skip(before).take(parts.get(mine).copied().unwrap_or(0)).collect();
        }
        items.into_iter().skip(mine).step_by(parallelism.max(1)).collect()
    }
}

impl<T: Data> StoredList<T> {
    /// Registers the list and reads what was restored; `None` if no snapshot has such a list, so this is a
    /// fresh start.
    pub fn open(
        context: &OpenContext,
        name: &'static str,
        mode: RedistributionMode,
    ) -> Result<(Self, Option<RestoredList<T>>)> {
        let handles = context.restored.as_ref().map_or(&[][..], |state| &state.operator);
        let parts: Vec<usize> =
            handles.iter().filter_map(|handle| Some(handle.states.get(name)?.offsets.len())).collect();
        let mut backend = OperatorStateBackend::new(context.subtask);
        let list = backend.restore(handles, &*context.store).and_then(|()| match mode {
            RedistributionMode::Union => backend.union_list(name),
            _ => backend.list(name),
        });
        let list = list.map_err(StateError::into_error)?;
        let items = list.get().map_err(StateError::into_error)?;
        list.clear().map_err(StateError::into_error)?;
        let restored = (!parts.is_empty()).then_some(RestoredList { items, parts });
        Ok((Self { backend, list, name }, restored))
    }

    /// The synchronous part of a snapshot with these items; returns the asynchronous one.
    pub fn snapshot(
        &self,
        items: Vec<T>,
    ) -> Result<impl FnOnce(&dyn SnapshotStore) -> Result<OperatorSubtaskState> + Send + use<T>> {
        let frozen = self.list.update(items).and_then(|()| self.backend.freeze());
        let (frozen, name) = (frozen.map_err(StateError::into_error)?, self.name);
        self.list.clear().map_err(StateError::into_error)?;
        Ok(move |store: &dyn SnapshotStore| {
            let operator = frozen.write(store, name).map_err(StateError::into_error)?;
            Ok(OperatorSubtaskState { operator, ..OperatorSubtaskState::default() })
        })
    }
}
