//! A counted box: how a value that owns memory, or a wide one, lies in the pages of a table and its
//! snapshots.
//!
//! Copying a page then adds one to a counter per value; a value itself is cloned only when it is written
//! while a snapshot still holds it. `Arc` would do, but its `get_mut` pays for weak pointers at every write.

use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct Counted<T> {
    holders: AtomicUsize,
    value: T,
}

impl<T> Counted<T> {
    /// A box with one holder.
    #[inline]
    pub(super) fn new(value: T) -> *mut Self {
        Box::into_raw(Box::new(Self { holders: AtomicUsize::new(1), value }))
    }

    /// # Safety
    /// `this` is alive: the caller is a holder.
    #[inline(always)]
    pub(super) unsafe fn value(this: *mut Self) -> *mut T {
        // SAFETY: the box is alive
        unsafe { &raw mut (*this).value }
    }

    /// Adds a holder.
    ///
    /// # Safety
    /// The caller is a holder.
    #[inline(always)]
    pub(super) unsafe fn hold(this: *mut Self) {
        // SAFETY: alive. Relaxed as in `Arc`: a holder needs no order to make another. It cannot overflow:
        // each holder is a slot in a page of its own.
        unsafe { (*this).holders.fetch_add(1, Ordering::Relaxed) };
    }

    /// Whether the caller is the only holder.
    ///
    /// # Safety
    /// The caller is a holder.
    #[inline(always)]
    pub(super) unsafe fn is_alone(this: *mut Self) -> bool {
        // SAFETY: alive. Acquire: what former holders read happened before we write.
        unsafe { (*this).holders.load(Ordering::Acquire) == 1 }
    }

    /// Ends one hold and drops the box with the last.
    ///
    /// # Safety
    /// The caller is a holder and forgets the box.
    #[inline]
    pub(super) unsafe fn release(this: *mut Self) {
        // SAFETY: alive until our hold ends. AcqRel: all uses by others happen before the drop (a fence for
        // the last holder would do, but ThreadSanitizer does not understand fences).
        unsafe {
            if (*this).holders.fetch_sub(1, Ordering::AcqRel) == 1 {
                drop(Box::from_raw(this));
            }
        }
    }

    /// A clone of the value if another holder is left: the first half of taking the value out.
    ///
    /// # Safety
    /// The caller is a holder.
    #[inline]
    pub(super) unsafe fn copy_if_held(this: *mut Self) -> Option<T>
    where
        T: Clone,
    {
        // SAFETY: alive; nobody writes a value that has several holders
        unsafe { if Self::is_alone(this) { None } else { Some((*this).value.clone()) } }
    }

    /// The second half: ends the hold and returns the value itself if there is no copy.
    ///
    /// # Safety
    /// The caller is a holder, forgets the box, and `copy` is what [`copy_if_held`](Self::copy_if_held)
    /// returned.
    #[inline]
    pub(super) unsafe fn leave(this: *mut Self, copy: Option<T>) -> T {
        // SAFETY: alive; without a copy we were the only holder, and only a holder can make another
        unsafe {
            match copy {
                None => Box::from_raw(this).value,
                Some(copy) => {
                    Self::release(this);
                    copy
                }
            }
        }
    }
}
