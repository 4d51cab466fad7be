//! Value, reducing and aggregating state: one entry per key, the hot ones as native values in memory.

use std::cell::{Cell, RefCell, RefMut};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use rust_rocksdb::WriteBatch;
use stillstream_data::{Data, Key};
use stillstream_state::StateError;
use stillstream_state::backend::KeyedValues;
use stillstream_state::kinds::{CurrentKey, ValueStore};
use stillstream_table::KeyAt;
use stillstream_types::KeyHash;

use crate::db::{Family, SortedFile};
use crate::layout::Layout;
use crate::load::new_file;
use crate::memory::Share;
use crate::state::{Entry, RocksState, check_size, decode, left_over, typed, unreadable};
use crate::write_back::{Frozen, WriteBack, merged};
use crate::writer::Pending;

type Cache<K, V> = WriteBack<(), K, V>;
type FrozenEntries<K, V> = Arc<Frozen<(), K, V>>;

/// From so many entries on, a sorted file is faster than a batch through the memory table.
const FILE_ENTRIES: usize = 10_000;
/// So many entries of a generation are measured, and so many may be in memory in any case.
const SAMPLE: usize = 16;
/// What an allocator needs beside what it was asked for, about.
const ALLOCATION: usize = 32;

/// One state.
#[derive(Debug)]
pub(crate) struct RocksTable<K, V> {
    family: Family,
    layout: Layout,
    /// Held while users' code runs in the middle of a read or an update.
    cache: RefCell<Cache<K, V>>,
    scratch: RefCell<Entry>,
    missing: RefCell<Missing>,
    share: Share,
    /// The young generation is frozen, or measured again, at this many entries.
    limit: Cell<usize>,
    /// Bytes that an entry owns beside its slot, by the last measurement.
    owned: Cell<usize>,
    /// Two generations that are being put together.
    merging: RefCell<Option<Merging<K, V>>>,
}

/// The keys of a batch that are not in memory.
#[derive(Debug, Default)]
struct Missing {
    /// As in the database, one after another.
    bytes: Vec<u8>,
    /// Where each is, and the record that it belongs to.
    keys: Vec<(Range<usize>, usize)>,
    entry: Vec<u8>,
}

type Merging<K, V> = ([FrozenEntries<K, V>; 2], Pending<FrozenEntries<K, V>>);

impl<K: Key, V: Data> RocksState for RocksTable<K, V> {
    fn reload(&self) -> Result<(), StateError> {
        self.cache_mut()?.clear();
        Ok(())
    }

    fn hand_over(&self) -> Result<(), StateError> {
        self.freeze(&mut *self.cache_mut()?)
    }
}

impl<K: Key, V: Data> RocksTable<K, V> {
    pub fn new(family: Family, layout: Layout) -> Self {
        let share = family.database().tuning.share_of_write_back();
        let table = Self {
            family,
            layout,
            cache: RefCell::new(WriteBack::new()),
            scratch: RefCell::default(),
            missing: RefCell::default(),
            share,
            limit: Cell::new(0),
            owned: Cell::new(0),
            merging: RefCell::new(None),
        };
        table.limit.set(table.first_limit());
        table
    }

    fn in_use(&self) -> StateError {
        StateError::InUse { name: self.family.name.to_string() }
    }

