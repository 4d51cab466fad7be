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

impl<T: Data> StoredList<T> {
    /// Registers the list and reads what was restored; `None` if no snapshot has such a list, so this is a fresh start.
    pub fn open(
        context: &OpenContext,
        name: &'static str,
        mode: RedistributionMode,
    ) -> Result<(Self, Option<Vec<T>>)> {
        let handles = context.restored.as_ref().map_or(&[][..], |state| &state.operator);
        let known = handles.iter().any(|handle| handle.states.contains_key(name));
        let mut backend = OperatorStateBackend::new(context.subtask);
        let list = backend.restore(handles, &*context.store).and_then(|()| match mode {
            RedistributionMode::Union => backend.union_list(name),
            _ => backend.list(name),
        });
        let list = list.map_err(StateError::into_error)?;
        let restored = list.get().map_err(StateError::into_error)?;
        list.clear().map_err(StateError::into_error)?;
        Ok((Self { backend, list, name }, known.then_some(restored)))
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
