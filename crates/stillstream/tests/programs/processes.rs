//! Jobs in several processes: processes that die at every step between two attempts, and what is said of
//! them.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::paced::Paced;
use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, JobStatus, SourceStatus};
use stillstream_types::crash::{Crash, CrashHook, install};

const FOLDER: &str = "STILLSTREAM_PROCESSES_TEST_FOLDER";
/// Who dies where, as `process:point` with commas; each once, and one after the other. `jm` is the
/// JobManager, which does not die but kills a worker process.
const DEATHS: &str = "STILLSTREAM_PROCESSES_TEST_DEATHS";
const JOB: &str = "STILLSTREAM_PROCESSES_TEST_JOB";
const DEADLINE: Duration = Duration::from_secs(120);

#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The deaths of this process.
#[derive(Debug)]
struct Deaths {
    folder: PathBuf,
    me: String,
    rules: Vec<(String, String)>,
}

impl CrashHook for Deaths {
    fn pass(&self, point: &str) -> Result<(), Crash> {
        let marker = |rule: usize| self.folder.join(format!("death-{rule}"));
        for (rule, (who, place)) in self.rules.iter().enumerate() {
            let due = rule == 0 || marker(rule - 1).exists();
            if *who != self.me || place != point || !due {
                continue;
            }
            if OpenOptions::new().write(true).create_new(true).open(marker(rule)).is_err() {
                continue;
            }
            match who == "jm" {
                true => kill_and_wait(*workers(std::process::id()).last().expect("there are workers")),
                false => std::process::abort(),
            }
        }
        Ok(())
    }
}

fn workers(manager: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{manager}/task")).into_iter().flatten();
    let of =
        |task: std::io::Result<fs::DirEntry>| fs::read_to_string(task.ok()?.path().join("children")).ok();
    tasks
        .filter_map(of)
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>())
        .collect()
}

fn kill_9(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

/// Kills a process and waits until its parent has learned of it.
fn kill_and_wait(pid: u32) {
    kill_9(pid);
    until("the killed process is gone", || !Path::new(&format!("/proc/{pid}")).exists());
}

#[expect(clippy::disallowed_methods, reason = "a test has a deadline")]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

const RECORDS: u64 = 6_000;
const STEP: u64 = RECORDS / 10;

/// Sums by key into files.
fn sums(folder: &Path) -> Result<JobResult> {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(10))
        .set_parallelism(3)
        .set_restart_strategy(RestartStrategy::fixed_delay(10, Duration::from_millis(1)))
        .set_state_backend(FsStateBackend::new(folder.join("checkpoints").to_string_lossy()));
    env.configuration_mut().set(stillstream::config::options::PROCESSES, 3);
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
    env.execute("sums")
}

/// A source that never has anything.
struct Silent;

impl SplitSource for Silent {
    type Item = u64;
    type Split = u64;
    fn splits(&self) -> Result<Vec<u64>> {
        Ok(vec![0, 1])
    }
    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<u64, u64>>> {
        Ok(Box::new(Silent))
    }
}

impl SplitReader<u64, u64> for Silent {
    fn assign(&mut self, _: Vec<u64>) -> Result<()> {
        Ok(())
    }
    fn poll(&mut self, _: usize, _: &mut Batch<u64>) -> Result<SourceStatus> {
        Ok(SourceStatus::Idle { until_ms: None })
    }
    fn positions(&self) -> Vec<u64> {
        vec![]
    }
}

/// Runs until somebody ends it; says in a file when it runs, and in another how it ended.
fn endless(folder: &Path, silent: bool) {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2).set_restart_strategy(RestartStrategy::none());
    env.configuration_mut().set(stillstream::config::options::PROCESSES, 2);
    let stream = match silent {
        true => env.from_source("silent", Silent),
        false => env.from_source("numbers", Generator::unbounded(|n| n).records_per_second(10_000.0)),
    };
    stream.key_by(|n| n % 100).map_with_state("sum", |sum: &mut u64, n| *sum + n).discard();
    let job = env.execute_async("endless").unwrap();
    let running =
        |job: &JobClient| job.status() == JobStatus::Running && (silent || job.metrics().records_in > 1_000);
    assert!(job.wait_until(DEADLINE, running));
    fs::write(folder.join("running"), "").unwrap();
    let error = job.wait().unwrap_err();
    fs::write(folder.join("error"), error.to_string()).unwrap();
}

