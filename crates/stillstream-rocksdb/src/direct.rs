//! Entries by namespace and key that are read from and written to the database one by one, or by batches.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::marker::PhantomData;

use rust_rocksdb::WriteBatch;
use stillstream_data::{Data, Key};
use stillstream_state::StateError;
use stillstream_table::KeyAt;
use stillstream_types::{KeyGroup, KeyHash};

use crate::db::Family;
use crate::layout::Layout;
use crate::state::{Entry, check_size, decode, left_over, unreadable};

/// One state.
#[derive(Debug)]
pub(crate) struct DirectTable<K, V> {
    family: Family,
    layout: Layout,
    scratch: RefCell<Entry>,
    /// Held while users' code runs in the middle of a read or an update.
    busy: RefCell<()>,
    /// Grows with every change.
    changes: Cell<u64>,
    types: PhantomData<fn(K, V)>,
}

impl<K: Key, V: Data> DirectTable<K, V> {
    pub fn new(family: Family, layout: Layout) -> Self {
        Self {
            family,
            layout,
            scratch: RefCell::default(),
            busy: RefCell::new(()),
            changes: Cell::new(0),
            types: PhantomData,
        }
    }

    pub fn family(&self) -> &Family {
        &self.family
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// How often an entry was changed.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Counts a change.
    pub fn changed(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    fn in_use(&self) -> StateError {
        StateError::InUse { name: self.family.name.to_string() }
    }

    #[inline]
    fn reading(&self) -> Result<Ref<'_, ()>, StateError> {
        self.busy.try_borrow().map_err(|_| self.in_use())
    }

    #[inline]
    fn changing(&self) -> Result<RefMut<'_, ()>, StateError> {
        let held = self.busy.try_borrow_mut().map_err(|_| self.in_use())?;
        self.changed();
        Ok(held)
    }

    #[inline]
    fn load<N: Data>(
        &self,
        entry: &mut Entry,
        namespace: N,
        hash: KeyHash,
        key: &K,
    ) -> Result<Option<V>, StateError> {
        self.place(entry, namespace, hash, key);
        self.family.get(&entry.key)?.map(|bytes| decode(&self.family, &bytes)).transpose()
    }

    #[inline]
    fn place<N: Data>(&self, entry: &mut Entry, namespace: N, hash: KeyHash, key: &K) {
        entry.value.clear();
        namespace.encode(&mut entry.value);
        self.layout.entry(hash, &entry.value, key, &mut entry.key);
    }

    #[inline]
    fn save(&self, entry: &mut Entry, value: &V) -> Result<(), StateError> {
        entry.set(value);
        check_size(&self.family, &entry.value)?;
        self.family.put(&entry.key, &entry.value)
    }

    pub fn fetch<N: Data>(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        let _reading = self.reading()?;
        self.load(&mut self.scratch.borrow_mut(), namespace, hash, key)
    }

    pub fn with<N: Data, R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        f: impl FnOnce(Option<&V>) -> R,
    ) -> Result<R, StateError> {
        let _reading = self.reading()?;
        let value = self.load(&mut self.scratch.borrow_mut(), namespace, hash, key)?;
        Ok(f(value.as_ref()))
    }

    pub fn put<N: Data>(&self, namespace: N, hash: KeyHash, key: &K, value: &V) -> Result<(), StateError> {
        let _changing = self.changing()?;
        let entry = &mut *self.scratch.borrow_mut();
        self.place(entry, namespace, hash, key);
        self.save(entry, value)
    }

    pub fn update<N: Data, R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        let _changing = self.changing()?;
        let entry = &mut *self.scratch.borrow_mut();
        let mut value = self.load(entry, namespace, hash, key)?.unwrap_or_else(init);
        let result = f(&mut value);
        self.save(entry, &value)?;
        Ok(result)
    }

    pub fn take<N: Data>(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        let _changing = self.changing()?;
        let entry = &mut *self.scratch.borrow_mut();
        let value = self.load(entry, namespace, hash, key)?;
        if value.is_some() {
            self.family.delete(&entry.key)?;
        }
        Ok(value)
    }

    /// Reads the keys of a whole batch at once, updates their values in the order of the records, and writes
    /// them at once.
    pub fn update_batch<N: Data>(
        &self,
        namespace: N,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        mut init: impl FnMut() -> V,
        mut f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        let _changing = self.changing()?;
        let entry = &mut *self.scratch.borrow_mut();
        // all keys' bytes, one after another, and where each ends
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(hashes.len()));
        for (i, hash) in hashes.iter().enumerate() {
            keys.with(i, |key| self.place(entry, namespace.clone(), *hash, key));
            bytes.extend_from_slice(&entry.key);
            ends.push(bytes.len());
        }
        let key_of = |i: usize| &bytes[if i == 0 { 0 } else { ends[i - 1] }..ends[i]];
        let mut order: Vec<u32> = (0..hashes.len() as u32).collect();
        order.sort_unstable_by_key(|i| key_of(*i as usize));
        // records of one key share a place
        let mut place_of = vec![0u32; hashes.len()];
        let mut distinct: Vec<&[u8]> = Vec::with_capacity(hashes.len());
        for i in order {
            let key = key_of(i as usize);
            if distinct.last() != Some(&key) {
                distinct.push(key);
            }
            place_of[i as usize] = distinct.len() as u32 - 1;
        }
        let mut values: Vec<Option<V>> = Vec::with_capacity(distinct.len());
        for found in self.family.get_sorted(distinct.iter().copied()) {
            values.push(found?.map(|bytes| decode(&self.family, &bytes)).transpose()?);
        }
        for (i, place) in place_of.iter().enumerate() {
            f(i, values[*place as usize].get_or_insert_with(&mut init));
        }
        let mut batch = WriteBatch::default();
        for (key, value) in distinct.iter().zip(&values) {
            let Some(value) = value else { continue };
            entry.set(value);
            check_size(&self.family, &entry.value)?;
            self.family.batch_put(&mut batch, key, &entry.value);
        }
        self.family.database().write(&self.family.name, &batch)
    }

    /// How many entries begin with `prefix`.
    pub fn count(&self, prefix: &[u8]) -> Result<usize, StateError> {
        let mut count = 0;
        self.family.scan(prefix).each(|_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// The parts of a stored key.
    pub fn split<N: Data>(&self, key: &[u8]) -> Result<(KeyGroup, N, K), StateError> {
        let read = || {
            let (group, mut rest) = self.layout.split(key)?;
            let namespace = N::decode(&mut rest)?;
            let key = K::decode(&mut rest)?;
            match rest.is_empty() {
                true => Ok((group, namespace, key)),
                false => Err(left_over(rest)),
            }
        };
        read().map_err(unreadable(&self.family))
    }
}
