//! The register and leases: who may write, and what happens when versions are damaged.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use stillstream_storage::conformance::{sample_metadata, sample_record};
use stillstream_storage::register::NumberedRegister;
use stillstream_storage::{
    CheckpointStorage, JobStorage, Lease, LocalStore, Register, StorageError, StorageOptions,
};
use stillstream_types::{CheckpointId, CompletedRef, ErrorKind, Generation, JobId, JobOutcome};
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
        let mut found: Vec<_> = fs::read_dir(self.job_dir().join("register"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        found.sort();
        found
    }
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
    assert_eq!(lease.next_generation().unwrap(), Generation(3));
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
    assert_eq!(error.kind(), ErrorKind::Configuration);
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
    assert!(matches!(first.next_generation(), Err(StorageError::Fenced { .. })));
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
