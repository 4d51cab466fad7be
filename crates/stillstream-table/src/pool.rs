//! Pages of 4 KiB, shared by the tables of one worker, and the counts that say who still needs a page.
//!
//! Pages are cut from chunks of 2 MiB. The first page of a chunk holds, for each other page, its pins, its
//! number of entries and the epoch of its last first write; they are found by masking the page's address, so
//! that a table's directory needs to hold nothing but the address.
//!
//! Who may touch what:
//!
//! - A page that no snapshot pins belongs to its table alone.
//! - A pinned page never changes. The table pins, a snapshot unpins, on any thread; [`pins`] has the
//!   protocol.

use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::blocks::{BLOCK_BYTES, Block};
use super::region::Regions;
use super::spare::Wanted;
use super::{pins, spare};

/// Bytes in a page.
pub(super) const PAGE_BYTES: usize = 4096;
pub(super) const CHUNK_BYTES: usize = 2 << 20;
pub(super) const CHUNK_PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
/// How many page lists of released snapshots are kept for the next ones.
const SPARE_LISTS: usize = 2;

#[repr(C)]
struct ChunkHead {
    pins: [AtomicU16; CHUNK_PAGES],
    counts: [u16; CHUNK_PAGES],
    stamps: [u32; CHUNK_PAGES],
}

const _: () = assert!(size_of::<ChunkHead>() == PAGE_BYTES);

#[repr(C, align(4096))]
struct Zeroes([u8; PAGE_BYTES]);
static EMPTY: Zeroes = Zeroes([0; PAGE_BYTES]);

/// The address of a page: one of a pool, or the page without entries that all tables share and nobody writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Page(*mut u8);

impl Page {
    /// The shared page without entries. It has no pins, count or stamp of its own.
    #[inline(always)]
    pub(super) fn empty() -> Self {
        Self((&raw const EMPTY).cast::<u8>().cast_mut())
    }

    #[inline(always)]
    pub(super) fn is_empty_page(self) -> bool {
        self == Self::empty()
    }

    #[inline(always)]
    pub(super) fn start(self) -> *mut u8 {
        self.0
    }

    #[inline(always)]
    fn head(self) -> (*mut ChunkHead, usize) {
        debug_assert!(!self.is_empty_page());
        let index = (self.0.addr() / PAGE_BYTES) % CHUNK_PAGES;
        // the pointer came from the chunk's, so it may reach the whole chunk
        (self.0.map_addr(|a| a & !(CHUNK_BYTES - 1)).cast(), index)
    }

    /// # Safety
    /// The page is one of a pool that is alive for `'a`.
    #[inline(always)]
    unsafe fn pins<'a>(self) -> &'a AtomicU16 {
        let (head, index) = self.head();
        // SAFETY: the head lies at the start of the chunk, index < CHUNK_PAGES, and pins are only touched
        // atomically
        unsafe { &*(&raw const (*head).pins).cast::<AtomicU16>().add(index) }
    }

