//! Images of a table: pinned pages that never change.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_types::{KeyGroup, KeyGroupRange};

use super::layout::Form;
use super::page_view::PageView;
use super::places::{Places, Span, place_mask};
use super::pool::{Entry, Page, PagePool, Pinned};
use super::saves::{Saver, Saves};
use super::{Spill, Table, TableKey, TableValue};

/// Pages from which on a table saves entries: what it saves takes whole blocks of 64 KiB.
pub(super) const LEAST_PAGES_TO_SAVE: usize = 64;
/// Pages given back to the pool at once.
const GIVE_BACK: usize = 64;

/// The number of a freeze of one table, to ask for what was written since then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(u32);

impl Epoch {
    /// Before everything that was ever written to a table.
    pub const START: Self = Self(0);
}

/// An immutable image of a table.
///
/// It may be read on another thread and outlive the table. While it is held, the table copies what it writes;
/// dropping it lets the pages go.
pub struct FrozenTable<K, V> {
    pub(super) pool: PagePool,
    pub(super) places: Places,
    pub(super) groups: KeyGroupRange,
    epoch: Epoch,
    since: Option<Epoch>,
    len: usize,
    spill: Option<Arc<Spill<K, V>>>,
    /// in the order of places; those before `at` are released
    pub(super) pages: Vec<Pinned>,
    pub(super) at: usize,
    /// Only within [`FrozenNumbers`](super::FrozenNumbers), which does not touch a page before it has taken
    /// it.
    pub(super) saves: Option<Arc<Saves>>,
    entries: PhantomData<(K, V)>,
}

/// What [`FrozenTable::for_each_change`] visits.
#[derive(Debug)]
pub enum Change<'a, K, V> {
    /// From here on: the entries of this range, which replace all that an older image has there.
    Range(Span),
    /// An entry of the last range.
    Entry(KeyGroup, &'a K, &'a V),
}

impl<K: TableKey, V: TableValue> Table<K, V> {
    /// An image of the table as it is now.
    ///
    /// Takes time in proportion to the number of pages, about 10 ns for each.
    pub fn freeze(&mut self) -> FrozenTable<K, V> {
        self.freeze_newer(None, None)
    }

    /// The same for [`FrozenNumbers`](super::FrozenNumbers): the table may save entries for the image.
    pub(super) fn freeze_to_write(&mut self) -> FrozenTable<K, V> {
        // what was saved for an image that is gone is free before more is
        self.saver = None;
        // an entry in the spill is looked up by its page: such a table copies. So does a small one, of which
        // there may be thousands.
        let saves = self.spill.is_none() && self.pages >= LEAST_PAGES_TO_SAVE;
        let saves = saves.then(|| Saves::new(&self.pool, self.directory.len(), self.shift));
        let frozen = self.freeze_newer(None, saves);
        self.saver = frozen.saves.clone().map(Saver::new);
        frozen
    }

    /// An image of the pages that were written after another freeze, of which `base` is the
    /// [epoch](FrozenTable::epoch).
    ///
    /// Take as the base the newest image that is safely stored: what became of images in between does not
    /// matter.
    pub fn freeze_since(&mut self, base: Epoch) -> FrozenTable<K, V> {
        // epochs stop there; such a table has only full images
        self.freeze_newer(Some(base).filter(|_| self.epoch < u32::MAX), None)
    }

    /// Begins an epoch without an image: the number that a freeze would have had.
    pub fn mark(&mut self) -> Epoch {
        for entry in &mut self.directory {
            *entry = entry.not_own();
        }
        let epoch = Epoch(self.epoch);
        self.epoch = self.epoch.saturating_add(1);
        epoch
    }

    fn freeze_newer(&mut self, since: Option<Epoch>, mut saves: Option<Saves>) -> FrozenTable<K, V> {
        let mut frozen = FrozenTable {
            pool: self.pool.clone(),
            places: self.places,
            groups: self.places.range(),
            epoch: Epoch(self.epoch),
            since,
            len: 0,
            spill: self.spill.clone(),
            pages: self.pool.take_list(),
            at: 0,
            saves: None,
            entries: PhantomData,
        };
        frozen.pages.reserve(self.pages);
        let mut index = 0;
        while let Some(&entry) = self.directory.get(index) {
            let span = self.directory.len() >> entry.depth();
            let page = entry.page();
            // SAFETY: pages in the directory are the table's
            let count = if page.is_empty_page() { 0 } else { unsafe { page.count() as u16 } };
            let pinned = Pinned { entry: entry.not_own(), place: (index as u64) << self.shift, count };
            if page.is_empty_page() {
                // a range may have become empty: an image of changes says so
                if since.is_some() {
                    frozen.pages.push(pinned);
                }
            // SAFETY: pages in the directory are the table's
            } else if since.is_none_or(|base| unsafe { page.stamp() } > base.0) {
                // SAFETY: as above
                unsafe { page.pin() };
                frozen.pages.push(pinned);
                if let Some(saves) = saves.as_mut().filter(|_| entry.depth() >= self.places.group_bits()) {
                    saves.hold(index);
                }
                if entry.is_own() {
                    self.directory[index..index + span].fill(entry.not_own());
                }
            }
            index += span;
        }
        frozen.len = match since {
            None => self.len,
            Some(_) => frozen.count(),
        };
        self.epoch = self.epoch.saturating_add(1);
        frozen.saves = saves.map(Arc::new);
        frozen
    }

