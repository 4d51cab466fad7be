//! The register and leases: who may write, and what happens when versions are damaged.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use stillstream_storage::conformance::{sample_metadata, sample_record};
use stillstream_storage::local::{DiskHook, DiskStep};
use stillstream_storage::register::NumberedRegister;
use stillstream_storage::{
    CasError, CheckpointStorage, JobStorage, Lease, LocalStore, Register, StorageError, StorageOptions,
};
use stillstream_types::file_access::FileAccess;
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, CompletedRef, ErrorKind, Generation, JobEnd, JobFigures, JobId, JobOutcome, JobStart,
    OperatorId, SnapshotIdentity, StartedFrom,
};
use tokio::runtime::{Builder, Runtime};

struct Place {
    dir: tempfile::TempDir,
    runtime: Runtime,
}

impl Place {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        Self { dir: tempfile::tempdir().unwrap(), runtime }
    }

    /// The job as another process sees it.
    fn job_with(&self, options: StorageOptions) -> JobStorage {
        let uri = self.dir.path().to_str().unwrap();
        let storage = CheckpointStorage::open(uri, options, self.runtime.handle().clone()).unwrap();
        storage.job(JobId::from_name("flights"))
    }

    fn job(&self) -> JobStorage {
        self.job_with(StorageOptions::default())
    }

    /// A standby that does not heed the lock.
    fn standby(&self) -> JobStorage {
        self.job_with(StorageOptions { exclusive_lock: false, ..StorageOptions::default() })
    }

    fn job_dir(&self) -> PathBuf {
        self.dir.path().join(JobId::from_name("flights").to_string())
    }

    fn versions(&self) -> Vec<PathBuf> {
        self.versions_of(&self.job())
    }

    fn versions_of(&self, job: &JobStorage) -> Vec<PathBuf> {
        let dir = self.dir.path().join(job.id().to_string());
        let mut found: Vec<_> =
            fs::read_dir(dir.join("register")).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    }
}

/// The next attempt of the same process.
fn raise(lease: &mut Lease) -> Result<Generation, StorageError> {
    let old = lease.record().clone();
    let mut next = old.clone();
    next.generation.0 += 1;
    lease.compare_and_set(&old, &next)?;
    Ok(lease.generation())
}

/// Takes a checkpoint without state: id, metadata, register.
fn complete(job: &JobStorage, lease: &mut Lease, retain: usize) -> Result<CheckpointId, StorageError> {
    let id = lease.record().last_checkpoint_id.next();
    lease.update(|record| record.last_checkpoint_id = id)?;
    let mut metadata = sample_metadata(id.0, job.id(), &[]);
    metadata.generation = lease.generation();
    let completed = job.write_metadata(&metadata)?;
    lease.update(|record| {
        record.completed.push(completed.clone());
        let over = record.completed.len().saturating_sub(retain);
        record.completed.drain(..over);
    })?;
    Ok(id)
}

#[test]
fn a_new_job_begins_with_generation_1_and_each_claim_raises_it() {
    let place = Place::new();
    let lease = place.job().claim("flights").unwrap();
    assert_eq!((lease.generation(), lease.previous()), (Generation(1), None));
    drop(lease);
    let mut lease = place.job().claim("renamed").unwrap();
    assert_eq!(lease.generation(), Generation(2));
    assert_eq!(lease.previous().unwrap().job_name, "flights");
    assert_eq!(lease.record().job_name, "renamed");
    assert_eq!(raise(&mut lease).unwrap(), Generation(3));
    assert_eq!(place.job().load_register().unwrap().unwrap().record.generation, Generation(3));
}

#[test]
fn a_claim_keeps_outcome_and_checkpoints_until_they_are_changed() {
    let place = Place::new();
    let job = place.job();
    let mut lease = job.claim("flights").unwrap();
    complete(&job, &mut lease, 1).unwrap();
    lease.update(|record| record.outcome = JobOutcome::Finished).unwrap();
    drop(lease);
    let lease = job.claim("flights").unwrap();
    assert_eq!(lease.record().outcome, JobOutcome::Finished);
    assert_eq!(lease.record().completed.len(), 1);
}

