//! The sweep through state in memory.

use std::error::Error;

use stillstream_heap::HeapKeyedStateBackend;
use stillstream_state::{BackendOptions, KeyedBackend, MemorySnapshotStore, StateTtlConfig};
use stillstream_types::CheckpointId;

use super::{Result, TestClock, at, expired, groups, ttl};

fn backend(asynchronous: bool) -> (HeapKeyedStateBackend<u64>, TestClock) {
    let options = BackendOptions::new(groups(), groups().all()).asynchronous(asynchronous);
    let (mut backend, clock) = (HeapKeyedStateBackend::new(options), TestClock::default());
    clock.give(&mut backend);
    (backend, clock)
}

/// Entries and bytes of the first state.
fn size(backend: &HeapKeyedStateBackend<u64>) -> (usize, usize) {
    let size = &backend.state_sizes()[0];
    (size.entries, size.memory_bytes)
}

const BATCH: u64 = 500;
/// Batches until what was written in the first one has expired.
const LIFE: u64 = 50;

/// Each key is written once and never read. Gives the sizes after each batch.
fn write_once(
    backend: &mut HeapKeyedStateBackend<u64>,
    clock: &TestClock,
    config: &StateTtlConfig,
    batches: u64,
) -> Result<Vec<(usize, usize)>> {
    let state = backend.with_ttl(config).value::<u64>("seen")?;
    let mut sizes = Vec::new();
    // images of the table are held while the sweep goes on
    let mut image = None;
    for batch in 0..batches {
        clock.set(batch as i64 * 20);
        for n in 0..BATCH {
            let key = batch * BATCH + n;
            state.set(&at(&key), key)?;
        }
        backend.sweep_expired();
        if batch % 100 == 0 {
            image = Some(backend.freeze()?);
        }
        sizes.push(size(backend));
    }
    drop(image);
    Ok(sizes)
}

#[test]
fn state_whose_keys_never_come_again_stops_growing() -> Result {
    for asynchronous in [true, false] {
        let (mut backend, clock) = backend(asynchronous);
        let sizes = write_once(&mut backend, &clock, &ttl(20 * LIFE), 1000)?;
        let live = (BATCH * LIFE) as usize;
        let most = sizes.iter().map(|size| size.0).max();
        assert!(most <= Some(live * 3 / 2), "{most:?} entries, of which {live} live");
        let most_bytes =
            |from: usize, to: usize| sizes[from..to].iter().map(|size| size.1).max().unwrap_or(0);
        let (early, late) = (most_bytes(200, 500), most_bytes(500, 1000));
        assert!(late <= early * 11 / 10, "{early} bytes became {late}");
        let left = size(&backend).0 as u64;
        assert_eq!(expired(&backend, "seen").by_sweep, 1000 * BATCH - left);
        // all go while one key is used, and their memory with them
        let state = backend.with_ttl(&ttl(20 * LIFE)).value::<u64>("seen")?;
        clock.set(1_000_000);
        for _ in 0..1000 {
            state.set(&at(&1), 1)?;
            backend.sweep_expired();
        }
        let (entries, bytes) = size(&backend);
        assert!(entries == 1 && bytes < late / 20, "{entries} entries, {bytes} bytes");
    }
    Ok(())
}

#[test]
fn without_clean_up_in_the_background_only_reads_remove_anything() -> Result {
    let (mut backend, clock) = backend(true);
    let sizes = write_once(&mut backend, &clock, &ttl(20).disable_cleanup_in_background(), 20)?;
    assert_eq!(sizes.last().map(|size| size.0), Some(20 * BATCH as usize));
    assert_eq!(expired(&backend, "seen").total(), 0);
    Ok(())
}

