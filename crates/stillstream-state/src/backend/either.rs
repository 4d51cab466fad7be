//! [`Either`]: one of two backends, chosen when a job starts.
//!
//! It is a backend by itself, so it chooses among any number. Which one it is is asked once per call, and a
//! call takes a whole batch where it matters: so nothing is virtual, and each call is compiled for each
//! backend.

use std::rc::Rc;
use std::sync::Arc;

use stillstream_table::KeyAt;
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, KeyGroupRange, KeyGroups, KeyHash, KeyedSnapshot, KeyedStateHandle, Timestamp,
};

use super::{
    BackendFactory, BackendOptions, FrozenCheckpoint, KeyedBackend, KeyedValues, Namespace, NamespaceWalk,
    NamespacedValues, StateSize, TimerService,
};
use crate::kinds::{ListStore, MapStore, StateKind, TimeDomain, Timer, ValueStore};
use crate::snapshot::{FrozenKeyedState, RestoredKeyedState};
use crate::ttl::{Rule, Rules, Stamped};
use crate::{Data, Key, StateError};

/// One of two: factories, backends, or handles of their states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Either<L, R> {
    /// The first one.
    Left(L),
    /// The second one.
    Right(R),
}

use Either::{Left, Right};

/// Carries a call out on whichever it is.
macro_rules! on {
    ($self:expr, $it:ident => $call:expr) => {
        match $self {
            Left($it) => $call,
            Right($it) => $call,
        }
    };
}

/// Carries a call out, and says which one gave the result.
macro_rules! map {
    ($self:expr, $it:ident => $call:expr) => {
        Ok(match $self {
            Left($it) => Left($call),
            Right($it) => Right($call),
        })
    };
}

impl<L: BackendFactory, R: BackendFactory> BackendFactory for Either<L, R> {
    type Backend<K: Key> = Either<L::Backend<K>, R::Backend<K>>;

    fn for_subtask(&self, instance: u64, folders: &[&str]) -> Self {
        match self {
            Left(left) => Left(left.for_subtask(instance, folders)),
            Right(right) => Right(right.for_subtask(instance, folders)),
        }
    }

    fn create<K: Key>(
        &self,
        groups: KeyGroups,
        range: KeyGroupRange,
    ) -> Result<Self::Backend<K>, StateError> {
        map!(self, factory => factory.create(groups, range)?)
    }
}

impl<L: KeyedBackend, R: KeyedBackend<Key = L::Key>> KeyedBackend for Either<L, R> {
    type Key = L::Key;
    type KeyedValue<V: Data> = Either<L::KeyedValue<V>, R::KeyedValue<V>>;
    type Namespaced<N: Namespace, V: Data> = Either<L::Namespaced<N, V>, R::Namespaced<N, V>>;
    type Timers<N: Namespace> = Either<L::Timers<N>, R::Timers<N>>;

    fn options(&self) -> &BackendOptions {
        on!(self, backend => backend.options())
    }

    fn rules(&self) -> &Rules {
        on!(self, backend => backend.rules())
    }

    fn rules_mut(&mut self) -> &mut Rules {
        on!(self, backend => backend.rules_mut())
    }

    fn register_values<V: Data>(
        &mut self,
        name: &str,
        kind: StateKind,
    ) -> Result<Rc<dyn ValueStore<V>>, StateError> {
        on!(self, backend => backend.register_values(name, kind))
    }

    fn register_lists<V: Data>(&mut self, name: &str) -> Result<Rc<dyn ListStore<V>>, StateError> {
        on!(self, backend => backend.register_lists(name))
    }

    fn register_maps<MK: Key, MV: Data>(
        &mut self,
        name: &str,
    ) -> Result<Rc<dyn MapStore<MK, MV>>, StateError> {
        on!(self, backend => backend.register_maps(name))
    }

