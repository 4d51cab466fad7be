//! [`ReducingState`]: one value per key, into which each added value is folded.

use std::fmt;
use std::rc::Rc;

use super::{Keyed, ValueStore, value::update_once};
use crate::StateError;

/// Folds the second value into the first.
pub(crate) type Reduce<V> = Rc<dyn Fn(&mut V, V)>;

/// One value per key; an added value is folded into it at once.
pub struct ReducingState<V> {
    store: Rc<dyn ValueStore<V>>,
    reduce: Reduce<V>,
}

impl<V> ReducingState<V> {
    pub(crate) fn new(store: Rc<dyn ValueStore<V>>, reduce: Reduce<V>) -> Self {
        Self { store, reduce }
    }

    /// Folds a value into the key's, or makes it the key's first.
    pub fn add<C: Keyed + ?Sized>(&self, ctx: &C, value: V) -> Result<(), StateError> {
        // the value is either the first or folded in, never both: it lies here until it is known which
        let value = std::cell::Cell::new(Some(value));
        update_once(
            &*self.store,
            ctx.current_key(),
            || value.take().expect("the value is untouched until a store asks for the first one"),
            |slot| {
                if let Some(value) = value.take() {
                    (self.reduce)(slot, value);
                }
            },
        )
    }

    /// A copy of what all added values make.
    pub fn get<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<Option<V>, StateError> {
        self.store.get(ctx.current_key())
    }

    /// Forgets the key's value.
    pub fn clear<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<(), StateError> {
        self.store.clear(ctx.current_key())
    }
}

impl<V> Clone for ReducingState<V> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), reduce: self.reduce.clone() }
    }
}

impl<V> fmt::Debug for ReducingState<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReducingState").finish_non_exhaustive()
    }
}
