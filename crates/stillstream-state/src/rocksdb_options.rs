//! [`RocksDbOptions`]: the settings of the RocksDB backend, by Flink's names.
//!
//! They are plain data and exist without the cargo feature `rocksdb` too, so that a job can be described by a program
//! that was built without it (and refused with a message that names the feature).

use std::path::PathBuf;

/// Flink's `PredefinedOptions`: a starting point, which the single options change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PredefinedOptions {
    /// RocksDB's own defaults.
    #[default]
    Default,
    /// Four background threads, levels sized from the last one.
    SpinningDiskOptimized,
    /// The same with larger files, blocks and write buffers, and bloom filters.
    SpinningDiskOptimizedHighMem,
    /// Four background threads.
    FlashSsdOptimized,
}

impl PredefinedOptions {
    /// By Flink's name, as in `FLASH_SSD_OPTIMIZED`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "DEFAULT" => Some(Self::Default),
            "SPINNING_DISK_OPTIMIZED" => Some(Self::SpinningDiskOptimized),
            "SPINNING_DISK_OPTIMIZED_HIGH_MEM" => Some(Self::SpinningDiskOptimizedHighMem),
            "FLASH_SSD_OPTIMIZED" => Some(Self::FlashSsdOptimized),
            _ => None,
        }
    }
}

/// How files are compacted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompactionStyle {
    /// Levels of sorted files.
    #[default]
    Level,
    /// Sorted runs of similar size.
    Universal,
    /// The oldest files are dropped: only for state that may be lost.
    Fifo,
    /// Not at all.
    None,
}

impl CompactionStyle {
    /// By Flink's name, as in `LEVEL`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "LEVEL" => Some(Self::Level),
            "UNIVERSAL" => Some(Self::Universal),
            "FIFO" => Some(Self::Fifo),
            "NONE" => Some(Self::None),
            _ => None,
        }
    }
}

/// How blocks are compressed. Only what this build of RocksDB contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: the default. (Flink's default, Snappy, is not built.)
    #[default]
    Lz4,
}

impl Compression {
    /// By Flink's name, as in `LZ4_COMPRESSION`; none for what is not built.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "NO_COMPRESSION" => Some(Self::None),
            "LZ4_COMPRESSION" => Some(Self::Lz4),
            _ => None,
        }
    }
}

/// What RocksDB writes into its own log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// The default.
    #[default]
    Info,
    /// Warnings and worse.
    Warn,
    /// Errors and worse.
    Error,
    /// Only what ends the database.
    Fatal,
    /// Only the head of the file.
    Header,
}

impl LogLevel {
    /// By Flink's name, as in `INFO_LEVEL`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "DEBUG_LEVEL" => Some(Self::Debug),
            "INFO_LEVEL" => Some(Self::Info),
            "WARN_LEVEL" => Some(Self::Warn),
            "ERROR_LEVEL" => Some(Self::Error),
            "FATAL_LEVEL" => Some(Self::Fatal),
            "HEADER_LEVEL" => Some(Self::Header),
            _ => None,
        }
    }
}

/// How much memory RocksDB may use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryBudget {
    /// Bytes for block cache and write buffers of all databases of the process; `None`: each column family has a cache
    /// and write buffers of its own, and nothing bounds their sum (`state.backend.rocksdb.memory.managed: false`).
    pub total_bytes: Option<u64>,
    /// The share of it that write buffers may take.
    pub write_buffer_ratio: f64,
    /// Whether indexes and filters are cached in two levels.
    pub partitioned_index_filters: bool,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self { total_bytes: Some(512 << 20), write_buffer_ratio: 0.5, partitioned_index_filters: false }
    }
}

/// A copy of the last completed checkpoint on this machine's own disk, which a restart tries first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalRecovery {
    /// The folder of one subtask of one operator of one job; nobody else may use it.
    pub dir: PathBuf,
}

