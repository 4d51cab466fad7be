//! `restore-plan`: what a snapshot would become in a program, without starting, stopping or changing
//! anything.

use std::path::Path;
use std::process::{Command, Stdio};

use stillstream_restore::{Choices, PlanDescription, check};
use stillstream_state::StateError;
use stillstream_storage::{RetainedCheckpoint, StorageError, StorageOptions};
use stillstream_types::{Error, ErrorKind, ResultExt};

use crate::Answer;
use crate::arguments::RestorePlan;

/// The environment variable by which a program is asked for its plan; it is the runtime's.
const PLAN_FILE: &str = "STILLSTREAM_PLAN_FILE";

pub(crate) fn run(arguments: &RestorePlan, options: &StorageOptions) -> Result<Answer, Error> {
    let mut plan = plan(&arguments.job, &arguments.arguments)?;
    if let Some(parallelism) = arguments.parallelism {
        plan = plan.with_parallelism(parallelism);
    }
    let snapshot =
        RetainedCheckpoint::open(&arguments.snapshot, options).map_err(StorageError::into_error)?;
    let choices = Choices {
        allow_non_restored_state: arguments.allow_non_restored_state,
        allow_dropped_fields: arguments.allow_dropped_fields,
        ..Choices::default()
    };
    let found = check(snapshot.metadata(), snapshot.streams(), &plan, &choices).map_err(|error| {
        StateError::into_error(error).context(format!("reading `{}`", snapshot.directory()))
    })?;
    let mut json = serde_json::to_value(&found).map_err(|error| {
        Error::new(ErrorKind::State, format!("the answer cannot be written as JSON: {error}"))
    })?;
    json["path"] = snapshot.directory().into();
    json["possible"] = found.is_possible().into();
    Ok(Answer { text: format!("{}: {found}", snapshot.directory()), json, damaged: !found.is_possible() })
}

/// The plan of a job: in a file, or as its program says.
fn plan(job: &str, arguments: &[String]) -> Result<PlanDescription, Error> {
    let wrong = |text: String| Error::new(ErrorKind::Configuration, text);
    let bytes = std::fs::read(job)
        .context(|| format!("reading `{job}`"))
        .map_err(|error| wrong(error.to_string()))?;
    if bytes.trim_ascii_start().starts_with(b"{") {
        let text = String::from_utf8_lossy(&bytes);
        return PlanDescription::from_json(&text).map_err(|error| wrong(format!("`{job}`: {error}")));
    }
    let folder = tempfile::tempdir().context(|| "making a folder for the plan".to_string())?;
    let file = folder.path().join("plan.json");
    // a name without a folder would be looked for elsewhere
    let program = std::path::absolute(Path::new(job)).unwrap_or_else(|_| job.into());
    let ended = Command::new(&program)
        .args(arguments)
        .env(PLAN_FILE, &file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| {
            wrong(format!("`{job}` is neither a plan file nor a program that can be started: {error}"))
        })?;
    let Ok(text) = std::fs::read_to_string(&file) else {
        return Err(wrong(format!(
            "`{job}` ended ({ended}) and gave no plan: its `main` has to come to `execute`; arguments that it needs go behind `--`"
        )));
    };
    PlanDescription::from_json(&text).map_err(|error| wrong(format!("the plan of `{job}`: {error}")))
}
