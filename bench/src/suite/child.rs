//! One run in a process of its own.

use std::process::{Command, Stdio};

use stillstream::{Error, Result, ResultExt};

use super::plan::Run;
use crate::machine::since_boot;
use crate::measurement::Measurement;

/// Runs it; `passed_on` are flags that win over those of `run`.
pub fn run(run: &Run, passed_on: &[String]) -> Result<Measurement> {
    let program = std::env::current_exe().context(|| "finding the benchmark's own program")?;
    let mut command = Command::new(program);
    command.args(["run", run.scenario, "--variant", run.variant, "--backend", run.backend.name()]);
    let flags = [
        ("--keys", run.keys),
        ("--operators", u64::from(run.operators)),
        ("--measure-ms", run.measure_ms),
        ("--started-ns", since_boot().as_nanos() as u64),
    ];
    for (flag, value) in flags {
        command.args([flag, &value.to_string()]);
    }
    command.args(passed_on).stdin(Stdio::null());
    // a job's log would break the lines of progress; errors come with the result
    command.env("STILLSTREAM_LOG", "off");
    let output = command.output().context(|| "starting a run")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Error::msg(format!("{}: {}", output.status, text.trim())));
    }
    serde_json::from_slice(&output.stdout).context(|| "reading the result of a run")
}
