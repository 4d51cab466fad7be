//! What a crash left is swept, and nothing else.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use stillstream_storage::conformance::sample_metadata;
use stillstream_storage::{CheckpointStorage, JobStorage, Lease, StorageOptions, VerifyMode};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, CheckpointMetadata, Generation, JobId, StreamHandle};
use tokio::runtime::{Builder, Runtime};

struct Place {
    dir: tempfile::TempDir,
    job: JobStorage,
    lease: Lease,
    _runtime: Runtime,
}

impl Place {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let uri = dir.path().to_str().unwrap();
        let storage =
            CheckpointStorage::open(uri, StorageOptions::default(), runtime.handle().clone()).unwrap();
        let job = storage.job(JobId::from_name("flights"));
        let lease = job.claim("flights").unwrap();
        Self { dir, job, lease, _runtime: runtime }
    }

    fn state(&self, id: u64) -> StreamHandle {
        let mut stream = self.job.snapshot_store(CheckpointId(id), "0-0").create("state").unwrap();
        stream.write_all(&vec![id as u8; 50_000]).unwrap();
        stream.finish().unwrap()
    }

    /// A checkpoint with its metadata that the register does not know.
    fn unannounced(&self, id: u64, streams: &[StreamHandle]) -> CheckpointMetadata {
        let metadata = sample_metadata(id, self.job.id(), streams);
        self.job.write_metadata(&metadata).unwrap();
        metadata
    }

    fn announce(&mut self, metadata: &CheckpointMetadata) {
        let completed = self.job.write_metadata(metadata).unwrap();
        self.lease
            .update(|record| {
                record.last_checkpoint_id = record.last_checkpoint_id.max(completed.id);
                record.completed.push(completed.clone());
            })
            .unwrap();
    }

    fn sweep(&self) -> stillstream_storage::SweepReport {
        self.job.sweep_orphans(self.lease.record(), self.lease.generation())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(self.job.id().to_string()).join(path)
    }
}

#[test]
fn orphans_are_swept_and_named_checkpoints_stay() {
    let mut place = Place::new();
    let (half, named, after) = (place.state(1), place.state(2), place.state(3));
    let metadata = place.unannounced(2, std::slice::from_ref(&named));
    place.announce(&metadata);
    place.unannounced(3, &[after]);
    fs::write(place.path("chk-1/.state.tmp"), "what a killed writer left").unwrap();
    place.lease.update(|record| record.last_checkpoint_id = CheckpointId(3)).unwrap();
    let higher = place.state(9);

    let report = place.sweep();
    assert_eq!(report.swept, [CheckpointId(1), CheckpointId(3)]);
    assert!(report.files.is_complete(), "{report:?}");
    assert!(!place.path("chk-1").exists() && !place.path("chk-3").exists());
    place.job.verify(&metadata, VerifyMode::Checksums).unwrap();
    assert!(place.job.reader().read_all(&half).is_err());
    place.job.reader().read_all(&higher).unwrap();
    assert!(report.left[0].starts_with("chk-9"), "a number that nobody knows is left: {report:?}");

    let again = place.sweep();
    assert!(again.swept.is_empty() && again.files.deleted == 0, "{again:?}");
}

#[test]
fn files_that_a_named_checkpoint_refers_to_stay_wherever_they_are() {
    let mut place = Place::new();
    let (old, unused) = (place.state(1), place.state(1));
    fs::create_dir(place.path("shared")).unwrap();
    fs::write(place.path("shared/used"), [5; 30_000]).unwrap();
    fs::write(place.path("shared/orphan"), [6; 30_000]).unwrap();
    let shared =
        StreamHandle::File { path: "shared/used".into(), len: 30_000, crc32c: crc32c::crc32c(&[5; 30_000]) };
    let metadata = place.unannounced(2, &[old, shared]);
    place.announce(&metadata);

    let report = place.sweep();
    assert!(report.files.is_complete() && report.files.deleted == 2, "{report:?}");
    place.job.verify(&metadata, VerifyMode::Checksums).unwrap();
    assert!(!place.path("shared/orphan").exists());
    assert!(place.job.reader().read_all(&unused).is_err());
}

#[test]
fn nothing_is_swept_when_it_is_not_sure_what_is_an_orphan() {
    let mut place = Place::new();
    let state = place.state(1);
    place.lease.update(|record| record.last_checkpoint_id = CheckpointId(1)).unwrap();

    let stale = place.job.sweep_orphans(place.lease.record(), Generation(0));
    assert!(stale.swept.is_empty() && stale.left[0].starts_with("everything"), "{stale:?}");
    let mut invented = place.lease.record().clone();
    invented.last_checkpoint_id = CheckpointId(100);
    let stale = place.job.sweep_orphans(&invented, place.lease.generation());
    assert!(stale.swept.is_empty() && stale.left[0].starts_with("everything"), "{stale:?}");

    let metadata = sample_metadata(2, place.job.id(), &[]);
    place.announce(&metadata);
    fs::write(place.path("chk-2/_metadata"), "damaged").unwrap();
    let unsure = place.sweep();
    assert!(unsure.swept.is_empty() && unsure.left[0].contains("chk-2/_metadata"), "{unsure:?}");
    place.job.reader().read_all(&state).unwrap();
}
