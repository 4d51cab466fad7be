//! Chains of p subtasks, split over q others.

use stillstream_heap::HeapBackendFactory;
use stillstream_state::conformance::{
    Everything, ONE_TO_EIGHT, a_full_checkpoint_begins_anew_and_later_ones_build_on_it, all_groups,
    backend_of, every_parallelism_becomes_every_other,
};
use stillstream_state::snapshot::ChainMeta;
use stillstream_state::{KeyedBackend, StateError};
use stillstream_types::streams::CountedReads;
use stillstream_types::{CheckpointId, SnapshotForm, StreamHandle};

use crate::store::SharedFiles;

#[test]
fn chains_of_1_to_8_subtasks_become_the_state_of_1_to_8_others() -> Result<(), StateError> {
    let factory = HeapBackendFactory { asynchronous: true, incremental: true };
    let store = SharedFiles::default();
    every_parallelism_becomes_every_other(&factory, &ONE_TO_EIGHT, SnapshotForm::Checkpoint, &store)
}

#[test]
fn a_full_checkpoint_begins_a_new_chain() -> Result<(), StateError> {
    let factory = HeapBackendFactory { asynchronous: true, incremental: true };
    a_full_checkpoint_begins_anew_and_later_ones_build_on_it(&factory, &SharedFiles::default())
}

#[test]
fn of_each_file_of_a_chain_a_subtask_reads_only_its_own_key_groups() -> Result<(), StateError> {
    let factory = HeapBackendFactory { asynchronous: true, incremental: true };
    let store = SharedFiles::default();
    let mut running = Everything::register(backend_of(&factory, all_groups().all())?)?;
    let keys: Vec<String> = (0..500).map(|n| format!("user-{n}")).collect();
    keys.iter().try_for_each(|key| running.set(key, 1))?;
    running.backend.freeze_checkpoint(CheckpointId(1))?.write(&store, "chain")?;
    running.backend.checkpoint_completed(CheckpointId(1));
    keys.iter().step_by(20).try_for_each(|key| running.set(key, 2))?;
    let snapshot = running.backend.freeze_checkpoint(CheckpointId(2))?.write(&store, "chain")?;
    let handle = &snapshot.incremental[0];
    let chain = ChainMeta::read(handle, &store)?;
    assert_eq!(chain.files.len(), 2);
    for index in 0..4 {
        let range = all_groups().range(index, 4);
        let counted = CountedReads::new(&store);
        let mut backend = backend_of(&HeapBackendFactory::default(), range)?;
        backend.restore_snapshot(&snapshot, &counted)?;
        let files = || chain.files.iter().map(|file| &file.handle);
        let headers: u64 = files().map(|file| file.header_len).sum();
        let sections =
            files().flat_map(|file| &file.sections).filter(|section| range.contains(section.group));
        let own: u64 = sections.map(|section| section.len).sum();
        assert_eq!(counted.bytes(), headers + own + StreamHandle::len(&handle.meta), "key groups {range}");
        assert!(own < snapshot.len() / 2);
    }
    Ok(())
}
