//! [`WithTtl`]: where a backend makes states with a time to live.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::list::ExpiringList;
use super::map::ExpiringMap;
use super::value::ExpiringValue;
use super::{Rule, Stamped, StateTtlConfig};
use crate::backend::KeyedStateBackend;
use crate::kinds::{
    Aggregate, AggregatingState, Fold, ListState, ListStore, MapEntries, MapState, MapStore, ReducingState,
    StateKind, ValueState, ValueStore,
};
use crate::{Data, Key, StateError};

/// Makes the states of a [`KeyedStateBackend`] whose values live for a while only; see
/// [`with_ttl`](KeyedStateBackend::with_ttl). Timers and windows end by themselves: they have no such form.
///
/// # Errors
/// Of each method: as the backend's method of the same name; and if the configuration makes no sense, or is not the one with
/// which the name is registered already.
pub struct WithTtl<'a, K> {
    backend: &'a mut KeyedStateBackend<K>,
    config: &'a StateTtlConfig,
}

impl<K> fmt::Debug for WithTtl<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WithTtl").field(self.config).finish()
    }
}

/// The store of a state in whichever backend.
macro_rules! store {
    ($self:expr, $name:expr, $kind:expr, $entry:ty; $rocks:ident) => {{
        let rule = $self.backend.ttl().rule($name, $self.config)?;
        let store = match &mut *$self.backend {
            KeyedStateBackend::Heap(heap) => heap.expiring::<$entry>($name, $kind, &rule)? as Rc<_>,
            #[cfg(feature = "rocksdb")]
            KeyedStateBackend::RocksDb(rocks) => rocks.$rocks($name, $kind, &rule)? as Rc<_>,
        };
        $self.backend.ttl_mut().keep($name, &rule);
        (store, rule)
    }};
}

impl<'a, K: Key> WithTtl<'a, K> {
    pub(crate) fn new(backend: &'a mut KeyedStateBackend<K>, config: &'a StateTtlConfig) -> Self {
        Self { backend, config }
    }

    fn values<V: Data>(&mut self, name: &str, kind: StateKind) -> Result<Rc<ExpiringValue<V>>, StateError> {
        let (store, rule): (Rc<dyn ValueStore<Stamped<V>>>, Arc<Rule>) =
            store!(self, name, kind, Stamped<V>; expiring_values);
        Ok(Rc::new(ExpiringValue { store, rule }))
    }

    /// One value per key.
    pub fn value<V: Data>(&mut self, name: &str) -> Result<ValueState<V>, StateError> {
        Ok(ValueState::new(self.values(name, StateKind::Value)?))
    }

    /// A list per key, whose items live for themselves.
    pub fn list<V: Data>(&mut self, name: &str) -> Result<ListState<V>, StateError> {
        let (store, rule): (Rc<dyn ListStore<Stamped<V>>>, Arc<Rule>) =
            store!(self, name, StateKind::List, Vec<Stamped<V>>; expiring_lists);
        Ok(ListState::new(Rc::new(ExpiringList { store, rule })))
    }

    /// A map per key, whose entries live for themselves.
    pub fn map<MK: Key, MV: Data>(&mut self, name: &str) -> Result<MapState<MK, MV>, StateError> {
        let (store, rule): (Rc<dyn MapStore<MK, Stamped<MV>>>, Arc<Rule>) =
            store!(self, name, StateKind::Map, MapEntries<MK, Stamped<MV>>; expiring_maps);
        Ok(MapState::new(Rc::new(ExpiringMap { store, rule })))
    }

    /// One value per key, into which `reduce` folds each added value.
    pub fn reducing<V: Data>(
        &mut self,
        name: &str,
        reduce: impl Fn(&mut V, V) + 'static,
    ) -> Result<ReducingState<V>, StateError> {
        Ok(ReducingState::new(self.values(name, StateKind::Reducing)?, Rc::new(reduce)))
    }

    /// One accumulator per key.
    pub fn aggregating<A: Aggregate>(
        &mut self,
        name: &str,
        aggregate: A,
    ) -> Result<AggregatingState<A::In, A::Out>, StateError> {
        let store = self.values::<A::Acc>(name, StateKind::Aggregating)?;
        Ok(AggregatingState::new(Rc::new(Fold { store, aggregate })))
    }
}