#[test]
fn a_second_live_process_is_refused_and_told_who_holds_the_lock() {
    let place = Place::new();
    let first = place.job().claim("flights").unwrap();
    let error = place.job().claim("flights").unwrap_err();
    assert!(matches!(error, StorageError::Locked { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Fenced);
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())) && text.contains(".lock"), "{text}");
    drop(first);
    place.job().claim("flights").unwrap();
}

#[test]
fn a_lease_is_fenced_by_a_later_claim_and_stays_so() {
    let place = Place::new();
    let (a, b) = (place.standby(), place.standby());
    let mut first = a.claim("flights").unwrap();
    complete(&a, &mut first, 1).unwrap();
    let mut second = b.claim("flights").unwrap();
    for _ in 0..2 {
        let error = first.update(|record| record.completed.clear()).unwrap_err();
        assert!(
            matches!(&error, StorageError::Fenced { ours: Generation(1), found: Generation(2), .. }),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Fenced);
    }
    assert!(matches!(raise(&mut first), Err(StorageError::Fenced { .. })));
    complete(&b, &mut second, 1).unwrap();
    assert_eq!(second.record().completed.len(), 1);
}

#[test]
fn of_many_claimants_each_gets_a_generation_of_its_own() {
    let place = Place::new();
    let mut generations: Vec<u64> = std::thread::scope(|scope| {
        let claims: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| place.standby().claim("flights").unwrap().generation().0))
            .collect();
        claims.into_iter().map(|claim| claim.join().unwrap()).collect()
    });
    generations.sort();
    generations.dedup();
    assert_eq!(generations.len(), 4);
}

#[test]
fn a_change_that_breaks_the_records_invariants_is_refused() {
    let place = Place::new();
    let job = place.job();
    let mut lease = job.claim("flights").unwrap();
    complete(&job, &mut lease, 2).unwrap();
    let before = lease.record().clone();
    let named = |id| CompletedRef { id: CheckpointId(id), path: format!("chk-{id}") };
    for error in [
        lease.update(|record| record.last_checkpoint_id = CheckpointId(0)).map(drop),
        lease.update(|record| record.completed = vec![named(1), named(1)]).map(drop),
        lease.update(|record| record.completed.push(named(9))).map(drop),
    ] {
        assert!(matches!(error, Err(StorageError::Invalid { .. })), "{error:?}");
    }
    lease.update(|record| record.generation = Generation(0)).unwrap();
    assert_eq!(*lease.record(), before, "the generation is not the caller's to set");
}

