//! The hash table of the heap backend: page-wise copy-on-write, prefetched batches, key groups in order.
//!
//! A directory points to pages of 4 KiB by the top bits of a key's *place* (its key group, then its hash), as
//! in extendible hashing: a full page splits in two, nothing is ever rehashed at once.
//!
//! - **Freeze** is O(pages): it pins every page and touches none. The image is read, on any thread, as long
//!   as it is held.
//! - **A write after a freeze** moves the table away from a pinned page, once per page and snapshot, by
//!   copying it. When the image no longer needs the page, the write goes in place. For an image of numbers
//!   that is only written to a snapshot the table saves the page's entries instead of copying the page.
//! - **A batch** of updates asks for the memory of records some twenty ahead while it updates the present
//!   one, which hides most of the time that a miss takes.
//! - **Key groups** are the top of the directory, so an image is read in their order and can be cut by them.
//!
//! | module | what is inside |
//! |---|---|
//! | `batch` | updates of a batch of records, with memory asked for ahead |
//! | `places` | from hashes to places in the directory |
//! | `pool` | memory of pages |
//! | `pins` | the protocol of pins: who may touch a page, and who frees it |
//! | `region` | memory from the system, on huge pages |
//! | `saves` | entries of numbers, saved for an image in place of a copy of their page |
//! | `blocks` | memory for that |
//! | `spare` | pages made present ahead of the worker |
//! | `layout` | how entries lie in a page, by the types of key and value |
//! | `counted` | the counted box for values that own memory |
//! | `grow` | splits, merges, and the spill for keys that no split can part |
//! | `frozen` | images |
//! | `numbers` | images of numbers, to be written once |
//! | `sweep` | a walk in pieces that removes and changes entries |
//! | `page_view` | one page of an image, by key groups |
//!
//! After the heap backend of Flink with its copy-on-write state map; the directory is Fagin's extendible
//! hashing, the tags and counters in buckets are F14's.

mod batch;
mod blocks;
mod counted;
mod frozen;
mod grow;
mod keys;
mod layout;
mod numbers;
mod page_view;
mod pins;
mod places;
mod pool;
mod region;
mod saves;
mod spare;
mod sweep;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_types::{KeyGroupRange, KeyHash};

use layout::{Form, Spot};
use places::Places;
use pool::{Entry, PAGE_BYTES, Page};
use saves::Saver;

pub use batch::AHEAD;
pub use frozen::{Change, Epoch, FrozenTable};
pub use keys::{KeyAt, KeysBy, KeysIn};
pub use numbers::{FrozenNumbers, NumbersPage};
pub use page_view::{Entries, PageView};
pub use places::{Span, place_mask};
pub use pool::PagePool;
pub use sweep::Fate;

/// What a table's key must be. Implemented for every such type, so for every key of a job.
pub trait TableKey: Eq + Clone + Send + Sync + 'static {}
impl<T: Eq + Clone + Send + Sync + 'static> TableKey for T {}

/// What a table's value must be. Implemented for every such type, so for everything that lives in state.
pub trait TableValue: Clone + Send + Sync + 'static {}
impl<T: Clone + Send + Sync + 'static> TableValue for T {}

/// Entries that no split can part from others, by place.
type Spill<K, V> = BTreeMap<u64, Vec<(K, V)>>;

/// A hash table owned by one worker.
///
/// Every call takes the key's [`KeyHash`] along with the key: it was computed once, when the record was sent.
/// Equal keys must come with equal hashes, and all key groups must be in the table's range. The hash need not
/// be the key's own: a table whose keys are pairs of a job's key and something else takes the group of the
/// former and bits that mix both.
///
/// ```
/// use stillstream_table::{KeysBy, Table};
/// use stillstream_data::Key;
/// use stillstream_types::KeyGroups;
///
/// let groups = KeyGroups::new(128);
/// let mut counts = Table::<u64, u64>::new(groups.all());
/// let users = [7u64, 9, 7];
/// let hashes = users.map(|user| user.key_hash(groups));
/// counts.update_batch(&hashes, &users[..], || 0, |_, count| *count += 1);
/// assert_eq!(counts.get(hashes[0], &7), Some(&2));
///
/// let frozen = counts.freeze();
/// counts.update_batch(&hashes, &KeysBy(|i| users[i]), || 0, |_, count| *count += 1);
/// let mut total = 0;
/// frozen.for_each_in_group_order(|_group, _user, count| total += count);
/// assert_eq!(total, 3);
/// ```
///
/// # Panics
///
/// A panic in a closure, clone or comparison of the caller leaves the table whole: the entry at hand is as it
/// was or as the closure left it. A panic in a destructor leaks at most the other entries of its page.
pub struct Table<K, V> {
    /// A power of two and at least 2 entries: place >> shift is always an index. All aliases of a page are
    /// equal.
    directory: Box<[Entry]>,
    shift: u32,
    /// Counts freezes; a page's stamp is the epoch of the first write after a freeze.
    epoch: u32,
    places: Places,
    len: usize,
    pages: usize,
    spill: Option<Arc<Spill<K, V>>>,
    pool: PagePool,
    /// For the last image of numbers, as long as there may be something to save for it.
    saver: Option<Saver>,
    entries: PhantomData<(K, V)>,
}

