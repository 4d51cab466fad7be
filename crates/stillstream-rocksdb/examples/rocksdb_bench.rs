//! Measures the RocksDB backend against plain get and put:
//! `cargo run --release -p stillstream-rocksdb --example rocksdb_bench -- [keys] [updates] [budget in MiB]`.
//!
//! `state[key] += 1` with uniform keys. Processor time is that of the whole process, RocksDB's own threads
//! included.

use std::time::{Duration, Instant};

use rust_rocksdb::{DB, Options, WriteOptions};
use stillstream_rocksdb::{MemoryBudget, RocksDbKeyedStateBackend, RocksDbOptions};
use stillstream_state::{BackendOptions, Key, KeyedBackend, KeyedValues};
use stillstream_types::{CheckpointId, KeyGroups};

const BATCH: usize = 1024;

type Error = Box<dyn std::error::Error>;

#[expect(clippy::disallowed_methods, reason = "a benchmark needs a clock")]
fn now() -> Instant {
    Instant::now()
}

/// User and system time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
}

fn report(name: &str, updates: u64, since: (Instant, Duration)) {
    let (wall, cpu) = (since.0.elapsed().as_secs_f64(), (cpu() - since.1).as_secs_f64());
    let m = updates as f64 / 1e6;
    println!("{name:<42} {:>7.3} M/s  {:>7.3} M per CPU second", m / wall, m / cpu);
}

fn raw(keys: u64, updates: u64) -> Result<(), Error> {
    let folder = tempfile::tempdir()?;
    let mut options = Options::default();
    options.create_if_missing(true);
    let (db, mut write, mut seed) = (DB::open(&options, folder.path())?, WriteOptions::default(), 1);
    write.disable_wal(true);
    let since = (now(), cpu());
    for _ in 0..updates {
        let key = (random(&mut seed) % keys).to_le_bytes();
        let value = db.get(key)?.and_then(|v| v.try_into().ok()).map_or(0, u64::from_le_bytes);
        db.put_opt(key, (value + 1).to_le_bytes(), &write)?;
    }
    report("raw get and put", updates, since);
    Ok(())
}

fn backend(keys: u64, updates: u64, budget: u64, checkpoint_every: u64) -> Result<(), Error> {
    let folder = tempfile::tempdir()?;
    let rocksdb = RocksDbOptions {
        memory: MemoryBudget { total_bytes: Some(budget << 20), ..MemoryBudget::default() },
        ..RocksDbOptions::new(folder.path())
    };
    let groups = KeyGroups::new(128);
    let options = BackendOptions::new(groups, groups.all()).incremental(true);
    let mut backend = RocksDbKeyedStateBackend::<u64>::new(options, rocksdb)?;
    let state = backend.keyed_value::<u64>("count")?;
    let (mut seed, mut done, mut id, mut sync) = (1, 0, 0, Duration::ZERO);
    let (mut batch, mut hashes) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let mut checkpoints = Vec::new();
    let since = (now(), cpu());
    while done < updates {
        batch.clear();
        hashes.clear();
        for _ in 0..BATCH {
            let key = random(&mut seed) % keys;
            hashes.push(key.key_hash(groups));
            batch.push(key);
        }
        state.update_batch(&hashes, &batch, || 0, |_, n| *n += 1)?;
        done += BATCH as u64;
        if checkpoint_every > 0 && done / checkpoint_every > id {
            id += 1;
            let start = now();
            let frozen = backend.freeze_checkpoint(CheckpointId(id))?;
            sync = sync.max(start.elapsed());
            // no storage: what is measured is making the checkpoint
            checkpoints.push(frozen);
        }
    }
    report(&format!("backend, {budget} MiB, {id} checkpoints"), done, since);
    if id > 0 {
        println!("    synchronous part at most {:.3} ms", sync.as_secs_f64() * 1e3);
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let args: Vec<u64> =
        std::env::args_os().skip(1).filter_map(|arg| arg.to_string_lossy().parse().ok()).collect();
    let arg = |at: usize, default| args.get(at).copied().unwrap_or(default);
    let (keys, updates, budget) = (arg(0, 1_000_000), arg(1, 2_000_000), arg(2, 512));
    println!("{keys} keys, {updates} updates");
    raw(keys, updates)?;
    backend(keys, updates, budget, 0)?;
    backend(keys, updates, budget, updates / 4)
}
