//! How entries lie in a page: buckets of tags and slots, shaped by the types of key and value.
//!
//! A bucket is `[passed: u32][tag: u32; N]` and N slots. A tag is 0 for a free slot; else
//! `25 bits of the place | 6 bits home bucket | 1`. It says all that a split, a merge and a save need to
//! know, so that no key is hashed again and no user's code runs there. `passed` counts the entries that would
//! have liked to lie in this bucket or before it and lie behind it: a search ends at the first bucket with
//! none, and no tombstones are needed.
//!
//! - Small entries: a bucket is a pair of cache lines, loaded together (six entries for 8-byte keys and
//!   values). Buckets of one line hold three, so that every fifth entry lies outside its home at a good fill,
//!   and guessing wrong where costs more than the second line: 8.7 against 5.1 ns for an update in cache, no
//!   difference from memory.
//! - Wider entries: 7, 11 or 15 tags, then their slots.
//! - A value that owns memory or is wide lies in a counted box ([`Counted`]), so that copying a page copies
//!   no values.
//! - Keys lie in the slot, unless they are very wide. A key that owns memory is cloned when its page is
//!   copied.

mod copy;
mod numbers;
mod prefetch;

use std::marker::PhantomData;
use std::mem::needs_drop;
use std::ptr;

use super::counted::Counted;
use super::keys::same;
use super::pool::{PAGE_BYTES, Page};

const LINE: usize = 64;
/// Bytes of a bucket of small entries.
const PAIR: usize = 2 * LINE;
/// Entries that must fit in such a bucket: with fewer, too many would lie outside their home.
const LEAST_IN_PAIR: usize = 5;
/// Wider keys and values are boxed: a page should hold some dozens of entries.
const WIDE: usize = 128;
/// A page splits above this fill.
const FULL_PERCENT: usize = 88;

/// Bits of the place in a tag, and the greatest local depth.
pub(super) const TAG_BITS: u32 = 25;

const fn round_up(n: usize, to: usize) -> usize {
    n.div_ceil(to) * to
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

struct Shape {
    slots: usize,
    bucket_bytes: usize,
}

/// Where an entry lies in its page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) bucket: usize,
    pub(super) slot: usize,
}

/// The layout of pages of `Table<K, V>`.
///
/// All functions want pages that were formatted by [`format`](Self::format), and tags of this table.
pub(super) struct Form<K, V>(PhantomData<(K, V)>);

impl<K, V> Form<K, V> {
    const KEY_BOXED: bool = size_of::<K>() > WIDE || align_of::<K>() > 16;
    const VALUE_BOXED: bool = needs_drop::<V>() || size_of::<V>() > WIDE || align_of::<V>() > 16;
    const KEY_BYTES: usize = if Self::KEY_BOXED { size_of::<usize>() } else { size_of::<K>() };
    const VALUE_BYTES: usize = if Self::VALUE_BOXED { size_of::<usize>() } else { size_of::<V>() };
    const KEY_ALIGN: usize = if Self::KEY_BOXED { align_of::<usize>() } else { align_of::<K>() };
    const VALUE_ALIGN: usize = if Self::VALUE_BOXED { align_of::<usize>() } else { align_of::<V>() };
    const ALIGN: usize = max(max(Self::KEY_ALIGN, Self::VALUE_ALIGN), align_of::<u32>());
    const VALUE_AT: usize = round_up(Self::KEY_BYTES, Self::VALUE_ALIGN);
    const SLOT_BYTES: usize =
        round_up(Self::VALUE_AT + Self::VALUE_BYTES, max(Self::KEY_ALIGN, Self::VALUE_ALIGN));
    /// Whether dropping an entry does anything.
    pub(super) const OWNS: bool = Self::KEY_BOXED || Self::VALUE_BOXED || needs_drop::<K>();

    /// Bytes on the heap per entry, for boxes.
    pub(super) const BOXED_BYTES: usize = (Self::KEY_BOXED as usize) * (size_of::<K>() + 16)
        + (Self::VALUE_BOXED as usize) * (size_of::<V>() + 16);

    const fn slots_at(slots: usize) -> usize {
        round_up(4 * (slots + 1), Self::ALIGN)
    }

