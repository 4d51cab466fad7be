//! [`WithTtl`]: where a backend makes states with a time to live.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::list::ExpiringList;
use super::map::ExpiringMap;
use super::value::ExpiringValue;
use super::{Rule, StateTtlConfig};
use crate::backend::KeyedBackend;
use crate::kinds::{
    Aggregate, AggregatingState, Fold, ListState, MapState, ReducingState, StateKind, ValueState,
};
use crate::{Data, Key, StateError};

/// Makes the states of a [`KeyedBackend`] whose values live for a while only; see
/// [`with_ttl`](KeyedBackend::with_ttl). Timers and windows end by themselves: they have no such form.
///
/// # Errors
/// Of each method: as the backend's method of the same name; and if the configuration makes no sense, or is
/// not the one with which the name is registered already.
pub struct WithTtl<'a, B> {
    backend: &'a mut B,
    config: &'a StateTtlConfig,
}

impl<B> fmt::Debug for WithTtl<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WithTtl").field(self.config).finish()
    }
}

impl<'a, B: KeyedBackend> WithTtl<'a, B> {
    pub(crate) fn new(backend: &'a mut B, config: &'a StateTtlConfig) -> Self {
        Self { backend, config }
    }

    fn values<V: Data>(&mut self, name: &str, kind: StateKind) -> Result<Rc<ExpiringValue<V>>, StateError> {
        let (store, rule) =
            self.register(name, |backend, rule| backend.register_expiring_values(name, kind, rule))?;
        Ok(Rc::new(ExpiringValue { store, rule }))
    }

    /// Registers a state with its rule.
    fn register<S>(
        &mut self,
        name: &str,
        register: impl FnOnce(&mut B, &Arc<Rule>) -> Result<S, StateError>,
    ) -> Result<(S, Arc<Rule>), StateError> {
        let rule = self.backend.rules().rule(name, self.config)?;
        let store = register(self.backend, &rule)?;
        self.backend.rules_mut().keep(name, &rule);
        Ok((store, rule))
    }

    /// One value per key.
    pub fn value<V: Data>(&mut self, name: &str) -> Result<ValueState<V>, StateError> {
        Ok(ValueState::new(self.values(name, StateKind::Value)?))
    }

    /// A list per key, whose items live for themselves.
    pub fn list<V: Data>(&mut self, name: &str) -> Result<ListState<V>, StateError> {
        let (store, rule) =
            self.register(name, |backend, rule| backend.register_expiring_lists(name, rule))?;
        Ok(ListState::new(Rc::new(ExpiringList { store, rule })))
    }

    /// A map per key, whose entries live for themselves.
    pub fn map<MK: Key, MV: Data>(&mut self, name: &str) -> Result<MapState<MK, MV>, StateError> {
        let (store, rule) =
            self.register(name, |backend, rule| backend.register_expiring_maps(name, rule))?;
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
