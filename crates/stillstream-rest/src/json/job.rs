//! One job.

use serde_json::{Map, Value, json};
use stillstream_jobmaster::JobStatus;
use stillstream_runtime::job::{JobClient, PlanVertex, ShipStrategy, TaskEventTime};
use stillstream_types::{RestartStrategy, Timestamp};

use super::TASK_STATES;

/// The states of a job under Flink's names, which `timestamps` lists in full.
const JOB_STATES: [&str; 11] = [
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
];

/// When a job began and ended, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub started: i64,
    /// -1 while it has not ended.
    pub ended: i64,
    pub duration: i64,
    /// When its state changed last.
    pub changed: i64,
}

impl Times {
    pub fn of(job: &JobClient, now_ms: i64) -> Self {
        let started = job.info().started_at.as_millis();
        let changed = job.status_times().last().map_or(started, |(_, at)| at.as_millis());
        let ended = if job.status().is_terminal() { changed } else { -1 };
        let until = if ended < 0 { now_ms } else { ended };
        Self { started, ended, changed, duration: until.saturating_sub(started).max(0) }
    }
}

/// The state of every subtask of a job: they are deployed and stopped together.
pub(super) fn task_state(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Initializing | JobStatus::Restarting => "CREATED",
        JobStatus::Created => "DEPLOYING",
        JobStatus::Running => "RUNNING",
        JobStatus::Failing | JobStatus::Cancelling => "CANCELING",
        // the job ended with its tasks stopped, and can go on
        JobStatus::Canceled | JobStatus::Suspended => "CANCELED",
        JobStatus::Failed => "FAILED",
        JobStatus::Finished => "FINISHED",
    }
}

/// How many of the subtasks are in the state of this name, when all are in `state`.
pub(super) fn subtasks(name: &str, state: &str, all: u32) -> u32 {
    if name == state { all } else { 0 }
}

fn counts(state: &str, all: u32) -> Map<String, Value> {
    TASK_STATES.iter().map(|name| (name.to_string(), subtasks(name, state, all).into())).collect()
}

/// `/jobs/:id`.
pub(crate) fn details(job: &JobClient, now_ms: i64) -> Value {
    let (status, times, info) = (job.status(), Times::of(job, now_ms), job.info());
    let state = task_state(status);
    let seen = job.status_times();
    let timestamps: Map<String, Value> = JOB_STATES
        .iter()
        .map(|name| {
            let at =
                seen.iter().find(|(status, _)| status.name() == *name).map_or(0, |(_, at)| at.as_millis());
            (name.to_string(), at.into())
        })
        .collect();
    let vertices: Vec<_> =
        info.plan.vertices.iter().map(|vertex| self::vertex(vertex, state, times)).collect();
    let metrics = job.metrics();
    json!({
        "jid": job.id().to_string(),
        "name": job.name(),
        "isStoppable": false,
        "state": status.name(),
        "job-type": "STREAMING",
        "start-time": times.started,
        "end-time": times.ended,
        "duration": times.duration,
        "maxParallelism": info.plan.vertices.iter().map(|vertex| vertex.max_parallelism).max().unwrap_or(0),
        "now": now_ms,
        "timestamps": timestamps,
        "vertices": vertices,
        "status-counts": counts(state, info.plan.vertices.len() as u32),
        "plan": plan(job),
        "stream-graph": null,
        "pending-operators": 0,
        "stillstream-restarts": job.restarts(),
        "stillstream-records-in": metrics.records_in,
        "stillstream-records-out": metrics.records_out,
        "stillstream-counters": metrics.counters,
    })
}

fn vertex(vertex: &PlanVertex, state: &str, times: Times) -> Value {
    json!({
        "id": vertex.id.to_string(),
        "slotSharingGroupId": "00000000000000000000000000000000",
        "name": &*vertex.name,
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": state,
        "start-time": times.started,
        "end-time": times.ended,
        "duration": times.duration,
        "tasks": counts(state, vertex.parallelism),
        // they are not counted by task: `complete` says so
        "metrics": {
            "read-bytes": 0, "read-bytes-complete": false,
            "write-bytes": 0, "write-bytes-complete": false,
            "read-records": 0, "read-records-complete": false,
            "write-records": 0, "write-records-complete": false,
            "accumulated-backpressured-time": 0, "accumulated-idle-time": 0, "accumulated-busy-time": 0,
        },
    })
}

