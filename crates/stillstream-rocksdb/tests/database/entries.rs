//! What is in RocksDB's own files is told without the program, and is what the canonical form says.

use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use crate::shared_store::SharedStore;
use stillstream_rocksdb::{MemoryBudget, RocksDbBackendFactory, RocksDbOptions, for_each_entry};
use stillstream_state::conformance::{Everything, PlainEntry, all_groups, backend_of};
use stillstream_state::snapshot::SnapshotEntry;
use stillstream_state::{Data, Key, KeyedBackend, StateError};
use stillstream_types::{CheckpointId, IncrementalHandle, KeyGroupRange, KeyedSnapshot};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

fn plain(entry: SnapshotEntry<'_>) -> PlainEntry {
    PlainEntry {
        state: entry.state.name.clone(),
        group: entry.group.0,
        key: entry.key.to_vec(),
        namespace: entry.namespace.to_vec(),
        time: entry.time,
        value: entry.value.to_vec(),
    }
}

fn told(
    handle: &IncrementalHandle,
    store: &SharedStore,
    folder: &Path,
) -> Result<Vec<PlainEntry>, StateError> {
    let mut found = Vec::new();
    for_each_entry(handle, store, &folder.join("look"), &mut |entry| {
        found.push(plain(entry));
        ControlFlow::Continue(())
    })?;
    found.sort();
    Ok(found)
}

fn keys_of(range: KeyGroupRange) -> impl Iterator<Item = (u64, String)> {
    let keys = (0..200u64).map(|n| (n, format!("user-{n}")));
    keys.filter(move |(_, key)| range.contains(key.key_hash(all_groups()).group()))
}

#[test]
fn the_entries_of_incremental_checkpoints_and_native_savepoints_are_those_of_the_canonical_form() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let factory = RocksDbBackendFactory {
        incremental: true,
        options: RocksDbOptions {
            memory: MemoryBudget { total_bytes: Some(32 << 20), ..MemoryBudget::default() },
            ..RocksDbOptions::new(folder.path().join("local"))
        }
        .into(),
    };
    let mut running = Everything::register(backend_of(&factory, all_groups().all())?)?;
    for (n, key) in keys_of(all_groups().all()) {
        running.set(&key, n)?;
    }
    running.backend.freeze_checkpoint(CheckpointId(1))?.write(&store, "first")?;
    running.backend.checkpoint_completed(CheckpointId(1));
    for (n, key) in keys_of(all_groups().all()).filter(|(n, _)| n % 3 == 0) {
        running.clear(&key, n)?;
    }
    let checkpoint = running.backend.freeze_checkpoint(CheckpointId(2))?.write(&store, "second")?;
    let savepoint = running.backend.freeze_native()?.write(&store, "savepoint")?;
    let expected = running.entries()?;
    assert!(expected.iter().any(|entry| entry.state == "map") && expected.len() > 1000);
    for snapshot in [&checkpoint, &savepoint] {
        assert_eq!(told(&snapshot.incremental[0], &store, folder.path())?, expected);
    }
    assert_eq!(fs::read_dir(folder.path().join("look"))?.count(), 0, "the copy is deleted");

    // entries that were cut off when key groups went elsewhere are not told of
    let half = all_groups().range(1, 2);
    let mut other = backend_of(&factory, half)?;
    other.restore_snapshot(&checkpoint, &store)?;
    let mut other = Everything::register(other)?;
    let part = other.backend.freeze_checkpoint(CheckpointId(3))?.write(&store, "half")?;
    let of_half = other.entries()?;
    assert!(of_half.len() > 100 && of_half.iter().all(|entry| half.start <= entry.group));
    assert_eq!(told(&part.incremental[0], &store, folder.path())?, of_half);
    Ok(())
}

#[test]
fn a_look_ends_when_it_has_enough_and_a_damaged_file_is_named() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let factory = RocksDbBackendFactory {
        incremental: true,
        options: RocksDbOptions::new(folder.path().join("local")).into(),
    };
    let mut running = Everything::register(backend_of(&factory, all_groups().all())?)?;
    for (n, key) in keys_of(all_groups().all()) {
        running.set(&key, n)?;
    }
    let KeyedSnapshot { incremental, .. } = running.backend.freeze_native()?.write(&store, "state")?;
    let (mut seen, look) = (Vec::new(), folder.path().join("look"));
    for_each_entry(&incremental[0], &store, &look, &mut |entry| {
        seen.push(String::decode(&mut { entry.key }).expect("a key"));
        if seen.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    assert_eq!(seen.len(), 3);
    for stream in incremental[0].streams() {
        let path = store.path(stream);
        let whole = fs::read(&path)?;
        let mut damaged = whole.clone();
        damaged[whole.len() / 3] ^= 8;
        fs::write(&path, damaged)?;
        let error = told(&incremental[0], &store, folder.path()).expect_err("it is damaged").to_string();
        assert!(error.contains(stream.path().expect("a file")), "{error}");
        fs::write(&path, whole)?;
    }
    Ok(())
}
