//! Incremental checkpoints of whole jobs: what they restore, what they leave on storage, how much they write.

mod ledger;
#[path = "../paced/mod.rs"]
mod paced;
mod place;
#[cfg(all(feature = "s3", feature = "hdfs", feature = "rocksdb"))]
mod remote;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ledger::{
    Failures, RECORDS, STEP, build, build_paced, check, check_totals, copy_output, environment, forget,
    hidden,
};
use paced::Paced;
use place::Place;
use stillstream::prelude::*;
use stillstream_testing::{CrashPoints, CrashRule};

const FOLDER: &str = "STILLSTREAM_INCREMENTAL_TEST_FOLDER";
/// Records for each checkpoint, where it is not [`STEP`].
const STEPS: &str = "STILLSTREAM_INCREMENTAL_TEST_STEP";
const LONG: Duration = Duration::from_secs(120);

/// Crash points are armed for the whole process.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Some numbers below `below`, the same for the same seed.
fn random(seed: u64, count: usize, below: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    (0..count).map(|_| next()).collect()
}

/// Whether some chain of two retained checkpoints or more has changes: else no incremental checkpoint was
/// tested. Of one alone it is not known: each chain begins anew now and then.
fn has_changes(place: &Place) -> bool {
    let checkpoints = place.checkpoints();
    assert!(checkpoints.len() > 1, "{checkpoints:?}");
    checkpoints.into_iter().flat_map(|number| place.chains(number)).any(|chain| chain.files.len() > 1)
}

/// Runs the job until `checkpoints` checkpoints are completed, then cancels it; its checkpoints are retained.
fn cancelled(mut env: StreamExecutionEnvironment, name: &str, folder: &Path, checkpoints: u64) {
    env.set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
    build(&env, folder, &Failures::default());
    let job = env.execute_async(name).unwrap();
    let enough = |job: &JobClient| {
        job.status().is_terminal() || job.checkpoint_statistics().counts.completed >= checkpoints
    };
    assert!(job.wait_until(LONG, enough), "{:?}", job.checkpoint_statistics().counts);
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_job_that_fails_at_random_records_and_in_snapshots_counts_everything_once() {
    let _one = one_at_a_time();
    for (seed, retained) in [(1, 1), (2, 3), (3, 1)] {
        let what = format!("seed {seed}, {retained} retained");
        let folder = tempfile::tempdir().unwrap();
        let failures = Failures::at(random(seed, 4, RECORDS));
        // parts of a snapshot fail too, some after others of the same checkpoint have written their files
        let rules = random(seed, 8, 200).into_iter().map(|pass| CrashRule::fail("during-snapshot", 1 + pass));
        let armed = CrashPoints::arm(rules);
        let mut env = environment(folder.path());
        env.set_restart_strategy(RestartStrategy::fixed_delay(100, Duration::ZERO))
            .set_tolerable_checkpoint_failures(100)
            .set_num_retained(retained);
        build(&env, folder.path(), &failures);
        let result = env.execute("failing").unwrap();
        drop(armed);
        assert_eq!(failures.happened(), 4, "{what}: {result}");
        assert!((2..=4).contains(&result.restarts), "{what}: two may fail together: {result}");
        assert!(result.checkpoints.failed > 0, "{what}: {result}");
        check(folder.path(), &what);
    }
}

#[test]
fn whatever_is_retained_is_whole_and_shared_files_that_nobody_names_are_gone() {
    let _one = one_at_a_time();
    for retained in [1, 3] {
        let what = format!("{retained} retained");
        let folder = tempfile::tempdir().unwrap();
        let mut env = environment(folder.path());
        env.set_num_retained(retained);
        cancelled(env, "retained", folder.path(), 9);
        let place = Place::of(folder.path(), "retained");
        assert_eq!(place.checkpoints().len(), retained as usize, "{what}");
        assert!(retained == 1 || has_changes(&place), "{what}");
        place.check(&what);
        let kept = place.checkpoints();
        for checkpoint in &kept {
            let what = format!("{what}, from {checkpoint}");
            let again = tempfile::tempdir().unwrap();
            copy_output(folder.path(), again.path());
            // the first job was cancelled and may be started again: what it notes is its own
            let others = hidden(again.path());
            let mut env = environment(again.path());
            env.restore_from(place.path(*checkpoint).to_string_lossy());
            build(&env, again.path(), &Failures::default());
            let result = env.execute("again").unwrap();
            assert!(result.resumed_from.is_some() && result.records_in < RECORDS, "{what}: {result}");
            assert!(Place::of(again.path(), "again").shared().is_empty(), "{what}: the job has finished");
            forget(again.path(), &others);
            check_totals(again.path(), &what);
            // an older one repeats what was committed after it
            if Some(checkpoint) == kept.last() {
                check(again.path(), &what);
            }
        }
        place.check(&what);
    }
}

#[test]
fn a_job_that_was_given_up_resumes_from_its_chain_and_leaves_no_file_when_it_has_finished() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let mut env = environment(folder.path());
    env.set_num_retained(2);
    build(&env, folder.path(), &Failures::at([RECORDS / 2]));
    env.execute("resumed").unwrap_err();
    let place = Place::of(folder.path(), "resumed");
    assert!(has_changes(&place));
    place.check("after the failure");
    let env = environment(folder.path());
    build(&env, folder.path(), &Failures::default());
    let result = env.execute("resumed").unwrap();
    assert!(result.resumed_from.is_some() && result.records_in < RECORDS, "{result}");
    check(folder.path(), "resumed");
    assert_eq!((place.checkpoints().len(), place.shared().len()), (0, 0));
}

