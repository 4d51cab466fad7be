//! Snapshots at places that a user names, moved directories, and damaged state files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use stillstream_storage::conformance::sample_metadata;
use stillstream_storage::{
    CheckpointStorage, JobStorage, RetainedCheckpoint, StorageError, StorageOptions, VerifyMode,
};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, ErrorKind, JobId, StreamHandle};
use tokio::runtime::{Builder, Runtime};

struct Place {
    dir: tempfile::TempDir,
    job: JobStorage,
    state: StreamHandle,
    _runtime: Runtime,
}

impl Place {
    /// A job with checkpoint 17, whose state is one file of 100 000 bytes.
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (uri, options) = (dir.path().to_str().unwrap(), StorageOptions::default());
        let storage = CheckpointStorage::open(uri, options, runtime.handle().clone()).unwrap();
        let job = storage.job(JobId::from_name("flights"));
        let mut stream = job.snapshot_store(CheckpointId(17), "0-3").create("state").unwrap();
        stream.write_all(&[42; 100_000]).unwrap();
        let state = stream.finish().unwrap();
        job.write_metadata(&sample_metadata(17, job.id(), std::slice::from_ref(&state))).unwrap();
        Self { dir, job, state, _runtime: runtime }
    }

    fn job_dir(&self) -> PathBuf {
        self.dir.path().join(self.job.id().to_string())
    }

    fn state_file(&self) -> PathBuf {
        self.job_dir().join(self.state.path().unwrap())
    }
}

fn open(location: impl AsRef<Path>) -> Result<RetainedCheckpoint, StorageError> {
    RetainedCheckpoint::open(location.as_ref().to_str().unwrap(), &StorageOptions::default())
}

#[test]
fn a_retained_checkpoint_opens_by_directory_file_or_uri() {
    let place = Place::new();
    let chk = place.job_dir().join("chk-17");
    let uri = format!("file://{}", chk.display());
    for location in [chk.clone(), chk.join("_metadata"), uri.into(), chk.join("../chk-17/.")] {
        let found = open(&location).unwrap();
        assert_eq!(found.metadata().id, CheckpointId(17), "{location:?}");
        found.verify(VerifyMode::Checksums).unwrap();
        assert_eq!(found.streams().read_all(&place.state).unwrap(), [42; 100_000]);
    }
}

#[test]
fn a_moved_job_directory_stays_readable() {
    let place = Place::new();
    let moved = place.dir.path().join("elsewhere");
    fs::rename(place.job_dir(), &moved).unwrap();
    let found = open(moved.join("chk-17")).unwrap();
    found.verify(VerifyMode::Checksums).unwrap();
    assert_eq!(found.streams().read_all(&place.state).unwrap(), [42; 100_000]);
}

