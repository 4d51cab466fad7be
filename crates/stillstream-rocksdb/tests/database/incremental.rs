//! Incremental checkpoints of the RocksDB backend, on real files.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::shared_store::SharedStore;
use stillstream_config::CompactionStyle;
use stillstream_heap::HeapKeyedStateBackend;
use stillstream_rocksdb::{
    LocalRecovery, MemoryBudget, RocksDbBackendFactory, RocksDbKeyedStateBackend, RocksDbOptions,
};
use stillstream_state::conformance::a_full_checkpoint_begins_anew_and_later_ones_build_on_it;
use stillstream_state::{
    BackendOptions, CurrentKey, Key, KeyedBackend, KeyedValues, MemorySnapshotStore, NamespaceWalk,
    NamespacedValues, StateError, TimeDomain, TimerService,
};
use stillstream_types::{
    CheckpointId, ErrorKind, KeyGroupRange, KeyGroups, KeyedSnapshot, StreamHandle, Timestamp,
};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

fn groups() -> KeyGroups {
    KeyGroups::new(128)
}

fn at(key: &u64) -> CurrentKey<'_> {
    CurrentKey::new(key, key.key_hash(groups()))
}

/// Files only change when a test says so.
fn options(folder: &Path) -> RocksDbOptions {
    RocksDbOptions {
        memory: MemoryBudget { total_bytes: Some(32 << 20), ..MemoryBudget::default() },
        compaction: Some(CompactionStyle::None),
        ..RocksDbOptions::new(folder.join("local"))
    }
}

fn backend_with(
    range: KeyGroupRange,
    options: RocksDbOptions,
) -> Result<RocksDbKeyedStateBackend<u64>, StateError> {
    RocksDbKeyedStateBackend::new(BackendOptions::new(groups(), range).incremental(true), options)
}

fn backend(folder: &Path) -> Result<RocksDbKeyedStateBackend<u64>, StateError> {
    backend_with(groups().all(), options(folder))
}

fn checkpoint(
    backend: &mut RocksDbKeyedStateBackend<u64>,
    id: u64,
    store: &SharedStore,
) -> Result<KeyedSnapshot, StateError> {
    backend.freeze_checkpoint(CheckpointId(id))?.write(store, "count-0")
}

fn tables(snapshot: &KeyedSnapshot) -> BTreeSet<String> {
    let files = snapshot.incremental.iter().flat_map(|handle| &handle.files);
    files.filter(|file| file.name.ends_with(".sst")).map(|file| file.name.clone()).collect()
}

fn compact(backend: &RocksDbKeyedStateBackend<u64>, state: &str) -> Result<(), StateError> {
    backend.compact(state)
}

/// Checkpoint 1 has 1, 2, 3.sst; checkpoint 2 has 1, 2, 4.sst and uploads only 4; checkpoint 3 has 4, 5.sst.
fn worked_example(second_is_completed: bool) -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut running = backend(folder.path())?;
    let (a, b, c) = (running.value::<u64>("a")?, running.value::<u64>("b")?, running.value::<u64>("c")?);
    for state in [&a, &b, &c] {
        state.set(&at(&1), 1)?;
    }
    let first = checkpoint(&mut running, 1, &store)?;
    assert_eq!((tables(&first).len(), store.take_uploads()), (3, 3));
    running.checkpoint_completed(CheckpointId(1));

    // files that do not overlap are not put together
    c.set(&at(&1), 1)?;
    c.set(&at(&2), 2)?;
    compact(&running, "c")?;
    let second = checkpoint(&mut running, 2, &store)?;
    let four: Vec<String> = tables(&second).difference(&tables(&first)).cloned().collect();
    assert_eq!((tables(&second).len(), four.len(), store.take_uploads()), (3, 1, 1));
    match second_is_completed {
        true => running.checkpoint_completed(CheckpointId(2)),
        false => running.checkpoint_aborted(CheckpointId(2)),
    }

    a.clear(&at(&1))?;
    compact(&running, "a")?;
    b.set(&at(&1), 3)?;
    compact(&running, "b")?;
    let third = checkpoint(&mut running, 3, &store)?;
    assert_eq!(tables(&third).len(), 2, "{:?} {:?} {:?}", tables(&first), tables(&second), tables(&third));
    assert!(tables(&third).contains(&four[0]));
    assert_eq!(store.take_uploads(), if second_is_completed { 1 } else { 2 });

    for (snapshot, expected) in [
        (&first, [Some(1), Some(1), None]),
        (&second, [Some(1), Some(1), Some(2)]),
        (&third, [None, Some(3), Some(2)]),
    ] {
        let mut again = backend(folder.path())?;
        again.restore_snapshot(snapshot, &store)?;
        let read = |name: &str, key: u64, backend: &mut RocksDbKeyedStateBackend<u64>| {
            backend.value::<u64>(name)?.get(&at(&key))
        };
        let found = [read("a", 1, &mut again)?, read("b", 1, &mut again)?, read("c", 2, &mut again)?];
        assert_eq!(found, expected);
    }
    Ok(())
}

