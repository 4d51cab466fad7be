//! Native savepoints: files of RocksDB that belong to the savepoint alone.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::shared_store::SharedStore;
use proptest::prelude::*;
use stillstream_heap::{HeapBackendFactory, HeapKeyedStateBackend};
use stillstream_rocksdb::{MemoryBudget, RocksDbBackendFactory, RocksDbKeyedStateBackend, RocksDbOptions};
use stillstream_state::conformance::{ONE_TO_EIGHT, each_parallelism_becomes_others};
use stillstream_state::{
    BackendOptions, CurrentKey, Key, KeyedBackend, KeyedValues, StateError, TimeDomain, TimerService,
};
use stillstream_types::streams::CountedReads;
use stillstream_types::{
    CheckpointId, KeyGroups, KeyedSnapshot, SavepointFormat, SnapshotForm, StreamHandle, Timestamp,
};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

const NATIVE: SnapshotForm = SnapshotForm::Savepoint(SavepointFormat::Native);

fn groups() -> KeyGroups {
    KeyGroups::new(128)
}

fn options(folder: &Path) -> RocksDbOptions {
    RocksDbOptions {
        memory: MemoryBudget { total_bytes: Some(32 << 20), ..MemoryBudget::default() },
        ..RocksDbOptions::new(folder.join("local"))
    }
}

fn backend(folder: &Path, incremental: bool) -> Result<RocksDbKeyedStateBackend<u64>, StateError> {
    let own = BackendOptions::new(groups(), groups().all()).incremental(incremental);
    RocksDbKeyedStateBackend::new(own, options(folder))
}

/// State of one backend: sums by key, and timers.
type Model = (BTreeMap<u64, u64>, BTreeMap<u64, i64>);

fn add(backend: &mut RocksDbKeyedStateBackend<u64>, model: &mut Model, key: u64) -> Result<(), StateError> {
    let hash = key.key_hash(groups());
    backend.value::<u64>("sum")?.update(&CurrentKey::new(&key, hash), || 0, |sum| *sum += key)?;
    let at = (key % 50) as i64;
    let timers = backend.timers::<()>("t", TimeDomain::EventTime)?;
    timers.register(Timestamp::from_millis(at), hash, &key, ())?;
    *model.0.entry(key).or_default() += key;
    model.1.insert(key, at);
    Ok(())
}

fn check(
    folder: &Path,
    snapshot: &KeyedSnapshot,
    store: &SharedStore,
    model: &Model,
) -> Result<(), StateError> {
    let mut again = backend(folder, true)?;
    again.restore_snapshot(snapshot, store)?;
    let (mut sums, mut timers) = (BTreeMap::new(), BTreeMap::new());
    again.keyed_value::<u64>("sum")?.for_each(|key, sum| assert_eq!(sums.insert(*key, *sum), None))?;
    let service = again.timers::<()>("t", TimeDomain::EventTime)?;
    while let Some(timer) = service.pop_due(Timestamp::MAX)? {
        assert_eq!(timers.insert(timer.key, timer.time.as_millis()), None);
    }
    assert_eq!(&(sums, timers), model);
    Ok(())
}

fn paths(snapshot: &KeyedSnapshot) -> impl Iterator<Item = &str> {
    let streams = snapshot.incremental.iter().flat_map(|handle| handle.streams());
    streams.filter_map(StreamHandle::path)
}

