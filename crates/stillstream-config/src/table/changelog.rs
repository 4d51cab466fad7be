//! Incremental checkpoints by a log of changes.

use super::super::value::Kind;
use super::{Row, option};

const LATER: &str = "there is no change log in this release: checkpoints are written from the backend itself";

pub(super) const ROWS: &[Row] = &[
    option("state.changelog.dstl.dfs.base-path", Kind::Text, "", "root of the change log")
        .older(&["dstl.dfs.base-path"])
        .no_effect(LATER),
    option(
        "state.changelog.dstl.dfs.batch.persist-delay",
        Kind::Duration,
        "10 ms",
        "time for which changes are collected before they are written",
    )
    .older(&["dstl.dfs.batch.persist-delay"])
    .no_effect(LATER),
    option(
        "state.changelog.dstl.dfs.batch.persist-size-threshold",
        Kind::MemorySize,
        "10 mb",
        "size at which collected changes are written",
    )
    .older(&["dstl.dfs.batch.persist-size-threshold"])
    .no_effect(LATER),
    option("state.changelog.dstl.dfs.compression.enabled", Kind::Boolean, "false", "compress the change log")
        .older(&["dstl.dfs.compression.enabled"])
        .no_effect(LATER),
    option(
        "state.changelog.dstl.dfs.discard.num-threads",
        Kind::Integer,
        "1",
        "threads that delete changes no longer needed",
    )
    .older(&["dstl.dfs.discard.num-threads"])
    .no_effect(LATER),
    option(
        "state.changelog.dstl.dfs.download.local-cache.idle-timeout-ms",
        Kind::Duration,
        "10 min",
        "age at which an unused cached file is deleted",
    )
    .older(&["dstl.dfs.download.local-cache.idle-timeout-ms"])
    .no_effect(LATER),
    option(
        "state.changelog.dstl.dfs.preemptive-persist-threshold",
        Kind::MemorySize,
        "5 mb",
        "changes of one operator that are written before a checkpoint asks",
    )
    .older(&["dstl.dfs.preemptive-persist-threshold"])
    .no_effect(LATER),
    option("state.changelog.dstl.dfs.upload.buffer-size", Kind::MemorySize, "1 mb", "buffer of an upload")
        .older(&["dstl.dfs.upload.buffer-size"])
        .no_effect(LATER),
    option("state.changelog.dstl.dfs.upload.max-attempts", Kind::Integer, "3", "tries of an upload")
        .older(&["dstl.dfs.upload.max-attempts"])
        .no_effect(LATER),
    option(
        "state.changelog.dstl.dfs.upload.max-in-flight",
        Kind::MemorySize,
        "100 mb",
        "bytes in upload above which tasks wait",
    )
    .older(&["dstl.dfs.upload.max-in-flight"])
    .no_effect(LATER),
    option(
        "state.changelog.dstl.dfs.upload.next-attempt-delay",
        Kind::Duration,
        "500 ms",
        "pause before an upload is tried again",
    )
    .older(&["dstl.dfs.upload.next-attempt-delay"])
    .no_effect(LATER),
    option("state.changelog.dstl.dfs.upload.num-threads", Kind::Integer, "5", "upload threads")
        .older(&["dstl.dfs.upload.num-threads"])
        .no_effect(LATER),
    option("state.changelog.dstl.dfs.upload.retry-policy", Kind::Text, "fixed", "`fixed` or `none`")
        .older(&["dstl.dfs.upload.retry-policy"])
        .no_effect(LATER),
    option(
        "state.changelog.dstl.dfs.upload.timeout",
        Kind::Duration,
        "1 s",
        "a slower upload is tried again",
    )
    .older(&["dstl.dfs.upload.timeout"])
    .no_effect(LATER),
    option(
        "state.changelog.enabled",
        Kind::Boolean,
        "false",
        "log every state change; checkpoint = log tail + last materialisation (FLIP-158)",
    )
    .older(&["state.backend.changelog.enabled"])
    .no_effect(LATER),
    option("state.changelog.max-failures-allowed", Kind::Integer, "3", "materialisation failures tolerated")
        .older(&["state.backend.changelog.max-failures-allowed"])
        .no_effect(LATER),
    option(
        "state.changelog.periodic-materialize.enabled",
        Kind::Boolean,
        "true",
        "take snapshots of the real backend from time to time",
    )
    .older(&["state.backend.changelog.periodic-materialize.enabled"])
    .no_effect(LATER),
    option(
        "state.changelog.periodic-materialize.interval",
        Kind::Duration,
        "10 min",
        "how often the real backend is snapshotted",
    )
    .older(&["state.backend.changelog.periodic-materialize.interval"])
    .no_effect(LATER),
    option(
        "state.changelog.storage",
        Kind::Choice(&["memory", "filesystem"]),
        "memory",
        "`memory` or `filesystem`",
    )
    .older(&["state.backend.changelog.storage"])
    .no_effect(LATER),
];
