//! What a crash left is swept, and nothing else.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use stillstream_storage::conformance::{sample_incremental_metadata, sample_metadata};
use stillstream_storage::{CheckpointStorage, FileUse, JobStorage, Lease, StorageOptions, VerifyMode};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, CheckpointMetadata, CompletedRef, Generation, JobId, StreamHandle};
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

    fn shared(&self, id: u64) -> StreamHandle {
        let mut stream = self.job.snapshot_store(CheckpointId(id), "0-0").create_shared("state").unwrap();
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

    /// Sweeps; what goes is what a survey called orphans before, where it could tell at all.
    fn sweep(&self) -> stillstream_storage::SweepReport {
        let survey = self.job.survey();
        let report = self.job.sweep_orphans(self.lease.record(), self.lease.generation());
        if let Ok(survey) = survey
            && report.files.is_complete()
            && !report.left.iter().any(|left| left.starts_with("everything"))
        {
            for file in survey.files {
                let (is_orphan, is_there) = (file.used == FileUse::Orphan, self.path(&file.path).exists());
                assert!(is_orphan != is_there, "{file:?}: {report:?}");
            }
        }
        report
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
fn the_folder_of_a_late_tasks_files_goes_with_the_last_of_them() {
    let place = Place::new();
    let (first, second, shared) = (place.state(4), place.state(4), place.shared(4));
    let path = |handle: &StreamHandle| handle.path().unwrap().to_owned();
    assert!(place.job.discard_files([path(&first).as_str()]).is_complete());
    assert!(place.path("chk-4").exists(), "another file is in it");
    let report = place.job.discard_files([path(&second).as_str(), path(&shared).as_str()]);
    assert!(report.is_complete() && report.deleted == 2, "{report:?}");
    assert!(!place.path("chk-4").exists() && place.path("").exists());
}

#[test]
fn files_that_a_named_checkpoint_refers_to_stay_wherever_they_are() {
    let mut place = Place::new();
    let (old, unused) = (place.state(1), place.state(1));
    let (used, orphan, higher) = (place.shared(1), place.shared(1), place.shared(9));
    fs::write(place.path("shared/.2-0-0-state.tmp"), "what a killed writer left").unwrap();
    fs::write(place.path("shared/notes"), "a person's").unwrap();
    let metadata = place.unannounced(2, &[old, used]);
    place.announce(&metadata);

    let report = place.sweep();
    assert!(report.files.is_complete() && report.files.deleted == 3, "{report:?}");
    place.job.verify(&metadata, VerifyMode::Checksums).unwrap();
    for gone in [&orphan, &unused] {
        assert!(place.job.reader().read_all(gone).is_err());
    }
    assert!(!place.path("shared/.2-0-0-state.tmp").exists());
    place.job.reader().read_all(&higher).expect("a number that nobody knows is left");
    assert!(place.path("shared/notes").exists());
    assert_eq!(report.left.len(), 2, "{report:?}");
}

#[test]
fn what_belongs_to_a_person_stays_with_all_its_shared_files() {
    let mut place = Place::new();
    let (of_retained, of_kept) = (place.shared(1), place.shared(2));
    let retained = sample_incremental_metadata(1, place.job.id(), std::slice::from_ref(&of_retained));
    let kept = sample_incremental_metadata(2, place.job.id(), std::slice::from_ref(&of_kept));
    place.announce(&retained);
    place.announce(&kept);
    fs::write(place.path("chk-2/_keep"), "").unwrap();
    place
        .lease
        .update(|record| {
            record.completed.clear();
            record.retained = vec![CompletedRef { id: CheckpointId(1), path: "chk-1".into() }];
        })
        .unwrap();

    let report = place.sweep();
    assert!(report.swept.is_empty() && report.files.deleted == 0, "{report:?}");
    for metadata in [&retained, &kept] {
        place.job.verify(metadata, VerifyMode::Checksums).unwrap();
    }
    // their owner deletes them: only then are the files nobody's
    fs::remove_dir_all(place.path("chk-1")).unwrap();
    fs::remove_dir_all(place.path("chk-2")).unwrap();
    let report = place.sweep();
    assert!(report.files.is_complete() && report.files.deleted == 2, "{report:?}");
}

#[test]
fn a_retained_checkpoint_that_cannot_be_read_keeps_everything_in_place() {
    let mut place = Place::new();
    let orphan = place.shared(1);
    let retained = sample_incremental_metadata(2, place.job.id(), &[place.shared(2)]);
    place.announce(&retained);
    let move_to_retained = |record: &mut stillstream_types::RegisterRecord| {
        record.retained = record.completed.clone();
        record.completed.clear();
    };
    place.lease.update(move_to_retained).unwrap();
    // half deleted by hand: nobody can tell what it names
    fs::rename(place.path("chk-2/_metadata"), place.path("chk-2/elsewhere")).unwrap();
    let report = place.sweep();
    assert!(report.left[0].starts_with("everything"), "{report:?}");
    place.job.reader().read_all(&orphan).unwrap();
    let references = place.job.shared_references(&[], &place.lease.record().retained);
    assert!(references.unreadable[0].contains("chk-2/_metadata"), "{references:?}");
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
