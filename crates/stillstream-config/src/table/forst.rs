//! The ForSt state backend: only the keys that RocksDB does not have under its own name.

use super::super::value::Kind;
use super::{Row, option};

const LATER: &str = "the ForSt backend is not in this release: leave it out";

pub(super) const ROWS: &[Row] = &[
    option("state.backend.forst.cache.dir", Kind::Text, "", "folder of the local file cache")
        .no_effect(LATER),
    option(
        "state.backend.forst.cache.lru.access-before-promote",
        Kind::Integer,
        "6",
        "accesses that move a file up in the cache",
    )
    .no_effect(LATER),
    option(
        "state.backend.forst.cache.lru.promote-limit",
        Kind::Integer,
        "3",
        "moves up before a file counts as hot",
    )
    .no_effect(LATER),
    option(
        "state.backend.forst.cache.reserve-size",
        Kind::MemorySize,
        "256 mb",
        "disk space that the cache leaves free",
    )
    .no_effect(LATER),
    option(
        "state.backend.forst.cache.size-based-limit",
        Kind::MemorySize,
        "0 bytes",
        "most bytes in the cache; 0 = no limit",
    )
    .no_effect(LATER),
    option(
        "state.backend.forst.executor.inline-coordinator",
        Kind::Boolean,
        "false",
        "coordinate state requests in the task's thread",
    )
    .no_effect(LATER),
    option(
        "state.backend.forst.executor.inline-write",
        Kind::Boolean,
        "true",
        "write in the coordinator's thread",
    )
    .no_effect(LATER),
    option("state.backend.forst.executor.read-io-parallelism", Kind::Integer, "3", "threads for reads")
        .no_effect(LATER),
    option("state.backend.forst.executor.write-io-parallelism", Kind::Integer, "1", "threads for writes")
        .no_effect(LATER),
    option("state.backend.forst.local-dir", Kind::Text, "", "local working directory").no_effect(LATER),
    option(
        "state.backend.forst.memory.partitioned-index-filters",
        Kind::Boolean,
        "true",
        "two-level index and filters",
    )
    .no_effect(LATER),
    option(
        "state.backend.forst.primary-dir",
        Kind::Text,
        "checkpoint-dir",
        "where the state's files are kept",
    )
    .no_effect(LATER),
    option(
        "state.backend.forst.sync.enforce-local",
        Kind::Boolean,
        "true",
        "jobs with synchronous state access keep it on the local disk",
    )
    .no_effect(LATER),
    option(
        "state.backend.forst.timer-service.factory",
        Kind::Choice(&["HEAP", "FORST", "ForStDB"]),
        "ForStDB",
        "timers in ForSt or on heap",
    )
    .no_effect(LATER),
];
