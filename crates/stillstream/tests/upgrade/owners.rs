//! Whose a snapshot is that a job begins from: the person's (NO_CLAIM), or the job's own (CLAIM).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use stillstream::JobStatus;
use stillstream::config::RecoveryClaimMode;
use stillstream::prelude::*;

use crate::program::*;

/// Waits until a job runs and has counted so far.
#[track_caller]
fn counts_to(job: &JobClient, counting: &Counting, count: u64) {
    let far = |job: &JobClient| job.status() == JobStatus::Running && counting.largest.load(SeqCst) > count;
    assert!(job.wait_until(LONG, far), "{:?} at {}", job.status(), counting.largest.load(SeqCst));
}

/// A job that counts, and fails when it is told to.
struct Counting {
    largest: Arc<AtomicU64>,
    fail: Arc<AtomicBool>,
}

fn counting(env: &StreamExecutionEnvironment) -> Counting {
    let (largest, fail) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let fails = fail.clone();
    let all = numbers(env)
        .try_map(move |n| if fails.load(SeqCst) { Err(Error::msg("as it was told")) } else { Ok(n) });
    count(all, "count", &largest);
    Counting { largest, fail }
}

/// An incremental checkpoint, with files in `shared/`, of a job of this name.
fn incremental(place: &Place, name: &str) -> PathBuf {
    let mut env = place.env();
    env.set_incremental_checkpoints(true);
    count(numbers(&env), "count", &Arc::default());
    let job = env.execute_async(name).unwrap();
    reads(&job, 2_000);
    job.trigger_checkpoint().unwrap();
    reads(&job, 4_000);
    let taken = job.trigger_checkpoint().unwrap();
    job.cancel();
    assert!(job.wait().is_err());
    PathBuf::from(taken.path)
}

fn from(place: &Place, from: &Path) -> StreamExecutionEnvironment {
    let mut env = place.env();
    env.set_incremental_checkpoints(true).restore_from(from.to_str().unwrap());
    env
}

