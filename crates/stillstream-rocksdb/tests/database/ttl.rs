//! Compactions of state with a time to live, checkpoints of it, and the way from one backend to the other.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use stillstream_config::CompactionStyle;
use stillstream_heap::HeapKeyedStateBackend;
use stillstream_rocksdb::{MemoryBudget, RocksDbKeyedStateBackend, RocksDbOptions};
use stillstream_state::{
    BackendOptions, CurrentKey, ExpiredEntries, Key, KeyedBackend, MemorySnapshotStore, StateClock,
    StateError, StateTtlConfig,
};
use stillstream_types::{CheckpointId, KeyGroupRange, KeyGroups, KeyedSnapshot};

use crate::shared_store::SharedStore;

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

fn groups() -> KeyGroups {
    KeyGroups::new(128)
}

fn at(key: &u64) -> CurrentKey<'_> {
    CurrentKey::new(key, key.key_hash(groups()))
}

fn ttl(ms: u64) -> StateTtlConfig {
    StateTtlConfig::new(Duration::from_millis(ms))
}

/// A clock that only the test moves, and that counts how often it is asked.
#[derive(Clone, Default)]
struct TestClock {
    now: Arc<AtomicI64>,
    asked: Arc<AtomicU64>,
}

impl TestClock {
    fn set(&self, now_ms: i64) {
        self.now.store(now_ms, SeqCst);
    }

    fn asked(&self) -> u64 {
        self.asked.load(SeqCst)
    }

    fn give(&self, backend: &mut impl KeyedBackend) {
        let of_backend = self.clone();
        backend.set_clock(StateClock::new(move || {
            of_backend.asked.fetch_add(1, SeqCst);
            of_backend.now.load(SeqCst)
        }));
    }
}

fn expired(backend: &impl KeyedBackend, name: &str) -> ExpiredEntries {
    backend
        .expired_entries()
        .find(|(state, _)| *state == name)
        .map(|(_, expired)| expired)
        .unwrap_or_default()
}

/// Files only change when a test says so.
fn options(folder: &Path) -> RocksDbOptions {
    RocksDbOptions {
        memory: MemoryBudget { total_bytes: Some(32 << 20), ..MemoryBudget::default() },
        compaction: Some(CompactionStyle::None),
        ..RocksDbOptions::new(folder.join("local"))
    }
}

fn part(
    folder: &Path,
    range: KeyGroupRange,
) -> Result<(RocksDbKeyedStateBackend<u64>, TestClock), StateError> {
    let backend_options = BackendOptions::new(groups(), range).incremental(true);
    let (mut backend, clock) =
        (RocksDbKeyedStateBackend::new(backend_options, options(folder))?, TestClock::default());
    clock.give(&mut backend);
    Ok((backend, clock))
}

fn backend(folder: &Path) -> Result<(RocksDbKeyedStateBackend<u64>, TestClock), StateError> {
    part(folder, groups().all())
}

fn compact(backend: &RocksDbKeyedStateBackend<u64>, state: &str) -> Result<(), StateError> {
    backend.compact(state)
}

fn checkpoint(
    backend: &mut RocksDbKeyedStateBackend<u64>,
    id: u64,
    store: &SharedStore,
) -> Result<KeyedSnapshot, StateError> {
    backend.freeze_checkpoint(CheckpointId(id))?.write(store, "n")
}

/// Bytes of all table files below a folder.
fn table_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.path() {
            path if path.is_dir() => table_bytes(&path),
            path if path.extension().is_some_and(|end| end == "sst") => {
                std::fs::metadata(path).map_or(0, |meta| meta.len())
            }
            _ => 0,
        })
        .sum()
}

const OLD: u64 = 20_000;
const NEW: u64 = 4_000;

/// Old values at time 0, new ones at 50; half of the new keys were old before.
fn fill(
    backend: &mut RocksDbKeyedStateBackend<u64>,
    clock: &TestClock,
    config: &StateTtlConfig,
) -> Result<(), StateError> {
    let state = backend.with_ttl(config).value::<String>("v")?;
    clock.set(0);
    for key in 0..OLD {
        state.set(&at(&key), format!("old value of {key}"))?;
    }
    compact(backend, "v")?;
    clock.set(50);
    for key in OLD - NEW / 2..OLD + NEW / 2 {
        state.set(&at(&key), format!("new value of {key}"))?;
    }
    Ok(())
}

