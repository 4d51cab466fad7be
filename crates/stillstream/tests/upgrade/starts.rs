//! Declared fall-back: an older checkpoint of the job's own, by choice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use stillstream::prelude::*;

use crate::program::*;

/// A job of three checkpoints that fails. Gives their numbers, and the largest count at each.
pub fn three(place: &Place) -> Vec<(u64, u64)> {
    let mut env = place.env();
    env.set_num_retained(3);
    let (largest, fail) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let fails = fail.clone();
    let all = numbers(&env)
        .try_map(move |n| if fails.load(SeqCst) { Err(Error::msg("as it was told")) } else { Ok(n) });
    count(all, "count", &largest);
    let job = env.execute_async("job").unwrap();
    let mut taken = Vec::new();
    for step in 1..=3 {
        reads(&job, 0);
        assert!(job.wait_until(LONG, |_| largest.load(SeqCst) > step * 300));
        let id = job.trigger_checkpoint().unwrap().id.0;
        taken.push((id, largest.load(SeqCst)));
    }
    fail.store(true, SeqCst);
    assert!(job.wait().is_err());
    taken
}

/// Starts the job again; gives the first count that it comes to, and lets it go on to a checkpoint before it
/// fails.
pub fn again(place: &Place, change: impl FnOnce(&mut StreamExecutionEnvironment)) -> Result<u64> {
    let mut env = place.env();
    env.set_num_retained(3);
    change(&mut env);
    let (first, fail) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::<AtomicBool>::default());
    let (seen, fails) = (first.clone(), fail.clone());
    numbers(&env)
        .key_by(|n| n % 10)
        .map_with_state("seen", move |count: &mut u64, n: u64| {
            *count += 1;
            seen.fetch_min(*count, SeqCst);
            n
        })
        .uid("count")
        .try_map(move |n| if fails.load(SeqCst) { Err(Error::msg("as it was told")) } else { Ok(n) })
        .discard();
    let job = env.execute_async("job")?;
    reads(&job, 100);
    job.trigger_checkpoint().unwrap();
    fail.store(true, SeqCst);
    assert!(job.wait().is_err());
    Ok(first.load(SeqCst))
}

#[test]
fn a_job_falls_back_to_an_older_checkpoint_of_its_own_by_choice_once_and_the_newer_ones_stay() {
    let place = Place::new();
    let taken = three(&place);
    let ((first, at_first), (third, _)) = (taken[0], taken[2]);
    let count = again(&place, |env| _ = env.fall_back_to(first)).unwrap();
    assert!(count <= at_first + 1, "{count} is newer than checkpoint {first} with {at_first}");
    let job = std::fs::read_dir(place.dir()).unwrap().next().unwrap().unwrap().path();
    assert!(job.join(format!("chk-{third}/_metadata")).is_file(), "a newer one was deleted");

    // the same command line again: what it has taken since is newer, and it does not fall back a second time
    let next = again(&place, |env| _ = env.fall_back_to(first)).unwrap();
    assert!(next > count, "it fell back twice: {next} after {count}");
}

#[test]
fn a_fall_back_to_what_is_not_there_is_refused_with_what_there_is() {
    let place = Place::new();
    let taken = three(&place);
    let text = again(&place, |env| _ = env.fall_back_to(77)).unwrap_err().to_string();
    has(&text, &["--from-checkpoint 77", &taken[0].0.to_string(), &taken[2].0.to_string()]);
    // an older one by its path is no fall-back unasked
    let job = std::fs::read_dir(place.dir()).unwrap().next().unwrap().unwrap().path();
    let older = job.join(format!("chk-{}", taken[0].0));
    let text = again(&place, |env| _ = env.restore_from(older.to_str().unwrap())).unwrap_err().to_string();
    has(&text, &[&format!("--from-checkpoint {}", taken[0].0), "leave out `--from`"]);
}

#[test]
fn a_newest_checkpoint_that_is_damaged_is_an_error_that_names_the_older_ones_and_how_to_fall_back() {
    let place = Place::new();
    let taken = three(&place);
    let (second, newest) = (taken[1].0, taken[2].0);
    let job = std::fs::read_dir(place.dir()).unwrap().next().unwrap().unwrap().path();
    let folder = job.join(format!("chk-{newest}"));
    let damaged = |file: &std::path::Path, at: usize| {
        let whole = std::fs::read(file).unwrap();
        let mut bytes = whole.clone();
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= 0x20;
        std::fs::write(file, bytes).unwrap();
        let error = again_fails(&place);
        std::fs::write(file, whole).unwrap();
        assert_eq!(error.kind(), ErrorKind::CorruptSnapshot, "{error}");
        let file = file.file_name().unwrap().to_str().unwrap();
        has(&error.to_string(), &[file, &format!("--from-checkpoint {second}"), &taken[0].0.to_string()]);
    };
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        // what is read when the job is submitted, and what is read by its tasks
        damaged(&path, 0);
        damaged(&path, usize::MAX);
        files += 1;
    }
    assert!(files > 2, "metadata and state");
    let count = again(&place, |env| _ = env.fall_back_to(second)).unwrap();
    assert!(count <= taken[1].1 + 1, "{count}");
}

/// The error of a start that must not come to run.
fn again_fails(place: &Place) -> Error {
    let mut env = place.env();
    env.set_num_retained(3);
    count(numbers(&env), "count", &Arc::default());
    match env.execute_async("job") {
        Err(error) => error,
        Ok(job) => job.wait().unwrap_err(),
    }
}

#[test]
fn a_job_that_began_from_a_snapshot_and_failed_before_its_first_checkpoint_begins_there_again_without_being_told()
 {
    let place = Place::new();
    let from = take(&counting(&place), "first", 4_000);
    let fails = |from: Option<&str>| {
        let mut env = place.env();
        if let Some(from) = from {
            env.restore_from(from);
        }
        let least = Arc::new(AtomicU64::new(u64::MAX));
        let seen = least.clone();
        numbers(&env)
            .key_by(|n| n % 10)
            .map_with_state("seen", move |count: &mut u64, n: u64| {
                *count += 1;
                seen.fetch_min(*count, SeqCst);
                n
            })
            .uid("count")
            .try_map(|_| Err::<u64, _>(Error::msg("as it was told")))
            .discard();
        let failed = env.execute_async("second").and_then(|job| job.wait());
        (failed.unwrap_err().to_string(), least.load(SeqCst))
    };
    for from in [Some(from.to_str().unwrap()), None] {
        let (error, least) = fails(from);
        has(&error, &["as it was told"]);
        assert!(least > 100 && least < u64::MAX, "it began empty: {least}");
    }
    // the snapshot is gone, and the job still does not start empty
    std::fs::rename(&from, from.with_file_name("away")).unwrap();
    let (error, least) = fails(None);
    has(&error, &["began from", "--from", "--start-fresh", "nothing is there"]);
    assert_eq!(least, u64::MAX);
}

fn counting(place: &Place) -> StreamExecutionEnvironment {
    let env = place.env();
    count(numbers(&env), "count", &Arc::default());
    env
}