    /// The number of entries.
    ///
    /// # Safety
    /// The page is one of a living pool, and nobody writes it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn count(self) -> usize {
        let (head, index) = self.head();
        // SAFETY: in bounds as in `pins`; the caller has no concurrent writer
        unsafe { (&raw const (*head).counts).cast::<u16>().add(index).read() as usize }
    }

    /// # Safety
    /// The page is one of a living pool and the caller's alone.
    #[inline(always)]
    pub(super) unsafe fn set_count(self, count: usize) {
        let (head, index) = self.head();
        // SAFETY: in bounds as in `pins`; the caller is the only one to touch this page's count
        unsafe { (&raw mut (*head).counts).cast::<u16>().add(index).write(count as u16) }
    }

    /// The epoch in which the page was first written after a freeze.
    ///
    /// # Safety
    /// As for [`count`](Self::count), by the page's table only.
    #[inline(always)]
    pub(super) unsafe fn stamp(self) -> u32 {
        let (head, index) = self.head();
        // SAFETY: in bounds as in `pins`; stamps are read and written by the table's thread only
        unsafe { (&raw const (*head).stamps).cast::<u32>().add(index).read() }
    }

    /// # Safety
    /// As for [`set_count`](Self::set_count).
    #[inline(always)]
    pub(super) unsafe fn set_stamp(self, epoch: u32) {
        let (head, index) = self.head();
        // SAFETY: in bounds as in `pins`; stamps are read and written by the table's thread only
        unsafe { (&raw mut (*head).stamps).cast::<u32>().add(index).write(epoch) }
    }

    /// Whether a snapshot needs the page. Once false, it stays false until the table pins again.
    ///
    /// # Safety
    /// The page belongs to the calling table.
    #[inline(always)]
    pub(super) unsafe fn is_pinned(self) -> bool {
        // SAFETY: a table keeps its pool alive
        pins::is_pinned(unsafe { self.pins() })
    }

    /// Adds a snapshot.
    ///
    /// # Safety
    /// The page belongs to the calling table.
    #[inline(always)]
    pub(super) unsafe fn pin(self) {
        // SAFETY: a table keeps its pool alive
        pins::pin(unsafe { self.pins() })
    }

    /// Whether one snapshot needs the page, and no part of one beside it.
    ///
    /// # Safety
    /// The page belongs to the calling table.
    #[inline(always)]
    pub(super) unsafe fn is_pinned_once(self) -> bool {
        // SAFETY: a table keeps its pool alive
        pins::is_pinned_once(unsafe { self.pins() })
    }

    /// Takes the only snapshot away, in its place.
    ///
    /// # Safety
    /// The page belongs to the calling table; [`is_pinned_once`](Self::is_pinned_once) was true, the snapshot
    /// has given its hold to the table and does not touch the page any more.
    #[inline(always)]
    pub(super) unsafe fn take_over(self) {
        // SAFETY: a table keeps its pool alive
        pins::take_over(unsafe { self.pins() })
    }

    /// Adds a snapshot that shares what another one holds: a part cut off it.
    ///
    /// # Safety
    /// The caller pinned the page and has not unpinned it.
    #[inline(always)]
    pub(super) unsafe fn pin_again(self) {
        // SAFETY: a snapshot keeps the pool alive
        pins::pin_again(unsafe { self.pins() })
    }

    /// Takes a snapshot away; true: the page is the caller's now, to be emptied and given back.
    ///
    /// # Safety
    /// The caller pinned the page once and no longer reads it.
    #[must_use]
    #[inline(always)]
    pub(super) unsafe fn unpin(self) -> bool {
        // SAFETY: a snapshot keeps the pool alive
        pins::unpin(unsafe { self.pins() })
    }

    /// Ends the table's use of the page; true: the page is the caller's now, to be emptied and given back.
    ///
    /// # Safety
    /// The page belongs to the calling table, which forgets it.
    #[must_use]
    #[inline(always)]
    pub(super) unsafe fn abandon(self) -> bool {
        // SAFETY: a table keeps its pool alive
        pins::abandon(unsafe { self.pins() })
    }
}

/// A directory entry: a page, its local depth, and whether it is *own*.
///
/// Own: no snapshot needs the page and it was written since the last freeze, so a write needs no look at the
/// pins.
#[derive(Clone, Copy)]
pub(super) struct Entry(*mut u8);

impl Entry {
    const OWN: usize = 1;

    #[inline(always)]
    pub(super) fn new(page: Page, depth: u32, own: bool) -> Self {
        debug_assert!(depth < 64);
        Self(page.0.map_addr(|a| a | (depth as usize) << 1 | own as usize))
    }

    #[inline(always)]
    pub(super) fn page(self) -> Page {
        Page(self.0.map_addr(|a| a & !(PAGE_BYTES - 1)))
    }

    #[inline(always)]
    pub(super) fn depth(self) -> u32 {
        (self.0.addr() >> 1) as u32 & 63
    }

    #[inline(always)]
    pub(super) fn is_own(self) -> bool {
        self.0.addr() & Self::OWN != 0
    }

