//! The RocksDB backend runs the conformance suite.

use std::sync::OnceLock;

use stillstream_state::conformance::BackendFactory;
use stillstream_state::{BackendOptions, Key, KeyedStateBackend, MemoryBudget, RocksDbOptions};

struct RocksDb {
    /// Timers of a key group that are in memory.
    timer_cache: usize,
}

fn folder() -> &'static std::path::Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder for the tests")).path()
}

impl BackendFactory for RocksDb {
    fn create<K: Key>(&self, options: BackendOptions) -> KeyedStateBackend<K> {
        let rocksdb = RocksDbOptions {
            timer_cache: self.timer_cache,
            memory: MemoryBudget { total_bytes: Some(32 << 20), ..MemoryBudget::default() },
            ..RocksDbOptions::new(folder())
        };
        KeyedStateBackend::rocksdb(options, rocksdb).expect("a database in a folder of our own")
    }
}

stillstream_state::keyed_backend_conformance!(rocksdb, RocksDb { timer_cache: 128 });
stillstream_state::keyed_backend_conformance!(rocksdb_with_few_timers_in_memory, RocksDb { timer_cache: 2 });
