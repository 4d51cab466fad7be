//! A savepoint that cannot be taken: it says why, leaves nothing behind, and the job goes on.

use std::fs;
use std::process::Command;

use stillstream::prelude::*;
use stillstream_storage::{RetainedCheckpoint, StorageOptions, VerifyMode};
use stillstream_testing::{CrashPoints, CrashRule, Gate};

use crate::program::{Backend, FILES, LONG, Run, STEP, check, files, rows, wait_for};

/// Says that this process runs one test alone.
const ALONE: &str = "STILLSTREAM_SAVEPOINTS_TEST_ALONE";

/// Crash points are armed for the whole process, so a test that arms some has one of its own.
#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var(ALONE).is_ok() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let ran = command.args([&format!("failures::{test}"), "--exact"]).env(ALONE, "1").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, log) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success() && out.contains("1 passed"), "{out}{log}");
}

fn nothing_is_left(run: &Run, job: &JobClient) {
    let gone = job.wait_until(LONG, |_| fs::read_dir(run.savepoints()).into_iter().flatten().count() == 0);
    assert!(gone, "{:?}", files(&run.savepoints()));
}

#[test]
fn a_savepoint_that_a_task_cannot_write_says_why_leaves_nothing_and_the_job_goes_on_undisturbed() {
    alone(
        "a_savepoint_that_a_task_cannot_write_says_why_leaves_nothing_and_the_job_goes_on_undisturbed",
        || {
            for backend in FILES {
                let folder = tempfile::tempdir().unwrap();
                let run = Run { interval: Some(hours(24)), ..Run::new(folder.path(), *backend) };
                let job = run.start();
                wait_for(&job, STEP);
                let failing = CrashPoints::arm([CrashRule::fail("during-snapshot", 2)]);
                let error = job.trigger_savepoint(None, SavepointFormat::Canonical).unwrap_err().to_string();
                assert!(error.contains("failed on purpose"), "{error}");
                drop(failing);
                nothing_is_left(&run, &job);
                assert!(
                    job.wait_until(LONG, |_| !run.savepoints().exists()),
                    "it was made for the savepoint"
                );
                let counts = job.checkpoint_statistics().counts;
                job.trigger_savepoint(None, SavepointFormat::Canonical).unwrap();
                while !job.has_ended() {
                    let _ = job.trigger_checkpoint();
                }
                let result = job.wait().unwrap();
                assert_eq!(result.restarts, 0, "{counts:?}");
                check(rows(&folder.path().join("out")), "after a failed savepoint");
            }
        },
    );
}

#[test]
fn a_stop_whose_savepoint_fails_restarts_the_job_which_then_comes_to_its_end() {
    alone("a_stop_whose_savepoint_fails_restarts_the_job_which_then_comes_to_its_end", || {
        let folder = tempfile::tempdir().unwrap();
        let run = Run { interval: Some(hours(24)), ..Run::new(folder.path(), Backend::Heap) };
        let job = run.start();
        wait_for(&job, STEP);
        let failing = CrashPoints::arm([CrashRule::fail("during-snapshot", 1)]);
        let error = job.stop_with_savepoint(None, false, SavepointFormat::Canonical).unwrap_err().to_string();
        assert!(error.contains("failed on purpose") && error.contains("goes on"), "{error}");
        drop(failing);
        nothing_is_left(&run, &job);
        while !job.has_ended() {
            let _ = job.trigger_checkpoint();
        }
        let result = job.wait().unwrap();
        assert_eq!((result.restarts, &result.ending), (1, &JobEnding::Finished));
        check(rows(&folder.path().join("out")), "after a failed stop");
    });
}

