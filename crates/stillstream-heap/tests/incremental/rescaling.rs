//! Chains of p subtasks, split over q others.

use stillstream_heap::HeapBackendFactory;
use stillstream_state::conformance::every_parallelism_becomes_every_other;
use stillstream_state::StateError;
use stillstream_types::SnapshotForm;

use crate::store::SharedFiles;

#[test]
fn chains_of_1_to_8_subtasks_become_the_state_of_1_to_8_others() -> Result<(), StateError> {
    let factory = HeapBackendFactory { asynchronous: true, incremental: true };
    every_parallelism_becomes_every_other(&factory, SnapshotForm::Checkpoint, &SharedFiles::default())
}