#[test]
fn a_native_savepoint_has_all_its_files_for_itself_whether_checkpoints_are_incremental_or_not() -> Result {
    for incremental in [true, false] {
        let folder = tempfile::tempdir()?;
        let store = SharedStore::new(&folder.path().join("store"));
        let (mut running, mut model) = (backend(folder.path(), incremental)?, Model::default());
        for key in 0..300 {
            add(&mut running, &mut model, key)?;
        }
        running.freeze_checkpoint(CheckpointId(1))?.write(&store, "state")?;
        running.checkpoint_completed(CheckpointId(1));
        store.take_uploads();
        let savepoint = running.freeze_as(CheckpointId(2), NATIVE)?.write(&store, "state")?;
        assert_eq!((store.take_uploads(), savepoint.keyed.len()), (0, 0), "nothing is shared");
        let tables = savepoint.incremental[0].files.iter().filter(|file| file.name.ends_with(".sst"));
        assert_eq!(tables.count(), 2, "a file for each state");
        assert!(paths(&savepoint).all(|path| path.starts_with("own/")));
        // its freezing has flushed nothing that the next checkpoint would have to upload
        running.freeze_checkpoint(CheckpointId(3))?.write(&store, "state")?;
        assert_eq!(store.take_uploads(), 0);
        // whatever becomes of the checkpoints
        fs::remove_dir_all(folder.path().join("store/shared"))?;
        check(folder.path(), &savepoint, &store, &model)?;
    }
    Ok(())
}

/// Databases here are many and small: with the default size a write buffer would reserve more than they hold.
fn small(folder: &Path, incremental: bool) -> RocksDbBackendFactory {
    let options = RocksDbOptions { write_buffer_bytes: Some(64 << 10), ..options(folder) };
    RocksDbBackendFactory { incremental, options: options.into() }
}

fn rescale(
    incremental: bool,
    parallelism: &[u32],
    others: impl Fn(u32) -> Vec<u32>,
    form: SnapshotForm,
) -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let pairs: Vec<_> = parallelism.iter().map(|p| (*p, others(*p))).collect();
    Ok(each_parallelism_becomes_others(&small(folder.path(), incremental), &pairs, form, &store)?)
}

// a restore opens all databases whose key groups overlap one's own: three others for each are enough to meet
// each number of them, more subtasks and fewer
#[test]
fn native_savepoints_of_1_to_8_subtasks_become_the_state_of_three_other_numbers_each() -> Result {
    rescale(false, &ONE_TO_EIGHT, |p| [0, 2, 5].map(|step| (p + step) % 8 + 1).to_vec(), NATIVE)
}

#[test]
fn canonical_savepoints_of_1_to_8_subtasks_become_the_state_of_1_to_8_others() -> Result {
    let form = SnapshotForm::Savepoint(SavepointFormat::Canonical);
    rescale(false, &ONE_TO_EIGHT, |_| ONE_TO_EIGHT.to_vec(), form)
}

// read as native savepoints are: only the places of the files differ
#[test]
fn incremental_checkpoints_of_1_3_4_and_8_subtasks_become_the_state_of_each_other() -> Result {
    rescale(true, &[1, 3, 4, 8], |_| vec![1, 3, 4, 8], SnapshotForm::Checkpoint)
}

#[test]
fn only_files_of_subtasks_whose_key_groups_overlap_are_fetched_and_those_whole() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut all = KeyedSnapshot::default();
    for index in 0..4 {
        let own = BackendOptions::new(groups(), groups().range(index, 4));
        let mut subtask = RocksDbKeyedStateBackend::<u64>::new(own, options(folder.path()))?;
        let mut model = Model::default();
        for key in (0..400).filter(|key| own.range.contains(key.key_hash(groups()).group())) {
            add(&mut subtask, &mut model, key)?;
        }
        all.incremental.extend(subtask.freeze_native()?.write(&store, "state")?.incremental);
    }
    for parallelism in 1..=8 {
        for index in 0..parallelism {
            let own = BackendOptions::new(groups(), groups().range(index, parallelism));
            let mut subtask = RocksDbKeyedStateBackend::<u64>::new(own, options(folder.path()))?;
            let counted = CountedReads::new(&store);
            subtask.restore_snapshot(&all, &counted)?;
            let overlap = all.incremental.iter().filter(|h| !h.range.intersect(own.range).is_empty());
            let whole: u64 = overlap.flat_map(|handle| handle.streams()).map(StreamHandle::len).sum();
            assert_eq!(counted.bytes(), whole, "subtask {index} of {parallelism}");
        }
    }
    Ok(())
}

