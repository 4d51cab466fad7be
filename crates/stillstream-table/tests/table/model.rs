//! The table against a plain map: random operations, with overlapping, abandoned and incremental snapshots
//! that another thread reads while the table is written.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::mpsc;

use stillstream_table::{Change, FrozenTable, PagePool, Table, TableKey, TableValue};
use stillstream_types::{KeyGroup, KeyGroupRange, KeyHash};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % n
    }
}

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// How good the hash of a run is.
#[derive(Clone, Copy, Debug)]
enum Hashing {
    Fair,
    /// All keys in one key group.
    OneGroup,
    /// All 48 bits equal for many keys, in few groups.
    Degenerate,
    /// Equal leading bits, which a directory could follow only by growing out of proportion.
    EqualStart,
}

impl Hashing {
    fn of(self, number: u64, range: KeyGroupRange) -> KeyHash {
        let group = |n: u64| KeyGroup(range.start + (n % range.len() as u64) as u16);
        let mixed = mix(number);
        match self {
            Self::Fair => KeyHash::new(group(mixed >> 48), mixed),
            Self::OneGroup => KeyHash::new(group(5), mixed),
            Self::Degenerate => KeyHash::new(group(mixed % 3), mixed % 4),
            Self::EqualStart => KeyHash::new(group(mixed % 2), mixed & 0xfff_ffff),
        }
    }
}

/// A type that random numbers turn into.
trait Sample {
    fn of(number: u64) -> Self;
}
impl Sample for u64 {
    fn of(number: u64) -> Self {
        number // zero is a key like others
    }
}
impl Sample for u32 {
    fn of(number: u64) -> Self {
        number as u32
    }
}
impl Sample for () {
    fn of(_: u64) {}
}
impl Sample for [u8; 40] {
    fn of(number: u64) -> Self {
        std::array::from_fn(|i| (number >> (i % 8 * 8)) as u8)
    }
}
impl Sample for [u64; 200] {
    fn of(number: u64) -> Self {
        [number; 200]
    }
}
impl Sample for (u8, u64) {
    fn of(number: u64) -> Self {
        (number as u8, number)
    }
}
impl Sample for String {
    fn of(number: u64) -> Self {
        format!("key {number} {}", "x".repeat(number as usize % 30))
    }
}
impl Sample for Vec<u8> {
    fn of(number: u64) -> Self {
        number.to_le_bytes()[..number as usize % 9].to_vec()
    }
}
impl Sample for Option<String> {
    fn of(number: u64) -> Self {
        (!number.is_multiple_of(3)).then(|| Sample::of(number))
    }
}
impl Sample for (u64, String) {
    fn of(number: u64) -> Self {
        (number, Sample::of(number))
    }
}

/// A value that knows how many of its kind are alive.
#[derive(PartialEq, Debug)]
struct Counted(u64);
static ALIVE: AtomicIsize = AtomicIsize::new(0);
impl Sample for Counted {
    fn of(number: u64) -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self(number)
    }
}
impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::of(self.0)
    }
}
impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Snapshot<K, V> {
    frozen: FrozenTable<K, V>,
    expected: HashMap<K, V>,
    stored: bool,
}

fn read<K: TableKey + Hash + Debug, V: TableValue + PartialEq + Debug>(
    frozen: &FrozenTable<K, V>,
    group_of: impl Fn(&K) -> KeyGroup,
) -> HashMap<K, V> {
    let mut found = HashMap::new();
    let mut last = 0;
    frozen.for_each_in_group_order(|group, key, value| {
        assert!(group.0 >= last, "key groups out of order");
        assert!(frozen.range().contains(group));
        assert_eq!(group, group_of(key));
        last = group.0;
        assert!(found.insert(key.clone(), value.clone()).is_none(), "{key:?} twice");
    });
    assert_eq!(found.len(), frozen.len());
    found
}