#[test]
fn totals_are_exact_when_the_parallelism_goes_from_two_to_three_and_back() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let place = Place::of(folder.path(), "rescaled");
    for (parallelism, fails_at) in [(2, Some(RECORDS / 3)), (3, Some(RECORDS * 2 / 3)), (2, None)] {
        let mut env = environment(folder.path());
        env.set_parallelism(parallelism).set_num_retained(2);
        build(&env, folder.path(), &Failures::at(fails_at));
        let result = env.execute("rescaled");
        if fails_at.is_some() {
            result.unwrap_err();
            assert!(has_changes(&place), "at {parallelism}");
            place.check(&format!("at {parallelism}"));
        } else {
            let result = result.unwrap();
            assert!(result.resumed_from.is_some() && result.records_in < RECORDS / 2, "{result}");
        }
    }
    check(folder.path(), "2 -> 3 -> 2");
    assert!(place.shared().is_empty());
}

#[test]
fn the_first_checkpoint_after_a_start_from_another_jobs_is_whole_and_the_other_stays_as_it_was() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let mut env = environment(folder.path());
    env.set_num_retained(2);
    cancelled(env, "first", folder.path(), 5);
    let first = Place::of(folder.path(), "first");
    let newest_of_first = first.checkpoints().pop().unwrap();
    assert!(has_changes(&first));
    let before = first.contents(newest_of_first);

    let mut env = environment(folder.path());
    env.restore_from(first.path(newest_of_first).to_string_lossy()).set_num_retained(20);
    cancelled(env, "second", folder.path(), 4);
    let second = Place::of(folder.path(), "second");
    second.check("second");
    assert!(has_changes(&second));
    let oldest = second.checkpoints()[0];
    let chains = second.chains(oldest);
    assert!(!chains.is_empty());
    for chain in chains {
        let names: Vec<&str> = chain.files.iter().map(|file| file.name.as_str()).collect();
        assert!(names.len() == 1 && names[0].starts_with("image"), "{names:?}");
    }

    let newest = second.checkpoints().pop().unwrap();
    let mut env = environment(folder.path());
    env.restore_from(second.path(newest).to_string_lossy());
    build(&env, folder.path(), &Failures::default());
    // the first two were cancelled and may be started again: what they wait with is theirs
    let others = hidden(folder.path());
    env.execute("third").unwrap();
    forget(folder.path(), &others);
    check(folder.path(), "three jobs");
    assert!(first.contents(newest_of_first) == before, "what was restored from belongs to its owner");
}

#[test]
fn a_full_checkpoint_by_hand_writes_everything_anew_and_the_chain_before_it_goes() {
    const KEYS: u64 = 5_000;
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let mut env = environment(folder.path());
    env.enable_checkpointing(hours(24 * 365))
        .set_num_retained(1)
        .set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
    env.from_source("keys", Paced::new(Generator::unbounded(|n| n % KEYS), KEYS, 50))
        .uid("keys")
        .key_by(|key| *key)
        .map_with_state("count", |count: &mut u64, key| {
            *count += 1;
            (key, *count)
        })
        .uid("counts")
        .discard();
    let job = env.execute_async("full").unwrap();
    let place = Place::of(folder.path(), "full");
    let mut taken = Vec::new();
    let (usual, full) = (CheckpointType::Configured, CheckpointType::Full);
    for (round, kind) in [usual, CheckpointType::Incremental, full, usual].into_iter().enumerate() {
        assert!(job.wait_until(LONG, |job| job.metrics().records_in >= KEYS + round as u64 * 50));
        let id = job.trigger_checkpoint_of_type(kind).unwrap().id.0;
        taken.push((id, place.written(id)));
    }
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    place.check("full");
    let written: Vec<u64> = taken.iter().map(|(_, bytes)| *bytes).collect();
    // of one key in a hundred, with what each changed page costs in so small a state
    assert!(written[1] < written[0] / 2 && written[3] < written[2] / 2, "{written:?}");
    assert!(written[2] > written[0] * 9 / 10, "{written:?}");
    // one chain for each subtask, whose image is the full checkpoint's; nothing older is left
    let files: Vec<Vec<String>> = place
        .chains(taken[3].0)
        .into_iter()
        .map(|chain| chain.files.into_iter().map(|file| file.name).collect())
        .collect();
    let expected = vec![format!("image-{}", taken[2].0), format!("changes-{}", taken[3].0)];
    assert!(!files.is_empty() && files.iter().all(|chain| *chain == expected), "{files:?}");
}

