//! Dealing out: each record goes to the owner of its key's group, once, with its hash and time, in the order
//! in which it came.

use std::sync::Arc;

use stillstream_state::{Data, Key};
use stillstream_types::{KeyGroups, KeyHash};

use super::hashing::Hasher;
use super::{KeySelector, OwnedKey, by_key};
use crate::operator::batch::{AnyBatch, Batch};

/// What a subtask gets: records with time and hash; lengths of batches.
type Got<T> = (Vec<(T, Option<i64>, KeyHash)>, Vec<usize>);

/// Deals out batches of different lengths and gives back what each subtask gets.
fn dealt<T: Data, K: Key>(
    parallelism: u32,
    groups: KeyGroups,
    records: &[T],
    timed: impl Fn(usize) -> bool,
    key: impl Fn(&T) -> K + Send + Sync + 'static,
) -> Vec<Got<T>> {
    let mut splitter = by_key::<T, _>(Arc::new(OwnedKey(key)), groups, parallelism);
    let mut parts = vec![(Vec::new(), Vec::new()); parallelism as usize];
    let mut send = |target: usize, batch: AnyBatch| {
        let batch = batch.take::<T>().unwrap();
        assert!((!batch.is_empty() || parallelism == 1) && batch.hashes.len() == batch.len());
        assert!(batch.times.is_empty() || batch.times.len() == batch.len());
        let part: &mut Got<T> = &mut parts[target];
        part.1.push(batch.len());
        for (i, (value, hash)) in batch.values.iter().zip(&batch.hashes).enumerate() {
            part.0.push((value.clone(), batch.time(i), *hash));
        }
    };
    let (mut at, mut number) = (0, 0);
    while at < records.len() {
        // 1, 0, 33, 64, 1000, ... records
        let len = [1, 0, 33, 64, 1000, 7, 2100][number % 7].min(records.len() - at);
        let values = records[at..at + len].to_vec();
        let times = if timed(number) { (at..at + len).map(|n| n as i64).collect() } else { Vec::new() };
        splitter.split(Batch::timed(values, times).into(), &mut send).unwrap();
        (at, number) = (at + len, number + 1);
    }
    splitter.flush(&mut send);
    parts
}

fn check<T: Data + PartialEq + std::fmt::Debug, K: Key>(
    records: Vec<T>,
    key: impl Fn(&T) -> K + Clone + Send + Sync + 'static,
) {
    for (parallelism, max) in [(1, 128), (2, 128), (2, 100), (2, 2), (3, 128), (7, 1000)] {
        let groups = KeyGroups::new(max);
        for how in 0..3 {
            let timed = move |number: usize| [false, true, number % 3 == 1][how];
            let parts = dealt(parallelism, groups, &records, timed, key.clone());
            let mut all = 0;
            for (subtask, (got, lengths)) in parts.into_iter().enumerate() {
                let own = |record: &&T| groups.owner(key(record).key_hash(groups).group(), parallelism);
                let expected: Vec<&T> =
                    records.iter().filter(|record| own(record) == subtask as u32).collect();
                assert!(got.iter().map(|(record, ..)| record).eq(expected), "{parallelism} {max} {how}");
                for (record, time, hash) in &got {
                    assert_eq!(*hash, key(record).key_hash(groups));
                    // with times, records of equal value tell themselves apart by when they came
                    assert!(how != 1 || time.is_some_and(|time| records[time as usize] == *record));
                    assert!(how != 0 || time.is_none());
                }
                // parts are sent when they are full, and not one by one
                assert!(how == 2 || parallelism == 1 || lengths.iter().rev().skip(1).all(|len| *len >= 1024));
                all += got.len();
            }
            assert_eq!(all, records.len());
        }
    }
}

#[test]
fn every_record_reaches_the_owner_of_its_key_once_and_in_order() {
    check((0..20_000u64).map(|n| (n * n % 1009, n)).collect(), |record| record.0);
    check((0..9_000u32).collect(), |record| *record);
    // too large for two places at once
    check((0..6_000u64).map(|n| (n, [n; 7])).collect(), |record| record.0);
    check((0..6_000u64).map(|n| format!("user-{}", n % 700)).collect(), |record| record.clone());
    check((0..6_000i32).map(|n| (n, n as i64 * 3)).collect(), |record: &(i32, i64)| *record);
    // all to one part
    check(vec![(7u64, 1u64); 9_000], |record| record.0);
    check(vec![(); 3_000], |_| 5u16);
}

#[test]
fn hashes_by_vectors_are_those_of_each_key() {
    fn check<T: Data, S: KeySelector<T>>(selector: S, records: &[T]) {
        let selector = Arc::new(selector);
        for max in [1, 2, 100, 128, 1000, 32768] {
            let hasher = Hasher { selector: selector.clone(), groups: KeyGroups::new(max) };
            for len in [0, 1, 7, 8, 9, 100, records.len()] {
                let (records, mut hashes) = (&records[..len], vec![KeyHash(1); 3]);
                hasher.hash_all(records, &mut hashes);
                let each = records.iter().map(|r| selector.with_key(r, |key| key.key_hash(hasher.groups)));
                assert!(hashes.iter().copied().eq(each), "{max} {len}");
            }
        }
    }
    let mixed = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n;
    let numbers: Vec<u64> = (0..1001).map(mixed).chain([0, u64::MAX]).collect();
    check(OwnedKey(|n: &u64| *n), &numbers);
    check(OwnedKey(|n: &u64| *n as i32), &numbers);
    check(OwnedKey(|n: &u64| *n as u16), &numbers);
    check(OwnedKey(|n: &u64| (*n as u32, *n)), &numbers);
    check(OwnedKey(|n: &u64| format!("{n:x}")), &numbers);
}
