//! [`KeyedStateBackend`]: where the keyed state of one operator in one subtask lives.

use std::fmt;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, KeyGroupRange, KeyGroups, KeyHash, KeyedSnapshot, KeyedStateHandle};

use crate::heap::{HeapKeyedStateBackend, TimeDomain};
use crate::kinds::{Aggregate, AggregatingState, ListState, MapState, ReducingState, StateKind, ValueState};
#[cfg(feature = "rocksdb")]
use crate::rocksdb::RocksDbKeyedStateBackend;
#[cfg(feature = "rocksdb")]
use crate::rocksdb_options::RocksDbOptions;
use crate::snapshot::{FrozenKeyedState, RestoredKeyedState};
use crate::ttl::{ExpiredEntries, Rules, StateClock, StateTtlConfig, WithTtl};
use crate::typed::{KeyedValue, NamespacedValue, Timers};
use crate::{Data, Key, StateError};

/// How a keyed backend is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackendOptions {
    /// Whether processing goes on while a snapshot is written (copy-on-write tables), or waits while it is encoded
    /// (plain maps). The default is asynchronous.
    pub asynchronous: bool,
    /// Whether a checkpoint writes only what changed since the last completed one, where backend and storage can do
    /// that. The default is no.
    pub incremental: bool,
    /// The job's key groups.
    pub groups: KeyGroups,
    /// The key groups of this subtask.
    pub range: KeyGroupRange,
}

impl BackendOptions {
    /// Asynchronous snapshots for this range.
    pub fn new(groups: KeyGroups, range: KeyGroupRange) -> Self {
        Self { asynchronous: true, incremental: false, groups, range }
    }

    /// Whether processing goes on while a snapshot is written.
    pub fn asynchronous(self, asynchronous: bool) -> Self {
        Self { asynchronous, ..self }
    }

    /// Whether a checkpoint writes only what changed since the last completed one.
    pub fn incremental(self, incremental: bool) -> Self {
        Self { incremental, ..self }
    }
}

/// How large a state is, so that one can say which one grows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateSize {
    /// The state's name.
    pub name: String,
    /// Its kind.
    pub kind: StateKind,
    /// Keys, keys by namespace, or timers.
    pub entries: usize,
    /// Bytes of the table; what values own elsewhere (strings, vectors) is not counted.
    pub memory_bytes: usize,
}

/// The asynchronous part of a checkpoint of keyed state; written on the snapshot pool.
pub struct FrozenCheckpoint(Form);

type WriteOwnForm = dyn FnOnce(&dyn SnapshotStore, &str) -> Result<KeyedSnapshot, StateError> + Send;

enum Form {
    Canonical(FrozenKeyedState),
    Own(Box<WriteOwnForm>),
}

impl fmt::Debug for FrozenCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Canonical(frozen) => frozen.fmt(f),
            Form::Own(_) => f.write_str("FrozenCheckpoint"),
        }
    }
}

impl From<FrozenKeyedState> for FrozenCheckpoint {
    fn from(frozen: FrozenKeyedState) -> Self {
        Self(Form::Canonical(frozen))
    }
}

impl FrozenCheckpoint {
    /// A snapshot in the backend's own form, which `write` writes.
    pub(crate) fn own(
        write: impl FnOnce(&dyn SnapshotStore, &str) -> Result<KeyedSnapshot, StateError> + Send + 'static,
    ) -> Self {
        Self(Form::Own(Box::new(write)))
    }

    /// Writes it to `store`; `name` tells a person what is inside. Blocks.
    pub fn write(self, store: &dyn SnapshotStore, name: &str) -> Result<KeyedSnapshot, StateError> {
        match self.0 {
            Form::Canonical(frozen) => {
                Ok(KeyedSnapshot { keyed: frozen.write(store, name)?, ..KeyedSnapshot::default() })
            }
            Form::Own(write) => write(store, name),
        }
    }
}

/// The keyed state of one operator in one subtask.
///
/// Registering a name twice gives the same state, if kind and types agree; otherwise it is an error that names both. After a
/// [`restore`](Self::restore), a registration takes the state over from the snapshot: types are checked there.
#[derive(Debug)]
#[non_exhaustive]
pub enum KeyedStateBackend<K> {
    /// In memory.
    Heap(HeapKeyedStateBackend<K>),
    /// In RocksDB.
    #[cfg(feature = "rocksdb")]
    RocksDb(RocksDbKeyedStateBackend<K>),
}