    #[inline(always)]
    pub(super) fn not_own(self) -> Self {
        Self(self.0.map_addr(|a| a & !Self::OWN))
    }
}

/// A page that a snapshot holds, where its hash range starts, and how many entries it had at the freeze.
#[derive(Clone, Copy)]
pub(super) struct Pinned {
    pub(super) entry: Entry,
    pub(super) place: u64,
    pub(super) count: u16,
}

// SAFETY: an entry is an address; what may be done with it on which thread is said at the functions of `Page`
unsafe impl Send for Pinned {}
// SAFETY: as above
unsafe impl Sync for Pinned {}

/// Memory for the pages of many tables.
///
/// A clone is another handle of the same pool. A pool lives as long as a handle, table or frozen table of it;
/// pages that tables give up are used again by all tables of the pool. [`Table::new`](super::Table::new)
/// takes the pool of the calling thread.
#[derive(Clone)]
pub struct PagePool {
    shared: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(super) struct State {
    regions: Regions,
    chunks: Vec<NonNull<u8>>,
    /// chunks of which no page was handed out, made present by another thread
    ready: Vec<NonNull<u8>>,
    /// pages of the newest chunk that were handed out at least once
    used: usize,
    free: Vec<*mut u8>,
    lists: Vec<Vec<Pinned>>,
    words: Vec<Box<[AtomicU32]>>,
    blocks: Vec<Block>,
    /// blocks that the pool has made, in use or not
    blocks_made: usize,
}

// SAFETY: the pointers are owned memory, reached under the mutex
unsafe impl Send for State {}

impl PagePool {
    /// A pool without memory.
    pub fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// The pool of the calling thread.
    pub fn of_this_thread() -> Self {
        thread_local!(static POOL: PagePool = PagePool::new());
        POOL.try_with(Clone::clone).unwrap_or_else(|_| Self::new())
    }

    /// Pages that tables and frozen tables hold now.
    pub fn pages_in_use(&self) -> usize {
        let state = self.lock();
        state.handed_out() - state.free.len()
    }

    /// Memory taken from the system, in bytes, without what tables have saved for snapshots under way.
    pub fn memory_bytes(&self) -> usize {
        let state = self.lock();
        (state.chunks.len() + state.ready.len()) * CHUNK_BYTES + state.blocks.len() * BLOCK_BYTES
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // nobody's code runs under the lock: it cannot have been left half changed
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for so many pages to be present ahead: those that will be copied while a snapshot is held.
    pub(super) fn prepare_pages(&self, pages: usize) {
        let state = self.lock();
        if state.chunks.len() > 1 && state.spare_pages() < pages {
            drop(state);
            spare::prepare(&self.shared, Wanted::Pages(pages));
        }
    }

    /// Asks for so many blocks to be present ahead.
    pub(super) fn prepare_blocks(&self, blocks: usize) {
        let missing = self.lock().blocks_made < blocks;
        if missing {
            spare::prepare(&self.shared, Wanted::Blocks(blocks));
        }
    }

    /// A block with undefined content.
    pub(super) fn take_block(&self) -> Block {
        let mut state = self.lock();
        if let Some(block) = state.blocks.pop() {
            return block;
        }
        state.blocks_made += 1;
        drop(state);
        Block::new()
    }

    /// Takes blocks back.
    pub(super) fn give_blocks(&self, blocks: &mut Vec<Block>) {
        if !blocks.is_empty() {
            self.lock().blocks.append(blocks);
        }
    }

    /// A page with undefined content, no pins, and undefined count and stamp.
    pub(super) fn take(&self) -> Page {
        let mut state = self.lock();
        match state.free.pop() {
            Some(page) => Page(page),
            None => state.fresh(),
        }
    }

    /// Takes a page back, which the caller owns and has emptied.
    pub(super) fn give(&self, page: Page) {
        debug_assert!(!page.is_empty_page());
        self.lock().free.push(page.0);
    }

    /// Takes pages back.
    pub(super) fn give_all(&self, pages: &mut Vec<Page>) {
        if !pages.is_empty() {
            self.lock().free.extend(pages.drain(..).map(|page| page.0));
        }
    }

    /// An empty list, with memory if a snapshot left one.
    pub(super) fn take_list(&self) -> Vec<Pinned> {
        self.lock().lists.pop().unwrap_or_default()
    }

    /// So many words, all 0. Asking the system for memory could take long within a freeze: it waits while
    /// another thread makes pages present.
    pub(super) fn take_words(&self, len: usize) -> Box<[AtomicU32]> {
        let words = {
            let known = &mut self.lock().words;
            known.iter().position(|words| words.len() == len).map(|at| known.swap_remove(at))
        };
        let Some(mut words) = words else { return (0..len).map(|_| AtomicU32::new(0)).collect() };
        words.iter_mut().for_each(|word| *word.get_mut() = 0);
        words
    }

    /// Keeps words for the next snapshot.
    pub(super) fn give_words(&self, words: Box<[AtomicU32]>) {
        if words.len() >= 256 {
            let known = &mut self.lock().words;
            // a table that has grown needs more than before
            known.retain(|known| known.len() >= words.len());
            if known.len() < SPARE_LISTS {
                known.push(words);
            }
        }
    }

    /// Keeps a list's memory for the next snapshot.
    pub(super) fn give_list(&self, mut list: Vec<Pinned>) {
        list.clear();
        // small ones are not worth it: windows make thousands
        if list.capacity() >= 256 {
            let mut state = self.lock();
            if state.lists.len() < SPARE_LISTS {
                state.lists.push(list);
            }
        }
    }
}

impl State {
    fn handed_out(&self) -> usize {
        match self.chunks.len() {
            0 => 0,
            n => (n - 1) * (CHUNK_PAGES - 1) + self.used,
        }
    }

