//! The protocol of pins: who may touch a page, and who frees it.
//!
//! A word for each page: how many snapshots need it, and whether its table does not ([`ORPHAN`]). Only the
//! table adds from 0, so that it needs no atomic operation where no snapshot holds the page; one that holds
//! it may add for a part of itself. Whoever finds that nobody else is left frees the page: the table if the
//! word was 0 when it marked it, a snapshot if it was `ORPHAN | 1`.

use std::sync::atomic::{AtomicU16, Ordering};

/// The table no longer needs the page.
const ORPHAN: u16 = 1 << 15;
const MOST: u16 = ORPHAN - 2;

/// The operations that the protocol needs: of the machine's atomics, or of a model's.
pub(super) trait Word {
    fn load(&self, order: Ordering) -> u16;
    fn store(&self, value: u16, order: Ordering);
    fn fetch_add(&self, value: u16, order: Ordering) -> u16;
    fn fetch_sub(&self, value: u16, order: Ordering) -> u16;
    fn fetch_or(&self, value: u16, order: Ordering) -> u16;
}

macro_rules! word {
    ($atomic:ty) => {
        impl Word for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> u16 {
                <$atomic>::load(self, order)
            }
            #[inline(always)]
            fn store(&self, value: u16, order: Ordering) {
                <$atomic>::store(self, value, order)
            }
            #[inline(always)]
            fn fetch_add(&self, value: u16, order: Ordering) -> u16 {
                <$atomic>::fetch_add(self, value, order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: u16, order: Ordering) -> u16 {
                <$atomic>::fetch_sub(self, value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: u16, order: Ordering) -> u16 {
                <$atomic>::fetch_or(self, value, order)
            }
        }
    };
}
word!(AtomicU16);

/// Table: whether a snapshot needs the page. Once false, it stays false until the table pins again.
#[inline(always)]
pub(super) fn is_pinned(pins: &impl Word) -> bool {
    // Acquire: what snapshots read happened before we write
    pins.load(Ordering::Acquire) != 0
}

/// Table: whether one snapshot needs the page, and no part of one beside it.
#[inline(always)]
pub(super) fn is_pinned_once(pins: &impl Word) -> bool {
    // Acquire as above, for snapshots that are gone
    pins.load(Ordering::Acquire) == 1
}

/// Table: ends the hold of the only snapshot, which has left that to the table (see `saves`).
#[inline(always)]
pub(super) fn take_over(pins: &impl Word) {
    // only the table touches the word now
    pins.store(0, Ordering::Relaxed);
}

/// Table: adds a snapshot.
#[inline(always)]
pub(super) fn pin(pins: &impl Word) {
    // only the table adds from 0: where nothing is pinned, no snapshot touches the word. Relaxed, because the
    // page reaches the snapshot's thread with the list.
    match pins.load(Ordering::Relaxed) {
        0 => pins.store(1, Ordering::Relaxed),
        n => {
            assert!(n <= MOST, "more than 32766 snapshots of one table are held; drop those not needed");
            pins.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Snapshot, which holds the page: adds one for a part of it.
#[inline(always)]
pub(super) fn pin_again(pins: &impl Word) {
    // Relaxed: the page reaches other threads with the part. The count is not 0, so the table adds atomically
    // too.
    let before = pins.fetch_add(1, Ordering::Relaxed);
    assert!(before & !ORPHAN <= MOST, "more than 32766 parts of snapshots of one table are held");
}

/// Snapshot: ends its hold; true: the page is the caller's now.
#[must_use]
#[inline(always)]
pub(super) fn unpin(pins: &impl Word) -> bool {
    // Release: our reads happen before the next writer's writes; Acquire: if we are the last, everything
    // others did to the page happened before
    let last = pins.fetch_sub(1, Ordering::AcqRel) == ORPHAN | 1;
    if last {
        // nobody else knows the page any more
        pins.store(0, Ordering::Relaxed);
    }
    last
}

/// Table: ends its use, and forgets the page; true: the page is the caller's now.
#[must_use]
#[inline(always)]
pub(super) fn abandon(pins: &impl Word) -> bool {
    // orderings as in `unpin`
    let alone = pins.fetch_or(ORPHAN, Ordering::AcqRel) == 0;
    if alone {
        // nobody else knows the page any more
        pins.store(0, Ordering::Relaxed);
    }
    alone
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::{AtomicU16 as ModelU16, AtomicU64, AtomicUsize};
    use shuttle::thread;

    word!(ModelU16);

    /// One page: its pins, what is in it, how many read it, and how often it was freed.
    struct Page {
        pins: ModelU16,
        content: AtomicU64,
        readers: AtomicUsize,
        freed: AtomicUsize,
    }

    impl Page {
        fn new(content: u64) -> Arc<Self> {
            let (pins, content) = (ModelU16::new(0), AtomicU64::new(content));
            Arc::new(Self { pins, content, readers: AtomicUsize::new(0), freed: AtomicUsize::new(0) })
        }

        fn read(&self, expected: u64) {
            self.readers.fetch_add(1, Ordering::SeqCst);
            for _ in 0..2 {
                assert_eq!(self.freed.load(Ordering::SeqCst), 0, "read after it was freed");
                assert_eq!(self.content.load(Ordering::SeqCst), expected, "a pinned page changed");
            }
            self.readers.fetch_sub(1, Ordering::SeqCst);
        }

        fn free(&self) {
            assert_eq!(self.readers.load(Ordering::SeqCst), 0, "freed under a reader");
            assert_eq!(self.freed.fetch_add(1, Ordering::SeqCst), 0, "freed twice");
        }
    }

    /// A table of one page that is frozen, written and dropped, while snapshots are cut in two, read and
    /// released elsewhere.
    fn life(writes: u64) {
        let mut page = Page::new(0);
        let (mut pages, mut threads) = (vec![page.clone()], Vec::new());
        for value in 1..=writes {
            pin(&page.pins);
            let (frozen, expected) = (page.clone(), value - 1);
            threads.push(thread::spawn(move || {
                pin_again(&frozen.pins);
                let part = frozen.clone();
                let other = thread::spawn(move || {
                    part.read(expected);
                    if unpin(&part.pins) {
                        part.free();
                    }
                });
                frozen.read(expected);
                if unpin(&frozen.pins) {
                    frozen.free();
                }
                other.join().unwrap();
            }));
            // the table writes: in place if it may, else in a copy
            if !is_pinned(&page.pins) {
                assert_eq!(page.readers.load(Ordering::SeqCst), 0, "written under a reader");
                page.content.store(value, Ordering::SeqCst);
            } else {
                let copy = Page::new(value);
                if abandon(&page.pins) {
                    page.free();
                }
                page = copy.clone();
                pages.push(copy);
            }
        }
        if abandon(&page.pins) {
            page.free();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for page in pages {
            assert_eq!(page.freed.load(Ordering::SeqCst), 1, "leaked");
            assert_eq!(page.pins.load(Ordering::SeqCst), 0);
        }
    }

    #[test]
    fn in_every_order_a_pinned_page_stays_as_it_is_and_each_page_is_freed_once() {
        shuttle::check_random(|| life(3), 3000);
        shuttle::check_pct(|| life(2), 3000, 3);
    }
}
