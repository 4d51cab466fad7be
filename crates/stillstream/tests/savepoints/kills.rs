//! The program dies while it stops: another start goes on from the snapshot of the stop, or from before it,
//! and output is there once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stillstream::prelude::*;
use stillstream_testing::CrashPoints;

use crate::program::{Backend, FILES, Run, STEP, check, rows, wait_for};

const FOLDER: &str = "STILLSTREAM_SAVEPOINTS_TEST_FOLDER";
/// `run`, or how it is stopped.
const HOW: &str = "STILLSTREAM_SAVEPOINTS_TEST_HOW";

#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn savepoint(run: &Run) -> Option<PathBuf> {
    let mut found = std::fs::read_dir(run.savepoints()).ok()?.flatten().map(|entry| entry.path());
    found.find(|path| path.join("_metadata").is_file())
}

/// Not a test of its own: what the others start as a program of its own.
#[test]
fn program() {
    let (Some(folder), Some(how)) = (variable(FOLDER), variable(HOW)) else { return };
    let backend = FILES.iter().copied().find(|backend| how.contains(&format!("{backend:?}")));
    let run = Run::new(Path::new(&folder), backend.unwrap_or(Backend::Heap));
    if how.starts_with("run") {
        let env = run.environment();
        run.sums(&env).sink_to("out", FileSink::csv(run.folder.join("out"))).uid("out");
        match env.execute("sums") {
            // the end had been recorded: a person says how it goes on
            Err(error) if error.to_string().contains("was stopped with a savepoint") => {
                let savepoint = savepoint(&run).expect("it names a savepoint");
                run.from(savepoint.display().to_string()).start().wait().map(drop).unwrap();
            }
            ended => drop(ended.unwrap()),
        }
        return;
    }
    let _armed = CrashPoints::from_env().unwrap();
    // nothing is written but what the stop writes
    let job = Run { interval: Some(hours(24)), ..run }.start();
    wait_for(&job, STEP);
    match how {
        how if how.starts_with("suspend") => job.stop(),
        how => job.stop_with_savepoint(None, how.starts_with("drain"), SavepointFormat::Canonical),
    }
    .unwrap();
    job.wait().unwrap();
}

/// Starts the program; says whether it came to its end.
fn start(folder: &Path, how: &str, crash: Option<&str>) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["kills::program", "--exact"]).env(FOLDER, folder).env(HOW, how);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(crash) = crash {
        command.env(CrashPoints::VARIABLE, crash);
    }
    command.status().unwrap().success()
}

/// Kills the program at each pass of these points, until it passes there no more.
fn dies_at(how: &str, points: &[&str]) {
    for point in points {
        let mut died = 0;
        for pass in 1.. {
            let folder = tempfile::tempdir().unwrap();
            let crash = format!("{point}:{pass}:abort");
            if start(folder.path(), how, Some(&crash)) {
                break;
            }
            died += 1;
            assert!(
                start(folder.path(), &format!("run {how}"), None),
                "{how} {crash}: the next start failed"
            );
            check(rows(&folder.path().join("out")), &format!("{how} {crash}"));
        }
        assert!(died > 0, "{how}: the program did not pass {point}");
    }
}

const POINTS: &[&str] = &[
    "during-snapshot",
    "before-metadata",
    "after-metadata",
    "before-register",
    "after-register",
    "before-notification",
    "before-commit",
    "after-finish",
];

#[test]
fn death_at_any_step_of_a_stop_with_savepoint_loses_nothing_and_repeats_nothing() {
    dies_at("stop Heap", POINTS);
}

#[cfg(feature = "rocksdb")]
#[test]
fn death_at_any_step_of_a_stop_with_savepoint_loses_nothing_with_state_in_rocksdb() {
    dies_at("stop RocksDb", &["after-metadata", "after-register", "before-commit"]);
}

#[test]
fn death_at_any_step_of_a_stop_with_a_last_checkpoint_loses_nothing_and_repeats_nothing() {
    dies_at("suspend Heap", POINTS);
}

#[test]
fn death_at_any_step_of_a_drain_loses_nothing_and_repeats_nothing() {
    dies_at("drain Heap", &["after-metadata", "after-register", "before-commit", "after-finish"]);
}
