//! [`RocksDbOptions`]: the settings of the RocksDB backend, by Flink's names.

use std::path::PathBuf;
use std::time::Duration;

use stillstream_config::{
    CompactionStyle, ConfigOption, ConfigValue, Configuration, InfoLogLevel, PredefinedOptions, options as o,
};
use stillstream_state::StateError;

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

/// How much memory RocksDB may use.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryBudget {
    /// Bytes for hot entries, block cache and write buffers of all databases of the process; `None`: each
    /// state has its own, and nothing bounds their sum (`state.backend.rocksdb.memory.managed: false`).
    pub total_bytes: Option<u64>,
    /// The share of it for hot entries as native values, in front of RocksDB; the rest is RocksDB's.
    pub write_back_ratio: f64,
    /// The share of RocksDB's part that write buffers may take.
    pub write_buffer_ratio: f64,
    /// Whether indexes and filters are cached in two levels.
    pub partitioned_index_filters: bool,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self {
            total_bytes: Some(512 << 20),
            write_back_ratio: 0.5,
            write_buffer_ratio: 0.5,
            partitioned_index_filters: false,
        }
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
    /// Whether new files get a bloom filter; `None`: those above the last level do, which holds nearly all
    /// keys and would need the largest ones.
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
    pub log_level: InfoLogLevel,
    /// Where; `None`: beside the database.
    pub log_dir: Option<PathBuf>,
    /// Log files kept.
    pub log_files: u32,
    /// A log file is rolled at this many bytes; 0: never.
    pub log_file_bytes: u64,
    /// Most uploads or downloads at once of one operator.
    pub transfer_threads: u32,
    /// Which share of a database's key groups must be one's own for it to become the base after a rescale.
    pub overlap_threshold: f64,
    /// Whether whole files outside one's own range are dropped after a rescale.
    pub delete_files_in_range: bool,
    /// Whether a database is compacted in the background after a rescale.
    pub compact_after_rescale: bool,
    /// Timers of each key group that are held in memory.
    pub timer_cache: usize,
    /// The compaction filter of state with a time to live asks for the time after so many entries.
    pub ttl_query_time_after: u64,
    /// Files of state with a time to live that are older than this are compacted; zero: never.
    pub ttl_periodic_compaction: Duration,
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
            log_level: InfoLogLevel::Info,
            log_dir: None,
            log_files: 4,
            log_file_bytes: 25 << 20,
            transfer_threads: 4,
            overlap_threshold: 0.0,
            delete_files_in_range: false,
            compact_after_rescale: false,
            timer_cache: 128,
            ttl_query_time_after: 1000,
            ttl_periodic_compaction: Duration::from_secs(30 * 24 * 3600),
            local_recovery: None,
            instance: 0,
            max_value_bytes: i32::MAX as u64,
        }
    }
    /// What a configuration says (`state.backend.rocksdb.*`), for a process with so many slots.
    ///
    /// ```
    /// use stillstream_rocksdb::RocksDbOptions;
    /// use stillstream_config::Configuration;
    ///
    /// let mut config = Configuration::new();
    /// config.set_text("state.backend.rocksdb.memory.fixed-per-slot", "100 mb")?;
    /// let options = RocksDbOptions::from_config(&config, 4)?;
    /// assert_eq!(options.memory.total_bytes, Some(400 << 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// For a compression that is not built.
    pub fn from_config(config: &Configuration, slots: u32) -> Result<Self, StateError> {
        fn given<T: ConfigValue>(config: &Configuration, option: ConfigOption<T>) -> Option<T> {
            config.is_set(option).then(|| config.get(option))
        }
        let natural = |n: i32| u32::try_from(n).unwrap_or(0);
        let local_dir = match config.get(o::ROCKSDB_LOCAL_DIR) {
            Some(dir) => PathBuf::from(dir),
            None => std::env::temp_dir().join("stillstream"),
        };
        let per_slot = config.get(o::ROCKSDB_FIXED_PER_SLOT);
        let total_bytes = match (per_slot, config.get(o::ROCKSDB_FIXED_PER_PROCESS)) {
            (Some(slot), _) => Some(slot.bytes().saturating_mul(slots.max(1).into())),
            (None, Some(process)) => Some(process.bytes()),
            (None, None) if config.get(o::ROCKSDB_MANAGED_MEMORY) => MemoryBudget::default().total_bytes,
            (None, None) => None,
        };
        let mut compression = Vec::new();
        for name in config.get(o::ROCKSDB_COMPRESSION) {
            let known = Compression::from_name(&name).ok_or_else(|| StateError::Setting {
                key: o::ROCKSDB_COMPRESSION.key(),
                value: name.clone(),
                why: "this release is built with LZ4_COMPRESSION and NO_COMPRESSION only: write one of them"
                    .into(),
            })?;
            compression.push(known);
        }
        Ok(Self {
            memory: MemoryBudget {
                total_bytes,
                write_back_ratio: config.get(o::ROCKSDB_WRITE_BACK_RATIO),
                write_buffer_ratio: config.get(o::ROCKSDB_WRITE_BUFFER_RATIO),
                partitioned_index_filters: config.get(o::ROCKSDB_PARTITIONED_INDEX),
            },
            predefined: config.get(o::ROCKSDB_PREDEFINED_OPTIONS),
            threads: given(config, o::ROCKSDB_THREADS).map(natural),
            open_files: given(config, o::ROCKSDB_OPEN_FILES),
            write_buffer_bytes: given(config, o::ROCKSDB_WRITE_BUFFER_SIZE).map(|size| size.bytes()),
            write_buffer_count: given(config, o::ROCKSDB_WRITE_BUFFER_COUNT).map(natural),
            write_buffers_to_merge: given(config, o::ROCKSDB_WRITE_BUFFERS_TO_MERGE).map(natural),
            block_bytes: given(config, o::ROCKSDB_BLOCK_SIZE).map(|size| size.bytes()),
            metadata_block_bytes: given(config, o::ROCKSDB_METADATA_BLOCK_SIZE).map(|size| size.bytes()),
            block_cache_bytes: given(config, o::ROCKSDB_BLOCK_CACHE_SIZE).map(|size| size.bytes()),
            bloom_filter: given(config, o::ROCKSDB_BLOOM_FILTER),
            bloom_bits_per_key: given(config, o::ROCKSDB_BLOOM_BITS),
            bloom_block_based: given(config, o::ROCKSDB_BLOOM_BLOCK_BASED),
            compaction: given(config, o::ROCKSDB_COMPACTION_STYLE),
            dynamic_level_size: given(config, o::ROCKSDB_DYNAMIC_LEVELS),
            target_file_bytes: given(config, o::ROCKSDB_TARGET_FILE_SIZE).map(|size| size.bytes()),
            level_base_bytes: given(config, o::ROCKSDB_LEVEL_BASE).map(|size| size.bytes()),
            compression,
            log_level: config.get(o::ROCKSDB_LOG_LEVEL),
            log_dir: config.get(o::ROCKSDB_LOG_DIR).map(PathBuf::from),
            log_files: natural(config.get(o::ROCKSDB_LOG_FILES)),
            log_file_bytes: config.get(o::ROCKSDB_LOG_FILE_SIZE).bytes(),
            // a negative number is a common pool in Flink; here an operator's transfers are bounded in any
            // case
            transfer_threads: match config.get(o::ROCKSDB_TRANSFER_THREADS) {
                ..=0 => 4,
                threads => natural(threads),
            },
            overlap_threshold: config.get(o::ROCKSDB_OVERLAP_THRESHOLD),
            delete_files_in_range: config.get(o::ROCKSDB_DELETE_FILES_IN_RANGE),
            compact_after_rescale: config.get(o::ROCKSDB_COMPACT_AFTER_RESCALE),
            timer_cache: natural(config.get(o::ROCKSDB_TIMER_CACHE)) as usize,
            ttl_query_time_after: config.get(o::ROCKSDB_TTL_QUERY_TIME_AFTER).try_into().unwrap_or(1),
            ttl_periodic_compaction: config.get(o::ROCKSDB_TTL_PERIODIC_COMPACTION),
            local_recovery: config.get(o::LOCAL_BACKUP).then(|| LocalRecovery {
                dir: match config.get(o::LOCAL_BACKUP_DIRS).and_then(|dirs| dirs.into_iter().next()) {
                    Some(dir) => PathBuf::from(dir),
                    None => local_dir.join("local-recovery"),
                },
            }),
            ..Self::new(local_dir)
        })
    }

    /// The same for one subtask: local copies get a folder of their own below the one that is set, by job,
    /// operator and subtask, and the backend a number that no other one of the job has.
    pub fn for_subtask(&self, instance: u64, folders: &[&str]) -> Self {
        let local_recovery = self.local_recovery.as_ref().map(|local| LocalRecovery {
            dir: folders.iter().fold(local.dir.clone(), |dir, folder| dir.join(folder)),
        });
        Self { instance, local_recovery, ..self.clone() }
    }
}