#[test]
fn after_its_first_checkpoint_a_job_does_not_need_the_snapshot_any_more_and_the_same_command_goes_on() {
    let (theirs, own) = (Place::new(), Place::new());
    let snapshot = incremental(&theirs, "first");
    assert!(snapshot.parent().unwrap().join("shared").is_dir(), "the test is about shared files");

    let env = from(&own, &snapshot);
    let counting_now = counting(&env);
    let job = env.execute_async("second").unwrap();
    counts_to(&job, &counting_now, 250);
    job.trigger_checkpoint().unwrap();
    std::fs::remove_dir_all(theirs.dir()).unwrap();
    job.trigger_checkpoint().unwrap();
    counting_now.fail.store(true, SeqCst);
    assert!(job.wait().is_err());

    // a supervisor starts the same command line again
    let env = from(&own, &snapshot);
    let counting_then = counting(&env);
    let job = env.execute_async("second").unwrap();
    counts_to(&job, &counting_then, 250);
    job.trigger_checkpoint().unwrap();
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn a_job_that_began_from_a_snapshot_goes_on_from_its_own_newer_checkpoint_and_another_snapshot_is_refused() {
    let place = Place::new();
    let (snapshot, other) = (incremental(&place, "first"), incremental(&place, "other"));
    let env = from(&place, &snapshot);
    let now = counting(&env);
    let job = env.execute_async("second").unwrap();
    counts_to(&job, &now, 450);
    let newest = job.trigger_checkpoint().unwrap();
    now.fail.store(true, SeqCst);
    assert!(job.wait().is_err());

    let error = starts(&from_counting(&place, &other), "second").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    has(&error.to_string(), &[&newest.path, other.to_str().unwrap(), "leave out `--from`", "--start-fresh"]);

    let env = from(&place, &snapshot);
    let then = counting(&env);
    let job = env.execute_async("second").unwrap();
    assert!(job.wait_until(LONG, |_| then.largest.load(SeqCst) > 0));
    let first = then.largest.load(SeqCst);
    assert!(first > 400, "it began from the snapshot again: {first}");
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn a_snapshot_that_is_not_claimed_stays_as_it_is_byte_for_byte() {
    let (theirs, own) = (Place::new(), Place::new());
    let snapshot = incremental(&theirs, "first");
    let before = files(&theirs.dir());
    let env = from(&own, &snapshot);
    count(numbers(&env), "count", &Arc::default());
    let job = env.execute_async("second").unwrap();
    reads(&job, 100);
    (0..5).for_each(|_| drop(job.trigger_checkpoint().unwrap()));
    job.cancel();
    assert!(job.wait().is_err());
    assert!(files(&theirs.dir()) == before, "the snapshot was changed");
    starts(&from_counting(&own, &snapshot), "third").unwrap();
}

fn from_counting(place: &Place, snapshot: &Path) -> StreamExecutionEnvironment {
    let env = from(place, snapshot);
    count(numbers(&env), "count", &Arc::default());
    env
}

#[test]
fn a_claimed_snapshot_goes_with_its_shared_files_once_the_job_has_as_many_checkpoints_as_it_keeps() {
    let (theirs, own) = (Place::new(), Place::new());
    let snapshot = incremental(&theirs, "first");
    let shared = |place: &Place| {
        files(&place.dir())
            .into_iter()
            .filter(|(path, _)| path.to_str().unwrap().contains("/shared/"))
            .count()
    };
    assert!(shared(&theirs) > 0);
    let mut env = from_counting(&own, &snapshot);
    env.set_claim_mode(RecoveryClaimMode::Claim).set_num_retained(2);
    let job = env.execute_async("second").unwrap();
    reads(&job, 100);
    job.trigger_checkpoint().unwrap();
    assert!(snapshot.join("_metadata").is_file(), "the job has one checkpoint, and keeps two");
    job.trigger_checkpoint().unwrap();
    assert!(job.wait_until(LONG, |_| !snapshot.exists()), "{snapshot:?} is still there");
    assert!(job.wait_until(LONG, |_| shared(&theirs) == 0), "shared files are still there");
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn a_shared_file_that_another_checkpoint_names_stays_when_a_claimed_one_goes() {
    let (theirs, own) = (Place::new(), Place::new());
    let mut env = theirs.env();
    env.set_incremental_checkpoints(true).set_num_retained(2);
    count(numbers(&env), "count", &Arc::default());
    let job = env.execute_async("first").unwrap();
    reads(&job, 2_000);
    let older = PathBuf::from(job.trigger_checkpoint().unwrap().path);
    let newer = PathBuf::from(job.trigger_checkpoint().unwrap().path);
    job.cancel();
    assert!(job.wait().is_err());

    let mut env = from_counting(&own, &newer);
    env.set_claim_mode(RecoveryClaimMode::Claim);
    let job = env.execute_async("second").unwrap();
    reads(&job, 100);
    job.trigger_checkpoint().unwrap();
    assert!(job.wait_until(LONG, |_| !newer.exists()), "{newer:?} is still there");
    job.cancel();
    assert!(job.wait().is_err());
    // the older one is whole
    starts(&from_counting(&own, &older), "third").unwrap();
}

#[test]
fn a_checkpoint_that_its_own_job_resumes_from_cannot_be_claimed() {
    let (theirs, own) = (Place::new(), Place::new());
    let env = theirs.env();
    let now = counting(&env);
    let job = env.execute_async("first").unwrap();
    reads(&job, 100);
    let taken = job.trigger_checkpoint().unwrap();
    now.fail.store(true, SeqCst);
    assert!(job.wait().is_err());

    let mut env = from_counting(&own, Path::new(&taken.path));
    env.set_claim_mode(RecoveryClaimMode::Claim);
    let error = starts(&env, "second").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    has(&error.to_string(), &["`first` resumes from this checkpoint itself", "retained"]);
}

#[test]
fn a_claimed_savepoint_goes_and_one_that_is_not_claimed_stays() {
    let place = Place::new();
    let env = place.env();
    count(numbers(&env), "count", &Arc::default());
    let snapshot = savepoint(&env, &place, 1_000);
    let before = files(&snapshot);
    for (mode, name) in [(RecoveryClaimMode::NoClaim, "second"), (RecoveryClaimMode::Claim, "third")] {
        let mut env = from_counting(&place, &snapshot);
        env.set_claim_mode(mode);
        let job = env.execute_async(name).unwrap();
        reads(&job, 100);
        job.trigger_checkpoint().unwrap();
        match mode {
            RecoveryClaimMode::Claim => {
                assert!(job.wait_until(LONG, |_| !snapshot.exists()), "{snapshot:?} is still there");
            }
            _ => assert!(files(&snapshot) == before, "it was changed"),
        }
        job.cancel();
        assert!(job.wait().is_err());
    }
}

#[test]
fn a_job_that_claimed_its_snapshot_is_started_again_without_any_argument_and_the_snapshot_is_its_own_still() {
    let (theirs, own) = (Place::new(), Place::new());
    let snapshot = incremental(&theirs, "first");
    let start = |claims: bool| {
        let mut env = own.env();
        env.set_incremental_checkpoints(true);
        if claims {
            env.restore_from(snapshot.to_str().unwrap()).set_claim_mode(RecoveryClaimMode::Claim);
        }
        let now = counting(&env);
        (env.execute_async("second").unwrap(), now)
    };
    // it fails before it has a checkpoint of its own
    let (job, now) = start(true);
    counts_to(&job, &now, 250);
    now.fail.store(true, SeqCst);
    assert!(job.wait().is_err());
    assert!(snapshot.join("_metadata").is_file(), "it has nothing else");
    // once more, with no word about where it begins: it begins there, and the snapshot goes with its first
    // checkpoint
    let (job, now) = start(false);
    counts_to(&job, &now, 250);
    let first = job.trigger_checkpoint().unwrap();
    assert!(job.wait_until(LONG, |_| !snapshot.exists()), "{snapshot:?} is still there");
    now.fail.store(true, SeqCst);
    assert!(job.wait().is_err());
    // and once more: from its own checkpoint
    let (job, now) = start(false);
    counts_to(&job, &now, 250);
    assert_eq!(job.restored_from().unwrap().checkpoint, first.id);
    job.cancel();
    assert!(job.wait().is_err());
}
