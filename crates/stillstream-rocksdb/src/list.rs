//! List state: one entry per key, to which the merge operator appends.
//!
//! An entry and an operand have the binary form of a list: a `u32` count, then the items. So adding is one
//! blind write, whatever the length of the list, and the whole list is put together when it is read or
//! compacted.

use std::cell::RefCell;
use std::marker::PhantomData;

use rust_rocksdb::MergeOperands;
use stillstream_data::{Data, Key};
use stillstream_state::StateError;
use stillstream_state::kinds::{CurrentKey, ListStore};

use crate::db::Family;
use crate::layout::Layout;
use crate::state::{Entry, RocksState, check_size, decode, typed};

const COUNT: usize = size_of::<u32>();

/// Appends lists to one another. None for what is no list, which RocksDB reports as a corruption.
fn joined<'a>(lists: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut count = 0u32;
    let mut out = vec![0; COUNT];
    for list in lists {
        let (n, items) = list.split_first_chunk::<COUNT>()?;
        count = count.checked_add(u32::from_le_bytes(*n))?;
        out.extend_from_slice(items);
    }
    out[..COUNT].copy_from_slice(&count.to_le_bytes());
    Some(out)
}

/// RocksDB's full merge: what is there, then the operands in the order in which they were written.
pub(crate) fn append(_: &[u8], there: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    joined(there.into_iter().chain(operands.iter()))
}

/// RocksDB's partial merge: operands alone.
pub(crate) fn append_some(_: &[u8], _: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    joined(operands.iter())
}

/// One list state.
#[derive(Debug)]
pub(crate) struct RocksList<K, V> {
    family: Family,
    layout: Layout,
    scratch: RefCell<Entry>,
    types: PhantomData<fn(K, V)>,
}

impl<K: Key, V: Data> RocksList<K, V> {
    pub fn new(family: Family, layout: Layout) -> Self {
        Self { family, layout, scratch: RefCell::default(), types: PhantomData }
    }

    fn at<R>(
        &self,
        key: CurrentKey<'_>,
        f: impl FnOnce(&mut Entry) -> Result<R, StateError>,
    ) -> Result<R, StateError> {
        let typed = typed::<K>(&self.family, key)?;
        let entry = &mut *self.scratch.borrow_mut();
        self.layout.entry(key.hash, &[], typed, &mut entry.key);
        f(entry)
    }
}

impl<K, V> RocksState for RocksList<K, V> {
    fn reload(&self) -> Result<(), StateError> {
        Ok(())
    }
}

impl<K: Key, V: Data> ListStore<V> for RocksList<K, V> {
    fn get(&self, key: CurrentKey<'_>) -> Result<Vec<V>, StateError> {
        self.at(key, |entry| match self.family.get(&entry.key)? {
            Some(bytes) => decode(&self.family, &bytes),
            None => Ok(Vec::new()),
        })
    }

    fn add_all(&self, key: CurrentKey<'_>, values: &mut dyn Iterator<Item = V>) -> Result<(), StateError> {
        // the iterator is user code that may look at this state: it runs before the scratch space is taken
        let values: Vec<V> = values.collect();
        if values.is_empty() {
            return Ok(());
        }
        self.at(key, |entry| {
            entry.set(&values);
            check_size(&self.family, &entry.value)?;
            self.family.merge(&entry.key, &entry.value)
        })
    }

    fn update(&self, key: CurrentKey<'_>, values: Vec<V>) -> Result<(), StateError> {
        self.at(key, |entry| {
            if values.is_empty() {
                return self.family.delete(&entry.key);
            }
            entry.set(&values);
            check_size(&self.family, &entry.value)?;
            self.family.put(&entry.key, &entry.value)
        })
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        self.at(key, |entry| self.family.delete(&entry.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_joined_in_order_and_what_is_no_list_is_refused() {
        let list = |items: &[u16]| items.to_vec().to_bytes_for_test();
        let parts = [list(&[1, 2]), list(&[]), list(&[3])];
        assert_eq!(joined(parts.iter().map(Vec::as_slice)), Some(list(&[1, 2, 3])));
        assert_eq!(joined([&[1u8, 0][..]].into_iter()), None);
    }

    #[test]
    fn items_without_a_form_are_counted() {
        let list = vec![(); 3].to_bytes_for_test();
        let joined = joined([&list[..], &list[..]].into_iter());
        assert_eq!(joined.and_then(|bytes| Vec::<()>::decode(&mut &bytes[..]).ok()), Some(vec![(); 6]));
    }

    trait ToBytes {
        fn to_bytes_for_test(&self) -> Vec<u8>;
    }

    impl<T: Data> ToBytes for T {
        fn to_bytes_for_test(&self) -> Vec<u8> {
            let mut out = Vec::new();
            self.encode(&mut out);
            out
        }
    }
}
