//! What a table costs when it is small, and what is left of it when the caller's code panics.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicIsize, Ordering};

use stillstream_data::Key;
use stillstream_table::{KeysBy, KeysIn, PagePool, Table};
use stillstream_types::{KeyGroup, KeyGroupRange, KeyGroups, KeyHash};

fn groups() -> KeyGroups {
    KeyGroups::new(128)
}

fn hash(key: u64) -> KeyHash {
    key.key_hash(groups())
}

#[test]
fn an_empty_table_takes_less_than_200_bytes_and_no_page() {
    let pool = PagePool::new();
    let mut tables: Vec<Table<u64, u64>> = (0..1000).map(|_| Table::in_pool(groups().all(), &pool)).collect();
    assert!(tables[0].memory_bytes() < 200, "{}", tables[0].memory_bytes());
    for table in &mut tables {
        assert_eq!(table.get(hash(1), &1), None);
        assert_eq!(table.get_mut(hash(1), &1), None);
        assert_eq!(table.remove(hash(1), &1), None);
        assert!(table.freeze().is_empty());
        table.retain(|_, _| false);
        table.drain(|_, _| panic!("there is nothing"));
    }
    assert_eq!((pool.pages_in_use(), pool.memory_bytes()), (0, 0));
}

#[test]
fn a_table_with_a_few_keys_takes_one_page_which_the_next_table_gets() {
    let pool = PagePool::new();
    for window in 0..10_000u64 {
        let mut table = Table::<u64, u64>::in_pool(groups().all(), &pool);
        for key in 0..20 {
            table.insert(hash(key), &key, window);
        }
        assert_eq!(pool.pages_in_use(), 1);
        assert!(table.memory_bytes() < 4500);
    }
    assert_eq!(pool.pages_in_use(), 0);
    assert_eq!(pool.memory_bytes(), 2 << 20, "one chunk for all of them");
}

#[test]
fn a_table_gives_its_pages_back_as_it_shrinks() {
    let pool = PagePool::new();
    let mut table = Table::<u64, u64>::in_pool(groups().all(), &pool);
    let keys: Vec<u64> = (0..100_000).collect();
    let hashes: Vec<KeyHash> = keys.iter().map(|key| hash(*key)).collect();
    table.update_batch(&hashes, &keys, || 1, |_, _| {});
    let full = pool.pages_in_use();
    assert!(full * 4096 < 100_000 * 50, "{full} pages");
    (1000..100_000).for_each(|key| assert_eq!(table.remove(hash(key), &key), Some(1)));
    let left = pool.pages_in_use();
    assert!(left * 16 < full, "{full} pages, then {left}");
    assert_eq!(table.len(), 1000);
    (0..1000).for_each(|key| assert_eq!(table.get(hash(key), &key), Some(&1)));
    (0..1000).for_each(|key| assert_eq!(table.remove(hash(key), &key), Some(1)));
    assert!(pool.pages_in_use() <= 1);
    assert!(table.memory_bytes() < 5000, "the directory goes too");
}

#[test]
fn a_write_after_a_freeze_copies_its_page_once() {
    let pool = PagePool::new();
    let mut table = Table::<u64, u64>::in_pool(groups().all(), &pool);
    let keys: Vec<u64> = (0..10_000).collect();
    let hashes: Vec<KeyHash> = keys.iter().map(|key| hash(*key)).collect();
    table.update_batch(&hashes, &keys, || 0, |_, _| {});
    let pages = pool.pages_in_use();
    let frozen = table.freeze();
    assert_eq!(pool.pages_in_use(), pages, "a freeze copies nothing");
    assert_eq!(frozen.pages(), pages);
    *table.get_mut(hash(7), &7).unwrap() += 1;
    *table.get_mut(hash(7), &7).unwrap() += 1;
    assert_eq!(pool.pages_in_use(), pages + 1);
    table.get_mut(hash(10_000_000), &10_000_000);
    assert_eq!(pool.pages_in_use(), pages + 1, "a look-up that finds nothing copies nothing");
    table.update_batch(&hashes, &keys, || 0, |_, value| *value += 1);
    assert_eq!(pool.pages_in_use(), 2 * pages);
    let epoch = frozen.epoch();
    drop(frozen);
    assert_eq!(pool.pages_in_use(), pages, "the image's pages go with it");
    drop(table.freeze());
    *table.get_mut(hash(7), &7).unwrap() += 1;
    assert_eq!(pool.pages_in_use(), pages, "no image, no copy");
    assert_eq!(table.freeze_since(epoch).len(), 10_000);
    let epoch = table.freeze().epoch();
    *table.get_mut(hash(7), &7).unwrap() += 1;
    drop(table.freeze_since(epoch));
    assert_eq!(table.freeze_since(epoch).pages(), 1, "an abandoned image of changes changes nothing");
}

