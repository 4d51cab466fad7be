//! [`WriteBack`]: the hot entries of a state that lies on disk, as native values in memory.
//!
//! Entries live in generations. The *young* one takes every read and write; when it is full, or when a
//! barrier passes, it becomes *frozen*: nothing in it changes any more, so it can be written to the database
//! on another thread while the worker goes on, without a copy and whatever its size. An entry that is needed
//! again is copied to the young generation. A frozen generation that is written is a clean cache until room
//! is needed: then the oldest ones go.
//!
//! What is in a newer generation hides what is in an older one, and all of them hide the database. So it does
//! not matter when a generation is written, as long as generations are written in the order in which they
//! were frozen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use stillstream_types::KeyHash;

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Slot<N, K, V> {
    pub hash: KeyHash,
    pub namespace: N,
    pub key: K,
    /// `None`: known to be absent.
    pub value: Option<V>,
    /// The database holds something else.
    pub dirty: bool,
}

/// Entries by key and namespace.
#[derive(Debug)]
pub(crate) struct Generation<N, K, V> {
    slots: HashTable<Slot<N, K, V>>,
}

/// The table takes its bucket from the lower bits and its tag from the upper ones; a key hash has its group
/// there.
#[inline(always)]
fn spread(hash: KeyHash) -> u64 {
    hash.bits() | (hash.bits() >> 32) << 48
}

impl<N: Eq, K: Eq, V> Generation<N, K, V> {
    fn with_capacity(entries: usize) -> Self {
        Self { slots: HashTable::with_capacity(entries) }
    }

    #[inline]
    fn get(&self, hash: KeyHash, namespace: &N, key: &K) -> Option<&Slot<N, K, V>> {
        self.slots.find(spread(hash), |s| s.hash == hash && s.key == *key && s.namespace == *namespace)
    }

    /// All entries, in no order.
    pub fn slots(&self) -> impl Iterator<Item = &Slot<N, K, V>> {
        self.slots.iter()
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }
}

/// A generation in which nothing changes any more.
#[derive(Debug)]
pub(crate) struct Frozen<N, K, V> {
    pub entries: Generation<N, K, V>,
    written: AtomicBool,
}

impl<N, K, V> Frozen<N, K, V> {
    /// The database holds all its entries now.
    pub fn written(&self) {
        self.written.store(true, Ordering::Release);
    }

    fn is_written(&self) -> bool {
        self.written.load(Ordering::Acquire)
    }
}

/// The generations of one state.
#[derive(Debug)]
pub(crate) struct WriteBack<N, K, V> {
    young: Generation<N, K, V>,
    /// The newest one last.
    frozen: Vec<Arc<Frozen<N, K, V>>>,
}

/// More frozen generations than this make every miss slow: the two oldest are put together.
const MOST_FROZEN: usize = 4;

impl<N: Eq + Clone, K: Eq + Clone, V: Clone> WriteBack<N, K, V> {
    pub fn new() -> Self {
        Self { young: Generation::with_capacity(0), frozen: Vec::new() }
    }

    /// How many entries are in memory, those that are hidden by newer ones included.
    pub fn len(&self) -> usize {
        self.young.len() + self.frozen.iter().map(|frozen| frozen.entries.len()).sum::<usize>()
    }

    /// How many are in the young generation.
    pub fn young_len(&self) -> usize {
        self.young.len()
    }

    /// The entries of the young generation, in no order.
    pub fn young_slots(&self) -> impl Iterator<Item = &Slot<N, K, V>> {
        self.young.slots()
    }

    /// Whether an entry is in memory, be it as known to be absent.
    #[inline]
    pub fn knows(&self, hash: KeyHash, namespace: &N, key: &K) -> bool {
        self.known(hash, namespace, key).is_some()
    }

    /// The value of an entry that is in memory.
    #[inline]
    pub fn known(&self, hash: KeyHash, namespace: &N, key: &K) -> Option<&Option<V>> {
        let slot = self.young.get(hash, namespace, key).or_else(|| self.find_frozen(hash, namespace, key));
        slot.map(|slot| &slot.value)
    }

    #[inline]
    fn find_frozen(&self, hash: KeyHash, namespace: &N, key: &K) -> Option<&Slot<N, K, V>> {
        self.frozen.iter().rev().find_map(|frozen| frozen.entries.get(hash, namespace, key))
    }

