//! [`KeyedBackend`]: where the keyed state of one operator in one subtask lives; and what makes it.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, KeyGroupRange, KeyGroups, KeyHash, KeyedSnapshot, KeyedStateHandle, SavepointFormat,
    SnapshotForm,
};

use super::{
    BackendOptions, FrozenCheckpoint, KeyedValues, Namespace, NamespacedValues, StateSize, TimerService,
};
use crate::kinds::{
    Aggregate, AggregatingState, Fold, ListState, ListStore, MapState, MapStore, ReducingState, StateKind,
    TimeDomain, ValueState, ValueStore,
};
use crate::snapshot::{FrozenKeyedState, RestoredKeyedState};
use crate::ttl::{ExpiredEntries, Rule, Rules, Stamped, StateClock, StateTtlConfig, WithTtl};
use crate::{Data, Key, StateError};

/// Makes the backends of a job: one for each keyed operator in each subtask.
pub trait BackendFactory {
    /// What it makes.
    type Backend<K: Key>: KeyedBackend<Key = K>;

    /// The factory for one subtask of one operator. No two running subtasks of a job have the same
    /// `instance`; the `folders` lead to what is this subtask's own on the local disk, in every attempt.
    fn for_subtask(&self, instance: u64, folders: &[&str]) -> Self;

    /// An empty backend for these key groups.
    ///
    /// # Errors
    /// If what it needs of the machine cannot be had.
    fn create<K: Key>(&self, groups: KeyGroups, range: KeyGroupRange)
    -> Result<Self::Backend<K>, StateError>;
}

/// The keyed state of one operator in one subtask.
///
/// Registering a name twice gives the same state, if kind and types agree; otherwise it is an error that
/// names both. After a [`restore`](Self::restore), a registration takes the state over from the snapshot:
/// types are checked there.
///
/// A backend writes the methods that have no body here. The kinds of state are listed in the part that begins
/// with [`register_values`](Self::register_values); the handles that users hold are made of them below, once
/// for all backends.
///
/// ```
/// use stillstream_state::{CurrentKey, Key, KeyedBackend, StateError};
///
/// fn count(backend: &mut impl KeyedBackend<Key = u64>, user: u64) -> Result<u64, StateError> {
///     let seen = backend.value::<u64>("seen")?;
///     let ctx = CurrentKey::new(&user, user.key_hash(backend.options().groups));
///     seen.update(&ctx, || 0, |n| { *n += 1; *n })
/// }
/// ```
pub trait KeyedBackend: fmt::Debug + Sized {
    /// What the state is keyed by.
    type Key: Key;
    /// What [`keyed_value`](Self::keyed_value) gives.
    type KeyedValue<V: Data>: KeyedValues<Self::Key, V>;
    /// What [`namespaced`](Self::namespaced) gives.
    type Namespaced<N: Namespace, V: Data>: NamespacedValues<Self::Key, N, V>;
    /// What [`timers`](Self::timers) gives.
    type Timers<N: Namespace>: TimerService<Self::Key, N>;

    /// How it was made.
    fn options(&self) -> &BackendOptions;

    /// The times to live of its states.
    fn rules(&self) -> &Rules;

    /// The same, to be changed.
    fn rules_mut(&mut self) -> &mut Rules;

    // the kinds of state

    /// One value per key: of value, reducing or aggregating state.
    fn register_values<V: Data>(
        &mut self,
        name: &str,
        kind: StateKind,
    ) -> Result<Rc<dyn ValueStore<V>>, StateError>;

    /// A list per key.
    fn register_lists<V: Data>(&mut self, name: &str) -> Result<Rc<dyn ListStore<V>>, StateError>;

    /// A map per key.
    fn register_maps<MK: Key, MV: Data>(
        &mut self,
        name: &str,
    ) -> Result<Rc<dyn MapStore<MK, MV>>, StateError>;

