//! Who gets an answer, and what is refused.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use stillstream::JobStatus;
use stillstream::prelude::*;

use crate::client::{LONG, ask_with, get, post, refusal, send};
use crate::job::{counts, environment};

#[test]
fn a_page_in_somebodys_browser_cannot_drive_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let (job, address) = counts("browsed", &environment(folder.path()));
    let path = format!("/jobs/{}", job.id());
    for header in [
        "Origin: http://evil.example",
        "Origin: null",
        "Referer: http://evil.example/",
        "Sec-Fetch-Site: cross-site",
    ] {
        let answer = ask_with(address, "PATCH", &path, &format!("{header}\r\n"), "");
        assert!(refusal(&answer, 403).contains("may not change anything here"), "{header}");
        let answer = ask_with(address, "POST", &format!("{path}/stop"), &format!("{header}\r\n"), "{}");
        assert_eq!(answer.status, 403, "{header}");
    }
    // its own name, which it has resolve to this machine
    let rebound = ask_with(address, "GET", "/jobs/overview", "Host: evil.example\r\n", "");
    assert!(refusal(&rebound, 403).contains("`rest.address`"));
    let asks_first = ask_with(address, "OPTIONS", &path, "Origin: http://localhost\r\n", "");
    assert_eq!(asks_first.status, 403);
    assert_eq!(job.status(), JobStatus::Running);
    let own = ask_with(
        address,
        "PATCH",
        &path,
        &format!("Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n"),
        "",
    );
    assert_eq!(own.status, 202);
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let (job, address) = counts("refusing", &environment(folder.path()));
    let at = |path: &str| format!("/jobs/{}{path}", job.id());
    let unknown = "00000000000000000000000000000000";
    let trigger = "0123456789abcdef0123456789abcdef";
    let long = format!("{{\"target-directory\": \"{}\"}}", "x".repeat(100_000));
    for (method, path, body, status, part) in [
        ("GET", "/nowhere", "", 404, "no path `/nowhere`"),
        ("DELETE", "/jobs", "", 405, "does not go with `DELETE`"),
        ("GET", "/jobs/xyz", "", 400, "`xyz` is not an id"),
        ("GET", &format!("/jobs/{unknown}"), "", 404, "not found"),
        ("PATCH", &at("?mode=stop"), "", 400, "`POST /jobs/"),
        ("GET", &at("/checkpoints/details/one"), "", 400, "`one` is not the number"),
        ("GET", &at("/checkpoints/details/77"), "", 404, "checkpoint 77"),
        ("GET", &at(&format!("/savepoints/{trigger}")), "", 404, "no operation"),
        ("GET", &at("/savepoints/x"), "", 400, "`x` is not an id"),
        ("POST", &at("/savepoints"), "{\"target-directory\": 3}", 400, "the body is not what is expected"),
        ("POST", &at("/savepoints"), "{\"targetDirectory\": \"/x\"}", 400, "unknown field `targetDirectory`"),
        ("POST", &at("/savepoints"), "nonsense", 400, "the body is not what is expected"),
        ("POST", &at("/savepoints"), "{\"triggerId\": \"7\"}", 400, "`triggerId`"),
        ("POST", &at("/savepoints"), &long, 413, "longer than 65536 bytes"),
        ("POST", &at("/checkpoints"), "{\"checkpointType\": \"WHOLE\"}", 400, "`WHOLE` is not known"),
        (
            "POST",
            &at("/checkpoints"),
            "{\"checkpointType\": \"INCREMENTAL\"}",
            400,
            "execution.checkpointing.incremental",
        ),
        ("POST", "/savepoint-disposal", "{}", 400, "missing field `savepoint-path`"),
    ] {
        let text = refusal(&ask_with(address, method, path, "", body), status);
        assert!(text.contains(part), "{method} {path}: {text}");
    }
    // neither named nor configured
    let answer = post(address, &at("/savepoints"), &json!({}));
    let request = answer.json["request-id"].as_str().unwrap();
    let told = crate::client::outcome(address, &at(&format!("/savepoints/{request}")));
    assert!(told["failure-cause"]["stack-trace"].as_str().unwrap().contains("savepoint-dir"), "{told}");
    assert_eq!(job.status(), JobStatus::Running);
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn clients_that_are_slow_or_silent_or_endless_do_not_keep_others_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let (job, address) = counts("patient", &environment(folder.path()));
    let mut silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    silent[0].write_all(b"GET /jobs HT").unwrap();
    silent[1]
        .write_all(b"POST /savepoint-disposal HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n{")
        .unwrap();
    assert_eq!(get(address, "/config")["refresh-interval"], 3000);
    let endless =
        send(address, format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20)).as_bytes());
    assert!(!endless.starts_with("HTTP/1.1 200"), "{endless}");
    // they are sent away after a time
    silent[2].set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(silent[2].read(&mut [0; 8]).unwrap_or(0), 0);
    assert_eq!(get(address, "/config")["refresh-interval"], 3000);
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn a_job_that_is_made_in_code_listens_only_if_it_says_so() {
    let env = StreamExecutionEnvironment::new();
    env.from_collection(0..10u32).discard();
    let job = env.execute_async("quiet").unwrap();
    assert_eq!(job.rest_address(), None);
    job.wait().unwrap();

    let folder = tempfile::tempdir().unwrap();
    let mut env = environment(folder.path());
    env.set_rest(false);
    env.from_collection(0..10u32).discard();
    let job = env.execute_async("quiet too").unwrap();
    assert_eq!(job.rest_address(), None);
    job.wait().unwrap();
}

#[test]
fn a_job_that_wants_another_server_than_its_process_has_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let (job, address) = counts("first come", &environment(folder.path()));
    for (key, value, part) in [
        ("rest.bind-port", "1", "another port (rest.bind-port)"),
        ("stillstream.rest.token", "0123456789abcdef", "another token"),
        ("rest.bind-address", "0.0.0.0", "is open to the network"),
        ("rest.bind-port", "many", "a port from 0 to 65535"),
    ] {
        let mut env = environment(folder.path());
        env.configuration_mut().set_text(key, value).unwrap();
        env.from_collection(0..10u32).discard();
        let error = env.execute_async("second").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains(part), "{key}: {error}");
    }
    assert!(job.wait_until(Duration::from_secs(60), |job| job.status() == JobStatus::Running));
    assert_eq!(get(address, &format!("/jobs/{}/status", job.id())), json!({ "status": "RUNNING" }));
    job.cancel();
    assert!(job.wait().is_err());
}