    #[inline]
    fn cache_mut(&self) -> Result<RefMut<'_, Cache<K, V>>, StateError> {
        self.cache.try_borrow_mut().map_err(|_| self.in_use())
    }

    /// Reads an entry from the database.
    fn load(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        let entry = &mut *self.scratch.borrow_mut();
        self.layout.entry(hash, &[], key, &mut entry.key);
        self.family.get(&entry.key)?.map(|bytes| decode(&self.family, &bytes)).transpose()
    }

    /// How many entries may be in memory.
    fn most(&self) -> usize {
        let entry = size_of::<crate::write_back::Slot<(), K, V>>() * 8 / 7 + 1 + self.owned.get();
        (self.share.bytes() / entry).max(3 * SAMPLE)
    }

    /// How many may be in the young generation: with two thirds for older ones, all of them keep to the
    /// share.
    fn most_young(&self) -> usize {
        self.most() / 3
    }

    /// How far a new generation may grow unseen: entries that own memory may be larger than those before.
    fn first_limit(&self) -> usize {
        if std::mem::needs_drop::<(K, V)>() { SAMPLE } else { self.most_young() }
    }

    /// Measures what entries own: their encoded size says it well enough.
    fn measure(&self, cache: &Cache<K, V>) {
        if !std::mem::needs_drop::<(K, V)>() {
            return;
        }
        let (mut bytes, mut total, mut count) = (Vec::new(), 0, 0);
        for slot in cache.young_slots().take(SAMPLE) {
            bytes.clear();
            slot.key.encode(&mut bytes);
            if let Some(value) = &slot.value {
                value.encode(&mut bytes);
            }
            total += bytes.len() + ALLOCATION;
            count += 1;
        }
        self.owned.set(total / count.max(1));
    }

    /// Makes room, if need be: the young generation is written, the oldest ones go. Waits only if writing
    /// does not keep up.
    #[inline]
    fn make_room(&self, cache: &mut Cache<K, V>) -> Result<(), StateError> {
        match cache.young_len() >= self.limit.get() {
            true => self.make_room_now(cache),
            false => Ok(()),
        }
    }

    #[cold]
    fn make_room_now(&self, cache: &mut Cache<K, V>) -> Result<(), StateError> {
        self.measure(cache);
        let (most_young, young) = (self.most_young(), cache.young_len());
        if young < most_young {
            self.limit.set(most_young.min(young * 2));
            return Ok(());
        }
        self.freeze(cache)?;
        while !cache.shrink(self.most() - most_young) {
            self.family.database().writer.wait_for_next()?;
        }
        Ok(())
    }

    /// Freezes the young generation and has it written.
    fn freeze(&self, cache: &mut Cache<K, V>) -> Result<(), StateError> {
        let database = self.family.database();
        self.limit.set(self.first_limit());
        if let Some(frozen) = cache.freeze() {
            let flush = Flush { family: database.family(&self.family.name)?, layout: self.layout };
            database.writer.submit(move || flush.write(&frozen))?;
        }
        let merging = &mut *self.merging.borrow_mut();
        if let Some((two, pending)) = merging {
            let Some(merged) = pending.now() else { return Ok(()) };
            cache.replace(two, merged?);
            *merging = None;
        }
        if let Some(two) = cache.to_merge() {
            let of_job = two.clone();
            *merging = Some((two, database.writer.ask(move || merged(&of_job))));
        }
        Ok(())
    }

    /// All entries in the database, for a walk over it.
    fn settle(&self) -> Result<(), StateError> {
        self.freeze(&mut *self.cache_mut()?)?;
        self.family.database().writer.wait_for_all()
    }

    pub fn fetch(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        let cache = &mut *self.cache_mut()?;
        self.make_room(cache)?;
        cache.look(hash, &(), key, || self.load(hash, key)).cloned()
    }

    pub fn with<R>(&self, hash: KeyHash, key: &K, f: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        {
            // a `with` within a `with` finds the cache held, and has nothing to bring
            if let Ok(mut cache) = self.cache.try_borrow_mut() {
                self.make_room(&mut cache)?;
                cache.look(hash, &(), key, || self.load(hash, key))?;
            }
        }
        let cache = self.cache.try_borrow().map_err(|_| self.in_use())?;
        match cache.known(hash, &(), key) {
            Some(value) => Ok(f(value.as_ref())),
            None => Ok(f(self.load(hash, key)?.as_ref())),
        }
    }

    pub fn put(&self, hash: KeyHash, key: &K, value: V) -> Result<(), StateError> {
        let cache = &mut *self.cache_mut()?;
        self.make_room(cache)?;
        cache.set(hash, &(), key, Some(value));
        Ok(())
    }

    pub fn delete(&self, hash: KeyHash, key: &K) -> Result<(), StateError> {
        let cache = &mut *self.cache_mut()?;
        self.make_room(cache)?;
        cache.set(hash, &(), key, None);
        Ok(())
    }

    pub fn take(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        let cache = &mut *self.cache_mut()?;
        self.make_room(cache)?;
        match cache.look(hash, &(), key, || self.load(hash, key))? {
            None => Ok(None),
            Some(_) => Ok(cache.change(hash, &(), key, || Ok::<_, StateError>(None))?.take()),
        }
    }

    pub fn update<R>(
        &self,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        let cache = &mut *self.cache_mut()?;
        self.make_room(cache)?;
        let value = cache.change(hash, &(), key, || self.load(hash, key))?.get_or_insert_with(init);
        Ok(f(value))
    }

    /// Updates the values of a batch in the order of the records. Those that are not in memory are read at
    /// once.
    pub fn update_batch(
        &self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        mut init: impl FnMut() -> V,
        mut f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        let cache = &mut *self.cache_mut()?;
        let mut at = 0;
        while at < hashes.len() {
            self.make_room(cache)?;
            // a batch of large values may be larger than the room
            let room = self.limit.get().saturating_sub(cache.young_len()).max(1);
            let part = at..hashes.len().min(at + room);
            at = part.end;
            self.bring_missing(cache, part.clone(), hashes, keys)?;
            for i in part {
                let hash = hashes[i];
                // the key is not held while `f` runs: it may lie in a record that `f` takes
                let value = keys.with(i, |key| cache.change(hash, &(), key, || self.load(hash, key)))?;
                f(i, value.get_or_insert_with(&mut init));
            }
        }
        Ok(())
    }

    fn bring_missing(
        &self,
        cache: &mut Cache<K, V>,
        part: Range<usize>,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
    ) -> Result<(), StateError> {
        let Missing { bytes, keys: missing, entry } = &mut *self.missing.borrow_mut();
        bytes.clear();
        missing.clear();
        for i in part {
            keys.with(i, |key| {
                if !cache.knows(hashes[i], &(), key) {
                    self.layout.entry(hashes[i], &[], key, entry);
                    let start = bytes.len();
                    bytes.extend_from_slice(entry);
                    missing.push((start..bytes.len(), i));
                }
            });
        }
        if missing.is_empty() {
            return Ok(());
        }
        let of = |range: &Range<usize>| &bytes[range.clone()];
        missing.sort_unstable_by(|a, b| of(&a.0).cmp(of(&b.0)));
        missing.dedup_by(|a, b| of(&a.0) == of(&b.0));
        let found = self.family.get_sorted(missing.iter().map(|(range, _)| of(range)));
        for ((_, i), found) in missing.iter().zip(found) {
            let value = found?.map(|bytes| decode(&self.family, &bytes)).transpose()?;
            keys.with(*i, |key| cache.look(hashes[*i], &(), key, || Ok::<_, StateError>(value)).map(drop))?;
        }
        Ok(())
    }

    /// Visits all keys, groups ascending.
    pub fn for_each(&self, mut f: impl FnMut(&K, &V)) -> Result<(), StateError> {
        self.settle()?;
        let _reading = self.cache.try_borrow().map_err(|_| self.in_use())?;
        self.family.scan(&[]).each(|key, value| {
            let (_, mut rest) = self.layout.split(key).map_err(unreadable(&self.family))?;
            let key = K::decode(&mut rest).map_err(unreadable(&self.family))?;
            if !rest.is_empty() {
                return Err(unreadable(&self.family)(left_over(rest)));
            }
            f(&key, &decode(&self.family, value)?);
            Ok(())
        })
    }

    /// How many keys there are: counts them.
    pub fn len(&self) -> Result<usize, StateError> {
        self.settle()?;
        let mut count = 0;
        self.family.scan(&[]).each(|_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    pub fn is_empty(&self) -> Result<bool, StateError> {
        self.settle()?;
        Ok(self.family.scan(&[]).entry()?.is_none())
    }
}

/// One value per key, with the key's type known.
#[derive(Debug)]
pub struct RocksValues<K, V>(pub(crate) Rc<RocksTable<K, V>>);

impl<K, V> Clone for RocksValues<K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Key, V: Data> KeyedValues<K, V> for RocksValues<K, V> {
    #[inline]
    fn get(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        self.0.fetch(hash, key)
    }

    #[inline]
    fn with<R>(&self, hash: KeyHash, key: &K, f: impl FnOnce(Option<&V>) -> R) -> Result<R, StateError> {
        self.0.with(hash, key, f)
    }

    #[inline]
    fn update<R>(
        &self,
        hash: KeyHash,
        key: &K,
        init: impl FnOnce() -> V,
        f: impl FnOnce(&mut V) -> R,
    ) -> Result<R, StateError> {
        self.0.update(hash, key, init, f)
    }

    #[inline]
    fn update_batch(
        &self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) -> Result<(), StateError> {
        self.0.update_batch(hashes, keys, init, f)
    }

    fn insert(&self, hash: KeyHash, key: &K, value: V) -> Result<(), StateError> {
        self.0.put(hash, key, value)
    }

    fn remove(&self, hash: KeyHash, key: &K) -> Result<Option<V>, StateError> {
        self.0.take(hash, key)
    }

    fn for_each(&self, f: impl FnMut(&K, &V)) -> Result<(), StateError> {
        self.0.for_each(f)
    }

    fn len(&self) -> Result<usize, StateError> {
        self.0.len()
    }

    fn is_empty(&self) -> Result<bool, StateError> {
        self.0.is_empty()
    }
}

/// Writes a frozen generation to the database.
struct Flush {
    family: Family,
    layout: Layout,
}

impl Flush {
    fn write<K: Key, V: Data>(&self, frozen: &FrozenEntries<K, V>) -> Result<(), StateError> {
        let mut slots: Vec<_> = frozen.entries.slots().filter(|slot| slot.dirty).collect();
        // by key group first: so only the keys of one group are encoded and sorted at once
        slots.sort_unstable_by_key(|slot| slot.hash.group());
        let (database, name) = (self.family.database(), &self.family.name);
        let options = database.tuning.family_options();
        let mut out = match slots.len() < FILE_ENTRIES {
            true => Out::Batch(WriteBatch::default()),
            false => Out::File(SortedFile::create(&options, new_file(database), name)?),
        };
        let (mut bytes, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        for group in slots.chunk_by(|a, b| a.hash.group() == b.hash.group()) {
            bytes.clear();
            let mut entries = Vec::with_capacity(group.len());
            for slot in group {
                self.layout.entry(slot.hash, &[], &slot.key, &mut key);
                let start = bytes.len();
                bytes.extend_from_slice(&key);
                entries.push((start..bytes.len(), slot.value.as_ref()));
            }
            entries.sort_unstable_by(|a, b| bytes[a.0.clone()].cmp(&bytes[b.0.clone()]));
            for (key, of) in entries {
                let of = match of {
                    None => None,
                    Some(of) => {
                        value.clear();
                        of.encode(&mut value);
                        check_size(&self.family, &value)?;
                        Some(value.as_slice())
                    }
                };
                out.write(&self.family, &bytes[key], of)?;
            }
        }
        out.finish(&self.family)?;
        frozen.written();
        Ok(())
    }
}

/// So many bytes go through a memory table at once. 1 MiB.
const BATCH_BYTES: usize = 1 << 20;

/// Where entries of a generation go, ascending.
enum Out<'a> {
    Batch(WriteBatch),
    File(SortedFile<'a>),
}

impl Out<'_> {
    /// `None`: the entry is deleted.
    fn write(&mut self, family: &Family, key: &[u8], value: Option<&[u8]>) -> Result<(), StateError> {
        match (self, value) {
            (Self::File(file), Some(value)) => file.put(key, value),
            (Self::File(file), None) => file.delete(key),
            (Self::Batch(batch), value) => {
                match value {
                    Some(value) => family.batch_put(batch, key, value),
                    None => family.batch_delete(batch, key),
                }
                if batch.size_in_bytes() >= BATCH_BYTES {
                    family.database().write_in_order(&family.name, batch)?;
                    // a new one, since a cleared one keeps its memory
                    *batch = WriteBatch::default();
                }
                Ok(())
            }
        }
    }

    fn finish(self, family: &Family) -> Result<(), StateError> {
        match self {
            Self::File(file) => family.ingest(vec![file.finish()?]),
            Self::Batch(batch) if batch.is_empty() => Ok(()),
            Self::Batch(batch) => family.database().write_in_order(&family.name, &batch),
        }
    }
}

impl<K: Key, V: Data> ValueStore<V> for RocksTable<K, V> {
    fn get(&self, key: CurrentKey<'_>) -> Result<Option<V>, StateError> {
        self.fetch(key.hash, typed::<K>(&self.family, key)?)
    }

    fn read(&self, key: CurrentKey<'_>, f: &mut dyn FnMut(Option<&V>)) -> Result<(), StateError> {
        self.with(key.hash, typed::<K>(&self.family, key)?, f)
    }

    fn set(&self, key: CurrentKey<'_>, value: V) -> Result<(), StateError> {
        self.put(key.hash, typed::<K>(&self.family, key)?, value)
    }

    fn update(
        &self,
        key: CurrentKey<'_>,
        init: &mut dyn FnMut() -> V,
        f: &mut dyn FnMut(&mut V),
    ) -> Result<(), StateError> {
        RocksTable::update(self, key.hash, typed::<K>(&self.family, key)?, init, f)
    }

    fn clear(&self, key: CurrentKey<'_>) -> Result<(), StateError> {
        self.delete(key.hash, typed::<K>(&self.family, key)?)
    }
}