#[test]
fn only_new_files_are_uploaded_after_a_completed_checkpoint() -> Result {
    worked_example(true)
}

#[test]
fn files_of_an_aborted_checkpoint_are_uploaded_again() -> Result {
    worked_example(false)
}

#[test]
fn files_of_a_checkpoint_that_is_not_completed_yet_are_not_named() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut running = backend(folder.path())?;
    running.value::<u64>("n")?.set(&at(&1), 1)?;
    let first = checkpoint(&mut running, 1, &store)?;
    let second = checkpoint(&mut running, 2, &store)?;
    assert_eq!((tables(&first), store.take_uploads()), (tables(&second), 2));
    // both wrote the file; the notice of 1 comes late and changes nothing
    running.checkpoint_completed(CheckpointId(2));
    running.checkpoint_completed(CheckpointId(1));
    let third = checkpoint(&mut running, 3, &store)?;
    assert_eq!(store.take_uploads(), 0);
    let shared = |snapshot: &KeyedSnapshot| -> Vec<StreamHandle> {
        let files = snapshot.incremental[0].files.iter().filter(|file| file.stream.is_shared());
        files.map(|file| file.stream.clone()).collect()
    };
    assert_eq!(shared(&third), shared(&second));
    Ok(())
}

#[test]
fn a_storage_that_shares_nothing_gets_every_file_each_time() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::without_sharing(&folder.path().join("store"));
    let mut running = backend(folder.path())?;
    let state = running.value::<u64>("n")?;
    for id in 1..4 {
        state.set(&at(&id), id)?;
        let snapshot = checkpoint(&mut running, id, &store)?;
        assert!(snapshot.incremental[0].files.iter().all(|file| !file.stream.is_shared()));
        running.checkpoint_completed(CheckpointId(id));
        let mut again = backend(folder.path())?;
        again.restore_snapshot(&snapshot, &store)?;
        assert_eq!(again.keyed_value::<u64>("n")?.len()?, id as usize);
    }
    Ok(())
}

/// What a backend holds, by state and key.
fn contents(
    backend: &mut impl KeyedBackend<Key = u64>,
) -> Result<BTreeMap<(&'static str, u64), String>, StateError> {
    let range = backend.options().range;
    let (value, list) = (backend.value::<String>("value")?, backend.list::<u64>("list")?);
    let (map, windows) = (backend.map::<u8, u64>("map")?, backend.namespaced::<i64, u64>("windows")?);
    let timers = backend.timers::<()>("timers", TimeDomain::EventTime)?;
    let mut found = BTreeMap::new();
    for key in (0..KEYS).filter(|key| range.contains(at(key).hash.group())) {
        found.extend(value.get(&at(&key))?.map(|text| (("value", key), text)));
        found.insert(("list", key), format!("{:?}", list.get(&at(&key))?));
        let mut entries = map.entries(&at(&key))?;
        entries.sort();
        found.insert(("map", key), format!("{entries:?}"));
    }
    for window in windows.namespaces()? {
        let (mut walk, mut entries) = (windows.read_namespace(window)?, Vec::new());
        while walk.next_slice(100, &mut entries)? {}
        found.extend(entries.into_iter().map(|(_, key, n)| (("window", key), format!("{window} {n}"))));
    }
    while let Some(timer) = timers.pop_due(Timestamp::MAX)? {
        assert!(range.contains(timer.hash.group()));
        found.insert(("timer", timer.key), timer.time.as_millis().to_string());
    }
    Ok(found)
}