#[test]
fn a_job_that_was_restored_from_a_native_savepoint_leaves_its_files_alone() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let (mut running, mut model) = (backend(folder.path(), true)?, Model::default());
    for key in 0..100 {
        add(&mut running, &mut model, key)?;
    }
    let savepoint = running.freeze_native()?.write(&store, "state")?;
    drop(running);
    let mut again = backend(folder.path(), true)?;
    again.restore_snapshot(&savepoint, &store)?;
    let first = again.freeze_checkpoint(CheckpointId(1))?.write(&store, "state")?;
    assert!(paths(&first).all(|path| !paths(&savepoint).any(|own| own == path)));
    // the savepoint's owner deletes it
    for path in paths(&savepoint) {
        fs::remove_file(folder.path().join("store").join(path))?;
    }
    check(folder.path(), &first, &store, &model)?;
    Ok(())
}

#[test]
fn the_native_form_of_one_backend_is_refused_by_the_other_with_both_names() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let (mut running, mut model) = (backend(folder.path(), true)?, Model::default());
    add(&mut running, &mut model, 1)?;
    let savepoint = running.freeze_native()?.write(&store, "state")?;
    let mut heap = HeapKeyedStateBackend::<u64>::new(BackendOptions::new(groups(), groups().all()));
    let Err(error) = heap.restore_snapshot(&savepoint, &store) else { panic!("it is not the heap's") };
    let text = error.to_string();
    assert!(matches!(error, StateError::OtherBackend { .. }), "{text}");
    assert!(text.contains("RocksDB") && text.contains("heap") && text.contains("canonical"), "{text}");
    // the heap's own form of a savepoint is the canonical one, which both read
    let factory = HeapBackendFactory { asynchronous: true, incremental: true };
    let mut heap = stillstream_state::BackendFactory::create::<u64>(&factory, groups(), groups().all())?;
    heap.value::<u64>("sum")?.set(&CurrentKey::new(&7u64, 7u64.key_hash(groups())), 7)?;
    let native = heap.freeze_native()?.write(&store, "state")?;
    let canonical = heap.freeze()?.write(&store, "state")?;
    assert_eq!(
        (native.keyed[0].sections.clone(), native.incremental.len()),
        (canonical[0].sections.clone(), 0)
    );
    let mut rocksdb = backend(folder.path(), true)?;
    rocksdb.restore_snapshot(&native, &store)?;
    assert_eq!(rocksdb.value::<u64>("sum")?.get(&CurrentKey::new(&7u64, 7u64.key_hash(groups())))?, Some(7));
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Add {
        from: u64,
        count: u64,
    },
    /// A checkpoint begins, a full one or as configured.
    Freeze {
        full: bool,
    },
    /// The oldest checkpoint on its way is written and completed.
    Complete {
        notice: bool,
    },
    Abort {
        written: bool,
        notice: bool,
    },
    Savepoint,
    /// The oldest savepoint is written. Its owner may delete it at once, and of one that failed, or that a
    /// stop took, the backend may be told.
    Write {
        delete: bool,
        notice: Option<bool>,
    },
    Restore {
        savepoint: bool,
    },
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u64..1000, 1u64..40).prop_map(|(from, count)| Step::Add { from, count }),
        4 => prop::bool::weighted(0.2).prop_map(|full| Step::Freeze { full }),
        4 => any::<bool>().prop_map(|notice| Step::Complete { notice }),
        1 => any::<(bool, bool)>().prop_map(|(written, notice)| Step::Abort { written, notice }),
        3 => Just(Step::Savepoint),
        3 => any::<(bool, Option<bool>)>().prop_map(|(delete, notice)| Step::Write { delete, notice }),
        1 => any::<bool>().prop_map(|savepoint| Step::Restore { savepoint }),
        2 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 0..40)
}

