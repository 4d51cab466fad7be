//! [`BroadcastState`]: a map that is equal in all subtasks.

use std::cell::RefCell;
use std::rc::Rc;

use super::OperatorState;
use super::snapshot::{FrozenItems, ItemWriter};
use crate::StateError;
use crate::data::{Data, DecodeError, Key, Schema};
use crate::kinds::MapEntries;

#[derive(Debug)]
pub(crate) struct Entries<K, V> {
    name: String,
    entries: RefCell<MapEntries<K, V>>,
}

impl<K, V> Entries<K, V> {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), entries: RefCell::default() }
    }

    fn read<R>(&self, f: impl FnOnce(&MapEntries<K, V>) -> R) -> Result<R, StateError> {
        match self.entries.try_borrow() {
            Ok(entries) => Ok(f(&entries)),
            Err(_) => Err(StateError::InUse { name: self.name.clone() }),
        }
    }

    fn write<R>(&self, f: impl FnOnce(&mut MapEntries<K, V>) -> R) -> Result<R, StateError> {
        match self.entries.try_borrow_mut() {
            Ok(mut entries) => Ok(f(&mut entries)),
            Err(_) => Err(StateError::InUse { name: self.name.clone() }),
        }
    }
}

impl<K: Key, V: Data> OperatorState for Entries<K, V> {
    fn freeze(&self) -> Result<Box<dyn FrozenItems>, StateError> {
        self.read(|entries| Box::new(Frozen(entries.clone())) as Box<dyn FrozenItems>)
    }

    fn load(&self, item: &mut &[u8], migrate: Option<&Schema>) -> Result<(), DecodeError> {
        let key = K::decode(item)?;
        let value = match migrate {
            Some(Schema::Map(_, stored)) => V::decode_evolved(stored, item)?,
            _ => V::decode(item)?,
        };
        self.entries.borrow_mut().insert(key, value);
        Ok(())
    }
}

struct Frozen<K, V>(MapEntries<K, V>);

impl<K: Key, V: Data> FrozenItems for Frozen<K, V> {
    fn write(&self, out: &mut ItemWriter<'_>) {
        for (key, value) in self.0.iter() {
            out.item(|bytes| {
                key.encode(bytes);
                value.encode(bytes);
            });
        }
    }
}

/// A map that is equal in all subtasks, because all of them get the same broadcast records.
#[derive(Debug)]
pub struct BroadcastState<K, V>(pub(super) Rc<Entries<K, V>>);

impl<K, V> Clone for BroadcastState<K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Key, V: Data> BroadcastState<K, V> {
    /// A copy of one entry's value.
    pub fn get(&self, key: &K) -> Result<Option<V>, StateError> {
        self.0.read(|entries| entries.get(key).cloned())
    }

    /// Whether there is such an entry.
    pub fn contains(&self, key: &K) -> Result<bool, StateError> {
        self.0.read(|entries| entries.get(key).is_some())
    }

    /// Sets one entry. Only do this for broadcast records: all subtasks must do the same.
    pub fn put(&self, key: K, value: V) -> Result<(), StateError> {
        self.0.write(|entries| entries.insert(key, value))
    }

    /// Removes one entry, if it is there.
    pub fn remove(&self, key: &K) -> Result<(), StateError> {
        self.0.write(|entries| entries.remove(key))
    }

    /// Visits all entries, in no order that a program may rely on.
    pub fn for_each(&self, mut f: impl FnMut(&K, &V)) -> Result<(), StateError> {
        self.0.read(|entries| entries.iter().for_each(|(key, value)| f(key, value)))
    }

    /// Copies of all entries.
    pub fn entries(&self) -> Result<Vec<(K, V)>, StateError> {
        self.0.read(|entries| entries.iter().cloned().collect())
    }

    /// Removes all entries.
    pub fn clear(&self) -> Result<(), StateError> {
        self.0.write(|entries| *entries = MapEntries::default())
    }
}
