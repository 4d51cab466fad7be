//! The project's own commands. `cargo xtask` lists them.

mod bench;
mod cargo;
mod docs;
mod failures;
mod instructions;
mod libclang;
mod rules;
mod sanitize;
mod services;
mod valgrind;
mod verify;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  verify       format, lints, tests and documentation, as the continuous integration does; writes no sources
  rules        what verify checks without building anything: dependencies, licences, circles, floors, links, spelling,
               comments
  fix          format the sources, wrap wide comments, and apply what clippy can fix by itself
  package      make the packages that crates.io would get, without building them again
  docs-config  make docs/configuration.md from the table of configuration keys
  bench [NAME ..] [--json FILE] [--rounds N] [--measure-ms N] [--backend heap|rocksdb] [--memory-mb N]
        [--dir FOLDER]
               benchmarks of whole jobs, or those named, some minutes; all of them together write docs/benchmarks.md;
               with --backend rocksdb: COUNT on RocksDB beside the heap and plain RocksDB
  services prepare
               download the servers that tests need (Kafka), once, into ~/.cache/stillstream-services
  services up kafka
               start one by hand, until Enter
  sanitize [address|thread]
               the tests of the state crate under a sanitizer of the compiler, or under both; some minutes
  instructions [--write]
               count the instructions for each record and compare with bench/instructions.txt, or renew that
";

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ok = match args.as_slice() {
        ["verify"] => verify::verify(),
        ["rules"] => verify::rules(),
        ["fix"] => verify::fix(),
        ["package"] => verify::package(),
        ["docs-config"] => docs::config(),
        ["bench", rest @ ..] => bench::run(rest),
        ["instructions"] => holds(instructions::run(false)),
        ["instructions", "--write"] => holds(instructions::run(true)),
        ["services", "prepare"] => holds(services::prepare().map(drop)),
        ["services", "up", name] => holds(services::up(name)),
        ["sanitize", names @ ..] => sanitize::run(names),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            true
        }
        other => {
            eprintln!("error: no such command: {}\n\n{USAGE}", other.join(" "));
            return ExitCode::from(2);
        }
    };
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a check passed; prints its error.
fn holds(result: Result<(), String>) -> bool {
    if let Err(error) = &result {
        eprintln!("error: {error}");
    }
    result.is_ok()
}