macro_rules! each {
    ($self:expr, $backend:ident => $call:expr) => {
        match $self {
            KeyedStateBackend::Heap($backend) => $call,
            #[cfg(feature = "rocksdb")]
            KeyedStateBackend::RocksDb($backend) => $call,
        }
    };
}

impl<K: Key> KeyedStateBackend<K> {
    /// A backend in memory.
    pub fn heap(options: BackendOptions) -> Self {
        Self::Heap(HeapKeyedStateBackend::new(options))
    }

    /// A backend in RocksDB, with a folder of its own.
    ///
    /// ```
    /// use stillstream_state::{BackendOptions, CurrentKey, Key, KeyedStateBackend, RocksDbOptions};
    /// use stillstream_types::KeyGroups;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path();
    /// let groups = KeyGroups::new(128);
    /// let options = BackendOptions::new(groups, groups.all()).incremental(true);
    /// let mut backend = KeyedStateBackend::<u64>::rocksdb(options, RocksDbOptions::new(folder))?;
    /// let seen = backend.value::<u64>("seen")?;
    /// seen.set(&CurrentKey::new(&7u64, 7u64.key_hash(groups)), 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the folder cannot be made.
    #[cfg(feature = "rocksdb")]
    pub fn rocksdb(options: BackendOptions, rocksdb: RocksDbOptions) -> Result<Self, StateError> {
        Ok(Self::RocksDb(RocksDbKeyedStateBackend::new(options, rocksdb)?))
    }

    /// How it was made.
    pub fn options(&self) -> &BackendOptions {
        each!(self, backend => backend.options())
    }

    /// One value per key.
    pub fn value<V: Data>(&mut self, name: &str) -> Result<ValueState<V>, StateError> {
        each!(self, backend => backend.value(name))
    }

    /// A list per key.
    pub fn list<V: Data>(&mut self, name: &str) -> Result<ListState<V>, StateError> {
        each!(self, backend => backend.list(name))
    }

    /// A map per key.
    pub fn map<MK: Key, MV: Data>(&mut self, name: &str) -> Result<MapState<MK, MV>, StateError> {
        each!(self, backend => backend.map(name))
    }

    /// One value per key, into which `reduce` folds each added value.
    pub fn reducing<V: Data>(
        &mut self,
        name: &str,
        reduce: impl Fn(&mut V, V) + 'static,
    ) -> Result<ReducingState<V>, StateError> {
        each!(self, backend => backend.reducing(name, reduce))
    }

    /// One accumulator per key.
    pub fn aggregating<A: Aggregate>(
        &mut self,
        name: &str,
        aggregate: A,
    ) -> Result<AggregatingState<A::In, A::Out>, StateError> {
        each!(self, backend => backend.aggregating(name, aggregate))
    }

    /// Makes states whose values live for a while only.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stillstream_state::{BackendOptions, CurrentKey, Key, KeyedStateBackend, StateTtlConfig};
    /// use stillstream_types::KeyGroups;
    ///
    /// let groups = KeyGroups::new(128);
    /// let mut backend = KeyedStateBackend::<u64>::heap(BackendOptions::new(groups, groups.all()));
    /// let day = StateTtlConfig::new(Duration::from_secs(24 * 3600));
    /// let seen = backend.with_ttl(&day).value::<u64>("seen")?;
    /// let ctx = CurrentKey::new(&7u64, 7u64.key_hash(groups));
    /// seen.set(&ctx, 1)?; // gone tomorrow, unless it is set again
    /// backend.sweep_expired(); // after each batch
    /// assert_eq!(seen.get(&ctx)?, Some(1));
    /// # Ok::<(), stillstream_state::StateError>(())
    /// ```
    pub fn with_ttl<'a>(&'a mut self, ttl: &'a StateTtlConfig) -> WithTtl<'a, K> {
        WithTtl::new(self, ttl)
    }

    /// Sets the clock by which state expires. Before any state with a time to live is registered; until then it is the
    /// machine's.
    pub fn set_clock(&mut self, clock: StateClock) {
        self.ttl_mut().clock = clock;
    }

    pub(crate) fn ttl(&self) -> &Rules {
        each!(self, backend => &backend.ttl)
    }

