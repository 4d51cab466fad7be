//! One checkpoint, task by task and subtask by subtask.

use std::time::Duration;

use serde_json::{Map, Value, json};
use stillstream_jobmaster::{CheckpointStatus, CheckpointSummary, Distribution, SubtaskStatistics};
use stillstream_runtime::job::{JobClient, PlanVertex};

use super::checkpoints::{find, nothing, spread, summary};
use super::millis;
use crate::reply::Refusal;

/// `/jobs/:id/checkpoints/details/:checkpoint`.
pub(crate) fn checkpoint(job: &JobClient, id: &str) -> Result<Value, Refusal> {
    let one = find(job, id)?;
    let vertices = job.info().plan.vertices.iter().enumerate();
    let tasks: Map<String, Value> = vertices
        .map(|(number, vertex)| (vertex.id.to_string(), task(&one, vertex, &of_task(&one, number))))
        .collect();
    let mut shown = summary(job, &one);
    shown["tasks"] = tasks.into();
    Ok(shown)
}

/// `/jobs/:id/checkpoints/details/:checkpoint/subtasks/:vertex`.
pub(crate) fn subtasks(job: &JobClient, id: &str, vertex: &str) -> Result<Value, Refusal> {
    let one = find(job, id)?;
    let mut vertices = job.info().plan.vertices.iter().enumerate();
    let Some((number, vertex)) = vertices.find(|(_, known)| known.id.to_string() == vertex) else {
        return Err(Refusal::missing(format!(
            "job `{}` has no task `{vertex}`: `GET /jobs/{}` lists its vertices",
            job.name(),
            job.id()
        )));
    };
    let done = of_task(&one, number);
    let of = |figure: &dyn Fn(&SubtaskStatistics) -> u64| {
        let mut all = Distribution::default();
        done.iter().for_each(|subtask| all.add(figure(subtask)));
        spread(&all)
    };
    let time = |figure: &dyn Fn(&SubtaskStatistics) -> Duration| of(&|subtask| millis(figure(subtask)));
    let mut shown = task(&one, vertex, &done);
    shown["summary"] = json!({
        "checkpointed_size": of(&|subtask| subtask.size_bytes),
        "state_size": of(&|subtask| subtask.size_bytes),
        "end_to_end_duration": time(&|subtask| subtask.after),
        "checkpoint_duration": {
            "sync": time(&|subtask| subtask.metrics.synchronous),
            "async": time(&|subtask| subtask.metrics.asynchronous),
        },
        "alignment": {
            "buffered": of(&|subtask| subtask.metrics.set_aside_bytes),
            "processed": nothing(),
            "persisted": nothing(),
            "duration": time(&|subtask| subtask.metrics.alignment),
        },
        "start_delay": time(&|subtask| subtask.metrics.start_delay),
    });
    let line = |index| match done.iter().find(|subtask| subtask.subtask.index.0 == index) {
        Some(done) => completed(&one, done),
        None => json!({ "index": index, "status": "pending_or_failed" }),
    };
    shown["subtasks"] = (0..vertex.parallelism).map(line).collect();
    Ok(shown)
}

/// What the subtasks of a task that acknowledged did.
fn of_task(one: &CheckpointSummary, number: usize) -> Vec<&SubtaskStatistics> {
    one.details.iter().filter(|subtask| subtask.subtask.vertex.0 as usize == number).collect()
}

fn at(one: &CheckpointSummary, after: Duration) -> i64 {
    one.triggered_at_ms.saturating_add_unsigned(millis(after))
}

fn task(one: &CheckpointSummary, vertex: &PlanVertex, done: &[&SubtaskStatistics]) -> Value {
    let bytes: u64 = done.iter().map(|subtask| subtask.size_bytes).sum();
    let aside: u64 = done.iter().map(|subtask| subtask.metrics.set_aside_bytes).sum();
    let last = done.iter().map(|subtask| subtask.after).max();
    let complete = done.len() == vertex.parallelism as usize;
    json!({
        "id": one.id.0,
        "status": match one.status {
            _ if complete => "COMPLETED",
            CheckpointStatus::InProgress => "IN_PROGRESS",
            CheckpointStatus::Completed => "COMPLETED",
            CheckpointStatus::Failed(_) => "FAILED",
        },
        "latest_ack_timestamp": last.map_or(-1, |last| at(one, last)),
        "checkpointed_size": bytes,
        "state_size": bytes,
        "end_to_end_duration": last.map_or(-1, |last| millis(last) as i64),
        "alignment_buffered": aside,
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": vertex.parallelism,
        "num_acknowledged_subtasks": done.len(),
    })
}

fn completed(one: &CheckpointSummary, done: &SubtaskStatistics) -> Value {
    let metrics = &done.metrics;
    json!({
        "index": done.subtask.index.0,
        "status": "completed",
        "ack_timestamp": at(one, done.after),
        "end_to_end_duration": millis(done.after),
        "checkpointed_size": done.size_bytes,
        "state_size": done.size_bytes,
        "checkpoint": { "sync": millis(metrics.synchronous), "async": millis(metrics.asynchronous) },
        "alignment": {
            "buffered": metrics.set_aside_bytes,
            "processed": 0,
            "persisted": 0,
            "duration": millis(metrics.alignment),
        },
        "start_delay": millis(metrics.start_delay),
        "unaligned_checkpoint": false,
        "aborted": false,
    })
}