/// Deletes all shared files but those of the completed checkpoint, as the system does.
fn clean(folder: &Path, completed: Option<&(KeyedSnapshot, Model)>) -> Result {
    let named: Vec<&str> = completed.into_iter().flat_map(|(snapshot, _)| paths(snapshot)).collect();
    for entry in fs::read_dir(folder.join("store/shared"))? {
        let entry = entry?;
        let path = format!("shared/{}", entry.file_name().to_string_lossy());
        if !named.contains(&path.as_str()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn run(steps: Vec<Step>) -> Result {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let store = SharedStore::new(&folder.join("store"));
    let (mut running, mut model) = (backend(folder, true)?, Model::default());
    let mut id = 0;
    let mut written: BTreeSet<String> = BTreeSet::new();
    let (mut checkpoints, mut savepoints) = (Vec::new(), Vec::new());
    let mut completed: Option<(KeyedSnapshot, Model)> = None;
    let mut kept: Option<(KeyedSnapshot, Model)> = None;
    for step in steps {
        match step {
            Step::Add { from, count } => {
                (from..from + count).try_for_each(|key| add(&mut running, &mut model, key))?;
            }
            Step::Freeze { full } => {
                id += 1;
                let form = if full { SnapshotForm::FullCheckpoint } else { SnapshotForm::Checkpoint };
                let frozen = running.freeze_as(CheckpointId(id), form)?;
                let older = full.then(|| written.clone());
                checkpoints.push((CheckpointId(id), frozen, model.clone(), older));
            }
            Step::Complete { notice } if !checkpoints.is_empty() => {
                let (id, frozen, then, older) = checkpoints.remove(0);
                let snapshot = frozen.write(&store, "state")?;
                let of_older = |path: &str| older.as_ref().is_some_and(|older| older.contains(path));
                assert!(!paths(&snapshot).any(of_older), "a full checkpoint names a file of an older one");
                written.extend(paths(&snapshot).map(str::to_owned));
                // with two on their way one may name files that the completion of the other has deleted: the
                // coordinator knows
                if !paths(&snapshot).all(|path| folder.join("store").join(path).is_file()) {
                    running.checkpoint_aborted(id);
                    continue;
                }
                if notice {
                    running.checkpoint_completed(id);
                }
                completed = Some((snapshot, then));
                clean(folder, completed.as_ref())?;
            }
            Step::Abort { written, notice } if !checkpoints.is_empty() => {
                let (id, frozen, ..) = checkpoints.remove(0);
                if written {
                    frozen.write(&store, "state")?;
                }
                if notice {
                    running.checkpoint_aborted(id);
                }
                clean(folder, completed.as_ref())?;
            }
            Step::Savepoint => {
                id += 1;
                let frozen = running.freeze_as(CheckpointId(id), NATIVE)?;
                savepoints.push((CheckpointId(id), frozen, model.clone()));
            }
            Step::Write { delete, notice } if !savepoints.is_empty() => {
                let (id, frozen, then) = savepoints.remove(0);
                let snapshot = frozen.write(&store, "savepoint")?;
                match notice {
                    Some(true) => running.checkpoint_completed(id),
                    Some(false) => running.checkpoint_aborted(id),
                    None => {}
                }
                assert!(paths(&snapshot).all(|path| path.starts_with("own/")));
                match delete {
                    true => paths(&snapshot)
                        .try_for_each(|path| fs::remove_file(folder.join("store").join(path)))?,
                    false => kept = Some((snapshot, then)),
                }
            }
            Step::Restore { savepoint } => {
                let from = if savepoint { &kept } else { &completed };
                if let Some((snapshot, then)) = from {
                    running = backend(folder, true)?;
                    running.restore_snapshot(snapshot, &store)?;
                    model = then.clone();
                    checkpoints.clear();
                    savepoints.clear();
                }
            }
            Step::Compact => running.compact("sum")?,
            Step::Complete { .. } | Step::Abort { .. } | Step::Write { .. } => {}
        }
        for (snapshot, then) in completed.iter().chain(&kept) {
            let there = |path: &str| folder.join("store").join(path).is_file();
            assert!(paths(snapshot).all(there), "a file is gone");
            assert!(then.0.len() >= then.1.len());
        }
    }
    for (snapshot, then) in completed.iter().chain(&kept) {
        check(folder, snapshot, &store, then)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn savepoints_between_checkpoints_disturb_neither(steps in steps()) {
        run(steps).unwrap();
    }
}
