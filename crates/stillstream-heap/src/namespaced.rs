//! State with a namespace: namespace -> key -> value. Windows use it, with the window as the namespace.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

use stillstream_data::{Data, DecodeError, Key, Schema};
use stillstream_state::StateError;
use stillstream_state::backend::{BackendOptions, Namespace, NamespaceWalk, NamespacedValues};
use stillstream_state::snapshot::{Chunk, Run};
use stillstream_table::KeyAt;
use stillstream_types::KeyHash;

use crate::backend::HeapState;
use crate::cells::{Keys, read_entry};
use crate::chain::Freezing;
use crate::space::Space;

pub(crate) type Namespaces<N, K, V> = BTreeMap<N, Space<K, V>>;

/// One state: what each namespace holds, in a table of its own if that is more than a few entries.
#[derive(Debug)]
pub(crate) struct NamespacedTable<K, N, V> {
    name: String,
    options: BackendOptions,
    namespaces: RefCell<Namespaces<N, K, V>>,
}

impl<K: Key, N: Namespace, V: Data> NamespacedTable<K, N, V> {
    pub fn new(name: &str, options: &BackendOptions) -> Self {
        Self { name: name.into(), options: *options, namespaces: RefCell::default() }
    }

    fn in_use(&self) -> StateError {
        StateError::InUse { name: self.name.clone() }
    }

    pub fn read(&self) -> Result<Ref<'_, Namespaces<N, K, V>>, StateError> {
        self.namespaces.try_borrow().map_err(|_| self.in_use())
    }

    pub fn write(&self) -> Result<RefMut<'_, Namespaces<N, K, V>>, StateError> {
        self.namespaces.try_borrow_mut().map_err(|_| self.in_use())
    }
}

impl<K: Key, N: Namespace, V: Data> HeapState for NamespacedTable<K, N, V> {
    fn freeze(&self, state: u16, how: &mut Freezing<'_>, runs: &mut Vec<Run>) -> Result<(), StateError> {
        for (namespace, cells) in self.write()?.iter_mut().filter(|(_, cells)| cells.len() > 0) {
            let mut bytes = Vec::new();
            namespace.encode(&mut bytes);
            let entries = cells.freeze(&self.name, &bytes, how);
            // a run without changes tells that the namespace is there
            runs.push(Run { state, namespace: bytes, entries });
        }
        Ok(())
    }

    fn mark(&self, serial: u64) {
        self.namespaces.borrow_mut().values_mut().for_each(|cells| cells.mark(serial));
    }

    fn load(&self, chunk: &Chunk, migrate: Option<&Schema>) -> Result<(), DecodeError> {
        let mut namespaces = self.namespaces.borrow_mut();
        chunk.decode(|namespace: &N, input| {
            let (hash, key, value) = read_entry(chunk.group, self.options.groups, migrate, input)?;
            if !chunk.is_void(hash) {
                let space = namespaces.entry(*namespace).or_insert_with(|| Space::new(&self.options));
                space.insert(&self.options, hash, &key, value);
            }
            Ok(())
        })
    }

    fn size(&self) -> (usize, usize) {
        self.namespaces.try_borrow().map_or((0, 0), |namespaces| {
            namespaces
                .values()
                .fold((0, 0), |(len, bytes), cells| (len + cells.len(), bytes + cells.memory_bytes()))
        })
    }
}

/// One value per namespace and key, with the key's type known.
#[derive(Debug)]
pub struct HeapNamespaced<K, N, V>(pub(crate) Rc<NamespacedTable<K, N, V>>);

impl<K, N, V> Clone for HeapNamespaced<K, N, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Key, N: Namespace, V: Data> HeapNamespaced<K, N, V> {
    fn walk(&self, namespace: N, take: bool) -> Result<HeapWalk<K, N, V>, StateError> {
        let later = self.0.write()?.get_mut(&namespace).map(Space::keys);
        Ok(HeapWalk { table: self.0.clone(), namespace, take, now: Vec::new().into_iter(), later })
    }
}

impl<K: Key, N: Namespace, V: Data> NamespacedValues<K, N, V> for HeapNamespaced<K, N, V> {
    type Walk = HeapWalk<K, N, V>;

