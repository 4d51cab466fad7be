//! Memory for chunks, taken from the system in large pieces.
//!
//! Not from the allocator: what that hands out may have been touched before, on small pages, and then huge
//! pages stay away (measured: 12 of 40 MB were on huge pages, and an update at 10^6 keys took twice the
//! time). Address space costs nothing until it is touched, so a pool takes some ahead; a few large pieces,
//! because the number of mappings of a process is limited.

use std::alloc::handle_alloc_error;
use std::ptr::NonNull;

use super::pool::{CHUNK, CHUNK_BYTES};

/// Bytes of the first and of the largest piece; each is as large as all before it.
#[cfg(all(target_os = "linux", not(miri)))]
const PIECES: (usize, usize) = (4 * CHUNK_BYTES, 256 << 20);

/// Pieces of memory, each a whole number of chunks, aligned to their size.
#[derive(Default)]
pub(super) struct Regions {
    pieces: Vec<(NonNull<u8>, usize)>,
    /// Bytes of the newest piece that were handed out.
    used: usize,
}

impl Regions {
    /// The next chunk, all zeroes.
    pub(super) fn chunk(&mut self) -> NonNull<u8> {
        if self.pieces.last().is_none_or(|(_, bytes)| self.used == *bytes) {
            let bytes = Self::next_size(self.pieces.iter().map(|(_, bytes)| bytes).sum());
            let Some(start) = take(bytes, self.pieces.is_empty()) else { handle_alloc_error(CHUNK) };
            self.pieces.push((start, bytes));
            self.used = 0;
        }
        let (start, _) = self.pieces[self.pieces.len() - 1];
        // SAFETY: used < bytes, so the chunk lies in the piece
        let chunk = unsafe { start.add(self.used) };
        self.used += CHUNK_BYTES;
        chunk
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn next_size(total: usize) -> usize {
        total.clamp(PIECES.0, PIECES.1).next_multiple_of(CHUNK_BYTES)
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn next_size(_: usize) -> usize {
        CHUNK_BYTES
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        for (start, bytes) in self.pieces.drain(..) {
            // SAFETY: taken by `take` with this size; the pool and with it all pages are gone
            unsafe { give_back(start, bytes) };
        }
    }
}

/// Zeroed memory, aligned to a chunk. Huge pages are asked for, but not for the `first` chunk of a pool: with
/// them the first touch costs 2 MiB, which a small state does not need.
#[cfg(all(target_os = "linux", not(miri)))]
fn take(bytes: usize, first: bool) -> Option<NonNull<u8>> {
    let all = bytes + CHUNK_BYTES;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping touches no memory that anybody has
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), all, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    let mapped = mapped.cast::<u8>();
    let before = mapped.align_offset(CHUNK_BYTES);
    let after = CHUNK_BYTES - before;
    // SAFETY: `before`, `bytes` and `after` are the parts of the mapping; the outer two are ours alone and
    // not used. The advice changes no content; where it fails, pages stay small.
    unsafe {
        let start = mapped.add(before);
        if before > 0 {
            libc::munmap(mapped.cast(), before);
        }
        if after > 0 {
            libc::munmap(start.add(bytes).cast(), after);
        }
        let small = if first { CHUNK_BYTES } else { 0 };
        libc::madvise(start.add(small).cast(), bytes - small, libc::MADV_HUGEPAGE);
        NonNull::new(start)
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn take(_: usize, _: bool) -> Option<NonNull<u8>> {
    // SAFETY: the layout is not empty
    NonNull::new(unsafe { std::alloc::alloc_zeroed(CHUNK) })
}

#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe fn give_back(start: NonNull<u8>, _: usize) {
    // SAFETY: allocated in `take` with this layout
    unsafe { std::alloc::dealloc(start.as_ptr(), CHUNK) };
}