    /// Saves the entries of a page for the one image that holds it; true: the page is the table's alone now.
    pub(super) fn save(&mut self, place: u64, entry: Entry) -> bool {
        if !Form::<K, V>::is_numbers() {
            return false;
        }
        let page = entry.page();
        let Some(saver) = &mut self.saver else { return false };
        // SAFETY: a page in the directory is the table's, and pinned pages do not change
        let (once, count) = unsafe { (page.is_pinned_once(), page.count()) };
        let (start, entry) = (place & !place_mask(entry.depth()), Form::<K, V>::ENTRY_BYTES);
        let write = |to| {
            // SAFETY: keys and values are numbers, and the saver gives room for one more than there are
            unsafe { Form::<K, V>::numbers_to(page, to) };
        };
        if !once || !saver.save(start, count * entry, entry, write) {
            return false;
        }
        // SAFETY: the image's pin is the only one, because a page that may be saved lies in one part of it;
        // the table has taken its word in the image's place
        unsafe { page.take_over() };
        true
    }
}

impl<K: TableKey, V: TableValue> FrozenTable<K, V> {
    /// Has memory made present for the copies that the table will make while the image is written.
    pub fn expect_copies(&self) {
        // as measured: under uniform updates an image is written before half of its pages are copied
        self.pool.prepare_pages(self.pages.len() / 2);
    }

    /// How many entries are inside.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it has no page; one of changes may have pages and no entry.
    pub fn is_blank(&self) -> bool {
        self.at >= self.pages.len()
    }

    /// The key groups of which entries may be inside.
    pub fn range(&self) -> KeyGroupRange {
        self.groups
    }

    /// The number of this freeze, for [`Table::freeze_since`].
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// For an image of changes, the epoch whose image it continues.
    pub fn since(&self) -> Option<Epoch> {
        self.since
    }

    /// How many pages it holds.
    pub fn pages(&self) -> usize {
        self.pages[self.at..].iter().filter(|pinned| !pinned.entry.page().is_empty_page()).count()
    }

    /// Calls `f` with every entry; key groups come in ascending order, the entries of a group in any.
    pub fn for_each_in_group_order(&self, mut f: impl FnMut(KeyGroup, &K, &V)) {
        for &pinned in &self.pages[self.at..] {
            PageView::new(self, pinned).for_each_in_group_order(&mut f);
        }
    }

    /// The same, and lets each page go when it was visited, so that the table has less to copy.
    pub fn into_group_order(self, mut f: impl FnMut(KeyGroup, &K, &V)) {
        self.into_pages(|page| page.for_each_in_group_order(&mut f));
    }

    /// Calls `f` with every page in the order of places, and lets each page go when it was visited.
    pub fn into_pages(mut self, mut f: impl FnMut(&PageView<'_, K, V>)) {
        let mut freed = Vec::new();
        while let Some(&pinned) = self.pages.get(self.at) {
            if let Some(next) = self.pages.get(self.at + 1) {
                // pages lie in no order: the processor does not see the next one coming
                Form::<K, V>::prefetch_page(next.entry.page());
            }
            f(&PageView::new(&self, pinned));
            self.at += 1;
            self.release(pinned, &mut freed);
        }
        self.pool.give_all(&mut freed);
    }

    /// At most `n` pages with entries, spread over the image.
    pub fn sample(&self, n: usize) -> impl Iterator<Item = PageView<'_, K, V>> {
        let pages = &self.pages[self.at..];
        let step = (pages.len() / n.max(1)).max(1);
        let filled = pages.iter().step_by(step).take(n).filter(|pinned| self.count_at(**pinned) > 0);
        filled.map(|pinned| PageView::new(self, *pinned))
    }

    /// Calls `f` with the key groups of each page and how many entries it has.
    pub fn for_each_count(&self, mut f: impl FnMut(KeyGroupRange, usize)) {
        for &pinned in &self.pages[self.at..] {
            let span = self.places.span(pinned.place, pinned.entry.depth());
            f(span.groups.intersect(self.groups), self.count_at(pinned));
        }
    }

