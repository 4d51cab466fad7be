//! `list` and `checkpoints`: what the registers say.

use serde_json::{Value, json};
use stillstream_storage::{JobStorage, RetainedCheckpoint, StorageError, StorageOptions};
use stillstream_types::{
    CheckpointKind, CheckpointMetadata, CompletedRef, Error, ErrorKind, JobOutcome, OperatorState,
};

use crate::arguments::JobArguments;
use crate::places;
use crate::table::{bytes, moment, table};
use crate::{Answer, Reach};

fn outcome(outcome: JobOutcome) -> &'static str {
    match outcome {
        // a killed process says nothing: only its lock would tell
        JobOutcome::Running => "running or killed",
        JobOutcome::Finished => "finished",
        JobOutcome::Cancelled => "cancelled",
        JobOutcome::Failed => "failed",
        JobOutcome::Suspended => "suspended",
        JobOutcome::Stopped => "stopped",
    }
}

pub(crate) fn kind(kind: CheckpointKind) -> &'static str {
    match kind {
        CheckpointKind::Checkpoint => "checkpoint",
        CheckpointKind::Final => "final",
        CheckpointKind::Savepoint => "savepoint",
    }
}

/// The form of a savepoint's keyed state. One of the heap backend is canonical, whatever was asked for.
fn form(metadata: &CheckpointMetadata) -> &'static str {
    let mut parts = metadata.operators.iter().flat_map(|operator| operator.subtasks.values());
    if parts.any(|part| !part.incremental.is_empty()) { "native" } else { "canonical" }
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// `list`.
pub(crate) fn jobs(dir: &str, reach: &Reach) -> Result<Answer, Error> {
    let (mut rows, mut shown, mut damaged) =
        (vec![row(&["job", "id", "outcome", "checkpoints", "newest"])], Vec::new(), false);
    for job in places::jobs(dir, reach)? {
        let id = job.id().to_string();
        match job.load_register() {
            Ok(Some(loaded)) => {
                let record = loaded.record;
                let newest = record.completed.iter().chain(&record.retained).map(|known| known.id.0).max();
                let count = record.completed.len() + record.retained.len();
                let ended = record.ended.as_ref().map(|end| end.at_ms);
                rows.push(vec![
                    record.job_name.clone(),
                    id.clone(),
                    match ended {
                        Some(at) => format!("{} at {}", outcome(record.outcome), moment(at)),
                        None => outcome(record.outcome).into(),
                    },
                    count.to_string(),
                    newest.map_or_else(|| "none".into(), |newest| newest.to_string()),
                ]);
                shown.push(json!({
                    "job": record.job_name, "id": id, "outcome": outcome(record.outcome), "ended_at_ms": ended,
                    "checkpoints": count, "newest": newest,
                }));
            }
            Ok(None) => {}
            Err(error) => {
                damaged = true;
                rows.push(vec!["?".into(), id.clone(), format!("unreadable: {error}")]);
                shown.push(json!({ "id": id, "error": error.to_string() }));
            }
        }
    }
    let mut text = if shown.is_empty() { String::new() } else { table(&rows) };
    let mut rows =
        vec![row(&["savepoint", "form", "of job", "triggered (UTC)", "operators", "state", "path"])];
    for path in places::savepoints(dir, reach)? {
        match RetainedCheckpoint::open(&path, &reach.options) {
            Ok(found) if found.metadata().kind != CheckpointKind::Savepoint => {}
            Ok(found) => {
                let metadata = found.metadata();
                rows.push(vec![
                    metadata.id.to_string(),
                    form(metadata).into(),
                    metadata.job_name.clone(),
                    moment(metadata.triggered_at_ms),
                    metadata.operators.len().to_string(),
                    bytes(metadata.state_len()),
                    path.clone(),
                ]);
                shown.push(json!({
                    "savepoint": metadata.id.0, "form": form(metadata), "job": metadata.job_name, "id": metadata.job.to_string(),
                    "triggered_at_ms": metadata.triggered_at_ms, "state_bytes": metadata.state_len(), "path": path,
                }));
            }
            Err(error) => {
                damaged = true;
                rows.push(vec!["?".into(), format!("unreadable: {error}")]);
                shown.push(json!({ "path": path, "error": error.to_string() }));
            }
        }
    }
    if rows.len() > 1 {
        text.push_str(&table(&rows));
    }
    if shown.is_empty() {
        text = format!("no job has a checkpoint in `{dir}`, and no savepoint is there\n");
    }
    Ok(Answer { text, json: Value::Array(shown), damaged })
}

/// `checkpoints`.
pub(crate) fn of(arguments: &JobArguments, reach: &Reach) -> Result<Answer, Error> {
    let job = places::job(arguments, reach)?;
    let loaded = job.load_register().map_err(StorageError::into_error)?.ok_or_else(|| {
        let text = format!("`{}` has no register: no job has run there", job.display());
        Error::new(ErrorKind::Storage, text)
    })?;
    let record = loaded.record;
    let mut rows = vec![row(&["checkpoint", "kind", "triggered (UTC)", "operators", "state", "path"])];
    let (mut shown, mut damaged) = (Vec::new(), false);
    let all =
        record.retained.iter().map(|own| (own, true)).chain(record.completed.iter().map(|own| (own, false)));
    for (checkpoint, kept) in all {
        let path = places::directory(&job, checkpoint);
        match describe(&job, checkpoint, kept, &path) {
            Ok((cells, json)) => {
                rows.push(cells);
                shown.push(json);
            }
            // its owner has deleted or moved it
            Err(error) if kept && error.is_not_found() => {}
            Err(StorageError::BadLocation { .. }) if checkpoint.is_savepoint() => {}
            Err(error) => {
                damaged = true;
                rows.push(vec![checkpoint.id.to_string(), format!("unreadable: {error}")]);
                shown.push(json!({ "id": checkpoint.id.0, "path": path, "error": error.to_string() }));
            }
        }
    }
    let head = format!("job `{}` ({}): {}\n", record.job_name, record.job, outcome(record.outcome));
    let text = match shown.is_empty() {
        true => format!("{head}it has no completed checkpoint\n"),
        false => head + &table(&rows),
    };
    let json = json!({
        "job": record.job_name, "id": record.job.to_string(), "outcome": outcome(record.outcome),
        "checkpoints": shown,
    });
    Ok(Answer { text, json, damaged })
}

fn describe(
    job: &JobStorage,
    checkpoint: &CompletedRef,
    kept: bool,
    path: &str,
) -> Result<(Vec<String>, Value), StorageError> {
    let metadata = match checkpoint.is_savepoint() {
        true => RetainedCheckpoint::open(path, &StorageOptions::default())?.metadata().clone(),
        false => job.read_metadata(&checkpoint.path)?,
    };
    let size: u64 = metadata.operators.iter().map(OperatorState::bytes).sum();
    let is_savepoint = metadata.kind == CheckpointKind::Savepoint;
    let what = if kept && !is_savepoint { "retained" } else { kind(metadata.kind) };
    let form = is_savepoint.then(|| form(&metadata));
    let cells = vec![
        metadata.id.to_string(),
        form.map_or_else(|| what.into(), |form| format!("{what} ({form})")),
        moment(metadata.triggered_at_ms),
        metadata.operators.len().to_string(),
        bytes(size),
        path.to_owned(),
    ];
    let json = json!({
        "id": metadata.id.0, "kind": what, "form": form, "triggered_at_ms": metadata.triggered_at_ms,
        "operators": metadata.operators.len(), "state_bytes": size, "path": path,
    });
    Ok((cells, json))
}
