//! Copies of pages: bytes where that is as good, clones of keys and values where it is not.

use std::any::TypeId;
use std::ptr;

use super::super::counted::Counted;
use super::super::pool::Page;
use super::{Form, Spot};

/// Whether a duplicate of the bytes is as good as a clone. `Copy` cannot be asked for in generic code, so
/// this knows the types that matter; all others are cloned one by one.
#[inline(always)]
fn is_plain<T: 'static>() -> bool {
    macro_rules! any {
        ($($ty:ty),*) => { $(TypeId::of::<T>() == TypeId::of::<$ty>())||* };
    }
    any!((), bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64)
        || any!((u64, u64), (i64, i64), (u32, u32), (i32, i32), stillstream_types::Timestamp)
        || any!(Option<u64>, Option<i64>, Option<u32>, Option<i32>, Option<stillstream_types::Timestamp>)
}

impl<K: Clone + 'static, V: Clone + 'static> Form<K, V> {
    /// Writes a copy of `from` to `to`: the same entries in the same slots.
    ///
    /// On a panic of a key's or value's clone, `to` is a sound page with some of the entries.
    ///
    /// # Safety
    /// Nobody writes `from`; `to` is the caller's alone and unformatted.
    pub(crate) unsafe fn copy(from: Page, to: Page) {
        let plain_key = Self::KEY_BOXED || is_plain::<K>();
        let plain_value = Self::VALUE_BOXED || is_plain::<V>();
        // SAFETY: bytes may be duplicated (boxes get a holder more for it), initialized or not; the pages are
        // disjoint
        unsafe {
            if plain_key && plain_value {
                ptr::copy_nonoverlapping(from.start(), to.start(), Self::BUCKETS * Self::BUCKET_BYTES);
                to.set_count(from.count());
                if Self::KEY_BOXED || Self::VALUE_BOXED {
                    Self::for_each(to, |spot, _| Self::hold(to, spot));
                }
                return;
            }
        }
        // SAFETY: `to` is ours
        unsafe { Self::format(to) };
        // SAFETY: a slot of `to` gets its tag when it is filled; counters are set after the last clone
        unsafe {
            let mut count = 0;
            Self::for_each(from, |spot, tag| {
                let (old, new) = (Self::slot(from, spot), Self::slot(to, spot));
                let (old_cell, new_cell) = (Self::value_cell(from, spot), Self::value_cell(to, spot));
                match Self::VALUE_BOXED {
                    // held below, when nothing can panic any more
                    true => {
                        new_cell.cast::<*mut Counted<V>>().write(old_cell.cast::<*mut Counted<V>>().read())
                    }
                    // such a value needs no drop: a panic of the key's clone may forget it
                    false => new_cell.cast::<V>().write((*old_cell.cast::<V>()).clone()),
                }
                match Self::KEY_BOXED {
                    true => new.cast::<*mut Counted<K>>().write(old.cast::<*mut Counted<K>>().read()),
                    false => new.cast::<K>().write((*old.cast::<K>()).clone()),
                }
                Self::hold(to, spot);
                Self::tag_at(to, spot).write(tag);
                count += 1;
            });
            for bucket in 0..Self::BUCKETS {
                Self::passed(to, bucket).write(Self::passed(from, bucket).read());
            }
            to.set_count(count);
        }
    }

    /// Adds a holder to the boxes of a slot.
    unsafe fn hold(page: Page, spot: Spot) {
        // SAFETY: the caller duplicated a taken slot, whose boxes are alive
        unsafe {
            if Self::VALUE_BOXED {
                Counted::hold(Self::value_cell(page, spot).cast::<*mut Counted<V>>().read());
            }
            if Self::KEY_BOXED {
                Counted::hold(Self::slot(page, spot).cast::<*mut Counted<K>>().read());
            }
        }
    }
}
