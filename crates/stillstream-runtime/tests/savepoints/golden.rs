//! A savepoint of each version stays readable, and today's is written with the same bytes.
//!
//! A new version gets a directory of its own beside these, which stay as they are: copy into it what `write`
//! makes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use stillstream_heap::HeapBackendFactory;
use stillstream_state::conformance::{Everything, all_groups, backend_of};
use stillstream_state::{BackendFactory, KeyedBackend, OperatorStateBackend};
use stillstream_storage::{RetainedCheckpoint, StorageOptions, VerifyMode};
use stillstream_types::{CheckpointKind, SubtaskIndex};

use crate::written::{PARALLELISM, keys, write_canonical};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Restores a savepoint at its own parallelism and compares it with what is written today.
fn check(directory: &Path, factory: &impl BackendFactory) {
    let opened = RetainedCheckpoint::open(directory.to_str().unwrap(), &StorageOptions::default()).unwrap();
    opened.verify(VerifyMode::Checksums).unwrap();
    let metadata = opened.metadata();
    assert_eq!((metadata.kind, metadata.id.0, metadata.operators.len()), (CheckpointKind::Savepoint, 17, 1));
    for index in 0..PARALLELISM {
        let state = &metadata.operators[0].subtasks[&SubtaskIndex(index)];
        let range = all_groups().range(index, PARALLELISM);
        let mut restored = backend_of(factory, range).unwrap();
        restored.restore_snapshot(&state.keyed_snapshot(), opened.streams()).unwrap();
        let mut restored = Everything::register(restored).unwrap();
        let mut expected =
            Everything::register(backend_of(&HeapBackendFactory::default(), range).unwrap()).unwrap();
        for (n, key) in keys(range) {
            expected.set(&key, n).unwrap();
            assert_eq!(restored.ask(&key).unwrap(), expected.ask(&key).unwrap(), "{key}");
        }
        assert_eq!(restored.entries().unwrap(), expected.entries().unwrap());
        let mut operator = OperatorStateBackend::new(SubtaskIndex(index));
        operator.restore(&state.operator, opened.streams()).unwrap();
        let offset = u64::from(index) * 100;
        let splits = operator.list::<(String, u64)>("splits").unwrap().get().unwrap();
        assert_eq!(splits, [("a".to_string(), offset), ("b".to_string(), offset + 1)]);
        assert_eq!(operator.union_list::<u32>("seen").unwrap().get().unwrap(), [index]);
        let rules = operator.broadcast::<String, bool>("rules").unwrap();
        assert_eq!(rules.get(&"strict".into()).unwrap(), Some(true));
    }
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn a_savepoint_of_version_1_in_canonical_form_is_read_by_both_backends() {
    check(&golden("savepoint-v1"), &HeapBackendFactory::default());
    #[cfg(feature = "rocksdb")]
    {
        let folder = tempfile::tempdir().unwrap();
        check(&golden("savepoint-v1"), &rocksdb(folder.path()));
    }
}

#[test]
fn a_savepoint_that_is_written_now_has_the_bytes_of_the_golden_one() {
    let folder = tempfile::tempdir().unwrap();
    let now = folder.path().join("savepoint");
    write_canonical(&now);
    check(&now, &HeapBackendFactory::default());
    let (written, golden) = (files(&now), files(&golden("savepoint-v1")));
    assert_eq!(written.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>());
    // the order of a map's entries, which the form leaves open, follows the width of the processor's vectors
    if cfg!(target_arch = "x86_64") {
        for (name, bytes) in &written {
            assert!(
                *bytes == golden[name],
                "{name}: the format changed: it needs a new version and a reader for the old one"
            );
        }
    }
}

#[cfg(feature = "rocksdb")]
fn rocksdb(folder: &Path) -> stillstream_rocksdb::RocksDbBackendFactory {
    let options = stillstream_rocksdb::RocksDbOptions::new(folder.join("local"));
    stillstream_rocksdb::RocksDbBackendFactory { incremental: false, options: options.into() }
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_savepoint_of_version_2_in_rocksdbs_own_form_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    check(&golden("savepoint-v2-rocksdb"), &rocksdb(folder.path()));
    // what is written now is read too; its bytes differ: RocksDB writes times and its version into its files
    let now = folder.path().join("savepoint");
    let native = stillstream_types::SavepointFormat::Native;
    crate::written::write(&now, &rocksdb(folder.path()), native).unwrap();
    check(&now, &rocksdb(folder.path()));
}
