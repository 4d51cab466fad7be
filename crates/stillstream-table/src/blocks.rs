//! Memory for what tables save for images: blocks of 64 KiB, kept by the pool from one snapshot to the next.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 64 << 10;
const LAYOUT: Layout = match Layout::from_size_align(BLOCK_BYTES, 64) {
    Ok(layout) => layout,
    Err(_) => panic!("a block's size is a power of two"),
};

/// A block with undefined content.
pub(super) struct Block(NonNull<u8>);

// SAFETY: owned memory; who may read and write what of it is said where it is used
unsafe impl Send for Block {}
// SAFETY: a shared block gives its address and nothing else
unsafe impl Sync for Block {}

impl Block {
    pub(super) fn new() -> Self {
        // SAFETY: the layout has a size
        let start = unsafe { alloc(LAYOUT) };
        Self(NonNull::new(start).unwrap_or_else(|| handle_alloc_error(LAYOUT)))
    }

    /// One whose memory is present.
    pub(super) fn present() -> Self {
        let block = Self::new();
        // SAFETY: the block is ours alone and as long as that
        unsafe { block.start().write_bytes(0, BLOCK_BYTES) };
        block
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, once
        unsafe { dealloc(self.0.as_ptr(), LAYOUT) };
    }
}
