//! Savepoints, stops and cancels by REST.

use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use stillstream::JobStatus;
use stillstream::prelude::*;

use crate::client::{LONG, accepted, ask_with, get, outcome, post, refusal};
use crate::job::{counts, environment, stuck};

fn inside(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_savepoint_that_is_asked_for_twice_under_one_id_is_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let (target, other) = (folder.path().join("savepoints"), folder.path().join("other"));
    let (job, address) = counts("twice", &environment(folder.path()));
    let path = format!("/jobs/{}/savepoints", job.id());
    let trigger = "0123456789abcdef0123456789abcdef";
    let body = json!({ "target-directory": target, "triggerId": trigger });
    for _ in 0..2 {
        assert_eq!(accepted(&post(address, &path, &body)), trigger);
    }
    let first = outcome(address, &format!("{path}/{trigger}"));
    assert_eq!(accepted(&post(address, &path, &body)), trigger);
    assert_eq!(outcome(address, &format!("{path}/{trigger}")), first);
    let location = first["location"].as_str().unwrap_or_else(|| panic!("{first}"));
    assert!(Path::new(location).join("_metadata").is_file());
    assert_eq!(inside(&target).len(), 1, "{:?}", inside(&target));

    let another = post(address, &path, &json!({ "target-directory": other, "triggerId": trigger }));
    assert!(refusal(&another, 409).contains("is another one"));
    let stop = post(
        address,
        &format!("/jobs/{}/stop", job.id()),
        &json!({ "targetDirectory": target, "triggerId": trigger }),
    );
    assert!(refusal(&stop, 409).contains("a stop with a savepoint"));
    assert!(!other.exists() && job.status() == JobStatus::Running);
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn a_job_that_is_stopped_ends_when_its_savepoint_has_been_told() {
    let folder = tempfile::tempdir().unwrap();
    let (job, address) = counts("stopped", &environment(folder.path()));
    let id = job.id().to_string();
    let request = accepted(&post(
        address,
        &format!("/jobs/{id}/stop"),
        &json!({ "targetDirectory": folder.path().join("sp") }),
    ));
    assert!(job.wait_until(LONG, |job| job.status() == JobStatus::Finished), "{:?}", job.status());
    // the process could end with the job: it waits until somebody knows where the savepoint is
    assert!(!job.has_ended());
    let told = outcome(address, &format!("/jobs/{id}/savepoints/{request}"));
    let location = told["location"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned();
    assert!(job.wait_until(LONG, JobClient::has_ended));
    job.wait().unwrap();

    let mut env = environment(folder.path());
    env.restore_from(location.as_str()).start_fresh();
    let (again, address) = counts("stopped", &env);
    let restored = &get(address, &format!("/jobs/{id}/checkpoints"))["latest"]["restored"];
    assert_eq!((&restored["external_path"], &restored["is_savepoint"]), (&json!(location), &json!(true)));
    // a restart may need it
    let disposal = accepted(&post(address, "/savepoint-disposal", &json!({ "savepoint-path": location })));
    let told = outcome(address, &format!("/savepoint-disposal/{disposal}"));
    let why = told["failure-cause"]["stack-trace"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(why.contains("job `stopped` was started from it"), "{why}");
    assert!(Path::new(&location).join("_metadata").is_file());
    again.cancel();
    assert!(again.wait().is_err());
}

#[test]
fn a_savepoint_that_is_to_cancel_its_job_stops_it_as_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let (job, address) = counts("cancelled-with-savepoint", &environment(folder.path()));
    let at = format!("/jobs/{}/savepoints", job.id());
    let wanted = json!({ "target-directory": folder.path().join("sp"), "cancel-job": true });
    let request = accepted(&post(address, &at, &wanted));
    let told = outcome(address, &format!("{at}/{request}"));
    let location = told["location"].as_str().unwrap_or_else(|| panic!("{told}"));
    let ending = job.wait().unwrap().ending;
    assert!(matches!(&ending, JobEnding::Stopped(at) if at == location), "{ending}");
}

#[test]
fn a_savepoint_of_a_job_that_ends_before_it_is_complete_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let (job, address, fail) = stuck("ends", &environment(folder.path()));
    let target = folder.path().join("sp");
    let path = format!("/jobs/{}/savepoints", job.id());
    let request = accepted(&post(address, &path, &json!({ "target-directory": target })));
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.in_progress == 1));
    let running = &get(address, &format!("/jobs/{}/checkpoints", job.id()))["history"][0];
    assert_eq!((&running["status"], &running["className"]), (&json!("IN_PROGRESS"), &json!("in_progress")));
    fail.store(true, Ordering::SeqCst);
    let told = outcome(address, &format!("{path}/{request}"));
    let cause = told["failure-cause"].as_object().unwrap_or_else(|| panic!("{told}"));
    assert!(cause["stack-trace"].as_str().is_some_and(|why| !why.is_empty()), "{told}");
    assert!(job.wait().unwrap_err().to_string().contains("told to fail"));
    assert_eq!(inside(&target), [""; 0], "nothing is left of it");
}

