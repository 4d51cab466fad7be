//! Random jobs under random faults: errors, panics, kills of the program and of its worker processes,
//! cancels. No output is wrong, nothing hangs, nothing is left behind.
//!
//! `cargo test -p stillstream --all-features --test torture` runs some seeds; `-- 17` runs one and
//! `-- 1..500` a range. The job is this program again, so it cannot be one of the usual test programs, whose
//! arguments are the test runner's.

mod check;
mod faults;
mod functions;
mod job;
mod ledger;
mod plan;
mod source;

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use check::Extent;
use plan::{Plan, Way};
use stillstream::prelude::*;

/// What runs with the other tests.
const USUAL: RangeInclusive<u64> = 1..=20;
/// No run of these small jobs needs nearly as long.
const DEADLINE: Duration = Duration::from_secs(30);
/// A program may be started again this often. More restarts count as a fault.
const RUNS: u64 = 20;

fn outcome(folder: &Path, run: u64) -> PathBuf {
    folder.join(format!("outcome-{run}"))
}

/// The job, as a program of its own: folder, seed, run, and from where it starts.
fn program(arguments: &[String]) {
    let [folder, seed, run, from] = arguments else { panic!("four arguments, not {arguments:?}") };
    let folder = PathBuf::from(folder);
    let (seed, run): (u64, u64) = (seed.parse().expect("a seed"), run.parse().expect("a run"));
    let plan = Plan::of(seed);
    faults::arm(folder.clone(), plan.faults.clone());
    let (env, _) = plan.environment(run, &folder, (from != "usual").then_some(from));
    job::build(&env, seed, &folder);
    let result = match &plan.way {
        Way::Cancelled { after, .. } if run == 0 => env.execute_async("torture").and_then(|client| {
            client.wait_until(millis(*after), |client| client.status().is_terminal());
            client.cancel();
            client.wait()
        }),
        _ => env.execute("torture"),
    };
    let text = match result {
        Ok(_) => "finished".into(),
        Err(error) if error.kind() == ErrorKind::Cancelled => "cancelled".into(),
        Err(error) => format!("failed: {error}"),
    };
    fs::write(outcome(&folder, run), text).expect("the outcome is written");
}

/// A running program; it does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn workers(&self) -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0.id())).into_iter().flatten().flatten();
        let children =
            |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
        tasks
            .flat_map(|task| children(task).split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }

    fn kill_worker(&self, which: u64) {
        let workers = self.workers();
        if let Some(pid) = workers.get(which as usize % workers.len().max(1)) {
            // it may be gone already
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test has a deadline")]
fn now() -> Instant {
    Instant::now()
}

/// Runs the program once; how it ended, `None` if it died.
fn start(plan: &Plan, run: u64, folder: &Path, from: &str) -> Result<Option<String>, String> {
    let log = fs::File::create(folder.join(format!("log-{run}"))).expect("a log");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("program").arg(folder).args([&plan.seed.to_string(), &run.to_string(), from]);
    command.env_remove("RUST_BACKTRACE").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut running = Running(command.spawn().expect("the program starts"));
    let begun = now();
    let mut kills: Vec<u64> = match &plan.way {
        Way::Killed(after) => after.get(run as usize).copied().into_iter().collect(),
        Way::Workers(after) if run == 0 => after.clone(),
        _ => vec![],
    };
    kills.sort_unstable();
    let mut kills = kills.into_iter().peekable();
    loop {
        if running.0.try_wait().expect("a child").is_some() {
            return Ok(fs::read_to_string(outcome(folder, run)).ok());
        }
        let passed = begun.elapsed();
        if let Some(at) = kills.next_if(|at| passed >= Duration::from_millis(*at)) {
            match plan.way {
                Way::Killed(_) => running.0.kill().expect("it is killed"),
                _ => running.kill_worker(at),
            }
        }
        if passed > DEADLINE {
            return Err(format!("run {run} hangs"));
        }
        std::thread::sleep(millis(2));
    }
}

/// What is wrong with a seed, and how it went.
fn torture(seed: u64, folder: &Path) -> (Vec<String>, String) {
    let plan = Plan::of(seed);
    let expected = {
        let (env, _) = plan.environment(0, folder, None);
        job::build(&env, seed, folder)
    };
    let mut text = format!("{}| {:?}, {:?}", expected.text, plan.way, plan.faults);
    let (mut from, mut users) = ("usual".to_owned(), vec![]);
    for run in 0..RUNS {
        text += &format!(
            "\n  run {run}: {}",
            plan.environment(run, folder, (from != "usual").then_some(&from)).1
        );
        let ended = match start(&plan, run, folder, &from) {
            Err(hangs) => return (vec![hangs], text),
            Ok(ended) => ended,
        };
        text += &format!(": {}", ended.as_deref().unwrap_or("died"));
        match ended.as_deref() {
            // the next one goes on from where this one was
            None => {}
            Some("finished") => {
                let mut wrong = check::output(folder, &expected, Extent::Whole);
                wrong.extend(check::left_by_finished(folder, &users, plan.is_mortal()));
                return (wrong, text);
            }
            Some("cancelled") => {
                let mut wrong = check::output(folder, &expected, Extent::Part);
                let Way::Cancelled { kept, .. } = plan.way else {
                    return (vec!["cancelled unasked".into()], text);
                };
                users = check::in_checkpoints(folder);
                let strays = if kept { check::strays(&users) } else { users.clone() };
                if !strays.is_empty() {
                    wrong.push(format!("left behind by a cancelled job: {strays:?}"));
                }
                if !wrong.is_empty() || !kept {
                    return (wrong, text);
                }
                from = check::kept(folder).unwrap_or_else(|| "fresh".into());
            }
            Some(failed) => return (vec![failed.to_owned()], text),
        }
    }
    (vec![format!("it was started {RUNS} times")], text)
}

/// Runs seeds, two at a time: many wait more than they work. Says how many are wrong.
fn run(seeds: RangeInclusive<u64>) -> usize {
    let (next, wrong) = (Mutex::new(seeds), Mutex::new(0));
    let work = || {
        loop {
            let Some(seed) = next.lock().unwrap().next() else { return };
            let folder = tempfile::tempdir().unwrap();
            let begun = now();
            let (faults, text) = torture(seed, folder.path());
            if faults.is_empty() {
                println!("seed {seed} ... ok ({:.1} s)", begun.elapsed().as_secs_f64());
                continue;
            }
            *wrong.lock().unwrap() += 1;
            // kept to be looked at
            let folder = folder.keep();
            println!(
                "seed {seed} ... FAILED\n  {}\n  {text}\n  in {}; again by `cargo test -p stillstream --all-features --test \
                 torture -- {seed}`",
                faults.join("\n  "),
                folder.display()
            );
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    wrong.into_inner().unwrap()
}

/// The seeds that an argument names.
fn seeds(argument: &str) -> Option<RangeInclusive<u64>> {
    match argument.split_once("..") {
        Some((first, last)) => Some(first.parse().ok()?..=last.trim_start_matches('=').parse().ok()?),
        None => argument.parse().ok().map(|seed| seed..=seed),
    }
}

#[expect(clippy::disallowed_methods, reason = "a test process learns from its arguments what it is")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "program") {
        program(&arguments[1..]);
        return ExitCode::SUCCESS;
    }
    // a filter for the names of other tests is not meant for this program
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let ranges: Vec<_> = match wanted.is_empty() {
        true => vec![USUAL],
        false => wanted.iter().filter_map(|argument| seeds(argument)).collect(),
    };
    let wrong: usize = ranges.into_iter().map(run).sum();
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
