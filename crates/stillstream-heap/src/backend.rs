//! [`HeapKeyedStateBackend`]: the keyed state of one subtask in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use stillstream_data::{Data, DecodeError, Key, Schema};
use stillstream_state::backend::{
    BackendFactory, BackendOptions, FrozenCheckpoint, KeyedBackend, Namespace, Registry, StateSize,
};
use stillstream_state::kinds::{ListStore, MapEntries, MapStore, StateKind, TimeDomain, ValueStore};
use stillstream_state::snapshot::{
    ChainMeta, Chunk, DeltaHeader, DeltaState, FrozenKeyedState, Header, RestoredKeyedState, Run, SiftedRun,
};
use stillstream_state::ttl::{Expire, Rule, Rules, Stamped, stamping_at};
use stillstream_state::{StateError, StateMeta};
use stillstream_table::AHEAD;
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, KeyGroupRange, KeyGroups, KeyHash, KeyedSnapshot, KeyedStateHandle};

use crate::chain::{Chain, Freezing, can_chain};
use crate::keyed::{HeapValues, KeyedTable};
use crate::namespaced::{HeapNamespaced, NamespacedTable};
use crate::sweep::{Sweep, Sweeper};
use crate::timers::{HeapTimers, TimerQueue};

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
    /// Asks for memory that later look-ups of a batch will read; see
    /// [`Table::prefetch_group`](stillstream_table::Table::prefetch_group).
    fn prefetch_group(&self, _: &[KeyHash], _: usize) {}
}

/// Makes backends in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapBackendFactory {
    /// Whether processing goes on while a snapshot is written. The default is yes.
    pub asynchronous: bool,
    /// Whether a checkpoint writes only what changed since the last completed one. The default is no.
    pub incremental: bool,
}

impl Default for HeapBackendFactory {
    fn default() -> Self {
        Self { asynchronous: true, incremental: false }
    }
}

impl BackendFactory for HeapBackendFactory {
    type Backend<K: Key> = HeapKeyedStateBackend<K>;

    fn for_subtask(&self, _: u64, _: &[&str]) -> Self {
        *self
    }

    fn create<K: Key>(
        &self,
        groups: KeyGroups,
        range: KeyGroupRange,
    ) -> Result<HeapKeyedStateBackend<K>, StateError> {
        let options = BackendOptions::new(groups, range);
        Ok(HeapKeyedStateBackend::new(options.asynchronous(self.asynchronous).incremental(self.incremental)))
    }
}

/// Keyed state in memory (Flink's `HeapKeyedStateBackend`): of the memory and the filesystem state backend.
///
/// ```
/// use stillstream_heap::HeapKeyedStateBackend;
/// use stillstream_state::{BackendOptions, CurrentKey, Key, KeyedBackend};
/// use stillstream_types::KeyGroups;
///
/// let groups = KeyGroups::new(128);
/// let mut backend = HeapKeyedStateBackend::<String>::new(BackendOptions::new(groups, groups.all()));
/// let seen = backend.value::<u64>("seen")?;
///
/// let key = "JFK".to_string();
/// let ctx = CurrentKey::new(&key, key.key_hash(groups)); // a function's context knows its key
/// seen.set(&ctx, 1)?;
/// seen.update(&ctx, || 0, |n| *n += 1)?;
/// assert_eq!(seen.get(&ctx)?, Some(2));
/// # Ok::<(), stillstream_state::StateError>(())
/// ```
pub struct HeapKeyedStateBackend<K> {
    options: BackendOptions,
    registered: Registry<Rc<dyn HeapState>>,
    restored: RestoredKeyedState,
    /// Only with incremental checkpoints.
    chain: Option<Chain>,
    rules: Rules,
    /// States with a time to live, by name.
    sweepers: BTreeMap<String, Box<dyn Sweep>>,
    key: PhantomData<fn(K)>,
}

impl<K> fmt::Debug for HeapKeyedStateBackend<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeapKeyedStateBackend")
            .field("options", &self.options)
            .field("states", &self.registered)
            .finish()
    }
}

impl<K: Key> HeapKeyedStateBackend<K> {
    /// An empty backend.
    pub fn new(options: BackendOptions) -> Self {
        Self {
            options,
            registered: Registry::default(),
            restored: RestoredKeyedState::default(),
            // plain maps do not know what changed
            chain: (options.incremental && options.asynchronous).then(Chain::new),
            rules: Rules::default(),
            sweepers: BTreeMap::new(),
            key: PhantomData,
        }
    }

