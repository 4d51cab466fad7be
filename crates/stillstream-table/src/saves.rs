//! Entries that a table saves for an image before it changes their page.
//!
//! While an image is held, a table copies a page before it writes it. For pages of numbers that are only held
//! to be written to a snapshot there is something better: the table saves the entries in the form in which
//! they will be written, gives the image that instead of the page, and goes on in the page itself. That takes
//! half the memory of a copy, writes half the lines, and the threads that write the snapshot have nothing
//! left to encode there.
//!
//! One word for each page says how it is:
//!
//! - `HELD`: the image has the page, and nobody else but the table.
//! - `TAKEN`: a thread that writes the image came first and reads the page, or the image gave it up. The
//!   table copies as usual.
//! - else: the table came first; the word says where the entries lie, and the image no longer holds the page.
//!
//! Table and image each leave `HELD` by one atomic operation, so one of them comes first and nobody waits.
//! Pages that lie in several parts of an image are never `HELD`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::blocks::{BLOCK_BYTES, Block};
use super::pool::PagePool;

/// The image has the page; 0 for pages that are not to be saved.
const HELD: u32 = 1;
const TAKEN: u32 = 2;
/// The first word that is a place: block and offset.
const PLACES: u32 = 3;
/// More blocks have no place in a word, 4 GiB; further pages are copied.
const MOST_BLOCKS: usize = (u32::MAX - PLACES) as usize / BLOCK_BYTES;

/// The operations that the protocol needs: of the machine's atomics, or of a model's.
trait Word {
    fn swap(&self, value: u32, order: Ordering) -> u32;
    fn compare_exchange(&self, old: u32, new: u32, ok: Ordering, no: Ordering) -> Result<u32, u32>;
}

macro_rules! word {
    ($atomic:ty) => {
        impl Word for $atomic {
            fn swap(&self, value: u32, order: Ordering) -> u32 {
                <$atomic>::swap(self, value, order)
            }
            fn compare_exchange(&self, old: u32, new: u32, ok: Ordering, no: Ordering) -> Result<u32, u32> {
                <$atomic>::compare_exchange(self, old, new, ok, no)
            }
        }
    };
}
word!(AtomicU32);

/// Image: comes to a page, to read it or to let it go. The place of its entries if the table has saved them:
/// the image does not hold the page any more.
fn take(word: &impl Word) -> Option<u32> {
    // Acquire: what the table saved
    let was = word.swap(TAKEN, Ordering::AcqRel);
    (was >= PLACES).then(|| was - PLACES)
}

/// Table: hands saved entries over; true: the page is the table's alone now, if only this image held it.
fn hand_over(word: &impl Word, place: u32) -> bool {
    // Release: what was saved. The image has not read the page, so there is nothing to acquire.
    word.compare_exchange(HELD, place + PLACES, Ordering::Release, Ordering::Relaxed).is_ok()
}

/// What the parts of an image and its table share.
pub(super) struct Saves {
    pool: PagePool,
    /// The directory's at the freeze: a page's word is that of its first entry there.
    shift: u32,
    words: Box<[AtomicU32]>,
    /// What saved entries lie in.
    blocks: Mutex<Vec<Block>>,
}

impl Saves {
    /// For an image that is in the making; nothing is `HELD` yet.
    pub(super) fn new(pool: &PagePool, directory: usize, shift: u32) -> Self {
        Self { pool: pool.clone(), shift, words: pool.take_words(directory), blocks: Mutex::default() }
    }

    /// Lets the table save the page whose range starts at this place of the directory.
    pub(super) fn hold(&mut self, index: usize) {
        *self.words[index].get_mut() = HELD;
    }

    fn word(&self, place: u64) -> &AtomicU32 {
        &self.words[(place >> self.shift) as usize]
    }

    /// Comes to the page whose range starts at `place`, for the image: the `bytes` of its entries if the
    /// table has saved them. The image holds the page if and only if there are none.
    pub(super) fn take(&self, place: u64, bytes: usize) -> Option<&[u8]> {
        let at = take(self.word(place))? as usize;
        let (block, offset) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let start = blocks[block].start();
        assert!(offset + bytes <= BLOCK_BYTES);
        // SAFETY: the table wrote so many bytes there before it published the place, and does not write them
        // again. The block stays where it is until `self` is dropped.
        Some(unsafe { std::slice::from_raw_parts(start.add(offset), bytes) })
    }
}

