//! What pages held when they were written, as 64 bits for each of their cells: so that a checkpoint writes
//! the entries that changed and not the pages around them.
//!
//! The sum of hashes of a cell's entries says whether any of them changed, came or went. It is computed by
//! the thread that writes and costs the worker nothing; it takes 256 bytes for each page of 4 KiB. That a
//! change goes unseen has a chance of 2^-64 for each cell; the hash has a seed of its own for each backend.

use std::sync::{Arc, Mutex, PoisonError};

use stillstream_table::place_mask;

/// A 64-bit hash of an entry's binary form. After wyhash: multiply to 128 bits, fold.
#[inline]
pub(super) fn fingerprint(seed: u64, bytes: &[u8]) -> u64 {
    const K: [u64; 4] =
        [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];
    let fold = |a: u64, b: u64| {
        let wide = a as u128 * b as u128;
        wide as u64 ^ (wide >> 64) as u64
    };
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let mut hash = seed ^ K[0];
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        hash = fold(word(&block[..8]) ^ K[1] ^ seed, word(&block[8..]) ^ hash);
    }
    let rest = blocks.remainder();
    let (low, high) = rest.split_at(rest.len().min(8));
    hash = fold(word(low) ^ K[2] ^ seed, word(high) ^ hash);
    fold(hash ^ K[3], bytes.len() as u64 ^ K[1])
}

/// A page's place in the directory and its depth.
type Position = (u64, u32);

fn last(position: Position) -> u64 {
    position.0 | place_mask(position.1)
}

/// The cells of the pages of one table, pages in the order of their places.
#[derive(Debug)]
pub(crate) struct RunDigest {
    pages: Vec<Position>,
    cells: Vec<u64>,
    /// Cells of one page.
    stride: usize,
    /// Whether pages that are not here had no entry; else nothing is known of them.
    complete: bool,
}

impl RunDigest {
    pub fn new(stride: usize, complete: bool) -> Self {
        Self { pages: Vec::new(), cells: Vec::new(), stride, complete }
    }

    /// Adds a page behind the others, with empty cells to be filled.
    pub fn add(&mut self, page: Position) -> &mut [u64] {
        self.pages.push(page);
        let start = self.cells.len();
        self.cells.resize(start + self.stride, 0);
        &mut self.cells[start..]
    }

    fn page(&self, at: usize) -> &[u64] {
        &self.cells[at * self.stride..][..self.stride]
    }

    /// A bit for each cell that is not as it was; all, if the page did not have this range.
    pub fn changed(&self, page: Position, cells: &[u64]) -> u64 {
        let differing = |was: &mut dyn Iterator<Item = u64>| {
            let bits = cells.iter().zip(was).enumerate();
            bits.fold(0, |mask, (at, (is, was))| mask | ((*is != was) as u64) << at)
        };
        let at = self.pages.partition_point(|known| known.0 < page.0);
        if self.pages.get(at) == Some(&page) && cells.len() == self.stride {
            return differing(&mut self.page(at).iter().copied());
        }
        let overlaps = self.pages.get(at).is_some_and(|known| known.0 <= last(page))
            || at > 0 && last(self.pages[at - 1]) >= page.0;
        match self.complete && !overlaps {
            true => differing(&mut std::iter::repeat(0)),
            false => ALL_CELLS,
        }
    }

    /// One digest of parts of a table; a page that several parts share is their sum.
    fn gather(mut parts: Vec<RunDigest>, stride: usize, complete: bool) -> Self {
        parts.sort_by_key(|part| (part.pages.first().copied(), part.pages.last().copied()));
        let mut all = Self::new(stride, complete);
        for part in parts {
            for (at, &page) in part.pages.iter().enumerate() {
                if all.pages.last() != Some(&page) {
                    all.add(page);
                }
                let start = all.cells.len() - stride;
                for (sum, cell) in all.cells[start..].iter_mut().zip(part.page(at)) {
                    *sum = sum.wrapping_add(*cell);
                }
            }
        }
        all
    }

    /// This over an older one: what it says of a range replaces all that the older one says there.
    fn over(&self, older: &Self) -> Self {
        let mut all = Self::new(self.stride, older.complete);
        let mut new = 0;
        for (at, &page) in older.pages.iter().enumerate() {
            while self.pages.get(new).is_some_and(|fresh| last(*fresh) < page.0) {
                all.add(self.pages[new]).copy_from_slice(self.page(new));
                new += 1;
            }
            if self.pages.get(new).is_none_or(|fresh| fresh.0 > last(page)) && older.stride == self.stride {
                all.add(page).copy_from_slice(older.page(at));
            }
        }
        for at in new..self.pages.len() {
            all.add(self.pages[at]).copy_from_slice(self.page(at));
        }
        all
    }
}

