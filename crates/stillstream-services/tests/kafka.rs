//! What tests rely on: a broker that starts, comes back with its data, and never outlives its program.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stillstream_services::{Kafka, process::Process};

#[test]
fn a_broker_keeps_its_topics_over_a_kill_and_answers_on_every_listener() {
    let kafka = Kafka::start().unwrap();
    kafka.create_topic_with("in", 2, &[("max.message.bytes", "2000")]).unwrap();
    kafka.add_partitions("in", 3).unwrap();
    kafka.delete_records("in", 0, 0).unwrap();
    for address in [kafka.bootstrap(), kafka.sasl(), kafka.tls(), kafka.sasl_tls()] {
        std::net::TcpStream::connect(address).unwrap();
    }
    assert!(std::fs::read_to_string(kafka.certificate()).unwrap().starts_with("-----BEGIN CERTIFICATE"));
    kafka.kill().unwrap();
    let error = kafka.create_topic("out", 1).unwrap_err().to_string();
    assert!(error.contains(kafka.bootstrap()), "{error}");
    kafka.restart().unwrap();
    let error = kafka.create_topic("in", 1).unwrap_err().to_string();
    assert!(error.contains("making topic `in`: Kafka's error 36"), "{error}");
    kafka.delete_topic("in").unwrap();
}

/// Set in the program that is killed.
const FOLDER: &str = "STILLSTREAM_SERVICES_TEST_FOLDER";

#[test]
fn a_server_ends_with_the_program_that_started_it_and_its_folder_goes() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return start_a_server(Path::new(&folder));
    }
    let folder = std::env::temp_dir().join(format!("stillstream-services-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args([
            "a_server_ends_with_the_program_that_started_it_and_its_folder_goes",
            "--exact",
            "--nocapture",
        ])
        .env(FOLDER, &folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let server = BufReader::new(program.stdout.take().unwrap())
        .lines()
        .find_map(|line| line.unwrap().rsplit_once("server ").map(|(_, id)| id.to_string()))
        .unwrap();
    assert!(runs(&server) && folder.exists(), "server {server} does not run");
    program.kill().unwrap();
    program.wait().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a deadline")]
    let start = Instant::now();
    while runs(&server) || folder.exists() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "server {server} or {} is still there",
            folder.display()
        );
        std::thread::yield_now();
    }
    std::fs::remove_file(folder.with_extension("log")).unwrap();
}

/// Starts one and waits to be killed.
fn start_a_server(folder: &Path) {
    let command = ["sleep".to_string(), "1000".to_string()];
    let process = Process::start(&command, &folder.with_extension("log"), folder).unwrap();
    println!("server {}", process.id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn runs(process: &str) -> bool {
    Command::new("kill").args(["-0", process]).stderr(Stdio::null()).status().unwrap().success()
}