    const SHAPE: Shape = {
        let mut slots = 15;
        while slots >= LEAST_IN_PAIR && Self::slots_at(slots) + slots * Self::SLOT_BYTES > PAIR {
            slots -= 1;
        }
        if slots >= LEAST_IN_PAIR {
            Shape { slots, bucket_bytes: PAIR }
        } else {
            // 7, 11 or 15: with the counter, whole vectors of four tags. Fewer only if that saves 5 % of the
            // page: the larger a bucket, the fewer entries lie outside their home.
            let (mut best, mut total, mut slots) = (0, 0, 15);
            while slots >= 7 {
                let n = PAGE_BYTES / Self::wide_bucket(slots) * slots;
                if n * 20 > total * 21 {
                    (best, total) = (slots, n);
                }
                slots -= 4;
            }
            Shape { slots: best, bucket_bytes: Self::wide_bucket(best) }
        }
    };
    const fn wide_bucket(slots: usize) -> usize {
        round_up(Self::slots_at(slots) + slots * Self::SLOT_BYTES, Self::ALIGN)
    }

    pub(super) const SLOTS: usize = Self::SHAPE.slots;
    const SLOTS_AT: usize = Self::slots_at(Self::SLOTS);
    /// Counter and tags, and the padding behind them, so that they can be compared four at a time.
    const TAG_WORDS: usize = {
        let padded = round_up(1 + Self::SLOTS, 4);
        if padded * 4 <= Self::SLOTS_AT { padded } else { 1 + Self::SLOTS }
    };
    const BUCKET_BYTES: usize = Self::SHAPE.bucket_bytes;
    /// Buckets in a page: 1 to 64.
    pub(super) const BUCKETS: usize = {
        let n = PAGE_BYTES / Self::BUCKET_BYTES;
        assert!(n >= 1 && n <= 64 && Self::SLOTS >= 3);
        n
    };
    const IN_PAIR: bool = Self::BUCKET_BYTES == PAIR;
    /// Entries above which a page splits.
    pub(super) const FULL: usize = {
        let n = Self::BUCKETS * Self::SLOTS;
        if Self::BUCKETS == 1 { n } else { n * FULL_PERCENT / 100 }
    };
    /// Entries up to which two buddies become one page.
    pub(super) const MERGED: usize = Self::FULL / 2;

    /// The tag of an entry, from its place and the low bits of its hash.
    #[inline(always)]
    pub(super) fn tag(place: u64, low_bits: u64) -> u32 {
        let home = ((low_bits & 0xffff) as usize * Self::BUCKETS) >> 16;
        ((place >> (64 - TAG_BITS)) as u32) << 7 | (home as u32) << 1 | 1
    }

    #[inline(always)]
    pub(super) fn home(tag: u32) -> usize {
        (tag >> 1) as usize & 63
    }

    #[inline(always)]
    fn next(bucket: usize) -> usize {
        if bucket + 1 == Self::BUCKETS { 0 } else { bucket + 1 }
    }

    #[inline(always)]
    fn bucket(page: Page, bucket: usize) -> *mut u8 {
        debug_assert!(bucket < Self::BUCKETS);
        // SAFETY: bucket < BUCKETS, and BUCKETS * BUCKET_BYTES <= PAGE_BYTES
        unsafe { page.start().add(bucket * Self::BUCKET_BYTES) }
    }

    #[inline(always)]
    fn passed(page: Page, bucket: usize) -> *mut u32 {
        Self::bucket(page, bucket).cast()
    }

    #[inline(always)]
    pub(super) fn tag_at(page: Page, spot: Spot) -> *mut u32 {
        debug_assert!(spot.slot < Self::SLOTS);
        // SAFETY: the tags lie behind the counter, inside the bucket
        unsafe { Self::bucket(page, spot.bucket).cast::<u32>().add(1 + spot.slot) }
    }

    #[inline(always)]
    fn slot(page: Page, spot: Spot) -> *mut u8 {
        debug_assert!(spot.slot < Self::SLOTS);
        // SAFETY: SLOTS slots fit in the bucket behind the tags
        unsafe { Self::bucket(page, spot.bucket).add(Self::SLOTS_AT + spot.slot * Self::SLOT_BYTES) }
    }

