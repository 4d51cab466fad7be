//! State without a namespace: one table per state, behind every kind's handle.

use std::cell::{Ref, RefCell, RefMut};

use stillstream_types::{KeyGroups, KeyHash};

use super::HeapState;
use super::cells::{Cells, read_entry};
use super::chain::Freezing;
use crate::StateError;
use crate::backend::BackendOptions;
use crate::data::{Data, DecodeError, Key, Schema};
use crate::kinds::{CurrentKey, ListStore, MapEntries, MapStore, ValueStore};
use crate::snapshot::{Chunk, Run};

/// One state: key to value, list or map.
#[derive(Debug)]
pub(crate) struct KeyedTable<K, V> {
    name: String,
    groups: KeyGroups,
    cells: RefCell<Cells<K, V>>,
}

impl<K: Key, V: Data> KeyedTable<K, V> {
    pub fn new(name: &str, options: &BackendOptions) -> Self {
        Self { name: name.into(), groups: options.groups, cells: RefCell::new(Cells::new(options)) }
    }

    fn in_use(&self) -> StateError {
        StateError::InUse { name: self.name.clone() }
    }

    pub fn cells(&self) -> Result<Ref<'_, Cells<K, V>>, StateError> {
        self.cells.try_borrow().map_err(|_| self.in_use())
    }

    pub fn cells_mut(&self) -> Result<RefMut<'_, Cells<K, V>>, StateError> {
        self.cells.try_borrow_mut().map_err(|_| self.in_use())
    }

    #[inline]
    fn key<'a>(&self, key: CurrentKey<'a>) -> Result<&'a K, StateError> {
        key.key.downcast_ref().ok_or_else(|| StateError::KeyType {
            name: self.name.clone(),
            expected: std::any::type_name::<K>(),
        })
    }
}

impl<K: Key, V: Data> HeapState for KeyedTable<K, V> {
    fn freeze(&self, state: u16, how: &mut Freezing<'_>, runs: &mut Vec<Run>) -> Result<(), StateError> {
        let entries = self.cells_mut()?.freeze(&self.name, &[], how);
        // one without entries may be a change
        if !entries.is_blank() {
            runs.push(Run { state, namespace: Vec::new(), entries });
        }
        Ok(())
    }

    fn mark(&self, serial: u64) {
        self.cells.borrow_mut().mark(serial);
    }

    fn load(&self, chunk: &Chunk, migrate: Option<&Schema>) -> Result<(), DecodeError> {
        let mut cells = self.cells.borrow_mut();
        chunk.decode(|(), input| {
            let (hash, key, value) = read_entry(chunk.group, self.groups, migrate, input)?;
            if !chunk.is_void(hash) {
                cells.insert(hash, &key, value);
            }
            Ok(())
        })
    }

    fn size(&self) -> (usize, usize) {
        self.cells.try_borrow().map_or((0, 0), |cells| (cells.len(), cells.memory_bytes()))
    }

    fn prefetch_group(&self, hashes: &[KeyHash], at: usize) {
        if let Ok(cells) = self.cells.try_borrow() {
            cells.prefetch_group(hashes, at);
        }
    }
}

impl<K: Key, V: Data> ValueStore<V> for KeyedTable<K, V> {
    #[inline]
    fn get(&self, key: CurrentKey<'_>) -> Result<Option<V>, StateError> {
        Ok(self.cells()?.get(key.hash, self.key(key)?).cloned())
    }

    #[inline]
    fn read(&self, key: CurrentKey<'_>, f: &mut dyn FnMut(Option<&V>)) -> Result<(), StateError> {
        f(self.cells()?.get(key.hash, self.key(key)?));
        Ok(())
    }

    #[inline]
    fn set(&self, key: CurrentKey<'_>, value: V) -> Result<(), StateError> {
        let typed = self.key(key)?;
        self.cells_mut()?.insert(key.hash, typed, value);
        Ok(())
    }

    #[inline]
    fn update(
        &self,
        key: CurrentKey<'_>,
        init: &mut dyn FnMut() -> V,
        f: &mut dyn FnMut(&mut V),
    ) -> Result<(), StateError> {
        let typed = self.key(key)?;
        f(self.cells_mut()?.get_or_insert_with(key.hash, typed, init));
        Ok(())
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        let typed = self.key(key)?;
        self.cells_mut()?.remove(key.hash, typed);
        Ok(())
    }
}

impl<K: Key, V: Data> ListStore<V> for KeyedTable<K, Vec<V>> {
    fn get(&self, key: CurrentKey<'_>) -> Result<Vec<V>, StateError> {
        Ok(ValueStore::get(self, key)?.unwrap_or_default())
    }

    fn add_all(&self, key: CurrentKey<'_>, values: &mut dyn Iterator<Item = V>) -> Result<(), StateError> {
        let typed = self.key(key)?;
        // the iterator is user code that may look at this state: it runs before the table is held
        let values: Vec<V> = values.collect();
        if !values.is_empty() {
            self.cells_mut()?.get_or_insert_with(key.hash, typed, Vec::new).extend(values);
        }
        Ok(())
    }

    fn update(&self, key: CurrentKey<'_>, values: Vec<V>) -> Result<(), StateError> {
        match values.is_empty() {
            true => ValueStore::clear(self, key),
            false => self.set(key, values),
        }
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        ValueStore::clear(self, key)
    }
}

impl<K: Key, MK: Key, MV: Data> MapStore<MK, MV> for KeyedTable<K, MapEntries<MK, MV>> {
    fn get(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<Option<MV>, StateError> {
        let typed = self.key(key)?;
        Ok(self.cells()?.get(key.hash, typed).and_then(|map| map.get(map_key)).cloned())
    }

    fn put_all(
        &self,
        key: CurrentKey<'_>,
        entries: &mut dyn Iterator<Item = (MK, MV)>,
    ) -> Result<(), StateError> {
        let typed = self.key(key)?;
        let entries: Vec<(MK, MV)> = entries.collect();
        if !entries.is_empty() {
            let mut cells = self.cells_mut()?;
            let map = cells.get_or_insert_with(key.hash, typed, MapEntries::default);
            entries.into_iter().for_each(|(map_key, value)| map.insert(map_key, value));
        }
        Ok(())
    }

    fn remove(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<(), StateError> {
        let typed = self.key(key)?;
        let mut cells = self.cells_mut()?;
        // looked at first: changing a value may copy it, and there is often nothing to change
        let Some(map) = cells.get(key.hash, typed) else { return Ok(()) };
        match (map.get(map_key).is_some(), map.len()) {
            (false, _) => {}
            (true, 1) => {
                cells.remove(key.hash, typed);
            }
            (true, _) => {
                if let Some(map) = cells.get_mut(key.hash, typed) {
                    map.remove(map_key);
                }
            }
        }
        Ok(())
    }

    fn contains(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<bool, StateError> {
        let typed = self.key(key)?;
        Ok(self.cells()?.get(key.hash, typed).is_some_and(|map| map.get(map_key).is_some()))
    }

    fn for_each(&self, key: CurrentKey<'_>, f: &mut dyn FnMut(&MK, &MV)) -> Result<(), StateError> {
        let typed = self.key(key)?;
        if let Some(map) = self.cells()?.get(key.hash, typed) {
            map.iter().for_each(|(map_key, value)| f(map_key, value));
        }
        Ok(())
    }

    fn is_empty(&self, key: CurrentKey<'_>) -> Result<bool, StateError> {
        let typed = self.key(key)?;
        Ok(self.cells()?.get(key.hash, typed).is_none())
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        ValueStore::clear(self, key)
    }
}
