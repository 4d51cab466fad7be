//! Full checkpoints of a backend whose checkpoints are incremental.

use std::collections::BTreeSet;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, IncrementalHandle, KeyedSnapshot, SnapshotForm, StreamHandle};

use super::everything::{Everything, backend_of, keys_of};
use super::groups;
use crate::{BackendFactory, KeyedBackend, StateError};

/// The files that later checkpoints may name.
fn shared_files(snapshot: &KeyedSnapshot) -> BTreeSet<String> {
    let streams = snapshot.incremental.iter().flat_map(IncrementalHandle::streams);
    let shared = streams.filter(|stream| stream.is_shared());
    shared.filter_map(StreamHandle::path).map(str::to_owned).collect()
}

/// A running backend, of which each checkpoint is restored and compared.
struct Taken<'a, F, B: KeyedBackend<Key = String>> {
    factory: &'a F,
    store: &'a dyn SnapshotStore,
    running: Everything<B>,
    keys: Vec<String>,
}

impl<F: BackendFactory, B: KeyedBackend<Key = String>> Taken<'_, F, B> {
    /// Changes one key and takes a checkpoint; returns its shared files.
    fn take(&mut self, id: u64, form: SnapshotForm) -> Result<BTreeSet<String>, StateError> {
        self.running.set(&self.keys[id as usize], 1000 + id)?;
        let frozen = self.running.backend.freeze_as(CheckpointId(id), form)?;
        let snapshot = frozen.write(self.store, "full")?;
        let mut backend = backend_of(self.factory, groups().all())?;
        backend.restore_snapshot(&snapshot, self.store)?;
        let found = Everything::register(backend)?.entries()?;
        assert!(found == self.running.entries()?, "checkpoint {id} is restored as something else");
        Ok(shared_files(&snapshot))
    }

    fn completed(&mut self, id: u64) {
        self.running.backend.checkpoint_completed(CheckpointId(id));
    }
}

/// A full checkpoint names no file of those before it. Until its outcome is known neither do those after it,
/// for if it is completed those files go. Completed, it is what later ones build on; one that was aborted
/// changes nothing.
///
/// `factory` makes backends whose checkpoints are incremental, and `store` keeps files for several
/// checkpoints.
///
/// # Panics
/// If a checkpoint names a file that it must not name, names none where it could, or is restored as something
/// else.
pub fn a_full_checkpoint_begins_anew_and_later_ones_build_on_it(
    factory: &impl BackendFactory,
    store: &dyn SnapshotStore,
) -> Result<(), StateError> {
    let keys: Vec<String> = (0..100).map(|n| format!("user-{n}")).collect();
    let running = Everything::register(backend_of(factory, groups().all())?)?;
    let mut job = Taken { factory, store, running, keys: keys.clone() };
    for (n, key) in keys_of(&keys, groups().all()) {
        job.running.set(key, n)?;
    }
    let (usual, full) = (SnapshotForm::Checkpoint, SnapshotForm::FullCheckpoint);
    let first = job.take(1, usual)?;
    job.completed(1);
    let second = job.take(2, usual)?;
    job.completed(2);
    assert!(!first.is_disjoint(&second), "checkpoints are not incremental");
    let old: BTreeSet<_> = first.union(&second).cloned().collect();
    let third = job.take(3, full)?;
    assert!(third.is_disjoint(&old) && !third.is_empty(), "{third:?} {old:?}");
    let fourth = job.take(4, usual)?;
    assert!(fourth.is_disjoint(&old), "the outcome of 3 is not known: {fourth:?} {old:?}");
    // neither does one build on 3 that may go with the completion of 4
    job.completed(3);
    job.running.backend.checkpoint_aborted(CheckpointId(4));
    let fifth = job.take(5, usual)?;
    assert!(fifth.is_disjoint(&old) && !fifth.is_disjoint(&third), "{fifth:?} {third:?} {old:?}");
    job.completed(5);
    let sixth = job.take(6, full)?;
    job.running.backend.checkpoint_aborted(CheckpointId(6));
    let seventh = job.take(7, usual)?;
    assert!(seventh.is_disjoint(&sixth) && !seventh.is_disjoint(&fifth), "{seventh:?} {sixth:?} {fifth:?}");
    Ok(())
}