#[test]
fn one_sweep_looks_at_as_many_entries_as_accesses_allow() -> Result {
    let (mut backend, clock) = backend(true);
    let config = ttl(100).cleanup_incrementally(2);
    let state = backend.with_ttl(&config).value::<u64>("seen")?;
    for key in 0..100_000 {
        state.set(&at(&key), key)?;
    }
    backend.sweep_expired();
    clock.set(100);
    for key in 100_000..101_000 {
        state.set(&at(&key), key)?;
    }
    backend.sweep_expired();
    let removed = expired(&backend, "seen").by_sweep;
    // a page is looked at as a whole
    assert!((1500..2300).contains(&removed), "{removed}");
    backend.sweep_expired();
    assert_eq!(expired(&backend, "seen").by_sweep, removed, "no access, no sweep");
    Ok(())
}

#[test]
fn lists_and_maps_that_are_only_written_stop_growing() -> Result {
    for asynchronous in [true, false] {
        let (mut backend, clock) = backend(asynchronous);
        let config = ttl(1000);
        let list = backend.with_ttl(&config).list::<u64>("list")?;
        let map = backend.with_ttl(&config).map::<u64, String>("map")?;
        for step in 0..2000u64 {
            clock.set(step as i64 * 10);
            list.add(&at(&(step % 7)), step)?;
            map.put(&at(&(step % 7)), step, format!("{step}"))?;
            backend.sweep_expired();
        }
        let (mut items, mut entries) = (0, 0);
        clock.set(0); // nothing more expires
        for key in 0..7u64 {
            items += list.get(&at(&key))?.len();
            map.for_each(&at(&key), |_, _| entries += 1)?;
        }
        assert!((100..=110).contains(&items) && (100..=110).contains(&entries), "{items} {entries}");
        assert_eq!(expired(&backend, "list").by_sweep, 2000 - items as u64);
        assert_eq!(expired(&backend, "map").by_sweep, 2000 - entries);
        // keys that are not written any more go as a whole
        clock.set(100_000);
        for _ in 0..10 {
            list.clear(&at(&0))?;
            map.clear(&at(&0))?;
            backend.sweep_expired();
        }
        assert!(backend.state_sizes().iter().all(|size| size.entries == 0));
    }
    Ok(())
}

#[test]
fn what_was_swept_does_not_come_back_with_an_incremental_checkpoint() -> Result<(), Box<dyn Error>> {
    let store = MemorySnapshotStore::unlimited();
    let options = BackendOptions::new(groups(), groups().all()).incremental(true);
    let (mut backend, clock) = (HeapKeyedStateBackend::new(options), TestClock::default());
    clock.give(&mut backend);
    let config = ttl(1000);
    let state = backend.with_ttl(&config).value::<u64>("seen")?;
    let list = backend.with_ttl(&config).list::<u64>("list")?;
    let mut snapshot = None;
    for batch in 0..200u64 {
        clock.set(batch as i64 * 20);
        for n in 0..100 {
            state.set(&at(&(batch * 100 + n)), batch)?;
        }
        list.add(&at(&(batch % 10)), batch)?;
        backend.sweep_expired();
        if batch % 10 == 9 {
            let id = CheckpointId(batch);
            snapshot = Some(backend.freeze_checkpoint(id)?.write(&store, "n")?);
            backend.checkpoint_completed(id);
        }
    }
    let snapshot = snapshot.ok_or("a checkpoint")?;
    let mut again = HeapKeyedStateBackend::new(options);
    // nothing expires: what is there is what the checkpoint held
    TestClock::default().give(&mut again);
    again.restore_snapshot(&snapshot, &store)?;
    let restored =
        (again.with_ttl(&config).value::<u64>("seen")?, again.with_ttl(&config).list::<u64>("list")?);
    clock.set(0);
    for key in 0..20_000u64 {
        assert_eq!(restored.0.get(&at(&key))?, state.get(&at(&key))?, "{key}");
    }
    for key in 0..10u64 {
        assert_eq!(restored.1.get(&at(&key))?, list.get(&at(&key))?, "{key}");
    }
    assert!(expired(&backend, "seen").by_sweep > 10_000 && expired(&backend, "list").by_sweep > 50);
    Ok(())
}