/// Reads snapshots as they come; keeps the stored ones' chain of changes.
fn reader<K: TableKey + Hash + Debug, V: TableValue + PartialEq + Debug>(
    snapshots: mpsc::Receiver<Snapshot<K, V>>,
    mut random: Random,
    hash_of: impl Fn(&K) -> KeyHash + Copy,
) {
    let group_of = |key: &K| hash_of(key).group();
    let mut chain: HashMap<K, V> = HashMap::new();
    let mut held: Vec<Snapshot<K, V>> = Vec::new();
    for snapshot in snapshots {
        let Snapshot { frozen, expected, stored } = snapshot;
        if stored {
            let mut ranges = 0;
            if frozen.since().is_none() {
                chain.clear();
            }
            frozen.for_each_change(|change| match change {
                Change::Range(span) => {
                    ranges += 1;
                    chain.retain(|key, _| !span.contains(hash_of(key)));
                }
                Change::Entry(_, key, value) => {
                    assert!(chain.insert(key.clone(), value.clone()).is_none(), "{key:?} outside its range");
                }
            });
            assert!(ranges > 0 || frozen.is_empty());
            assert_eq!(chain, expected, "the chain of changes");
        }
        if frozen.since().is_some() {
            continue;
        }
        match random.below(4) {
            0 => held.push(Snapshot { frozen, expected, stored }),
            1 => drop(frozen), // abandoned
            2 => {
                let whole = frozen.range();
                let parts = frozen.parts(1 + random.below(6) as usize);
                assert_eq!(
                    (parts[0].range().start, parts[parts.len() - 1].range().end),
                    (whole.start, whole.end)
                );
                assert!(parts.windows(2).all(|two| two[0].range().end == two[1].range().start));
                let mut found = HashMap::new();
                parts.iter().for_each(|part| found.extend(read(part, group_of)));
                assert_eq!(found, expected, "parts");
            }
            _ => {
                let mut found = HashMap::new();
                frozen.into_group_order(|_, key, value| {
                    assert!(found.insert(key.clone(), value.clone()).is_none());
                });
                assert_eq!(found, expected, "read and released");
            }
        }
        if random.below(3) == 0 && !held.is_empty() {
            let late = held.swap_remove(random.below(held.len() as u64) as usize);
            assert_eq!(read(&late.frozen, group_of), late.expected, "held for long");
        }
    }
    // after the table is gone
    for late in held {
        assert_eq!(read(&late.frozen, group_of), late.expected, "after the end of the table");
    }
}