#[test]
fn a_job_that_nobody_asks_about_any_more_ends_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (job, address) = counts("unasked", &environment(folder.path()));
    let path = format!("/jobs/{}/savepoints", job.id());
    accepted(&post(address, &path, &json!({ "target-directory": folder.path().join("sp") })));
    assert!(job.wait_until(LONG, |job| job.checkpoint_statistics().counts.completed == 1));
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn a_cancelled_job_stays_visible_and_is_not_cancelled_again() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (stays, address) = counts("stays", &environment(folders[0].path()));
    let (goes, _) = counts("goes", &environment(folders[1].path()));
    let path = format!("/jobs/{}", goes.id());
    let cancelled = ask_with(address, "PATCH", &format!("{path}?mode=cancel"), "", "");
    assert_eq!((cancelled.status, cancelled.json), (202, json!({})));
    assert_eq!(goes.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    let details = get(address, &path);
    assert_eq!(details["state"], "CANCELED");
    assert!(details["end-time"].as_i64().unwrap() >= details["start-time"].as_i64().unwrap(), "{details}");
    let again = ask_with(address, "PATCH", &path, "", "");
    assert!(refusal(&again, 409).contains("job `goes` has ended already (CANCELED)"));
    stays.cancel();
    assert!(stays.wait().is_err());
}

#[test]
fn only_savepoints_are_deleted_and_only_what_they_name() {
    let folder = tempfile::tempdir().unwrap();
    let (job, address) = counts("disposal", &environment(folder.path()));
    let dispose = |path: &str| -> Value {
        let request = accepted(&post(address, "/savepoint-disposal", &json!({ "savepoint-path": path })));
        outcome(address, &format!("/savepoint-disposal/{request}"))
    };
    let target = folder.path().join("sp").display().to_string();
    let savepoint = || job.trigger_savepoint(Some(&target), SavepointFormat::Native).unwrap().path;
    let (gone, with_notes) = (savepoint(), savepoint());
    assert_eq!(dispose(&gone), json!({}));
    assert!(!Path::new(&gone).exists());
    let notes = Path::new(&with_notes).join("notes.txt");
    std::fs::write(&notes, "mine").unwrap();
    assert_eq!(dispose(&with_notes), json!({}));
    assert_eq!(inside(Path::new(&with_notes)), ["notes.txt"]);

    let checkpoint = job.trigger_checkpoint().unwrap().path;
    let above = Path::new(&checkpoint).parent().unwrap().display().to_string();
    for (path, why) in [
        (checkpoint.as_str(), "this is a checkpoint"),
        (above.as_str(), "there is no `_metadata` in it"),
        (gone.as_str(), "nothing is there"),
        (notes.to_str().unwrap(), "not called `_metadata`"),
    ] {
        let told = dispose(path);
        assert!(
            told["failure-cause"]["stack-trace"].as_str().is_some_and(|said| said.contains(why)),
            "{path}: {told}"
        );
    }
    assert!(Path::new(&checkpoint).join("_metadata").is_file() && notes.is_file());
    job.cancel();
    assert!(job.wait().is_err());
}
