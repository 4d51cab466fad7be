//! Images of a table that shrinks: pages merge and ranges become empty while images hold them.

use std::collections::BTreeMap;

use stillstream_data::Key;
use stillstream_table::{Change, FrozenTable, PagePool, Table};
use stillstream_types::{KeyGroups, KeyHash};

const KEYS: u64 = 30_000;

fn hash(key: u64) -> KeyHash {
    key.key_hash(KeyGroups::new(128))
}

type Model = BTreeMap<u64, String>;

fn read(frozen: &FrozenTable<u64, String>) -> Model {
    let mut found = Model::new();
    frozen.for_each_in_group_order(|group, key, value| {
        assert_eq!(group, hash(*key).group());
        assert!(found.insert(*key, value.clone()).is_none(), "{key} twice");
    });
    found
}

fn apply(image: &mut Model, frozen: &FrozenTable<u64, String>) {
    frozen.for_each_change(|change| match change {
        Change::Range(span) => image.retain(|key, _| !span.contains(hash(*key))),
        Change::Entry(_, key, value) => {
            assert!(image.insert(*key, value.clone()).is_none(), "{key} lies outside its range");
        }
    });
}

/// Grows and shrinks; each round removes the keys for which `doomed(round, key)`.
fn run(doomed: impl Fn(u64, u64) -> bool) {
    let pool = PagePool::new();
    let mut table = Table::in_pool(KeyGroups::new(128).all(), &pool);
    let mut model = Model::new();
    let (mut image, mut base) = (Model::new(), None);
    let mut held = Vec::new();
    for round in 0..8u64 {
        if round.is_multiple_of(4) {
            for key in 0..KEYS {
                table.insert(hash(key), &key, format!("{round}"));
                model.insert(key, format!("{round}"));
            }
        }
        held.push((table.freeze(), model.clone()));
        for key in (0..KEYS).filter(|key| doomed(round, *key)) {
            assert_eq!(table.remove(hash(key), &key), model.remove(&key));
            if key.is_multiple_of(5000) {
                held.push((table.freeze(), model.clone()));
            }
        }
        let frozen = match base {
            Some(base) => table.freeze_since(base),
            None => table.freeze(),
        };
        if frozen.since().is_none() {
            image.clear();
        }
        apply(&mut image, &frozen);
        assert!(image == model, "the chain of changes in round {round}");
        base = Some(frozen.epoch());
        for (key, value) in &model {
            assert_eq!(table.get(hash(*key), key), Some(value));
        }
        assert_eq!(table.len(), model.len());
    }
    for (n, (frozen, expected)) in held.into_iter().enumerate() {
        assert!(read(&frozen) == expected, "image {n}");
    }
    drop(table);
    assert_eq!(pool.pages_in_use(), 0);
}

#[test]
fn pages_that_merge_leave_images_and_changes_whole() {
    run(|round, key| !(key / 7 + round).is_multiple_of(8));
}

#[test]
fn key_groups_that_become_empty_are_told_as_changes() {
    run(|round, key| u64::from(hash(key).group().0) % 16 >= 12 - 3 * (round % 4));
}

#[test]
fn halves_of_the_hashes_that_become_empty_are_told_as_changes() {
    run(|round, key| hash(key).bits() >> (47 - round % 3) & 1 == 1);
}

#[test]
fn a_table_that_was_cleared_or_drained_tells_that_all_is_gone() {
    let mut table = Table::new(KeyGroups::new(128).all());
    let mut image = Model::new();
    for round in 0..4 {
        (0..KEYS).for_each(|key| drop(table.insert(hash(key), &key, String::new())));
        let base = table.freeze();
        apply(&mut image, &base);
        assert_eq!(image.len(), KEYS as usize);
        match round {
            0 => table.clear(),
            1 => table.drain(|_, _| {}),
            2 => table.retain(|_, _| false),
            _ => (0..KEYS).for_each(|key| drop(table.remove(hash(key), &key))),
        }
        assert_eq!(read(&base).len(), KEYS as usize);
        table.insert(hash(1), &1, "new".into());
        apply(&mut image, &table.freeze_since(base.epoch()));
        assert_eq!(image, Model::from([(1, "new".to_string())]), "round {round}");
    }
}
