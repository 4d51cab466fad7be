//! State with a namespace: each namespace is a range of keys in each key group.
//!
//! Which key groups hold keys of a namespace is known in memory. So whoever walks, counts or removes a namespace looks at those
//! alone: it costs by entries, whatever the number of key groups.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use rust_rocksdb::WriteBatch;
use stillstream_types::{KeyGroup, KeyHash};

use super::db::{Family, Scan};
use super::direct::DirectTable;
use super::group_set::GroupSet;
use super::layout::{Layout, after};
use super::state::{RocksState, decode, unreadable};
use crate::table::KeyAt;
use crate::{Data, Key, StateError};

/// So many entries of a key group are removed one by one before the rest is removed as a range: every range deletion costs
/// later reads, so small namespaces leave none behind.
const ONE_BY_ONE: usize = 128;

/// One state by namespace and key.
#[derive(Debug)]
pub(crate) struct RocksNamespaced<K, N, V> {
    table: DirectTable<K, V>,
    /// Every namespace that holds a key, with the key groups of its keys; some may have lost their last key.
    known: RefCell<BTreeMap<N, GroupSet>>,
}

impl<K: Key, N: Data + Ord + Copy, V: Data> RocksState for RocksNamespaced<K, N, V> {
    fn reload(&self) -> Result<(), StateError> {
        self.find_namespaces()
    }
}

impl<K: Key, N: Data + Ord + Copy, V: Data> RocksNamespaced<K, N, V> {
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

    pub fn with<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        f: impl FnOnce(Option<&V>) -> R,
    ) -> Result<R, StateError> {
        self.table.with(namespace, hash, key, f)
    }

    pub fn update<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        self.knows(namespace, &[hash]);
        self.table.update(namespace, hash, key, init, f)
    }

    pub fn update_batch(
        &self,
        namespace: N,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        self.knows(namespace, hashes);
        self.table.update_batch(namespace, hashes, keys, init, f)
    }

    pub fn insert(&self, namespace: N, hash: KeyHash, key: &K, value: &V) -> Result<(), StateError> {
        self.knows(namespace, &[hash]);
        self.table.put(namespace, hash, key, value)
    }

    pub fn remove(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        self.table.take(namespace, hash, key)
    }

    /// All namespaces that hold a key, ascending.
    pub fn namespaces(&self) -> Result<Vec<N>, StateError> {
        let (mut there, mut from) = (Vec::new(), None);
        while let Some(namespace) = self.next_namespace(from, true)? {
            there.push(namespace);
            from = Some(namespace);
        }
        Ok(there)
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

    /// How many keys a namespace holds: counts them.
    pub fn len(&self, namespace: N) -> Result<usize, StateError> {
        let groups = self.groups(namespace).into_iter();
        groups.map(|group| self.table.count(&self.prefix(group, namespace))).sum()
    }

    pub fn remove_namespace(&self, namespace: N) -> Result<(), StateError> {
        let family = self.table.family();
        for group in self.groups(namespace) {
            let prefix = self.prefix(group, namespace);
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
        self.table.changed();
        self.known.borrow_mut().remove(&namespace);
        Ok(())
    }

    pub fn walk(self: &Rc<Self>, namespace: N, take: bool) -> Result<RocksWalk<K, N, V>, StateError> {
        // an iterator sees the entries that were there when it was made: all are made now
        let family = self.table.family();
        let mut scans = Vec::new();
        for group in self.groups(namespace) {
            let scan = family.scan(&self.prefix(group, namespace));
            if scan.entry()?.is_some() {
                scans.push((group, scan));
            }
        }
        scans.reverse();
        Ok(RocksWalk { table: self.clone(), namespace, take, scans, changes: self.table.changes() })
    }
}

/// A walk over the entries of one namespace, in slices.
#[derive(Debug)]
pub(crate) struct RocksWalk<K, N, V> {
    table: Rc<RocksNamespaced<K, N, V>>,
    namespace: N,
    take: bool,
    /// One for each key group that is not through, the last one first.
    scans: Vec<(u16, Scan)>,
    /// The table's count of changes when this walk last knew what is in it.
    changes: u64,
}

impl<K: Key, N: Data + Ord + Copy, V: Data> RocksWalk<K, N, V> {
    pub fn next_slice(&mut self, limit: usize, out: &mut Vec<(KeyHash, K, V)>) -> Result<bool, StateError> {
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

    pub fn namespace(&self) -> N {
        self.namespace
    }

    /// How many iterators are open.
    #[cfg(test)]
    pub fn iterators(&self) -> usize {
        self.scans.len()
    }

    /// Counts what is left.
    pub fn remaining(&self) -> usize {
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
