//! Key groups: the unit in which keyed state is stored and moved.
//!
//! A job has `max_parallelism` key groups for its whole life. A key belongs to one of them by its hash, and
//! each subtask owns one contiguous range, so that a job can be given another parallelism without rehashing a
//! key. The formulas are Flink's (`KeyGroupRangeAssignment`).

use std::fmt;

use crate::murmur::murmur_hash;

/// The number of a key group, below the job's max parallelism.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize,
)]
pub struct KeyGroup(pub u16);

impl fmt::Display for KeyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The hash of a key as it travels with a record: the key group in the top 16 bits, 48 well mixed bits below.
///
/// Computed once per record, on the sending side of the exchange; routing and the state table both use it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// From a key group and 64 mixed bits, of which the lower 48 are kept.
    #[inline(always)]
    pub fn new(group: KeyGroup, mixed: u64) -> Self {
        Self((group.0 as u64) << 48 | (mixed & 0xffff_ffff_ffff))
    }

    /// The key group.
    #[inline(always)]
    pub fn group(self) -> KeyGroup {
        KeyGroup((self.0 >> 48) as u16)
    }

    /// The 48 mixed bits.
    #[inline(always)]
    pub fn bits(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }
}

/// A contiguous range of key groups, `start` included, `end` excluded; may be empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyGroupRange {
    /// The first group.
    pub start: u16,
    /// One past the last group.
    pub end: u16,
}

impl KeyGroupRange {
    /// `start..end`
    pub fn new(start: u16, end: u16) -> Self {
        Self { start, end: end.max(start) }
    }

    /// How many groups.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it holds no group.
    pub fn is_empty(self) -> bool {
        self.end == self.start
    }

    /// Whether `group` is in the range.
    #[inline(always)]
    pub fn contains(self, group: KeyGroup) -> bool {
        self.start <= group.0 && group.0 < self.end
    }

    /// The groups in both.
    pub fn intersect(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        Self::new(start, self.end.min(other.end).max(start))
    }

    /// All groups, in order.
    pub fn iter(self) -> impl Iterator<Item = KeyGroup> {
        (self.start..self.end).map(KeyGroup)
    }
}

impl fmt::Display for KeyGroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_empty() {
            true => write!(f, "no key groups"),
            false => write!(f, "{}-{}", self.start, self.end - 1),
        }
    }
}

/// The smallest legal max parallelism that a default may give.
pub const DEFAULT_LOWER_MAX_PARALLELISM: u32 = 128;
/// The largest legal max parallelism.
pub const UPPER_MAX_PARALLELISM: u32 = 1 << 15;

/// The key groups of one job: how many there are, and who owns which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyGroups {
    max_parallelism: u32,
    // Lemire's fastmod: ceil(2^64 / max_parallelism); exact for 32-bit dividends.
    magic: u64,
}

impl KeyGroups {
    /// Key groups for a max parallelism of 1 to 32768; a value outside is clamped (callers validate users'
    /// input).
    pub fn new(max_parallelism: u32) -> Self {
        let max_parallelism = max_parallelism.clamp(1, UPPER_MAX_PARALLELISM);
        Self { max_parallelism, magic: (u64::MAX / max_parallelism as u64).wrapping_add(1) }
    }

    /// Flink's default for a parallelism: 1.5 times, rounded up to a power of two, 128 to 32768.
    ///
    /// ```
    /// use stillstream_types::KeyGroups;
    /// assert_eq!(KeyGroups::default_max_parallelism(4), 128);
    /// assert_eq!(KeyGroups::default_max_parallelism(200), 512);
    /// ```
    pub fn default_max_parallelism(parallelism: u32) -> u32 {
        (parallelism.saturating_add(parallelism / 2))
            .checked_next_power_of_two()
            .unwrap_or(UPPER_MAX_PARALLELISM)
            .clamp(DEFAULT_LOWER_MAX_PARALLELISM, UPPER_MAX_PARALLELISM)
    }

    /// How many key groups there are.
    #[inline(always)]
    pub fn max_parallelism(self) -> u32 {
        self.max_parallelism
    }