/// Which keys have a value when nothing expires any more.
fn check(
    backend: &mut RocksDbKeyedStateBackend<u64>,
    clock: &TestClock,
    config: &StateTtlConfig,
    range: KeyGroupRange,
) -> Result<()> {
    clock.set(0);
    let state = backend.with_ttl(config).value::<String>("v")?;
    for key in (0..OLD + NEW).filter(|key| range.contains(at(key).hash.group())) {
        let new = (OLD - NEW / 2..OLD + NEW / 2).contains(&key);
        assert_eq!(state.get(&at(&key))?, new.then(|| format!("new value of {key}")));
    }
    Ok(())
}

#[test]
fn a_compaction_drops_what_has_expired_and_files_shrink() -> Result {
    let folder = tempfile::tempdir()?;
    let (mut running, clock) = backend(folder.path())?;
    fill(&mut running, &clock, &ttl(100))?;
    compact(&running, "v")?;
    let before = table_bytes(folder.path());
    assert_eq!(expired(&running, "v").total(), 0);
    clock.set(120);
    let asked = clock.asked();
    compact(&running, "v")?;
    // every 1000 of 22 000 entries
    assert!((22..=40).contains(&(clock.asked() - asked)), "{}", clock.asked() - asked);
    assert_eq!(expired(&running, "v").by_compaction, OLD - NEW / 2);
    let after = table_bytes(folder.path());
    assert!(after < before / 3, "{before} bytes became {after}");
    // hot entries lie in front of the database: a new one has none
    let store = SharedStore::new(&folder.path().join("store"));
    let snapshot = checkpoint(&mut running, 1, &store)?;
    let (mut again, clock) = backend(folder.path())?;
    again.restore_snapshot(&snapshot, &store)?;
    check(&mut again, &clock, &ttl(100), groups().all())
}

#[test]
fn an_old_version_that_a_compaction_drops_leaves_the_new_one_alone() -> Result {
    let folder = tempfile::tempdir()?;
    let (mut running, clock) = backend(folder.path())?;
    let state = running.with_ttl(&ttl(100)).value::<u64>("v")?;
    state.set(&at(&1), 1)?;
    state.set(&at(&2), 1)?;
    compact(&running, "v")?;
    clock.set(150);
    // in memory, and not written yet
    state.set(&at(&1), 2)?;
    compact(&running, "v")?;
    compact(&running, "v")?;
    assert_eq!((state.get(&at(&1))?, state.get(&at(&2))?), (Some(2), None));
    Ok(())
}

#[test]
fn items_of_lists_and_entries_of_maps_are_dropped_one_by_one() -> Result {
    let folder = tempfile::tempdir()?;
    let (mut running, clock) = backend(folder.path())?;
    let config = ttl(100).cleanup_in_rocksdb_compaction(1);
    let list = running.with_ttl(&config).list::<String>("l")?;
    let map = running.with_ttl(&config).map::<u64, String>("m")?;
    for step in 0..5u64 {
        clock.set(step as i64 * 30);
        for key in 0..500u64 {
            // the last 100 keys are not written after the first step
            if step == 0 || key < 400 {
                list.add(&at(&key), format!("{step}"))?;
                map.put(&at(&key), step, format!("{step}"))?;
            }
        }
        // parts of a list lie in several files, as values and as operands of a merge
        compact(&running, "l")?;
    }
    list.add(&at(&1), "5".into())?;
    clock.set(140);
    // the first compaction puts the lists together
    for _ in 0..2 {
        compact(&running, "l")?;
        compact(&running, "m")?;
    }
    assert_eq!(expired(&running, "l").by_compaction, 500 + 400);
    assert_eq!(expired(&running, "m").by_compaction, 500 + 400);
    clock.set(0);
    for key in 0..500u64 {
        let mut left: Vec<String> =
            if key < 400 { (2..5).map(|step| format!("{step}")).collect() } else { vec![] };
        assert_eq!(map.entries(&at(&key))?.len(), left.len());
        left.extend((key == 1).then(|| "5".to_string()));
        assert_eq!(list.get(&at(&key))?, left, "{key}");
    }
    Ok(())
}