/// `/jobs/:id/plan`, below `plan`. The last task comes first, as in Flink.
pub(crate) fn plan(job: &JobClient) -> Value {
    let vertices = &job.info().plan.vertices;
    let input = |(number, input): (usize, &stillstream_runtime::job::PlanInput)| {
        json!({
            "num": number,
            "id": vertices.get(input.from).map_or_else(String::new, |from| from.id.to_string()),
            "ship_strategy": input.ship.name(),
            "exchange": match input.ship {
                ShipStrategy::Forward => "pipelined",
                _ => "pipelined_bounded",
            },
        })
    };
    let node = |vertex: &PlanVertex| {
        let mut node = json!({
            "id": vertex.id.to_string(),
            "parallelism": vertex.parallelism,
            "operator": "",
            "operator_strategy": "",
            "description": &*vertex.name,
            "optimizer_properties": {},
            "stillstream-operators": vertex.operators.iter().map(|operator| json!({
                "id": operator.id.to_string(), "name": &*operator.name, "uid": operator.uid,
            })).collect::<Vec<_>>(),
        });
        if !vertex.inputs.is_empty() {
            node["inputs"] = vertex.inputs.iter().enumerate().map(input).collect();
        }
        node
    };
    json!({
        "jid": job.id().to_string(),
        "name": job.name(),
        "type": "STREAMING",
        "nodes": vertices.iter().rev().map(node).collect::<Vec<_>>(),
    })
}

/// `/jobs/:id/config`.
pub(crate) fn config(job: &JobClient) -> Value {
    let info = job.info();
    json!({
        "jid": job.id().to_string(),
        "name": job.name(),
        "execution-config": {
            "restart-strategy": restart(info.restart),
            "job-parallelism": info.parallelism,
            "object-reuse-mode": false,
            "user-config": info.configuration,
        },
    })
}

fn restart(strategy: RestartStrategy) -> String {
    match strategy {
        RestartStrategy::None => "Restart deactivated.".into(),
        RestartStrategy::FixedDelay { attempts, delay } => {
            format!("Restart with fixed delay ({} ms). #{attempts} restart attempts.", delay.as_millis())
        }
        RestartStrategy::FailureRate { max_failures_per_interval, interval, delay } => format!(
            "Restart with failure rate: at most {max_failures_per_interval} failures in {} ms, with a delay of {} ms.",
            interval.as_millis(),
            delay.as_millis()
        ),
        RestartStrategy::ExponentialDelay { initial_backoff, max_backoff, backoff_multiplier, .. } => {
            format!(
                "Restart with exponential delay: starting at {} ms, increasing by {backoff_multiplier}, up to {} ms.",
                initial_backoff.as_millis(),
                max_backoff.as_millis()
            )
        }
    }
}

fn watermark(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| at.as_millis().into())
}

/// `/jobs/:id/stillstream-event-time`: where event time stands, and who holds it back.
pub(crate) fn event_time(job: &JobClient) -> Value {
    let task = |task: TaskEventTime| {
        json!({
            "task": &*task.task,
            "subtask": task.subtask.0,
            "watermark": watermark(task.watermark),
            "idle": task.idle,
            "needed": task.needed,
            "said": task.to_string(),
            "channels": task.channels.iter().map(|channel| json!({
                "input": channel.input,
                "from": &*channel.from,
                "from-subtask": channel.from_subtask.0,
                "watermark": watermark(channel.watermark),
                "idle": channel.idle,
                "silent-ms": super::millis(channel.silent_for),
            })).collect::<Vec<_>>(),
        })
    };
    json!({ "tasks": job.event_time().into_iter().map(task).collect::<Vec<_>>() })
}
