//! A savepoint's directory: its own, whole wherever it is moved, and never deleted when it may be complete.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use stillstream_storage::conformance::sample_metadata;
use stillstream_storage::{
    CheckpointStorage, RetainedCheckpoint, SavepointDirectory, StorageError, StorageOptions, VerifyMode,
};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointMetadata, CompletedRef, JobId, StreamHandle,
};
use tokio::runtime::Builder;

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

fn create(path: impl AsRef<Path>) -> Result<SavepointDirectory, StorageError> {
    SavepointDirectory::create(&text(path), &StorageOptions::default())
}

fn write(savepoint: &SavepointDirectory, bytes: &[u8]) -> StreamHandle {
    let mut stream = savepoint.snapshot_store("0-3").create("state").unwrap();
    stream.write_all(bytes).unwrap();
    stream.finish().unwrap()
}

fn metadata(streams: &[StreamHandle]) -> CheckpointMetadata {
    CheckpointMetadata {
        kind: CheckpointKind::Savepoint,
        ..sample_metadata(17, JobId::from_name("flights"), streams)
    }
}

fn names(path: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_savepoint_stays_whole_when_its_directory_is_moved_or_copied_and_nothing_else_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| -> PathBuf { dir.path().join(name) };
    let savepoint = create(place("a/savepoint-1")).unwrap();
    let (large, small) = (write(&savepoint, &[42; 100_000]), write(&savepoint, b"small"));
    assert!(large.path().is_some() && small.path().is_none(), "small state lies in the metadata");
    savepoint.write_metadata(&metadata(&[large.clone(), small])).unwrap();
    fs::create_dir(place("b")).unwrap();
    fs::rename(place("a/savepoint-1"), place("b/elsewhere")).unwrap();
    fs::remove_dir_all(place("a")).unwrap();
    let found = RetainedCheckpoint::open(&text(place("b/elsewhere")), &StorageOptions::default()).unwrap();
    found.verify(VerifyMode::Checksums).unwrap();
    assert_eq!(found.metadata().kind, CheckpointKind::Savepoint);
    assert_eq!(found.streams().read_all(&large).unwrap(), [42; 100_000]);
    assert!(!SnapshotStore::owns_shared(found.streams()), "its files are a person's");
}

#[test]
fn a_directory_that_is_not_empty_is_no_place_for_a_savepoint() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "x").unwrap();
    let error = create(dir.path()).unwrap_err().to_string();
    assert!(error.contains("notes.txt") && error.contains("of its own"), "{error}");
    let first = create(dir.path().join("savepoint")).unwrap();
    first.write_metadata(&metadata(&[])).unwrap();
    assert!(create(dir.path().join("savepoint")).is_err(), "nobody writes over another savepoint");
    let error = SavepointDirectory::open(&text(dir.path().join("none")), &StorageOptions::default());
    assert!(matches!(error, Err(StorageError::NotFound { .. })));
}

#[test]
fn a_savepoint_never_shares_a_file_and_never_names_one_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let savepoint = create(dir.path().join("savepoint")).unwrap();
    let store = savepoint.snapshot_store("0-0");
    assert!(!store.keeps_shared() && store.create_shared("state").is_err());
    for path in ["shared/3-a", "chk-3/0-0-a-0123456789abcdef-1", "../other/0-0-a-0123456789abcdef-1"] {
        let named = StreamHandle::File { path: path.into(), len: 1, crc32c: 0 };
        let error = savepoint.write_metadata(&metadata(&[named])).unwrap_err().to_string();
        assert!(error.contains(path), "{error}");
        assert_eq!(names(dir.path().join("savepoint")), Vec::<String>::new());
    }
}

#[test]
fn a_savepoint_that_failed_leaves_nothing_and_a_task_that_is_late_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("savepoint");
    let savepoint = create(&path).unwrap();
    write(&savepoint, &[1; 100_000]);
    // a task that has begun a file, and one that has only opened the directory
    let late = SavepointDirectory::open(&text(&path), &StorageOptions::default()).unwrap();
    let mut begun = late.snapshot_store("1-0").create("state").unwrap();
    begun.write_all(&[2; 3_000_000]).unwrap();
    let report = savepoint.discard();
    assert!(report.is_complete() && report.deleted == 2, "{report:?}");
    assert!(!path.exists());
    assert!(begun.finish().is_err());
    let mut next = late.snapshot_store("1-1").create("state").unwrap();
    assert!(next.write_all(&[3; 100_000]).and_then(|()| next.finish().map(drop)).is_err());
    assert!(!path.exists(), "it does not come back");
    assert!(savepoint.discard().is_complete(), "again does no harm");
}

#[test]
fn a_savepoint_that_may_be_complete_and_files_of_somebody_else_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, shared) = (dir.path().join("whole"), dir.path().join("shared"));
    let savepoint = create(&whole).unwrap();
    let state = write(&savepoint, &[1; 100_000]);
    savepoint.write_metadata(&metadata(std::slice::from_ref(&state))).unwrap();
    let report = savepoint.discard();
    assert!(report.failed[0].to_string().contains("only a person"), "{report:?}");
    assert_eq!(names(&whole).len(), 2);
    let savepoint = create(&shared).unwrap();
    write(&savepoint, &[1; 100_000]);
    fs::write(shared.join("notes.txt"), "x").unwrap();
    let report = savepoint.discard();
    assert!(report.failed[0].to_string().contains("notes.txt"), "{report:?}");
    assert_eq!(names(&shared).len(), 2);
}

#[test]
fn a_register_that_names_the_savepoint_of_a_stop_is_read_and_nothing_of_it_counts_as_the_jobs_files() {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let storage =
        CheckpointStorage::open(&text(dir.path()), StorageOptions::default(), runtime.handle().clone());
    let job = storage.unwrap().job(JobId::from_name("flights"));
    let path = text(dir.path().join("savepoint-1"));
    let savepoint = create(&path).unwrap();
    let state = write(&savepoint, &[1; 100_000]);
    savepoint.write_metadata(&metadata(&[state])).unwrap();
    let named = CompletedRef { id: CheckpointId(17), path: path.clone() };
    let mut lease = job.claim("flights").unwrap();
    let checkpoint = job.write_metadata(&sample_metadata(16, job.id(), &[])).unwrap();
    lease
        .update(|record| {
            record.last_checkpoint_id = CheckpointId(17);
            record.completed = vec![checkpoint.clone(), named.clone()];
        })
        .unwrap();
    assert_eq!(job.load_register().unwrap().unwrap().record.completed.last(), Some(&named));
    let references = job.shared_references(&lease.record().completed, std::slice::from_ref(&named));
    assert_eq!(references.unreadable, Vec::<String>::new());
    assert_eq!(references.found.len(), 3);
    let survey = job.survey().unwrap();
    assert!(survey.files.iter().all(|file| !file.path.contains("savepoint")), "{survey:?}");
    lease.update(|record| (record.completed, record.retained) = (Vec::new(), vec![named.clone()])).unwrap();
    let report = job.sweep_orphans(lease.record(), lease.generation());
    assert_eq!((report.swept, report.files.failed.len()), (vec![CheckpointId(16)], 0));
    RetainedCheckpoint::open(&path, &StorageOptions::default())
        .unwrap()
        .verify(VerifyMode::Checksums)
        .unwrap();
    // a name that is neither a checkpoint's folder nor a place is damage
    lease
        .update(|record| record.completed = vec![CompletedRef { id: CheckpointId(17), path: "a".into() }])
        .unwrap();
    assert!(job.load_register().is_err());
}