#[test]
fn compactions_keep_everything_where_clean_up_in_the_background_is_off() -> Result {
    let folder = tempfile::tempdir()?;
    let (mut running, clock) = backend(folder.path())?;
    fill(&mut running, &clock, &ttl(100).disable_cleanup_in_background())?;
    clock.set(5000);
    compact(&running, "v")?;
    assert_eq!((expired(&running, "v").total(), running.state_sizes()[0].entries > 10_000), (0, true));
    Ok(())
}

#[test]
fn incremental_checkpoints_and_a_rescale_take_the_filter_along() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let (mut running, clock) = backend(folder.path())?;
    let config = ttl(100).periodic_compaction(Duration::from_secs(3600));
    fill(&mut running, &clock, &config)?;
    let first = checkpoint(&mut running, 1, &store)?;
    running.checkpoint_completed(CheckpointId(1));
    clock.set(120);
    compact(&running, "v")?;
    let second = checkpoint(&mut running, 2, &store)?;
    // 1 -> 2: cut off; 2 -> 1: put together
    for snapshot in [first, second] {
        let mut halves = KeyedSnapshot::default();
        for index in 0..2 {
            let range = groups().range(index, 2);
            let (mut half, clock) = part(folder.path(), range)?;
            clock.set(120);
            half.restore_snapshot(&snapshot, &store)?;
            let state = half.with_ttl(&config).value::<String>("v")?;
            assert_eq!(state.get(&at(&1))?, None);
            compact(&half, "v")?;
            check(&mut half, &clock, &config, range)?;
            halves.incremental.extend(checkpoint(&mut half, 3, &store)?.incremental);
        }
        let (mut whole, clock) = backend(folder.path())?;
        whole.restore_snapshot(&halves, &store)?;
        check(&mut whole, &clock, &config, groups().all())?;
        clock.set(200);
        compact(&whole, "v")?;
        assert_eq!(expired(&whole, "v").by_compaction, NEW);
    }
    Ok(())
}

#[test]
fn a_state_that_nobody_has_registered_yet_is_not_filtered() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let (mut running, clock) = backend(folder.path())?;
    fill(&mut running, &clock, &ttl(100))?;
    let snapshot = checkpoint(&mut running, 1, &store)?;
    let compacting =
        RocksDbOptions { compaction: None, compact_after_rescale: true, ..options(folder.path()) };
    let half = groups().range(0, 2);
    let mut again = RocksDbKeyedStateBackend::<u64>::new(BackendOptions::new(groups(), half), compacting)?;
    let clock = TestClock::default();
    clock.set(10_000);
    clock.give(&mut again);
    again.restore_snapshot(&snapshot, &store)?;
    // a longer time to live than the old one
    let state = again.with_ttl(&ttl(100_000)).value::<String>("v")?;
    for key in (0..OLD - NEW / 2).filter(|key| half.contains(at(key).hash.group())) {
        assert_eq!(state.get(&at(&key))?, Some(format!("old value of {key}")));
    }
    Ok(())
}

