//! [`ListState`]: a list of items per key.

use std::fmt;
use std::rc::Rc;

use super::{CurrentKey, Keyed};
use crate::StateError;

/// What a backend offers for a list per key.
pub trait ListStore<V> {
    /// A copy of the items.
    fn get(&self, key: CurrentKey<'_>) -> Result<Vec<V>, StateError>;
    /// Appends items.
    fn add_all(&self, key: CurrentKey<'_>, values: &mut dyn Iterator<Item = V>) -> Result<(), StateError>;
    /// Puts these items in place of the list.
    fn update(&self, key: CurrentKey<'_>, values: Vec<V>) -> Result<(), StateError>;
    /// Forgets the list.
    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError>;
    /// Forgets the list, and gives its items.
    fn take(&self, key: CurrentKey<'_>) -> Result<Vec<V>, StateError> {
        let items = self.get(key)?;
        self.clear(key)?;
        Ok(items)
    }
}

/// A list of items per key. An empty list and no list are the same.
pub struct ListState<V>(Rc<dyn ListStore<V>>);

impl<V> ListState<V> {
    pub(crate) fn new(store: Rc<dyn ListStore<V>>) -> Self {
        Self(store)
    }

    /// A copy of the key's items, in the order in which they were added.
    pub fn get<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<Vec<V>, StateError> {
        self.0.get(ctx.current_key())
    }

    /// Appends one item.
    pub fn add<C: Keyed + ?Sized>(&self, ctx: &C, value: V) -> Result<(), StateError> {
        self.0.add_all(ctx.current_key(), &mut std::iter::once(value))
    }

    /// Appends items.
    pub fn add_all<C: Keyed + ?Sized>(
        &self,
        ctx: &C,
        values: impl IntoIterator<Item = V>,
    ) -> Result<(), StateError> {
        self.0.add_all(ctx.current_key(), &mut values.into_iter())
    }

    /// Puts these items in place of the key's list.
    pub fn update<C: Keyed + ?Sized>(&self, ctx: &C, values: Vec<V>) -> Result<(), StateError> {
        self.0.update(ctx.current_key(), values)
    }

    /// The key's items, in the order in which they were added; the list is empty afterwards.
    pub fn take<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<Vec<V>, StateError> {
        self.0.take(ctx.current_key())
    }

    /// Forgets the key's list.
    pub fn clear<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<(), StateError> {
        self.0.clear(ctx.current_key())
    }
}

impl<V> Clone for ListState<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> fmt::Debug for ListState<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListState").finish_non_exhaustive()
    }
}
