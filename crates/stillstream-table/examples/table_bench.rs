//! Measures the state table against a plain hash map:
//! `cargo run --release -p stillstream-table --example table_bench`.
//!
//! `state[key] += 1` with uniform keys, in batches of 1024; both variants alternate in one process, and
//! medians are printed. The hash is the same for both. Making and hashing the keys is not part of the time:
//! records bring their hash along.

use std::time::{Duration, Instant};

use hashbrown::HashTable;
use stillstream_data::Key;
use stillstream_table::{PagePool, Table, TableKey, TableValue};
use stillstream_types::{KeyGroups, KeyHash};

const BATCH: usize = 1024;
const UPDATES: usize = 2_000_000;
const ROUNDS: usize = 5;

#[expect(clippy::disallowed_methods, reason = "a benchmark needs a clock")]
fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
}

/// Records as they come from an exchange: with their keys' hashes.
struct Records<K> {
    hashes: Vec<KeyHash>,
    keys: Vec<K>,
}

/// The map compared with: hashbrown, looked up by the same hash.
struct Plain<K, V>(HashTable<(K, V)>);

fn spread(hash: KeyHash) -> u64 {
    hash.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn compare<K: Key + TableKey, V: TableValue>(
    name: &str,
    keys: u64,
    key: impl Fn(u64) -> K,
    zero: impl Fn() -> V + Copy,
    add: impl Fn(&mut V) + Copy,
) {
    let groups = KeyGroups::new(128);
    let pool = PagePool::new();
    let mut table = Table::<K, V>::in_pool(groups.all(), &pool);
    let mut plain = Plain(HashTable::new());
    let update_table = |table: &mut Table<K, V>, batch: &Records<K>| {
        for (hashes, keys) in batch.hashes.chunks(BATCH).zip(batch.keys.chunks(BATCH)) {
            table.update_batch(hashes, keys, zero, |_, value| add(value));
        }
    };
    let update_plain = |plain: &mut Plain<K, V>, batch: &Records<K>| {
        for (hash, key) in batch.hashes.iter().zip(&batch.keys) {
            let entry = plain.0.entry(spread(*hash), |e| e.0 == *key, |e| spread(e.0.key_hash(groups)));
            add(&mut entry.or_insert_with(|| (key.clone(), zero())).into_mut().1);
        }
    };
    let update_single = |table: &mut Table<K, V>, batch: &Records<K>| {
        for (hash, key) in batch.hashes.iter().zip(&batch.keys) {
            add(table.get_or_insert_with(*hash, key, zero));
        }
    };
    let records = |numbers: &mut dyn Iterator<Item = u64>| {
        let keys: Vec<K> = numbers.map(&key).collect();
        Records { hashes: keys.iter().map(|key| key.key_hash(groups)).collect(), keys }
    };
    for first in (0..keys).step_by(BATCH) {
        let batch = records(&mut (first..keys.min(first + BATCH as u64)));
        update_table(&mut table, &batch);
        update_plain(&mut plain, &batch);
    }
    let mut seed = 1;
    let (mut table_ns, mut plain_ns, mut single_ns) = (Vec::new(), Vec::new(), Vec::new());
    let mut uniform = |n: usize| records(&mut (0..n).map(|_| random(&mut seed) % keys));
    for _ in 0..ROUNDS {
        let batch = uniform(UPDATES);
        let ns = |time: Duration| time.as_nanos() as f64 / UPDATES as f64;
        table_ns.push(ns(timed(|| update_table(&mut table, &batch)).0));
        plain_ns.push(ns(timed(|| update_plain(&mut plain, &batch)).0));
        single_ns.push(ns(timed(|| update_single(&mut table, &batch)).0));
    }
    let (table_ns, plain_ns, single_ns) = (median(table_ns), median(plain_ns), median(single_ns));
    println!(
        "{name:14} {keys:>9} keys: table {table_ns:6.1} ns, hashbrown loop {plain_ns:6.1} ns ({:.2}x), table without batch \
         {single_ns:6.1} ns, {:.1} bytes/key",
        plain_ns / table_ns,
        table.memory_bytes() as f64 / keys as f64,
    );
    // snapshots, with updates going on while one is held
    let (mut freezes, mut slow, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    let mut save = Vec::new();
    for _ in 0..ROUNDS {
        let batch = uniform(UPDATES / 10);
        let (time, frozen) = timed(|| table.freeze());
        freezes.push(time.as_secs_f64() * 1e3);
        let before = pool.pages_in_use();
        let (time, ()) = timed(|| update_table(&mut table, &batch));
        slow.push(time.as_nanos() as f64 / (UPDATES / 10) as f64);
        copies.push((pool.pages_in_use() - before) as f64);
        let mut entries = 0u64;
        let (time, ()) =
            timed(|| frozen.into_group_order(|_, key, _| entries += (key.clone() == *key) as u64));
        assert_eq!(entries, table.len() as u64);
        save.push(time.as_secs_f64() * 1e3);
    }
    println!(
        "{:24} freeze {:.3} ms; next {} updates {:.1} ns each, {} pages copied; read {:.1} ms",
        "",
        median(freezes),
        UPDATES / 10,
        median(slow),
        median(copies),
        median(save),
    );
}

fn main() {
    let quick = cfg!(debug_assertions);
    for keys in [1_000, 100_000, 1_000_000, 1_500_000, 10_000_000] {
        if quick && keys > 100_000 {
            break;
        }
        compare::<u64, u64>("u64 -> u64", keys, |n| n, || 0, |v| *v += 1);
    }
    if quick {
        return;
    }
    for keys in [1_000, 1_000_000] {
        compare::<u64, [u64; 5]>("u64 -> 40 bytes", keys, |n| n, || [0; 5], |v| v[0] += 1);
        compare::<String, u64>("String -> u64", keys, |n| format!("user-{n}"), || 0, |v| *v += 1);
        compare::<u64, Vec<u8>>(
            "u64 -> Vec<u8>",
            keys,
            |n| n,
            || vec![0; 16],
            |v| v[0] = v[0].wrapping_add(1),
        );
    }
}
