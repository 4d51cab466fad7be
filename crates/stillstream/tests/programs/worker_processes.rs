//! Jobs with worker processes: what is counted there, and who is lost between two attempts.

use std::path::Path;
use std::process::{Command, Stdio};

use stillstream::JobStatus;
use stillstream::prelude::*;

const FOLDER: &str = "STILLSTREAM_WORKERS_TEST_FOLDER";
const WHAT: &str = "STILLSTREAM_WORKERS_TEST";
/// Far more than any of these jobs needs, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);

fn environment(folder: &Path) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2)
        .enable_checkpointing(millis(50))
        .set_state_backend(FsStateBackend::new(folder.join("checkpoints").to_string_lossy()))
        .set_restart_strategy(RestartStrategy::fixed_delay(u32::MAX, millis(500)));
    env.configuration_mut().set(stillstream::config::options::PROCESSES, 2);
    env
}

/// The result has every record, also those of the last moment, and a worker process of the second job sees it
/// too.
fn figures(folder: &Path) {
    let env = environment(folder);
    for name in ["first", "second"] {
        env.from_source("n", Generator::new(3_000, |n| n)).uid("n").rebalance().map(|n| n + 1).discard();
        // these have one subtask each, in different processes, and read one another
        let one = env.from_source("one", Generator::new(500, |n| n)).uid("one").set_parallelism(1);
        let two = env.from_source("two", Generator::new(500, |n| n)).uid("two").set_parallelism(1);
        let both = two.union(&one).map(|n| n).set_parallelism(1);
        both.shuffle().map(|n| n).global().map(|n| n).discard();
        let result = env.execute(name).unwrap();
        assert_eq!((result.records_in, result.records_out), (4_000, 4_000), "{name}: {result}");
    }
}

fn children() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.flat_map(|task| of(task).split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// A worker process dies while the next attempt is awaited: the job goes on.
fn lost_between_attempts(folder: &Path) {
    let env = environment(folder);
    let fail = folder.join("fail");
    let told = fail.clone();
    env.from_source("n", Generator::unbounded(|n| n).records_per_second(2_000.0))
        .uid("n")
        .rebalance()
        .try_map(move |n| match std::fs::remove_file(&told) {
            Ok(()) => Err(Error::msg("a bad record")),
            Err(_) => Ok(n),
        })
        .discard();
    let job = env.execute_async("lost").unwrap();
    let completed = |job: &JobClient| job.checkpoint_statistics().counts.completed;
    for round in 1..=3 {
        let before = completed(&job);
        assert!(job.wait_until(LONG, |job| completed(job) > before + 1), "round {round}: {:?}", job.status());
        let restarts = job.restarts();
        std::fs::write(&fail, "").unwrap();
        assert!(job.wait_until(LONG, |job| job.restarts() > restarts), "round {round}: {:?}", job.status());
        // while it waits, or while the next attempt is prepared
        job.wait_until(LONG, |job| round == 1 || job.status() != JobStatus::Restarting);
        if let Some(pid) = children().first() {
            let _ = Command::new("kill").args(["-9", pid]).status();
        }
    }
    let before = completed(&job);
    assert!(job.wait_until(LONG, |job| completed(job) > before + 1), "{:?}", job.status());
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

/// Not a test of its own: what the others start as a program of its own.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn program() {
    let (Ok(folder), Ok(what)) = (std::env::var(FOLDER), std::env::var(WHAT)) else { return };
    match what.as_str() {
        "figures" => figures(Path::new(&folder)),
        _ => lost_between_attempts(Path::new(&folder)),
    }
}

fn run(what: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["worker_processes::program", "--exact", "--nocapture"])
        .env(FOLDER, folder.path())
        .env(WHAT, what);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{what}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn the_result_of_a_job_in_processes_has_every_record_also_those_of_the_last_moment() {
    run("figures");
}

#[test]
fn a_worker_process_that_dies_between_two_attempts_is_replaced_and_the_job_goes_on() {
    run("lost between attempts");
}
