//! The checkpoints of a job.

use std::time::Duration;

use serde_json::{Value, json};
use stillstream_jobmaster::{CheckpointStatus, CheckpointSummary, Distribution};
use stillstream_runtime::job::{JobClient, RestoredFrom};
use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointingMode, ExternalizedCheckpointRetention, SavepointFormat,
    checkpoint_paths,
};

use super::millis;
use crate::reply::Refusal;

/// What Flink says where a checkpoint cannot be found from outside.
const NOT_ADDRESSABLE: &str = "<checkpoint-not-externally-addressable>";

/// `/jobs/:id/checkpoints`.
pub(crate) fn statistics(job: &JobClient) -> Value {
    let (statistics, under_way) = (job.checkpoint_statistics(), job.checkpoints_in_progress());
    let counts = statistics.counts;
    let latest = |one: &Option<CheckpointSummary>| one.as_ref().map_or(Value::Null, |one| summary(job, one));
    let in_order = under_way.iter().rev().chain(statistics.history.iter().rev());
    json!({
        "counts": {
            "restored": counts.restored,
            "total": counts.triggered,
            "in_progress": counts.in_progress,
            "completed": counts.completed,
            "failed": counts.failed,
        },
        "summary": {
            "checkpointed_size": spread(&statistics.sizes),
            "state_size": spread(&statistics.sizes),
            "end_to_end_duration": spread(&statistics.durations),
            "alignment_buffered": nothing(),
            "processed_data": nothing(),
            "persisted_data": nothing(),
        },
        "latest": {
            "completed": latest(&statistics.last_completed),
            "savepoint": latest(&statistics.last_savepoint),
            "failed": latest(&statistics.last_failed),
            "restored": job.restored_from().map_or(Value::Null, |from| restored(job, &from)),
        },
        "history": in_order.map(|one| summary(job, one)).collect::<Vec<_>>(),
    })
}

/// Quantiles that are not known are the text `NaN`, as in Flink.
pub(super) fn spread(of: &Distribution) -> Value {
    let quantile = |share| of.quantile(share).map_or_else(|| json!("NaN"), |value| json!(value as f64));
    json!({
        "min": of.min(), "max": of.max(), "avg": of.mean(),
        "p50": quantile(0.5), "p90": quantile(0.9), "p95": quantile(0.95),
        "p99": quantile(0.99), "p999": quantile(0.999),
    })
}

/// Of what there is not: aligned checkpoints hold no records.
pub(super) fn nothing() -> Value {
    let mut nothing = Distribution::default();
    nothing.add(0);
    spread(&nothing)
}

fn restored(job: &JobClient, from: &RestoredFrom) -> Value {
    let own = || path(job, &checkpoint_paths::checkpoint(from.checkpoint));
    json!({
        "id": from.checkpoint.0,
        "restore_timestamp": from.at.as_millis(),
        "is_savepoint": from.location.is_some(),
        "external_path": from.location.clone().unwrap_or_else(own),
    })
}

/// Where a checkpoint or savepoint lies.
fn path(job: &JobClient, path: &str) -> String {
    match &job.info().checkpoint_directory {
        _ if checkpoint_paths::is_location(path) => path.into(),
        Some(place) => format!("{}/{path}", place.trim_end_matches('/')),
        None => NOT_ADDRESSABLE.into(),
    }
}

fn savepoint_format(format: SavepointFormat) -> &'static str {
    match format {
        SavepointFormat::Canonical => "CANONICAL",
        SavepointFormat::Native => "NATIVE",
    }
}

/// One checkpoint, without its tasks.
pub(super) fn summary(job: &JobClient, one: &CheckpointSummary) -> Value {
    let after = |time: Duration| one.triggered_at_ms.saturating_add_unsigned(millis(time));
    let is_savepoint = one.kind == CheckpointKind::Savepoint;
    let mut shown = json!({
        "id": one.id.0,
        "status": match one.status {
            CheckpointStatus::InProgress => "IN_PROGRESS",
            CheckpointStatus::Completed => "COMPLETED",
            CheckpointStatus::Failed(_) => "FAILED",
        },
        "is_savepoint": is_savepoint,
        "savepointFormat": one.format.map(savepoint_format),
        "trigger_timestamp": one.triggered_at_ms,
        "latest_ack_timestamp": one.slowest.as_ref().map_or(-1, |slowest| after(slowest.after)),
        "checkpointed_size": one.size_bytes,
        "state_size": one.size_bytes,
        "end_to_end_duration": millis(one.duration),
        "alignment_buffered": one.details.iter().map(|done| done.metrics.set_aside_bytes).sum::<u64>(),
        "processed_data": 0,
        "persisted_data": 0,
        "num_subtasks": one.subtasks,
        "num_acknowledged_subtasks": one.acknowledged,
        "checkpoint_type": if is_savepoint { "SAVEPOINT" } else { "CHECKPOINT" },
        "tasks": {},
        "className": match one.status {
            CheckpointStatus::InProgress => "in_progress",
            CheckpointStatus::Completed => "completed",
            CheckpointStatus::Failed(_) => "failed",
        },
        "stillstream-explained": stillstream_jobmaster::explain(one),
    });
    match &one.status {
        CheckpointStatus::InProgress => {}
        CheckpointStatus::Completed => {
            shown["external_path"] = path(job, &one.path).into();
            shown["discarded"] = (!is_savepoint && !job.checkpoints_kept().contains(&one.id)).into();
        }
        CheckpointStatus::Failed(reason) => {
            shown["failure_timestamp"] = after(one.duration).into();
            shown["failure_message"] = reason.as_str().into();
        }
    }
    shown
}

pub(super) fn find(job: &JobClient, id: &str) -> Result<CheckpointSummary, Refusal> {
    let wanted = id.parse().map_err(|_| Refusal::bad(format!("`{id}` is not the number of a checkpoint")))?;
    let statistics = job.checkpoint_statistics();
    let all =
        job.checkpoints_in_progress().into_iter().chain(statistics.history).chain(statistics.last_completed);
    all.into_iter().find(|one| one.id == CheckpointId(wanted)).ok_or_else(|| {
        Refusal::missing(format!(
            "Could not find checkpointing statistics for checkpoint {wanted}: those of the last ten are kept"
        ))
    })
}

/// `/jobs/:id/checkpoints/config`.
pub(crate) fn config(job: &JobClient) -> Value {
    let info = job.info();
    let (config, retention) = (&info.checkpoint, info.checkpoint.retention);
    json!({
        "mode": match config.mode {
            CheckpointingMode::ExactlyOnce => "exactly_once",
            CheckpointingMode::AtLeastOnce => "at_least_once",
        },
        // Flink's number for "no periodic checkpoints"
        "interval": config.interval.map_or(i64::MAX as u64, millis),
        "timeout": millis(config.timeout),
        "min_pause": millis(config.min_pause),
        "max_concurrent": config.max_concurrent,
        "externalization": {
            "enabled": retention != ExternalizedCheckpointRetention::NoExternalizedCheckpoints,
            "delete_on_cancellation": retention != ExternalizedCheckpointRetention::RetainOnCancellation,
        },
        "state_backend": info.state_backend,
        "checkpoint_storage": if info.checkpoint_directory.is_some() { "filesystem" } else { "jobmanager" },
        "unaligned_checkpoints": false,
        "tolerable_failed_checkpoints": config.tolerable_failed_checkpoints,
        "aligned_checkpoint_timeout": 0,
        "checkpoints_after_tasks_finish": true,
        "state_changelog_enabled": false,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": null,
    })
}
