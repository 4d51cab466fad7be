//! What is checked.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;

use crate::JOB;

macro_rules! checks {
    ($($name:ident)*) => {
        /// All checks, by name.
        pub const ALL: &[(&str, fn())] = &[$((stringify!($name), $name),)*];
    };
}

checks! {
    a_person_watches_a_job_and_takes_savepoints_of_it
    a_job_is_stopped_with_a_savepoint_and_goes_on_from_it
    a_job_is_cancelled
    what_is_not_there_is_said
    with_a_token_only_those_who_have_it_get_an_answer
    a_port_that_is_taken_is_an_error_only_if_somebody_chose_it
}

/// A job that runs, killed with the test.
struct Job {
    child: Child,
    log: BufReader<ChildStderr>,
    url: String,
}

impl Drop for Job {
    fn drop(&mut self) {
        // one that has ended needs no killing
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).env(JOB, "1").envs(variables.iter().copied());
    command.env_remove("STILLSTREAM_LOG").env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A job whose REST interface is known by its log.
#[expect(clippy::zombie_processes, reason = "whoever gets the job waits for its end")]
fn job(arguments: &[&str], variables: &[(&str, &str)]) -> Job {
    let mut child = start(arguments, variables);
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut read = String::new();
    loop {
        let from = read.len();
        assert!(log.read_line(&mut read).unwrap() > 0, "the job has ended: {read}");
        if let Some((_, url)) = read[from..].split_once("answers by REST at ") {
            let url = url.split_whitespace().next().unwrap().to_owned();
            return Job { child, log, url };
        }
    }
}

impl Job {
    /// The exit code, and what the log still said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

fn run(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillstream"));
    command.env_remove("STILLSTREAM_REST_TOKEN").env("STILLSTREAM_REST", url);
    command.args(arguments).output().unwrap()
}

/// What a command says that ends with `code`.
fn said(code: i32, url: &str, arguments: &[&str]) -> String {
    let output = run(url, arguments);
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{errors}");
    if code == 0 { out.into_owned() } else { errors.into_owned() }
}

fn json(url: &str, arguments: &[&str]) -> Value {
    let output = run(url, &[&["--json"], arguments].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
}

/// Waits until its tasks run: before that there is nothing to take a savepoint of.
fn until_running(job: &Job) -> &str {
    while json(&job.url, &["list"])[0]["state"] != "RUNNING" {}
    &job.url
}

/// Checkpoints in this folder, and any free port.
fn with_checkpoints<'a>(folder: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["--checkpoint-dir", folder, "--checkpoint-interval", "1h", "-D", "rest.bind-port=0"];
    [&fixed, more].concat()
}

fn a_person_watches_a_job_and_takes_savepoints_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (ck, sp) = (folder.path().join("ck"), folder.path().join("sp").display().to_string());
    let job = job(&with_checkpoints(ck.to_str().unwrap(), &[]), &[]);
    let url = until_running(&job);

    let list = said(0, url, &["list"]);
    assert!(list.contains("carriers") && list.contains("RUNNING"), "{list}");
    let id = json(url, &["list"])[0]["jid"].as_str().unwrap().to_owned();
    assert!(list.contains(&id) && id.len() == 32);
    // the same by a flag, and with a slash behind it
    assert_eq!(json("http://127.0.0.1:1", &["list", "--rest", &format!("{url}/")])[0]["jid"], id.as_str());

    let checkpoint = said(0, url, &["checkpoint", "carriers"]);
    let (_, path) = checkpoint.trim().split_once(' ').unwrap();
    assert!(Path::new(path).join("_metadata").is_file(), "{checkpoint}");
    let full = json(url, &["checkpoint", "carriers", "--full"]);
    assert!(Path::new(full["location"].as_str().unwrap()).join("_metadata").is_file(), "{full}");
    let number = full["checkpoint"].to_string();
    let path = full["location"].as_str().unwrap();
    let native = said(0, url, &["savepoint", &id, &sp, "--type", "native"]);
    let canonical = json(url, &["savepoint", "carriers", &sp]);
    for path in [native.trim(), canonical["location"].as_str().unwrap()] {
        assert!(path.starts_with(&sp) && Path::new(path).join("_metadata").is_file(), "{path}");
        // what the command for folders says of it
        assert!(said(0, url, &["inspect", path]).contains("count"), "{path}");
    }
    let request = said(0, url, &["savepoint", "carriers", &sp, "--detached"]);
    assert_eq!(request.trim().len(), 32, "{request}");