    /// [`register_values`](Self::register_values) for values with a time to live.
    fn register_expiring_values<V: Data>(
        &mut self,
        name: &str,
        kind: StateKind,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn ValueStore<Stamped<V>>>, StateError>;

    /// [`register_lists`](Self::register_lists) for items with a time to live each.
    fn register_expiring_lists<V: Data>(
        &mut self,
        name: &str,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn ListStore<Stamped<V>>>, StateError>;

    /// [`register_maps`](Self::register_maps) for entries with a time to live each.
    fn register_expiring_maps<MK: Key, MV: Data>(
        &mut self,
        name: &str,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn MapStore<MK, Stamped<MV>>>, StateError>;

    /// The same state as [`value`](Self::value), for callers that know the key's type.
    fn keyed_value<V: Data>(&mut self, name: &str) -> Result<Self::KeyedValue<V>, StateError>;

    /// One value per namespace and key.
    fn namespaced<N: Namespace, V: Data>(&mut self, name: &str)
    -> Result<Self::Namespaced<N, V>, StateError>;

    /// The timers of the service `name` on one clock.
    fn timers<N: Namespace>(&mut self, name: &str, domain: TimeDomain)
    -> Result<Self::Timers<N>, StateError>;

    // batches

    /// Asks for the memory that the records of a batch after record `at` will need, in all states without a
    /// namespace. Call it before each record of a batch whose keys have these hashes: waiting for memory is
    /// most of the time that a record costs in state larger than the cache.
    #[inline(always)]
    fn prefetch(&self, _hashes: &[KeyHash], _at: usize) {}

    /// Lets the sweeps of states with a time to live go on: to be called after each batch. How much they do
    /// depends on the accesses since the last call. State in RocksDB needs none: compactions remove what has
    /// expired.
    fn sweep_expired(&self) {}

    // snapshots

    /// The synchronous part of checkpoint `id`: everything as it is now, to be written elsewhere by
    /// [`FrozenCheckpoint::write`]. It takes the form that the options ask for; what it may leave out is what
    /// a [completed](Self::checkpoint_completed) checkpoint holds.
    fn freeze_checkpoint(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError>;

    /// [`freeze_checkpoint`](Self::freeze_checkpoint) that leaves nothing out and names no file of an earlier
    /// checkpoint, and as long as its outcome is not known, neither do those after it: completed, it takes
    /// the place of all before it. A backend whose checkpoints never name others' files need not write it.
    fn freeze_full(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        self.freeze_checkpoint(id)
    }

    /// Checkpoint `id` is completed: later ones may name its files. Notices can be lost, and ids can be left
    /// out.
    fn checkpoint_completed(&mut self, id: CheckpointId);

    /// Checkpoint `id` was given up: its files will be deleted.
    fn checkpoint_aborted(&mut self, id: CheckpointId);

    /// The synchronous part of a full snapshot in canonical form: everything as it is now, to be written
    /// elsewhere by [`FrozenKeyedState::write`]. Changes made afterwards are not seen by it.
    fn freeze(&mut self) -> Result<FrozenKeyedState, StateError>;

    /// The synchronous part of a full snapshot in the backend's own form that names no file but its own: a
    /// savepoint that only this backend reads. In canonical form by default.
    fn freeze_native(&mut self) -> Result<FrozenCheckpoint, StateError> {
        Ok(self.freeze()?.into())
    }

    /// Reads this subtask's key groups from snapshots, then takes them over. Blocks: where that must not be,
    /// call [`RestoredKeyedState::read`] elsewhere and [`take_over`](Self::take_over) here.
    fn restore(&mut self, handles: &[KeyedStateHandle], store: &dyn SnapshotStore) -> Result<(), StateError>;

    /// [`restore`](Self::restore) from what a checkpoint wrote, in whatever form.
    fn restore_snapshot(
        &mut self,
        snapshot: &KeyedSnapshot,
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError>;

    /// Takes over what was read. States that are registered are filled now, others when they are registered.
    fn take_over(&mut self, restored: RestoredKeyedState) -> Result<(), StateError>;

    /// Names of states that came from a snapshot and are not registered. They go unchanged into the next
    /// snapshots.
    fn unregistered(&self) -> Vec<String>;

    /// How large each registered state is.
    fn state_sizes(&self) -> Vec<StateSize>;

    // what follows is made of the methods above

    /// The synchronous part of checkpoint or savepoint `id`, in the form that is wanted.
    fn freeze_as(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<FrozenCheckpoint, StateError> {
        match form {
            SnapshotForm::Checkpoint => self.freeze_checkpoint(id),
            SnapshotForm::FullCheckpoint => self.freeze_full(id),
            SnapshotForm::Savepoint(SavepointFormat::Canonical) => Ok(self.freeze()?.into()),
            SnapshotForm::Savepoint(SavepointFormat::Native) => self.freeze_native(),
        }
    }

    /// One value per key.
    fn value<V: Data>(&mut self, name: &str) -> Result<ValueState<V>, StateError> {
        Ok(ValueState::new(self.register_values(name, StateKind::Value)?))
    }

    /// A list per key.
    fn list<V: Data>(&mut self, name: &str) -> Result<ListState<V>, StateError> {
        Ok(ListState::new(self.register_lists(name)?))
    }

    /// A map per key.
    fn map<MK: Key, MV: Data>(&mut self, name: &str) -> Result<MapState<MK, MV>, StateError> {
        Ok(MapState::new(self.register_maps(name)?))
    }

    /// One value per key, into which `reduce` folds each added value.
    fn reducing<V: Data>(
        &mut self,
        name: &str,
        reduce: impl Fn(&mut V, V) + 'static,
    ) -> Result<ReducingState<V>, StateError> {
        Ok(ReducingState::new(self.register_values(name, StateKind::Reducing)?, Rc::new(reduce)))
    }

    /// One accumulator per key.
    fn aggregating<A: Aggregate>(
        &mut self,
        name: &str,
        aggregate: A,
    ) -> Result<AggregatingState<A::In, A::Out>, StateError> {
        let store = self.register_values(name, StateKind::Aggregating)?;
        Ok(AggregatingState::new(Rc::new(Fold { store, aggregate })))
    }

    /// Makes states whose values live for a while only.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stillstream_state::{CurrentKey, Key, KeyedBackend, StateError, StateTtlConfig};
    ///
    /// fn see(backend: &mut impl KeyedBackend<Key = u64>, user: u64) -> Result<(), StateError> {
    ///     let day = StateTtlConfig::new(Duration::from_secs(24 * 3600));
    ///     let seen = backend.with_ttl(&day).value::<u64>("seen")?;
    ///     let ctx = CurrentKey::new(&user, user.key_hash(backend.options().groups));
    ///     seen.set(&ctx, 1)?; // gone tomorrow, unless it is set again
    ///     backend.sweep_expired(); // after each batch
    ///     assert_eq!(seen.get(&ctx)?, Some(1));
    ///     Ok(())
    /// }
    /// ```
    fn with_ttl<'a>(&'a mut self, ttl: &'a StateTtlConfig) -> WithTtl<'a, Self> {
        WithTtl::new(self, ttl)
    }

    /// Sets the clock by which state expires. Before any state with a time to live is registered; until then
    /// it is the machine's.
    fn set_clock(&mut self, clock: StateClock) {
        self.rules_mut().clock = clock;
    }

    /// What was removed so far because it had expired, for each state with a time to live.
    fn expired_entries(&self) -> impl Iterator<Item = (&str, ExpiredEntries)> {
        self.rules().expired()
    }
}
