//! A bit that has turned, or a part that is missing, at any place of any file of a savepoint: it is found,
//! named, and never restored.

use std::fs;
use std::path::Path;

use stillstream_heap::HeapBackendFactory;
use stillstream_state::conformance::{all_groups, backend_of};
use stillstream_state::{BackendFactory, KeyedBackend, OperatorStateBackend};
use stillstream_storage::{RetainedCheckpoint, StorageError, StorageOptions, VerifyMode};
use stillstream_types::{ErrorKind, SubtaskIndex};

use crate::written::{PARALLELISM, write_canonical};

/// Numbers that look random and are the same in each run (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What `verify` says.
fn verified(directory: &Path) -> Result<(), StorageError> {
    let opened = RetainedCheckpoint::open(directory.to_str().unwrap(), &StorageOptions::default())?;
    opened.verify(VerifyMode::Checksums)
}

/// Restores every subtask.
fn restored(directory: &Path, factory: &impl BackendFactory) -> Result<(), (ErrorKind, String)> {
    let said = |kind: ErrorKind, text: String| (kind, text);
    let opened = RetainedCheckpoint::open(directory.to_str().unwrap(), &StorageOptions::default())
        .map_err(|error| said(error.kind(), error.to_string()))?;
    for index in 0..PARALLELISM {
        let state = &opened.metadata().operators[0].subtasks[&SubtaskIndex(index)];
        let mut backend = backend_of(factory, all_groups().range(index, PARALLELISM)).unwrap();
        let keyed = backend.restore_snapshot(&state.keyed_snapshot(), opened.streams());
        keyed.map_err(|error| said(error.kind(), error.to_string()))?;
        let mut operator = OperatorStateBackend::new(SubtaskIndex(index));
        let read = operator.restore(&state.operator, opened.streams());
        read.map_err(|error| said(error.kind(), error.to_string()))?;
    }
    Ok(())
}

/// Damages each file at many places, so many bits beside its first and last one; nothing may pass.
fn every_damage_is_found(directory: &Path, factory: &impl BackendFactory, flips: u64) {
    verified(directory).unwrap();
    restored(directory, factory).unwrap();
    let mut random = 1;
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        let path = directory.join(&name);
        let name = name.to_str().unwrap();
        let whole = fs::read(&path).unwrap();
        let bits = (0..flips).map(|_| next(&mut random) % (whole.len() as u64 * 8));
        let ends = [0, whole.len() as u64 * 8 - 1];
        let mut damages: Vec<(String, Vec<u8>)> = bits
            .chain(ends)
            .map(|bit| {
                let mut bytes = whole.clone();
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                (format!("bit {bit} of {name} is flipped"), bytes)
            })
            .collect();
        for len in [0, next(&mut random) as usize % whole.len(), whole.len() - 1] {
            damages.push((format!("{name} ends at {len}"), whole[..len].to_vec()));
        }
        for (what, bytes) in damages {
            fs::write(&path, bytes).unwrap();
            let Err(error) = verified(directory) else { panic!("{what}, and verify has not found it") };
            let StorageError::Corrupt { path, expected, found, .. } = &error else {
                panic!("{what}: {error}")
            };
            assert!(path.ends_with(name) && expected != found, "{what}: {error}");
            assert!(error.to_string().contains(expected) && error.to_string().contains(found), "{error}");
            let Err((kind, text)) = restored(directory, factory) else {
                panic!("{what}, and it was restored")
            };
            assert_eq!(kind, ErrorKind::CorruptSnapshot, "{what}: {text}");
            assert!(text.contains(name), "{what}: {text}");
        }
        // one byte too many is no part of what was written: it is told, though nobody would read it
        fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        let error = verified(directory).expect_err("a byte too many").to_string();
        assert!(error.contains(name), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(verified(directory).is_err() && restored(directory, factory).is_err(), "{name} is gone");
        fs::write(&path, whole).unwrap();
    }
    verified(directory).unwrap();
}

#[test]
fn every_damaged_place_of_a_canonical_savepoint_is_found_named_and_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let savepoint = folder.path().join("savepoint");
    write_canonical(&savepoint);
    every_damage_is_found(&savepoint, &HeapBackendFactory::default(), 200);
}

#[cfg(feature = "rocksdb")]
#[test]
fn every_damaged_place_of_a_native_savepoint_of_rocksdb_is_found_named_and_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let savepoint = folder.path().join("savepoint");
    let options = stillstream_rocksdb::RocksDbOptions::new(folder.path().join("local"));
    let factory = stillstream_rocksdb::RocksDbBackendFactory { incremental: true, options: options.into() };
    crate::written::write(&savepoint, &factory, stillstream_types::SavepointFormat::Native).unwrap();
    // of many files, and each is tried by making a database
    every_damage_is_found(&savepoint, &factory, 2);
}
