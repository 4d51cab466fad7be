//! From [`RocksDbOptions`] to RocksDB's own options.

use std::fmt;
use std::sync::Arc;

use rust_rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType,
    LogLevel as RocksLogLevel, Options,
};
use stillstream_config::{CompactionStyle, InfoLogLevel, PredefinedOptions};

use crate::list::{append, append_some};
use crate::memory::{Share, SharedMemory};
use crate::options::{Compression, RocksDbOptions};

/// The options of one database, ready to be turned into RocksDB's.
#[derive(Clone)]
pub(crate) struct Tuning {
    pub options: Arc<RocksDbOptions>,
    pub memory: Option<Arc<SharedMemory>>,
}

impl fmt::Debug for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tuning").field("options", &self.options).field("memory", &self.memory).finish()
    }
}

impl Tuning {
    pub fn new(options: RocksDbOptions) -> Self {
        let memory = SharedMemory::of_process(&options.memory);
        Self { options: Arc::new(options), memory }
    }

    /// A share of the memory for hot entries, for one more state.
    pub fn share_of_write_back(&self) -> Share {
        Share::of(self.memory.clone())
    }

    fn high_mem(&self) -> bool {
        self.options.predefined == PredefinedOptions::SpinningDiskOptimizedHighMem
    }

    fn spinning(&self) -> bool {
        self.high_mem() || self.options.predefined == PredefinedOptions::SpinningDiskOptimized
    }

    /// For the database as a whole; `new`: it may be made.
    pub fn database_options(&self, new: bool) -> Options {
        let (given, mut options) = (&*self.options, Options::default());
        options.create_if_missing(new);
        options.set_use_fsync(false);
        options.set_stats_dump_period_sec(0);
        options.set_avoid_unnecessary_blocking_io(true);
        let threads = given.threads.unwrap_or(match given.predefined {
            PredefinedOptions::Default => 2,
            _ => 4,
        });
        options.increase_parallelism(threads as i32);
        // otherwise RocksDB starts 16 for each column family, each time a database is opened
        options.set_max_file_opening_threads(threads as i32);
        options.set_max_open_files(given.open_files.unwrap_or(-1));
        options.set_log_level(match given.log_level {
            InfoLogLevel::Debug => RocksLogLevel::Debug,
            InfoLogLevel::Info => RocksLogLevel::Info,
            InfoLogLevel::Warn => RocksLogLevel::Warn,
            InfoLogLevel::Error => RocksLogLevel::Error,
            InfoLogLevel::Fatal => RocksLogLevel::Fatal,
            InfoLogLevel::Header => RocksLogLevel::Header,
        });
        options.set_keep_log_file_num(given.log_files.max(1) as usize);
        options.set_max_log_file_size(given.log_file_bytes as usize);
        if let Some(dir) = &given.log_dir {
            options.set_db_log_dir(dir);
        }
        if let Some(memory) = &self.memory {
            options.set_write_buffer_manager(&memory.write_buffers);
        }
        options
    }

    /// For one column family, and for files that it will take over.
    pub fn family_options(&self) -> Options {
        let (given, mut options) = (&*self.options, Options::default());
        let write_buffer_bytes = given.write_buffer_bytes.unwrap_or(64 << 20) as usize;
        options.set_write_buffer_size(write_buffer_bytes);
        options.set_max_write_buffer_number(given.write_buffer_count.unwrap_or(if self.high_mem() {
            4
        } else {
            2
        }) as i32);
        options.set_min_write_buffer_number_to_merge(
            given.write_buffers_to_merge.unwrap_or(if self.high_mem() { 3 } else { 1 }) as i32,
        );
        match given.compaction.unwrap_or(CompactionStyle::Level) {
            CompactionStyle::Level => options.set_compaction_style(DBCompactionStyle::Level),
            CompactionStyle::Universal => options.set_compaction_style(DBCompactionStyle::Universal),
            CompactionStyle::Fifo => options.set_compaction_style(DBCompactionStyle::Fifo),
            CompactionStyle::None => options.set_disable_auto_compactions(true),
        }
        options.set_level_compaction_dynamic_level_bytes(given.dynamic_level_size.unwrap_or(self.spinning()));
        let (file, level) = if self.high_mem() { (256 << 20, 1 << 30) } else { (64 << 20, 256 << 20) };
        options.set_target_file_size_base(given.target_file_bytes.unwrap_or(file));
        options.set_max_bytes_for_level_base(given.level_base_bytes.unwrap_or(level));
        let compression: Vec<DBCompressionType> = given
            .compression
            .iter()
            .map(|compression| match compression {
                Compression::None => DBCompressionType::None,
                Compression::Lz4 => DBCompressionType::Lz4,
            })
            .collect();
        match compression.as_slice() {
            [] => options.set_compression_type(DBCompressionType::Lz4),
            [all] => options.set_compression_type(*all),
            levels => {
                options.set_compression_type(levels[0]);
                options.set_compression_per_level(levels);
            }
        }
        if let Some(memory) = &self.memory {
            options.set_arena_block_size(memory.arena_block_bytes(write_buffer_bytes));
        }
        if given.bloom_filter.is_none() && !self.high_mem() {
            // the last level holds nearly all keys, and most keys that are asked for are there: only what
            // lies above it has filters, which take little memory and spare a block of each file
            options.set_optimize_filters_for_hits(true);
        }
        options.set_merge_operator("stillstream.append", append, append_some);
        options.set_block_based_table_factory(&self.table_options());
        options
    }

    fn table_options(&self) -> BlockBasedOptions {
        let (given, mut table) = (&*self.options, BlockBasedOptions::default());
        table.set_format_version(5);
        table.set_block_size(
            given.block_bytes.unwrap_or(if self.high_mem() { 128 << 10 } else { 4 << 10 }) as usize
        );
        table.set_metadata_block_size(given.metadata_block_bytes.unwrap_or(4 << 10) as usize);
        if given.bloom_filter.unwrap_or(true) {
            let bits = given.bloom_bits_per_key.unwrap_or(10.0);
            table.set_bloom_filter(bits, given.bloom_block_based.unwrap_or(false));
        }
        match &self.memory {
            Some(memory) => {
                table.set_block_cache(&memory.cache);
                // counted against the budget, like everything else
                table.set_cache_index_and_filter_blocks(true);
                table.set_cache_index_and_filter_blocks_with_high_priority(true);
                table.set_pin_l0_filter_and_index_blocks_in_cache(true);
                if given.memory.partitioned_index_filters {
                    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
                    table.set_partition_filters(true);
                }
            }
            None => {
                let default = if self.high_mem() { 256 << 20 } else { 8 << 20 };
                table.set_block_cache(&Cache::new_lru_cache(
                    given.block_cache_bytes.unwrap_or(default) as usize
                ));
            }
        }
        table
    }
}
