//! The RocksDB state backend.

use super::super::value::Kind;
use super::{Row, option};

const LATER: &str = "the RocksDB backend is not in this release: leave it out";

pub(super) const ROWS: &[Row] = &[
    option("state.backend.rocksdb.block.blocksize", Kind::MemorySize, "4 kb", "size of a data block")
        .no_effect(LATER),
    option("state.backend.rocksdb.block.cache-size", Kind::MemorySize, "8 mb", "size of the block cache")
        .no_effect(LATER),
    option(
        "state.backend.rocksdb.block.metadata-blocksize",
        Kind::MemorySize,
        "4 kb",
        "size of a block of partitioned index or filter",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.bloom-filter.bits-per-key",
        Kind::Double,
        "10.0",
        "bits per key of the bloom filter",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.bloom-filter.block-based-mode",
        Kind::Boolean,
        "false",
        "one bloom filter a block, not a file",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.checkpoint.transfer.thread.num",
        Kind::Integer,
        "4",
        "upload/download threads per operator; negative = shared IO pool",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.compaction.filter.periodic-compaction-time",
        Kind::Duration,
        "30 d",
        "files older than this are compacted for the TTL filter",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.compaction.filter.query-time-after-num-entries",
        Kind::Long,
        "1000",
        "the TTL filter asks for the time after so many entries",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.compaction.level.max-size-level-base",
        Kind::MemorySize,
        "256 mb",
        "most bytes in the first level",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.compaction.level.target-file-size-base",
        Kind::MemorySize,
        "64 mb",
        "size of a compacted file in the first level",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.compaction.level.use-dynamic-size",
        Kind::Boolean,
        "false",
        "derive the levels' sizes from the last level",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.compaction.style",
        Kind::Choice(&["LEVEL", "UNIVERSAL", "FIFO", "NONE"]),
        "LEVEL",
        "how files are compacted",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.compression.per.level",
        Kind::List,
        "SNAPPY_COMPRESSION",
        "compression of each level",
    )
    .no_effect(LATER),
    option("state.backend.rocksdb.files.open", Kind::Integer, "-1", "most open files; -1 = no limit")
        .no_effect(LATER),
    option(
        "state.backend.rocksdb.incremental-restore-async-compact-after-rescale",
        Kind::Boolean,
        "false",
        "compact in the background after rescale",
    )
    .no_effect(LATER),
    option("state.backend.rocksdb.localdir", Kind::Text, "", "local working directory").no_effect(LATER),
    option("state.backend.rocksdb.log.dir", Kind::Text, "", "folder of RocksDB's own log").no_effect(LATER),
    option("state.backend.rocksdb.log.file-num", Kind::Integer, "4", "log files kept").no_effect(LATER),
    option(
        "state.backend.rocksdb.log.level",
        Kind::Choice(&[
            "DEBUG_LEVEL",
            "INFO_LEVEL",
            "WARN_LEVEL",
            "ERROR_LEVEL",
            "FATAL_LEVEL",
            "HEADER_LEVEL",
        ]),
        "INFO_LEVEL",
        "level of RocksDB's own log",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.log.max-file-size",
        Kind::MemorySize,
        "25 mb",
        "a log file is rolled at this size",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.manual-compaction.max-auto-compactions",
        Kind::Integer,
        "30",
        "manual compaction waits while more automatic ones run",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.manual-compaction.max-file-size-to-compact",
        Kind::MemorySize,
        "50 kb",
        "files smaller than this are merged",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.manual-compaction.max-files-to-compact",
        Kind::Integer,
        "30",
        "most files of one manual compaction",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.manual-compaction.max-output-file-size",
        Kind::MemorySize,
        "64 mb",
        "largest file that a manual compaction writes",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.manual-compaction.max-parallel-compactions",
        Kind::Integer,
        "5",
        "manual compactions at once",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.manual-compaction.min-files-to-compact",
        Kind::Integer,
        "5",
        "fewest files of one manual compaction",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.manual-compaction.min-interval",
        Kind::Duration,
        "0 s",
        "time between two manual compactions; 0 = off",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.memory.fixed-per-slot",
        Kind::MemorySize,
        "",
        "fixed budget per slot instead",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.memory.fixed-per-tm",
        Kind::MemorySize,
        "",
        "fixed budget per process instead",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.memory.high-prio-pool-ratio",
        Kind::Double,
        "0.1",
        "share of cache for index and filter blocks",
    )
    .within(0.0, 1.0)
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.memory.managed",
        Kind::Boolean,
        "true",
        "take memory from the slot budget, shared by all instances in the slot",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.memory.partitioned-index-filters",
        Kind::Boolean,
        "false",
        "two-level index and filters",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.memory.write-buffer-ratio",
        Kind::Double,
        "0.5",
        "share of the budget for memtables",
    )
    .within(0.0, 1.0)
    .no_effect(LATER),
    option("state.backend.rocksdb.options-factory", Kind::Text, "", "user hook").no_effect(LATER),
    option(
        "state.backend.rocksdb.predefined-options",
        Kind::Choice(&[
            "DEFAULT",
            "SPINNING_DISK_OPTIMIZED",
            "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
            "FLASH_SSD_OPTIMIZED",
        ]),
        "DEFAULT",
        "DEFAULT, SPINNING_DISK_OPTIMIZED, SPINNING_DISK_OPTIMIZED_HIGH_MEM, FLASH_SSD_OPTIMIZED",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.rescaling.use-delete-files-in-range",
        Kind::Boolean,
        "false",
        "drop whole files outside the range on rescale",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.restore-overlap-fraction-threshold",
        Kind::Double,
        "0.0",
        "on rescale, reuse a restored DB as base when key-group overlap exceeds this",
    )
    .within(0.0, 1.0)
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.thread.num",
        Kind::Integer,
        "2",
        "background threads for flush and compaction",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.timer-service.cache-size",
        Kind::Integer,
        "128",
        "cached timers per key group",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.timer-service.factory",
        Kind::Choice(&["HEAP", "ROCKSDB"]),
        "ROCKSDB",
        "timers in RocksDB or on heap",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.use-bloom-filter",
        Kind::Boolean,
        "false",
        "every new file gets a bloom filter",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.use-ingest-db-restore-mode",
        Kind::Boolean,
        "false",
        "on rescale, ingest SSTs instead of re-inserting",
    )
    .no_effect(LATER),
    option(
        "state.backend.rocksdb.write-batch-size",
        Kind::MemorySize,
        "2 mb",
        "bytes per WriteBatch on restore",
    )
    .no_effect(LATER),
    option("state.backend.rocksdb.writebuffer.count", Kind::Integer, "2", "most write buffers in memory")
        .no_effect(LATER),
    option(
        "state.backend.rocksdb.writebuffer.number-to-merge",
        Kind::Integer,
        "1",
        "write buffers merged before a flush",
    )
    .no_effect(LATER),
    option("state.backend.rocksdb.writebuffer.size", Kind::MemorySize, "64 mb", "size of a write buffer")
        .no_effect(LATER),
];