    /// The value of an entry in the young generation, to be looked at: brought there from an older one, or by
    /// `load` from the database.
    #[inline]
    pub fn look<E>(
        &mut self,
        hash: KeyHash,
        namespace: &N,
        key: &K,
        load: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<&Option<V>, E> {
        Ok(&self.bring(hash, namespace, key, load)?.value)
    }

    /// The same, to be changed.
    #[inline]
    pub fn change<E>(
        &mut self,
        hash: KeyHash,
        namespace: &N,
        key: &K,
        load: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<&mut Option<V>, E> {
        let slot = self.bring(hash, namespace, key, load)?;
        slot.dirty = true;
        Ok(&mut slot.value)
    }

    fn bring<E>(
        &mut self,
        hash: KeyHash,
        namespace: &N,
        key: &K,
        load: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<&mut Slot<N, K, V>, E> {
        let Self { young, frozen } = self;
        let same = |s: &Slot<N, K, V>| s.hash == hash && s.key == *key && s.namespace == *namespace;
        match young.slots.entry(spread(hash), same, |s| spread(s.hash)) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let older = frozen.iter().rev().find_map(|frozen| frozen.entries.get(hash, namespace, key));
                let value = match older {
                    Some(slot) => slot.value.clone(),
                    None => load()?,
                };
                let (namespace, key) = (namespace.clone(), key.clone());
                Ok(entry.insert(Slot { hash, namespace, key, value, dirty: false }).into_mut())
            }
        }
    }

    /// Sets an entry without looking at what it was.
    pub fn set(&mut self, hash: KeyHash, namespace: &N, key: &K, value: Option<V>) {
        let same = |s: &Slot<N, K, V>| s.hash == hash && s.key == *key && s.namespace == *namespace;
        match self.young.slots.entry(spread(hash), same, |s| spread(s.hash)) {
            Entry::Occupied(entry) => {
                let slot = entry.into_mut();
                slot.value = value;
                slot.dirty = true;
            }
            Entry::Vacant(entry) => {
                let (namespace, key) = (namespace.clone(), key.clone());
                entry.insert(Slot { hash, namespace, key, value, dirty: true });
            }
        }
    }

    /// Freezes the young generation. What is given back must be written, after all that were given back
    /// before.
    pub fn freeze(&mut self) -> Option<Arc<Frozen<N, K, V>>> {
        if self.young.len() == 0 {
            return None;
        }
        let dirty = self.young.slots().any(|slot| slot.dirty);
        // the next one is likely to grow as large: no table is moved while it does
        let next = Generation::with_capacity(self.young.len());
        let entries = std::mem::replace(&mut self.young, next);
        let frozen = Arc::new(Frozen { entries, written: AtomicBool::new(!dirty) });
        self.frozen.push(frozen.clone());
        dirty.then_some(frozen)
    }

    /// Lets go of the oldest generations that are written, until at most `most` entries are left. Says
    /// whether that was possible; if not, an older one has to be written first.
    pub fn shrink(&mut self, most: usize) -> bool {
        let mut len = self.len();
        while len > most {
            match self.frozen.first() {
                // the oldest goes first: a newer one may hide what it holds
                Some(oldest) if oldest.is_written() => {
                    len -= oldest.entries.len();
                    self.frozen.remove(0);
                }
                // without a frozen generation the rest is young
                oldest => return oldest.is_none(),
            }
        }
        true
    }

    /// Two written generations to put together with [`merged`], if there are too many.
    pub fn to_merge(&self) -> Option<[Arc<Frozen<N, K, V>>; 2]> {
        match self.frozen.as_slice() {
            [older, newer, ..]
                if self.frozen.len() > MOST_FROZEN && older.is_written() && newer.is_written() =>
            {
                Some([older.clone(), newer.clone()])
            }
            _ => None,
        }
    }

    /// Puts a merged generation in the place of the two that it was made from, unless one of them is gone.
    pub fn replace(&mut self, of: &[Arc<Frozen<N, K, V>>; 2], merged: Arc<Frozen<N, K, V>>) {
        if let [older, newer, ..] = self.frozen.as_slice()
            && Arc::ptr_eq(older, &of[0])
            && Arc::ptr_eq(newer, &of[1])
        {
            self.frozen.splice(0..2, [merged]);
        }
    }

    /// Forgets everything: the database was changed behind it.
    pub fn clear(&mut self) {
        *self = Self::new();
    }
}

/// Two generations as one.
pub(crate) fn merged<N: Eq + Clone, K: Eq + Clone, V: Clone>(
    [older, newer]: &[Arc<Frozen<N, K, V>>; 2],
) -> Arc<Frozen<N, K, V>> {
    let mut entries = Generation { slots: newer.entries.slots.clone() };
    for slot in older.entries.slots() {
        if newer.entries.get(slot.hash, &slot.namespace, &slot.key).is_none() {
            entries.slots.insert_unique(spread(slot.hash), slot.clone(), |s| spread(s.hash));
        }
    }
    Arc::new(Frozen { entries, written: AtomicBool::new(true) })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::convert::Infallible;

    use proptest::prelude::*;
    use stillstream_types::KeyGroup;

    use super::*;

    type Model = BTreeMap<(u8, u16), u64>;

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8, u16, u64),
        Set(u8, u16, Option<u64>),
        Look(u8, u16),
        Freeze,
        /// The next frozen generation is written.
        Write,
        Shrink(usize),
        Merge,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let (window, key) = (0u8..3, 0u16..40);
        let step = prop_oneof![
            20 => (window.clone(), key.clone(), 1u64..9).prop_map(|(w, k, n)| Step::Add(w, k, n)),
            5 => (window.clone(), key.clone(), prop::option::of(0u64..9)).prop_map(|(w, k, n)| Step::Set(w, k, n)),
            5 => (window, key).prop_map(|(w, k)| Step::Look(w, k)),
            3 => Just(Step::Freeze),
            3 => Just(Step::Write),
            2 => (0usize..60).prop_map(Step::Shrink),
            2 => Just(Step::Merge),
        ];
        prop::collection::vec(step, 0..400)
    }

    fn hash(key: u16) -> KeyHash {
        // few distinct ones, so that keys share them
        KeyHash::new(KeyGroup(key % 3), u64::from(key % 7))
    }

    proptest! {
        #[test]
        fn whatever_is_frozen_written_and_let_go_reads_give_the_last_write(steps in steps()) {
            let (mut cache, mut model, mut database) = (WriteBack::<u8, u16, u64>::new(), Model::new(), Model::new());
            let mut queue = VecDeque::new();
            for step in steps {
                match step {
                    Step::Add(w, k, n) => {
                        let load = || Ok::<_, Infallible>(database.get(&(w, k)).copied());
                        *cache.change(hash(k), &w, &k, load).unwrap().get_or_insert(0) += n;
                        *model.entry((w, k)).or_default() += n;
                    }
                    Step::Set(w, k, value) => {
                        cache.set(hash(k), &w, &k, value);
                        match value {
                            Some(n) => model.insert((w, k), n),
                            None => model.remove(&(w, k)),
                        };
                    }
                    Step::Look(w, k) => {
                        let load = || Ok::<_, Infallible>(database.get(&(w, k)).copied());
                        prop_assert_eq!(*cache.look(hash(k), &w, &k, load).unwrap(), model.get(&(w, k)).copied());
                        prop_assert!(cache.knows(hash(k), &w, &k));
                    }
                    Step::Freeze => queue.extend(cache.freeze().map(|frozen| (frozen, model.clone()))),
                    Step::Write => {
                        let Some((frozen, expected)) = queue.pop_front() else { continue };
                        for slot in frozen.entries.slots().filter(|slot| slot.dirty) {
                            match slot.value {
                                Some(n) => database.insert((slot.namespace, slot.key), n),
                                None => database.remove(&(slot.namespace, slot.key)),
                            };
                        }
                        frozen.written();
                        // what a checkpoint of the database would hold
                        prop_assert_eq!(&database, &expected);
                    }
                    Step::Shrink(most) => {
                        let done = cache.shrink(most);
                        prop_assert!(!done || cache.len() <= most.max(cache.young_len()));
                        prop_assert!(done || !queue.is_empty());
                    }
                    Step::Merge => {
                        if let Some(two) = cache.to_merge() {
                            let merged = merged(&two);
                            cache.replace(&two, merged);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_generation_without_changes_needs_no_writing() {
        let mut cache = WriteBack::<(), u16, u64>::new();
        let found = cache.look(hash(1), &(), &1, || Ok::<_, Infallible>(Some(5))).unwrap();
        assert_eq!(*found, Some(5));
        assert!(cache.freeze().is_none() && cache.len() == 1);
        assert!(cache.shrink(0) && cache.len() == 0);
    }
}
