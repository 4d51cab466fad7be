//! How a table grows and shrinks: one page at a time.
//!
//! A full page is split in two by the next bit of the place. Where no split would part the entries (equal
//! hashes, or so many equal leading bits that the directory would grow out of proportion), the new one goes
//! to the *spill*: an ordered map behind an `Arc`, searched only when a search has passed every bucket of a
//! page. With a fair hash it stays empty.

use std::sync::Arc;

use super::layout::{Form, TAG_BITS};
use super::places::place_mask;
use super::pool::{Entry, Page};
use super::{Table, TableKey, TableValue};

/// The directory may have this many entries whatever the number of pages, and per page.
const DIRECTORY_FREE: usize = 4096;
const DIRECTORY_PER_PAGE: usize = 256;

impl<K: TableKey, V: TableValue> Table<K, V> {
    /// Adds an entry that is not there; returns where its value lies.
    pub(super) fn add(&mut self, place: u64, tag: u32, key: K, value: V) -> *mut V {
        loop {
            let page = self.make_own(place).page();
            // SAFETY: the page is own
            unsafe {
                if page.count() < Form::<K, V>::FULL {
                    let spot = Form::insert(page, tag, key, value);
                    self.len += 1;
                    return Form::<K, V>::value_mut(page, spot);
                }
            }
            if !self.make_room(place, tag) {
                break;
            }
        }
        let value = self.spill_entry(place, key, value);
        self.len += 1;
        value
    }

    /// Splits the full page at `place`, if that can part its entries and the one with this tag.
    fn make_room(&mut self, place: u64, tag: u32) -> bool {
        let page = self.entry(place).page();
        let mut differing = 0;
        // SAFETY: only `&mut self` writes the table's pages
        unsafe { Form::<K, V>::for_each(page, |_, other| differing |= other ^ tag) };
        // the place's bits are the upper 25 of the tag
        let parting = (differing >> (32 - TAG_BITS) << (32 - TAG_BITS)).leading_zeros() + 1;
        if parting > TAG_BITS {
            return false;
        }
        let wanted = 1usize << parting;
        let allowed = DIRECTORY_FREE + DIRECTORY_PER_PAGE * self.pages;
        if wanted > self.directory.len() && wanted > allowed {
            return false;
        }
        self.split(place);
        true
    }

    /// Splits the page at `place`, which is own and not of the greatest depth.
    fn split(&mut self, place: u64) {
        let entry = self.entry(place);
        let (page, depth) = (entry.page(), entry.depth());
        debug_assert!(entry.is_own() && depth < TAG_BITS);
        let first = place & !place_mask(depth);
        let middle = first | 1 << (63 - depth);
        // may clone a shared spill, so before anything is changed
        let spilled = self.take_spilled(first, place_mask(depth));
        if self.directory.len() == 1 << depth {
            self.double();
        }
        let is_high = |tag: u32| tag >> (31 - depth) & 1 == 1;
        let (mut low, mut high) = (0, 0);
        // SAFETY: the page is own
        unsafe { Form::<K, V>::for_each(page, |_, tag| if is_high(tag) { high += 1 } else { low += 1 }) };
        if spilled.is_empty() && (low == 0 || high == 0) {
            // nothing to move; the empty half needs no page
            let half = |full: bool| match full {
                true => Entry::new(page, depth + 1, true),
                false => Entry::new(Page::empty(), depth + 1, false),
            };
            self.set_entry(first, half(low != 0));
            self.set_entry(middle, half(high != 0));
            return;
        }
        // two fresh pages, so that the entries lie nearer to their homes than before
        let (to_low, to_high) = (self.fresh_page(), self.fresh_page());
        // SAFETY: all three pages are own; every entry is moved, and the old page then given back without
        // them
        unsafe {
            Form::<K, V>::for_each(page, |spot, tag| {
                Form::<K, V>::move_entry(page, spot, if is_high(tag) { to_high } else { to_low });
            });
        }
        self.set_entry(first, Entry::new(to_low, depth + 1, true));
        self.set_entry(middle, Entry::new(to_high, depth + 1, true));
        self.give(page);
        for (place, key, value) in spilled {
            let page = self.entry(place).page();
            // SAFETY: one of the two own pages
            unsafe {
                match page.count() < Form::<K, V>::FULL {
                    true => drop(Form::insert(page, self.tag(place), key, value)),
                    false => drop(self.spill_entry(place, key, value)),
                }
            }
        }
    }

    fn tag(&self, place: u64) -> u32 {
        Form::<K, V>::tag(place, self.places.hash_bits(place))
    }

    fn double(&mut self) {
        self.directory = self.directory.iter().flat_map(|&entry| [entry, entry]).collect();
        self.shift -= 1;
    }

    /// Gives back an own page without entries that is no longer in the directory.
    fn give(&mut self, page: Page) {
        self.pages -= 1;
        self.pool.give(page);
    }

