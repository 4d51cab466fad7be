//! The kinds, without snapshots.

use super::{at, groups, must, refused, whole};
use crate::table::KeysIn;
use crate::{Aggregate, BackendFactory, Key, KeyedBackend, KeyedValues, StateError};

/// Value state.
pub fn values_are_kept_by_key(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<String>(factory);
        let state = backend.value::<u64>("n")?;
        let keys: Vec<String> = (0..1000).map(|n| format!("user-{n}")).collect();
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(state.get(&at(key))?, None);
            state.set(&at(key), n as u64)?;
        }
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(state.get(&at(key))?, Some(n as u64));
            assert_eq!(state.update(&at(key), || 0, |n| std::mem::replace(n, 7))?, n as u64);
            assert_eq!(state.with(&at(key), |n| n.copied())?, Some(7));
        }
        state.clear(&at(&keys[3]))?;
        assert_eq!(state.get(&at(&keys[3]))?, None);
        assert_eq!(state.update(&at(&keys[3]), || 40, |n| *n + 2)?, 42);
        assert_eq!(state.get(&at(&keys[4]))?, Some(7));
        assert_eq!(backend.state_sizes()[0].entries, 1000);
        Ok(())
    });
}

/// List state.
pub fn lists_are_kept_by_key(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let state = backend.list::<String>("l")?;
        assert_eq!(state.get(&at(&1u64))?, Vec::<String>::new());
        state.add(&at(&1u64), "a".into())?;
        state.add_all(&at(&1u64), ["b".into(), "c".into()])?;
        state.add(&at(&2u64), "x".into())?;
        assert_eq!(state.get(&at(&1u64))?, ["a", "b", "c"]);
        state.update(&at(&1u64), vec!["d".into()])?;
        assert_eq!(state.get(&at(&1u64))?, ["d"]);
        state.update(&at(&1u64), vec![])?;
        state.add_all(&at(&3u64), [])?;
        assert_eq!(state.take(&at(&2u64))?, ["x"]);
        assert_eq!(state.get(&at(&2u64))?, Vec::<String>::new());
        assert_eq!(state.take(&at(&2u64))?, Vec::<String>::new());
        assert_eq!(backend.state_sizes()[0].entries, 0, "an empty list is no list");
        Ok(())
    });
}

/// Map state.
pub fn maps_are_kept_by_key(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let state = backend.map::<String, i32>("m")?;
        assert!(state.is_empty(&at(&1u64))?);
        state.put(&at(&1u64), "a".into(), 1)?;
        state.put_all(&at(&1u64), [("b".into(), 2), ("a".into(), 3)])?;
        state.put(&at(&2u64), "a".into(), 9)?;
        assert_eq!(state.get(&at(&1u64), &"a".into())?, Some(3));
        assert_eq!(state.get(&at(&1u64), &"z".into())?, None);
        assert!(state.contains(&at(&1u64), &"b".into())? && !state.contains(&at(&2u64), &"b".into())?);
        let mut entries = state.entries(&at(&1u64))?;
        entries.sort();
        assert_eq!(entries, [("a".to_string(), 3), ("b".to_string(), 2)]);
        let mut keys = state.keys(&at(&1u64))?;
        keys.sort();
        assert_eq!(keys, ["a", "b"]);
        assert_eq!(state.values(&at(&2u64))?, [9]);
        assert_eq!(state.remove(&at(&1u64), &"nothing".into())?, None);
        assert!(state.remove(&at(&1u64), &"a".into())?.is_some());
        assert_eq!(state.get(&at(&1u64), &"a".into())?, None);
        state.delete(&at(&1u64), &"b".into())?;
        state.delete(&at(&1u64), &"nothing".into())?;
        assert!(state.is_empty(&at(&1u64))?);
        state.clear(&at(&2u64))?;
        assert!(state.is_empty(&at(&2u64))?);
        assert_eq!(backend.state_sizes()[0].entries, 0, "an empty map is no map");
        Ok(())
    });
}

pub(crate) struct Mean;

