//! State with a namespace: each namespace is a range of keys in each key group.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use stillstream_types::{KeyGroup, KeyGroupRange, KeyHash};

use super::db::{Family, Scan};
use super::direct::DirectTable;
use super::layout::{Layout, after};
use super::state::{RocksState, decode, unreadable};
use crate::table::KeyAt;
use crate::{Data, Key, StateError};

/// One state by namespace and key.
#[derive(Debug)]
pub(crate) struct RocksNamespaced<K, N, V> {
    table: DirectTable<K, V>,
    range: KeyGroupRange,
    /// Every namespace that holds a key; some of them may have lost their last one.
    known: RefCell<BTreeSet<N>>,
}

impl<K: Key, N: Data + Ord + Copy, V: Data> RocksState for RocksNamespaced<K, N, V> {
    fn reload(&self) -> Result<(), StateError> {
        let found = self.find_namespaces()?;
        self.known.borrow_mut().extend(found);
        Ok(())
    }
}

impl<K: Key, N: Data + Ord + Copy, V: Data> RocksNamespaced<K, N, V> {
    pub fn new(family: Family, layout: Layout, range: KeyGroupRange) -> Self {
        Self { table: DirectTable::new(family, layout), range, known: RefCell::default() }
    }

    fn prefix(&self, group: KeyGroup, namespace: N) -> Vec<u8> {
        let mut prefix = Vec::new();
        self.table.layout().begin(group, &mut prefix);
        namespace.encode(&mut prefix);
        prefix
    }

    /// Jumps from namespace to namespace in each key group.
    fn find_namespaces(&self) -> Result<BTreeSet<N>, StateError> {
        let family = self.table.family();
        let mut found = BTreeSet::new();
        let mut scan = family.scan(&[]);
        while let Some((key, _)) = scan.entry()? {
            let (group, mut rest) = self.table.layout().split(key).map_err(unreadable(family))?;
            let namespace = N::decode(&mut rest).map_err(unreadable(family))?;
            found.insert(namespace);
            match after(&self.prefix(group, namespace)) {
                Some(next) => scan.seek(&next),
                None => break,
            }
        }
        Ok(found)
    }

    fn knows(&self, namespace: N) {
        // looked at first: the usual case is a namespace that is there
        if !self.known.borrow().contains(&namespace) {
            self.known.borrow_mut().insert(namespace);
        }
    }

    /// Whether a namespace holds no key.
    pub fn is_empty(&self, namespace: N) -> Result<bool, StateError> {
        for group in self.range.iter() {
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
        self.knows(namespace);
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
        self.knows(namespace);
        self.table.update_batch(namespace, hashes, keys, init, f)
    }

    pub fn insert(&self, namespace: N, hash: KeyHash, key: &K, value: &V) -> Result<(), StateError> {
        self.knows(namespace);
        self.table.put(namespace, hash, key, value)
    }

    pub fn remove(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        self.table.take(namespace, hash, key)
    }

    /// All namespaces that hold a key, ascending.
    pub fn namespaces(&self) -> Result<Vec<N>, StateError> {
        let mut there = Vec::new();
        for namespace in self.known.borrow().iter() {
            if !self.is_empty(*namespace)? {
                there.push(*namespace);
            }
        }
        *self.known.borrow_mut() = there.iter().copied().collect();
        Ok(there)
    }

    /// How many keys a namespace holds: counts them.
    pub fn len(&self, namespace: N) -> Result<usize, StateError> {
        self.range
            .iter()
            .try_fold(0, |sum, group| Ok(sum + self.table.count(&self.prefix(group, namespace))?))
    }

    pub fn remove_namespace(&self, namespace: N) -> Result<(), StateError> {
        let family = self.table.family();
        for group in self.range.iter() {
            let prefix = self.prefix(group, namespace);
            // most groups of a small namespace are empty, and every range deletion costs later reads
            if family.scan(&prefix).entry()?.is_none() {
                continue;
            }
            match after(&prefix) {
                Some(end) => family.delete_range(&prefix, &end)?,
                None => self.delete_each(&prefix)?,
            }
        }
        self.known.borrow_mut().remove(&namespace);
        Ok(())
    }

    /// For a range that ends with all keys.
    fn delete_each(&self, prefix: &[u8]) -> Result<(), StateError> {
        let family = self.table.family();
        family.scan(prefix).each(|key, _| family.delete(key))
    }

    pub fn walk(self: &Rc<Self>, namespace: N, take: bool) -> Result<RocksWalk<K, N, V>, StateError> {
        // an iterator sees the entries that were there when it was made: all are made now
        let family = self.table.family();
        let mut scans = Vec::new();
        for group in self.range.iter() {
            let scan = family.scan(&self.prefix(group, namespace));
            if scan.entry()?.is_some() {
                scans.push(scan);
            }
        }
        scans.reverse();
        let remaining = self.len(namespace)?;
        Ok(RocksWalk {
            table: self.clone(),
            namespace,
            take,
            scans,
            remaining,
            changes: self.table.changes(),
        })
    }
}

/// A walk over the entries of one namespace, in slices.
#[derive(Debug)]
pub(crate) struct RocksWalk<K, N, V> {
    table: Rc<RocksNamespaced<K, N, V>>,
    namespace: N,
    take: bool,
    /// One a key group, the last one first.
    scans: Vec<Scan>,
    remaining: usize,
    /// The table's count of changes when this walk last knew what is in it.
    changes: u64,
}

impl<K: Key, N: Data + Ord + Copy, V: Data> RocksWalk<K, N, V> {
    pub fn next_slice(&mut self, limit: usize, out: &mut Vec<(KeyHash, K, V)>) -> Result<bool, StateError> {
        let table = &self.table.table;
        // nothing was changed but by this walk: what the iterator sees is what there is
        let untouched = self.changes == table.changes();
        let mut left = limit;
        while left > 0 {
            let Some(scan) = self.scans.last_mut() else { break };
            let Some((key, value)) = scan.entry()? else {
                self.scans.pop();
                continue;
            };
            let (_, _, typed) = table.split::<N>(key)?;
            let hash = typed.key_hash(table.layout().groups);
            let value = match (untouched, self.take) {
                (true, false) => Some(decode(table.family(), value)?),
                (true, true) => {
                    let value = decode(table.family(), value)?;
                    table.family().delete(key)?;
                    table.changed();
                    self.changes = table.changes();
                    Some(value)
                }
                (false, true) => table.take(self.namespace, hash, &typed)?,
                (false, false) => table.fetch(self.namespace, hash, &typed)?,
            };
            out.extend(value.map(|value| (hash, typed, value)));
            scan.next();
            self.remaining = self.remaining.saturating_sub(1);
            left -= 1;
        }
        Ok(self.remaining() > 0)
    }

    pub fn namespace(&self) -> N {
        self.namespace
    }

    pub fn remaining(&self) -> usize {
        if self.scans.is_empty() { 0 } else { self.remaining }
    }
}
