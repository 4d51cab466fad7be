//! When checkpoints are taken, where they go, and how long they stay.

use super::super::choice::{CheckpointStorageType, CheckpointingMode, ExternalizedCheckpointRetention};
use super::super::value::Kind;
use super::{Row, option};

const MERGE: &str = "every state stream is a file of its own in this release: leave it out";
const UNALIGNED: &str =
    "checkpoints are aligned in this release, which takes longer under back pressure: leave it out";

pub(super) const ROWS: &[Row] = &[
    option(
        "execution.checkpointing.aligned-checkpoint-timeout",
        Kind::Duration,
        "0 s",
        "0 = start unaligned at once; >0 = start aligned, switch to unaligned after this start delay; only with unaligned on",
    )
    .older(&["execution.checkpointing.alignment-timeout"])
    .no_effect(UNALIGNED),
    option(
        "execution.checkpointing.checkpoints-after-tasks-finish",
        Kind::Boolean,
        "true",
        "keep checkpointing after part of the graph has finished (FLIP-147)",
    )
    .older(&["execution.checkpointing.checkpoints-after-tasks-finish.enabled"])
    .no_effect("checkpoints always go on when a part of the job has finished: leave it out"),
    option(
        "execution.checkpointing.cleaner.parallel-mode",
        Kind::Boolean,
        "true",
        "delete the files of one discarded checkpoint in parallel",
    )
    .older(&["state.checkpoint.cleaner.parallel-mode"])
    .no_effect("files are deleted in the background whatever it says: leave it out"),
    option(
        "execution.checkpointing.create-subdir",
        Kind::Boolean,
        "true",
        "put each job under `<dir>/<job id>`",
    )
    .older(&["state.checkpoints.create-subdir"])
    .no_effect("each job always has a folder of its own below the root: leave it out"),
    option(
        "execution.checkpointing.data-inline-threshold",
        Kind::MemorySize,
        "20 kb",
        "state streams smaller than this are stored inside `_metadata`; at most 1 MiB",
    )
    .older(&["state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"])
    .within(0.0, 1_048_576.0),
    option(
        "execution.checkpointing.dir",
        Kind::Text,
        "",
        "root of data and metadata files",
    )
    .older(&["state.checkpoints.dir", "state.backend.fs.checkpointdir"]),
    option(
        "execution.checkpointing.during-recovery.enabled",
        Kind::Boolean,
        "false",
        "2.3: allow checkpoints while in-flight data is still being restored",
    )
    .no_effect("the first checkpoint comes when recovery is complete: leave it out"),
    option(
        "execution.checkpointing.externalized-checkpoint-retention",
        Kind::Choice(ExternalizedCheckpointRetention::NAMES),
        "NO_EXTERNALIZED_CHECKPOINTS",
        "what happens to the last checkpoint when the job ends",
    ),
    option(
        "execution.checkpointing.file-merging.across-checkpoint-boundary",
        Kind::Boolean,
        "false",
        "let one physical file hold data of several checkpoints",
    )
    .no_effect(MERGE),
    option(
        "execution.checkpointing.file-merging.enabled",
        Kind::Boolean,
        "false",
        "write many logical state files into fewer physical files (FLIP-306)",
    )
    .no_effect(MERGE),
    option(
        "execution.checkpointing.file-merging.max-file-size",
        Kind::MemorySize,
        "32 mb",
        "roll a physical file at this size",
    )
    .no_effect(MERGE),
    option(
        "execution.checkpointing.file-merging.max-space-amplification",
        Kind::Double,
        "2.0",
        "re-upload when occupied/valid exceeds this; <1 = off",
    )
    .no_effect(MERGE),
    option(
        "execution.checkpointing.file-merging.max-subtasks-per-file",
        Kind::Integer,
        "4",
        "how many subtasks may share a file",
    )
    .no_effect(MERGE),
    option(
        "execution.checkpointing.file-merging.pool-blocking",
        Kind::Boolean,
        "false",
        "wait for a free file or open another",
    )
    .no_effect(MERGE),
    option(
        "execution.checkpointing.incremental",
        Kind::Boolean,
        "false",
        "upload only what changed, where the backend can",
    )
    .older(&["state.backend.incremental"]),
    option(
        "execution.checkpointing.interval",
        Kind::Duration,
        "",
        "base period; unset = checkpointing off; smallest legal value 10 ms",
    )
    .at_least(10.0),
    option(
        "execution.checkpointing.interval-during-backlog",
        Kind::Duration,
        "",
        "period while a source says it is catching up; 0 = none; must be >= interval",
    )
    .no_effect("the interval is the same with and without a backlog: set `execution.checkpointing.interval`"),
    option(
        "execution.checkpointing.local-backup.dirs",
        Kind::List,
        "",
        "where local copies go (the first one); default: `local-recovery` below `state.backend.rocksdb.localdir`",
    )
    .older(&["taskmanager.state.local.root-dirs"]),
    option(
        "execution.checkpointing.local-backup.enabled",
        Kind::Boolean,
        "false",
        "keep a local copy of each incremental RocksDB snapshot; a restart tries it first",
    )
    .older(&["state.backend.local-recovery"]),
    option(
        "execution.checkpointing.max-concurrent-checkpoints",
        Kind::Integer,
        "1",
        "checkpoints in flight at once",
    )
    .at_least(1.0),
    option(
        "execution.checkpointing.min-pause",
        Kind::Duration,
        "0 s",
        "quiet time after a completed checkpoint; raises the interval if larger; capped at one year",
    ),
    option(
        "execution.checkpointing.mode",
        Kind::Choice(CheckpointingMode::NAMES),
        "EXACTLY_ONCE",
        "EXACTLY_ONCE or AT_LEAST_ONCE",
    ),
    option(
        "execution.checkpointing.num-retained",
        Kind::Integer,
        "1",
        "completed checkpoints kept",
    )
    .older(&["state.checkpoints.num-retained"])
    .at_least(1.0),
    option(
        "execution.checkpointing.savepoint-dir",
        Kind::Text,
        "",
        "folder of savepoints whose request names none; without both a savepoint fails",
    )
    .older(&["state.savepoints.dir", "savepoints.state.backend.fs.dir"]),
    option(
        "execution.checkpointing.snapshot-compression",
        Kind::Boolean,
        "false",
        "compress full snapshots (per key group)",
    )
    .no_effect("snapshots are not compressed in this release: leave it out"),
    option(
        "execution.checkpointing.storage",
        Kind::Choice(CheckpointStorageType::NAMES),
        "",
        "`jobmanager` or `filesystem`",
    )
    .older(&["state.checkpoint-storage"]),
    option(
        "execution.checkpointing.timeout",
        Kind::Duration,
        "10 min",
        "abort a checkpoint older than this",
    )
    .at_least(10.0),
    option(
        "execution.checkpointing.tolerable-failed-checkpoints",
        Kind::Integer,
        "0",
        "consecutive counted failures allowed before the job fails over",
    )
    .at_least(0.0),
    option(
        "execution.checkpointing.unaligned.enabled",
        Kind::Boolean,
        "false",
        "barriers may overtake buffers; needs EXACTLY_ONCE and max-concurrent 1",
    )
    .older(&["execution.checkpointing.unaligned"])
    .no_effect(UNALIGNED),
    option(
        "execution.checkpointing.unaligned.forced",
        Kind::Boolean,
        "false",
        "allow it in iterative jobs",
    )
    .no_effect(UNALIGNED),
    option(
        "execution.checkpointing.unaligned.interruptible-timers.enabled",
        Kind::Boolean,
        "false",
        "stop a long run of timers to take the barrier",
    )
    .no_effect(UNALIGNED),
    option(
        "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file",
        Kind::Integer,
        "5",
        "subtasks sharing one channel-state file",
    )
    .no_effect(UNALIGNED),
    option(
        "execution.checkpointing.unaligned.recover-output-on-downstream.enabled",
        Kind::Boolean,
        "false",
        "2.3: replay saved output buffers on the consumer side",
    )
    .no_effect(UNALIGNED),
    option(
        "execution.checkpointing.write-buffer-size",
        Kind::Integer,
        "4096",
        "stream buffer; real size = max(this, inline threshold)",
    )
    .older(&["state.storage.fs.write-buffer-size", "state.backend.fs.write-buffer-size"])
    .at_least(1.0)
    .no_effect("the size of write buffers is fixed in this release: leave it out"),
    option(
        "execution.checkpointing.force",
        Kind::Boolean,
        "false",
        "Flink 1.x: take checkpoints of a job with iterations, though records in a loop are lost",
    )
    .no_effect("there are no iterations: leave it out"),
];