    /// The key of an entry.
    ///
    /// # Safety
    /// The slot is taken.
    #[inline(always)]
    pub(super) unsafe fn key(page: Page, spot: Spot) -> *const K {
        let slot = Self::slot(page, spot);
        // SAFETY: the slot is taken, so it starts with a key or the box of one
        unsafe {
            if Self::KEY_BOXED {
                Counted::value(slot.cast::<*mut Counted<K>>().read())
            } else {
                slot.cast::<K>()
            }
        }
    }

    #[inline(always)]
    fn value_cell(page: Page, spot: Spot) -> *mut u8 {
        // SAFETY: VALUE_AT is inside the slot
        unsafe { Self::slot(page, spot).add(Self::VALUE_AT) }
    }

    /// The value of an entry, to be read.
    ///
    /// # Safety
    /// The slot is taken.
    #[inline(always)]
    pub(super) unsafe fn value(page: Page, spot: Spot) -> *const V {
        let cell = Self::value_cell(page, spot);
        // SAFETY: the slot is taken, so the cell holds a value or the box of one
        unsafe {
            if Self::VALUE_BOXED {
                Counted::value(cell.cast::<*mut Counted<V>>().read())
            } else {
                cell.cast::<V>()
            }
        }
    }

    /// The value of an entry, to be written; one that a snapshot holds too is cloned first.
    ///
    /// # Safety
    /// The slot is taken and the page is the caller's alone.
    #[inline(always)]
    pub(super) unsafe fn value_mut(page: Page, spot: Spot) -> *mut V
    where
        V: Clone,
    {
        let cell = Self::value_cell(page, spot);
        if !Self::VALUE_BOXED {
            return cell.cast();
        }
        let cell = cell.cast::<*mut Counted<V>>();
        // SAFETY: the slot is taken, so the cell holds a box; the page is ours, so the cell may be changed
        unsafe {
            let mut held = cell.read();
            if !Counted::is_alone(held) {
                let own = Counted::new((*Counted::value(held)).clone());
                cell.write(own);
                Counted::release(held);
                held = own;
            }
            Counted::value(held)
        }
    }

    /// Writes an entry into a free slot.
    ///
    /// # Safety
    /// The page is the caller's alone; the slot's former content, if any, was moved out.
    #[inline(always)]
    unsafe fn write(page: Page, spot: Spot, key: K, value: V) {
        // SAFETY: SHAPE aligns and sizes the slot for the two; the page is ours
        unsafe {
            let slot = Self::slot(page, spot);
            match Self::KEY_BOXED {
                true => slot.cast::<*mut Counted<K>>().write(Counted::new(key)),
                false => slot.cast::<K>().write(key),
            }
            let cell = Self::value_cell(page, spot);
            match Self::VALUE_BOXED {
                true => cell.cast::<*mut Counted<V>>().write(Counted::new(value)),
                false => cell.cast::<V>().write(value),
            }
        }
    }

    /// Makes a page empty, whatever it held.
    ///
    /// # Safety
    /// The page is the caller's alone, without entries that ought to be dropped.
    pub(super) unsafe fn format(page: Page) {
        for bucket in 0..Self::BUCKETS {
            // SAFETY: counter and tags lie at the bucket's start; the page is ours
            unsafe { Self::bucket(page, bucket).cast::<u32>().write_bytes(0, Self::TAG_WORDS) };
        }
        // SAFETY: the page is ours
        unsafe { page.set_count(0) };
    }

    /// A bit for each slot of the bucket whose tag is `tag`.
    ///
    /// # Safety
    /// Nobody writes the page meanwhile.
    #[inline(always)]
    unsafe fn matching(page: Page, bucket: usize, tag: u32) -> u32 {
        let words = Self::bucket(page, bucket).cast::<u32>();
        let mut found = 0u32;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if Self::TAG_WORDS.is_multiple_of(4) {
            use std::arch::x86_64::*;
            let mut at = 0;
            while at < Self::TAG_WORDS {
                // SAFETY: TAG_WORDS words are initialized and a multiple of 4; SSE2 is part of x86-64
                unsafe {
                    let four = _mm_loadu_si128(words.add(at).cast());
                    let same = _mm_cmpeq_epi32(four, _mm_set1_epi32(tag as i32));
                    found |= (_mm_movemask_ps(_mm_castsi128_ps(same)) as u32) << at;
                }
                at += 4;
            }
            return found >> 1 & ((1 << Self::SLOTS) - 1);
        }
        let mut at = 0;
        while at < Self::SLOTS {
            // SAFETY: the tags of a formatted page are initialized
            found |= ((unsafe { words.add(1 + at).read() } == tag) as u32) << at;
            at += 1;
        }
        found
    }

