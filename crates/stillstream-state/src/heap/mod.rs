//! The heap backend: all keyed state in memory.

mod cells;
mod chain;
mod digest;
mod frozen_numbers;
mod frozen_run;
mod keyed;
mod namespaced;
mod plain;
mod space;
mod timers;

pub use timers::{TimeDomain, Timer};

#[cfg(feature = "rocksdb")]
pub(crate) use cells::hash_in;
pub(crate) use keyed::KeyedTable;
pub(crate) use namespaced::{HeapWalk, NamespacedTable};
pub(crate) use timers::TimerQueue;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, KeyHash, KeyedSnapshot, KeyedStateHandle};

use crate::StateError;
use crate::backend::{BackendOptions, FrozenCheckpoint, StateSize};
use crate::data::{Data, DecodeError, Key, Schema};
use crate::kinds::{
    Aggregate, AggregatingState, Fold, ListState, MapEntries, MapState, ReducingState, StateKind, ValueState,
};
use crate::meta::StateMeta;
use crate::snapshot::{
    ChainMeta, Chunk, DeltaHeader, DeltaState, FrozenKeyedState, Header, RestoredKeyedState, Run, SiftedRun,
};
use crate::table::AHEAD;
use crate::ttl::{Expire, Rule, Rules, Sweep, Sweeper, stamping_at};
use crate::typed::{KeyedValue, NamespacedValue, Timers};
use chain::{Chain, Freezing, can_chain};

/// One registered state, its types out of sight.
pub(crate) trait HeapState {
    /// The synchronous part of a snapshot.
    fn freeze(&self, state: u16, how: &mut Freezing<'_>, runs: &mut Vec<Run>) -> Result<(), StateError>;
    /// Notes that the state is now as freeze `serial` has it.
    fn mark(&self, serial: u64);
    /// Takes stored entries in; `migrate` is their schema if it is not the type's own.
    fn load(&self, chunk: &Chunk, migrate: Option<&Schema>) -> Result<(), DecodeError>;
    /// Number of entries, bytes of memory.
    fn size(&self) -> (usize, usize);
    /// Asks for memory that later look-ups of a batch will read; see [`Table::prefetch_group`](crate::table::Table::prefetch_group).
    fn prefetch_group(&self, _: &[KeyHash], _: usize) {}
}

struct Registered {
    meta: StateMeta,
    state: Rc<dyn HeapState>,
    // the same, for the next registration under this name
    typed: Rc<dyn Any>,
}

/// Keyed state in memory (Flink's `HeapKeyedStateBackend`): of the memory and the filesystem state backend.
pub struct HeapKeyedStateBackend<K> {
    options: BackendOptions,
    registered: BTreeMap<String, Registered>,
    restored: RestoredKeyedState,
    /// Only with incremental checkpoints.
    chain: Option<Chain>,
    pub(crate) ttl: Rules,
    /// States with a time to live, by name.
    sweepers: BTreeMap<String, Box<dyn Sweep>>,
    key: PhantomData<fn(K)>,
}

impl<K> fmt::Debug for HeapKeyedStateBackend<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapKeyedStateBackend")
            .field("options", &self.options)
            .field("states", &self.registered.values().map(|state| &state.meta).collect::<Vec<_>>())
            .finish()
    }
}

impl<K: Key> HeapKeyedStateBackend<K> {
    /// An empty backend.
    pub fn new(options: BackendOptions) -> Self {
        Self {
            options,
            registered: BTreeMap::new(),
            restored: RestoredKeyedState::default(),
            // plain maps do not know what changed
            chain: (options.incremental && options.asynchronous).then(Chain::new),
            ttl: Rules::default(),
            sweepers: BTreeMap::new(),
            key: PhantomData,
        }
    }

    /// How it was made.
    pub fn options(&self) -> &BackendOptions {
        &self.options
    }

