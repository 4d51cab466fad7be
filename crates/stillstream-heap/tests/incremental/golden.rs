//! Chains of every released format version stay readable.

use std::path::Path;
use std::sync::Arc;

use stillstream_heap::HeapKeyedStateBackend;
use stillstream_state::{
    BackendOptions, Key, KeyedBackend, KeyedValues, NamespacedValues, StateError, TimeDomain, TimerService,
};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, IncrementalFormat, IncrementalHandle, KeyGroups, KeyHash, KeyedSnapshot, NamedStream,
    StreamHandle, Timestamp,
};

use crate::store::SharedFiles;

fn groups() -> KeyGroups {
    KeyGroups::new(3)
}

fn hash(key: u64) -> KeyHash {
    key.key_hash(groups())
}

fn backend() -> HeapKeyedStateBackend<u64> {
    HeapKeyedStateBackend::new(BackendOptions::new(groups(), groups().all()).incremental(true))
}

/// An image of three keys and two windows, and changes: one key more, one less, one other; a window gone and
/// one new.
fn write(store: &SharedFiles) -> Result<KeyedSnapshot, StateError> {
    let mut backend = backend();
    let sums = backend.keyed_value::<u64>("sums")?;
    let windows = backend.namespaced::<i64, u16>("windows")?;
    let timers = backend.timers::<()>("t", TimeDomain::EventTime)?;
    (1..=3).try_for_each(|key| sums.insert(hash(key), &key, key * 100))?;
    windows.insert(10, hash(1), &1, 11)?;
    windows.insert(20, hash(2), &2, 22)?;
    timers.register(Timestamp::from_millis(5), hash(1), &1, ()).unwrap();
    backend.freeze_checkpoint(CheckpointId(1))?.write(store, "golden")?;
    backend.checkpoint_completed(CheckpointId(1));
    sums.insert(hash(4), &4, 400)?;
    sums.insert(hash(2), &2, 201)?;
    sums.remove(hash(3), &3)?;
    windows.remove_namespace(10)?;
    windows.insert(30, hash(3), &3, 33)?;
    timers.register(Timestamp::from_millis(9), hash(2), &2, ()).unwrap();
    backend.freeze_checkpoint(CheckpointId(2))?.write(store, "golden")
}

fn check(snapshot: &KeyedSnapshot, store: &SharedFiles) -> Result<(), StateError> {
    let mut backend = backend();
    backend.restore_snapshot(snapshot, store)?;
    let sums = backend.keyed_value::<u64>("sums")?;
    let found = [1, 2, 3, 4].map(|key| sums.get(hash(key), &key).unwrap());
    assert_eq!(found, [Some(100), Some(201), None, Some(400)]);
    let windows = backend.namespaced::<i64, u16>("windows")?;
    assert_eq!(windows.namespaces()?, [20, 30]);
    assert_eq!((windows.get(20, hash(2), &2)?, windows.get(30, hash(3), &3)?), (Some(22), Some(33)));
    let timers = backend.timers::<()>("t", TimeDomain::EventTime)?;
    let due = [(); 3]
        .map(|()| timers.pop_due(Timestamp::MAX).unwrap().map(|timer| (timer.time.as_millis(), timer.key)));
    assert_eq!(due, [Some((5, 1)), Some((9, 2)), None]);
    Ok(())
}

const FILES: [&str; 3] = ["chain-v1-files.bin", "chain-v1-image.bin", "chain-v1-changes.bin"];

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
}

#[test]
fn a_chain_of_version_1_is_readable() -> Result<(), StateError> {
    let [meta, image, changes] = FILES.map(|name| StreamHandle::Inline { bytes: Arc::from(golden(name)) });
    let named = |name: &str, stream| NamedStream { name: name.into(), stream };
    let handle = IncrementalHandle {
        range: groups().all(),
        format: IncrementalFormat::HeapChain,
        backend: 7,
        meta,
        files: vec![named("image-1", image), named("changes-2", changes)],
    };
    let snapshot = KeyedSnapshot { keyed: Vec::new(), incremental: vec![handle] };
    check(&snapshot, &SharedFiles::default())
}

#[test]
fn a_chain_that_is_written_now_equals_the_golden_files() -> Result<(), StateError> {
    let store = SharedFiles::default();
    let snapshot = write(&store)?;
    check(&snapshot, &store)?;
    for (name, stream) in FILES.into_iter().zip(snapshot.incremental[0].streams()) {
        let written = store.read_all(stream).unwrap();
        assert!(
            written == golden(name),
            "{name}: the format changed: it needs a new version and a reader for the old one"
        );
    }
    let names = snapshot.incremental[0].files.iter().map(|file| file.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["image-1", "changes-2"]);
    Ok(())
}