    /// Where the key lies. `Err(true)`: not here, but entries that found the page full may lie in the spill.
    ///
    /// # Safety
    /// Nobody writes the page meanwhile.
    #[inline(always)]
    pub(super) unsafe fn find(page: Page, tag: u32, key: &K) -> Result<Spot, bool>
    where
        K: Eq + 'static,
    {
        let home = Self::home(tag);
        let mut bucket = home;
        loop {
            // SAFETY: the caller's promise
            let mut found = unsafe { Self::matching(page, bucket, tag) };
            while found != 0 {
                let spot = Spot { bucket, slot: found.trailing_zeros() as usize };
                // SAFETY: a slot with a tag is taken
                if same(unsafe { &*Self::key(page, spot) }, key) {
                    return Ok(spot);
                }
                found &= found - 1;
            }
            // SAFETY: the counter of a formatted page is initialized
            if unsafe { Self::passed(page, bucket).read() } == 0 {
                return Err(false);
            }
            bucket = Self::next(bucket);
            if bucket == home {
                return Err(true);
            }
        }
    }

    /// The free slot nearest behind the tag's home; marks it taken and counts the entry.
    ///
    /// # Safety
    /// The page is the caller's alone and has a free slot; the caller fills the slot.
    unsafe fn claim(page: Page, tag: u32) -> Spot {
        let mut bucket = Self::home(tag);
        // SAFETY: the page is ours and formatted
        unsafe {
            page.set_count(page.count() + 1);
            loop {
                let free = Self::matching(page, bucket, 0) & ((1 << Self::SLOTS) - 1);
                if free != 0 {
                    let spot = Spot { bucket, slot: free.trailing_zeros() as usize };
                    Self::tag_at(page, spot).write(tag);
                    return spot;
                }
                *Self::passed(page, bucket) += 1;
                bucket = Self::next(bucket);
            }
        }
    }

    /// Marks a slot free; its content is no longer the page's.
    ///
    /// # Safety
    /// The page is the caller's alone and the slot is taken.
    unsafe fn disclaim(page: Page, spot: Spot) {
        // SAFETY: the page is ours; the buckets between home and spot counted this entry when it passed
        unsafe {
            let tag = Self::tag_at(page, spot);
            let mut bucket = Self::home(tag.read());
            tag.write(0);
            page.set_count(page.count() - 1);
            while bucket != spot.bucket {
                *Self::passed(page, bucket) -= 1;
                bucket = Self::next(bucket);
            }
        }
    }

    /// Counts an entry that lies in the spill in (`by` = 1) or out (-1), so that searches look there.
    ///
    /// # Safety
    /// The page is the caller's alone.
    pub(super) unsafe fn count_spilled(page: Page, by: i32) {
        for bucket in 0..Self::BUCKETS {
            // SAFETY: the page is ours and formatted
            unsafe {
                let passed = Self::passed(page, bucket);
                *passed = (*passed).wrapping_add_signed(by);
            }
        }
    }

    /// Adds an entry that is not there.
    ///
    /// # Safety
    /// The page is the caller's alone and has fewer than [`FULL`](Self::FULL) entries.
    pub(super) unsafe fn insert(page: Page, tag: u32, key: K, value: V) -> Spot {
        // SAFETY: FULL is at most the number of slots, so one is free; no code of the user runs between the
        // two
        unsafe {
            let spot = Self::claim(page, tag);
            Self::write(page, spot, key, value);
            spot
        }
    }

