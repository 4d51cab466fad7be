//! A savepoint while the disk fails: either it is whole, or its directory is as good as never made.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

use stillstream_storage::conformance::sample_metadata;
use stillstream_storage::{
    LocalStore, RetainedCheckpoint, SavepointDirectory, StorageError, StorageOptions, VerifyMode,
};
use stillstream_testing::{FailingStore, Fault, Op, Rule};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointKind, CheckpointMetadata, JobId};

/// Takes a savepoint of two files; whoever asked for it deletes what is left if it surely failed.
fn take(store: &FailingStore) -> Result<(), StorageError> {
    let options = StorageOptions::default();
    let savepoint = SavepointDirectory::with_store(Arc::new(store.clone()), &options);
    let written = || {
        let mut streams = Vec::new();
        for subtask in ["0-0", "0-1"] {
            let write = || {
                let mut stream = savepoint.snapshot_store(subtask).create("state")?;
                stream.write_all(&[7; 100_000])?;
                stream.finish()
            };
            // a subtask whose state cannot be written declines
            let declined = |error: std::io::Error| StorageError::NotWritable {
                path: subtask.into(),
                reason: error.to_string(),
            };
            streams.push(write().map_err(declined)?);
        }
        let metadata = sample_metadata(3, JobId::from_name("job"), &streams);
        savepoint.write_metadata(&CheckpointMetadata { kind: CheckpointKind::Savepoint, ..metadata })
    };
    let written = written();
    if let Err(error) = &written
        && !error.is_indeterminate()
    {
        let _ = savepoint.discard();
    }
    written
}

fn whole(path: &Path) -> bool {
    RetainedCheckpoint::open(&path.display().to_string(), &StorageOptions::default())
        .is_ok_and(|found| found.verify(VerifyMode::Checksums).is_ok())
}

#[test]
fn a_savepoint_that_fails_at_any_step_leaves_nothing_and_one_whose_end_is_unknown_is_not_deleted() {
    let faults = [
        Fault::Fail(ErrorKind::StorageFull),
        Fault::Fail(ErrorKind::PermissionDenied),
        Fault::LostRequest,
        Fault::LostAnswer,
    ];
    let mut failed = 0;
    for fault in faults {
        for op in [Op::Create, Op::Write, Op::Finish, Op::PutNew] {
            for pass in 1..=2 {
                let (dir, what) = (tempfile::tempdir().unwrap(), format!("{op:?} {pass} {fault:?}"));
                let disk = Arc::new(LocalStore::new(dir.path(), &StorageOptions::default()));
                let store = FailingStore::new(disk);
                store.add(Rule::new(op, "", fault.clone()).nth(pass));
                match take(&store) {
                    Ok(()) => assert!(whole(dir.path()), "{what}"),
                    Err(error) => {
                        failed += 1;
                        assert!(
                            matches!(fault, Fault::LostAnswer) && op == Op::PutNew || !whole(dir.path()),
                            "{what}: {error}"
                        );
                        if op == Op::PutNew && matches!(fault, Fault::LostAnswer) {
                            assert!(whole(dir.path()), "{what}: it may be named already");
                        }
                        if matches!(fault, Fault::Fail(_)) {
                            let left = std::fs::read_dir(dir.path()).into_iter().flatten().count();
                            assert_eq!(left, 0, "{what}: {error}");
                        }
                    }
                }
            }
        }
    }
    assert!(failed >= 24, "the faults took effect: {failed}");
}
