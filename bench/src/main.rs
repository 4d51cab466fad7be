//! Benchmarks of whole jobs.
//!
//! `stillstream-bench run NAME ..` runs one scenario once, in this process, and prints one line of JSON: so
//! its CPU time is exactly that of the process. `stillstream-bench suite ..` runs each scenario several times
//! in processes of their own, alternating, and makes the table; `cargo xtask bench` calls it.

mod machine;
mod measurement;
mod records;
mod scenario;
mod settings;
mod suite;

use std::process::ExitCode;

use stillstream::{Error, ErrorKind, Result, ResultExt};

use settings::Settings;

/// Records that own memory are made by one worker and freed by another, which the system's allocator does
/// slowly. All scenarios use it, raw Timely too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
usage: stillstream-bench run NAME [--keys N] [--measure-ms N] [--records N] [--workers N] [--interval-ms N]
                         [--variant TEXT] [--operators N] [--backend heap|rocksdb]
                         [--memory-mb N] [--dir FOLDER]
       stillstream-bench suite [NAME ..] [--json FILE] [--page FILE] [--rounds N] [--measure-ms N] [--backend heap|rocksdb]
                         [--memory-mb N] [--dir FOLDER]

run    one scenario, once; prints one line of JSON
       --memory-mb N: memory of RocksDB in the process, in MiB; the default is a job's
       --records N: exactly N records from start to end, instead of measuring for a while
suite  all scenarios, or those named, alternating; prints the table
       --backend rocksdb: COUNT on RocksDB, beside the heap and beside plain get and put on RocksDB
       --json FILE: one line of JSON for each row; --page FILE: writes the page of results
";

fn main() -> ExitCode {
    #[expect(
        clippy::disallowed_methods,
        reason = "the program's own arguments; none of them is the environment's"
    )]
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command(arguments: &[String]) -> Result<()> {
    match arguments {
        [command, name, flags @ ..] if command == "run" => {
            let measurement = scenario::named(name)?.run(&Settings::read(flags)?)?;
            let line = serde_json::to_string(&measurement).context(|| "writing the result as JSON")?;
            println!("{line}");
            Ok(())
        }
        [command, rest @ ..] if command == "suite" => suite::run(rest),
        [] => help(),
        [flag] if ["help", "--help", "-h"].contains(&flag.as_str()) => help(),
        _ => Err(Error::new(ErrorKind::Configuration, format!("not understood; {USAGE}"))),
    }
}

fn help() -> Result<()> {
    print!("{USAGE}");
    Ok(())
}