/// Not a test of its own: what the others start as a program of its own.
#[test]
fn program() {
    let Some(folder) = variable(FOLDER).map(PathBuf::from) else { return };
    let me = variable("STILLSTREAM_WORKER_PROCESS").unwrap_or_else(|| "jm".into());
    let deaths = variable(DEATHS).unwrap_or_default();
    let rule =
        |rule: &str| rule.split_once(':').map(|(who, point)| (who.to_owned(), point.to_owned())).unwrap();
    let rules = deaths.split(',').filter(|rule| !rule.is_empty()).map(rule).collect();
    install(Some(Arc::new(Deaths { folder: folder.clone(), me, rules })));
    match variable(JOB).as_deref() {
        Some("endless") => endless(&folder, false),
        Some("silent") => endless(&folder, true),
        _ => drop(sums(&folder).unwrap()),
    }
}

/// A running program; it does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, job: &str, deaths: &str) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["processes::program", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(JOB, job)
        .env(DEATHS, deaths);
    let log = fs::File::create(folder.join("log")).unwrap();
    Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Waits for the end of the program, and says whether it reported that all is well.
fn ended(running: &mut Running, what: &str, folder: &Path) -> bool {
    let mut status = None;
    let wait = std::panic::AssertUnwindSafe(|| {
        until(what, || {
            status = running.0.try_wait().unwrap();
            status.is_some()
        })
    });
    if std::panic::catch_unwind(wait).is_err() {
        panic!("{what}: it hangs\n{}", log(folder));
    }
    status.unwrap().success()
}

fn check(folder: &Path, what: &str) {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder.join("out")).unwrap() {
        let path = entry.unwrap().path();
        assert!(path.extension().is_some_and(|e| e == "csv"), "{what}: left over: {}", path.display());
        let text = fs::read_to_string(path).unwrap();
        numbers.extend(text.lines().map(|row| row.split(',').next().unwrap().parse::<u64>().unwrap()));
    }
    let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!((numbers.len() as u64, distinct.len() as u64), (RECORDS, RECORDS), "{what}: each record once");
}

#[test]
fn a_process_that_dies_at_any_step_of_the_next_attempt_is_replaced_and_each_record_is_there_once() {
    for second in [
        "jm:before-attempt",
        "2:before-worker-listens",
        "2:after-worker-listens",
        "0:before-worker-starts",
        "2:before-workers-meet",
        "0:after-workers-met",
        "2:during-restore",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let deaths = format!("1:before-commit,{second},0:before-worker-listens,jm:before-attempt");
        let mut running = start(folder.path(), "sums", &deaths);
        assert!(ended(&mut running, second, folder.path()), "{second}: {}", log(folder.path()));
        for rule in 0..4 {
            let died = folder.path().join(format!("death-{rule}")).exists();
            assert!(died, "{second}: death {rule} did not happen\n{}", log(folder.path()));
        }
        check(folder.path(), second);
    }
}

#[test]
fn a_killed_worker_process_is_named_with_its_signal_and_not_by_what_its_peers_saw_of_it() {
    for killed in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let mut running = start(folder.path(), "endless", "");
        until("the job runs", || folder.path().join("running").exists());
        let pid = workers(running.0.id())[killed];
        kill_9(pid);
        assert!(ended(&mut running, "killed", folder.path()), "{}", log(folder.path()));
        let error = fs::read_to_string(folder.path().join("error")).unwrap();
        assert!(
            error.contains(&format!("was lost: process {pid} ended with signal: 9 (SIGKILL)")),
            "{error}"
        );
        let log = log(folder.path());
        assert!(!log.contains("MergeQueue") && !log.contains("timely communication"), "{log}");
    }
}

/// How often the threads of these processes have gone to sleep so far.
fn sleeps(processes: &[u32]) -> u64 {
    let threads = processes.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).unwrap());
    threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok())
        .filter_map(|status| {
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}

#[test]
fn idle_processes_sleep() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path(), "silent", "");
    until("the job runs", || folder.path().join("running").exists());
    let manager = running.0.id();
    let mut processes = workers(manager);
    processes.push(manager);
    let second = || {
        let before = sleeps(&processes);
        // the time over which wake-ups are counted
        std::thread::sleep(Duration::from_secs(1));
        sleeps(&processes) - before
    };
    // figures that have just changed are sent more often for a while
    let mut counted = Vec::new();
    until("they come to rest", || {
        counted.push(second());
        counted.last().is_some_and(|wake_ups| *wake_ups < 60)
    });
    println!("wake-ups a second of a JobManager and two worker processes: {counted:?}");
}