fn run<K, V>(seed: u64, hashing: Hashing, steps: u64)
where
    K: Sample + TableKey + Hash + Debug,
    V: Sample + TableValue + PartialEq + Debug,
{
    let mut random = Random(seed << 32);
    let space = [1, 50, 3000, 20000][(seed % 4) as usize];
    let range = [(0, 128), (17, 60), (3, 4), (0, 32768), (100, 133)][(seed % 5) as usize];
    let range = KeyGroupRange::new(range.0, range.1);
    // by number, since several numbers may make one key
    let hashes: HashMap<K, KeyHash> = (0..space).rev().map(|n| (K::of(n), hashing.of(n, range))).collect();
    let hash_of = |key: &K| hashes[key];
    let pool = PagePool::new();
    let mut table = Table::<K, V>::in_pool(range, &pool);
    let mut model: HashMap<K, V> = HashMap::new();
    let mut base = None;
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel(3);
        scope.spawn(move || reader(receive, Random(seed), hash_of));
        let mut phase = 0;
        for step in 0..steps {
            if step % 3000 == 0 {
                phase = random.below(4);
            }
            let deletes = [5, 30, 45, 75][phase as usize];
            let key = K::of(random.below(space));
            let hash = hash_of(&key);
            let value = V::of(random.below(1000));
            match random.below(100) {
                n if n < deletes => assert_eq!(table.remove(hash, &key), model.remove(&key)),
                n if n < 80 => {
                    let expected = model.insert(key.clone(), value.clone());
                    assert_eq!(table.insert(hash, &key, value), expected);
                }
                n if n < 90 => {
                    let in_model = model.entry(key.clone()).or_insert_with(|| value.clone());
                    let in_table = table.get_or_insert_with(hash, &key, || value.clone());
                    assert_eq!(in_table, in_model);
                    (*in_table, *in_model) = (value.clone(), value);
                }
                n if n < 95 => {
                    let in_table = table.get_mut(hash, &key);
                    let in_model = model.get_mut(&key);
                    assert_eq!(in_table, in_model);
                    if let (Some(t), Some(m)) = (in_table, in_model) {
                        (*t, *m) = (value.clone(), value);
                    }
                }
                _ => assert_eq!(table.get(hash, &key), model.get(&key)),
            }
            assert_eq!(table.len(), model.len());
            match random.below(6000) {
                0 => {
                    table.retain(|key, _| hash_of(key).0 & 3 != 0);
                    model.retain(|key, _| hash_of(key).0 & 3 != 0);
                }
                1 if random.below(3) == 0 => {
                    let mut found = HashMap::new();
                    table.drain(|key, value| assert!(found.insert(key, value).is_none()));
                    assert_eq!(found, std::mem::take(&mut model));
                }
                2 if random.below(4) == 0 => {
                    table.clear();
                    model.clear();
                }
                3..=5 => {
                    let batch: Vec<K> = (0..random.below(300)).map(|_| K::of(random.below(space))).collect();
                    let hashes: Vec<KeyHash> = batch.iter().map(hash_of).collect();
                    table.update_batch(&hashes, &batch, || V::of(1), |i, value| *value = V::of(i as u64));
                    for (i, key) in batch.into_iter().enumerate() {
                        model.insert(key, V::of(i as u64));
                    }
                }
                _ => {}
            }
            if random.below(if space < 100 { 200 } else { 1500 }) == 0 {
                let frozen = match base {
                    Some(base) if random.below(2) == 0 => table.freeze_since(base),
                    _ => table.freeze(),
                };
                let stored = random.below(3) != 0;
                if stored {
                    base = Some(frozen.epoch());
                }
                if send.send(Snapshot { frozen, expected: model.clone(), stored }).is_err() {
                    break; // the reader's panic is reported at the end of the scope
                }
            }
        }
        let mut found = HashMap::new();
        table.for_each(|key, value| assert!(found.insert(key.clone(), value.clone()).is_none()));
        assert_eq!(found, model);
        drop(table);
    });
    assert_eq!(pool.pages_in_use(), 0, "pages leaked");
}

fn all<K, V>()
where
    K: Sample + TableKey + Hash + Debug,
    V: Sample + TableValue + PartialEq + Debug,
{
    for seed in 0..20 {
        run::<K, V>(seed, Hashing::Fair, 12_000);
    }
    for seed in 20..25 {
        run::<K, V>(seed, Hashing::OneGroup, 6_000);
        run::<K, V>(seed, Hashing::EqualStart, 6_000);
    }
    for seed in 24..27 {
        run::<K, V>(seed, Hashing::Degenerate, 3_000);
    }
}

#[test]
fn integers_behave_like_a_map() {
    all::<u64, u64>();
}

#[test]
fn wide_values_behave_like_a_map() {
    all::<u32, [u8; 40]>();
}

#[test]
fn very_wide_values_and_keys_behave_like_a_map() {
    for seed in 0..8 {
        run::<u32, [u64; 200]>(seed, Hashing::Fair, 3_000);
        run::<[u64; 200], u32>(seed, Hashing::Fair, 3_000);
        run::<[u64; 200], Vec<u8>>(seed, Hashing::Fair, 3_000);
    }
}

#[test]
fn padded_keys_and_values_behave_like_a_map() {
    all::<(u8, u64), (u8, u64)>();
}

#[test]
fn string_keys_behave_like_a_map() {
    all::<String, u64>();
}

#[test]
fn values_that_own_memory_behave_like_a_map() {
    all::<String, Vec<u8>>();
}

#[test]
fn nested_owners_behave_like_a_map() {
    all::<(u64, String), Option<String>>();
}

#[test]
fn values_without_size_behave_like_a_set() {
    all::<u64, ()>();
    all::<String, ()>();
    run::<(), ()>(0, Hashing::Fair, 1_000);
}

#[test]
fn every_value_is_dropped_once() {
    all::<u64, Counted>();
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}
