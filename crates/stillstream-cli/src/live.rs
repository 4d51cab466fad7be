//! What running jobs say of themselves: `list`, `checkpoints` and `exceptions` by REST.

use std::path::Path;

use serde_json::Value;
use stillstream_types::Error;

use crate::Answer;
use crate::arguments::Server;
use crate::rest::{Rest, text};
use crate::table::{bytes, moment, table, took};

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn when(value: &Value, key: &str) -> String {
    value[key].as_i64().map_or_else(|| "unknown".into(), moment)
}

fn head(cells: &[&str]) -> Vec<Vec<String>> {
    vec![cells.iter().map(|cell| (*cell).to_owned()).collect()]
}

fn answer(text: String, json: Value) -> Answer {
    Answer { text, json, damaged: false }
}

/// Whether a running job is meant, and not a folder.
pub(crate) fn is_meant(job: &str, server: &Server) -> bool {
    server.rest.is_some() || !(job.contains('/') || Path::new(job).exists())
}

/// `list`.
pub(crate) fn jobs(rest: &Rest) -> Result<Answer, Error> {
    let mut overview = rest.get("/jobs/overview")?;
    let mut rows = head(&["job", "id", "state", "started (UTC)", "for"]);
    for job in items(&overview, "jobs") {
        rows.push(vec![
            text(job, "name").into(),
            text(job, "jid").into(),
            text(job, "state").into(),
            when(job, "start-time"),
            took(number(job, "duration")),
        ]);
    }
    let said = if rows.len() == 1 { "no job\n".into() } else { table(&rows) };
    Ok(answer(said, overview["jobs"].take()))
}

/// "checkpoint", or "savepoint" with its form.
fn kind(one: &Value) -> String {
    let kind = text(one, "checkpoint_type").to_ascii_lowercase();
    match one["savepointFormat"].as_str() {
        Some(format) => format!("{kind} ({})", format.to_ascii_lowercase()),
        None => kind,
    }
}

/// `checkpoints` of a running job.
pub(crate) fn checkpoints(rest: &Rest, job: &str) -> Result<Answer, Error> {
    let job = rest.job(job)?;
    let statistics = rest.get(&format!("/jobs/{}/checkpoints", job.id))?;
    let counts = &statistics["counts"];
    let mut said = format!(
        "job `{}` ({}): {} completed, {} failed, {} in progress\n",
        job.name,
        job.id,
        number(counts, "completed"),
        number(counts, "failed"),
        number(counts, "in_progress"),
    );
    let mut rows = head(&["checkpoint", "kind", "triggered (UTC)", "took", "state", "subtasks", "outcome"]);
    for one in items(&statistics, "history") {
        rows.push(vec![
            number(one, "id").to_string(),
            kind(one),
            when(one, "trigger_timestamp"),
            took(number(one, "end_to_end_duration")),
            bytes(number(one, "state_size")),
            format!("{} of {}", number(one, "num_acknowledged_subtasks"), number(one, "num_subtasks")),
            match text(one, "status") {
                "COMPLETED" if one["discarded"] == true => "completed, and deleted since".into(),
                "COMPLETED" => text(one, "external_path").into(),
                "FAILED" => format!("failed: {}", text(one, "failure_message")),
                _ => "in progress".into(),
            },
        ]);
    }
    if rows.len() > 1 {
        said += &table(&rows);
        let spread = |key: &str, shown: &dyn Fn(u64) -> String| {
            let figure = &statistics["summary"][key];
            format!(
                "{} to {}, {} on average",
                shown(number(figure, "min")),
                shown(number(figure, "max")),
                shown(number(figure, "avg"))
            )
        };
        if number(counts, "completed") > 0 {
            said += &format!(
                "of those that completed: {}; {}\n",
                spread("end_to_end_duration", &took),
                spread("state_size", &bytes)
            );
        }
    }
    Ok(answer(said, statistics))
}

/// `exceptions`.
pub(crate) fn exceptions(rest: &Rest, job: &str) -> Result<Answer, Error> {
    let job = rest.job(job)?;
    let exceptions = rest.get(&format!("/jobs/{}/exceptions", job.id))?;
    let history = &exceptions["exceptionHistory"];
    let mut said = String::new();
    for one in items(history, "entries") {
        let task = one["taskName"].as_str().map_or_else(String::new, |task| format!(" in {task}"));
        said += &format!(
            "{}{task}\n    {}\n",
            when(one, "timestamp"),
            text(one, "stacktrace").replace('\n', "\n    ")
        );
    }
    if said.is_empty() {
        said = format!("job `{}` has not failed\n", job.name);
    } else if history["truncated"] == true {
        said += "older failures are not kept\n";
    }
    Ok(answer(said, exceptions))
}