#[test]
fn a_checkpoint_after_changes_to_one_key_in_a_hundred_writes_a_small_part_of_a_full_one() {
    const KEYS: u64 = 60_000;
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let mut env = environment(folder.path());
    env.enable_checkpointing(hours(24 * 365))
        .set_num_retained(20)
        .set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
    // all keys once, then in every step a hundredth of them, wherever they lie
    let step = KEYS / 100;
    let record = |n| if n < KEYS { n } else { n * 7_919 % KEYS };
    env.from_source("keys", Paced::new(Generator::unbounded(record), KEYS, step))
        .uid("keys")
        .key_by(|key| *key)
        .map_with_state("count", |count: &mut u64, key| {
            *count += 1;
            (key, *count)
        })
        .uid("counts")
        .discard();
    let job = env.execute_async("bytes").unwrap();
    let place = Place::of(folder.path(), "bytes");
    let mut written = Vec::new();
    for round in 0..8 {
        assert!(job.wait_until(LONG, |job| job.metrics().records_in >= KEYS + round * step));
        written.push(place.written(job.trigger_checkpoint().unwrap().id.0));
    }
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    place.check("bytes");
    let full = written[0];
    assert!(full > KEYS * 8, "{written:?}");
    assert!(written[1..].iter().all(|bytes| *bytes > 0 && *bytes < full / 8), "{written:?}");
}

/// Not a test of its own: the program that dies.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn program() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let _armed = CrashPoints::from_env().unwrap();
        let folder = Path::new(&folder);
        #[cfg(not(all(feature = "s3", feature = "hdfs", feature = "rocksdb")))]
        let mut env = environment(folder);
        #[cfg(all(feature = "s3", feature = "hdfs", feature = "rocksdb"))]
        let mut env = match std::env::var(remote::PLACE) {
            Ok(place) => remote::environment_at(folder, &place),
            Err(_) => environment(folder),
        };
        env.set_num_retained(2);
        let step = std::env::var(STEPS).map_or(STEP, |step| step.parse().unwrap());
        build_paced(&env, folder, &Failures::default(), step);
        env.execute("crash").unwrap();
    }
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program", "--exact"]).env(FOLDER, folder).env_remove(CrashPoints::VARIABLE);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts the program a last time and checks what it has left.
fn finishes(folder: &Path, what: &str) {
    assert!(command(folder).status().unwrap().success(), "{what}: the next start failed");
    check(folder, what);
    let place = Place::of(folder, "crash");
    assert_eq!((place.checkpoints().len(), place.shared().len()), (0, 0), "{what}: left over");
}

#[test]
fn death_at_a_step_of_the_protocol_loses_nothing_and_leaves_nothing() {
    let _one = one_at_a_time();
    for crash in [
        "during-snapshot:4",
        "during-snapshot:61",
        "after-acknowledge:50",
        "before-metadata:5",
        "after-metadata:6",
        "before-register:7",
        "after-register:8",
        "before-notification:6",
        "before-commit:20",
        "half-discarded:5",
        "before-shared-discarded:1",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let status = command(folder.path()).env(CrashPoints::VARIABLE, format!("{crash}:abort")).status();
        assert!(!status.unwrap().success(), "{crash}: the program did not pass there");
        // it dies once more while it reads the chain
        if !crash.starts_with("during-snapshot:4") {
            let again = command(folder.path()).env(CrashPoints::VARIABLE, "during-restore:1:abort").status();
            assert!(!again.unwrap().success(), "{crash}: there was nothing to restore");
        }
        finishes(folder.path(), crash);
    }
}

#[test]
fn a_program_that_is_killed_at_any_moment_goes_on_where_it_was() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let place = Place::of(folder.path(), "crash");
    for kill in 1..=4 {
        // so slow that it cannot come to its end before
        let mut child = command(folder.path()).env(STEPS, (STEP / 15).to_string()).spawn().unwrap();
        // a few checkpoints further than where it was, and then at no particular step
        let from = place.checkpoints().pop().unwrap_or(0);
        let further = || place.checkpoints().pop().is_some_and(|newest| newest >= from + 2);
        while child.try_wait().unwrap().is_none() && !further() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "kill {kill}: it came to its end before");
    }
    finishes(folder.path(), "four kills");
}
