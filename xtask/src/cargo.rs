//! Running cargo in the workspace.

use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::failures::{Collector, Failure};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}

/// Where cargo puts what it builds. This program was started from there.
pub(crate) fn target() -> PathBuf {
    let own = std::env::current_exe().ok();
    // <target>/debug/xtask
    let folder = own.as_ref().and_then(|program| program.parent()?.parent());
    folder.map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo command at the root, without standard input.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a command, and says so if it cannot even be started.
pub(crate) fn succeeds(mut command: Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("error: {:?} could not be started: {error}", command.get_program());
            false
        }
    }
}

/// A line of our own that says that cargo has ended.
const END: &str = "==> cargo has ended";

/// Runs a command as [`succeeds`] does, shows what it prints, and returns what failed.
///
/// Output and errors go through one pipe, so that they stay in order; the lines appear on standard output as
/// they come.
pub(crate) fn watched(mut command: Command) -> Result<(), Vec<Failure>> {
    let failed = |what: String| vec![Failure::plain(what)];
    let name = command.get_program().to_string_lossy().into_owned();
    let could_not = |error: std::io::Error| failed(format!("{name} could not be run: {error}"));
    let (reader, mut writer) = std::io::pipe().map_err(could_not)?;
    command.stdout(writer.try_clone().map_err(could_not)?).stderr(writer.try_clone().map_err(could_not)?);
    let mut child = command.spawn().map_err(could_not)?;
    let lines = std::thread::scope(|scope| {
        let lines = scope.spawn(|| pass_on(reader));
        let status = child.wait();
        // A process that a test left behind may hold the pipe for ever, so its end is said by a line.
        let ended = writer.write_all(format!("\n{END}\n").as_bytes());
        (status.and_then(|status| ended.map(|()| status)), lines.join())
    });
    match lines {
        (Ok(status), Ok(collector)) if status.success() => {
            drop(collector);
            Ok(())
        }
        (Ok(_), Ok(collector)) => Err(collector.finish(true)),
        (Err(error), _) => Err(could_not(error)),
        (Ok(_), Err(_)) => Err(failed(format!("what {name} printed could not be read"))),
    }
}

/// Shows the lines of a pipe as they come, up to our own last one.
fn pass_on(pipe: PipeReader) -> Collector {
    let mut collector = Collector::new();
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&line);
        if text.trim_end() == END {
            break;
        }
        // whoever reads our output may have gone: the checks go on all the same
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
        collector.line(text.trim_end_matches(['\n', '\r']));
        line.clear();
    }
    collector
}

/// Whether cargo has this subcommand (`fmt` and `clippy` are components of their own).
pub(crate) fn has(subcommand: &str) -> bool {
    let mut command = cargo(&[subcommand, "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether the toolchain has the source of the standard library (`rust-src`), to build it with other flags.
pub(crate) fn has_standard_source() -> bool {
    let output = Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()).output();
    let Ok(output) = output else { return false };
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    sysroot.join("lib/rustlib/src/rust/library/Cargo.lock").is_file()
}

/// Whether a program is there and does this without an error; what it prints is not shown.
pub(crate) fn runs(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_left_behind_and_holds_the_pipe_is_not_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & echo $!; exit 1"]);
        let failures = watched(command).unwrap_err();
        let process = failures[0].output[0].as_str();
        assert!(runs("kill", &[process]), "the process {process} has ended before: it was waited for");
    }

    #[test]
    fn a_command_that_cannot_be_started_is_a_failure_with_its_name() {
        let failures = watched(Command::new("/nowhere/cargo")).unwrap_err();
        assert!(failures[0].name.starts_with("/nowhere/cargo could not be run: "), "{failures:?}");
    }
}