const KEYS: u64 = 600;

fn fill(
    backend: &mut impl KeyedBackend<Key = u64>,
    keys: impl Iterator<Item = u64>,
) -> Result<(), StateError> {
    let (value, list) = (backend.value::<String>("value")?, backend.list::<u64>("list")?);
    let (map, windows) = (backend.map::<u8, u64>("map")?, backend.namespaced::<i64, u64>("windows")?);
    let timers = backend.timers::<()>("timers", TimeDomain::EventTime)?;
    let range = backend.options().range;
    for key in keys.filter(|key| range.contains(at(key).hash.group())) {
        value.set(&at(&key), format!("value {key}"))?;
        list.add_all(&at(&key), [key, key + 1])?;
        list.add(&at(&key), 7)?;
        map.put_all(&at(&key), (0..(key % 4) as u8).map(|n| (n, key)))?;
        windows.insert(key as i64 % 3, at(&key).hash, &key, key)?;
        timers.register(Timestamp::from_millis(key as i64 % 50), at(&key).hash, &key, ())?;
    }
    Ok(())
}

#[test]
fn three_subtasks_become_four_and_four_become_three_with_every_entry_once() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut expected = None;
    let mut subtasks = Vec::new();
    for index in 0..3 {
        let mut subtask = backend_with(groups().range(index, 3), options(folder.path()))?;
        fill(&mut subtask, 0..KEYS)?;
        subtasks.push(subtask);
    }
    for (id, parallelism) in [(1, 4), (2, 3), (3, 1), (4, 2), (5, 2)] {
        let mut all = KeyedSnapshot::default();
        for subtask in &mut subtasks {
            let snapshot = checkpoint(subtask, id, &store)?;
            assert!(snapshot.keyed.is_empty());
            all.incremental.extend(snapshot.incremental);
        }
        subtasks.clear();
        let mut found = BTreeMap::new();
        for index in 0..parallelism {
            // timers are taken by looking at them, so one backend is looked at and another one goes on
            for look in [true, false] {
                let mut subtask = backend_with(groups().range(index, parallelism), options(folder.path()))?;
                subtask.restore_snapshot(&all, &store)?;
                match look {
                    true => found.extend(contents(&mut subtask)?),
                    false => subtasks.push(subtask),
                }
            }
        }
        assert_eq!(found.keys().filter(|(state, _)| *state == "timer").count(), KEYS as usize);
        assert_eq!(&found, expected.get_or_insert_with(|| found.clone()), "to {parallelism}");
    }
    Ok(())
}

#[test]
fn a_restore_of_the_same_key_groups_opens_the_files_and_names_them_again() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut running = backend(folder.path())?;
    fill(&mut running, 0..KEYS)?;
    let first = checkpoint(&mut running, 1, &store)?;
    drop(running);
    store.take_uploads();
    let mut again = backend(folder.path())?;
    again.restore_snapshot(&first, &store)?;
    let second = checkpoint(&mut again, 2, &store)?;
    assert_eq!((tables(&second), store.take_uploads()), (tables(&first), 0));
    again.value::<String>("value")?.set(&at(&0), "new".into())?;
    let third = checkpoint(&mut again, 3, &store)?;
    assert_eq!(store.take_uploads(), 1);
    let mut last = backend(folder.path())?;
    last.restore_snapshot(&third, &store)?;
    assert_eq!(last.value::<String>("value")?.get(&at(&0))?.as_deref(), Some("new"));
    assert_eq!(last.value::<String>("value")?.get(&at(&1))?.as_deref(), Some("value 1"));
    Ok(())
}

