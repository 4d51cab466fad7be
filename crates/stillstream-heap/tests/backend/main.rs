//! The heap backend: the conformance suite with both kinds of table, golden files, and who removes what has
//! expired.

mod golden;
mod ttl;

use stillstream_heap::HeapBackendFactory;
use stillstream_state::conformance::{ONE_TO_EIGHT, every_parallelism_becomes_every_other};
use stillstream_state::{MemorySnapshotStore, StateError};
use stillstream_types::{SavepointFormat, SnapshotForm};

stillstream_state::keyed_backend_conformance!(asynchronous, HeapBackendFactory::default());
stillstream_state::keyed_backend_conformance!(
    synchronous,
    HeapBackendFactory { asynchronous: false, incremental: false }
);

#[test]
fn savepoints_of_1_to_8_subtasks_become_the_state_of_1_to_8_others() -> Result<(), StateError> {
    let store = MemorySnapshotStore::unlimited();
    for asynchronous in [true, false] {
        let factory = HeapBackendFactory { asynchronous, incremental: false };
        for form in [SavepointFormat::Canonical, SavepointFormat::Native] {
            let form = SnapshotForm::Savepoint(form);
            every_parallelism_becomes_every_other(&factory, &ONE_TO_EIGHT, form, &store)?;
        }
    }
    Ok(())
}