    fn register_expiring_values<V: Data>(
        &mut self,
        name: &str,
        kind: StateKind,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn ValueStore<Stamped<V>>>, StateError> {
        on!(self, backend => backend.register_expiring_values(name, kind, rule))
    }

    fn register_expiring_lists<V: Data>(
        &mut self,
        name: &str,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn ListStore<Stamped<V>>>, StateError> {
        on!(self, backend => backend.register_expiring_lists(name, rule))
    }

    fn register_expiring_maps<MK: Key, MV: Data>(
        &mut self,
        name: &str,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn MapStore<MK, Stamped<MV>>>, StateError> {
        on!(self, backend => backend.register_expiring_maps(name, rule))
    }

    fn keyed_value<V: Data>(&mut self, name: &str) -> Result<Self::KeyedValue<V>, StateError> {
        map!(self, backend => backend.keyed_value(name)?)
    }

    fn namespaced<N: Namespace, V: Data>(
        &mut self,
        name: &str,
    ) -> Result<Self::Namespaced<N, V>, StateError> {
        map!(self, backend => backend.namespaced(name)?)
    }

    fn timers<N: Namespace>(
        &mut self,
        name: &str,
        domain: TimeDomain,
    ) -> Result<Self::Timers<N>, StateError> {
        map!(self, backend => backend.timers(name, domain)?)
    }

    #[inline(always)]
    fn prefetch(&self, hashes: &[KeyHash], at: usize) {
        on!(self, backend => backend.prefetch(hashes, at));
    }

    fn sweep_expired(&self) {
        on!(self, backend => backend.sweep_expired());
    }

    fn freeze_native(&mut self) -> Result<FrozenCheckpoint, StateError> {
        on!(self, backend => backend.freeze_native())
    }

    fn freeze_full(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        on!(self, backend => backend.freeze_full(id))
    }

    fn freeze_checkpoint(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        on!(self, backend => backend.freeze_checkpoint(id))
    }

    fn checkpoint_completed(&mut self, id: CheckpointId) {
        on!(self, backend => backend.checkpoint_completed(id));
    }

    fn checkpoint_aborted(&mut self, id: CheckpointId) {
        on!(self, backend => backend.checkpoint_aborted(id));
    }

    fn freeze(&mut self) -> Result<FrozenKeyedState, StateError> {
        on!(self, backend => backend.freeze())
    }

    fn restore(&mut self, handles: &[KeyedStateHandle], store: &dyn SnapshotStore) -> Result<(), StateError> {
        on!(self, backend => backend.restore(handles, store))
    }

    fn restore_snapshot(
        &mut self,
        snapshot: &KeyedSnapshot,
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError> {
        on!(self, backend => backend.restore_snapshot(snapshot, store))
    }

    fn take_over(&mut self, restored: RestoredKeyedState) -> Result<(), StateError> {
        on!(self, backend => backend.take_over(restored))
    }

    fn unregistered(&self) -> Vec<String> {
        on!(self, backend => backend.unregistered())
    }

    fn state_sizes(&self) -> Vec<StateSize> {
        on!(self, backend => backend.state_sizes())
    }
}

impl<K: Key, V: Data, L: KeyedValues<K, V>, R: KeyedValues<K, V>> KeyedValues<K, V> for Either<L, R> {
    #[inline]
    fn get(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        on!(self, values => values.get(hash, key))
    }

    #[inline]
    fn with<T>(&self, hash: KeyHash, key: &K, f: impl FnOnce(Option<&V>) -> T) -> Result<T, StateError> {
        on!(self, values => values.with(hash, key, f))
    }

    #[inline]
    fn update<T>(
        &self,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> T,
    ) -> Result<T, StateError> {
        on!(self, values => values.update(hash, key, init, f))
    }

    #[inline(always)]
    fn update_batch(
        &self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        on!(self, values => values.update_batch(hashes, keys, init, f))
    }

    fn insert(&self, hash: KeyHash, key: &K, value: V) -> Result<(), StateError> {
        on!(self, values => values.insert(hash, key, value))
    }

    fn remove(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        on!(self, values => values.remove(hash, key))
    }

    fn for_each(&self, f: impl FnMut(&K, &V)) -> Result<(), StateError> {
        on!(self, values => values.for_each(f))
    }

    fn len(&self) -> Result<usize, StateError> {
        on!(self, values => values.len())
    }

    fn is_empty(&self) -> Result<bool, StateError> {
        on!(self, values => values.is_empty())
    }
}

impl<K, N, V, L, R> NamespacedValues<K, N, V> for Either<L, R>
where
    K: Key,
    N: Namespace,
    V: Data,
    L: NamespacedValues<K, N, V>,
    R: NamespacedValues<K, N, V>,
{
    type Walk = Either<L::Walk, R::Walk>;

    fn with<T>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        f: impl FnOnce(Option<&V>) -> T,
    ) -> Result<T, StateError> {
        on!(self, values => values.with(namespace, hash, key, f))
    }

    #[inline]
    fn update<T>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> T,
    ) -> Result<T, StateError> {
        on!(self, values => values.update(namespace, hash, key, init, f))
    }

    #[inline]
    fn update_batch(
        &self,
        namespace: N,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        on!(self, values => values.update_batch(namespace, hashes, keys, init, f))
    }

    fn insert(&self, namespace: N, hash: KeyHash, key: &K, value: V) -> Result<(), StateError> {
        on!(self, values => values.insert(namespace, hash, key, value))
    }

    fn remove(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        on!(self, values => values.remove(namespace, hash, key))
    }

    #[inline(always)]
    fn prefetch(&self, namespace: N, hash: KeyHash) {
        on!(self, values => values.prefetch(namespace, hash));
    }

    fn namespaces(&self) -> Result<Vec<N>, StateError> {
        on!(self, values => values.namespaces())
    }

    fn namespace_from(&self, from: N) -> Result<Option<N>, StateError> {
        on!(self, values => values.namespace_from(from))
    }

    fn len(&self, namespace: N) -> Result<usize, StateError> {
        on!(self, values => values.len(namespace))
    }

    fn is_empty(&self, namespace: N) -> Result<bool, StateError> {
        on!(self, values => values.is_empty(namespace))
    }

    fn remove_namespace(&self, namespace: N) -> Result<(), StateError> {
        on!(self, values => values.remove_namespace(namespace))
    }

    fn take_namespace(&self, namespace: N) -> Result<Self::Walk, StateError> {
        map!(self, values => values.take_namespace(namespace)?)
    }

    fn read_namespace(&self, namespace: N) -> Result<Self::Walk, StateError> {
        map!(self, values => values.read_namespace(namespace)?)
    }
}

impl<K, N, V, L: NamespaceWalk<K, N, V>, R: NamespaceWalk<K, N, V>> NamespaceWalk<K, N, V> for Either<L, R> {
    fn next_slice(&mut self, limit: usize, out: &mut Vec<(KeyHash, K, V)>) -> Result<bool, StateError> {
        on!(self, walk => walk.next_slice(limit, out))
    }

    fn namespace(&self) -> N {
        on!(self, walk => walk.namespace())
    }

    fn remaining(&self) -> usize {
        on!(self, walk => walk.remaining())
    }
}

impl<K: Key, N: Namespace, L: TimerService<K, N>, R: TimerService<K, N>> TimerService<K, N> for Either<L, R> {
    fn register(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError> {
        on!(self, timers => timers.register(time, hash, key, namespace))
    }

    fn delete(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError> {
        on!(self, timers => timers.delete(time, hash, key, namespace))
    }

    #[inline]
    fn set_all(&self, timers: impl IntoIterator<Item = Timer<K, N>>) -> Result<(), StateError> {
        on!(self, service => service.set_all(timers))
    }

    #[inline]
    fn unset(&self, timer: Timer<K, N>) -> Result<(), StateError> {
        on!(self, timers => timers.unset(timer))
    }

    fn pop_due(&self, up_to: Timestamp) -> Result<Option<Timer<K, N>>, StateError> {
        on!(self, timers => timers.pop_due(up_to))
    }

    fn pop_all_due(
        &self,
        up_to: Timestamp,
        most: usize,
        out: &mut Vec<Timer<K, N>>,
    ) -> Result<(), StateError> {
        on!(self, timers => timers.pop_all_due(up_to, most, out))
    }

    fn peek_next_time(&self) -> Option<Timestamp> {
        on!(self, timers => timers.peek_next_time())
    }

    fn len(&self) -> Result<usize, StateError> {
        on!(self, timers => timers.len())
    }
}
