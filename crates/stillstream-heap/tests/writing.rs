//! How a snapshot reaches its store: few large writes, sections in order, and nothing left behind by a
//! failure.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stillstream_heap::HeapKeyedStateBackend;
use stillstream_state::{
    BackendOptions, CurrentKey, Data, Key, KeyedBackend, KeyedValues, MemorySnapshotStore, StateError,
    TimeDomain, TimerService, snapshot,
};
use stillstream_types::streams::{SnapshotStore, SnapshotStream};
use stillstream_types::{ErrorKind, KeyGroups, StreamHandle, Timestamp};

/// Counts writes, and fails at one of them.
#[derive(Debug, Default, Clone)]
struct Watched {
    inner: MemorySnapshotStore,
    writes: Arc<AtomicUsize>,
    finished: Arc<AtomicUsize>,
    fail_at: Option<usize>,
}

struct WatchedStream {
    inner: Box<dyn SnapshotStream>,
    store: Watched,
}

impl Write for WatchedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.store.writes.fetch_add(1, Ordering::Relaxed);
        match self.store.fail_at == Some(n) {
            true => Err(io::Error::other("the disk is full")),
            false => self.inner.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl SnapshotStream for WatchedStream {
    fn finish(self: Box<Self>) -> io::Result<StreamHandle> {
        self.store.finished.fetch_add(1, Ordering::Relaxed);
        self.inner.finish()
    }
}

impl SnapshotStore for Watched {
    fn create(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        Ok(Box::new(WatchedStream { inner: self.inner.create(name)?, store: self.clone() }))
    }
    fn read(&self, handle: &StreamHandle, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        self.inner.read(handle, offset, len)
    }
    fn read_all(&self, handle: &StreamHandle) -> io::Result<Vec<u8>> {
        self.inner.read_all(handle)
    }
}

const KEYS: u64 = 60_000;

fn filled() -> Result<(HeapKeyedStateBackend<u64>, KeyGroups), StateError> {
    let groups = KeyGroups::new(4);
    let mut backend = HeapKeyedStateBackend::new(BackendOptions::new(groups, groups.all()));
    let (large, small) = (backend.value::<String>("large")?, backend.list::<u8>("small")?);
    let timers = backend.timers::<()>("timers", TimeDomain::EventTime)?;
    for key in 0..KEYS {
        let ctx = CurrentKey::new(&key, key.key_hash(groups));
        large.set(&ctx, format!("{key:0>100}"))?;
        if key % 3 == 0 {
            small.add(&ctx, 1)?;
            timers.register(Timestamp::from_millis(key as i64 % 99), ctx.hash, &key, ())?;
        }
    }
    // one value larger than any buffer
    small.update(&CurrentKey::new(&0u64, 0u64.key_hash(groups)), vec![7; 3 << 20])?;
    Ok((backend, groups))
}

#[test]
fn a_snapshot_is_written_in_few_large_writes_with_all_sections_side_by_side() -> Result<(), StateError> {
    let (mut backend, groups) = filled()?;
    let store = Watched::default();
    let handles = backend.freeze()?.write(&store, "state")?;
    let (writes, len) = (store.writes.load(Ordering::Relaxed), handles[0].stream.len());
    assert!(len > 10_000_000 && (writes as u64) < len / 400_000, "{writes} writes for {len} bytes");

    let sections = &handles[0].sections;
    assert_eq!(sections.iter().map(|s| s.group.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let mut offset = handles[0].header_len;
    for section in sections {
        assert_eq!(section.offset, offset);
        offset += section.len;
    }
    assert_eq!(offset, len);

    let contents = snapshot::inspect(&handles[0], &store)?;
    let entries = |name: &str| contents.states.iter().find(|s| s.meta.name == name).map(|s| s.entries);
    assert_eq!(entries("large"), Some(KEYS));
    assert_eq!(entries("small"), Some(KEYS / 3));
    assert_eq!(entries("_timer_state/event_timers"), Some(KEYS / 3));
    let bytes: u64 = contents.states.iter().map(|s| s.total_bytes()).sum();
    assert!(bytes < len && bytes > len - 10_000, "what is not payload is little");

    let mut again = HeapKeyedStateBackend::<u64>::new(BackendOptions::new(groups, groups.all()));
    again.restore(&handles, &store)?;
    let (large, small) = (again.value::<String>("large")?, again.list::<u8>("small")?);
    for key in 0..KEYS {
        let ctx = CurrentKey::new(&key, key.key_hash(groups));
        assert_eq!(large.get(&ctx)?, Some(format!("{key:0>100}")));
        let expected = if key == 0 { 3 << 20 } else { (key % 3 == 0) as usize };
        assert_eq!(small.get(&ctx)?.len(), expected);
    }
    assert_eq!(again.timers::<()>("timers", TimeDomain::EventTime)?.len()? as u64, KEYS / 3);
    Ok(())
}

#[test]
fn a_failing_write_is_an_error_that_a_restart_may_help_and_the_backend_goes_on() -> Result<(), StateError> {
    let (mut backend, _) = filled()?;
    let whole = Watched::default();
    backend.freeze()?.write(&whole, "state")?;
    let writes = whole.writes.load(Ordering::Relaxed);
    for fail_at in 0..writes {
        let store = Watched { fail_at: Some(fail_at), ..Watched::default() };
        let error = backend.freeze()?.write(&store, "state").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage);
        let text = error.to_string();
        assert!(text.contains("`state`") && text.contains("the disk is full"), "{text}");
        assert_eq!(store.finished.load(Ordering::Relaxed), 0);
    }
    let again = backend.freeze()?.write(&Watched::default(), "state")?;
    assert!(again[0].stream.len() > 10_000_000);
    Ok(())
}

fn numbers_come_back<K: Key, V: Data + PartialEq + std::fmt::Debug>(
    key: impl Fn(u32) -> K,
    value: impl Fn(u32) -> V,
) -> Result<(), StateError> {
    const COUNT: u32 = 20_000;
    let groups = KeyGroups::new(4);
    let backend = || HeapKeyedStateBackend::<K>::new(BackendOptions::new(groups, groups.all()));
    let mut old = backend();
    let numbers = old.keyed_value::<V>("numbers")?;
    for n in 0..COUNT {
        numbers.insert(key(n).key_hash(groups), &key(n), value(n))?;
    }
    // slots that are free again still hold what they held
    for n in (0..COUNT).filter(|n| n % 5 == 0) {
        numbers.remove(key(n).key_hash(groups), &key(n))?;
    }
    let store = MemorySnapshotStore::default();
    let handles = old.freeze()?.write(&store, "state")?;
    let mut entry = Vec::new();
    key(1).encode(&mut entry);
    value(1).encode(&mut entry);
    let payload: u64 = snapshot::inspect(&handles[0], &store)?.states.iter().map(|s| s.total_bytes()).sum();
    assert_eq!(payload, entry.len() as u64 * u64::from(COUNT / 5 * 4));

    let mut new = backend();
    new.restore(&handles, &store)?;
    let numbers = new.keyed_value::<V>("numbers")?;
    assert_eq!(numbers.len()?, COUNT as usize / 5 * 4);
    for n in 0..COUNT {
        let expected = (n % 5 != 0).then(|| value(n));
        assert_eq!(numbers.get(key(n).key_hash(groups), &key(n))?, expected);
    }
    Ok(())
}

#[test]
fn numbers_of_every_width_come_back_from_a_snapshot_as_they_were() -> Result<(), StateError> {
    numbers_come_back(|n| u64::from(n) << 33, |n| u64::MAX - u64::from(n))?;
    numbers_come_back(|n| n as u16, |n| n as i8)?;
    numbers_come_back(|n| n, |n| i128::from(n) << 70)?;
    numbers_come_back(|n| -i64::from(n), |n| n as f32 / 3.0)?;
    numbers_come_back(u128::from, |_| ())?;
    numbers_come_back(|n| -(n as i32), |n| f64::from(n).sqrt())?;
    // these are written one by one
    numbers_come_back(|n| (n, n as u8), |n| n % 2 == 0)?;
    numbers_come_back(|n| n, |n| Some(u64::from(n)))
}

#[test]
fn a_handle_whose_sections_lie_beyond_all_bounds_is_an_error() -> Result<(), StateError> {
    let groups = KeyGroups::new(4);
    let mut backend = HeapKeyedStateBackend::<u64>::new(BackendOptions::new(groups, groups.all()));
    let numbers = backend.keyed_value::<u64>("numbers")?;
    for key in 0..100u64 {
        numbers.insert(key.key_hash(groups), &key, key)?;
    }
    let store = MemorySnapshotStore::default();
    let whole = backend.freeze()?.write(&store, "state")?.remove(0);
    snapshot::inspect(&whole, &store)?;
    let extremes = [u64::MAX, u64::MAX - 1, 1 << 63, 0];
    for at in 0..whole.sections.len() {
        for (offset, len) in extremes.iter().flat_map(|offset| extremes.map(|len| (*offset, len))) {
            let mut handle = whole.clone();
            (handle.sections[at].offset, handle.sections[at].len) = (offset, len);
            assert!(snapshot::inspect(&handle, &store).is_err(), "section {at} at {offset} with {len} bytes");
        }
    }
    let mut handle = whole;
    handle.header_len = u64::MAX;
    assert!(snapshot::inspect(&handle, &store).is_err());
    Ok(())
}
