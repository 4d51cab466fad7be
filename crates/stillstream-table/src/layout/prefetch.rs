//! Prefetching: what a look-up will read, round by round.

use stillstream_types::prefetch::prefetch;

use super::super::keys::{as_text, is_text};
use super::super::pool::Page;
use super::{Form, LINE, Spot};

impl<K, V> Form<K, V> {
    /// Loads the bucket of a tag.
    #[inline(always)]
    pub(crate) fn prefetch(page: Page, tag: u32) {
        let bucket = Self::bucket(page, Self::home(tag));
        prefetch(bucket);
        if Self::IN_PAIR {
            prefetch(bucket.wrapping_add(LINE));
        } else if !Self::TAGS_IN_LINE {
            prefetch(bucket.wrapping_add(4 * Self::SLOTS));
        }
    }

    /// Loads the buckets of a page that is read from start to end soon.
    #[inline(always)]
    pub(crate) fn prefetch_page(page: Page) {
        for line in 0..Self::BUCKETS * Self::BUCKET_BYTES / LINE {
            prefetch(page.start().wrapping_add(line * LINE));
        }
    }

    /// Whether no bucket's tags lie in two lines.
    const TAGS_IN_LINE: bool = Self::BUCKET_BYTES.is_multiple_of(LINE) && 4 * (1 + Self::SLOTS) <= LINE;
    /// Whether no slot lies in two lines.
    const SLOT_IN_LINE: bool = Self::BUCKET_BYTES.is_multiple_of(LINE)
        && LINE.is_multiple_of(Self::SLOT_BYTES)
        && Self::SLOTS_AT.is_multiple_of(Self::SLOT_BYTES);

    /// Rounds that end with the slot: the bucket; the slot, if it is not part of what is loaded of the
    /// bucket.
    const TO_SLOT: usize = if Self::IN_PAIR { 1 } else { 2 };

    /// How many rounds of prefetching the layout wants: those to the slot, and one for the boxed value and a
    /// key's text.
    #[inline(always)]
    pub(crate) fn rounds() -> usize
    where
        K: 'static,
    {
        Self::TO_SLOT + usize::from(Self::VALUE_BOXED || is_text::<K>())
    }

    /// Loads what a look-up will read after the bucket of the tag was loaded.
    ///
    /// # Safety
    /// Nobody writes the page meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_slot(page: Page, tag: u32, round: usize)
    where
        K: 'static,
    {
        let bucket = Self::home(tag);
        // SAFETY: the caller's promise
        let found = unsafe { Self::matching(page, bucket, tag) };
        if found == 0 {
            return;
        }
        let spot = Spot { bucket, slot: found.trailing_zeros() as usize };
        if round < Self::TO_SLOT {
            let slot = Self::slot(page, spot);
            prefetch(slot);
            if !Self::SLOT_IN_LINE {
                prefetch(slot.wrapping_add(Self::SLOT_BYTES - 1));
            }
            return;
        }
        if Self::VALUE_BOXED {
            // SAFETY: a slot with a tag is taken
            let value = unsafe { Self::value(page, spot) }.cast::<u8>();
            prefetch(value);
            // boxes are not aligned to lines
            if size_of::<V>() > LINE / 2 {
                prefetch(value.wrapping_add(size_of::<V>() - 1));
            }
        }
        // SAFETY: a slot with a tag is taken
        if let Some(text) = as_text(unsafe { &*Self::key(page, spot) }) {
            prefetch(text.as_ptr());
        }
    }
}
