//! The one list of operator state that a source or a sink keeps.

use stillstream_state::{Data, OperatorListState, OperatorStateBackend, StateError};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    OperatorStateHandle, OperatorSubtaskState, RedistributionMode, Result, SubtaskIndex,
};

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
    /// Which subtask of `parallelism` gets each item of a union list: its own again if there were as many
    /// subtasks before; else the one that `owner` names, or without that the items go round.
    pub fn owners(&self, parallelism: usize, owner: impl Fn(&T) -> Option<u32>) -> Vec<usize> {
        let parallelism = parallelism.max(1);
        if self.parts.len() == parallelism && self.parts.iter().sum::<usize>() == self.items.len() {
            let parts = self.parts.iter().enumerate();
            return parts.flat_map(|(subtask, items)| std::iter::repeat_n(subtask, *items)).collect();
        }
        let named = |(at, item)| owner(item).map_or(at, |owner| owner as usize) % parallelism;
        self.items.iter().enumerate().map(named).collect()
    }

    /// What of a union list belongs to subtask `mine`.
    pub fn share(self, mine: usize, parallelism: usize, owner: impl Fn(&T) -> Option<u32>) -> Vec<T> {
        let owners = self.owners(parallelism, owner);
        let items = self.items.into_iter().zip(owners);
        items.filter(|(_, owner)| *owner == mine).map(|(item, _)| item).collect()
    }
}

/// Reads a list out of these handles; `None` if no snapshot has such a list, so this is a fresh start. The
/// backend has the list registered, and empty.
fn read_list<T: Data>(
    mut backend: OperatorStateBackend,
    handles: &[OperatorStateHandle],
    store: &dyn SnapshotStore,
    name: &'static str,
    mode: RedistributionMode,
) -> Result<(StoredList<T>, Option<RestoredList<T>>)> {
    let parts: Vec<usize> =
        handles.iter().filter_map(|handle| Some(handle.states.get(name)?.offsets.len())).collect();
    let list = backend.restore(handles, store).and_then(|()| match mode {
        RedistributionMode::Union => backend.union_list(name),
        _ => backend.list(name),
    });
    let list = list.map_err(StateError::into_error)?;
    let items = list.get().map_err(StateError::into_error)?;
    list.clear().map_err(StateError::into_error)?;
    let restored = (!parts.is_empty()).then_some(RestoredList { items, parts });
    Ok((StoredList { backend, list, name }, restored))
}

/// What the subtasks of an operator had in a union list, for somebody who is none of them.
pub(crate) fn restored_list<T: Data>(
    handles: &[OperatorStateHandle],
    store: &dyn SnapshotStore,
    name: &'static str,
) -> Result<Option<RestoredList<T>>> {
    let backend = OperatorStateBackend::new(SubtaskIndex(0));
    Ok(read_list(backend, handles, store, name, RedistributionMode::Union)?.1)
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
        read_list(OperatorStateBackend::new(context.subtask), handles, &*context.store, name, mode)
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
