//! One page of an image, read by key groups.

use std::fmt;

use stillstream_types::{KeyGroup, KeyGroupRange};

use super::frozen::FrozenTable;
use super::layout::{Form, Spot};
use super::places::Span;
use super::pool::Pinned;
use super::{TableKey, TableValue};

/// A page that an image holds.
///
/// Its entries fall into cells: by home bucket if the page has one key group, else by key group. So a cell is
/// the same set of hashes whatever lies in the page, as long as the page covers the same range.
pub struct PageView<'a, K, V> {
    frozen: &'a FrozenTable<K, V>,
    pinned: Pinned,
    span: Span,
}

impl<K, V> fmt::Debug for PageView<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageView").field("span", &self.span).finish_non_exhaustive()
    }
}

/// The entries of one key group in one page.
pub enum Entries<'a, 'p, K, V> {
    /// All of the page.
    All(&'p PageView<'a, K, V>),
    /// Some of a page that has several groups: cell, key and value.
    Some(&'p [(KeyGroup, usize, &'a K, &'a V)]),
}

impl<K, V> fmt::Debug for Entries<'_, '_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").finish_non_exhaustive()
    }
}

impl<K: TableKey, V: TableValue> Entries<'_, '_, K, V> {
    /// Calls `f` with the cell, key and value of each entry.
    #[inline(always)]
    pub fn for_each(&self, mut f: impl FnMut(usize, &K, &V)) {
        match self {
            Self::All(page) => page.visit(|_, cell, key, value| f(cell, key, value)),
            Self::Some(entries) => entries.iter().for_each(|(_, cell, key, value)| f(*cell, key, value)),
        }
    }
}

impl<'a, K: TableKey, V: TableValue> PageView<'a, K, V> {
    pub(super) fn new(frozen: &'a FrozenTable<K, V>, pinned: Pinned) -> Self {
        Self { frozen, pinned, span: frozen.places.span(pinned.place, pinned.entry.depth()) }
    }

    /// How many cells a page has.
    pub const CELLS: usize = Form::<K, V>::BUCKETS;

    /// The start of the page's range in the directory, and by how many leading bits it is told from others.
    pub fn position(&self) -> (u64, u32) {
        (self.pinned.place, self.pinned.entry.depth())
    }

    /// The hashes that the page covers, in and out of the image's key groups.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// The page's key groups that the image has.
    pub fn groups(&self) -> KeyGroupRange {
        self.span.groups.intersect(self.frozen.groups)
    }

    fn has_one_group(&self) -> bool {
        self.pinned.entry.depth() >= self.frozen.places.group_bits()
    }

    /// How many cells each group of the page has, and the first of `group`. One, perhaps shared with others,
    /// if there are several groups.
    pub fn cells_of(&self, group: KeyGroup) -> (usize, usize) {
        match self.has_one_group() {
            true => (Self::CELLS, 0),
            false => {
                let (at, of) = ((group.0 - self.span.groups.start) as usize, self.span.groups.len());
                (1, at * Self::CELLS.min(of) / of)
            }
        }
    }

    /// The page's key group, if it has one and [`append_numbers`](Self::append_numbers) can be called.
    #[inline(always)]
    pub fn group_of_numbers(&self) -> Option<KeyGroup> {
        let all_inside = || self.has_one_group() && self.frozen.spilled(self.pinned).next().is_none();
        (Form::<K, V>::is_numbers() && !self.pinned.entry.page().is_empty_page() && all_inside())
            .then_some(KeyGroup(self.span.groups.start))
    }

    /// Appends the binary form of each entry of a page that has a
    /// [`group_of_numbers`](Self::group_of_numbers), and says how many they are.
    #[inline(always)]
    pub fn append_numbers(&self, out: &mut Vec<u8>) -> u32 {
        assert!(Form::<K, V>::is_numbers() && !self.pinned.entry.page().is_empty_page());
        // SAFETY: checked; the image pins the page, so nobody writes it
        unsafe { Form::<K, V>::append_numbers(self.pinned.entry.page(), out) }
    }

    /// Calls `f` with each entry of the image's groups, in the order of the page.
    #[inline(always)]
    fn visit(&self, mut f: impl FnMut(KeyGroup, usize, &'a K, &'a V)) {
        let page = self.pinned.entry.page();
        let places = self.frozen.places;
        // SAFETY: the image pins the page, so nobody writes it; slots given to the closure are taken, and
        // what they hold stays while the image is borrowed
        let entry =
            |spot: Spot| unsafe { (&*Form::<K, V>::key(page, spot), &*Form::<K, V>::value(page, spot)) };
        let one = self.has_one_group();
        let first = self.span.groups.start;
        let mut put = |group: KeyGroup, tag: u32, key: &'a K, value: &'a V| {
            if one {
                return f(group, Form::<K, V>::home(tag), key, value);
            }
            if self.frozen.groups.contains(group) {
                f(group, self.cells_of(group).1, key, value);
            }
        };
        // SAFETY: as above
        unsafe {
            Form::<K, V>::for_each(page, |spot, tag| {
                let (key, value) = entry(spot);
                let group = if one { KeyGroup(first) } else { places.group((tag as u64) << 32) };
                put(group, tag, key, value);
            });
        }
        for (&place, list) in self.frozen.spilled(self.pinned) {
            let tag = Form::<K, V>::tag(place, places.hash_bits(place));
            list.iter().for_each(|(key, value)| put(places.group(place), tag, key, value));
        }
    }

    /// Calls `f` with the entries of each key group that has some, groups ascending.
    #[inline(always)]
    pub fn for_each_group(&self, mut f: impl FnMut(KeyGroup, Entries<'a, '_, K, V>)) {
        if self.has_one_group() {
            return f(KeyGroup(self.span.groups.start), Entries::All(self));
        }
        let mut entries = Vec::new();
        self.visit(|group, cell, key, value| entries.push((group, cell, key, value)));
        entries.sort_unstable_by_key(|(group, ..)| *group);
        entries.chunk_by(|a, b| a.0 == b.0).for_each(|some| f(some[0].0, Entries::Some(some)));
    }

    /// Calls `f` with each entry, groups ascending.
    #[inline(always)]
    pub fn for_each_in_group_order(&self, f: &mut impl FnMut(KeyGroup, &K, &V)) {
        self.for_each_group(|group, entries| entries.for_each(|_, key, value| f(group, key, value)));
    }
}
