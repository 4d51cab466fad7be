//! Map state: one entry per map key, side by side.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use stillstream_data::{Data, Key};
use stillstream_state::StateError;
use stillstream_state::kinds::{CurrentKey, MapStore};

use crate::db::{Family, Scan};
use crate::layout::Layout;
use crate::state::{Entry, RocksState, check_size, decode, left_over, typed, unreadable};

/// One map state.
#[derive(Debug)]
pub(crate) struct RocksMap<K, MK, MV> {
    family: Family,
    layout: Layout,
    scratch: RefCell<Entry>,
    /// Walks that call users' code at the moment.
    walking: Cell<usize>,
    types: PhantomData<fn(K, MK, MV)>,
}

impl<K: Key, MK: Key, MV: Data> RocksMap<K, MK, MV> {
    pub fn new(family: Family, layout: Layout) -> Self {
        Self { family, layout, scratch: RefCell::default(), walking: Cell::new(0), types: PhantomData }
    }

    fn at<R>(
        &self,
        key: CurrentKey<'_>,
        map_key: Option<&MK>,
        f: impl FnOnce(&mut Entry) -> Result<R, StateError>,
    ) -> Result<R, StateError> {
        let typed = typed::<K>(&self.family, key)?;
        let entry = &mut *self.scratch.borrow_mut();
        self.layout.entry(key.hash, &[], typed, &mut entry.key);
        if let Some(map_key) = map_key {
            map_key.encode(&mut entry.key);
        }
        f(entry)
    }

    /// Refuses a change while a walk calls users' code, as the heap backend does.
    fn free(&self) -> Result<(), StateError> {
        match self.walking.get() {
            0 => Ok(()),
            _ => Err(StateError::InUse { name: self.family.name.to_string() }),
        }
    }

    /// The entries of a key, and the length of what their keys begin with.
    fn scan(&self, key: CurrentKey<'_>) -> Result<(Scan, usize), StateError> {
        self.at(key, None, |entry| Ok((self.family.scan(&entry.key), entry.key.len())))
    }
}

impl<K, MK, MV> RocksState for RocksMap<K, MK, MV> {
    fn reload(&self) -> Result<(), StateError> {
        Ok(())
    }
}

impl<K: Key, MK: Key, MV: Data> MapStore<MK, MV> for RocksMap<K, MK, MV> {
    fn get(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<Option<MV>, StateError> {
        self.at(key, Some(map_key), |entry| {
            self.family.get(&entry.key)?.map(|bytes| decode(&self.family, &bytes)).transpose()
        })
    }

    fn put_all(
        &self,
        key: CurrentKey<'_>,
        entries: &mut dyn Iterator<Item = (MK, MV)>,
    ) -> Result<(), StateError> {
        self.free()?;
        // the iterator is user code that may look at this state: it runs before the scratch space is taken
        let entries: Vec<(MK, MV)> = entries.collect();
        for (map_key, value) in &entries {
            self.at(key, Some(map_key), |entry| {
                entry.set(value);
                check_size(&self.family, &entry.value)?;
                self.family.put(&entry.key, &entry.value)
            })?;
        }
        Ok(())
    }

    fn remove(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<(), StateError> {
        self.free()?;
        self.at(key, Some(map_key), |entry| self.family.delete(&entry.key))
    }

    fn contains(&self, key: CurrentKey<'_>, map_key: &MK) -> Result<bool, StateError> {
        self.at(key, Some(map_key), |entry| Ok(self.family.get(&entry.key)?.is_some()))
    }

    fn for_each(&self, key: CurrentKey<'_>, f: &mut dyn FnMut(&MK, &MV)) -> Result<(), StateError> {
        let (scan, prefix) = self.scan(key)?;
        self.walking.set(self.walking.get() + 1);
        let _walk = Walk(&self.walking);
        scan.each(|key, value| {
            let mut rest = key.get(prefix..).unwrap_or_default();
            let map_key = MK::decode(&mut rest).map_err(unreadable(&self.family))?;
            if !rest.is_empty() {
                return Err(unreadable(&self.family)(left_over(rest)));
            }
            f(&map_key, &decode(&self.family, value)?);
            Ok(())
        })
    }

    fn is_empty(&self, key: CurrentKey<'_>) -> Result<bool, StateError> {
        Ok(self.scan(key)?.0.entry()?.is_none())
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        self.free()?;
        let mut batch = rust_rocksdb::WriteBatch::default();
        // one by one: a range deletion per cleared key would slow down every later read
        self.scan(key)?.0.each(|key, _| {
            self.family.batch_delete(&mut batch, key);
            Ok(())
        })?;
        match batch.is_empty() {
            true => Ok(()),
            false => self.family.database().write(&self.family.name, &batch),
        }
    }
}

/// Counts a walk for as long as it lives, a panic of users' code included.
struct Walk<'a>(&'a Cell<usize>);

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