/// Every cell.
pub(super) const ALL_CELLS: u64 = u64::MAX;

/// What one table's run compares with, and what it finds.
#[derive(Debug)]
pub(crate) struct Tracking {
    pub seed: u64,
    /// As of the checkpoint that the changes are told from; `None` if nothing is known of it.
    base: Option<Arc<RunDigest>>,
    found: Mutex<Vec<RunDigest>>,
}

impl Tracking {
    pub fn new(seed: u64, base: Option<Arc<RunDigest>>) -> Arc<Self> {
        Arc::new(Self { seed, base, found: Mutex::default() })
    }

    pub fn changed(&self, page: Position, cells: &[u64]) -> u64 {
        self.base.as_ref().map_or(ALL_CELLS, |base| base.changed(page, cells))
    }

    /// What a part of the run found.
    pub fn add(&self, part: RunDigest) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    /// What is known when all parts are written; `whole`: they were the whole table.
    pub fn finish(&self, whole: bool) -> Arc<RunDigest> {
        let parts = std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        let stride = parts.first().map_or(1, |part| part.stride);
        match &self.base {
            Some(base) if !whole && parts.is_empty() => base.clone(),
            Some(base) if !whole => Arc::new(RunDigest::gather(parts, stride, false).over(base)),
            _ => Arc::new(RunDigest::gather(parts, stride, whole)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARTER: u64 = 1 << 62;

    fn digest(complete: bool, pages: &[(u64, u32, u64)]) -> RunDigest {
        let mut digest = RunDigest::new(2, complete);
        for &(place, depth, cell) in pages {
            digest.add((place, depth)).copy_from_slice(&[cell, 7]);
        }
        digest
    }

    #[test]
    fn only_cells_that_differ_are_changed_and_a_page_with_another_range_is_changed_as_a_whole() {
        let was = digest(true, &[(0, 2, 1), (QUARTER, 2, 2)]);
        assert_eq!(was.changed((0, 2), &[1, 7]), 0);
        assert_eq!(was.changed((0, 2), &[1, 8]), 0b10);
        assert_eq!(was.changed((0, 3), &[1, 7]), ALL_CELLS, "split");
        assert_eq!(was.changed((1 << 61, 3), &[0, 0]), ALL_CELLS, "split");
        assert_eq!(was.changed((0, 1), &[1, 7]), ALL_CELLS, "merged");
        assert_eq!(was.changed((2 * QUARTER, 1), &[0, 9]), 0b10, "it was empty");
        assert_eq!(digest(false, &[]).changed((0, 1), &[0, 0]), ALL_CELLS, "nothing is known");
    }

    #[test]
    fn newer_ranges_replace_all_that_they_overlap() {
        let was = digest(true, &[(0, 2, 1), (QUARTER, 2, 2), (2 * QUARTER, 2, 3), (3 * QUARTER, 2, 4)]);
        let now = digest(false, &[(0, 1, 5), (3 * QUARTER, 3, 6)]).over(&was);
        assert_eq!(now.pages, [(0, 1), (2 * QUARTER, 2), (3 * QUARTER, 3)]);
        assert_eq!(now.cells, [5, 7, 3, 7, 6, 7]);
        assert!(now.complete);
    }

    #[test]
    fn parts_of_a_page_add_up() {
        let parts = vec![digest(true, &[(QUARTER, 2, 2)]), digest(true, &[(0, 2, 1), (QUARTER, 2, 3)])];
        let all = RunDigest::gather(parts, 2, true);
        assert_eq!((all.pages, all.cells), (vec![(0, 2), (QUARTER, 2)], vec![1, 7, 5, 14]));
    }

    #[test]
    fn fingerprints_tell_lengths_places_and_seeds_apart() {
        let mut seen = std::collections::BTreeSet::new();
        for len in 0..100 {
            assert!(seen.insert(fingerprint(1, &vec![0; len])));
            assert!(seen.insert(fingerprint(2, &vec![0; len])));
            for at in 0..len {
                let mut bytes = vec![0; len];
                bytes[at] = 1;
                assert!(seen.insert(fingerprint(1, &bytes)), "byte {at} of {len}");
            }
        }
    }
}
