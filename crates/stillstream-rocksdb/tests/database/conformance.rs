//! The RocksDB backend runs the conformance suite; and it and the heap backend do what plain maps do.

use std::sync::OnceLock;

use stillstream_rocksdb::{MemoryBudget, RocksDbBackendFactory, RocksDbOptions};

fn folder() -> &'static std::path::Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder for the tests")).path()
}

/// `timer_cache`: timers of a key group that are in memory.
pub fn rocksdb(timer_cache: usize) -> RocksDbBackendFactory {
    let options = RocksDbOptions {
        timer_cache,
        memory: MemoryBudget { total_bytes: Some(32 << 20), ..MemoryBudget::default() },
        ..RocksDbOptions::new(folder())
    };
    RocksDbBackendFactory { incremental: false, options: options.into() }
}

stillstream_state::keyed_backend_conformance!(rocksdb, rocksdb(128));
stillstream_state::keyed_backend_conformance!(rocksdb_with_few_timers_in_memory, rocksdb(2));
