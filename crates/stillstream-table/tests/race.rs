//! The protocol of pins between a table and a reader of its images, on two threads without a pause.
//!
//! The hand-over uses atomics of its own and not a channel of the standard library, whose code
//! ThreadSanitizer does not see: so this test can run under it (`-Zsanitizer=thread`) and what it reports is
//! ours.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use stillstream_data::Key;
use stillstream_table::{FrozenTable, PagePool, Table, TableValue};
use stillstream_types::KeyGroups;

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
}

fn run<V: TableValue>(value: impl Fn(u64) -> V, number: impl Fn(&V) -> u64 + Copy + Sync) {
    let groups = KeyGroups::new(128);
    let image: AtomicPtr<FrozenTable<u64, V>> = AtomicPtr::new(ptr::null_mut());
    let (end, sum, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let pool = PagePool::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0u64;
            loop {
                let frozen = image.swap(ptr::null_mut(), Ordering::AcqRel);
                if frozen.is_null() {
                    if end.load(Ordering::Acquire) {
                        break;
                    }
                    std::hint::spin_loop();
                    continue;
                }
                // SAFETY: made by `Box::into_raw` below, and taken out of the pointer once
                let frozen = unsafe { Box::from_raw(frozen) };
                let mut found = 0u64;
                let mut add =
                    |key: &u64, value: &V| found = found.wrapping_add(key.wrapping_mul(31) ^ number(value));
                match round.is_multiple_of(2) {
                    true => frozen.into_group_order(|_, key, value| add(key, value)),
                    false => frozen.for_each_in_group_order(|_, key, value| add(key, value)),
                }
                sum.store(found, Ordering::Relaxed);
                round += 1;
                done.store(round, Ordering::Release);
            }
        });
        let mut table = Table::<u64, V>::in_pool(groups.all(), &pool);
        let mut seed = 0;
        let mut step = |table: &mut Table<u64, V>, deletes: bool| {
            let key = random(&mut seed) % 5000;
            match deletes {
                true => drop(table.remove(key.key_hash(groups), &key)),
                false => {
                    let place = table.get_or_insert_with(key.key_hash(groups), &key, || value(0));
                    *place = value(number(place).wrapping_add(key));
                }
            }
        };
        for round in 0..200u64 {
            (0..200).for_each(|_| step(&mut table, round % 3 == 2));
            let mut expected = 0u64;
            table.for_each(|key, value| {
                expected = expected.wrapping_add(key.wrapping_mul(31) ^ number(value))
            });
            image.store(Box::into_raw(Box::new(table.freeze())), Ordering::Release);
            let mut n = 0u64;
            while done.load(Ordering::Acquire) <= round {
                step(&mut table, n.is_multiple_of(4));
                n += 1;
            }
            assert_eq!(sum.load(Ordering::Relaxed), expected, "round {round}");
        }
        end.store(true, Ordering::Release);
    });
    assert_eq!(pool.pages_in_use(), 0);
}

#[test]
fn an_image_is_read_unchanged_while_its_table_is_written() {
    run::<u64>(|n| n, |n| *n);
}

#[test]
fn an_image_of_shared_values_is_read_unchanged_while_its_table_is_written() {
    run::<String>(|n| n.to_string(), |n| n.parse().unwrap());
}
