//! Prefetching: what a look-up will read, round by round.

use super::super::pool::Page;
use super::{Form, LINE, Spot};

impl<K, V> Form<K, V> {
    /// Loads the bucket of a tag.
    #[inline(always)]
    pub(in crate::table) fn prefetch(page: Page, tag: u32) {
        let bucket = Self::bucket(page, Self::home(tag));
        prefetch(bucket);
        // the second half; of a wide bucket, the tags' second line if they straddle two
        prefetch(bucket.wrapping_add(if Self::IN_PAIR { LINE } else { 4 * Self::SLOTS }));
    }

    /// Loads the buckets of a page that is read from start to end soon.
    #[inline(always)]
    pub(in crate::table) fn prefetch_page(page: Page) {
        for line in 0..Self::BUCKETS * Self::BUCKET_BYTES / LINE {
            prefetch(page.start().wrapping_add(line * LINE));
        }
    }

    /// How many rounds of prefetching the layout wants: the bucket; the slot; the boxed value.
    pub(in crate::table) const ROUNDS: usize = if Self::IN_PAIR { 1 } else { 2 } + Self::VALUE_BOXED as usize;

    /// Loads what a look-up will read after the bucket of the tag was loaded.
    ///
    /// # Safety
    /// Nobody writes the page meanwhile.
    #[inline(always)]
    pub(in crate::table) unsafe fn prefetch_slot(page: Page, tag: u32, round: usize) {
        let bucket = Self::home(tag);
        // SAFETY: the caller's promise
        let found = unsafe { Self::matching(page, bucket, tag) };
        if found == 0 {
            return;
        }
        let spot = Spot { bucket, slot: found.trailing_zeros() as usize };
        if Self::VALUE_BOXED && round + 1 == Self::ROUNDS {
            // SAFETY: a slot with a tag is taken
            let value = unsafe { Self::value(page, spot) }.cast::<u8>();
            prefetch(value);
            // boxes are not aligned to lines
            if size_of::<V>() > LINE / 2 {
                prefetch(value.wrapping_add(size_of::<V>() - 1));
            }
        } else {
            let slot = Self::slot(page, spot);
            prefetch(slot);
            if Self::SLOT_BYTES > 16 {
                prefetch(slot.wrapping_add(Self::SLOT_BYTES - 1));
            }
        }
    }
}

#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint and reads nothing, whatever the address
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
