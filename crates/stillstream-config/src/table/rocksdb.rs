//! The RocksDB state backend.

use super::super::choice::{CompactionStyle, InfoLogLevel, PredefinedOptions};
use super::super::value::Kind;
use super::{Row, option};

const MANUAL: &str = "small files are merged by RocksDB's own compaction: leave it out";

pub(super) const ROWS: &[Row] = &[
    option("state.backend.rocksdb.block.blocksize", Kind::MemorySize, "4 kb", "size of a data block"),
    option("state.backend.rocksdb.block.cache-size", Kind::MemorySize, "8 mb", "size of the block cache"),
    option(
        "state.backend.rocksdb.block.metadata-blocksize",
        Kind::MemorySize,
        "4 kb",
        "size of a block of partitioned index or filter",
    ),
    option(
        "state.backend.rocksdb.bloom-filter.bits-per-key",
        Kind::Double,
        "10.0",
        "bits per key of the bloom filter",
    ),
    option(
        "state.backend.rocksdb.bloom-filter.block-based-mode",
        Kind::Boolean,
        "false",
        "one bloom filter a block, not a file",
    ),
    option(
        "state.backend.rocksdb.checkpoint.transfer.thread.num",
        Kind::Integer,
        "4",
        "upload/download threads per operator; negative = shared IO pool",
    ),
    option(
        "state.backend.rocksdb.compaction.filter.periodic-compaction-time",
        Kind::Duration,
        "30 d",
        "files of state with a time to live that are older than this are compacted; 0: never",
    ),
    option(
        "state.backend.rocksdb.compaction.filter.query-time-after-num-entries",
        Kind::Long,
        "1000",
        "the filter for state with a time to live asks for the time after so many entries",
    )
    .at_least(1.0),
    option(
        "state.backend.rocksdb.compaction.level.max-size-level-base",
        Kind::MemorySize,
        "256 mb",
        "most bytes in the first level",
    ),
    option(
        "state.backend.rocksdb.compaction.level.target-file-size-base",
        Kind::MemorySize,
        "64 mb",
        "size of a compacted file in the first level",
    ),
    option(
        "state.backend.rocksdb.compaction.level.use-dynamic-size",
        Kind::Boolean,
        "false",
        "derive the levels' sizes from the last level",
    ),
    option(
        "state.backend.rocksdb.compaction.style",
        Kind::Choice(CompactionStyle::NAMES),
        "LEVEL",
        "how files are compacted",
    ),
    option(
        "state.backend.rocksdb.compression.per.level",
        Kind::List,
        "LZ4_COMPRESSION",
        "compression of each level: LZ4_COMPRESSION or NO_COMPRESSION (Flink's default SNAPPY_COMPRESSION is not built)",
    ),
    option("state.backend.rocksdb.files.open", Kind::Integer, "-1", "most open files; -1 = no limit"),
    option(
        "state.backend.rocksdb.incremental-restore-async-compact-after-rescale",
        Kind::Boolean,
        "false",
        "compact in the background after rescale",
    ),
    option(
        "state.backend.rocksdb.localdir",
        Kind::Text,
        "",
        "where databases lie while a job runs; default: below the system's folder for temporary files",
    ),
    option("state.backend.rocksdb.log.dir", Kind::Text, "", "folder of RocksDB's own log"),
    option("state.backend.rocksdb.log.file-num", Kind::Integer, "4", "log files kept"),
    option(
        "state.backend.rocksdb.log.level",
        Kind::Choice(InfoLogLevel::NAMES),
        "INFO_LEVEL",
        "level of RocksDB's own log",
    ),
    option(
        "state.backend.rocksdb.log.max-file-size",
        Kind::MemorySize,
        "25 mb",
        "a log file is rolled at this size",
    ),
    option(
        "state.backend.rocksdb.manual-compaction.max-auto-compactions",
        Kind::Integer,
        "30",
        "manual compaction waits while more automatic ones run",
    )
    .no_effect(MANUAL),
    option(
        "state.backend.rocksdb.manual-compaction.max-file-size-to-compact",
        Kind::MemorySize,
        "50 kb",
        "files smaller than this are merged",
    )
    .no_effect(MANUAL),
    option(
        "state.backend.rocksdb.manual-compaction.max-files-to-compact",
        Kind::Integer,
        "30",
        "most files of one manual compaction",
    )
    .no_effect(MANUAL),
    option(
        "state.backend.rocksdb.manual-compaction.max-output-file-size",
        Kind::MemorySize,
        "64 mb",
        "largest file that a manual compaction writes",
    )
    .no_effect(MANUAL),
    option(
        "state.backend.rocksdb.manual-compaction.max-parallel-compactions",
        Kind::Integer,
        "5",
        "manual compactions at once",
    )
    .no_effect(MANUAL),
    option(
        "state.backend.rocksdb.manual-compaction.min-files-to-compact",
        Kind::Integer,
        "5",
        "fewest files of one manual compaction",
    )
    .no_effect(MANUAL),
    option(
        "state.backend.rocksdb.manual-compaction.min-interval",
        Kind::Duration,
        "0 s",
        "time between two manual compactions; 0 = off",
    )
    .no_effect(MANUAL),
    option(
        "state.backend.rocksdb.memory.fixed-per-slot",
        Kind::MemorySize,
        "",
        "fixed budget per slot instead",
    ),
    option(
        "state.backend.rocksdb.memory.fixed-per-tm",
        Kind::MemorySize,
        "",
        "fixed budget per process instead",
    ),
    option(
        "state.backend.rocksdb.memory.high-prio-pool-ratio",
        Kind::Double,
        "0.1",
        "share of cache for index and filter blocks",
    )
    .within(0.0, 1.0)
    .no_effect("indexes and filters are always kept before data: leave it out"),
    option(
        "state.backend.rocksdb.memory.managed",
        Kind::Boolean,
        "true",
        "all databases of a process share 512 MiB; off = each column family has its own cache and buffers",
    ),
    option(
        "state.backend.rocksdb.memory.partitioned-index-filters",
        Kind::Boolean,
        "false",
        "two-level index and filters",
    ),
    option(
        "state.backend.rocksdb.memory.write-buffer-ratio",
        Kind::Double,
        "0.5",
        "share of the budget for memtables",
    )
    .within(0.0, 1.0),
    option("state.backend.rocksdb.options-factory", Kind::Text, "", "user hook")
        .no_effect("a program sets `RocksDbOptions` itself: leave it out"),
    option(
        "state.backend.rocksdb.predefined-options",
        Kind::Choice(PredefinedOptions::NAMES),
        "DEFAULT",
        "the values of the options that are not set",
    ),
    option(
        "state.backend.rocksdb.rescaling.use-delete-files-in-range",
        Kind::Boolean,
        "false",
        "drop whole files outside the range on rescale",
    ),
    option(
        "state.backend.rocksdb.restore-overlap-fraction-threshold",
        Kind::Double,
        "0.0",
        "on rescale, reuse a restored DB as base when key-group overlap exceeds this",
    )
    .within(0.0, 1.0),
    option(
        "state.backend.rocksdb.thread.num",
        Kind::Integer,
        "2",
        "background threads for flush and compaction",
    ),
    option(
        "state.backend.rocksdb.timer-service.cache-size",
        Kind::Integer,
        "128",
        "cached timers per key group",
    ),
    option(
        "state.backend.rocksdb.timer-service.factory",
        Kind::Choice(&["HEAP", "ROCKSDB"]),
        "ROCKSDB",
        "timers in RocksDB or on heap",
    )
    .no_effect("timers lie in the database and their first ones in memory: leave it out"),
    option(
        "state.backend.rocksdb.use-bloom-filter",
        Kind::Boolean,
        "false",
        "every new file gets a bloom filter; where nothing is set, those above the last level do",
    ),
    option(
        "state.backend.rocksdb.use-ingest-db-restore-mode",
        Kind::Boolean,
        "false",
        "on rescale, ingest SSTs instead of re-inserting",
    )
    .no_effect("files are always ingested after a rescale: leave it out"),
    option(
        "state.backend.rocksdb.write-batch-size",
        Kind::MemorySize,
        "2 mb",
        "bytes per WriteBatch on restore",
    )
    .no_effect("state is restored by sorted files, not by batches: leave it out"),
    option("state.backend.rocksdb.writebuffer.count", Kind::Integer, "2", "most write buffers in memory"),
    option(
        "state.backend.rocksdb.writebuffer.number-to-merge",
        Kind::Integer,
        "1",
        "write buffers merged before a flush",
    ),
    option("state.backend.rocksdb.writebuffer.size", Kind::MemorySize, "64 mb", "size of a write buffer"),
];
