//! The process and its jobs.

use serde_json::{Map, Value, json};
use stillstream_jobmaster::JobStatus;
use stillstream_runtime::job::JobClient;

use super::TASK_STATES;
use super::job::{Times, subtasks, task_state};

/// What Flink's clients read as its version.
fn version() -> String {
    format!("stillstream-{}", env!("CARGO_PKG_VERSION"))
}

/// `/overview`. A process with workers is what Flink calls a TaskManager, and a worker is its slot.
pub(crate) fn overview(jobs: &[JobClient]) -> Value {
    let count = |wanted: &dyn Fn(JobStatus) -> bool| jobs.iter().filter(|job| wanted(job.status())).count();
    let running = || jobs.iter().filter(|job| !job.status().is_terminal());
    let slots: u32 = running().map(|job| job.info().workers).sum();
    json!({
        "taskmanagers": running().map(|job| job.info().processes).sum::<u32>(),
        "slots-total": slots,
        "slots-available": 0,
        "jobs-running": count(&|status| !status.is_terminal()),
        "jobs-finished": count(&|status| status == JobStatus::Finished),
        "jobs-cancelled": count(&|status| status == JobStatus::Canceled),
        "jobs-failed": count(&|status| status == JobStatus::Failed),
        "flink-version": version(),
        "flink-commit": "",
    })
}

/// `/config`.
pub(crate) fn config() -> Value {
    json!({
        "refresh-interval": 3000,
        "timezone-name": "Coordinated Universal Time",
        "timezone-offset": 0,
        "flink-version": version(),
        "flink-revision": "",
        "features": { "web-submit": false, "web-cancel": true, "web-rescale": false, "web-history": false },
    })
}

/// `/jobs`.
pub(crate) fn ids(jobs: &[JobClient]) -> Value {
    let id = |job: &JobClient| json!({ "id": job.id().to_string(), "status": job.status().name() });
    json!({ "jobs": jobs.iter().map(id).collect::<Vec<_>>() })
}

/// `/jobs/overview`.
pub(crate) fn jobs(jobs: &[JobClient], now_ms: i64) -> Value {
    json!({ "jobs": jobs.iter().map(|job| line(job, now_ms)).collect::<Vec<_>>() })
}

fn line(job: &JobClient, now_ms: i64) -> Value {
    let (status, times) = (job.status(), Times::of(job, now_ms));
    let all: u32 = job.info().plan.vertices.iter().map(|vertex| vertex.parallelism).sum();
    let state = task_state(status);
    let mut tasks: Map<String, Value> = TASK_STATES
        .iter()
        .map(|name| (name.to_ascii_lowercase(), subtasks(name, state, all).into()))
        .collect();
    tasks.insert("total".into(), all.into());
    json!({
        "jid": job.id().to_string(),
        "name": job.name(),
        "state": status.name(),
        "start-time": times.started,
        "end-time": times.ended,
        "duration": times.duration,
        "last-modification": times.changed,
        "tasks": tasks,
        "pending-operators": 0,
    })
}
