//! Running cargo in the workspace.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
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
