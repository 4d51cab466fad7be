//! ROCKSRAW: the same sums by get and put, as a program does that uses RocksDB itself.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{scope, sleep};

use rust_rocksdb::{BlockBasedOptions, Cache, DB, Options, WriteBufferManager, WriteOptions};
use stillstream::{Error, ErrorKind, Result};

use super::steady;
use crate::machine::Moment;
use crate::measurement::Measurement;
use crate::records::{keyed, warm_up};
use crate::settings::Settings;

/// As much as a job has that sets nothing.
const DEFAULT_MEMORY: u64 = 512 << 20;
/// Records between two looks at whether it is over.
const BATCH: u64 = 256;

/// What the threads share.
struct Shared {
    settings: Settings,
    cache: Cache,
    write_buffers: WriteBufferManager,
    count: AtomicU64,
    stop: AtomicBool,
}

fn failed(error: rust_rocksdb::Error) -> Error {
    Error::new(ErrorKind::Storage, error.to_string())
}

/// One worker: its share of the keys, in a database of its own.
fn work(shared: &Shared, dir: &Path, index: u64) -> Result<()> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&shared.cache);
    table.set_cache_index_and_filter_blocks(true);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_manager(&shared.write_buffers);
    options.set_block_based_table_factory(&table);
    let db = DB::open(&options, dir.join(index.to_string())).map_err(failed)?;
    let mut write = WriteOptions::default();
    // as the jobs: what is lost is computed again
    write.disable_wal(true);
    let workers = u64::from(shared.settings.workers);
    let keys = shared.settings.keys.div_ceil(workers);
    let limit = shared.settings.records.map_or(u64::MAX, |all| (all + workers - 1 - index) / workers);
    let mut seq = 0;
    while seq < limit && !shared.stop.load(Relaxed) {
        let until = limit.min(seq + BATCH);
        for n in seq..until {
            let (key, value) = keyed(n, keys);
            // mixed, as the hash is that the jobs' keys begin with
            let key = crate::records::splitmix64(key).to_be_bytes();
            let sum = db.get_pinned(key).map_err(failed)?;
            let sum = sum.and_then(|bytes| bytes.as_ref().try_into().ok()).map_or(0, u64::from_le_bytes);
            db.put_opt(key, (sum + value).to_le_bytes(), &write).map_err(failed)?;
        }
        shared.count.fetch_add(until - seq, Relaxed);
        seq = until;
    }
    Ok(())
}

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let dir = settings.scratch()?;
    let memory = settings.memory_bytes.unwrap_or(DEFAULT_MEMORY) as usize;
    let cache = Cache::new_lru_cache(memory);
    // half of it for write buffers, within the cache
    let write_buffers =
        WriteBufferManager::new_write_buffer_manager_with_cache(memory / 2, false, cache.clone());
    let (count, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let shared = Shared { settings: settings.clone(), cache, write_buffers, count, stop };
    let count = || shared.count.load(Relaxed);
    let begun = Moment::at(0);
    let span = scope(|scope| {
        let start = |index| {
            let (shared, dir) = (&shared, dir.path());
            scope.spawn(move || work(shared, dir, index))
        };
        let workers: Vec<_> = (0..u64::from(settings.workers)).map(start).collect();
        let measured = match settings.records {
            Some(_) => None,
            None => {
                let ended = || workers.iter().any(|worker| worker.is_finished());
                let warm = steady::wait_until(&ended, &count, warm_up(settings.keys));
                let from = Moment::at(count());
                if warm.is_ok() {
                    sleep(settings.measure);
                }
                let span = Moment::at(count()) - from;
                shared.stop.store(true, Relaxed);
                Some(warm.map(|()| span))
            }
        };
        for worker in workers {
            worker.join().map_err(|_| Error::msg("a worker of ROCKSRAW panicked"))??;
        }
        measured.unwrap_or_else(|| Ok(Moment::at(count()) - begun))
    })?;
    Ok(Measurement::of("ROCKSRAW", settings, span))
}