    fn with<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        f: impl FnOnce(Option<&V>) -> R,
    ) -> Result<R, StateError> {
        Ok(f(self.0.read()?.get(&namespace).and_then(|cells| cells.get(hash, key))))
    }

    #[inline]
    fn update<R>(
        &self,
        namespace: N,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        let (mut namespaces, options) = (self.0.write()?, &self.0.options);
        let space = namespaces.entry(namespace).or_insert_with(|| Space::new(options));
        Ok(f(space.get_or_insert_with(options, hash, key, init)))
    }

    #[inline]
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
        let (mut namespaces, options) = (self.0.write()?, &self.0.options);
        let space = namespaces.entry(namespace).or_insert_with(|| Space::new(options));
        space.update_batch(options, hashes, keys, init, f);
        Ok(())
    }

    fn insert(&self, namespace: N, hash: KeyHash, key: &K, value: V) -> Result<(), StateError> {
        let (mut namespaces, options) = (self.0.write()?, &self.0.options);
        let space = namespaces.entry(namespace).or_insert_with(|| Space::new(options));
        space.insert(options, hash, key, value);
        Ok(())
    }

    fn remove(&self, namespace: N, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        let mut namespaces = self.0.write()?;
        let Some(cells) = namespaces.get_mut(&namespace) else { return Ok(None) };
        let value = cells.remove(hash, key);
        if cells.len() == 0 {
            namespaces.remove(&namespace);
        }
        Ok(value)
    }

    #[inline(always)]
    fn prefetch(&self, namespace: N, hash: KeyHash) {
        if let Some(cells) = self.0.namespaces.try_borrow().ok().as_ref().and_then(|n| n.get(&namespace)) {
            cells.prefetch(hash);
        }
    }

    fn namespaces(&self) -> Result<Vec<N>, StateError> {
        Ok(self.0.read()?.keys().copied().collect())
    }

    fn namespace_from(&self, from: N) -> Result<Option<N>, StateError> {
        Ok(self.0.read()?.range(from..).next().map(|(namespace, _)| *namespace))
    }

    fn len(&self, namespace: N) -> Result<usize, StateError> {
        Ok(self.0.read()?.get(&namespace).map_or(0, |cells| cells.len()))
    }

    fn is_empty(&self, namespace: N) -> Result<bool, StateError> {
        Ok(self.0.read()?.get(&namespace).is_none())
    }

    fn remove_namespace(&self, namespace: N) -> Result<(), StateError> {
        self.0.write()?.remove(&namespace);
        Ok(())
    }

    fn take_namespace(&self, namespace: N) -> Result<HeapWalk<K, N, V>, StateError> {
        self.walk(namespace, true)
    }

    fn read_namespace(&self, namespace: N) -> Result<HeapWalk<K, N, V>, StateError> {
        self.walk(namespace, false)
    }
}

/// A walk over the entries of one namespace, in slices.
#[derive(Debug)]
pub struct HeapWalk<K, N, V> {
    table: Rc<NamespacedTable<K, N, V>>,
    namespace: N,
    take: bool,
    now: std::vec::IntoIter<K>,
    later: Option<Keys<K, V>>,
}

impl<K: Key, N: Namespace, V: Data> NamespaceWalk<K, N, V> for HeapWalk<K, N, V> {
    fn next_slice(&mut self, limit: usize, out: &mut Vec<(KeyHash, K, V)>) -> Result<bool, StateError> {
        let mut namespaces = self.table.write()?;
        let Some(cells) = namespaces.get_mut(&self.namespace) else {
            (self.now, self.later) = (Vec::new().into_iter(), None);
            return Ok(false);
        };
        let mut left = limit;
        while left > 0 {
            let Some(key) = self.now.next() else {
                self.now = self.later.as_mut().map(Keys::next_part).unwrap_or_default().into_iter();
                match self.now.len() {
                    0 => break,
                    _ => continue,
                }
            };
            let hash = key.key_hash(self.table.options.groups);
            let value = match self.take {
                true => cells.remove(hash, &key),
                false => cells.get(hash, &key).cloned(),
            };
            out.extend(value.map(|value| (hash, key, value)));
            left -= 1;
        }
        if cells.len() == 0 {
            namespaces.remove(&self.namespace);
        }
        Ok(self.remaining() > 0)
    }

    fn namespace(&self) -> N {
        self.namespace
    }

    fn remaining(&self) -> usize {
        self.now.len() + self.later.as_ref().map_or(0, Keys::len)
    }
}
