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

const HELP: &str = "\
Usage: flights [OPTIONS]

  --flights FILE             departures (default: the file that comes with the project)
  --weather FILE             hourly weather (default: the file that comes with the project)
  --out DIR                  where results go (default: out/flights)
  --checkpoint-dir DIR       where checkpoints go (default: <out>/checkpoints)
  --checkpoint-interval D    time between checkpoints (default: 200ms)
  --out-of-orderness D       how late a row may come (default: 22h, which no row exceeds)
  --pace D                   spread the departures over this time (default: 7s); 0s reads as fast as it can
  --kill-after D             when the demonstration kills the job (default: half the pace)
  --no-kill                  do not kill it
  --parallelism N            subtasks of each operator (default: 2)
  --processes N              worker processes (default: 1: all in one)
  --storage NAME             where checkpoints are kept: memory or filesystem (default: filesystem)
  -D KEY=VALUE               any setting of docs/configuration.md
";

/// The job itself.
fn run_job(arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    let env = StreamExecutionEnvironment::from_args()?;
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
        print!("{HELP}");
        return Ok(());
    }
    match arguments.first().map(String::as_str) {
        Some("--job") => run_job(&arguments),
        _ => demonstrate(&arguments),
    }
}