#[test]
fn keys_may_be_lent_from_records_or_computed() {
    let records = [("a", 3u64), ("b", 4), ("a", 5)].map(|(key, n)| (key.to_string(), n));
    let hashes: Vec<KeyHash> = records.iter().map(|r| r.0.key_hash(groups())).collect();
    let mut sums = Table::<String, u64>::new(groups().all());
    sums.update_batch(&hashes, &KeysIn(|i: usize| &records[i].0), || 0, |i, sum| *sum += records[i].1);
    sums.update_batch(&hashes, &KeysBy(|i: usize| records[i].0.clone()), || 0, |i, sum| *sum += records[i].1);
    assert_eq!(sums.get(hashes[0], &"a".to_string()), Some(&16));
    assert_eq!(sums.get(hashes[1], &"b".to_string()), Some(&8));
}

thread_local!(static CLONES_UNTIL_PANIC: Cell<isize> = const { Cell::new(isize::MAX) });
static ALIVE: AtomicIsize = AtomicIsize::new(0);

/// Panics at a chosen clone, and is counted.
#[derive(PartialEq, Eq, Debug, Hash)]
struct Fragile(u64);

impl Fragile {
    fn new(n: u64) -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Self(n)
    }
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        let left = CLONES_UNTIL_PANIC.get() - 1;
        CLONES_UNTIL_PANIC.set(left);
        assert!(left != 0, "a clone that panics");
        Self::new(self.0)
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn a_panic_in_a_clone_leaves_table_and_image_whole_and_leaks_nothing() {
    let pool = PagePool::new();
    for until in 1..150 {
        let mut table = Table::<Fragile, Fragile>::in_pool(KeyGroupRange::new(0, 4), &pool);
        // every third hash is shared by many keys, so that the spill has some
        let hash = |n: u64| {
            KeyHash::new(KeyGroup((n % 4) as u16), if n.is_multiple_of(3) { 5 } else { hash(n).bits() })
        };
        for n in 0..500 {
            table.insert(hash(n), &Fragile::new(n), Fragile::new(n));
        }
        let frozen = table.freeze();
        CLONES_UNTIL_PANIC.set(until);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for n in (0..500).rev() {
                if let Some(value) = table.get_mut(hash(n), &Fragile::new(n)) {
                    value.0 += 1000;
                }
                table.get_or_insert_with(hash(n + 1000), &Fragile::new(n + 1000), || Fragile::new(n + 1000));
                table.remove(hash(n / 2), &Fragile::new(n / 2));
            }
        }));
        CLONES_UNTIL_PANIC.set(isize::MAX);
        assert!(outcome.is_err());
        let mut entries = 0;
        frozen.for_each_in_group_order(|_, key, value| {
            assert_eq!(key.0, value.0);
            entries += 1;
        });
        assert_eq!(entries, 500);
        let mut live = 0;
        table.for_each(|key, value| {
            assert!(value.0 == key.0 || value.0 == key.0 + 1000);
            live += 1;
        });
        assert_eq!(live, table.len());
        table.retain(|key, _| key.0 % 2 == 0);
        drop(frozen);
        let mut drained = 0;
        let left = table.len();
        table.drain(|_, _| drained += 1);
        assert_eq!(drained, left);
    }
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    assert_eq!(pool.pages_in_use(), 0);
}

#[test]
fn a_panic_in_a_closure_keeps_what_was_done_before() {
    let pool = PagePool::new();
    let mut table = Table::<u64, String>::in_pool(groups().all(), &pool);
    let keys: Vec<u64> = (0..100).collect();
    let hashes: Vec<KeyHash> = keys.iter().map(|key| hash(*key)).collect();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        table.update_batch(&hashes, &keys, String::new, |i, value| {
            assert!(i < 50, "an update that panics");
            value.push('x');
        });
    }));
    assert!(outcome.is_err());
    assert_eq!(table.len(), 51, "the entry was made before its update");
    assert_eq!(table.get(hashes[49], &49).unwrap(), "x");
    assert_eq!(table.get(hashes[50], &50).unwrap(), "");
    let made = catch_unwind(AssertUnwindSafe(|| {
        table.get_or_insert_with(hashes[99], &99, || panic!("no value"));
    }));
    assert!(made.is_err());
    assert_eq!((table.len(), table.get(hashes[99], &99)), (51, None));
    let mut seen = 0;
    let drained = catch_unwind(AssertUnwindSafe(|| {
        table.drain(|_, _| {
            seen += 1;
            assert!(seen < 10, "a receiver that panics");
        });
    }));
    assert!(drained.is_err());
    assert!(table.is_empty());
    drop(table);
    assert_eq!(pool.pages_in_use(), 0);
}
