//! Packages of the system that a server needs.

use std::process::{Command, Stdio};

use crate::error::{Error, Result};

/// A program that must be there, and the package of Debian and its kin that brings it.
#[derive(Clone, Copy, Debug)]
pub struct Needed {
    /// The program.
    pub program: &'static str,
    /// How to ask it whether it is there; it must end without an error.
    pub ask: &'static str,
    /// The package.
    pub package: &'static str,
}

/// Makes sure that these programs are there: on Debian and its kin by installing them, elsewhere by saying
/// what is missing.
///
/// # Errors
/// With what is missing and how to install it.
pub fn provide(needed: &[Needed]) -> Result<()> {
    let missing = missing(needed);
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|needed| needed.program).collect();
    let packages: Vec<&str> = missing.iter().map(|needed| needed.package).collect();
    let hint = || {
        Error::new(format!(
            "{} is missing: apt-get install -y {} (Debian, Ubuntu), or the like of your system",
            programs.join(" and "),
            packages.join(" ")
        ))
    };
    if !install(&packages) {
        return Err(hint());
    }
    match self::missing(needed).as_slice() {
        [] => Ok(()),
        _ => Err(hint()),
    }
}

fn missing(needed: &[Needed]) -> Vec<Needed> {
    needed.iter().filter(|needed| !runs(needed.program, &[needed.ask])).copied().collect()
}

/// Whether a program is there and does this without an error; what it prints is not shown.
pub(crate) fn runs(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Installs packages by `apt-get`, if this system has it and we may; by `sudo` if that asks for no password.
/// `false`: they are not all installed.
pub fn install(packages: &[&str]) -> bool {
    if !runs("apt-get", &["--version"]) {
        return false;
    }
    let sudo = !is_root();
    if sudo && !runs("sudo", &["-n", "true"]) {
        return false;
    }
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(packages);
    // the lists of packages may be missing or old
    apt(sudo, &install) || apt(sudo, &["update"]) && apt(sudo, &install)
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").stdin(Stdio::null()).output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt(sudo: bool, args: &[&str]) -> bool {
    let mut command = Command::new(if sudo { "sudo" } else { "apt-get" });
    if sudo {
        command.args(["-n", "apt-get"]);
    }
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