    let checkpoints = said(0, url, &["checkpoints", "carriers"]);
    for part in [
        "completed",
        "savepoint (native)",
        "savepoint (canonical)",
        "checkpoint",
        path,
        native.trim(),
        "of those that completed:",
    ] {
        assert!(checkpoints.contains(part), "{part} in: {checkpoints}");
    }
    assert_eq!(json(url, &["checkpoints", &id])["latest"]["completed"]["id"].to_string(), number);
    assert_eq!(said(0, url, &["exceptions", "carriers"]), "job `carriers` has not failed\n");
    // a folder is a folder still
    assert!(said(0, url, &["checkpoints", ck.to_str().unwrap()]).contains(path));
    assert!(said(0, url, &["list", ck.to_str().unwrap()]).contains("carriers"));
    assert!(said(2, url, &["savepoint", "carriers", "--type", "fast"]).contains("canonical, native"));
    // neither here nor in the settings
    assert!(said(4, url, &["savepoint", "carriers"]).contains("execution.checkpointing.savepoint-dir"));
}

fn a_job_is_stopped_with_a_savepoint_and_goes_on_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let (ck, sp) =
        (folder.path().join("ck").display().to_string(), folder.path().join("sp").display().to_string());
    let first = job(&with_checkpoints(&ck, &[]), &[]);
    let savepoint = said(0, until_running(&first), &["stop", "carriers", &sp]).trim().to_owned();
    assert!(Path::new(&savepoint).join("_metadata").is_file(), "{savepoint}");
    let (code, log) = first.end();
    assert_eq!(code, Some(0), "{log}");

    let second = job(&with_checkpoints(&ck, &["--from", &savepoint]), &[]);
    let statistics = json(until_running(&second), &["checkpoints", "carriers"]);
    assert_eq!(statistics["latest"]["restored"]["external_path"], savepoint.as_str());
    let drained = json(&second.url, &["stop", "carriers", &sp, "--drain"]);
    assert!(Path::new(drained["location"].as_str().unwrap()).join("_metadata").is_file(), "{drained}");
    assert_eq!(second.end().0, Some(0));
}

fn a_job_is_cancelled() {
    let job = job(&["-D", "rest.bind-port=0"], &[]);
    assert_eq!(said(0, &job.url, &["cancel", "carriers"]), "job `carriers` is cancelled\n");
    let url = job.url.clone();
    let (code, log) = job.end();
    assert_eq!(code, Some(8), "{log}");
    let gone = said(6, &url, &["list"]);
    assert!(gone.contains(&format!("no REST interface answers at {url}")), "{gone}");
}

fn what_is_not_there_is_said() {
    let job = job(&["-D", "rest.bind-port=0"], &[]);
    let unknown = said(2, &job.url, &["cancel", "cariers"]);
    assert!(
        unknown.contains("there is no job `cariers`") && unknown.contains("it has `carriers` ("),
        "{unknown}"
    );
    // something else listens there
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let answers = std::thread::Builder::new().name("other".into()).spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.read(&mut [0; 1000]);
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    });
    let wrong = said(2, &format!("127.0.0.1:{port}"), &["list"]);
    assert!(wrong.contains("is no REST interface of a job") && wrong.contains("--rest URL"), "{wrong}");
    answers.unwrap().join().unwrap();
    for (address, part) in
        [("https://box.example", "no TLS"), ("ftp://box.example", "`http://<host>:<port>`")]
    {
        assert!(said(2, address, &["list"]).contains(part), "{address}");
    }
    assert_eq!(
        json("http://127.0.0.1:1", &["list"])["error"].as_str().map(|text| text.contains("127.0.0.1:1")),
        Some(true)
    );
}

fn with_a_token_only_those_who_have_it_get_an_answer() {
    let open = ["-D", "rest.bind-port=0", "-D", "rest.bind-address=0.0.0.0"];
    let refused = start(&open, &[]).wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{log}");
    assert!(log.contains("rest.bind-address: 0.0.0.0") && log.contains("token-file"), "{log}");

    let folder = tempfile::tempdir().unwrap();
    let (token, wrong) = (folder.path().join("token"), folder.path().join("wrong"));
    std::fs::write(&token, "0123456789abcdef-secret\n").unwrap();
    std::fs::write(&wrong, "0123456789abcdef-other\n").unwrap();
    let job = job(&open, &[("STILLSTREAM_REST_TOKEN", "0123456789abcdef-secret")]);
    let url = job.url.replace("0.0.0.0", "127.0.0.1");
    assert!(said(2, &url, &["list"]).contains("STILLSTREAM_REST_TOKEN has the token"));
    assert!(
        said(2, &url, &["list", "--token-file", wrong.to_str().unwrap()]).contains("not that of this server")
    );
    let with = ["--token-file", token.to_str().unwrap()];
    assert!(said(0, &url, &[&["list"], &with[..]].concat()).contains("carriers"));
    assert!(said(0, &url, &[&["cancel", "carriers"], &with[..]].concat()).contains("is cancelled"));
    let (_, log) = job.end();
    assert!(!log.contains("secret"), "{log}");
}

fn a_port_that_is_taken_is_an_error_only_if_somebody_chose_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let key = format!("rest.bind-port={port}");
    let refused = start(&["-D", &key], &[]).wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{log}");
    for part in ["cannot listen at 127.0.0.1", &port, "rest.bind-port=0", "stillstream.rest.enabled=false"] {
        assert!(log.contains(part), "{part} in: {log}");
    }
    let (one, other) = (job(&[], &[]), job(&["--name", "others"], &[]));
    assert_ne!(one.url, other.url);
    for (job, name) in [(&one, "carriers"), (&other, "others")] {
        let port: u16 = job.url.rsplit(':').next().unwrap().parse().unwrap();
        assert!((8081..=8181).contains(&port), "{}", job.url);
        assert_eq!(json(&job.url, &["list"])[0]["name"], name);
    }
}