    /// Pages that can be handed out without asking the system.
    pub(super) fn spare_pages(&self) -> usize {
        self.free.len() + self.ready.len() * (CHUNK_PAGES - 1)
    }

    /// Blocks there are, in use or not.
    pub(super) fn blocks(&self) -> usize {
        self.blocks_made
    }

    /// Takes a block that was made present.
    pub(super) fn add_block(&mut self, block: Block) {
        self.blocks.push(block);
        self.blocks_made += 1;
    }

    /// A chunk to be made present, of which no page is handed out meanwhile.
    pub(super) fn chunk_to_prepare(&mut self) -> Chunk {
        Chunk(self.regions.chunk())
    }

    /// Takes a chunk that was made present.
    pub(super) fn add_ready(&mut self, chunk: Chunk) {
        self.ready.push(chunk.0);
    }

    fn fresh(&mut self) -> Page {
        if self.chunks.is_empty() || self.used == CHUNK_PAGES - 1 {
            // zeroed, its head says that no page is pinned
            let chunk = self.ready.pop().unwrap_or_else(|| self.regions.chunk());
            self.chunks.push(chunk);
            self.used = 0;
        }
        self.used += 1;
        let chunk = self.chunks[self.chunks.len() - 1];
        // SAFETY: used < CHUNK_PAGES, so the page lies in the chunk
        Page(unsafe { chunk.as_ptr().add(self.used * PAGE_BYTES) })
    }
}

pub(super) const CHUNK: Layout = match Layout::from_size_align(CHUNK_BYTES, CHUNK_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a chunk's size is a power of two"),
};

/// A chunk on its way to or from the thread that makes it present. It belongs to the pool all the time.
pub(super) struct Chunk(NonNull<u8>);

// SAFETY: memory that nobody else uses, reached through the pool that owns it
unsafe impl Send for Chunk {}

impl Chunk {
    /// Makes all of it present. The caller keeps the pool alive.
    pub(super) fn make_present(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: the range is the pool's, and nothing in it is changed. Where it fails (before Linux 5.14),
        // the first touch makes pages present.
        unsafe {
            libc::madvise(self.0.as_ptr().cast(), CHUNK_BYTES, libc::MADV_POPULATE_WRITE);
        }
    }
}

impl Default for PagePool {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagePool").field("pages_in_use", &self.pages_in_use()).finish_non_exhaustive()
    }
}