    /// Removes an entry. If a clone panics, the entry is still there.
    ///
    /// # Safety
    /// The page is the caller's alone and the slot is taken.
    pub(super) unsafe fn remove(page: Page, spot: Spot) -> (K, V)
    where
        K: Clone,
        V: Clone,
    {
        // SAFETY: the slot is taken, so it holds what the types say. All that may panic comes before the slot
        // is marked free or, for the drop of a box that another holder left meanwhile, after it.
        unsafe {
            let slot = Self::slot(page, spot);
            let cell = Self::value_cell(page, spot);
            if !Self::KEY_BOXED && !Self::VALUE_BOXED {
                Self::disclaim(page, spot);
                return (slot.cast::<K>().read(), cell.cast::<V>().read());
            }
            let value_box = cell.cast::<*mut Counted<V>>();
            let key_box = slot.cast::<*mut Counted<K>>();
            let value = if Self::VALUE_BOXED { Counted::copy_if_held(value_box.read()) } else { None };
            let key = if Self::KEY_BOXED { Counted::copy_if_held(key_box.read()) } else { None };
            Self::disclaim(page, spot);
            let key = match Self::KEY_BOXED {
                true => Counted::leave(key_box.read(), key),
                false => slot.cast::<K>().read(),
            };
            let value = match Self::VALUE_BOXED {
                true => Counted::leave(value_box.read(), value),
                false => cell.cast::<V>().read(),
            };
            (key, value)
        }
    }

    /// Moves an entry to another page.
    ///
    /// # Safety
    /// Both pages are the caller's alone, the slot is taken, and `to` has fewer than `FULL` entries. The
    /// caller then formats `from` or frees the slot.
    pub(super) unsafe fn move_entry(from: Page, spot: Spot, to: Page) {
        // SAFETY: a slot's bytes are moved as they are, padding included, to a slot of the same layout
        unsafe {
            let new = Self::claim(to, Self::tag_at(from, spot).read());
            ptr::copy_nonoverlapping(Self::slot(from, spot), Self::slot(to, new), Self::SLOT_BYTES);
        }
    }

    /// Calls `f` with each taken slot and its tag.
    ///
    /// # Safety
    /// Nobody but `f` writes the page meanwhile; `f` may free the slot it was given, and no other.
    #[inline]
    pub(super) unsafe fn for_each(page: Page, mut f: impl FnMut(Spot, u32)) {
        for bucket in 0..Self::BUCKETS {
            // a bit for each slot that is taken: the processor guesses wrong once a bucket and not once a
            // slot SAFETY: the caller's promise
            let mut taken = unsafe { !Self::matching(page, bucket, 0) } & ((1 << Self::SLOTS) - 1);
            while taken != 0 {
                let spot = Spot { bucket, slot: taken.trailing_zeros() as usize };
                // SAFETY: the tags of a formatted page are initialized
                f(spot, unsafe { Self::tag_at(page, spot).read() });
                taken &= taken - 1;
            }
        }
    }

    /// Drops all entries. On a panic of a destructor the others are leaked.
    ///
    /// # Safety
    /// The page is the caller's alone; it may then be given back, not read.
    pub(super) unsafe fn drop_entries(page: Page) {
        if !Self::OWNS {
            return;
        }
        // SAFETY: each taken slot is dropped once: the tag goes first
        unsafe {
            Self::for_each(page, |spot, _| {
                Self::tag_at(page, spot).write(0);
                Self::drop_value(page, spot);
                Self::drop_key(page, spot);
            });
        }
    }

    unsafe fn drop_value(page: Page, spot: Spot) {
        let cell = Self::value_cell(page, spot);
        if Self::VALUE_BOXED {
            // SAFETY: the caller gives up the slot's hold. Values that are not boxed need no drop.
            unsafe { Counted::<V>::release(cell.cast::<*mut Counted<V>>().read()) };
        }
    }

    unsafe fn drop_key(page: Page, spot: Spot) {
        let slot = Self::slot(page, spot);
        // SAFETY: the caller gives up the slot's key
        unsafe {
            match Self::KEY_BOXED {
                true => Counted::<K>::release(slot.cast::<*mut Counted<K>>().read()),
                false => slot.cast::<K>().drop_in_place(),
            }
        }
    }
}