    /// The state under this name: registered before with the same types, or made now and filled from the
    /// snapshot.
    fn register<S: HeapState + 'static>(
        &mut self,
        meta: StateMeta,
        make: impl FnOnce(&str, &BackendOptions) -> S,
    ) -> Result<Rc<S>, StateError> {
        if let Some(known) = self.registered.find(&meta)? {
            return Ok(known);
        }
        let state = Rc::new(make(&meta.name, &self.options));
        if let Some(parts) = self.restored.states.get(&meta.name) {
            stamping_at(self.rules.clock.now_ms(), || {
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
        self.registered.add(meta, &state, state.clone());
        Ok(state)
    }

    fn table<V: Data>(&mut self, name: &str, kind: StateKind) -> Result<Rc<KeyedTable<K, V>>, StateError> {
        self.register(StateMeta::of::<(), V>(name, kind), KeyedTable::new)
    }

    /// The table of a state with a time to live.
    fn expiring<V: Expire>(
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

    /// Freezes everything, or with `delta` what may have changed.
    fn freeze_all(&mut self, how: &mut Freezing<'_>, delta: bool) -> Result<FrozenKeyedState, StateError> {
        let mut header = Header {
            key: K::schema(),
            max_parallelism: self.options.groups.max_parallelism(),
            states: Vec::new(),
        };
        let mut runs = Vec::new();
        for (meta, state) in self.registered.iter() {
            let first = runs.len();
            state.freeze(header.states.len() as u16, how, &mut runs)?;
            let rule = self.rules.get(&meta.name).filter(|rule| rule.config.leaves_out_of_snapshots());
            // what changed is told from digests of all that a table holds
            if let (Some(rule), Freezing::Canonical) = (rule, &how) {
                let cutoff = rule.cutoff();
                let sift = |entries| SiftedRun::wrap(entries, K::schema(), meta, cutoff);
                let new = runs.drain(first..).map(|run| Run { entries: sift(run.entries), ..run });
                let new: Vec<Run> = new.collect();
                runs.extend(new);
            }
            header.states.push(meta.clone());
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

    /// The synchronous part of a checkpoint. A `full` one begins a new chain, on which later ones build.
    fn freeze_link(&mut self, id: CheckpointId, full: bool) -> Result<FrozenCheckpoint, StateError> {
        if self.restored.states.values().flatten().any(|part| !can_chain(&part.meta)) {
            self.chain = None;
        }
        let Some(mut link) = self.chain.as_mut().map(|chain| chain.freeze(id, full)) else {
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
            let known = self.registered.get(&meta.name).is_some_and(|(known, _)| known == meta);
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
}

impl<K: Key> KeyedBackend for HeapKeyedStateBackend<K> {
    type Key = K;
    type KeyedValue<V: Data> = HeapValues<K, V>;
    type Namespaced<N: Namespace, V: Data> = HeapNamespaced<K, N, V>;
    type Timers<N: Namespace> = HeapTimers<K, N>;

    fn options(&self) -> &BackendOptions {
        &self.options
    }

    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn rules_mut(&mut self) -> &mut Rules {
        &mut self.rules
    }

    fn register_values<V: Data>(
        &mut self,
        name: &str,
        kind: StateKind,
    ) -> Result<Rc<dyn ValueStore<V>>, StateError> {
        Ok(self.table::<V>(name, kind)?)
    }

    fn register_lists<V: Data>(&mut self, name: &str) -> Result<Rc<dyn ListStore<V>>, StateError> {
        Ok(self.table::<Vec<V>>(name, StateKind::List)?)
    }

    fn register_maps<MK: Key, MV: Data>(
        &mut self,
        name: &str,
    ) -> Result<Rc<dyn MapStore<MK, MV>>, StateError> {
        Ok(self.table::<MapEntries<MK, MV>>(name, StateKind::Map)?)
    }

    fn register_expiring_values<V: Data>(
        &mut self,
        name: &str,
        kind: StateKind,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn ValueStore<Stamped<V>>>, StateError> {
        Ok(self.expiring::<Stamped<V>>(name, kind, rule)?)
    }

    fn register_expiring_lists<V: Data>(
        &mut self,
        name: &str,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn ListStore<Stamped<V>>>, StateError> {
        Ok(self.expiring::<Vec<Stamped<V>>>(name, StateKind::List, rule)?)
    }

    fn register_expiring_maps<MK: Key, MV: Data>(
        &mut self,
        name: &str,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn MapStore<MK, Stamped<MV>>>, StateError> {
        Ok(self.expiring::<MapEntries<MK, Stamped<MV>>>(name, StateKind::Map, rule)?)
    }

    fn keyed_value<V: Data>(&mut self, name: &str) -> Result<HeapValues<K, V>, StateError> {
        Ok(HeapValues(self.table(name, StateKind::Value)?))
    }

    fn namespaced<N: Namespace, V: Data>(
        &mut self,
        name: &str,
    ) -> Result<HeapNamespaced<K, N, V>, StateError> {
        let meta = StateMeta::of::<N, V>(name, StateKind::Value);
        Ok(HeapNamespaced(self.register(meta, NamespacedTable::new)?))
    }

    fn timers<N: Namespace>(
        &mut self,
        name: &str,
        domain: TimeDomain,
    ) -> Result<HeapTimers<K, N>, StateError> {
        let meta = StateMeta::of_timers::<N>(name, domain);
        Ok(HeapTimers(self.register(meta, |_, options| TimerQueue::new(options.groups))?))
    }

    #[inline]
    fn prefetch(&self, hashes: &[KeyHash], at: usize) {
        if at.is_multiple_of(AHEAD) {
            self.registered.states().for_each(|state| state.prefetch_group(hashes, at));
        }
    }

    fn sweep_expired(&self) {
        self.sweepers.values().for_each(|sweeper| sweeper.sweep());
    }

    fn freeze_checkpoint(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        self.freeze_link(id, false)
    }

    fn freeze_full(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        self.freeze_link(id, true)
    }

    fn checkpoint_completed(&mut self, id: CheckpointId) {
        self.chain.iter_mut().for_each(|chain| chain.completed(id));
    }

    fn checkpoint_aborted(&mut self, id: CheckpointId) {
        self.chain.iter_mut().for_each(|chain| chain.aborted(id));
    }

    fn restore_snapshot(
        &mut self,
        snapshot: &KeyedSnapshot,
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError> {
        let (groups, range) = (self.options.groups, self.options.range);
        let restored = RestoredKeyedState::read_snapshot::<K>(snapshot, store, groups, range)?;
        let fresh =
            self.restored.states.is_empty() && self.registered.states().all(|state| state.size().0 == 0);
        self.take_over(restored)?;
        let ([], [handle]) = (&snapshot.keyed[..], &snapshot.incremental[..]) else { return Ok(()) };
        let own = store.owns_shared() && handle.files.iter().all(|file| file.stream.is_shared());
        if let Some(chain) = self.chain.as_mut().filter(|_| fresh && own && handle.range == range) {
            chain.restored(handle, ChainMeta::read(handle, store)?);
            if let Some(serial) = chain.restored_serial() {
                self.registered.states().for_each(|state| state.mark(serial));
            }
        }
        Ok(())
    }

    fn freeze(&mut self) -> Result<FrozenKeyedState, StateError> {
        self.freeze_all(&mut Freezing::Canonical, false)
    }

    fn restore(&mut self, handles: &[KeyedStateHandle], store: &dyn SnapshotStore) -> Result<(), StateError> {
        let restored =
            RestoredKeyedState::read::<K>(handles, store, self.options.groups, self.options.range)?;
        self.take_over(restored)
    }

    fn take_over(&mut self, restored: RestoredKeyedState) -> Result<(), StateError> {
        self.chain.iter_mut().for_each(Chain::break_off);
        for (name, parts) in restored.states {
            match self.registered.get(&name) {
                Some((meta, state)) => stamping_at(self.rules.clock.now_ms(), || {
                    let load = |chunk: &_, migrate: Option<&_>| state.load(chunk, migrate);
                    parts.iter().try_for_each(|part| part.load(meta, load))
                })?,
                None => self.restored.states.entry(name).or_default().extend(parts),
            }
        }
        Ok(())
    }

    fn unregistered(&self) -> Vec<String> {
        self.restored.states.keys().cloned().collect()
    }

    fn state_sizes(&self) -> Vec<StateSize> {
        let size = |(meta, state): (&StateMeta, &Rc<dyn HeapState>)| {
            let (entries, memory_bytes) = state.size();
            StateSize { name: meta.name.clone(), kind: meta.kind, entries, memory_bytes }
        };
        self.registered.iter().map(size).collect()
    }
}
