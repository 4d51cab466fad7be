//! Whoever reads the log may go away: the job does not care.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stillstream::prelude::*;

const FOLDER: &str = "STILLSTREAM_LOG_TEST_FOLDER";
const PROCESSES: &str = "STILLSTREAM_LOG_TEST_PROCESSES";
const DEADLINE: Duration = Duration::from_secs(120);

#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Not a test of its own: what the other starts as a program of its own. It goes on when its log has lost its
/// reader.
#[test]
fn program() {
    let Some(folder) = variable(FOLDER).map(PathBuf::from) else { return };
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(10)).set_parallelism(2);
    env.configuration_mut()
        .set(stillstream::config::options::PROCESSES, variable(PROCESSES).unwrap().parse::<i32>().unwrap());
    let (gone, many) = (folder.join("gone"), 20);
    let job = {
        env.from_source("numbers", Generator::unbounded(|n| n).records_per_second(1_000.0))
            .uid("numbers")
            .discard();
        env.execute_async("talkative").unwrap()
    };
    assert!(job.wait_until(DEADLINE, |_| gone.exists()));
    let before = job.checkpoint_statistics().counts.completed;
    let goes_on = |job: &JobClient| job.checkpoint_statistics().counts.completed >= before + many;
    assert!(job.wait_until(DEADLINE, goes_on), "{:?}", job.checkpoint_statistics());
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    std::fs::write(folder.join("done"), "").unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a test has a deadline")]
fn runs_to_its_end(folder: &Path, processes: &str) {
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["closed_log::program", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(PROCESSES, processes)
        .env("STILLSTREAM_LOG", "debug")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(program.stderr.take().unwrap()).read_line(&mut first).unwrap();
    assert!(!first.is_empty(), "there was something to read");
    std::fs::write(folder.join("gone"), "").unwrap();
    let begun = Instant::now();
    let status = loop {
        match program.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > DEADLINE => {
                program.kill().unwrap();
                program.wait().unwrap();
                panic!("{processes} processes: it hangs");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    assert!(status.success() && folder.join("done").exists(), "{processes} processes: {status}");
}

#[test]
fn a_job_whose_log_lost_its_reader_goes_on() {
    for processes in ["1", "2"] {
        let folder = tempfile::tempdir().unwrap();
        runs_to_its_end(folder.path(), processes);
    }
}