#[test]
fn a_job_changes_from_heap_to_rocksdb_and_back_by_canonical_snapshots() -> Result {
    let folder = tempfile::tempdir()?;
    let store = MemorySnapshotStore::unlimited();
    let mut heap = HeapKeyedStateBackend::new(BackendOptions::new(groups(), groups().all()));
    fill(&mut heap, 0..KEYS)?;
    let handles = heap.freeze()?.write(&store, "heap")?;
    let expected = contents(&mut heap)?;
    let mut rocksdb = backend(folder.path())?;
    rocksdb.restore(&handles, &store)?;
    let back = rocksdb.freeze()?.write(&store, "rocksdb")?;
    assert_eq!(contents(&mut rocksdb)?, expected);
    let mut heap = HeapKeyedStateBackend::new(BackendOptions::new(groups(), groups().all()));
    heap.restore(&back, &store)?;
    assert_eq!(contents(&mut heap)?, expected);
    Ok(())
}

#[test]
fn a_failed_upload_fails_its_checkpoint_and_the_next_one_uploads_everything() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut running = backend(folder.path())?;
    let state = running.value::<u64>("n")?;
    state.set(&at(&1), 1)?;
    store.full.store(true, Ordering::Relaxed);
    let Err(error) = checkpoint(&mut running, 1, &store) else { panic!("the storage is full") };
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().contains("count-0"), "{error}");
    running.checkpoint_aborted(CheckpointId(1));
    store.full.store(false, Ordering::Relaxed);
    store.take_uploads();
    assert_eq!(state.get(&at(&1))?, Some(1), "the job goes on");
    checkpoint(&mut running, 2, &store)?;
    assert_eq!(store.take_uploads(), 1);
    assert_eq!(folders_of_checkpoints(folder.path())?, Vec::<PathBuf>::new(), "the hard links are gone");
    Ok(())
}

/// Folders `chk-..` below the work folders.
fn folders_of_checkpoints(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for work in fs::read_dir(folder.join("local"))? {
        for entry in fs::read_dir(work?.path())? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("chk-")) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

#[test]
fn every_damaged_or_cut_file_of_a_checkpoint_is_refused_by_name() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut running = backend(folder.path())?;
    fill(&mut running, 0..50)?;
    let snapshot = checkpoint(&mut running, 1, &store)?;
    for stream in snapshot.incremental[0].streams() {
        let (path, whole) = (store.path(stream), fs::read(store.path(stream))?);
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        for damaged in [&flipped[..], &whole[..whole.len() - 1], &[]] {
            fs::write(&path, damaged)?;
            let mut again = backend(folder.path())?;
            let Err(error) = again.restore_snapshot(&snapshot, &store) else {
                panic!("{} is damaged", path.display())
            };
            assert_eq!(error.kind(), ErrorKind::CorruptSnapshot, "{error}");
            assert!(error.to_string().contains(stream.path().expect("a file")), "{error}");
        }
        fs::write(&path, whole)?;
    }
    backend(folder.path())?.restore_snapshot(&snapshot, &store)?;
    Ok(())
}

fn with_local_copies(folder: &Path) -> RocksDbOptions {
    RocksDbOptions { local_recovery: Some(LocalRecovery { dir: folder.join("copies") }), ..options(folder) }
}

