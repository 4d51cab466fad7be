//! State with a namespace: each namespace is a range of keys in each key group.
//!
//! Which key groups hold keys of a namespace is known in memory. So whoever walks, counts or removes a
//! namespace looks at those alone: it costs by entries, whatever the number of key groups.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use rust_rocksdb::WriteBatch;
use stillstream_data::{Data, Key};
use stillstream_state::StateError;
use stillstream_state::backend::{Namespace, NamespaceWalk, NamespacedValues};
use stillstream_table::KeyAt;
use stillstream_types::{KeyGroup, KeyHash};

use crate::db::{Family, Scan};
use crate::direct::DirectTable;
use crate::group_set::GroupSet;
use crate::layout::{Layout, after};
use crate::state::{RocksState, decode, unreadable};

/// So many entries of a key group are removed one by one before the rest is removed as a range: every range
/// deletion costs later reads, so small namespaces leave none behind.
const ONE_BY_ONE: usize = 128;

/// One state by namespace and key.
#[derive(Debug)]
pub(crate) struct NamespacedTable<K, N, V> {
    table: DirectTable<K, V>,
    /// Every namespace that holds a key, with the key groups of its keys; some may have lost their last key.
    known: RefCell<BTreeMap<N, GroupSet>>,
}

impl<K: Key, N: Namespace, V: Data> RocksState for NamespacedTable<K, N, V> {
    fn reload(&self) -> Result<(), StateError> {
        self.find_namespaces()
    }
}

impl<K: Key, N: Namespace, V: Data> NamespacedTable<K, N, V> {
    pub fn new(family: Family, layout: Layout) -> Self {
        Self { table: DirectTable::new(family, layout), known: RefCell::default() }
    }

    fn prefix(&self, group: u16, namespace: N) -> Vec<u8> {
        let mut prefix = Vec::new();
        self.table.layout().begin(KeyGroup(group), &mut prefix);
        namespace.encode(&mut prefix);
        prefix
    }

    /// Jumps from namespace to namespace in each key group.
    fn find_namespaces(&self) -> Result<(), StateError> {
        let family = self.table.family();
        let mut known = self.known.borrow_mut();
        let mut scan = family.scan(&[]);
        while let Some((key, _)) = scan.entry()? {
            let (group, mut rest) = self.table.layout().split(key).map_err(unreadable(family))?;
            let namespace = N::decode(&mut rest).map_err(unreadable(family))?;
            known.entry(namespace).or_default().insert(group.0);
            match after(&self.prefix(group.0, namespace)) {
                Some(next) => scan.seek(&next),
                None => break,
            }
        }
        Ok(())
    }

    #[inline]
    fn knows(&self, namespace: N, hashes: &[KeyHash]) {
        // looked at first: the usual case is a namespace and a group that are there
        let mut known = self.known.borrow_mut();
        let groups = known.entry(namespace).or_default();
        for hash in hashes {
            let group = hash.group().0;
            if !groups.contains(group) {
                groups.insert(group);
            }
        }
    }

    /// The key groups that may hold keys of a namespace.
    fn groups(&self, namespace: N) -> Vec<u16> {
        self.known.borrow().get(&namespace).map_or_else(Vec::new, GroupSet::to_vec)
    }

    /// Whether a namespace holds no key.
    pub fn is_empty(&self, namespace: N) -> Result<bool, StateError> {
        for group in self.groups(namespace) {
            if self.table.family().scan(&self.prefix(group, namespace)).entry()?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first namespace that holds a key, from `from` on; without `from` itself if it is `passed`.
    pub fn next_namespace(&self, from: Option<N>, passed: bool) -> Result<Option<N>, StateError> {
        loop {
            let next = match from {
                Some(from) if passed => self.first_known((Bound::Excluded(from), Bound::Unbounded)),
                Some(from) => self.first_known((Bound::Included(from), Bound::Unbounded)),
                None => self.first_known((Bound::Unbounded, Bound::Unbounded)),
            };
            let Some(next) = next else { return Ok(None) };
            if !self.is_empty(next)? {
                return Ok(Some(next));
            }
            self.known.borrow_mut().remove(&next);
        }
    }

    fn first_known(&self, range: (Bound<N>, Bound<N>)) -> Option<N> {
        self.known.borrow().range(range).next().map(|(namespace, _)| *namespace)
    }
}

/// One value per namespace and key, with the key's type known.
#[derive(Debug)]
pub struct RocksNamespaced<K, N, V>(pub(crate) Rc<NamespacedTable<K, N, V>>);

impl<K, N, V> Clone for RocksNamespaced<K, N, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Key, N: Namespace, V: Data> RocksNamespaced<K, N, V> {
    fn walk(&self, namespace: N, take: bool) -> Result<RocksWalk<K, N, V>, StateError> {
        // an iterator sees the entries that were there when it was made: all are made now
        let family = self.0.table.family();
        let mut scans = Vec::new();
        for group in self.0.groups(namespace) {
            let scan = family.scan(&self.0.prefix(group, namespace));
            if scan.entry()?.is_some() {
                scans.push((group, scan));
            }
        }
        scans.reverse();
        Ok(RocksWalk { table: self.0.clone(), namespace, take, scans, changes: self.0.table.changes() })
    }
}

impl<K: Key, N: Namespace, V: Data> NamespacedValues<K, N, V> for RocksNamespaced<K, N, V> {
    type Walk = RocksWalk<K, N, V>;

    fn with<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        f: impl FnOnce(Option<&V>) -> R,
    ) -> Result<R, StateError> {
        self.0.table.with(namespace, hash, key, f)
    }

    fn update<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        self.0.knows(namespace, &[hash]);
        self.0.table.update(namespace, hash, key, init, f)
    }