// SAFETY: the table owns its pages or shares them, unchanging, with frozen tables; keys and values are Send
// and Sync for being shared that way
unsafe impl<K: Send + Sync, V: Send + Sync> Send for Table<K, V> {}
// SAFETY: `&Table` only reads
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Table<K, V> {}

impl<K: TableKey, V: TableValue> Table<K, V> {
    /// An empty table for keys of these key groups, with pages from the pool of the calling thread.
    ///
    /// It takes less than 200 bytes until the first insertion, and one page then.
    pub fn new(range: KeyGroupRange) -> Self {
        Self::in_pool(range, &PagePool::of_this_thread())
    }

    /// An empty table with pages from this pool.
    pub fn in_pool(range: KeyGroupRange, pool: &PagePool) -> Self {
        Self {
            directory: Box::new([Entry::new(Page::empty(), 0, false); 2]),
            shift: 63,
            epoch: 1,
            places: Places::new(range),
            len: 0,
            pages: 0,
            spill: None,
            pool: pool.clone(),
            saver: None,
            entries: PhantomData,
        }
    }

    /// The key groups whose keys the table may hold.
    pub fn range(&self) -> KeyGroupRange {
        self.places.range()
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory in use, in bytes, without what keys and values own themselves and without pages that only
    /// snapshots hold.
    pub fn memory_bytes(&self) -> usize {
        let boxed = Form::<K, V>::BOXED_BYTES * self.len;
        let spilled = self.spill.as_ref().map_or(0, |spill| spill.len()) * (size_of::<(K, V)>() + 64);
        size_of::<Self>() + size_of_val(&*self.directory) + self.pages * PAGE_BYTES + boxed + spilled
    }

    #[inline(always)]
    fn view(&self) -> View {
        View { directory: self.directory.as_ptr(), shift: self.shift, places: self.places }
    }

    #[inline(always)]
    fn entry(&self, place: u64) -> Entry {
        debug_assert!(self.directory.len() as u64 == 1 << (64 - self.shift));
        // SAFETY: the directory has 2^(64 - shift) entries
        unsafe { *self.directory.get_unchecked((place >> self.shift) as usize) }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, hash: KeyHash, key: &K) -> Option<&V> {
        let (place, tag, entry) = self.view().locate::<K, V>(hash);
        let page = entry.page();
        // SAFETY: only `&mut self` writes the table's pages
        match unsafe { Form::<K, V>::find(page, tag, key) } {
            // SAFETY: `find` returns taken slots; the page stays while the table is borrowed
            Ok(spot) => Some(unsafe { &*Form::<K, V>::value(page, spot) }),
            Err(false) => None,
            Err(true) => self.spilled(place, key),
        }
    }

    /// The value of a key, to be changed in place.
    #[inline]
    pub fn get_mut(&mut self, hash: KeyHash, key: &K) -> Option<&mut V> {
        let (place, tag, mut entry) = self.view().locate::<K, V>(hash);
        // SAFETY: only `&mut self` writes the table's pages
        match unsafe { Form::<K, V>::find(entry.page(), tag, key) } {
            Ok(spot) => {
                if !entry.is_own() {
                    entry = self.make_own(place);
                }
                // SAFETY: the slot is taken, in a copy of the page too; the page is own
                Some(unsafe { &mut *Form::<K, V>::value_mut(entry.page(), spot) })
            }
            Err(false) => None,
            Err(true) => self.spilled_mut(place, key),
        }
    }

    /// The value of a key; a new key is cloned and gets the value that `make` returns.
    #[inline(always)]
    pub fn get_or_insert_with(&mut self, hash: KeyHash, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let (place, tag, entry) = self.view().locate::<K, V>(hash);
        if entry.is_own() {
            // SAFETY: the page is own
            if let Ok(spot) = unsafe { Form::<K, V>::find(entry.page(), tag, key) } {
                // SAFETY: the slot is taken, the page is own, and both stay while the table is borrowed
                return unsafe { &mut *Form::<K, V>::value_mut(entry.page(), spot) };
            }
        }
        self.get_or_insert_at(place, tag, key, make)
    }

    /// The same, when the page is not own or the key not there.
    #[cold]
    #[inline(never)]
    fn get_or_insert_at(&mut self, place: u64, tag: u32, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let page = self.make_own(place).page();
        // SAFETY: the page is own
        match unsafe { Form::<K, V>::find(page, tag, key) } {
            // SAFETY: the slot is taken, the page is own, and both stay while the table is borrowed
            Ok(spot) => return unsafe { &mut *Form::<K, V>::value_mut(page, spot) },
            Err(true) if self.spilled(place, key).is_some() => {
                // looked up twice, because a borrow that is returned on one branch lasts on all
                return self
                    .spilled_mut(place, key)
                    .expect("it was there, and nobody has touched the table since");
            }
            Err(_) => {}
        }
        let value = make();
        let key = key.clone();
        // SAFETY: `add` returns a valid place in own memory, borrowed as long as `self`
        unsafe { &mut *self.add(place, tag, key, value) }
    }

    /// Sets the value of a key and returns the old one.
    #[inline]
    pub fn insert(&mut self, hash: KeyHash, key: &K, value: V) -> Option<V> {
        let mut value = Some(value);
        let place = self.get_or_insert_with(hash, key, || value.take().expect("called at most once"));
        value.map(|value| std::mem::replace(place, value))
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, hash: KeyHash, key: &K) -> Option<V> {
        let (place, tag, mut entry) = self.view().locate::<K, V>(hash);
        // SAFETY: only `&mut self` writes the table's pages
        match unsafe { Form::<K, V>::find(entry.page(), tag, key) } {
            Ok(spot) => {
                if !entry.is_own() {
                    entry = self.make_own(place);
                }
                // SAFETY: the slot is taken, in a copy of the page too; the page is own
                let (_key, value) = unsafe { Form::<K, V>::remove(entry.page(), spot) };
                self.len -= 1;
                self.shrink(place);
                Some(value)
            }
            Err(false) => None,
            Err(true) => self.remove_spilled(place, key),
        }
    }

    /// Asks the processor to load the memory that a look-up of this hash will read first.
    #[inline(always)]
    pub fn prefetch(&self, hash: KeyHash) {
        self.view().prefetch::<K, V>(0, hash);
    }

    /// Calls `f` with every entry.
    pub fn for_each(&self, mut f: impl FnMut(&K, &V)) {
        for (_, entry) in self.distinct() {
            let page = entry.page();
            // SAFETY: only `&mut self` writes the table's pages; slots given to the closure are taken
            unsafe {
                Form::<K, V>::for_each(page, |spot, _| {
                    f(&*Form::<K, V>::key(page, spot), &*Form::<K, V>::value(page, spot));
                });
            }
        }
        self.spill.iter().flat_map(|spill| spill.values().flatten()).for_each(|e| f(&e.0, &e.1));
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        for place in self.starts() {
            let page = self.entry(place).page();
            let mut doomed: Vec<Spot> = Vec::new();
            // SAFETY: as in `for_each`
            unsafe {
                Form::<K, V>::for_each(page, |spot, _| {
                    if !keep(&*Form::<K, V>::key(page, spot), &*Form::<K, V>::value(page, spot)) {
                        doomed.push(spot);
                    }
                });
            }
            if doomed.is_empty() {
                continue;
            }
            let page = self.make_own(place).page();
            for spot in doomed {
                // SAFETY: the slot is taken, in a copy of the page too; the page is own
                let _entry = unsafe { Form::<K, V>::remove(page, spot) };
                self.len -= 1;
            }
        }
        self.retain_spilled(keep);
        for place in self.starts() {
            self.shrink(place);
        }
    }

    /// Takes all entries out. Memory is given back.
    pub fn drain(&mut self, mut f: impl FnMut(K, V)) {
        let mut old = self.take();
        for place in old.starts() {
            if old.entry(place).page().is_empty_page() {
                continue;
            }
            let page = old.make_own(place).page();
            let mut spots = Vec::new();
            // SAFETY: the page is own
            unsafe { Form::<K, V>::for_each(page, |spot, _| spots.push(spot)) };
            for spot in spots {
                // SAFETY: the slot is taken and the page is own
                let (key, value) = unsafe { Form::<K, V>::remove(page, spot) };
                f(key, value);
            }
        }
        let spill = old.spill.take().map(Arc::unwrap_or_clone).unwrap_or_default();
        spill.into_values().flatten().for_each(|(key, value)| f(key, value));
    }

    /// Removes all entries. Memory is given back.
    pub fn clear(&mut self) {
        drop(self.take());
    }

    /// Leaves an empty table with the same pool and epoch.
    fn take(&mut self) -> Self {
        let mut empty = Self::in_pool(self.range(), &self.pool);
        empty.epoch = self.epoch;
        std::mem::replace(self, empty)
    }

    /// Makes the page at `place` own: nobody else's, and marked as written in this epoch.
    #[cold]
    #[inline(never)]
    fn make_own(&mut self, place: u64) -> Entry {
        let old = self.entry(place);
        if old.is_own() {
            return old;
        }
        let page = old.page();
        if self.saver.as_ref().is_some_and(Saver::is_alone) {
            // the image is gone: what was saved for it is free
            self.saver = None;
        }
        let mut left = None;
        let own = if page.is_empty_page() {
            self.fresh_page()
        // SAFETY: a page in the directory belongs to the table
        } else if !unsafe { page.is_pinned() } || self.save(place, old) {
            page
        } else {
            let copy = NewPage { page: self.pool.take(), table: self };
            // SAFETY: pinned pages do not change; the copy is ours alone
            unsafe { Form::<K, V>::copy(page, copy.page) };
            left = Some(page);
            copy.done()
        };
        // SAFETY: the page is the table's and not pinned
        unsafe { own.set_stamp(self.epoch) };
        let entry = Entry::new(own, old.depth(), true);
        self.set_entry(place, entry);
        if let Some(page) = left {
            self.abandon(page);
        }
        entry
    }

    /// Sets the entry and its aliases.
    fn set_entry(&mut self, place: u64, entry: Entry) {
        let span = self.directory.len() >> entry.depth();
        let first = (place >> self.shift) as usize & !(span - 1);
        self.directory[first..first + span].fill(entry);
    }

    /// A formatted page of the present epoch, counted as the table's.
    fn fresh_page(&mut self) -> Page {
        let page = self.pool.take();
        // SAFETY: the pool gives pages that nobody else has
        unsafe {
            Form::<K, V>::format(page);
            page.set_stamp(self.epoch);
        }
        self.pages += 1;
        page
    }
}

/// What a look-up needs of a table, in registers. Valid until the table is changed other than in place.
#[derive(Clone, Copy)]
struct View {
    directory: *const Entry,
    shift: u32,
    places: Places,
}

impl View {
    /// Place, tag and directory entry of a hash.
    #[inline(always)]
    fn locate<K, V>(self, hash: KeyHash) -> (u64, u32, Entry) {
        let place = self.places.place(hash);
        // SAFETY: a directory has 2^(64 - shift) entries
        let entry = unsafe { *self.directory.add((place >> self.shift) as usize) };
        (place, Form::<K, V>::tag(place, hash.0), entry)
    }

