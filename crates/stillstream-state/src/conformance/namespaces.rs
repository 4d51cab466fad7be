//! Namespaces and timers.

use std::collections::BTreeMap;

use stillstream_types::{KeyGroups, Timestamp};

use super::{STORE, groups, must, part, save, whole};
use crate::table::KeysIn;
use crate::{BackendFactory, Key, KeyedBackend, NamespaceWalk, NamespacedValues, TimeDomain, TimerService};

/// Windows rely on it.
pub fn namespaces_are_kept_apart_and_ordered(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let state = backend.namespaced::<i64, i64>("windows")?;
        let hash = |key: u64| key.key_hash(groups());
        for window in [30i64, -10, 20] {
            let keys: Vec<u64> = (0..100).collect();
            let hashes: Vec<_> = keys.iter().map(|k| hash(*k)).collect();
            state.update_batch(
                window,
                &hashes,
                &KeysIn(|i: usize| &keys[i]),
                || 0,
                |i, n| *n += window + i as i64,
            )?;
        }
        assert_eq!(state.namespaces()?, [-10, 20, 30]);
        assert_eq!(state.get(20, hash(7), &7)?, Some(27));
        assert_eq!(state.update(20, hash(7), &7, || 0, |n| *n * 2)?, 54);
        assert_eq!(state.get(25, hash(7), &7)?, None);
        assert_eq!(state.len(30)?, 100);
        for key in 0..100 {
            state.prefetch(30, hash(key));
            assert_eq!(state.remove(30, hash(key), &key)?, Some(30 + key as i64));
            assert_eq!(state.remove(30, hash(key), &key)?, None);
        }
        assert_eq!(state.namespaces()?, [-10, 20], "a namespace without keys is gone");
        assert!(state.is_empty(30)?);
        Ok(())
    });
}

/// A barrier may come between two slices.
pub fn a_namespace_is_taken_in_slices_and_the_rest_is_still_state(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let state = backend.namespaced::<i64, u64>("windows")?;
        for key in 0..1000u64 {
            state.insert(1, key.key_hash(groups()), &key, key * 2)?;
            state.insert(2, key.key_hash(groups()), &key, key * 3)?;
        }
        let mut read = Vec::new();
        let mut walk = state.read_namespace(2)?;
        while walk.next_slice(300, &mut read)? {}
        assert_eq!((read.len(), state.len(2)?), (1000, 1000));

        let (mut taken, mut walk) = (Vec::new(), state.take_namespace(1)?);
        assert!(walk.next_slice(400, &mut taken)?);
        assert_eq!((taken.len(), walk.remaining(), state.len(1)?), (400, 600, 600));
        let handles = save(&mut backend)?;
        while walk.next_slice(400, &mut taken)? {}
        assert_eq!(state.namespaces()?, [2]);
        let all: BTreeMap<u64, u64> = taken.iter().map(|(_, key, value)| (*key, *value)).collect();
        assert_eq!(all, (0..1000).map(|key| (key, key * 2)).collect());
        assert!(taken.iter().all(|(hash, key, _)| *hash == key.key_hash(groups())));

        let mut again = whole::<u64>(factory);
        again.restore(&handles, &STORE)?;
        let state = again.namespaced::<i64, u64>("windows")?;
        assert_eq!((state.len(1)?, state.len(2)?), (600, 1000));
        for (_, key, _) in &taken[..400] {
            assert_eq!(state.get(1, key.key_hash(groups()), key)?, None);
        }
        Ok(())
    });
}

/// Also in slices, and with keys that share a time.
pub fn timers_come_by_time_and_once_each(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let timers = backend.timers::<i64>("t", TimeDomain::EventTime)?;
        let other_clock = backend.timers::<i64>("t", TimeDomain::ProcessingTime)?;
        let time = Timestamp::from_millis;
        let hash = |key: u64| key.key_hash(groups());
        // 0, 619, 238, ..: every time below 1000 thrice, in no order
        for n in 0..3000u64 {
            let at = (n * 619 % 1000) as i64;
            assert!(timers.register(time(at), hash(n), &n, at)?);
        }
        for n in 0..3000u64 {
            let at = (n * 619 % 1000) as i64;
            assert!(!timers.register(time(at), hash(n), &n, at)?, "it is there already");
        }
        assert_eq!((timers.len()?, other_clock.len()?), (3000, 0));
        assert!(timers.register(time(5), hash(5000), &5000, 77)?);
        assert!(timers.delete(time(5), hash(5000), &5000, 77)?);
        assert!(!timers.delete(time(5), hash(5000), &5000, 77)?);

        assert_eq!(timers.peek_next_time(), Some(time(0)));
        assert_eq!(timers.pop_due(time(-1))?, None);
        let mut fired = Vec::new();
        while let Some(timer) = timers.pop_due(time(499))? {
            fired.push((timer.time, timer.hash, timer.key));
        }
        assert_eq!((fired.len(), timers.len()?), (1500, 1500));
        assert_eq!(timers.peek_next_time(), Some(time(500)));
        assert!(fired.is_sorted_by_key(|(time, hash, _)| (*time, *hash)));
        let mut keys: Vec<u64> = fired.iter().map(|(_, _, key)| *key).collect();
        keys.sort();
        assert_eq!(keys, (0..3000).filter(|n| n * 619 % 1000 < 500).collect::<Vec<_>>());
        while timers.pop_due(Timestamp::MAX)?.is_some() {}
        assert!(timers.is_empty() && timers.peek_next_time().is_none());
        Ok(())
    });
}

/// Each timer goes with its own key's group, whatever key ran when it was registered.
pub fn timers_survive_a_restore_and_a_rescale(factory: &impl BackendFactory) {
    must(|| {
        let ranges = |p: u32| (0..p).map(move |i| groups().range(i, p));
        let owner = |groups: KeyGroups, key: u64, p| groups.owner(key.key_hash(groups).group(), p) as usize;
        let mut old: Vec<_> = ranges(3).map(|range| part::<u64>(factory, range)).collect();
        for key in 0..2000u64 {
            let timers = old[owner(groups(), key, 3)].timers::<i64>("t", TimeDomain::ProcessingTime)?;
            timers.register(Timestamp::from_millis(key as i64 % 50), key.key_hash(groups()), &key, 1)?;
        }
        let frozen = old.iter_mut().map(|b| b.freeze()).collect::<Result<Vec<_>, _>>()?;
        // fired and registered after the freeze: not in the snapshot
        for backend in &mut old {
            let timers = backend.timers::<i64>("t", TimeDomain::ProcessingTime)?;
            while timers.pop_due(Timestamp::from_millis(25))?.is_some() {}
        }
        let mut handles = Vec::new();
        for frozen in frozen {
            handles.extend(frozen.write(&STORE, "t")?);
        }
        let mut fired = BTreeMap::new();
        for (index, range) in ranges(2).enumerate() {
            let mut backend = part::<u64>(factory, range);
            backend.restore(&handles, &STORE)?;
            let timers = backend.timers::<i64>("t", TimeDomain::ProcessingTime)?;
            while let Some(timer) = timers.pop_due(Timestamp::MAX)? {
                assert_eq!(owner(groups(), timer.key, 2), index);
                assert_eq!(fired.insert(timer.key, timer.time.as_millis()), None);
            }
        }
        assert_eq!(fired, (0..2000).map(|key| (key, key as i64 % 50)).collect());
        Ok(())
    });
}