#[test]
fn a_folder_in_which_nothing_can_be_made_is_an_error_that_names_it_and_the_job_does_not_hear_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run { interval: Some(hours(24)), ..Run::new(folder.path(), Backend::Heap) };
    let job = run.start();
    wait_for(&job, STEP);
    let file = folder.path().join("a file");
    fs::write(&file, "").unwrap();
    let inside = file.join("savepoints").display().to_string();
    for error in [
        job.trigger_savepoint(Some(&inside), SavepointFormat::Canonical).unwrap_err(),
        job.stop_with_savepoint(Some(&inside), true, SavepointFormat::Canonical).unwrap_err(),
    ] {
        assert!(error.to_string().contains(&inside), "{error}");
    }
    assert_eq!(job.checkpoint_statistics().counts.triggered, 0);
    job.stop().unwrap();
    assert_eq!(job.wait().unwrap().restarts, 0);
}

#[test]
fn a_savepoint_whose_directory_is_taken_away_under_it_fails_and_nothing_comes_back_in_its_place() {
    alone(
        "a_savepoint_whose_directory_is_taken_away_under_it_fails_and_nothing_comes_back_in_its_place",
        || {
            let folder = tempfile::tempdir().unwrap();
            let run = Run { interval: Some(hours(24)), ..Run::new(folder.path(), Backend::Heap) };
            let job = run.start();
            wait_for(&job, STEP);
            let gate = Gate::new();
            let waiting = CrashPoints::arm([CrashRule::wait("during-snapshot", 1, gate.clone())]);
            let error = std::thread::scope(|scope| {
                let asked = scope.spawn(|| job.trigger_savepoint(None, SavepointFormat::Canonical));
                gate.wait_for_arrival();
                fs::remove_dir_all(run.savepoints()).unwrap();
                gate.open();
                asked.join().unwrap().unwrap_err().to_string()
            });
            drop(waiting);
            assert!(error.contains("savepoint"), "{error}");
            assert_eq!(files(&run.savepoints()), Vec::<String>::new());
            while !job.has_ended() {
                let _ = job.trigger_checkpoint();
            }
            assert_eq!(job.wait().unwrap().restarts, 0);
            check(rows(&folder.path().join("out")), "after that");
        },
    );
}

#[test]
fn incremental_checkpoints_keep_every_file_while_savepoints_fail_between_them() {
    alone("incremental_checkpoints_keep_every_file_while_savepoints_fail_between_them", || {
        for (backend, format) in FILES.iter().flat_map(|backend| {
            [SavepointFormat::Canonical, SavepointFormat::Native].map(|format| (*backend, format))
        }) {
            let what = format!("{backend:?} {format:?}");
            let folder = tempfile::tempdir().unwrap();
            let run = Run { interval: Some(hours(24)), ..Run::new(folder.path(), backend) };
            let mut env = run.environment();
            env.set_num_retained(2)
                .set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation)
                .set_tolerable_checkpoint_failures(100);
            run.sums(&env).sink_to("out", FileSink::csv(folder.path().join("out"))).uid("out");
            let job = env.execute_async("sums").unwrap();
            let mut kept: Vec<String> = Vec::new();
            let mut shared = 0;
            for round in 1..=5 {
                wait_for(&job, round * STEP);
                kept.push(job.trigger_checkpoint().unwrap().path);
                // the first part is written, and the second one is not
                let failing = CrashPoints::arm([CrashRule::fail("during-snapshot", 2)]);
                job.trigger_savepoint(None, format).unwrap_err();
                drop(failing);
                nothing_is_left(&run, &job);
                for path in &kept[kept.len().saturating_sub(2)..] {
                    let opened = RetainedCheckpoint::open(path, &StorageOptions::default()).unwrap();
                    opened.verify(VerifyMode::Checksums).unwrap_or_else(|error| panic!("{what}: {error}"));
                    shared = opened.metadata().streams().filter(|stream| stream.is_shared()).count();
                }
            }
            assert!(shared > 0, "{what}: the checkpoints are not incremental");
            job.cancel();
            assert!(job.wait().is_err());
            let last = kept.pop().unwrap();
            let result = Run { interval: Some(millis(20)), ..run.from(last) }.start().wait().unwrap();
            assert!(result.resumed_from.is_some(), "{what}");
            check(rows(&folder.path().join("out")), &what);
        }
    });
}
