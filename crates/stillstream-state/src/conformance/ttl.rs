//! State with a time to live.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use stillstream_types::KeyedStateHandle;

use super::kinds::Mean;
use super::{STORE, at, groups, made, must, refused, save};
use crate::{
    BackendFactory, KeyedBackend, StateClock, StateError, StateTtlConfig, TtlUpdateType::OnReadAndWrite,
    TtlVisibility::ReturnExpiredIfNotCleanedUp,
};

/// A clock that only the test moves.
#[derive(Clone, Default)]
pub(super) struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, SeqCst);
    }

    fn state_clock(&self) -> StateClock {
        let time = self.0.clone();
        StateClock::new(move || time.load(SeqCst))
    }
}

fn timed<F: BackendFactory>(factory: &F) -> (F::Backend<u64>, TestClock) {
    let mut backend = made(factory.create::<u64>(groups(), groups().all()));
    let clock = TestClock::default();
    backend.set_clock(clock.state_clock());
    (backend, clock)
}

/// At time `now`, holding what `handles` hold.
fn restored<F: BackendFactory>(
    factory: &F,
    handles: &[KeyedStateHandle],
    now: i64,
) -> Result<(F::Backend<u64>, TestClock), StateError> {
    let (mut backend, clock) = timed(factory);
    clock.set(now);
    backend.restore(handles, &STORE)?;
    Ok((backend, clock))
}

fn ttl(ms: u64) -> StateTtlConfig {
    StateTtlConfig::new(Duration::from_millis(ms))
}

fn on_access(backend: &impl KeyedBackend, name: &str) -> u64 {
    backend.expired_entries().find(|(state, _)| *state == name).map_or(0, |(_, expired)| expired.on_access)
}

/// By default only writing prolongs it.
pub fn a_value_is_gone_when_its_time_to_live_has_passed_since_the_last_write(factory: &impl BackendFactory) {
    must(|| {
        let (mut backend, clock) = timed(factory);
        let state = backend.with_ttl(&ttl(100)).value::<String>("v")?;
        for key in 0..50u64 {
            state.set(&at(&key), "a".into())?;
        }
        clock.set(99);
        assert_eq!(state.get(&at(&1u64))?, Some("a".into()));
        assert_eq!(state.update(&at(&2u64), String::new, |s| std::mem::replace(s, "b".into()))?, "a");
        state.set(&at(&3u64), "c".into())?;
        clock.set(100);
        assert_eq!(state.get(&at(&1u64))?, None);
        assert_eq!(state.with(&at(&4u64), |value| value.cloned())?, None);
        assert_eq!((state.get(&at(&2u64))?, state.get(&at(&3u64))?), (Some("b".into()), Some("c".into())));
        // an update starts from nothing, and from now on
        assert_eq!(state.update(&at(&5u64), || "new".into(), |s| s.clone())?, "new");
        assert_eq!(on_access(&backend, "v"), 3);
        clock.set(199);
        assert_eq!((state.get(&at(&2u64))?, state.get(&at(&5u64))?), (None, Some("new".into())));
        // what was removed stays so, whatever the clock says
        clock.set(0);
        assert_eq!((state.get(&at(&1u64))?, state.get(&at(&2u64))?), (None, None));
        assert_eq!(on_access(&backend, "v"), 4);
        Ok(())
    });
}

/// For each kind.
pub fn reads_prolong_life_where_they_count_as_touches(factory: &impl BackendFactory) {
    must(|| {
        let (mut backend, clock) = timed(factory);
        let config = ttl(100).update_type(OnReadAndWrite);
        let mut with_ttl = backend.with_ttl(&config);
        let (value, list, map) =
            (with_ttl.value::<u64>("v")?, with_ttl.list::<u64>("l")?, with_ttl.map::<u8, u64>("m")?);
        let mean = with_ttl.aggregating("mean", Mean)?;
        for key in [1u64, 2] {
            value.set(&at(&key), 7)?;
            list.add_all(&at(&key), [7, 8])?;
            map.put_all(&at(&key), [(1, 7), (2, 8), (3, 9)])?;
            mean.add(&at(&key), 7)?;
        }
        for now in [60, 120, 180] {
            clock.set(now);
            assert_eq!(value.get(&at(&1u64))?, Some(7));
            // a read within a read of the same state
            let inner = value.with(&at(&1u64), |_| value.with(&at(&1u64), |v| v.copied()))??;
            assert_eq!(inner, Some(7));
            assert_eq!(list.get(&at(&1u64))?, [7, 8]);
            assert!(map.contains(&at(&1u64), &1)?);
            if now < 180 {
                let mut seen = 0;
                map.for_each(&at(&1u64), |_, _| seen += 1)?;
                assert_eq!(seen, 3);
            }
            assert_eq!(mean.get(&at(&1u64))?, Some(7.0));
        }
        clock.set(230);
        assert_eq!((map.get(&at(&1u64), &1)?, map.get(&at(&1u64), &2)?), (Some(7), None), "each for itself");
        assert_eq!((value.get(&at(&2u64))?, mean.get(&at(&2u64))?), (None, None), "nobody has read it");
        assert!(list.get(&at(&2u64))?.is_empty() && map.is_empty(&at(&2u64))?);
        Ok(())
    });
}