/// The settings of the RocksDB backend (`state.backend.rocksdb.*`).
///
/// Options of type `Option` are left to [`predefined`](Self::predefined) unless they are set.
#[derive(Clone, PartialEq, Debug)]
pub struct RocksDbOptions {
    /// Where the databases lie while the job runs; each gets a folder of its own, which goes with it.
    pub local_dir: PathBuf,
    /// How much memory.
    pub memory: MemoryBudget,
    /// The starting point for what follows.
    pub predefined: PredefinedOptions,
    /// Background threads for flush and compaction.
    pub threads: Option<u32>,
    /// Most open files; -1: no limit.
    pub open_files: Option<i32>,
    /// Size of a write buffer in bytes.
    pub write_buffer_bytes: Option<u64>,
    /// Most write buffers of a column family.
    pub write_buffer_count: Option<u32>,
    /// Write buffers that are merged before a flush.
    pub write_buffers_to_merge: Option<u32>,
    /// Size of a data block in bytes.
    pub block_bytes: Option<u64>,
    /// Size of a block of partitioned index or filter in bytes.
    pub metadata_block_bytes: Option<u64>,
    /// Size of the block cache of one column family in bytes, where memory is not managed.
    pub block_cache_bytes: Option<u64>,
    /// Whether new files get a bloom filter.
    pub bloom_filter: Option<bool>,
    /// Its bits per key.
    pub bloom_bits_per_key: Option<f64>,
    /// Whether there is one filter a block, not one a file.
    pub bloom_block_based: Option<bool>,
    /// How files are compacted.
    pub compaction: Option<CompactionStyle>,
    /// Whether the levels' sizes follow from the last one.
    pub dynamic_level_size: Option<bool>,
    /// Size of a file in the first level in bytes.
    pub target_file_bytes: Option<u64>,
    /// Most bytes in the first level.
    pub level_base_bytes: Option<u64>,
    /// Compression by level; the last one stands for all deeper levels.
    pub compression: Vec<Compression>,
    /// What RocksDB logs.
    pub log_level: LogLevel,
    /// Where; `None`: beside the database.
    pub log_dir: Option<PathBuf>,
    /// Log files kept.
    pub log_files: u32,
    /// A log file is rolled at this many bytes; 0: never.
    pub log_file_bytes: u64,
    /// Most uploads or downloads at once of one operator.
    pub transfer_threads: u32,
    /// Bytes that are put into one write batch, and sorted for one bulk-loaded file.
    pub write_batch_bytes: u64,
    /// Which share of a database's key groups must be one's own for it to become the base after a rescale.
    pub overlap_threshold: f64,
    /// Whether whole files outside one's own range are dropped after a rescale.
    pub delete_files_in_range: bool,
    /// Whether a database is compacted in the background after a rescale.
    pub compact_after_rescale: bool,
    /// Timers of each key group that are held in memory.
    pub timer_cache: usize,
    /// Keeps the last completed checkpoint on the local disk too.
    pub local_recovery: Option<LocalRecovery>,
    /// Tells this backend from all others that write for the same job: file names are unique within one.
    pub instance: u64,
    /// The largest value in bytes. RocksDB itself ends at 2 GiB.
    pub max_value_bytes: u64,
}

impl RocksDbOptions {
    /// Flink's defaults, with databases below `local_dir`.
    pub fn new(local_dir: impl Into<PathBuf>) -> Self {
        Self {
            local_dir: local_dir.into(),
            memory: MemoryBudget::default(),
            predefined: PredefinedOptions::Default,
            threads: None,
            open_files: None,
            write_buffer_bytes: None,
            write_buffer_count: None,
            write_buffers_to_merge: None,
            block_bytes: None,
            metadata_block_bytes: None,
            block_cache_bytes: None,
            bloom_filter: None,
            bloom_bits_per_key: None,
            bloom_block_based: None,
            compaction: None,
            dynamic_level_size: None,
            target_file_bytes: None,
            level_base_bytes: None,
            compression: vec![Compression::Lz4],
            log_level: LogLevel::Info,
            log_dir: None,
            log_files: 4,
            log_file_bytes: 25 << 20,
            transfer_threads: 4,
            write_batch_bytes: 2 << 20,
            overlap_threshold: 0.0,
            delete_files_in_range: false,
            compact_after_rescale: false,
            timer_cache: 128,
            local_recovery: None,
            instance: 0,
            max_value_bytes: i32::MAX as u64,
        }
    }
}