impl Drop for Saves {
    fn drop(&mut self) {
        let blocks = self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.pool.give_blocks(blocks);
        self.pool.give_words(std::mem::take(&mut self.words));
    }
}

/// The table's side.
pub(super) struct Saver {
    saves: Arc<Saves>,
    /// Number and start of the block in use.
    block: Option<(usize, *mut u8)>,
    /// Bytes of the block that are in use.
    used: usize,
}

// SAFETY: the block belongs to `saves`; only its free part is written, by whoever has the saver
unsafe impl Send for Saver {}
// SAFETY: `&Saver` gives nothing
unsafe impl Sync for Saver {}

impl Saver {
    pub(super) fn new(saves: Arc<Saves>) -> Self {
        Self { saves, block: None, used: 0 }
    }

    /// Whether the image is gone. What was saved for it goes with the saver.
    pub(super) fn is_alone(&self) -> bool {
        Arc::strong_count(&self.saves) == 1
    }

    /// Saves the page whose range starts at `place`, by a function that writes `bytes` and at most `over`
    /// more. True: the image does not hold the page any more.
    pub(super) fn save(
        &mut self,
        place: u64,
        bytes: usize,
        over: usize,
        write: impl FnOnce(*mut u8),
    ) -> bool {
        // a look before the work is done; what counts is the exchange after it
        if self.saves.word(place).load(Ordering::Relaxed) != HELD || bytes + over > BLOCK_BYTES {
            return false;
        }
        if self.block.is_none() || self.used + bytes + over > BLOCK_BYTES {
            let mut blocks = self.saves.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            if blocks.len() == MOST_BLOCKS {
                return false;
            }
            let block = self.saves.pool.take_block();
            self.block = Some((blocks.len(), block.start()));
            blocks.push(block);
            self.used = 0;
        }
        let Some((number, block)) = self.block else { return false };
        // SAFETY: `used` is at most BLOCK_BYTES, and the block lives as long as `saves`
        write(unsafe { block.add(self.used) });
        let place_of_entries = (number * BLOCK_BYTES + self.used) as u32;
        let done = hand_over(self.saves.word(place), place_of_entries);
        if done {
            self.used += bytes;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::atomic::{AtomicU32 as ModelU32, AtomicU64, AtomicUsize};
    use shuttle::thread;

    word!(ModelU32);

    /// A page that a table saves or copies before it writes it, while an image comes to read it.
    fn life() {
        let word = Arc::new(ModelU32::new(HELD));
        let (content, saved) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(0)));
        let readers = Arc::new(AtomicUsize::new(0));
        let image = {
            let (word, content, saved, readers) =
                (word.clone(), content.clone(), saved.clone(), readers.clone());
            thread::spawn(move || match take(&*word) {
                Some(place) => {
                    assert_eq!(place, 7);
                    assert_eq!(saved.load(Ordering::SeqCst), 1, "not what the page held");
                    true
                }
                None => {
                    readers.fetch_add(1, Ordering::SeqCst);
                    for _ in 0..2 {
                        assert_eq!(content.load(Ordering::SeqCst), 1, "a page changed under a reader");
                    }
                    readers.fetch_sub(1, Ordering::SeqCst);
                    false
                }
            })
        };
        saved.store(content.load(Ordering::SeqCst), Ordering::SeqCst);
        let handed_over = hand_over(&*word, 7);
        if handed_over {
            assert_eq!(readers.load(Ordering::SeqCst), 0, "written under a reader");
            content.store(2, Ordering::SeqCst);
        }
        let got_saved = image.join().unwrap();
        assert_eq!(got_saved, handed_over, "both or neither have the page");
        assert_eq!(take(&*word), None, "it is taken once");
        assert!(!hand_over(&*word, 7), "a page that was taken is not saved");
    }

    #[test]
    fn in_every_order_an_image_gets_a_page_or_what_was_saved_of_it() {
        shuttle::check_random(life, 2000);
        shuttle::check_pct(life, 2000, 3);
    }
}
