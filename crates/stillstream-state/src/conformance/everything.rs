//! A backend with a state of every kind, and what it holds as plain entries that can be compared.

use std::ops::ControlFlow;
use std::time::Duration;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{KeyGroupRange, KeyGroups, KeyedStateHandle, Timestamp};

use super::kinds::Mean;
use super::{STORE, at, groups, save};
use crate::backend::BackendFactory;
use crate::data::Schema;
use crate::snapshot::for_each_entry;
use crate::{
    AggregatingState, Data, Key, KeyedBackend, ListState, MapState, NamespacedValues, ReducingState,
    StateClock, StateError, StateKind, StateTtlConfig, TimeDomain, TimerService, ValueState,
};

/// A state of every kind, keyed by strings: each with and without a time to live, windows, and timers of both
/// clocks.
#[derive(Debug)]
pub struct Everything<B: KeyedBackend<Key = String>> {
    /// The backend itself.
    pub backend: B,
    plain: Kinds,
    expiring: Kinds,
    windows: B::Namespaced<i64, u64>,
    event: B::Timers<i64>,
    processing: B::Timers<i64>,
}

/// The kinds that exist with a time to live too.
#[derive(Debug)]
struct Kinds {
    value: ValueState<Option<f64>>,
    list: ListState<(bool, String)>,
    map: MapState<String, u16>,
    sum: ReducingState<u64>,
    mean: AggregatingState<u64, f64>,
}

/// When everything is touched: milliseconds since 1970.
const NOW: i64 = 1_000_000;

fn add(sum: &mut u64, n: u64) {
    *sum += n;
}

impl Kinds {
    fn set(&self, key: &String, n: u64) -> Result<(), StateError> {
        let ctx = at(key);
        self.value.set(&ctx, n.is_multiple_of(2).then_some(n as f64))?;
        self.list.update(&ctx, (0..n % 4).map(|item| (item == 1, format!("{key} {n}"))).collect())?;
        self.map.put(&ctx, format!("map key {}", n % 7), n as u16)?;
        self.map.put(&ctx, "same".into(), 1)?;
        self.sum.add(&ctx, n)?;
        self.mean.add(&ctx, n)
    }

    fn clear(&self, key: &String) -> Result<(), StateError> {
        let ctx = at(key);
        self.value.clear(&ctx)?;
        self.list.clear(&ctx)?;
        self.map.clear(&ctx)?;
        self.sum.clear(&ctx)?;
        self.mean.clear(&ctx)
    }
}

impl<B: KeyedBackend<Key = String>> Everything<B> {
    /// Registers all states in a backend, before or after a restore.
    pub fn register(mut backend: B) -> Result<Self, StateError> {
        let ttl = StateTtlConfig::new(Duration::from_secs(3600));
        let plain = Kinds {
            value: backend.value("value")?,
            list: backend.list("list")?,
            map: backend.map("map")?,
            sum: backend.reducing("sum", add)?,
            mean: backend.aggregating("mean", Mean)?,
        };
        let mut with_ttl = backend.with_ttl(&ttl);
        let expiring = Kinds {
            value: with_ttl.value("expiring-value")?,
            list: with_ttl.list("expiring-list")?,
            map: with_ttl.map("expiring-map")?,
            sum: with_ttl.reducing("expiring-sum", add)?,
            mean: with_ttl.aggregating("expiring-mean", Mean)?,
        };
        let windows = backend.namespaced("windows")?;
        let event = backend.timers("timers", TimeDomain::EventTime)?;
        let processing = backend.timers("timers", TimeDomain::ProcessingTime)?;
        Ok(Self { backend, plain, expiring, windows, event, processing })
    }

    /// Changes all states of a key; `n` says to what. Values that fold go on from what they were.
    pub fn set(&mut self, key: &String, n: u64) -> Result<(), StateError> {
        self.plain.set(key, n)?;
        self.expiring.set(key, n)?;
        let (hash, window) = (at(key).hash, n as i64 % 3 * 1000);
        self.windows.update(window, hash, key, || 0, |sum| *sum += n)?;
        self.event.register(Timestamp::from_millis(n as i64 % 50), hash, key, window)?;
        self.processing.register(Timestamp::from_millis(-(n as i64)), hash, key, 0)?;
        Ok(())
    }