    /// One of the rounds of prefetching: round 0 loads the bucket, later ones what a look-up reads behind it.
    #[inline(always)]
    fn prefetch<K: TableKey, V: TableValue>(self, round: usize, hash: KeyHash) {
        let (_, tag, entry) = self.locate::<K, V>(hash);
        match round {
            0 => Form::<K, V>::prefetch(entry.page(), tag),
            // SAFETY: the view is valid, so the page is the table's and not written meanwhile
            _ => unsafe { Form::<K, V>::prefetch_slot(entry.page(), tag, round) },
        }
    }
}

impl<K, V> Table<K, V> {
    /// Each page once, with the place where its range starts.
    fn distinct(&self) -> impl Iterator<Item = (u64, Entry)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let entry = *self.directory.get(at)?;
            let place = (at as u64) << self.shift;
            at += self.directory.len() >> entry.depth();
            Some((place, entry))
        })
    }

    /// The places where pages start, for loops that change the directory.
    fn starts(&self) -> Vec<u64> {
        self.distinct().map(|(place, _)| place).collect()
    }

    /// Ends the table's use of a page that is no longer in the directory, with the entries in it.
    fn abandon(&self, page: Page) {
        // SAFETY: the page was the table's, which has forgotten it; if it says so, we are the last to know it
        unsafe {
            if page.abandon() {
                Form::<K, V>::drop_entries(page);
                self.pool.give(page);
            }
        }
    }
}

/// A copy in the making: gives the page back if a clone panics.
struct NewPage<'a, K, V> {
    page: Page,
    table: &'a Table<K, V>,
}

impl<K, V> NewPage<'_, K, V> {
    fn done(self) -> Page {
        let page = self.page;
        std::mem::forget(self);
        page
    }
}

impl<K, V> Drop for NewPage<'_, K, V> {
    fn drop(&mut self) {
        // SAFETY: nobody else knows the page, which has been formatted before the first clone
        unsafe { Form::<K, V>::drop_entries(self.page) };
        self.table.pool.give(self.page);
    }
}

impl<K, V> Drop for Table<K, V> {
    fn drop(&mut self) {
        for (_, entry) in self.distinct() {
            if !entry.page().is_empty_page() {
                self.abandon(entry.page());
            }
        }
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("range", &self.places.range())
            .field("len", &self.len)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}
