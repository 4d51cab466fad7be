//! Which states an operator has in a snapshot. Only headers are read, so this is cheap whatever the size of
//! the state.

use stillstream_state::snapshot::{Header, header_of, header_of_incremental};
use stillstream_state::{OperatorStateMeta, Schema, StateError};
use stillstream_types::OperatorSubtaskState;
use stillstream_types::streams::SnapshotStore;

/// The states of one operator, of all its subtasks together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct States {
    /// Keyed state and timers. Subtasks have the same header as a rule; each that differs is here.
    pub keyed: Vec<Header>,
    /// Operator state by name, each form of it once.
    pub operator: Vec<(String, OperatorStateMeta)>,
}

/// Reads which states these subtasks have. Blocks.
///
/// # Errors
/// A header that is missing, damaged, or of a newer release.
pub fn states_of<'a>(
    subtasks: impl IntoIterator<Item = &'a OperatorSubtaskState>,
    store: &dyn SnapshotStore,
) -> Result<States, StateError> {
    let mut found = States::default();
    for subtask in subtasks {
        let keyed = subtask.keyed.iter().map(|handle| header_of(handle, store));
        let incremental = subtask.incremental.iter().map(|handle| header_of_incremental(handle, store));
        for header in keyed.chain(incremental) {
            let header = header?;
            if !found.keyed.contains(&header) {
                found.keyed.push(header);
            }
        }
        for handle in &subtask.operator {
            for (name, entry) in &handle.states {
                let schema = Schema::from_bytes(&entry.schema).map_err(|error| StateError::Malformed {
                    path: handle.stream.path().unwrap_or("(inline state)").into(),
                    part: format!("operator state `{name}`"),
                    why: error.to_string(),
                })?;
                let state = (name.clone(), OperatorStateMeta { mode: entry.mode, schema });
                if !found.operator.contains(&state) {
                    found.operator.push(state);
                }
            }
        }
    }
    Ok(found)
}
