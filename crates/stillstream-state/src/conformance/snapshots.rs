//! Snapshot and restore.

use std::collections::BTreeMap;

use super::kinds::Mean;
use super::{GROUPS, STORE, at, groups, must, part, save, whole};
use crate::{BackendFactory, Key, KeyedBackend, KeyedValues, NamespacedValues, TimeDomain, TimerService};
use stillstream_types::Timestamp;

/// Writes go on while the snapshot is written.
pub fn a_snapshot_holds_what_was_there_at_the_freeze(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let (value, list) = (backend.value::<String>("v")?, backend.list::<u64>("l")?);
        for key in 0..2000u64 {
            value.set(&at(&key), format!("first {key}"))?;
            list.add(&at(&key), key)?;
        }
        let first = backend.freeze()?;
        for key in 0..2000u64 {
            match key % 3 {
                0 => value.clear(&at(&key))?,
                1 => value.update(&at(&key), String::new, |s| s.push_str(" and more"))?,
                _ => value.set(&at(&(key + 5000)), "new".into())?,
            }
            list.add(&at(&key), 0)?;
        }
        let second = backend.freeze()?;
        for key in 0..2000u64 {
            value.set(&at(&key), "later".into())?;
        }
        // the older snapshot may well be written after the newer one
        let second = second.write(&STORE, "second")?;
        let first = first.write(&STORE, "first")?;

        let mut old = whole::<u64>(factory);
        old.restore(&first, &STORE)?;
        let (value, list) = (old.value::<String>("v")?, old.list::<u64>("l")?);
        for key in 0..2000u64 {
            assert_eq!(value.get(&at(&key))?, Some(format!("first {key}")));
            assert_eq!(value.get(&at(&(key + 5000)))?, None);
            assert_eq!(list.get(&at(&key))?, [key]);
        }
        let mut new = whole::<u64>(factory);
        new.restore(&second, &STORE)?;
        let value = new.value::<String>("v")?;
        for key in 0..2000u64 {
            let expected = match key % 3 {
                0 => None,
                1 => Some(format!("first {key} and more")),
                _ => Some(format!("first {key}")),
            };
            assert_eq!(value.get(&at(&key))?, expected);
            assert_eq!(value.get(&at(&(key + 5000)))?.is_some(), key % 3 == 2);
        }
        Ok(())
    });
}

/// All in one snapshot.
pub fn every_kind_survives_a_restore(factory: &impl BackendFactory) {
    fn use_all(backend: &mut impl KeyedBackend<Key = String>, fill: bool) -> Result<(), crate::StateError> {
        let value = backend.value::<Option<f64>>("value")?;
        let list = backend.list::<(bool, char)>("list")?;
        let map = backend.map::<u16, String>("map")?;
        let reducing = backend.reducing::<u64>("reducing", |a, b| *a += b)?;
        let aggregating = backend.aggregating("aggregating", Mean)?;
        let windows = backend.namespaced::<Timestamp, Vec<u8>>("windows")?;
        let timers = backend.timers::<()>("timers", TimeDomain::EventTime)?;
        for n in 0..300u64 {
            let key = format!("key-{n}");
            let (ctx, hash) = (at(&key), key.key_hash(groups()));
            let (window, time) = (Timestamp::from_millis(n as i64 % 7), Timestamp::from_millis(n as i64));
            if fill {
                value.set(&ctx, (n % 2 == 0).then_some(n as f64))?;
                list.add_all(&ctx, [(true, 'a'), (false, 'é')])?;
                map.put_all(&ctx, [(1, key.clone()), (n as u16 + 2, "x".into())])?;
                reducing.add(&ctx, n)?;
                reducing.add(&ctx, 1)?;
                aggregating.add(&ctx, n)?;
                aggregating.add(&ctx, n + 2)?;
                windows.insert(window, hash, &key, vec![n as u8; 3])?;
                timers.register(time, hash, &key, ())?;
            } else {
                assert_eq!(value.get(&ctx)?, Some((n % 2 == 0).then_some(n as f64)));
                assert_eq!(list.get(&ctx)?, [(true, 'a'), (false, 'é')]);
                assert_eq!(map.get(&ctx, &1)?, Some(key.clone()));
                assert_eq!(map.keys(&ctx)?.len(), 2);
                assert_eq!(reducing.get(&ctx)?, Some(n + 1));
                assert_eq!(aggregating.get(&ctx)?, Some(n as f64 + 1.0));
                assert_eq!(windows.get(window, hash, &key)?, Some(vec![n as u8; 3]));
                assert!(timers.delete(time, hash, &key, ())?);
            }
        }
        assert_eq!(timers.is_empty(), !fill);
        Ok(())
    }
    must(|| {
        let mut backend = whole::<String>(factory);
        use_all(&mut backend, true)?;
        let mut again = whole::<String>(factory);
        again.restore(&save(&mut backend)?, &STORE)?;
        use_all(&mut again, false)
    });
}