#[test]
fn a_checkpoint_under_the_name_of_another_one_or_in_another_jobs_folder_is_refused() {
    let place = Place::new();
    fs::rename(place.job_dir().join("chk-17"), place.job_dir().join("chk-18")).unwrap();
    let error = open(place.job_dir().join("chk-18")).unwrap_err();
    assert!(matches!(error, StorageError::Foreign { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("is of checkpoint 17") && text.contains("that of checkpoint 18"), "{text}");
    fs::rename(place.job_dir().join("chk-18"), place.job_dir().join("friday")).unwrap();
    open(place.job_dir().join("friday")).unwrap();
    let other = place.dir.path().join(JobId::from_name("other").to_string());
    fs::rename(place.job_dir(), &other).unwrap();
    assert!(matches!(open(other.join("friday")), Err(StorageError::Foreign { .. })));
}

#[test]
fn a_place_without_a_checkpoint_says_what_to_name() {
    let place = Place::new();
    let says = |location: PathBuf| open(location).unwrap_err().to_string();
    let kept = place.job_dir().join("chk-17").display().to_string();
    assert!(says(place.job_dir()).contains(&kept), "a job directory: what is in it is offered");
    assert!(says(place.job_dir().join("chk-16")).contains(&format!("kept there: `{kept}`")));
    // all of them, the newest first
    for number in [3, 18] {
        let other = place.job_dir().join(format!("chk-{number}"));
        fs::create_dir(&other).unwrap();
        fs::copy(place.job_dir().join("chk-17/_metadata"), other.join("_metadata")).unwrap();
    }
    fs::create_dir(place.job_dir().join("chk-19")).unwrap();
    let said = says(place.job_dir().join("nosuch"));
    let said = said.split_once("kept there").unwrap_or_else(|| panic!("{said}")).1;
    let at = |name: &str| said.find(name).unwrap_or_else(|| panic!("{name} in: {said}"));
    assert!(
        at("chk-18`") < at("chk-17`") && at("chk-17`") < at("chk-3`") && !said.contains("chk-19"),
        "{said}"
    );
    assert!(says(place.dir.path().into()).contains("no `_metadata`"));
    assert!(says(place.dir.path().join("nowhere")).contains("nothing is there"));
    assert!(says(place.state_file()).contains("not called `_metadata`"));
}

#[test]
fn every_damage_of_a_state_file_is_found_and_named() {
    let place = Place::new();
    let (file, whole) = (place.state_file(), fs::read(place.state_file()).unwrap());
    let reader = place.job.reader();
    let metadata = place.job.read_metadata("chk-17").unwrap();
    let mut flipped = whole.clone();
    flipped[77_777] ^= 1;
    let longer = [whole.as_slice(), &[0]].concat();
    for (damaged, expected, found) in [
        (Some(&flipped[..]), "checksum", "found"),
        (Some(&whole[..99_999]), "expected 100000", "found 99999"),
        (Some(&whole[..0]), "expected 100000", "found 0"),
        (Some(&longer[..]), "expected 100000", "found 100001"),
        (None, "expected 100000 bytes", "found no file"),
    ] {
        match damaged {
            Some(bytes) => fs::write(&file, bytes).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let by_reading = reader.read_all(&place.state).unwrap_err().to_string();
        let error = place.job.verify(&metadata, VerifyMode::Checksums).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptSnapshot, "a restart must not try it again: {error}");
        for text in [by_reading, error.to_string()] {
            assert!(text.contains(file.to_str().unwrap()), "{text}");
            assert!(text.contains(expected) && text.contains(found), "{text}");
        }
        let cheap = place.job.verify(&metadata, VerifyMode::Lengths);
        assert_eq!(cheap.is_ok(), damaged == Some(&flipped[..]), "lengths show all but altered bytes");
    }
}

#[test]
fn a_handle_cannot_reach_out_of_the_job_directory() {
    let place = Place::new();
    fs::write(place.dir.path().join("secret"), "secret").unwrap();
    for path in ["../secret", "/etc/passwd", "chk-17/../../secret"] {
        let handle = StreamHandle::File { path: path.into(), len: 6, crc32c: 0 };
        assert!(place.job.reader().read_all(&handle).unwrap_err().to_string().contains("cannot be used"));
        assert_eq!(place.job.discard_streams([&handle]).failed.len(), 1);
    }
    assert!(place.dir.path().join("secret").exists());
}

#[test]
fn a_handle_with_an_absurd_length_is_refused_without_asking_for_memory() {
    let place = Place::new();
    let path = place.state.path().unwrap().to_owned();
    let handle = StreamHandle::File { path, len: u64::MAX, crc32c: 0 };
    assert!(place.job.reader().read_all(&handle).is_err());
    assert!(place.job.reader().read(&handle, 0, u64::MAX - 1).is_err());
}

#[test]
fn the_threshold_is_capped_and_nought_means_files_always() {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (inline_threshold, len, inline) in
        [(0, 0, false), (usize::MAX, (1 << 20) - 1, true), (usize::MAX, 1 << 20, false)]
    {
        let options = StorageOptions { inline_threshold, ..StorageOptions::default() };
        let storage =
            CheckpointStorage::open(dir.path().to_str().unwrap(), options, runtime.handle().clone()).unwrap();
        let store = storage.job(JobId::from_name("j")).snapshot_store(CheckpointId(1), "a/b c");
        let mut stream = store.create("odd name/../x").unwrap();
        stream.write_all(&vec![7; len]).unwrap();
        let handle = stream.finish().unwrap();
        assert_eq!(handle.path().is_none(), inline, "{inline_threshold} {len}");
        assert_eq!(store.read_all(&handle).unwrap().len(), len);
    }
}

#[cfg(unix)]
#[test]
fn a_directory_that_takes_no_files_is_found_by_the_probe() {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    fs::write(&blocked, "in the way").unwrap();
    let location = blocked.join("checkpoints");
    let storage = CheckpointStorage::open(
        location.to_str().unwrap(),
        StorageOptions::default(),
        runtime.handle().clone(),
    )
    .unwrap();
    let error = storage.probe_writable().unwrap_err().to_string();
    assert!(error.contains(location.to_str().unwrap()) && error.contains("not writable"), "{error}");
    assert!(error.contains("execution.checkpointing.dir"), "{error}");
}