    /// The key group of a key with this hash code (Java's `hashCode` where Java has such a key).
    #[inline(always)]
    pub fn group_of(self, hash_code: i32) -> KeyGroup {
        let (hash, max) = (murmur_hash(hash_code), self.max_parallelism);
        if max.is_power_of_two() {
            return KeyGroup((hash & (max - 1)) as u16);
        }
        // the upper half of the product of 64 by 32 bits, from products that vectors have too
        let (low, max) = (self.magic.wrapping_mul(hash as u64), max as u64);
        let group = ((low >> 32) * max + (((low & 0xffff_ffff) * max) >> 32)) >> 32;
        KeyGroup(group as u16)
    }

    /// The subtask that owns a key group.
    #[inline(always)]
    pub fn owner(self, group: KeyGroup, parallelism: u32) -> u32 {
        (group.0 as u64 * parallelism as u64 / self.max_parallelism as u64) as u32
    }

    /// The range that subtask `index` of `parallelism` owns.
    pub fn range(self, index: u32, parallelism: u32) -> KeyGroupRange {
        let (index, p, max) = (index as u64, parallelism as u64, self.max_parallelism as u64);
        let start = (index * max).div_ceil(p);
        let end = ((index + 1) * max).div_ceil(p);
        KeyGroupRange::new(start as u16, end as u16)
    }

    /// All groups.
    pub fn all(self) -> KeyGroupRange {
        KeyGroupRange::new(0, self.max_parallelism as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_groups_equal_flinks_golden_values() {
        for (code, murmur, group, subtask) in [
            (0i32, 593689054u32, 94u16, 2u32),
            (1, 68075478, 86, 2),
            (2, 1085422463, 127, 3),
            (-1, 1982413648, 80, 2),
            (42, 1134849565, 29, 0),
            (123456789, 1088346449, 81, 2),
            (2147483647, 1653689534, 62, 1),
            (-2147483648, 1718298732, 108, 3),
            (97, 1455541201, 81, 2),
            (99162322, 1715862179, 35, 1),
            (-836031825, 1662039673, 121, 3),
            (-836031824, 2010244374, 22, 0),
            (97520992, 1330823394, 98, 3),
            (233, 1107437598, 30, 0),
        ] {
            assert_eq!(murmur_hash(code), murmur, "murmur of {code}");
            let groups = KeyGroups::new(128);
            assert_eq!(groups.group_of(code).0, group, "group of {code}");
            assert_eq!(groups.owner(KeyGroup(group), 4), subtask, "subtask of {code}");
        }
    }

    #[test]
    fn ranges_equal_flinks_and_agree_with_the_owner() {
        let ends = |max, p: u32| (0..p).map(|i| KeyGroups::new(max).range(i, p).end).collect::<Vec<_>>();
        assert_eq!(ends(128, 3), [43, 86, 128]);
        assert_eq!(ends(128, 5), [26, 52, 77, 103, 128]);
        assert_eq!(ends(10, 3), [4, 7, 10]);
        assert_eq!(ends(10, 4), [3, 5, 8, 10]);
        for max in [1u32, 7, 10, 128, 1000, 32768] {
            let groups = KeyGroups::new(max);
            for p in 1..=max.min(40) {
                for i in 0..p {
                    for group in groups.range(i, p).iter() {
                        assert_eq!(groups.owner(group, p), i);
                    }
                }
                assert_eq!((0..p).map(|i| groups.range(i, p).len()).sum::<usize>(), max as usize);
            }
        }
    }

    #[test]
    fn the_remainder_is_exact_for_every_divisor() {
        for max in (1..=UPPER_MAX_PARALLELISM).step_by(37).chain([127, 128, 129, 32767, 32768]) {
            for code in [0, 1, -1, 42, i32::MAX, i32::MIN, 977, -123456] {
                assert_eq!(KeyGroups::new(max).group_of(code).0 as u32, murmur_hash(code) % max);
            }
        }
    }

    #[test]
    fn default_max_parallelism_equals_flinks() {
        for (p, max) in [
            (1, 128),
            (85, 128),
            (86, 256),
            (170, 256),
            (171, 256),
            (200, 512),
            (1000, 2048),
            (10000, 16384),
            (21845, 32768),
            (30000, 32768),
        ] {
            assert_eq!(KeyGroups::default_max_parallelism(p), max, "parallelism {p}");
        }
    }
}
