//! Running a program to its end.

use std::process::{Command, Stdio};

use crate::error::{About, Error, Result};

/// Runs a program; its output is in the error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().about(|| format!("running {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Error::new(format!("{command:?} failed: {}", String::from_utf8_lossy(&said).trim())))
}