/// Both directions, with no key lost or doubled.
pub fn keys_go_to_the_owner_of_their_group_when_3_subtasks_become_4_and_4_become_3(
    factory: &impl BackendFactory,
) {
    must(|| {
        let mut subtasks: Vec<_> = (0..3).map(|i| part::<String>(factory, groups().range(i, 3))).collect();
        let keys: Vec<String> = (0..3000).map(|n| format!("user-{n}")).collect();
        for (n, key) in keys.iter().enumerate() {
            let owner = groups().owner(key.key_hash(groups()).group(), 3) as usize;
            subtasks[owner].value::<u64>("n")?.set(&at(key), n as u64)?;
            subtasks[owner].namespaced::<u8, u64>("w")?.insert(1, at(key).hash, key, n as u64)?;
        }
        for parallelism in [4, 3] {
            let mut handles = Vec::new();
            for backend in &mut subtasks {
                handles.extend(save(backend)?);
            }
            let ranges = (0..parallelism).map(|i| groups().range(i, parallelism));
            subtasks = ranges.map(|range| part::<String>(factory, range)).collect();
            let mut found = BTreeMap::new();
            for (index, backend) in subtasks.iter_mut().enumerate() {
                backend.restore(&handles, &STORE)?;
                let windows = backend.namespaced::<u8, u64>("w")?;
                backend.keyed_value::<u64>("n")?.for_each(|key, n| {
                    let owner = groups().owner(key.key_hash(groups()).group(), parallelism);
                    assert_eq!(owner as usize, index);
                    assert_eq!(found.insert(key.clone(), *n), None);
                })?;
                for (key, n) in &found {
                    if groups().owner(at(key).hash.group(), parallelism) as usize == index {
                        assert_eq!(windows.get(1, at(key).hash, key)?, Some(*n));
                    }
                }
            }
            assert_eq!(found.len(), keys.len());
            assert!(keys.iter().enumerate().all(|(n, key)| found[key] == n as u64));
        }
        Ok(())
    });
}

/// The order of registration and restore does not matter.
pub fn a_state_registered_before_the_restore_is_filled_too(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        backend.value::<u64>("n")?.set(&at(&1u64), 5)?;
        let handles = save(&mut backend)?;
        let mut again = whole::<u64>(factory);
        let state = again.value::<u64>("n")?;
        again.restore(&handles, &STORE)?;
        assert_eq!(state.get(&at(&1u64))?, Some(5));
        assert_eq!(again.unregistered(), Vec::<String>::new());
        Ok(())
    });
}

/// Through two generations and a rescale.
pub fn a_state_that_nobody_registers_is_carried_along(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let (kept, unused) = (backend.value::<u64>("kept")?, backend.namespaced::<i64, String>("unused")?);
        let timers = backend.timers::<()>("unused", TimeDomain::EventTime)?;
        for key in 0..500u64 {
            kept.set(&at(&key), key)?;
            unused.insert(key as i64 % 3, at(&key).hash, &key, format!("{key}"))?;
            timers.register(Timestamp::from_millis(9), at(&key).hash, &key, ())?;
        }
        let mut handles = save(&mut backend)?;
        for parallelism in [2, 3] {
            let mut next = Vec::new();
            for index in 0..parallelism {
                let mut backend = part::<u64>(factory, groups().range(index, parallelism));
                backend.restore(&handles, &STORE)?;
                let kept = backend.value::<u64>("kept")?;
                assert_eq!(backend.unregistered(), ["_timer_state/event_unused", "unused"]);
                for key in (0..500u64).filter(|key| backend.options().range.contains(at(key).hash.group())) {
                    kept.update(&at(&key), || 0, |n| *n += 1)?;
                }
                next.extend(save(&mut backend)?);
            }
            handles = next;
        }
        let mut last = whole::<u64>(factory);
        last.restore(&handles, &STORE)?;
        let (kept, unused) = (last.value::<u64>("kept")?, last.namespaced::<i64, String>("unused")?);
        assert_eq!(last.timers::<()>("unused", TimeDomain::EventTime)?.len()?, 500);
        for key in 0..500u64 {
            assert_eq!(kept.get(&at(&key))?, Some(key + 2));
            assert_eq!(unused.get(key as i64 % 3, at(&key).hash, &key)?, Some(format!("{key}")));
        }
        Ok(())
    });
}

/// Types are remembered even where there is no entry.
pub fn an_empty_state_is_remembered_and_no_state_writes_nothing(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        assert_eq!(save(&mut backend)?, []);
        backend.value::<u64>("n")?;
        let handles = save(&mut backend)?;
        assert_eq!((handles.len(), handles[0].sections.len()), (1, 0));
        let contents = crate::snapshot::inspect(&handles[0], &STORE)?;
        assert_eq!((contents.max_parallelism, contents.key), (GROUPS, <u64 as crate::Data>::schema()));
        assert_eq!(contents.states[0].meta.to_string(), "value state of `u64`");
        let mut again = whole::<u64>(factory);
        again.restore(&handles, &STORE)?;
        assert!(again.value::<String>("n").is_err());
        Ok(())
    });
}