    pub(crate) fn ttl_mut(&mut self) -> &mut Rules {
        each!(self, backend => &mut backend.ttl)
    }

    /// Lets the sweeps of states with a time to live go on: to be called after each batch. How much they do depends on the accesses
    /// since the last call. State in RocksDB needs none: compactions remove what has expired.
    pub fn sweep_expired(&self) {
        match self {
            Self::Heap(backend) => backend.sweep_expired(),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb(_) => {}
        }
    }

    /// What was removed so far because it had expired, for each state with a time to live.
    pub fn expired_entries(&self) -> impl Iterator<Item = (&str, ExpiredEntries)> {
        self.ttl().expired()
    }

    /// The same state as [`value`](Self::value), for callers that know the key's type.
    pub fn keyed_value<V: Data>(&mut self, name: &str) -> Result<KeyedValue<K, V>, StateError> {
        each!(self, backend => backend.keyed_value(name))
    }

    /// One value per namespace and key.
    pub fn namespaced<N: Data + Ord + Copy, V: Data>(
        &mut self,
        name: &str,
    ) -> Result<NamespacedValue<K, N, V>, StateError> {
        each!(self, backend => backend.namespaced(name))
    }

    /// The timers of the service `name` on one clock.
    pub fn timers<N: Data + Ord + Copy>(
        &mut self,
        name: &str,
        domain: TimeDomain,
    ) -> Result<Timers<K, N>, StateError> {
        each!(self, backend => backend.timers(name, domain))
    }

    /// Asks for the memory that the records of a batch after record `at` will need, in all states without a namespace. Call
    /// it before each record of a batch whose keys have these hashes: waiting for memory is most of the time that a record
    /// costs in state larger than the cache.
    #[inline(always)]
    pub fn prefetch(&self, hashes: &[KeyHash], at: usize) {
        each!(self, backend => backend.prefetch(hashes, at));
    }

    /// The synchronous part of checkpoint `id`: everything as it is now, to be written elsewhere by
    /// [`FrozenCheckpoint::write`]. It takes the form that the options ask for; what it may leave out is what a
    /// [completed](Self::checkpoint_completed) checkpoint holds.
    pub fn freeze_checkpoint(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        each!(self, backend => backend.freeze_checkpoint(id))
    }

    /// Checkpoint `id` is completed: later ones may name its files. Notices can be lost, and ids can be left out.
    pub fn checkpoint_completed(&mut self, id: CheckpointId) {
        each!(self, backend => backend.checkpoint_completed(id));
    }

    /// Checkpoint `id` was given up: its files will be deleted.
    pub fn checkpoint_aborted(&mut self, id: CheckpointId) {
        each!(self, backend => backend.checkpoint_aborted(id));
    }

    /// The synchronous part of a full snapshot in canonical form: everything as it is now, to be written elsewhere by
    /// [`FrozenKeyedState::write`]. Changes made afterwards are not seen by it.
    pub fn freeze(&mut self) -> Result<FrozenKeyedState, StateError> {
        each!(self, backend => backend.freeze())
    }

    /// Reads this subtask's key groups from snapshots, then takes them over. Blocks: where that must not be, call
    /// [`RestoredKeyedState::read`] elsewhere and [`take_over`](Self::take_over) here.
    pub fn restore(
        &mut self,
        handles: &[KeyedStateHandle],
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError> {
        each!(self, backend => backend.restore(handles, store))
    }

    /// [`restore`](Self::restore) from what a checkpoint wrote, in whatever form.
    pub fn restore_snapshot(
        &mut self,
        snapshot: &KeyedSnapshot,
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError> {
        each!(self, backend => backend.restore_snapshot(snapshot, store))
    }

    /// Takes over what was read. States that are registered are filled now, others when they are registered.
    pub fn take_over(&mut self, restored: RestoredKeyedState) -> Result<(), StateError> {
        each!(self, backend => backend.take_over(restored))
    }

    /// Names of states that came from a snapshot and are not registered. They go unchanged into the next snapshots.
    pub fn unregistered(&self) -> Vec<String> {
        each!(self, backend => backend.unregistered())
    }

    /// How large each registered state is.
    pub fn state_sizes(&self) -> Vec<StateSize> {
        each!(self, backend => backend.state_sizes())
    }
}