#[test]
fn a_local_copy_spares_the_download_and_a_damaged_one_is_not_used() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut running = backend_with(groups().all(), with_local_copies(folder.path()))?;
    fill(&mut running, 0..KEYS)?;
    let snapshot = checkpoint(&mut running, 1, &store)?;
    running.checkpoint_completed(CheckpointId(1));
    let expected = contents(&mut running)?;
    drop(running);

    // with the shared files gone from the storage, only the local copy can be read
    let (shared, hidden) = (folder.path().join("store/shared"), folder.path().join("store/hidden"));
    fs::rename(&shared, &hidden)?;
    let mut again = backend_with(groups().all(), with_local_copies(folder.path()))?;
    again.restore_snapshot(&snapshot, &store)?;
    assert_eq!(contents(&mut again)?, expected);
    drop(again);

    fs::rename(&hidden, &shared)?;
    for entry in fs::read_dir(folder.path().join("copies/chk-1"))? {
        let path = entry?.path();
        let mut bytes = fs::read(&path)?;
        let middle = bytes.len() / 2;
        // the write-ahead log is empty
        bytes.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 1);
        // a new file: the old one's bytes may be hard-linked elsewhere
        fs::remove_file(&path)?;
        fs::write(&path, bytes)?;
    }
    let mut again = backend_with(groups().all(), with_local_copies(folder.path()))?;
    again.restore_snapshot(&snapshot, &store)?;
    assert_eq!(contents(&mut again)?, expected);
    Ok(())
}

#[test]
fn at_most_two_local_copies_are_kept_when_every_notice_is_lost() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut running = backend_with(groups().all(), with_local_copies(folder.path()))?;
    let state = running.value::<u64>("n")?;
    for id in 1..=20 {
        state.set(&at(&id), id)?;
        checkpoint(&mut running, id, &store)?;
        assert!(fs::read_dir(folder.path().join("copies"))?.count() <= 2);
    }
    running.checkpoint_completed(CheckpointId(20));
    let left: Vec<_> = fs::read_dir(folder.path().join("copies"))?.collect::<std::io::Result<_>>()?;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].file_name(), "chk-20");
    Ok(())
}

#[test]
fn a_snapshot_of_another_backends_form_is_refused_with_what_to_do() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut running = backend(folder.path())?;
    running.value::<u64>("n")?.set(&at(&1), 1)?;
    let mut snapshot = checkpoint(&mut running, 1, &store)?;
    snapshot.incremental[0].format = stillstream_types::IncrementalFormat::HeapChain;
    let Err(error) = backend(folder.path())?.restore_snapshot(&snapshot, &store) else {
        panic!("it is not ours")
    };
    assert!(error.to_string().contains("canonical"), "{error}");
    Ok(())
}

#[test]
fn a_full_checkpoint_uploads_every_file_anew_and_later_ones_build_on_it() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let factory = RocksDbBackendFactory { incremental: true, options: options(folder.path()).into() };
    a_full_checkpoint_begins_anew_and_later_ones_build_on_it(&factory, &store)?;
    Ok(())
}

#[test]
fn a_file_name_that_leads_out_of_the_folder_is_refused() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let mut running = backend(folder.path())?;
    running.value::<u64>("n")?.set(&at(&1), 1)?;
    let mut snapshot = checkpoint(&mut running, 1, &store)?;
    snapshot.incremental[0].files[0].name = "../../elsewhere".into();
    let Err(error) = backend(folder.path())?.restore_snapshot(&snapshot, &store) else {
        panic!("it leads out")
    };
    assert!(error.to_string().contains("elsewhere"), "{error}");
    assert!(!folder.path().join("elsewhere").exists());
    Ok(())
}

#[test]
fn with_one_percent_of_a_million_keys_changed_a_checkpoint_uploads_a_fraction_of_a_full_one() -> Result {
    const KEYS: u64 = 1_000_000;
    let folder = tempfile::tempdir()?;
    // with RocksDB's own compactions, whose output is uploaded too
    let options = RocksDbOptions { compaction: None, ..options(folder.path()) };
    let found = crate::one_percent::measure(folder.path(), KEYS, 9, options)?;
    println!("{KEYS} keys, 1 % changed: {found:?}, mean {}", found.mean());
    assert!(found.full > KEYS * 24, "every key and value");
    // most upload one small file; now and then one has the output of a compaction
    assert!(found.mean() * 4 < found.full, "{found:?}");
    Ok(())
}