    /// Removes all that a key has, but for windows and timers other than those that `set` made with this `n`.
    pub fn clear(&mut self, key: &String, n: u64) -> Result<(), StateError> {
        self.plain.clear(key)?;
        self.expiring.clear(key)?;
        let (hash, window) = (at(key).hash, n as i64 % 3 * 1000);
        self.windows.remove(window, hash, key)?;
        self.event.delete(Timestamp::from_millis(n as i64 % 50), hash, key, window)?;
        self.processing.delete(Timestamp::from_millis(-(n as i64)), hash, key, 0)?;
        Ok(())
    }

    /// What it says of a key when it is asked, timers aside, which have no look-up.
    pub fn ask(&self, key: &String) -> Result<String, StateError> {
        let ctx = at(key);
        let mut said = Vec::new();
        for kinds in [&self.plain, &self.expiring] {
            let (value, list, mut map) =
                (kinds.value.get(&ctx)?, kinds.list.get(&ctx)?, kinds.map.entries(&ctx)?);
            map.sort();
            said.push(format!(
                "{value:?} {list:?} {map:?} {:?} {:?}",
                kinds.sum.get(&ctx)?,
                kinds.mean.get(&ctx)?
            ));
        }
        for window in [0, 1000, 2000] {
            said.push(format!("{:?}", self.windows.get(window, ctx.hash, key)?));
        }
        Ok(said.join(" "))
    }

    /// All entries of all states, in an order that does not depend on the backend.
    pub fn entries(&mut self) -> Result<Vec<PlainEntry>, StateError> {
        entries(&save(&mut self.backend)?, &STORE)
    }
}

/// An empty backend for the key groups of `range`, at a time that stands still.
pub fn backend_of<F: BackendFactory>(
    factory: &F,
    range: KeyGroupRange,
) -> Result<F::Backend<String>, StateError> {
    let mut backend = factory.create::<String>(groups(), range)?;
    backend.set_clock(StateClock::new(|| NOW));
    Ok(backend)
}

/// The key groups of all backends here.
pub fn all_groups() -> KeyGroups {
    groups()
}

/// One entry of one state, in its binary form. The entries of a map are sorted: the form leaves their order
/// open.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PlainEntry {
    /// The state.
    pub state: String,
    /// The key group.
    pub group: u16,
    /// The key.
    pub key: Vec<u8>,
    /// Its namespace, or nothing.
    pub namespace: Vec<u8>,
    /// When a timer fires.
    pub time: Option<i64>,
    /// The value; nothing for a timer.
    pub value: Vec<u8>,
}

/// All entries of snapshots in canonical form, sorted. An entry that is in two of them is there twice.
pub fn entries(
    handles: &[KeyedStateHandle],
    store: &dyn SnapshotStore,
) -> Result<Vec<PlainEntry>, StateError> {
    let mut found = Vec::new();
    for handle in handles {
        for_each_entry(handle, store, &mut |entry| {
            let value = match (entry.state.kind, &entry.state.value) {
                (StateKind::Map, Schema::Map(key, value)) => sorted(key, value, entry.value),
                _ => entry.value.to_vec(),
            };
            found.push(PlainEntry {
                state: entry.state.name.clone(),
                group: entry.group.0,
                key: entry.key.to_vec(),
                namespace: entry.namespace.to_vec(),
                time: entry.time,
                value,
            });
            ControlFlow::Continue(())
        })?;
    }
    found.sort();
    Ok(found)
}

/// The binary form of a map with its entries sorted by their bytes.
fn sorted(key: &Schema, value: &Schema, bytes: &[u8]) -> Vec<u8> {
    let mut input = bytes;
    let count = u32::decode(&mut input).unwrap_or_else(|error| panic!("a map's length: {error}"));
    let mut entries = Vec::new();
    for _ in 0..count {
        let start = input;
        for part in [key, value] {
            part.skip(&mut input).unwrap_or_else(|error| panic!("a map's entry: {error}"));
        }
        entries.push(&start[..start.len() - input.len()]);
    }
    entries.sort_unstable();
    let mut out = Vec::new();
    count.encode(&mut out);
    entries.into_iter().for_each(|entry| out.extend_from_slice(entry));
    assert!(input.is_empty(), "{} bytes are left over behind a map", input.len());
    out
}

/// Which of the keys belong to a subtask.
pub(super) fn keys_of(keys: &[String], range: KeyGroupRange) -> impl Iterator<Item = (u64, &String)> {
    let numbered = keys.iter().enumerate().map(|(n, key)| (n as u64, key));
    numbered.filter(move |(_, key)| range.contains(key.key_hash(groups()).group()))
}
