//! Where a hash lies in the directory: key group first, then the mixed bits.

use std::ops::RangeInclusive;

use stillstream_types::{KeyGroup, KeyGroupRange, KeyHash};

const HASH_BITS: u32 = 48;

/// Maps hashes to places: `(group - range.start)` in the top G bits, the 48 hash bits right below them. So
/// the order of places is the order of key groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    range: KeyGroupRange,
    base: u64,
    shift: u32,
}

impl Places {
    pub(super) fn new(range: KeyGroupRange) -> Self {
        let group_bits = range.len().max(1).next_power_of_two().trailing_zeros();
        Self { range, base: (range.start as u64) << HASH_BITS, shift: 64 - HASH_BITS - group_bits }
    }

    pub(super) fn range(self) -> KeyGroupRange {
        self.range
    }

    /// G: a page of at least this depth holds one key group.
    #[inline(always)]
    pub(super) fn group_bits(self) -> u32 {
        64 - HASH_BITS - self.shift
    }

    #[inline(always)]
    pub(super) fn place(self, hash: KeyHash) -> u64 {
        debug_assert!(
            self.range.contains(hash.group()),
            "key group {} is not in {}",
            hash.group(),
            self.range
        );
        hash.0.wrapping_sub(self.base) << self.shift
    }

    /// The low 16 bits are those of the hash.
    #[inline(always)]
    pub(super) fn hash_bits(self, place: u64) -> u64 {
        (place >> self.shift) & ((1 << HASH_BITS) - 1)
    }

    #[inline(always)]
    pub(super) fn group(self, place: u64) -> KeyGroup {
        KeyGroup(self.range.start.wrapping_add((place >> self.shift >> HASH_BITS) as u16))
    }

    /// Whether a key group starts at this place.
    pub(super) fn starts_group(self, place: u64) -> bool {
        self.hash_bits(place) == 0
    }

    /// The hashes whose places have the top `depth` bits of `place`.
    pub(super) fn span(self, place: u64, depth: u32) -> Span {
        let (first, last) = (place, place | place_mask(depth));
        let group = self.group(first).0;
        match depth >= self.group_bits() {
            true => Span {
                groups: KeyGroupRange::new(group, group.saturating_add(1)),
                bits: self.hash_bits(first)..=self.hash_bits(last),
            },
            false => Span {
                groups: KeyGroupRange::new(group, self.group(last).0.saturating_add(1)).intersect(self.range),
                bits: 0..=(1 << HASH_BITS) - 1,
            },
        }
    }
}

/// The bits below the top `depth`.
#[inline(always)]
pub fn place_mask(depth: u32) -> u64 {
    u64::MAX.checked_shr(depth).unwrap_or(0)
}

/// A range of hashes that one page covers: all hashes of some key groups, or some hashes of one key group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// The key groups.
    pub groups: KeyGroupRange,
    /// The values of [`KeyHash::bits`] in each of them.
    pub bits: RangeInclusive<u64>,
}

impl Span {
    /// Whether a key with this hash lies in the range.
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.groups.contains(hash.group()) && self.bits.contains(&hash.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_the_order_of_key_groups_and_give_the_group_back() {
        for range in [(0, 1), (7, 8), (3, 131), (40, 83), (0, 32768), (5, 5), (100, 65535)] {
            let range = KeyGroupRange::new(range.0, range.1);
            let places = Places::new(range);
            let mut before = None;
            for group in range.iter().step_by(range.len() / 50 + 1) {
                for bits in [0, 1, 0x1234_5678_9abc, (1 << 48) - 1] {
                    let place = places.place(KeyHash::new(group, bits));
                    assert!(before < Some(place));
                    before = Some(place);
                    assert_eq!(places.group(place), group);
                    assert_eq!(places.hash_bits(place), bits);
                    assert_eq!(places.starts_group(place), bits == 0);
                }
            }
        }
    }

    #[test]
    fn a_span_holds_exactly_the_hashes_of_its_page() {
        let places = Places::new(KeyGroupRange::new(40, 83));
        let hash = KeyHash::new(KeyGroup(51), 0x1234_5678_9abc);
        for depth in 0..25 {
            let first = places.place(hash) & !place_mask(depth);
            let span = places.span(first, depth);
            for other in [hash.0, hash.0 ^ 1 << 47, hash.0 ^ 1 << 30, hash.0 ^ 1 << 48, hash.0 + (5 << 48)] {
                let inside = (places.place(KeyHash(other)) ^ first) & !place_mask(depth) == 0;
                assert_eq!(span.contains(KeyHash(other)), inside, "depth {depth} {other:x}");
            }
        }
    }
}
