//! [`MapState`]: a map per key.

use std::fmt;
use std::rc::Rc;

use super::{CurrentKey, Keyed};
use crate::StateError;

/// What a backend offers for a map per key.
pub trait MapStore<MK, MV> {
    /// A copy of one entry's value.
    fn get(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<Option<MV>, StateError>;
    /// Sets entries.
    fn put_all(
        &self,
        key: CurrentKey<'_>,
        entries: &mut dyn Iterator<Item = (MK, MV)>,
    ) -> Result<(), StateError>;
    /// Removes one entry, if it is there.
    fn remove(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<(), StateError>;
    /// Whether the map has this entry.
    fn contains(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<bool, StateError>;
    /// Visits all entries.
    fn for_each(&self, key: CurrentKey<'_>, f: &mut dyn FnMut(&MK, &MV)) -> Result<(), StateError>;
    /// Whether the map has no entry.
    fn is_empty(&self, key: CurrentKey<'_>) -> Result<bool, StateError>;
    /// Forgets the map.
    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError>;
}

/// A map per key. Entries come in no order that a program may rely on.
pub struct MapState<MK, MV>(Rc<dyn MapStore<MK, MV>>);

impl<MK, MV> MapState<MK, MV> {
    pub(crate) fn new(store: Rc<dyn MapStore<MK, MV>>) -> Self {
        Self(store)
    }

    /// A copy of one entry's value.
    pub fn get<C: Keyed + ?Sized>(&self, ctx: &C, map_key: &MK) -> Result<Option<MV>, StateError> {
        self.0.get(ctx.current_key(), map_key)
    }

    /// Sets one entry.
    pub fn put<C: Keyed + ?Sized>(&self, ctx: &C, map_key: MK, value: MV) -> Result<(), StateError> {
        self.0.put_all(ctx.current_key(), &mut std::iter::once((map_key, value)))
    }

    /// Sets entries.
    pub fn put_all<C: Keyed + ?Sized>(
        &self,
        ctx: &C,
        entries: impl IntoIterator<Item = (MK, MV)>,
    ) -> Result<(), StateError> {
        self.0.put_all(ctx.current_key(), &mut entries.into_iter())
    }

    /// Removes one entry, and gives the value that was there. [`delete`](Self::delete) does not ask for it, which in RocksDB saves
    /// a read.
    pub fn remove<C: Keyed + ?Sized>(&self, ctx: &C, map_key: &MK) -> Result<Option<MV>, StateError> {
        let found = self.0.get(ctx.current_key(), map_key)?;
        if found.is_some() {
            self.0.remove(ctx.current_key(), map_key)?;
        }
        Ok(found)
    }

    /// Removes one entry, if it is there.
    pub fn delete<C: Keyed + ?Sized>(&self, ctx: &C, map_key: &MK) -> Result<(), StateError> {
        self.0.remove(ctx.current_key(), map_key)
    }

    /// Whether the map has this entry.
    pub fn contains<C: Keyed + ?Sized>(&self, ctx: &C, map_key: &MK) -> Result<bool, StateError> {
        self.0.contains(ctx.current_key(), map_key)
    }

    /// Visits all entries without copying them.
    pub fn for_each<C: Keyed + ?Sized>(
        &self,
        ctx: &C,
        mut f: impl FnMut(&MK, &MV),
    ) -> Result<(), StateError> {
        self.0.for_each(ctx.current_key(), &mut f)
    }

    /// Copies of all map keys.
    pub fn keys<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<Vec<MK>, StateError>
    where
        MK: Clone,
    {
        let mut keys = Vec::new();
        self.for_each(ctx, |map_key, _| keys.push(map_key.clone()))?;
        Ok(keys)
    }

    /// Copies of all values.
    pub fn values<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<Vec<MV>, StateError>
    where
        MV: Clone,
    {
        let mut values = Vec::new();
        self.for_each(ctx, |_, value| values.push(value.clone()))?;
        Ok(values)
    }

    /// Copies of all entries.
    pub fn entries<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<Vec<(MK, MV)>, StateError>
    where
        MK: Clone,
        MV: Clone,
    {
        let mut entries = Vec::new();
        self.for_each(ctx, |map_key, value| entries.push((map_key.clone(), value.clone())))?;
        Ok(entries)
    }

    /// Whether the key's map has no entry.
    pub fn is_empty<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<bool, StateError> {
        self.0.is_empty(ctx.current_key())
    }

    /// Forgets the key's map.
    pub fn clear<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<(), StateError> {
        self.0.clear(ctx.current_key())
    }
}

impl<MK, MV> Clone for MapState<MK, MV> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<MK, MV> fmt::Debug for MapState<MK, MV> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapState").finish_non_exhaustive()
    }
}