/// The first read after the end is the last one.
pub fn an_expired_value_is_seen_once_more_if_that_is_asked_for(factory: &impl BackendFactory) {
    must(|| {
        let (mut backend, clock) = timed(factory);
        let config = ttl(100).visibility(ReturnExpiredIfNotCleanedUp);
        let mut with_ttl = backend.with_ttl(&config);
        let (value, list, map) =
            (with_ttl.value::<u64>("v")?, with_ttl.list::<u64>("l")?, with_ttl.map::<u8, u64>("m")?);
        let sum = with_ttl.reducing::<u64>("sum", |a, b| *a += b)?;
        value.set(&at(&1u64), 7)?;
        list.add_all(&at(&1u64), [7, 8])?;
        map.put(&at(&1u64), 1, 7)?;
        sum.add(&at(&1u64), 7)?;
        clock.set(5000);
        assert_eq!((value.get(&at(&1u64))?, value.get(&at(&1u64))?), (Some(7), None));
        assert_eq!((list.get(&at(&1u64))?, list.get(&at(&1u64))?), (vec![7, 8], vec![]));
        assert_eq!((map.get(&at(&1u64), &1)?, map.get(&at(&1u64), &1)?), (Some(7), None));
        sum.add(&at(&1u64), 1)?;
        assert_eq!(sum.get(&at(&1u64))?, Some(8), "it was not cleaned up, and lives anew");
        Ok(())
    });
}

/// Not the list and not the map as a whole.
pub fn items_of_lists_and_entries_of_maps_expire_for_themselves(factory: &impl BackendFactory) {
    must(|| {
        let (mut backend, clock) = timed(factory);
        let config = ttl(100);
        let list = backend.with_ttl(&config).list::<String>("l")?;
        let map = backend.with_ttl(&config).map::<String, u64>("m")?;
        for n in 0..5u64 {
            clock.set(n as i64 * 30);
            list.add(&at(&1u64), format!("item {n}"))?;
            map.put(&at(&1u64), format!("entry {n}"), n)?;
        }
        // at 120 those of 0 are gone, and one of 30 is written again
        map.put(&at(&1u64), "entry 1".into(), 100)?;
        assert_eq!(list.get(&at(&1u64))?, ["item 1", "item 2", "item 3", "item 4"]);
        assert!(!map.contains(&at(&1u64), &"entry 0".into())?);
        clock.set(140);
        assert_eq!(list.get(&at(&1u64))?, ["item 2", "item 3", "item 4"]);
        let mut values = map.values(&at(&1u64))?;
        values.sort_unstable();
        assert_eq!(values, [2, 3, 4, 100]);
        assert_eq!((on_access(&backend, "l"), on_access(&backend, "m")), (2, 1));
        list.update(&at(&1u64), vec!["only".into()])?;
        clock.set(239);
        assert_eq!(list.get(&at(&1u64))?, ["only"]);
        assert_eq!(map.get(&at(&1u64), &"entry 1".into())?, None);
        assert!(map.is_empty(&at(&1u64))?);
        clock.set(240);
        assert!(list.get(&at(&1u64))?.is_empty());
        list.add(&at(&1u64), "again".into())?;
        assert_eq!(list.get(&at(&1u64))?, ["again"]);
        list.clear(&at(&1u64))?;
        assert_eq!(backend.state_sizes().iter().map(|size| size.entries).sum::<usize>(), 0);
        Ok(())
    });
}