    /// Visits the ranges of the image and, after each, its entries. A range may cover several key groups; its
    /// entries come in the order of key groups.
    pub fn for_each_change(&self, mut f: impl FnMut(Change<'_, K, V>)) {
        for &pinned in &self.pages[self.at..] {
            f(Change::Range(self.places.span(pinned.place, pinned.entry.depth())));
            PageView::new(self, pinned).for_each_in_group_order(&mut |group, key: &K, value: &V| {
                f(Change::Entry(group, key, value))
            });
        }
    }

    /// Cuts the image at key groups: part `i` has the entries of the groups `bounds[i]..bounds[i + 1]`.
    /// Entries of groups outside of the bounds are in no part. A page that covers groups of several parts is
    /// held by each of them.
    pub fn cut(mut self, bounds: &[u16]) -> Vec<Self> {
        let mut parts: Vec<Self> =
            bounds.windows(2).map(|two| self.part(KeyGroupRange::new(two[0], two[1]))).collect();
        let pages = std::mem::take(&mut self.pages);
        let (mut freed, mut first) = (Vec::new(), 0);
        for &pinned in &pages[self.at.min(pages.len())..] {
            let groups = self.places.span(pinned.place, pinned.entry.depth()).groups;
            while first < parts.len() && parts[first].groups.end <= groups.start {
                first += 1;
            }
            let holders = parts[first..].iter_mut().take_while(|part| part.groups.start < groups.end);
            let mut held = false;
            for part in holders {
                if held && !pinned.entry.page().is_empty_page() {
                    // SAFETY: the part before holds our pin
                    unsafe { pinned.entry.page().pin_again() };
                }
                part.pages.push(pinned);
                held = true;
            }
            if !held {
                self.release(pinned, &mut freed);
            }
        }
        self.pool.give_all(&mut freed);
        self.pool.give_list(pages);
        for part in &mut parts {
            part.len = part.count();
        }
        parts
    }

    /// Cuts the image into at most `n` parts of about equal size, to be read in parallel. Each has the
    /// entries of a run of key groups; the runs are disjoint and in order, and together they are the image's.
    pub fn parts(mut self, n: usize) -> Vec<Self> {
        let n = n.max(1);
        // with a page that covers several groups, the run ends behind it; so parts are found, not computed
        let mut cuts = vec![0];
        let mut seen = 0;
        for (i, pinned) in self.pages.iter().enumerate() {
            if cuts.len() < n
                && seen * n >= self.len * cuts.len()
                && i > 0
                && self.places.starts_group(pinned.place)
            {
                cuts.push(i);
            }
            seen += self.count_at(*pinned);
        }
        let mut parts = Vec::with_capacity(cuts.len());
        let mut end = self.groups.end;
        // from the back, so that each part is split off the rest
        for &cut in cuts.iter().skip(1).rev() {
            let start = self.places.group(self.pages[cut].place).0;
            let mut part = self.part(KeyGroupRange::new(start, end));
            part.pages = self.pages.split_off(cut);
            part.len = part.count();
            parts.push(part);
            end = start;
        }
        self.groups = KeyGroupRange::new(self.groups.start, end);
        self.len = self.count();
        parts.push(self);
        parts.reverse();
        parts
    }

    fn part(&self, groups: KeyGroupRange) -> Self {
        Self {
            pool: self.pool.clone(),
            places: self.places,
            groups,
            epoch: self.epoch,
            since: self.since,
            len: 0,
            spill: self.spill.clone(),
            pages: Vec::new(),
            at: 0,
            saves: self.saves.clone(),
            entries: PhantomData,
        }
    }

    fn count(&self) -> usize {
        self.pages.iter().map(|&pinned| self.count_at(pinned)).sum()
    }

    fn count_at(&self, pinned: Pinned) -> usize {
        usize::from(pinned.count) + self.spilled(pinned).map(|(_, list)| list.len()).sum::<usize>()
    }

    /// The spill's entries in the range of a page.
    pub(super) fn spilled(&self, pinned: Pinned) -> impl Iterator<Item = (&u64, &Vec<(K, V)>)> {
        let range = pinned.place..=pinned.place | place_mask(pinned.entry.depth());
        self.spill.iter().flat_map(move |spill| spill.range(range.clone()))
    }
}

impl<K, V> FrozenTable<K, V> {
    /// Lets a page go that is not read any more.
    pub(super) fn release(&self, pinned: Pinned, freed: &mut Vec<Page>) {
        let page = pinned.entry.page();
        if self.saves.as_ref().is_some_and(|saves| saves.take(pinned.place, 0).is_some()) {
            // the table has ended our hold
            return;
        }
        // SAFETY: pinned by the freeze and released once: the caller moves past it. The last one drops the
        // entries.
        unsafe {
            if !page.is_empty_page() && page.unpin() {
                Form::<K, V>::drop_entries(page);
                freed.push(page);
            }
        }
        if freed.len() >= GIVE_BACK {
            self.pool.give_all(freed);
        }
    }
}

impl<K, V> Drop for FrozenTable<K, V> {
    fn drop(&mut self) {
        let mut freed = Vec::new();
        while let Some(&pinned) = self.pages.get(self.at) {
            self.at += 1;
            self.release(pinned, &mut freed);
        }
        self.pool.give_all(&mut freed);
        self.pool.give_list(std::mem::take(&mut self.pages));
    }
}

impl<K, V> fmt::Debug for FrozenTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrozenTable")
            .field("groups", &self.groups)
            .field("len", &self.len)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}
