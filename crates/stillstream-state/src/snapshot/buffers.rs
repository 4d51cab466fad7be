//! Memory that snapshots are encoded into, kept from one to the next.
//!
//! Fresh memory must be cleared by the system, and on a virtual machine be found by the host too. Where each
//! block of a snapshot took its own, that cost more than to encode it: 9 of 17 ms of CPU time for 16 MB.

use std::sync::{Mutex, PoisonError};

use super::run::CHUNK_BYTES;

/// A chunk is closed when it has [`CHUNK_BYTES`]: the entries that take it over the mark find room here.
const BUFFER_BYTES: usize = CHUNK_BYTES + CHUNK_BYTES / 16;
/// What two snapshots under way have in use on a machine of few cores.
const MOST: usize = 12;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty buffer.
pub(super) fn take() -> Vec<u8> {
    let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    spare.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
}

/// Keeps a buffer's memory for the next one that is needed.
pub(super) fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    // one that grew for a large entry is not kept
    if spare.len() < MOST && (BUFFER_BYTES..=2 * BUFFER_BYTES).contains(&buffer.capacity()) {
        spare.push(buffer);
    }
}