    fn update_batch(
        &self,
        namespace: N,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        if hashes.is_empty() {
            return Ok(());
        }
        self.0.knows(namespace, hashes);
        self.0.table.update_batch(namespace, hashes, keys, init, f)
    }

    fn insert(&self, namespace: N, hash: KeyHash, key: &K, value: V) -> Result<(), StateError> {
        self.0.knows(namespace, &[hash]);
        self.0.table.put(namespace, hash, key, &value)
    }

    fn remove(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        self.0.table.take(namespace, hash, key)
    }

    fn namespaces(&self) -> Result<Vec<N>, StateError> {
        let (mut there, mut from) = (Vec::new(), None);
        while let Some(namespace) = self.0.next_namespace(from, true)? {
            there.push(namespace);
            from = Some(namespace);
        }
        Ok(there)
    }

    fn namespace_from(&self, from: N) -> Result<Option<N>, StateError> {
        self.0.next_namespace(Some(from), false)
    }

    fn len(&self, namespace: N) -> Result<usize, StateError> {
        let groups = self.0.groups(namespace).into_iter();
        groups.map(|group| self.0.table.count(&self.0.prefix(group, namespace))).sum()
    }

    fn is_empty(&self, namespace: N) -> Result<bool, StateError> {
        self.0.is_empty(namespace)
    }

    fn remove_namespace(&self, namespace: N) -> Result<(), StateError> {
        let family = self.0.table.family();
        for group in self.0.groups(namespace) {
            let prefix = self.0.prefix(group, namespace);
            let (mut scan, mut removed, end) = (family.scan(&prefix), 0, after(&prefix));
            while let Some((key, _)) = scan.entry()? {
                match &end {
                    Some(end) if removed == ONE_BY_ONE => {
                        family.delete_range(key, end)?;
                        break;
                    }
                    // a range that ends with all keys has no end that could be named
                    _ => family.delete(key)?,
                }
                removed += 1;
                scan.next();
            }
        }
        self.0.table.changed();
        self.0.known.borrow_mut().remove(&namespace);
        Ok(())
    }

    fn take_namespace(&self, namespace: N) -> Result<RocksWalk<K, N, V>, StateError> {
        self.walk(namespace, true)
    }

    fn read_namespace(&self, namespace: N) -> Result<RocksWalk<K, N, V>, StateError> {
        self.walk(namespace, false)
    }
}

/// A walk over the entries of one namespace, in slices.
#[derive(Debug)]
pub struct RocksWalk<K, N, V> {
    table: Rc<NamespacedTable<K, N, V>>,
    namespace: N,
    take: bool,
    /// One for each key group that is not through, the last one first.
    scans: Vec<(u16, Scan)>,
    /// The table's count of changes when this walk last knew what is in it.
    changes: u64,
}