    /// The state under this name: registered before with the same types, or made now and filled from the snapshot.
    fn register<S: HeapState + 'static>(
        &mut self,
        meta: StateMeta,
        make: impl FnOnce(&str, &BackendOptions) -> S,
    ) -> Result<Rc<S>, StateError> {
        if let Some(known) = self.registered.get(&meta.name) {
            return match known.typed.clone().downcast::<S>() {
                Ok(state) if known.meta == meta => Ok(state),
                _ => Err(StateError::NameTaken {
                    name: meta.name.clone(),
                    registered: known.meta.to_string(),
                    wanted: meta.to_string(),
                }),
            };
        }
        let state = Rc::new(make(&meta.name, &self.options));
        if let Some(parts) = self.restored.states.get(&meta.name) {
            stamping_at(self.ttl.clock.now_ms(), || {
                parts
                    .iter()
                    .try_for_each(|part| part.load(&meta, |chunk, migrate| state.load(chunk, migrate)))
            })?;
            if let Some(chain) = &mut self.chain {
                match chain.restored_serial() {
                    // what the chain's files hold has another form now
                    _ if parts.iter().any(|part| part.meta != meta) => chain.break_off(),
                    Some(serial) => state.mark(serial),
                    // a checkpoint has carried it on undecoded: nothing is known of what its files hold
                    None => chain.break_off(),
                }
            }
            self.restored.states.remove(&meta.name);
        }
        if !can_chain(&meta) {
            self.chain = None;
        }
        let registered = Registered { state: state.clone(), typed: state.clone(), meta };
        self.registered.insert(registered.meta.name.clone(), registered);
        Ok(state)
    }

    pub(crate) fn table<V: Data>(
        &mut self,
        name: &str,
        kind: StateKind,
    ) -> Result<Rc<KeyedTable<K, V>>, StateError> {
        let meta = StateMeta { name: name.into(), kind, namespace: <()>::schema(), value: V::schema() };
        self.register(meta, KeyedTable::new)
    }

    /// The table of a state with a time to live.
    pub(crate) fn expiring<V: Expire>(
        &mut self,
        name: &str,
        kind: StateKind,
        rule: &Arc<Rule>,
    ) -> Result<Rc<KeyedTable<K, V>>, StateError> {
        let table = self.table::<V>(name, kind)?;
        if !self.sweepers.contains_key(name) {
            self.sweepers.insert(name.into(), Box::new(Sweeper::new(table.clone(), rule.clone())));
        }
        Ok(table)
    }

    /// See [`KeyedStateBackend::sweep_expired`](crate::KeyedStateBackend::sweep_expired).
    pub(crate) fn sweep_expired(&self) {
        self.sweepers.values().for_each(|sweeper| sweeper.sweep());
    }

    /// See [`KeyedStateBackend::value`](crate::KeyedStateBackend::value).
    pub fn value<V: Data>(&mut self, name: &str) -> Result<ValueState<V>, StateError> {
        Ok(ValueState::new(self.table::<V>(name, StateKind::Value)?))
    }

    /// See [`KeyedStateBackend::list`](crate::KeyedStateBackend::list).
    pub fn list<V: Data>(&mut self, name: &str) -> Result<ListState<V>, StateError> {
        Ok(ListState::new(self.table::<Vec<V>>(name, StateKind::List)?))
    }

    /// See [`KeyedStateBackend::map`](crate::KeyedStateBackend::map).
    pub fn map<MK: Key, MV: Data>(&mut self, name: &str) -> Result<MapState<MK, MV>, StateError> {
        Ok(MapState::new(self.table::<MapEntries<MK, MV>>(name, StateKind::Map)?))
    }

    /// See [`KeyedStateBackend::reducing`](crate::KeyedStateBackend::reducing).
    pub fn reducing<V: Data>(
        &mut self,
        name: &str,
        reduce: impl Fn(&mut V, V) + 'static,
    ) -> Result<ReducingState<V>, StateError> {
        Ok(ReducingState::new(self.table::<V>(name, StateKind::Reducing)?, Rc::new(reduce)))
    }

    /// See [`KeyedStateBackend::aggregating`](crate::KeyedStateBackend::aggregating).
    pub fn aggregating<A: Aggregate>(
        &mut self,
        name: &str,
        aggregate: A,
    ) -> Result<AggregatingState<A::In, A::Out>, StateError> {
        let store = self.table::<A::Acc>(name, StateKind::Aggregating)?;
        Ok(AggregatingState::new(Rc::new(Fold { store, aggregate })))
    }

    /// See [`KeyedStateBackend::keyed_value`](crate::KeyedStateBackend::keyed_value).
    pub fn keyed_value<V: Data>(&mut self, name: &str) -> Result<KeyedValue<K, V>, StateError> {
        Ok(KeyedValue::over_heap(self.table(name, StateKind::Value)?))
    }

    /// See [`KeyedStateBackend::namespaced`](crate::KeyedStateBackend::namespaced).
    pub fn namespaced<N: Data + Ord + Copy, V: Data>(
        &mut self,
        name: &str,
    ) -> Result<NamespacedValue<K, N, V>, StateError> {
        let meta = StateMeta {
            name: name.into(),
            kind: StateKind::Value,
            namespace: N::schema(),
            value: V::schema(),
        };
        Ok(NamespacedValue::over_heap(self.register(meta, NamespacedTable::new)?))
    }

    /// See [`KeyedStateBackend::timers`](crate::KeyedStateBackend::timers).
    pub fn timers<N: Data + Ord + Copy>(
        &mut self,
        name: &str,
        domain: TimeDomain,
    ) -> Result<Timers<K, N>, StateError> {
        let meta = StateMeta {
            name: domain.state_name(name),
            kind: domain.kind(),
            namespace: N::schema(),
            value: <()>::schema(),
        };
        Ok(Timers::over_heap(self.register(meta, |_, options| TimerQueue::new(options.groups))?))
    }

    /// See [`KeyedStateBackend::prefetch`](crate::KeyedStateBackend::prefetch).
    #[inline]
    pub fn prefetch(&self, hashes: &[KeyHash], at: usize) {
        if at.is_multiple_of(AHEAD) {
            self.registered.values().for_each(|known| known.state.prefetch_group(hashes, at));
        }
    }

    /// See [`KeyedStateBackend::freeze_checkpoint`](crate::KeyedStateBackend::freeze_checkpoint).
    pub fn freeze_checkpoint(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        if self.restored.states.values().flatten().any(|part| !can_chain(&part.meta)) {
            self.chain = None;
        }
        let Some(mut link) = self.chain.as_mut().map(|chain| chain.freeze(id)) else {
            return Ok(self.freeze()?.into());
        };
        let delta = link.since().is_some();
        let frozen = match self.freeze_all(&mut Freezing::Checkpoint(&mut link), delta) {
            Ok(frozen) => frozen,
            Err(error) => {
                self.checkpoint_aborted(id);
                return Err(error);
            }
        };
        let states = frozen.header.states.iter().enumerate().map(|(at, meta)| {
            let known = self.registered.get(&meta.name).is_some_and(|known| known.meta == *meta);
            let runs = frozen.runs.iter().filter(|run| run.state as usize == at);
            let namespaces = || runs.map(|run| run.namespace.clone()).collect();
            let has_namespaces = meta.namespace != <()>::schema() && !meta.is_timers();
            // what is not registered is as it was restored, in all its namespaces
            DeltaState {
                whole: known && meta.is_timers(),
                namespaces: (known && has_namespaces).then(namespaces),
            }
        });
        let states = states.collect();
        Ok(FrozenCheckpoint::own(move |store, name| {
            let header = DeltaHeader { header: frozen.header.clone(), states };
            link.write(frozen, header, store, name)
        }))
    }

    /// See [`KeyedStateBackend::checkpoint_completed`](crate::KeyedStateBackend::checkpoint_completed).
    pub fn checkpoint_completed(&mut self, id: CheckpointId) {
        self.chain.iter_mut().for_each(|chain| chain.completed(id));
    }

    /// See [`KeyedStateBackend::checkpoint_aborted`](crate::KeyedStateBackend::checkpoint_aborted).
    pub fn checkpoint_aborted(&mut self, id: CheckpointId) {
        self.chain.iter_mut().for_each(|chain| chain.aborted(id));
    }

    /// See [`KeyedStateBackend::restore_snapshot`](crate::KeyedStateBackend::restore_snapshot).
    pub fn restore_snapshot(
        &mut self,
        snapshot: &KeyedSnapshot,
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError> {
        let (groups, range) = (self.options.groups, self.options.range);
        let restored = RestoredKeyedState::read_snapshot::<K>(snapshot, store, groups, range)?;
        let fresh = self.restored.states.is_empty()
            && self.registered.values().all(|known| known.state.size().0 == 0);
        self.take_over(restored)?;
        let ([], [handle]) = (&snapshot.keyed[..], &snapshot.incremental[..]) else { return Ok(()) };
        let own = store.owns_shared() && handle.files.iter().all(|file| file.stream.is_shared());
        if let Some(chain) = self.chain.as_mut().filter(|_| fresh && own && handle.range == range) {
            chain.restored(handle, ChainMeta::read(handle, store)?);
            if let Some(serial) = chain.restored_serial() {
                self.registered.values().for_each(|known| known.state.mark(serial));
            }
        }
        Ok(())
    }

    /// See [`KeyedStateBackend::freeze`](crate::KeyedStateBackend::freeze).
    pub fn freeze(&mut self) -> Result<FrozenKeyedState, StateError> {
        self.freeze_all(&mut Freezing::Canonical, false)
    }

    /// Freezes everything, or with `delta` what may have changed.
    fn freeze_all(&mut self, how: &mut Freezing<'_>, delta: bool) -> Result<FrozenKeyedState, StateError> {
        let mut header = Header {
            key: K::schema(),
            max_parallelism: self.options.groups.max_parallelism(),
            states: Vec::new(),
        };
        let mut runs = Vec::new();
        for known in self.registered.values() {
            let first = runs.len();
            known.state.freeze(header.states.len() as u16, how, &mut runs)?;
            let rule = self.ttl.get(&known.meta.name).filter(|rule| rule.config.leaves_out_of_snapshots());
            // what changed is told from digests of all that a table holds
            if let (Some(rule), Freezing::Canonical) = (rule, &how) {
                let cutoff = rule.cutoff();
                let sift = |entries| SiftedRun::wrap(entries, K::schema(), &known.meta, cutoff);
                let new = runs.drain(first..).map(|run| Run { entries: sift(run.entries), ..run });
                let new: Vec<Run> = new.collect();
                runs.extend(new);
            }
            header.states.push(known.meta.clone());
        }
        for part in self.restored.states.values_mut().flatten() {
            let state = match header.states.iter().position(|known| *known == part.meta) {
                Some(at) => at,
                None => {
                    header.states.push(part.meta.clone());
                    header.states.len() - 1
                }
            };
            if !delta {
                part.resolve::<K>(self.options.groups)?;
                runs.push(Run { state: state as u16, namespace: Vec::new(), entries: part.carried() });
            }
        }
        Ok(FrozenKeyedState { header, range: self.options.range, runs })
    }

    /// See [`KeyedStateBackend::restore`](crate::KeyedStateBackend::restore).
    pub fn restore(
        &mut self,
        handles: &[KeyedStateHandle],
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError> {
        let restored =
            RestoredKeyedState::read::<K>(handles, store, self.options.groups, self.options.range)?;
        self.take_over(restored)
    }

    /// See [`KeyedStateBackend::take_over`](crate::KeyedStateBackend::take_over).
    pub fn take_over(&mut self, restored: RestoredKeyedState) -> Result<(), StateError> {
        self.chain.iter_mut().for_each(Chain::break_off);
        for (name, parts) in restored.states {
            match self.registered.get(&name) {
                Some(known) => stamping_at(self.ttl.clock.now_ms(), || {
                    let load = |chunk: &_, migrate: Option<&_>| known.state.load(chunk, migrate);
                    parts.iter().try_for_each(|part| part.load(&known.meta, load))
                })?,
                None => self.restored.states.entry(name).or_default().extend(parts),
            }
        }
        Ok(())
    }

    /// See [`KeyedStateBackend::unregistered`](crate::KeyedStateBackend::unregistered).
    pub fn unregistered(&self) -> Vec<String> {
        self.restored.states.keys().cloned().collect()
    }

    /// See [`KeyedStateBackend::state_sizes`](crate::KeyedStateBackend::state_sizes).
    pub fn state_sizes(&self) -> Vec<StateSize> {
        self.registered
            .values()
            .map(|known| {
                let (entries, memory_bytes) = known.state.size();
                StateSize { name: known.meta.name.clone(), kind: known.meta.kind, entries, memory_bytes }
            })
            .collect()
    }
}
