//! Entries of numbers, copied out of a page as they lie.
//!
//! A snapshot holds fixed-width numbers as they lie in the memory of a little-endian machine. To visit each
//! entry costs a guess of the processor whether its slot is taken, wrong for every third one, and a look at
//! the room that is left for key and value. Here every slot is copied, and a free one is overwritten by the
//! next.

use std::any::TypeId;

use super::super::pool::Page;
use super::{Form, Spot};

/// Numbers whose binary form in snapshots (`docs/formats.md`) is their memory, all of it initialized.
#[inline(always)]
fn is_number<T: 'static>() -> bool {
    macro_rules! any {
        ($($ty:ty),*) => { $(TypeId::of::<T>() == TypeId::of::<$ty>())||* };
    }
    any!((), u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64)
}

impl<K: 'static, V: 'static> Form<K, V> {
    /// Bytes of the binary form of an entry of numbers.
    pub(crate) const ENTRY_BYTES: usize = Self::KEY_BYTES + Self::VALUE_BYTES;

    /// Whether an entry's binary form is the memory of its key, then that of its value.
    #[inline(always)]
    pub(crate) fn is_numbers() -> bool {
        cfg!(target_endian = "little") && is_number::<K>() && is_number::<V>()
    }

    /// Appends the binary form of all entries, in the order of the page, and says how many they are.
    ///
    /// # Safety
    /// [`is_numbers`](Self::is_numbers), and nobody writes the page meanwhile.
    pub(crate) unsafe fn append_numbers(page: Page, out: &mut Vec<u8>) -> u32 {
        // one more than there are: what is behind the last is overwritten too
        // SAFETY: the caller's promise
        out.reserve((unsafe { page.count() } + 1) * Self::ENTRY_BYTES);
        let start = out.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise, and there is room
        let count = unsafe { Self::numbers_to(page, start) };
        // SAFETY: each of these entries was copied from a taken slot, whose key and value have no
        // uninitialized byte
        unsafe { out.set_len(out.len() + count as usize * Self::ENTRY_BYTES) };
        count
    }

    /// Writes the binary form of all entries, in the order of the page, and says how many they are.
    ///
    /// # Safety
    /// [`is_numbers`](Self::is_numbers), nobody writes the page meanwhile, and from `start` on there is room
    /// for one more entry than the page has.
    #[inline(always)]
    pub(crate) unsafe fn numbers_to(page: Page, start: *mut u8) -> u32 {
        let entry = Self::ENTRY_BYTES;
        let mut count = 0;
        for bucket in 0..Self::BUCKETS {
            for slot in 0..Self::SLOTS {
                let spot = Spot { bucket, slot };
                // SAFETY: `count` is at most the page's number of entries, so one more fits. Numbers are not
                // boxed and lie in the slot; what is copied of a free slot may be anything, uninitialized
                // too, and is not read. Slots of the page and the room are disjoint.
                unsafe {
                    let to = start.add(count * entry);
                    Self::slot(page, spot).copy_to_nonoverlapping(to, Self::KEY_BYTES);
                    Self::value_cell(page, spot)
                        .copy_to_nonoverlapping(to.add(Self::KEY_BYTES), Self::VALUE_BYTES);
                    count += (Self::tag_at(page, spot).read() != 0) as usize;
                }
            }
        }
        count as u32
    }
}
