//! What a window holds: an accumulator, all records, or all records with their times, for an evictor.

use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_runtime::backends::{KeyedStateBackend, KeyedValue};
use stillstream_state::{Aggregate, Data, Key, KeyedBackend, KeyedValues, ListState, StateError};
use stillstream_types::{Result, Timestamp};

use super::key::{Place, WindowKey};
use crate::window::evictor::{Evictor, EvictorContext, TimestampedValue};

/// The name under which it is stored.
const NAME: &str = "window-contents";

/// The form in which a window holds its records.
pub(crate) trait Contents<T: Data>: Send + Sync + 'static {
    /// What the window's function is given.
    type Out;
    /// Where it is kept.
    type Store<K: Key>;

    fn open<K: Key>(
        &self,
        backend: &mut KeyedStateBackend<WindowKey<K>>,
    ) -> Result<Self::Store<K>, StateError>;

    fn add<K: Key>(
        &self,
        store: &Self::Store<K>,
        place: &Place<K>,
        record: T,
        time: Option<i64>,
    ) -> Result<(), StateError>;

    /// Calls `f` with what the window holds, unless that is nothing.
    fn fire<K: Key>(
        &self,
        store: &Self::Store<K>,
        place: &Place<K>,
        ctx: EvictorContext,
        f: impl FnOnce(Self::Out) -> Result<()>,
    ) -> Result<()>;

    /// Moves what one window holds into another one.
    fn merge<K: Key>(
        &self,
        store: &Self::Store<K>,
        into: &Place<K>,
        from: &Place<K>,
    ) -> Result<(), StateError>;

    fn clear<K: Key>(&self, store: &Self::Store<K>, place: &Place<K>) -> Result<(), StateError>;
}

/// One accumulator.
pub(crate) struct Aggregated<A>(pub Arc<A>);

impl<T: Data, A: Aggregate<In = T> + Send + Sync> Contents<T> for Aggregated<A> {
    type Out = A::Out;
    type Store<K: Key> = KeyedValue<WindowKey<K>, A::Acc>;

    fn open<K: Key>(
        &self,
        backend: &mut KeyedStateBackend<WindowKey<K>>,
    ) -> Result<Self::Store<K>, StateError> {
        backend.keyed_value(NAME)
    }

    fn add<K: Key>(
        &self,
        store: &Self::Store<K>,
        place: &Place<K>,
        record: T,
        _: Option<i64>,
    ) -> Result<(), StateError> {
        store.update(place.hash, &place.key, || self.0.create(), |acc| self.0.add(acc, record))
    }

    fn fire<K: Key>(
        &self,
        store: &Self::Store<K>,
        place: &Place<K>,
        _: EvictorContext,
        f: impl FnOnce(A::Out) -> Result<()>,
    ) -> Result<()> {
        let result = store.with(place.hash, &place.key, |acc| acc.map(|acc| self.0.result(acc)));
        result.map_err(StateError::into_error)?.map_or(Ok(()), f)
    }

    fn merge<K: Key>(
        &self,
        store: &Self::Store<K>,
        into: &Place<K>,
        from: &Place<K>,
    ) -> Result<(), StateError> {
        match store.remove(from.hash, &from.key)? {
            Some(other) => {
                store.update(into.hash, &into.key, || self.0.create(), |acc| self.0.merge(acc, other))
            }
            None => Ok(()),
        }
    }

    fn clear<K: Key>(&self, store: &Self::Store<K>, place: &Place<K>) -> Result<(), StateError> {
        store.remove(place.hash, &place.key).map(drop)
    }
}

fn move_list<K: Key, V: Data>(
    list: &ListState<V>,
    into: &Place<K>,
    from: &Place<K>,
) -> Result<(), StateError> {
    let moved = list.get(from)?;
    list.clear(from)?;
    match moved.is_empty() {
        true => Ok(()),
        false => list.add_all(into, moved),
    }
}

/// All records.
pub(crate) struct Listed<T>(pub PhantomData<fn(T)>);

impl<T: Data> Contents<T> for Listed<T> {
    type Out = Vec<T>;
    type Store<K: Key> = ListState<T>;

    fn open<K: Key>(
        &self,
        backend: &mut KeyedStateBackend<WindowKey<K>>,
    ) -> Result<Self::Store<K>, StateError> {
        backend.list(NAME)
    }

    fn add<K: Key>(
        &self,
        list: &ListState<T>,
        place: &Place<K>,
        record: T,
        _: Option<i64>,
    ) -> Result<(), StateError> {
        list.add(place, record)
    }

    fn fire<K: Key>(
        &self,
        list: &ListState<T>,
        place: &Place<K>,
        _: EvictorContext,
        f: impl FnOnce(Vec<T>) -> Result<()>,
    ) -> Result<()> {
        let records = list.get(place).map_err(StateError::into_error)?;
        if records.is_empty() { Ok(()) } else { f(records) }
    }

    fn merge<K: Key>(&self, list: &ListState<T>, into: &Place<K>, from: &Place<K>) -> Result<(), StateError> {
        move_list(list, into, from)
    }

    fn clear<K: Key>(&self, list: &ListState<T>, place: &Place<K>) -> Result<(), StateError> {
        list.clear(place)
    }
}

/// All records with their times, of which an evictor throws out some. `finish` makes of the rest what the
/// window's function is given.
pub(crate) struct Evicted<E, G> {
    pub evictor: Arc<E>,
    pub finish: G,
}

impl<T, E, G, R> Contents<T> for Evicted<E, G>
where
    T: Data,
    E: Evictor<T>,
    G: Fn(Vec<T>) -> Option<R> + Send + Sync + 'static,
{
    type Out = R;
    type Store<K: Key> = ListState<TimestampedValue<T>>;

    fn open<K: Key>(
        &self,
        backend: &mut KeyedStateBackend<WindowKey<K>>,
    ) -> Result<Self::Store<K>, StateError> {
        backend.list(NAME)
    }

    fn add<K: Key>(
        &self,
        list: &Self::Store<K>,
        place: &Place<K>,
        value: T,
        time: Option<i64>,
    ) -> Result<(), StateError> {
        list.add(place, TimestampedValue { value, timestamp: time.map(Timestamp::from_millis) })
    }

    fn fire<K: Key>(
        &self,
        list: &Self::Store<K>,
        place: &Place<K>,
        ctx: EvictorContext,
        f: impl FnOnce(R) -> Result<()>,
    ) -> Result<()> {
        let mut records = list.get(place).map_err(StateError::into_error)?;
        if records.is_empty() {
            return Ok(());
        }
        self.evictor.evict_before(&mut records, &ctx)?;
        let values = records.iter().map(|record| record.value.clone()).collect();
        (self.finish)(values).map_or(Ok(()), f)?;
        self.evictor.evict_after(&mut records, &ctx)?;
        // an evictor may also have put them into another order, which the next call then sees
        list.update(place, records).map_err(StateError::into_error)
    }

    fn merge<K: Key>(
        &self,
        list: &Self::Store<K>,
        into: &Place<K>,
        from: &Place<K>,
    ) -> Result<(), StateError> {
        move_list(list, into, from)
    }

    fn clear<K: Key>(&self, list: &Self::Store<K>, place: &Place<K>) -> Result<(), StateError> {
        list.clear(place)
    }
}