impl Aggregate for Mean {
    type In = u64;
    type Acc = (u64, u64);
    type Out = f64;
    fn create(&self) -> (u64, u64) {
        (0, 0)
    }
    fn add(&self, acc: &mut (u64, u64), value: u64) {
        *acc = (acc.0 + value, acc.1 + 1);
    }
    fn merge(&self, acc: &mut (u64, u64), other: (u64, u64)) {
        *acc = (acc.0 + other.0, acc.1 + other.1);
    }
    fn result(&self, acc: &(u64, u64)) -> f64 {
        acc.0 as f64 / acc.1 as f64
    }
}

/// Reducing and aggregating state.
pub fn reducing_and_aggregating_states_fold_what_is_added(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let most = backend.reducing::<u64>("most", |most, n| *most = n.max(*most))?;
        let mean = backend.aggregating("mean", Mean)?;
        for n in [3, 9, 6] {
            most.add(&at(&1u64), n)?;
            mean.add(&at(&1u64), n)?;
        }
        assert_eq!((most.get(&at(&1u64))?, mean.get(&at(&1u64))?), (Some(9), Some(6.0)));
        assert_eq!((most.get(&at(&2u64))?, mean.get(&at(&2u64))?), (None, None));
        most.clear(&at(&1u64))?;
        mean.clear(&at(&1u64))?;
        most.add(&at(&1u64), 1)?;
        assert_eq!((most.get(&at(&1u64))?, mean.get(&at(&1u64))?), (Some(1), None));
        Ok(())
    });
}

/// The fast path.
pub fn a_typed_batch_updates_the_same_state_as_the_handle(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let (typed, handle) = (backend.keyed_value::<u64>("n")?, backend.value::<u64>("n")?);
        let records: Vec<(u64, u64)> = (0..5000).map(|n| (n % 700, n)).collect();
        let hashes: Vec<_> = records.iter().map(|(key, _)| key.key_hash(groups())).collect();
        typed.update_batch(
            &hashes,
            &KeysIn(|i: usize| &records[i].0),
            || 0,
            |i, sum| *sum += records[i].1,
        )?;
        assert_eq!(typed.len()?, 700);
        for key in 0..700u64 {
            let sum = records.iter().filter(|r| r.0 == key).map(|r| r.1).sum();
            assert_eq!(handle.get(&at(&key))?, Some(sum));
            assert_eq!(typed.get(key.key_hash(groups()), &key)?, Some(sum));
        }
        assert!(typed.remove(5u64.key_hash(groups()), &5)?.is_some());
        assert_eq!(handle.get(&at(&5u64))?, None);
        let mut seen = 0;
        typed.for_each(|_, _| seen += 1)?;
        assert_eq!(seen, 699);
        Ok(())
    });
}

/// No panic, no deadlock.
pub fn a_state_used_inside_its_own_update_is_refused_by_name(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let state = backend.value::<u64>("own")?;
        let inner = state.update(&at(&1u64), || 0, |_| state.set(&at(&1u64), 5))?;
        assert!(matches!(refused(inner), StateError::InUse { name } if name == "own"));
        assert_eq!(state.get(&at(&1u64))?, Some(0));
        Ok(())
    });
}

/// A handle does not name the key's type, so the backend checks it.
pub fn a_key_of_another_type_is_refused(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let state = backend.value::<u64>("n")?;
        let error = refused(state.get(&at(&"a".to_string())));
        assert!(matches!(&error, StateError::KeyType { name, .. } if name == "n"), "{error}");
        Ok(())
    });
}

/// Also with equal types under another kind.
pub fn a_name_taken_by_another_type_is_refused_with_both_types(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        backend.value::<u64>("n")?;
        backend.value::<u64>("n")?;
        let error = refused(backend.value::<String>("n")).to_string();
        assert!(error.contains("`n`") && error.contains("`u64`") && error.contains("`string`"), "{error}");
        let error = refused(backend.reducing::<u64>("n", |a, b| *a += b)).to_string();
        assert!(error.contains("value state") && error.contains("reducing state"), "{error}");
        refused(backend.namespaced::<u64, u64>("n"));
        Ok(())
    });
}
