//! State without a namespace: one table per state, behind every kind's handle.

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

use stillstream_data::{Data, DecodeError, Key, Schema};
use stillstream_state::StateError;
use stillstream_state::backend::{BackendOptions, KeyedValues};
use stillstream_state::kinds::{CurrentKey, ListStore, MapEntries, MapStore, ValueStore};
use stillstream_state::snapshot::{Chunk, Run};
use stillstream_table::KeyAt;
use stillstream_types::{KeyGroups, KeyHash};

use crate::backend::HeapState;
use crate::cells::{Cells, read_entry};
use crate::chain::Freezing;

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

/// One value per key, with the key's type known.
#[derive(Debug)]
pub struct HeapValues<K, V>(pub(crate) Rc<KeyedTable<K, V>>);

impl<K, V> Clone for HeapValues<K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Key, V: Data> KeyedValues<K, V> for HeapValues<K, V> {
    #[inline]
    fn get(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        Ok(self.0.cells()?.get(hash, key).cloned())
    }

    #[inline]
    fn with<R>(&self, hash: KeyHash, key: &K, f: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        Ok(f(self.0.cells()?.get(hash, key)))
    }

    #[inline]
    fn update<R>(
        &self,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        Ok(f(self.0.cells_mut()?.get_or_insert_with(hash, key, init)))
    }

    #[inline(always)]
    fn update_batch(
        &self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        self.0.cells_mut()?.update_batch(hashes, keys, init, f);
        Ok(())
    }

    fn insert(&self, hash: KeyHash, key: &K, value: V) -> Result<(), StateError> {
        self.0.cells_mut()?.insert(hash, key, value);
        Ok(())
    }

    fn remove(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        Ok(self.0.cells_mut()?.remove(hash, key))
    }

    fn for_each(&self, f: impl FnMut(&K, &V)) -> Result<(), StateError> {
        self.0.cells()?.for_each(f);
        Ok(())
    }

    fn len(&self) -> Result<usize, StateError> {
        Ok(self.0.cells()?.len())
    }

    fn is_empty(&self) -> Result<bool, StateError> {
        Ok(self.0.cells()?.len() == 0)
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

    fn take(&self, key: CurrentKey<'_>) -> Result<Vec<V>, StateError> {
        let typed = self.key(key)?;
        Ok(self.cells_mut()?.remove(key.hash, typed).unwrap_or_default())
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
