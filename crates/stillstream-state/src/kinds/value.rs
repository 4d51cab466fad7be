//! [`ValueState`]: one value per key.

use std::fmt;
use std::rc::Rc;

use super::{CurrentKey, Keyed};
use crate::StateError;

/// What a backend offers for one value per key.
pub trait ValueStore<V> {
    /// A copy of the value.
    fn get(&self, key: CurrentKey<'_>) -> Result<Option<V>, StateError>;
    /// Calls `f` once with the value, if it reports success.
    fn read(&self, key: CurrentKey<'_>, f: &mut dyn FnMut(Option<&V>)) -> Result<(), StateError>;
    /// Sets the value.
    fn set(&self, key: CurrentKey<'_>, value: V) -> Result<(), StateError>;
    /// Calls `f` once with the value, which `init` makes if there is none, if it reports success.
    fn update(
        &self,
        key: CurrentKey<'_>,
        init: &mut dyn FnMut() -> V,
        f: &mut dyn FnMut(&mut V),
    ) -> Result<(), StateError>;
    /// Forgets the value.
    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError>;
}

/// One value per key.
///
/// ```
/// use stillstream_state::{Keyed, StateError, ValueState};
///
/// /// `ctx`: a function's context, which knows its key.
/// fn count(seen: &ValueState<u64>, ctx: &impl Keyed) -> Result<(), StateError> {
///     seen.set(ctx, 1)?;
///     seen.update(ctx, || 0, |n| *n += 1)?;
///     assert_eq!(seen.get(ctx)?, Some(2));
///     Ok(())
/// }
/// ```
pub struct ValueState<V>(Rc<dyn ValueStore<V>>);

impl<V> ValueState<V> {
    pub(crate) fn new(store: Rc<dyn ValueStore<V>>) -> Self {
        Self(store)
    }

    /// A copy of the key's value.
    #[inline]
    pub fn get<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<Option<V>, StateError> {
        self.0.get(ctx.current_key())
    }

    /// Looks at the key's value without copying it.
    pub fn with<C: Keyed + ?Sized, R>(
        &self,
        ctx: &C,
        f: impl FnOnce(Option<&V>) -> R,
    ) -> Result<R, StateError> {
        read_once(&*self.0, ctx.current_key(), f)
    }

    /// Sets the key's value.
    #[inline]
    pub fn set<C: Keyed + ?Sized>(&self, ctx: &C, value: V) -> Result<(), StateError> {
        self.0.set(ctx.current_key(), value)
    }

    /// Changes the key's value in place, made by `init` if there is none: one look-up.
    #[inline]
    pub fn update<C: Keyed + ?Sized, R>(
        &self,
        ctx: &C,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        update_once(&*self.0, ctx.current_key(), init, f)
    }

    /// The key's value, which is forgotten.
    pub fn take<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<Option<V>, StateError> {
        let value = self.get(ctx)?;
        if value.is_some() {
            self.clear(ctx)?;
        }
        Ok(value)
    }

    /// Forgets the key's value.
    pub fn clear<C: Keyed + ?Sized>(&self, ctx: &C) -> Result<(), StateError> {
        self.0.clear(ctx.current_key())
    }
}

impl<V> Clone for ValueState<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> fmt::Debug for ValueState<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueState").finish_non_exhaustive()
    }
}

/// `read` for a function that runs once and gives something back.
pub(crate) fn read_once<V, R>(
    store: &(impl ValueStore<V> + ?Sized),
    key: CurrentKey<'_>,
    f: impl FnOnce(Option<&V>) -> R,
) -> Result<R, StateError> {
    let (mut f, mut result) = (Some(f), None);
    store.read(key, &mut |value| result = f.take().map(|f| f(value)))?;
    Ok(result.expect("a store calls the function once when it reports success"))
}

/// `update` for functions that run once and give something back.
pub(crate) fn update_once<V, R>(
    store: &(impl ValueStore<V> + ?Sized),
    key: CurrentKey<'_>,
    init: impl FnOnce() -> V,
    f: impl FnOnce(&mut V) -> R,
) -> Result<R, StateError> {
    let (mut init, mut f, mut result) = (Some(init), Some(f), None);
    store.update(
        key,
        &mut || init.take().expect("a store makes the value at most once")(),
        &mut |value| result = f.take().map(|f| f(value)),
    )?;
    Ok(result.expect("a store calls the function once when it reports success"))
}