    /// After a removal at `place`: gives an empty page back, and makes one of two buddies that are nearly
    /// empty.
    pub(super) fn shrink(&mut self, place: u64) {
        if self.spill.is_some() {
            return;
        }
        if self.len == 0 && self.directory.len() > 2 {
            return self.clear();
        }
        loop {
            let entry = self.entry(place);
            let depth = entry.depth();
            if depth == 0 || !self.may_merge(entry, Form::<K, V>::MERGED / 2) {
                return;
            }
            if !entry.page().is_empty_page() && Self::count(entry) == 0 {
                self.set_entry(place, Entry::new(Page::empty(), depth, false));
                self.give(entry.page());
                continue;
            }
            let buddy = self.entry(place ^ 1 << (64 - depth));
            if buddy.depth() != depth || !self.may_merge(buddy, Form::<K, V>::MERGED - Self::count(entry)) {
                return;
            }
            let (kept, own) = match (entry.page().is_empty_page(), buddy.page().is_empty_page()) {
                (true, _) => (buddy.page(), buddy.is_own()),
                (_, true) => (entry.page(), true),
                _ => {
                    let (from, to) = (buddy.page(), entry.page());
                    // SAFETY: both pages are own, and together they have at most MERGED entries
                    unsafe {
                        Form::<K, V>::for_each(from, |spot, _| Form::<K, V>::move_entry(from, spot, to))
                    };
                    self.give(from);
                    (to, true)
                }
            };
            self.set_entry(place, Entry::new(kept, depth - 1, own));
        }
    }

    fn count(entry: Entry) -> usize {
        match entry.page().is_empty_page() {
            true => 0,
            // SAFETY: a page of the table, which only `&mut self` writes
            false => unsafe { entry.page().count() },
        }
    }

    /// Only own pages: another's range must not grow, since an image of the changes would not tell what left
    /// it.
    fn may_merge(&self, entry: Entry, most: usize) -> bool {
        entry.page().is_empty_page() || entry.is_own() && Self::count(entry) <= most
    }

    /// Puts an entry into the spill, without counting it as the table's.
    fn spill_entry(&mut self, place: u64, key: K, value: V) -> *mut V {
        let spill = Arc::make_mut(self.spill.get_or_insert_default());
        let list = spill.entry(place).or_default();
        list.push((key, value));
        let at = list.len() - 1;
        let value = &raw mut list[at].1;
        // SAFETY: the caller made the page own
        unsafe { Form::<K, V>::count_spilled(self.entry(place).page(), 1) };
        value
    }

    /// The value of a key in the spill.
    pub(super) fn spilled(&self, place: u64, key: &K) -> Option<&V> {
        self.spill.as_ref()?.get(&place)?.iter().find(|e| e.0 == *key).map(|e| &e.1)
    }

    /// The same, to be written.
    pub(super) fn spilled_mut(&mut self, place: u64, key: &K) -> Option<&mut V> {
        self.spilled(place, key)?;
        // so that an image of the changes has it
        self.make_own(place);
        let list = Arc::make_mut(self.spill.as_mut()?).get_mut(&place)?;
        list.iter_mut().find(|e| e.0 == *key).map(|e| &mut e.1)
    }

    /// Removes a key from the spill.
    pub(super) fn remove_spilled(&mut self, place: u64, key: &K) -> Option<V> {
        self.spilled(place, key)?;
        let page = self.make_own(place).page();
        let spill = Arc::make_mut(self.spill.as_mut()?);
        let list = spill.get_mut(&place)?;
        let at = list.iter().position(|e| e.0 == *key)?;
        let (_key, value) = list.swap_remove(at);
        if list.is_empty() {
            spill.remove(&place);
        }
        if spill.is_empty() {
            self.spill = None;
        }
        self.len -= 1;
        // SAFETY: the page is own
        unsafe { Form::<K, V>::count_spilled(page, -1) };
        Some(value)
    }

    /// Keeps the entries of the spill for which `keep` is true.
    pub(super) fn retain_spilled(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        let Some(spill) = self.spill.clone() else { return };
        for (&place, list) in spill.iter() {
            for (key, value) in list {
                if !keep(key, value) {
                    self.remove_spilled(place, key);
                }
            }
        }
    }

    /// Takes the spill's entries of a page out. The page's counters are the caller's matter.
    fn take_spilled(&mut self, first: u64, mask: u64) -> Vec<(u64, K, V)> {
        let Some(spill) = &mut self.spill else { return Vec::new() };
        let range = first..=first | mask;
        if spill.range(range.clone()).next().is_none() {
            return Vec::new();
        }
        let spill = Arc::make_mut(spill);
        let places: Vec<u64> = spill.range(range).map(|(&place, _)| place).collect();
        let mut taken = Vec::new();
        for place in places {
            let list = spill.remove(&place).unwrap_or_default();
            taken.extend(list.into_iter().map(|(key, value)| (place, key, value)));
        }
        if spill.is_empty() {
            self.spill = None;
        }
        taken
    }
}
