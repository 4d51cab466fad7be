//! Valgrind, which counts instructions: finding it, and installing it on a machine that has none.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::runs;

/// Makes sure that Valgrind is there: on Debian and its like it is installed, if that is allowed without a
/// password.
pub(crate) fn ensure() -> Result<(), String> {
    let there = || runs("valgrind", &["--version"]);
    if there() {
        return Ok(());
    }
    println!("valgrind is not installed: trying apt-get");
    let install = "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq valgrind";
    let installed = runs("sh", &["-c", install]) || runs("sudo", &["-n", "sh", "-c", install]);
    if installed && there() {
        return Ok(());
    }
    Err("valgrind is needed to count instructions, and could not be installed: run `apt-get install -y valgrind` as root"
        .into())
}

/// Starts a program under callgrind, which counts the instructions of all its threads.
pub(crate) fn callgrind(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The number of instructions in what callgrind said.
pub(crate) fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.split_once("Collected : "))?;
    line.1.trim().parse().ok()
}