/// Adding prolongs.
pub fn folds_start_anew_when_nothing_was_added_for_the_time_to_live(factory: &impl BackendFactory) {
    must(|| {
        let (mut backend, clock) = timed(factory);
        let sum = backend.with_ttl(&ttl(100)).reducing::<u64>("sum", |a, b| *a += b)?;
        let mean = backend.with_ttl(&ttl(100)).aggregating("mean", Mean)?;
        for (now, added, expected) in [(0, 4, 4), (99, 6, 10), (198, 2, 12), (298, 8, 8), (350, 4, 12)] {
            clock.set(now);
            sum.add(&at(&1u64), added)?;
            mean.add(&at(&1u64), added)?;
            assert_eq!(sum.get(&at(&1u64))?, Some(expected), "at {now}");
        }
        assert_eq!(mean.get(&at(&1u64))?, Some(6.0));
        assert_eq!((on_access(&backend, "sum"), on_access(&backend, "mean")), (1, 1));
        clock.set(450);
        assert_eq!((sum.get(&at(&1u64))?, mean.get(&at(&1u64))?), (None, None));
        Ok(())
    });
}

fn fill_in_two_steps(
    backend: &mut impl KeyedBackend<Key = u64>,
    clock: &TestClock,
    config: &StateTtlConfig,
) -> Result<(), StateError> {
    let mut with_ttl = backend.with_ttl(config);
    let (value, list, map) =
        (with_ttl.value::<String>("v")?, with_ttl.list::<u64>("l")?, with_ttl.map::<u8, String>("m")?);
    let mean = with_ttl.aggregating("mean", Mean)?;
    for step in 0..2u64 {
        clock.set(step as i64 * 60);
        for key in 0..300u64 {
            let mine = at(&key);
            if key % 2 == step {
                value.set(&mine, format!("{key}"))?;
                mean.add(&mine, key)?;
            }
            list.add(&mine, step)?;
            map.put(&mine, step as u8, format!("{step}"))?;
        }
    }
    Ok(())
}

/// What `fill_in_two_steps` wrote: both steps, or the second one only.
fn check_steps(
    backend: &mut impl KeyedBackend<Key = u64>,
    config: &StateTtlConfig,
    first: bool,
) -> Result<(), StateError> {
    let mut with_ttl = backend.with_ttl(config);
    let (value, list, map) =
        (with_ttl.value::<String>("v")?, with_ttl.list::<u64>("l")?, with_ttl.map::<u8, String>("m")?);
    let mean = with_ttl.aggregating("mean", Mean)?;
    for key in 0..300u64 {
        let mine = at(&key);
        let there = first || key % 2 == 1;
        assert_eq!(value.get(&mine)?, there.then(|| format!("{key}")), "{key}");
        assert_eq!(mean.get(&mine)?, there.then_some(key as f64), "{key}");
        assert_eq!(list.get(&mine)?, if first { vec![0, 1] } else { vec![1] });
        assert_eq!(map.get(&mine, &0)?, first.then(|| "0".into()));
        assert_eq!(map.get(&mine, &1)?, Some("1".into()));
    }
    Ok(())
}

/// Unless it is told to keep it.
pub fn a_full_snapshot_leaves_out_what_has_expired(factory: &impl BackendFactory) {
    must(|| {
        for leave_out in [true, false] {
            let config = ttl(100).cleanup_full_snapshot(leave_out);
            let (mut backend, clock) = timed(factory);
            fill_in_two_steps(&mut backend, &clock, &config)?;
            clock.set(110);
            let handles = save(&mut backend)?;
            // the clock is turned back, so that only what is not there at all is missed
            let (mut again, _) = restored(factory, &handles, 60)?;
            check_steps(&mut again, &config, !leave_out)?;
            // and the state itself is as it was
            clock.set(99);
            check_steps(&mut backend, &config, true)?;
        }
        Ok(())
    });
}

/// Also when there are other states in the snapshot, and when nobody registers a state for a while.
pub fn the_time_of_the_last_touch_survives_restores_and_a_new_time_to_live_applies(
    factory: &impl BackendFactory,
) {
    must(|| {
        let (mut backend, clock) = timed(factory);
        fill_in_two_steps(&mut backend, &clock, &ttl(100))?;
        backend.value::<u64>("other")?.set(&at(&1u64), 5)?;
        let handles = save(&mut backend)?;
        let (mut idle, _) = restored(factory, &handles, 90)?;
        let handles = save(&mut idle)?;
        let (mut same, clock) = restored(factory, &handles, 99)?;
        check_steps(&mut same, &ttl(100), true)?;
        clock.set(159);
        check_steps(&mut same, &ttl(100), false)?;
        let (mut shorter, _) = restored(factory, &handles, 99)?;
        check_steps(&mut shorter, &ttl(80), false)?;
        let (mut longer, _) = restored(factory, &handles, 1000)?;
        check_steps(&mut longer, &ttl(5000), true)?;
        assert_eq!(longer.value::<u64>("other")?.get(&at(&1u64))?, Some(5));
        Ok(())
    });
}