#[test]
fn old_versions_are_collected_but_never_the_first() {
    let place = Place::new();
    let store = Arc::new(LocalStore::new(place.dir.path(), &StorageOptions::default()));
    let register = NumberedRegister::new(store, "job", 1, place.runtime.handle().clone());
    let mut version = register.compare_and_set(None, &sample_record(1, &[])).unwrap();
    for n in 2..=100 {
        version = register.compare_and_set(Some(&version), &sample_record(n, &[])).unwrap();
    }
    register.collect_old().unwrap();
    let mut names: Vec<_> = fs::read_dir(place.dir.path().join("job/register"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 17, "the first and the newest 16: {names:?}");
    assert!(
        names[0].ends_with("0001") && names[1].ends_with("0085") && names[16].ends_with("0100"),
        "{names:?}"
    );
}

#[test]
fn what_a_killed_writer_left_half_written_goes_once_its_version_is_history() {
    let place = Place::new();
    let store = Arc::new(LocalStore::new(place.dir.path(), &StorageOptions::default()));
    let register = NumberedRegister::new(store, "job", 1, place.runtime.handle().clone());
    let mut version = register.compare_and_set(None, &sample_record(1, &[])).unwrap();
    let left = |number: u64| {
        let name = format!("job/register/.register-{number:020}.609a760049a0f3b0-74.tmp");
        place.dir.path().join(name)
    };
    for n in 2..=5 {
        fs::write(left(n), "half a record").unwrap();
        version = register.compare_and_set(Some(&version), &sample_record(n, &[])).unwrap();
    }
    fs::write(left(6), "another writer is at it").unwrap();
    register.collect_old().unwrap();
    let there: Vec<u64> = (2..=6).filter(|n| left(*n).exists()).collect();
    assert_eq!(there, [5, 6], "the newest version, and the one that is being written, may have a writer");
    register.compare_and_set(Some(&version), &sample_record(6, &[])).unwrap();
    register.collect_old().unwrap();
    assert!(!left(5).exists(), "its version is history now");
}

#[test]
fn a_newest_version_cut_anywhere_is_passed_over_and_named() {
    let place = Place::new();
    let job = place.job();
    let mut lease = job.claim("flights").unwrap();
    for _ in 0..3 {
        complete(&job, &mut lease, 1).unwrap();
    }
    // checkpoint 2 is subsumed and deleted: what the version before the newest names is gone
    assert!(job.discard_checkpoint(CheckpointId(1)).is_complete());
    assert!(job.discard_checkpoint(CheckpointId(2)).is_complete());
    let truth = lease.record().clone();
    drop(lease);
    let newest = place.versions().pop().unwrap();
    let whole = fs::read(&newest).unwrap();
    for len in 0..whole.len() {
        fs::write(&newest, &whole[..len]).unwrap();
        let loaded = job.load_register().unwrap().unwrap();
        assert_eq!(loaded.damaged, [newest.to_str().unwrap()], "cut at {len}");
        assert_eq!(
            loaded.record.completed, truth.completed,
            "the newest whole checkpoint is found, cut at {len}"
        );
        assert_eq!(loaded.record.last_checkpoint_id, truth.last_checkpoint_id);
        assert!(loaded.record.generation > truth.generation, "a lost claim cannot be given out again");
    }
    let mut lease = job.claim("flights").unwrap();
    assert_eq!(complete(&job, &mut lease, 1).unwrap(), CheckpointId(4));
    assert!(job.load_register().unwrap().unwrap().damaged.is_empty(), "the next write heals it");
}

#[test]
fn a_register_without_a_whole_version_is_an_error_and_never_a_fresh_start() {
    let place = Place::new();
    let job = place.job();
    let mut lease = job.claim("flights").unwrap();
    complete(&job, &mut lease, 1).unwrap();
    let before = lease.generation();
    drop(lease);
    for version in place.versions() {
        fs::write(version, "").unwrap();
    }
    let error = job.claim("flights").unwrap_err();
    assert!(matches!(error, StorageError::RegisterUnreadable { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::CorruptSnapshot);
    let text = error.to_string();
    assert!(text.contains("--start-fresh") && text.contains(place.job_dir().to_str().unwrap()), "{text}");

    let mut lease = job.claim_fresh("flights").unwrap();
    assert!(lease.generation() > before, "generations never come twice");
    assert_eq!(lease.record().completed, []);
    assert_eq!(complete(&job, &mut lease, 1).unwrap(), CheckpointId(2), "numbers never come twice");
    let report = job.sweep_orphans(lease.record(), lease.generation());
    assert!(report.swept.is_empty() && report.left[0].contains("_keep"), "{report:?}");
    assert!(job.read_metadata("chk-1").is_ok(), "what was there before is a person's to delete");
}

#[test]
fn a_job_with_files_but_no_register_is_an_error_and_never_a_fresh_start() {
    let place = Place::new();
    let job = place.job();
    let mut lease = job.claim("flights").unwrap();
    complete(&job, &mut lease, 1).unwrap();
    drop(lease);
    fs::remove_dir_all(place.job_dir().join("register")).unwrap();
    let error = job.claim("flights").unwrap_err();
    assert!(matches!(error, StorageError::RegisterMissing { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("--start-fresh") && text.contains("chk-1"), "{text}");
    let lease = job.claim_fresh("flights").unwrap();
    assert!(lease.generation() > Generation(1));
}

#[test]
fn versions_that_were_lost_with_no_checkpoint_left_are_an_error() {
    let place = Place::new();
    let job = place.job();
    let mut lease = job.claim("flights").unwrap();
    complete(&job, &mut lease, 1).unwrap();
    drop(lease);
    fs::write(place.versions().pop().unwrap(), "torn").unwrap();
    fs::write(place.job_dir().join("chk-1/_metadata"), "torn").unwrap();
    let error = job.load_register().unwrap_err();
    assert!(matches!(error, StorageError::RegisterUnreadable { .. }), "{error}");
}

#[test]
fn a_job_knows_which_others_have_checkpoints_beside_it() {
    let place = Place::new();
    let storage = |name: &str| {
        let uri = place.dir.path().to_str().unwrap();
        let handle = place.runtime.handle().clone();
        CheckpointStorage::open(uri, StorageOptions::default(), handle).unwrap().job(JobId::from_name(name))
    };
    assert_eq!(place.job().neighbours().count, 0);
    let _own = place.job().claim("flights").unwrap();
    let _other = storage("word count").claim("word count").unwrap();
    fs::create_dir(place.dir.path().join("no job")).unwrap();
    let found = place.job().neighbours();
    assert_eq!((found.names, found.count), (vec!["word count".to_string()], 1));
    (0..5).for_each(|n| drop(storage(&n.to_string()).claim("another").unwrap()));
    let found = place.job().neighbours();
    assert_eq!((found.names.len(), found.count), (3, 6));
}

#[test]
fn the_end_of_a_job_is_read_as_it_was_written_and_a_record_without_one_stays_readable() {
    let place = Place::new();
    let mut lease = place.job().claim("flights").unwrap();
    assert_eq!(place.job().load_register().unwrap().unwrap().record.ended, None);
    let counters = [("windows.late".to_owned(), 3), ("rows.malformed".to_owned(), u64::MAX)].into();
    let figures = JobFigures {
        records_in: 12,
        records_out: 11,
        duration_ms: 1_234,
        restarts: 2,
        resumed_from: Some(CheckpointId(0)),
        checkpoints_completed: 7,
        checkpoints_failed: 1,
        last_checkpoint: Some(CheckpointId(8)),
        last_checkpoint_bytes: 1 << 40,
        slowest_checkpoint_ms: 55,
        counters,
    };
    let ended = Some(Box::new(JobEnd { at_ms: -5, figures }));
    lease.update(|record| (record.outcome, record.ended) = (JobOutcome::Finished, ended.clone())).unwrap();
    let record = place.job().load_register().unwrap().unwrap().record;
    assert_eq!((record.outcome, record.ended), (JobOutcome::Finished, ended));
}

/// What the register of job `short` says, when its one version is this file.
fn golden(bytes: &[u8]) -> stillstream_types::RegisterRecord {
    let place = Place::new();
    let id = JobId::from_name("short");
    let folder = place.dir.path().join(id.to_string()).join("register");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("register-{:020}", 1)), bytes).unwrap();
    let uri = place.dir.path().to_str().unwrap();
    let storage =
        CheckpointStorage::open(uri, StorageOptions::default(), place.runtime.handle().clone()).unwrap();
    storage.job(id).load_register().unwrap().unwrap().record
}

#[test]
fn registers_that_were_ever_written_stay_readable_with_and_without_the_end_of_the_job() {
    let reference = |id: u64| CompletedRef { id: CheckpointId(id), path: format!("chk-{id}") };
    let old = golden(include_bytes!("golden/register-v1-without-end.bin"));
    assert_eq!((old.job, old.job_name.as_str()), (JobId::from_name("short"), "short"));
    assert_eq!((old.generation, old.outcome), (Generation(7), JobOutcome::Failed));
    assert_eq!((old.last_checkpoint_id, old.completed), (CheckpointId(25), vec![reference(17)]));
    assert_eq!((old.retained, old.ended), (vec![reference(4)], None));
    let finished = golden(include_bytes!("golden/register-v1.bin"));
    assert_eq!(finished.outcome, JobOutcome::Finished);
    let figures = JobFigures {
        records_in: 100,
        records_out: 90,
        duration_ms: 1_234,
        restarts: 2,
        resumed_from: Some(CheckpointId(9)),
        checkpoints_completed: 5,
        checkpoints_failed: 1,
        last_checkpoint: Some(CheckpointId(17)),
        last_checkpoint_bytes: 4_096,
        slowest_checkpoint_ms: 55,
        counters: [("windows.late".to_owned(), 3)].into(),
    };
    assert_eq!(finished.ended, Some(Box::new(JobEnd { at_ms: 1_796_082_179_367, figures })));
}

#[test]
fn a_lost_newest_version_is_an_error_that_names_what_is_newer_and_never_a_silent_roll_back() {
    let place = Place::new();
    let job = place.job();
    let mut lease = job.claim("flights").unwrap();
    for _ in 0..2 {
        complete(&job, &mut lease, 2).unwrap();
    }
    let before = lease.generation();
    drop(lease);
    fs::remove_file(place.versions().pop().unwrap()).unwrap();
    for _ in 0..2 {
        let error = job.claim("flights").unwrap_err();
        assert!(matches!(error, StorageError::RegisterBehind { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::CorruptSnapshot);
        let text = error.to_string();
        for part in ["names checkpoint 1", "chk-2` is a whole checkpoint", ".lock`", "--start-fresh"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let lease = job.claim_fresh("flights").unwrap();
    assert!(lease.generation() > before && lease.record().last_checkpoint_id == CheckpointId(2));
    drop(lease);
    job.claim("flights").unwrap();
}

#[test]
fn a_checkpoint_that_the_register_cannot_know_is_an_error_also_without_a_lock_file() {
    let place = Place::new();
    let job = place.standby();
    let mut lease = job.claim("flights").unwrap();
    complete(&job, &mut lease, 2).unwrap();
    drop(lease);
    let mut lease = job.claim("flights").unwrap();
    complete(&job, &mut lease, 2).unwrap();
    drop(lease);
    let versions = place.versions();
    // the claim of the second generation and all that came after it
    versions[3..].iter().for_each(|version| fs::remove_file(version).unwrap());
    let error = job.claim("flights").unwrap_err();
    assert!(matches!(error, StorageError::RegisterBehind { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("names checkpoint 1") && text.contains("chk-2` is a whole checkpoint of generation 2"),
        "{text}"
    );
}

#[test]
fn a_folder_in_which_only_the_lock_is_left_is_an_error_and_never_a_fresh_start() {
    let place = Place::new();
    let job = place.job();
    let mut lease = job.claim("flights").unwrap();
    complete(&job, &mut lease, 1).unwrap();
    drop(lease);
    for entry in fs::read_dir(place.job_dir()).unwrap().map(Result::unwrap) {
        if entry.file_name() != ".lock" {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    for _ in 0..2 {
        let error = job.claim("flights").unwrap_err();
        assert!(matches!(error, StorageError::RegisterMissing { .. }), "{error}");
        assert!(error.to_string().contains(".lock`, which says that version 3 was written"), "{error}");
    }
    // of a release that noted nothing but its number
    fs::write(place.job_dir().join(".lock"), "4711\n").unwrap();
    for _ in 0..2 {
        assert!(matches!(job.claim("flights"), Err(StorageError::RegisterMissing { .. })));
    }
    job.claim_fresh("flights").unwrap();
}

#[test]
fn a_process_that_died_before_it_wrote_a_register_does_not_keep_the_next_one_from_starting() {
    for left in ["", "4711\nregister 0\n"] {
        let place = Place::new();
        fs::create_dir_all(place.job_dir()).unwrap();
        fs::write(place.job_dir().join(".lock"), left).unwrap();
        assert_eq!(place.job().claim("flights").unwrap().generation(), Generation(1));
    }
}

#[test]
fn a_directory_that_was_moved_away_takes_its_writer_along_whatever_the_generation() {
    for exclusive_lock in [true, false] {
        let place = Place::new();
        let options = || StorageOptions { exclusive_lock, ..StorageOptions::default() };
        let (a, b) = (place.job_with(options()), place.job_with(options()));
        let mut first = a.claim("flights").unwrap();
        complete(&a, &mut first, 1).unwrap();
        fs::rename(place.job_dir(), place.dir.path().join("away")).unwrap();
        let error = first.update(|record| record.completed.clear()).unwrap_err();
        assert!(matches!(error, StorageError::RegisterMissing { .. }), "{error}");
        let state = a.snapshot_store(CheckpointId(2), "0-0").create_shared("state").unwrap().finish();
        assert!(state.unwrap_err().to_string().contains("moved or deleted while the job runs"));
        assert!(!place.job_dir().exists(), "nothing is made anew");

        // a second process begins there, and comes to the very same generation and version
        let mut second = b.claim("flights").unwrap();
        complete(&b, &mut second, 1).unwrap();
        let truth = second.record().clone();
        assert_eq!((first.generation(), second.generation()), (Generation(1), Generation(1)));
        for _ in 0..2 {
            let error = first.update(|record| record.completed.clear()).unwrap_err();
            assert!(matches!(error, StorageError::Fenced { found: Generation(1), .. }), "{error}");
        }
        assert!(!a.discard_checkpoint(CheckpointId(1)).is_complete(), "it is the other one's");
        assert_eq!(b.load_register().unwrap().unwrap().record, truth);
        assert!(b.read_metadata("chk-1").is_ok());
        complete(&b, &mut second, 1).unwrap();
    }
}

#[test]
fn of_two_registers_with_the_same_version_a_writer_goes_on_in_its_own_alone() {
    let place = Place::new();
    let register = |writer| {
        let store = Arc::new(LocalStore::new(place.dir.path(), &StorageOptions::default()));
        NumberedRegister::new(store, "job", writer, place.runtime.handle().clone())
    };
    let (ours, others) = (register(1), register(2));
    let known = ours.compare_and_set(None, &sample_record(1, &[])).unwrap();
    fs::rename(place.dir.path().join("job"), place.dir.path().join("away")).unwrap();
    let other = others.compare_and_set(None, &sample_record(1, &[])).unwrap();
    assert_eq!(known.number, other.number);
    let refused = ours.compare_and_set(Some(&known), &sample_record(1, &[7]));
    assert!(matches!(refused, Err(CasError::Conflict(_))), "{refused:?}");
    others.compare_and_set(Some(&other), &sample_record(2, &[])).unwrap();
}

/// A disk whose links are reported as failed, whether or not they were made.
#[derive(Debug)]
struct LostAnswers {
    made: bool,
    left: AtomicU32,
}

impl DiskHook for LostAnswers {
    fn before(&self, step: DiskStep<'_>) -> io::Result<()> {
        let DiskStep::Link { from, to } = step else { return Ok(()) };
        if !to.to_string_lossy().contains("register-")
            || self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err()
        {
            return Ok(());
        }
        if self.made {
            fs::hard_link(from, to)?;
        }
        Err(io::Error::other("the server did not answer"))
    }

    fn after(&self, _: DiskStep<'_>) {}
}

#[test]
fn a_write_of_the_register_whose_answer_was_lost_is_read_back_before_anything_is_decided() {
    for made in [true, false] {
        let place = Place::new();
        let hook = Arc::new(LostAnswers { made, left: AtomicU32::new(0) });
        let options = StorageOptions::default();
        let store = Arc::new(LocalStore::with_hook(place.dir.path(), &options, hook.clone()));
        let job = CheckpointStorage::with_store(store, options, place.runtime.handle().clone())
            .job(JobId::from_name("flights"));
        let mut lease = job.claim("flights").unwrap();
        for n in 1..=3 {
            hook.left.store(2, SeqCst);
            assert_eq!(complete(&job, &mut lease, 1).unwrap(), CheckpointId(n), "made: {made}");
            let found = job.load_register().unwrap().unwrap().record;
            assert_eq!(found, *lease.record());
            assert_eq!(found.completed.last().map(|completed| completed.id), Some(CheckpointId(n)));
        }
        // as long as no answer comes it is never said that it surely was not written
        hook.left.store(u32::MAX, SeqCst);
        match lease.update(|record| record.completed.clear()) {
            Ok(record) => assert!(made && record.completed.is_empty()),
            Err(error) => assert!(!made && error.is_indeterminate(), "{error}"),
        }
        hook.left.store(0, SeqCst);
        let found = lease.refresh().unwrap().clone();
        assert_eq!(found, job.load_register().unwrap().unwrap().record, "reading settles it");
    }
}

#[test]
fn a_version_under_the_name_of_another_one_is_damage() {
    let place = Place::new();
    let job = place.job();
    let mut lease = job.claim("flights").unwrap();
    complete(&job, &mut lease, 1).unwrap();
    drop(lease);
    let versions = place.versions();
    fs::copy(&versions[0], versions.last().unwrap()).unwrap();
    let loaded = job.load_register().unwrap().unwrap();
    assert_eq!(loaded.damaged, [versions.last().unwrap().to_str().unwrap()]);
    assert_eq!(loaded.record.completed.len(), 1, "not the first version's");
}

#[test]
fn a_register_or_metadata_of_another_job_or_checkpoint_is_refused_by_name() {
    let place = Place::new();
    let job = place.job();
    let other = CheckpointStorage::open(
        place.dir.path().to_str().unwrap(),
        StorageOptions::default(),
        place.runtime.handle().clone(),
    )
    .unwrap()
    .job(JobId::from_name("other"));
    let mut lease = job.claim("flights").unwrap();
    for _ in 0..2 {
        complete(&job, &mut lease, 2).unwrap();
    }
    drop(lease);
    complete(&other, &mut other.claim("other").unwrap(), 1).unwrap();
    let metadata = |job: &JobStorage, id: u64| {
        place.dir.path().join(job.id().to_string()).join(format!("chk-{id}/_metadata"))
    };
    let whole = fs::read(metadata(&job, 2)).unwrap();
    for (from, says) in [(metadata(&job, 1), "is of checkpoint 1"), (metadata(&other, 1), "of job `")] {
        fs::copy(&from, metadata(&job, 2)).unwrap();
        let error = job.read_metadata("chk-2").unwrap_err();
        assert!(matches!(error, StorageError::Foreign { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::CorruptSnapshot);
        let text = error.to_string();
        assert!(text.contains(says) && text.contains("that of checkpoint 2"), "{text}");
    }
    fs::write(metadata(&job, 2), whole).unwrap();
    job.read_metadata("chk-2").unwrap();

    place.versions().iter().for_each(|version| fs::remove_file(version).unwrap());
    for from in place.versions_of(&other) {
        fs::copy(&from, place.job_dir().join("register").join(from.file_name().unwrap())).unwrap();
    }
    let error = job.claim("flights").unwrap_err();
    assert!(matches!(error, StorageError::Foreign { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&job.id().to_string()) && text.contains(&other.id().to_string()), "{text}");
}

#[test]
#[cfg(unix)]
fn a_pipe_in_the_place_of_a_file_is_an_error_and_no_start_that_waits_for_ever() {
    let place = Place::new();
    let job = place.job();
    complete(&job, &mut job.claim("flights").unwrap(), 1).unwrap();
    let pipe = |path: PathBuf| {
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    };
    let path = pipe(place.job_dir().join("chk-1/_metadata"));
    let error = job.read_metadata("chk-1").unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("no file"), "{error}");
    pipe(place.versions().pop().unwrap());
    assert!(job.load_register().is_err());
}

#[test]
#[cfg(unix)]
fn what_is_written_is_readable_for_its_owner_alone_unless_an_option_says_otherwise() {
    use std::os::unix::fs::PermissionsExt;
    fn modes(dir: &std::path::Path, found: &mut Vec<(bool, u32, PathBuf)>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (kind, path) = (entry.file_type().unwrap(), entry.path());
            found.push((kind.is_dir(), entry.metadata().unwrap().permissions().mode() & 0o777, path.clone()));
            if kind.is_dir() {
                modes(&path, found);
            }
        }
    }
    for (file_access, file, folder) in [(FileAccess::Owner, 0o600, 0o700), (FileAccess::Group, 0o640, 0o750)]
    {
        let place = Place::new();
        let job =
            place.job_with(StorageOptions { file_access, inline_threshold: 0, ..StorageOptions::default() });
        let mut lease = job.claim("flights").unwrap();
        job.snapshot_store(CheckpointId(1), "0-0").create_shared("state").unwrap().finish().unwrap();
        complete(&job, &mut lease, 1).unwrap();
        let mut found = Vec::new();
        modes(place.dir.path(), &mut found);
        assert!(found.len() > 6, "{found:?}");
        for (is_folder, mode, path) in found {
            assert_eq!(mode, if is_folder { folder } else { file }, "{}", path.display());
        }
    }
}

#[test]
fn a_register_knows_how_the_life_of_its_job_began() {
    let place = Place::new();
    let snapshot = SnapshotIdentity {
        job: JobId::from_name("other"),
        checkpoint: CheckpointId(9),
        generation: Generation(4),
        triggered_at_ms: -7,
    };
    let began = JobStart {
        from: Some(StartedFrom { location: "/savepoints/a".into(), snapshot, claimed: true }),
        fell_back_to: Some(CheckpointId(3)),
        left_behind: vec![OperatorId::from_uid("gone"), OperatorId::from_uid("too")],
        dropped_fields: vec!["field `a` (u8) of `B`".into()],
    };
    let mut lease = place.job().claim("flights").unwrap();
    lease.update(|record| record.began = Some(Box::new(began.clone()))).unwrap();
    drop(lease);
    let lease = place.job().claim("flights").unwrap();
    assert_eq!(lease.record().began.as_deref(), Some(&began));
}