impl<K: Key, N: Namespace, V: Data> NamespaceWalk<K, N, V> for RocksWalk<K, N, V> {
    fn next_slice(&mut self, limit: usize, out: &mut Vec<(KeyHash, K, V)>) -> Result<bool, StateError> {
        let table = &self.table.table;
        let family = table.family();
        // nothing was changed but by this walk: what the iterator sees is what there is
        let untouched = self.changes == table.changes();
        let (mut left, mut taken, mut deletions) = (limit, 0u64, WriteBatch::default());
        while left > 0 {
            let Some((_, scan)) = self.scans.last_mut() else { break };
            let Some((key, value)) = scan.entry()? else {
                self.scans.pop();
                continue;
            };
            let (_, _, typed) = table.split::<N>(key)?;
            let hash = typed.key_hash(table.layout().groups);
            let value = match (untouched, self.take) {
                (true, false) => Some(decode(family, value)?),
                (true, true) => {
                    family.batch_delete(&mut deletions, key);
                    taken += 1;
                    Some(decode(family, value)?)
                }
                (false, true) => table.take(self.namespace, hash, &typed)?,
                (false, false) => table.fetch(self.namespace, hash, &typed)?,
            };
            out.extend(value.map(|value| (hash, typed, value)));
            scan.next();
            left -= 1;
        }
        if taken > 0 {
            family.database().write(&family.name, &deletions)?;
            table.changed();
            self.changes = table.changes();
        }
        // the end shows without another call, or a slice that is full would never be the last one
        while let Some((_, scan)) = self.scans.last()
            && scan.entry()?.is_none()
        {
            self.scans.pop();
        }
        if self.scans.is_empty() && self.take && untouched {
            self.table.known.borrow_mut().remove(&self.namespace);
        }
        Ok(!self.scans.is_empty())
    }

    fn namespace(&self) -> N {
        self.namespace
    }

    // counts what is left
    fn remaining(&self) -> usize {
        let Some(((current, scan), others)) = self.scans.split_last() else { return 0 };
        let table = &self.table.table;
        let count = |group: u16| table.count(&self.table.prefix(group, self.namespace));
        let counted = || {
            let mut left = 0;
            if let Some((from, _)) = scan.entry()? {
                let end = after(&self.table.prefix(*current, self.namespace));
                let rest = match end {
                    Some(end) => table.family().scan_between(from, end),
                    None => table.family().scan(from),
                };
                rest.each(|_, _| {
                    left += 1;
                    Ok(())
                })?;
            }
            others.iter().try_fold(left, |left, (group, _)| Ok::<usize, StateError>(left + count(*group)?))
        };
        // an error comes with the next slice
        counted().unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use stillstream_state::{BackendOptions, KeyedBackend};
    use stillstream_types::KeyGroups;

    use super::*;
    use crate::{RocksDbKeyedStateBackend, RocksDbOptions};

    #[test]
    fn in_rocksdb_a_namespace_costs_by_its_entries_and_not_by_the_number_of_key_groups() {
        let folder = tempfile::tempdir().unwrap();
        let groups = KeyGroups::new(32_768);
        let options = BackendOptions::new(groups, groups.all());
        let mut backend =
            RocksDbKeyedStateBackend::<u64>::new(options, RocksDbOptions::new(folder.path())).unwrap();
        let windows = backend.namespaced::<i64, u64>("windows").unwrap();
        for window in 0..100 {
            for key in 0..=(window as u64 % 3) {
                windows.insert(window, key.key_hash(groups), &key, key).unwrap();
            }
        }
        for window in 0..100 {
            assert_eq!(windows.namespace_from(window).unwrap(), Some(window));
            let keys = 1 + window as usize % 3;
            let mut walk = windows.take_namespace(window).unwrap();
            assert_eq!((walk.scans.len(), walk.remaining()), (keys, keys));
            let mut taken = Vec::new();
            while walk.next_slice(2, &mut taken).unwrap() {}
            assert_eq!(taken.len(), keys);
            assert!(windows.is_empty(window).unwrap());
        }
        assert_eq!(windows.namespace_from(i64::MIN).unwrap(), None);
        assert_eq!(windows.namespaces().unwrap(), []);
    }

    #[test]
    fn a_namespace_is_removed_whole_whether_it_is_small_or_large() {
        let folder = tempfile::tempdir().unwrap();
        let groups = KeyGroups::new(4);
        let options = BackendOptions::new(groups, groups.all());
        let mut backend =
            RocksDbKeyedStateBackend::<u64>::new(options, RocksDbOptions::new(folder.path())).unwrap();
        let windows = backend.namespaced::<i64, u64>("windows").unwrap();
        for (window, keys) in [(-1, 3u64), (0, 5000), (1, 4)] {
            for key in 0..keys {
                windows.insert(window, key.key_hash(groups), &key, key).unwrap();
            }
        }
        windows.remove_namespace(0).unwrap();
        assert_eq!((windows.len(-1).unwrap(), windows.len(0).unwrap(), windows.len(1).unwrap()), (3, 0, 4));
        windows.remove_namespace(-1).unwrap();
        assert_eq!(windows.namespaces().unwrap(), [1]);
        assert_eq!(windows.namespace_from(0).unwrap(), Some(1));
    }
}