/// The states of a program without and with it, under the same names.
pub fn a_time_to_live_can_be_switched_on_and_off_between_runs(factory: &impl BackendFactory) {
    fn bare(backend: &mut impl KeyedBackend<Key = u64>, fill: bool) -> Result<(), StateError> {
        let (value, list, map) =
            (backend.value::<String>("v")?, backend.list::<u64>("l")?, backend.map::<u8, String>("m")?);
        let sum = backend.reducing::<u64>("sum", |a, b| *a += b)?;
        for key in 0..100u64 {
            let mine = at(&key);
            if fill {
                value.set(&mine, format!("{key}"))?;
                list.add_all(&mine, [key, 9])?;
                map.put(&mine, 3, "x".into())?;
                sum.add(&mine, key)?;
            }
            assert_eq!((value.get(&mine)?, sum.get(&mine)?), (Some(format!("{key}")), Some(key)));
            assert_eq!((list.get(&mine)?, map.get(&mine, &3)?), (vec![key, 9], Some("x".into())));
        }
        Ok(())
    }
    fn expiring(backend: &mut impl KeyedBackend<Key = u64>, there: bool) -> Result<(), StateError> {
        let config = ttl(100);
        let mut with_ttl = backend.with_ttl(&config);
        let (value, list, map) =
            (with_ttl.value::<String>("v")?, with_ttl.list::<u64>("l")?, with_ttl.map::<u8, String>("m")?);
        let sum = with_ttl.reducing::<u64>("sum", |a, b| *a += b)?;
        for key in 0..100u64 {
            let mine = at(&key);
            assert_eq!(value.get(&mine)?, there.then(|| format!("{key}")));
            assert_eq!(sum.get(&mine)?, there.then_some(key));
            assert_eq!(list.get(&mine)?, if there { vec![key, 9] } else { vec![] });
            assert_eq!(map.get(&mine, &3)?, there.then(|| "x".into()));
        }
        Ok(())
    }
    must(|| {
        let (mut first, _) = timed(factory);
        bare(&mut first, true)?;
        // on: the time begins at the restore
        let (mut second, clock) = restored(factory, &save(&mut first)?, 5000)?;
        expiring(&mut second, true)?;
        clock.set(5099);
        expiring(&mut second, true)?;
        let handles = save(&mut second)?;
        clock.set(5100);
        expiring(&mut second, false)?;
        // off: it never ends
        let (mut third, _) = restored(factory, &handles, 9000)?;
        bare(&mut third, false)?;
        // on, with the states registered before the restore
        let (mut fourth, clock) = timed(factory);
        expiring(&mut fourth, false)?;
        clock.set(7000);
        fourth.restore(&save(&mut third)?, &STORE)?;
        expiring(&mut fourth, true)?;
        clock.set(7100);
        expiring(&mut fourth, false)?;
        Ok(())
    });
}

/// With the state's name, before anything is stored.
pub fn a_time_to_live_that_makes_no_sense_is_refused(factory: &impl BackendFactory) {
    must(|| {
        let (mut backend, _) = timed(factory);
        for (config, word) in [
            (ttl(0), "millisecond"),
            (StateTtlConfig::new(Duration::from_micros(999)), "millisecond"),
            (ttl(5).cleanup_incrementally(0), "sweep of 0"),
            (ttl(5).cleanup_in_rocksdb_compaction(0), "0 entries"),
        ] {
            let error = refused(backend.with_ttl(&config).value::<u64>("v"));
            assert!(
                matches!(&error, StateError::Ttl { name, why } if name == "v" && why.contains(word)),
                "{error}"
            );
        }
        backend.with_ttl(&ttl(5)).value::<u64>("v")?;
        backend.with_ttl(&ttl(5)).value::<u64>("v")?;
        let error = refused(backend.with_ttl(&ttl(6)).value::<u64>("v")).to_string();
        assert!(error.contains("`v`") && error.contains("5ms") && error.contains("6ms"), "{error}");
        let error = refused(backend.value::<u64>("v")).to_string();
        assert!(error.contains("`expiring<u64>`") && error.contains("`u64`"), "{error}");
        Ok(())
    });
}
