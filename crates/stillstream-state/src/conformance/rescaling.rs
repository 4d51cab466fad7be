//! From any number of subtasks to any other one: a snapshot of p backends, split over q.

use stillstream_types::streams::{CountedReads, SnapshotStore};
use stillstream_types::{CheckpointId, KeyGroupRange, KeyedSnapshot, SavepointFormat, SnapshotForm};

use super::everything::{Everything, PlainEntry, backend_of, keys_of};
use super::{STORE, groups, must};
use crate::{BackendFactory, Key, KeyedBackend, StateError};

/// All numbers of subtasks from 1 to 8.
pub const ONE_TO_EIGHT: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// Keys that leave the first and the last sixteen key groups empty, so that two of eight subtasks have seen
/// no record.
fn keys() -> Vec<String> {
    let has_records = |key: &String| (16..112).contains(&key.key_hash(groups()).group().0);
    (0..160).map(|n| format!("user-{n}")).filter(has_records).collect()
}

/// The ranges of so many subtasks.
fn ranges(parallelism: u32) -> impl Iterator<Item = KeyGroupRange> {
    (0..parallelism).map(move |index| groups().range(index, parallelism))
}

/// What `p` subtasks write. A checkpoint is the second one of two, so that it can be one that names files of
/// the first.
fn written(
    factory: &impl BackendFactory,
    parallelism: u32,
    form: SnapshotForm,
    store: &dyn SnapshotStore,
) -> Result<KeyedSnapshot, StateError> {
    let (mut all, keys) = (KeyedSnapshot::default(), keys());
    for (index, range) in ranges(parallelism).enumerate() {
        let factory = factory.for_subtask(u64::from(parallelism) << 16 | index as u64, &["rescaling"]);
        let mut backend = backend_of(&factory, range)?;
        // of those that have seen no record one has registered its states, and one has not
        if keys_of(&keys, range).next().is_none() && index == 0 {
            all.add(backend.freeze_as(CheckpointId(1), form)?.write(store, "nothing")?);
            continue;
        }
        let mut everything = Everything::register(backend)?;
        for (n, key) in keys_of(&keys, range) {
            everything.set(key, n)?;
        }
        if form == SnapshotForm::Checkpoint {
            everything.backend.freeze_checkpoint(CheckpointId(1))?.write(store, "first")?;
            everything.backend.checkpoint_completed(CheckpointId(1));
        }
        for (n, key) in keys_of(&keys, range) {
            match n % 10 {
                0 => everything.set(key, n + 1)?,
                5 => everything.clear(key, n)?,
                _ => {}
            }
        }
        all.add(everything.backend.freeze_as(CheckpointId(2), form)?.write(store, "state")?);
    }
    Ok(all)
}

/// Adds another subtask's part to a snapshot.
trait Add {
    fn add(&mut self, other: KeyedSnapshot);
}

impl Add for KeyedSnapshot {
    fn add(&mut self, other: KeyedSnapshot) {
        self.keyed.extend(other.keyed);
        self.incremental.extend(other.incremental);
    }
}

/// Restores into `q` subtasks; gives all their entries, and what they say of each key.
fn restored(
    factory: &impl BackendFactory,
    parallelism: u32,
    snapshot: &KeyedSnapshot,
    store: &dyn SnapshotStore,
) -> Result<(Vec<PlainEntry>, Vec<String>), StateError> {
    let (mut entries, mut said, keys) = (Vec::new(), Vec::new(), keys());
    for range in ranges(parallelism) {
        let mut backend = backend_of(factory, range)?;
        backend.restore_snapshot(snapshot, store)?;
        let mut everything = Everything::register(backend)?;
        let found = everything.entries()?;
        assert!(found.iter().all(|entry| range.start <= entry.group && entry.group < range.end));
        entries.extend(found);
        for (n, key) in keys_of(&keys, range) {
            said.push((n, everything.ask(key)?));
        }
    }
    entries.sort();
    said.sort();
    Ok((entries, said.into_iter().map(|(_, said)| said).collect()))
}

/// Each number of subtasks becomes each other one of `parallelism`, in one form: all kinds of state, windows
/// and timers.
///
/// # Panics
/// If a subtask has an entry too many or too few, or another value.
pub fn every_parallelism_becomes_every_other(
    factory: &impl BackendFactory,
    parallelism: &[u32],
    form: SnapshotForm,
    store: &dyn SnapshotStore,
) -> Result<(), StateError> {
    let pairs: Vec<_> = parallelism.iter().map(|p| (*p, parallelism.to_vec())).collect();
    each_parallelism_becomes_others(factory, &pairs, form, store)
}

/// Each number of subtasks becomes each one that is named with it, in one form: all kinds of state, windows
/// and timers.
///
/// It makes many backends, so each backend calls it where that takes the least time.
///
/// # Panics
/// If a subtask has an entry too many or too few, or another value.
pub fn each_parallelism_becomes_others(
    factory: &impl BackendFactory,
    pairs: &[(u32, Vec<u32>)],
    form: SnapshotForm,
    store: &dyn SnapshotStore,
) -> Result<(), StateError> {
    let expected = restored(factory, 1, &written(factory, 1, SnapshotForm::default(), store)?, store)?;
    assert!(expected.0.len() > 700 && expected.1.len() == keys().len());
    for (p, others) in pairs {
        let snapshot = written(factory, *p, form, store)?;
        for q in others {
            let found = restored(factory, *q, &snapshot, store)?;
            assert!(found == expected, "from {p} to {q} subtasks: {form:?}");
        }
    }
    Ok(())
}

/// Of a snapshot in canonical form a subtask reads the headers and the sections of its own key groups, and no
/// other byte.
pub fn a_subtask_reads_only_its_own_key_groups(factory: &impl BackendFactory) {
    must(|| {
        let form = SnapshotForm::Savepoint(SavepointFormat::Canonical);
        let snapshot = written(factory, 3, form, &STORE)?;
        for range in ranges(8) {
            let store = CountedReads::new(&STORE);
            let mut backend = backend_of(factory, range)?;
            backend.restore_snapshot(&snapshot, &store)?;
            let headers: u64 = snapshot.keyed.iter().map(|handle| handle.header_len).sum();
            let sections = snapshot.keyed.iter().flat_map(|handle| &handle.sections);
            let own: u64 = sections.filter(|s| range.contains(s.group)).map(|s| s.len).sum();
            assert_eq!(store.bytes(), headers + own, "key groups {range}");
            assert!(own < snapshot.len() / 4, "{own} of {}", snapshot.len());
        }
        Ok(())
    });
}
