//! The `stillstream` command. See [`arguments`] for what it can do, and `docs/operations.md` for exit codes.

mod arguments;
mod checkpoints;
mod gc;
mod inspect;
mod kafka;
mod live;
mod native;
mod operate;
mod places;
mod rest;
mod restore_plan;
mod table;
mod value;
mod verify;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use serde_json::Value;
use stillstream_storage::{RemoteStores, StorageOptions};
use stillstream_types::{Error, ErrorKind};
use tokio::runtime::Handle;

use arguments::{Arguments, Command};
use rest::Rest;

/// What a command has to say: for people, and for scripts.
struct Answer {
    text: String,
    json: Value,
    /// Something is wrong with what was looked at.
    damaged: bool,
}

/// How checkpoints are reached, wherever they are.
struct Reach {
    handle: Handle,
    options: StorageOptions,
}

/// As of a job's program: 2 settings, 3 damaged or missing state, 4 storage or a failed savepoint, 6 no
/// answer, 7 another process runs the job.
fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Configuration | ErrorKind::Plan => 2,
        ErrorKind::State | ErrorKind::CorruptSnapshot | ErrorKind::Incompatible => DAMAGED,
        ErrorKind::Storage | ErrorKind::Checkpoint => 4,
        ErrorKind::Peer | ErrorKind::Timeout => 6,
        ErrorKind::Fenced => 7,
        _ => 1,
    }
}

const DAMAGED: u8 = 3;

fn run(arguments: &Arguments) -> Result<Answer, Error> {
    // calls to remote stores run on it
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let remote = RemoteStores::new(arguments.settings.clone());
    let reach = &Reach {
        handle: runtime.handle().clone(),
        options: StorageOptions { remote, ..StorageOptions::default() },
    };
    match &arguments.command {
        Command::List { dir: Some(dir), .. } => checkpoints::jobs(dir, reach),
        Command::List { dir: None, server } => live::jobs(&Rest::of(server)?),
        Command::Checkpoints { job, server } => match live::is_meant(&job.dir, server) {
            true => live::checkpoints(&Rest::of(server)?, &job.dir),
            false => checkpoints::of(job, reach),
        },
        Command::Exceptions { job, server } => live::exceptions(&Rest::of(server)?, job),
        Command::Savepoint { wanted, server } => operate::savepoint(&Rest::of(server)?, wanted),
        Command::Stop { wanted, drain, server } => operate::stop(&Rest::of(server)?, wanted, *drain),
        Command::Cancel { job, detached, server } => operate::cancel(&Rest::of(server)?, job, *detached),
        Command::Checkpoint { job, full, detached, server } => {
            operate::checkpoint(&Rest::of(server)?, job, *full, *detached)
        }
        Command::Inspect { path, look } => inspect::run(path, look, &reach.options),
        Command::Verify { path, lengths } => verify::run(path, *lengths, reach),
        Command::RestorePlan(arguments) => restore_plan::run(arguments, &reach.options),
        Command::Kafka(command) => kafka::run(command),
        Command::Gc { job, delete, take_over } => gc::run(job, *delete, *take_over, reach),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(Answer { text, json, damaged }) => {
            let shown = if arguments.json { format!("{json:#}\n") } else { text };
            let mut out = std::io::stdout().lock();
            // whoever closed the pipe has read enough
            let _ = out.write_all(shown.as_bytes()).and_then(|()| out.flush());
            if damaged { ExitCode::from(DAMAGED) } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            if arguments.json {
                let _ =
                    writeln!(std::io::stdout(), "{:#}", serde_json::json!({ "error": error.to_string() }));
            }
            eprintln!("error: {error}");
            ExitCode::from(exit_code(error.kind()))
        }
    }
}
