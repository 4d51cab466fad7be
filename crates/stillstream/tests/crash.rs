//! The program dies at a chosen step of the protocol and is started again: committed output holds each record
//! once.

mod paced;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use paced::Paced;
use stillstream::prelude::*;
use stillstream_testing::CrashPoints;

const RECORDS: u64 = 60_000;
/// Records for each checkpoint: a run has at least 15, however slow the machine is.
const STEP: u64 = RECORDS / 15;
const FOLDER: &str = "STILLSTREAM_CRASH_TEST_FOLDER";

/// The job of the program that dies: numbers, a running sum by key, a file for each checkpoint.
fn run(folder: &Path) -> Result<JobResult> {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(10))
        .set_parallelism(2)
        .set_state_backend(FsStateBackend::new(folder.join("checkpoints").to_string_lossy()));
    env.from_source("numbers", Paced::new(Generator::new(RECORDS, |n| n), STEP, STEP))
        .uid("numbers")
        .key_by(|n| n % 100)
        .map_with_state("sum", |sum: &mut u64, n| {
            *sum += n;
            (n, *sum)
        })
        .uid("sum")
        .sink_to("out", FileSink::csv(folder.join("out")))
        .uid("out");
    env.execute("crash")
}

/// Not a test of its own: what the others start as a program of its own.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn program() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let _armed = CrashPoints::from_env().unwrap();
        run(Path::new(&folder)).unwrap();
    }
}

/// Starts the program; says whether it came to its end.
fn start(folder: &Path, crash: Option<&str>) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program", "--exact"]).env(FOLDER, folder).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(crash) = crash {
        command.env(CrashPoints::VARIABLE, crash);
    }
    command.status().unwrap().success()
}

fn check(folder: &Path, what: &str) {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder.join("out")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if what.contains("after the end") && name.starts_with(".committed-") {
            // who is killed when the end is recorded cannot take the marks of what it committed away
            continue;
        }
        assert!(path.extension().is_some_and(|e| e == "csv"), "{what}: left over: {}", path.display());
        rows.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_string));
    }
    let numbers: BTreeSet<u64> =
        rows.iter().map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!((rows.len() as u64, numbers.len() as u64), (RECORDS, RECORDS), "{what}: each record once");
    let sums: BTreeSet<(u64, u64)> = rows
        .iter()
        .map(|row| row.split_once(',').unwrap())
        .map(|(n, sum)| (n.parse::<u64>().unwrap() % 100, sum.parse().unwrap()))
        .collect();
    for key in 0..100 {
        let total = (0..RECORDS / 100).map(|i| i * 100 + key).sum::<u64>();
        assert!(sums.contains(&(key, total)), "{what}: the last sum of key {key}");
    }
}

fn dies_at(points: &[&str]) {
    for point in points {
        for pass in [1, 3, 8] {
            let folder = tempfile::tempdir().unwrap();
            let crash = format!("{point}:{pass}:abort");
            let ended = start(folder.path(), Some(&crash));
            assert!(!ended, "{crash}: the program did not pass there");
            assert!(start(folder.path(), None), "{crash}: the second start failed");
            check(folder.path(), &crash);
        }
    }
}

#[test]
fn death_in_the_middle_of_a_snapshot_loses_nothing() {
    dies_at(&["during-snapshot"]);
}

#[test]
fn death_between_acknowledgement_and_completion_loses_nothing() {
    dies_at(&["after-acknowledge", "before-metadata", "after-metadata", "before-register"]);
}

#[test]
fn death_between_completion_and_commit_loses_nothing_and_repeats_nothing() {
    dies_at(&["after-register", "before-notification", "before-commit"]);
}

#[test]
fn death_after_the_end_is_recorded_repeats_nothing_however_often_the_program_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!start(folder.path(), Some("after-finish:1:abort")), "the program did not pass there");
    for again in 1..=2 {
        assert!(start(folder.path(), None), "a finished job ends well");
        check(folder.path(), &format!("start {again} after the end"));
    }
    // what the dead process had no time to delete
    let job = std::fs::read_dir(folder.path().join("checkpoints")).unwrap().next().unwrap().unwrap().path();
    let left = || -> Vec<_> {
        std::fs::read_dir(&job)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("chk-"))
            .collect()
    };
    assert!(left().is_empty(), "{:?}", left());
    // it may have died between the last file of a folder and the folder
    std::fs::create_dir(job.join("chk-3")).unwrap();
    assert!(start(folder.path(), None));
    assert!(left().is_empty(), "{:?}", left());
}

#[test]
fn death_during_a_restore_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!start(folder.path(), Some("before-commit:5:abort")));
    for _ in 0..3 {
        assert!(!start(folder.path(), Some("during-restore:1:abort")), "there was nothing to restore");
    }
    assert!(start(folder.path(), None));
    check(folder.path(), "during-restore");
}
