//! 336 776 departures from New York in 2013, joined with the hourly weather: killed in the middle, and exact.
//!
//! Without `--job` this program is the demonstration: it starts itself as the job, kills the job hard
//! (`kill -9`) in the middle, starts it again, and shows what came out. With `--job` it is the job.

mod job;
mod options;
mod report;
mod rows;

use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use stillstream::prelude::*;

use options::parse;

/// What is said of the demonstration above the options.
const ABOUT: &str = "\
Runs the job of this example, kills it in the middle (`kill -9`), starts it again and shows what came out. The job gets these settings
unless they are given: --checkpoint-dir <out>/checkpoints --checkpoint-interval 200ms --storage filesystem --parallelism 2.
With --job, or as `flights plan` or `flights run`, this program is the job itself.
";
/// The job itself.
fn run_job(arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    let env = StreamExecutionEnvironment::from_args_with(options::OWN)?;
    job::build(&env, &options.settings);
    let result = env.execute("flights")?;
    if let Some(checkpoint) = result.resumed_from {
        println!("resumed from checkpoint {checkpoint}");
    }
    println!("{result}");
    Ok(())
}

/// Starts this program again as the job, with defaults for what the user did not say.
fn start_job(arguments: &[String], out: &Path, fresh: bool) -> Result<Child> {
    let said = |name: &str| arguments.iter().any(|argument| argument == name);
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--job").args(arguments);
    if fresh && !said("--start-fresh") {
        // a job that has finished does not run again unasked
        command.arg("--start-fresh");
    }
    if !said("--checkpoint-dir") {
        command.arg("--checkpoint-dir").arg(out.join("checkpoints"));
    }
    let defaults = [("--checkpoint-interval", "200ms"), ("--parallelism", "2"), ("--storage", "filesystem")];
    for (name, value) in defaults.into_iter().filter(|(name, _)| !said(name)) {
        command.args([name, value]);
    }
    Ok(command.spawn()?)
}

fn wait(mut job: Child) -> Result<ExitStatus> {
    Ok(job.wait()?)
}

fn demonstrate(arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    let out = &options.settings.out;
    // results of an earlier demonstration, and nothing else
    for name in ["airport_hours", "carrier_days", "late", "checkpoints"] {
        match std::fs::remove_dir_all(out.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    println!("Reading {} ..", options.settings.flights.display());
    let mut job = start_job(arguments, out, true)?;
    if let Some(after) = options.kill_after {
        std::thread::sleep(after);
        if job.try_wait()?.is_none() {
            job.kill()?;
            println!(
                "\nKilled the job (process {}) with SIGKILL after {after:?}. Starting it again ..",
                job.id()
            );
            wait(job)?;
            job = start_job(arguments, out, false)?;
        }
    }
    let status = wait(job)?;
    if !status.success() {
        return Err(Error::msg(format!("the job ended with {status}; its error is above")));
    }
    report::print(out)
}

#[stillstream::main]
#[expect(clippy::disallowed_methods, reason = "the start of the program reads its arguments")]
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{ABOUT}\n{}", StreamExecutionEnvironment::help("flights", options::OWN));
        return Ok(());
    }
    // `stillstream restore-plan` asks a program for its plan
    let asked_for_plan = std::env::var_os("STILLSTREAM_PLAN_FILE").is_some();
    match arguments.first().map(String::as_str) {
        Some("--job" | "plan" | "run") => run_job(&arguments),
        _ if asked_for_plan => run_job(&arguments),
        _ => demonstrate(&arguments),
    }
}