#[test]
fn a_time_to_live_that_is_switched_on_in_a_restored_database_is_known_to_compactions() -> Result {
    let folder = tempfile::tempdir()?;
    let store = SharedStore::new(&folder.path().join("store"));
    let (mut bare, _) = backend(folder.path())?;
    let (value, list) = (bare.value::<u64>("v")?, bare.list::<u64>("l")?);
    let map = bare.map::<u8, u64>("m")?;
    for key in 0..1000u64 {
        value.set(&at(&key), key)?;
        list.add_all(&at(&key), [key, 7])?;
        map.put(&at(&key), 1, key)?;
    }
    let snapshot = checkpoint(&mut bare, 1, &store)?;

    let (mut on, clock) = backend(folder.path())?;
    clock.set(1000);
    on.restore_snapshot(&snapshot, &store)?;
    let config = ttl(100);
    let value = on.with_ttl(&config).value::<u64>("v")?;
    let list = on.with_ttl(&config).list::<u64>("l")?;
    let map = on.with_ttl(&config).map::<u8, u64>("m")?;
    clock.set(1099);
    let kept = checkpoint(&mut on, 2, &store)?;
    for key in 0..500u64 {
        assert_eq!((value.get(&at(&key))?, map.get(&at(&key), &1)?), (Some(key), Some(key)));
        assert_eq!(list.get(&at(&key))?, [key, 7]);
    }
    clock.set(1100);
    ["v", "l", "m"].iter().try_for_each(|state| compact(&on, state))?;
    let counts = ["v", "l", "m"].map(|state| expired(&on, state).by_compaction);
    assert_eq!(counts, [1000, 2000, 1000]);

    let (mut off, clock) = backend(folder.path())?;
    clock.set(50_000);
    off.restore_snapshot(&kept, &store)?;
    let (value, list) = (off.value::<u64>("v")?, off.list::<u64>("l")?);
    let map = off.map::<u8, u64>("m")?;
    ["v", "l", "m"].iter().try_for_each(|state| compact(&off, state))?;
    for key in 0..1000u64 {
        assert_eq!((value.get(&at(&key))?, map.get(&at(&key), &1)?), (Some(key), Some(key)));
        assert_eq!(list.get(&at(&key))?, [key, 7]);
    }
    Ok(())
}

#[test]
fn state_with_a_time_to_live_goes_from_one_backend_to_the_other_and_back() -> Result {
    fn write(
        backend: &mut impl KeyedBackend<Key = u64>,
        clock: &TestClock,
        from: u64,
    ) -> Result<(), StateError> {
        let config = ttl(100);
        let value = backend.with_ttl(&config).value::<String>("v")?;
        let list = backend.with_ttl(&config).list::<u64>("l")?;
        let map = backend.with_ttl(&config).map::<u64, u64>("m")?;
        for step in from..from + 3 {
            clock.set(step as i64 * 20);
            for key in 0..200u64 {
                list.add(&at(&key), step)?;
                map.put(&at(&key), step, key)?;
                if key % 6 == step {
                    value.set(&at(&key), format!("{step}"))?;
                }
            }
        }
        Ok(())
    }
    fn check(
        backend: &mut impl KeyedBackend<Key = u64>,
        steps: std::ops::Range<u64>,
    ) -> Result<(), StateError> {
        let config = ttl(100);
        let value = backend.with_ttl(&config).value::<String>("v")?;
        let list = backend.with_ttl(&config).list::<u64>("l")?;
        let map = backend.with_ttl(&config).map::<u64, u64>("m")?;
        for key in 0..200u64 {
            let step = key % 6;
            assert_eq!(value.get(&at(&key))?, steps.contains(&step).then(|| format!("{step}")));
            assert_eq!(list.get(&at(&key))?, steps.clone().collect::<Vec<_>>());
            let mut keys = map.keys(&at(&key))?;
            keys.sort_unstable();
            assert_eq!(keys, steps.clone().collect::<Vec<_>>());
        }
        Ok(())
    }
    let (folder, store) = (tempfile::tempdir()?, MemorySnapshotStore::unlimited());
    let heap = || {
        let mut backend = HeapKeyedStateBackend::new(BackendOptions::new(groups(), groups().all()));
        let clock = TestClock::default();
        clock.give(&mut backend);
        (backend, clock)
    };
    let (mut first, clock) = heap();
    write(&mut first, &clock, 0)?;
    let handles = first.freeze()?.write(&store, "n")?;
    let (mut second, clock) = backend(folder.path())?;
    clock.set(40);
    second.restore(&handles, &store)?;
    check(&mut second, 0..3)?;
    write(&mut second, &clock, 3)?;
    // step 0 has expired
    clock.set(100);
    let handles = second.freeze()?.write(&store, "n")?;
    let (mut third, clock) = heap();
    third.restore(&handles, &store)?;
    check(&mut third, 1..6)?;
    clock.set(145);
    check(&mut third, 3..6)?;
    Ok(())
}
