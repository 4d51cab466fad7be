//! How an entry's key is laid out in a column family.
//!
//! | state | key |
//! |---|---|
//! | value, reducing, aggregating, list | key group, key |
//! | map | key group, key, map key |
//! | value by namespace (windows) | key group, namespace, key |
//! | timers | key group, time, lower 48 bits of the key's hash, key, namespace |
//!
//! The key group is big-endian: 1 byte up to 128 key groups, else 2. Every part is in its binary form
//! ([`Data`]), and that form says where it ends: strings and lists begin with their length. So no part's form
//! is the beginning of another value's form, a concatenation is read back in one way only, and all entries of
//! one key are exactly those that begin with its bytes.
//!
//! Where a namespace is used, it comes before the key: windows fire a namespace as a whole, which is a range
//! of each key group then, and not a scan of all windows' entries.

use stillstream_data::DecodeError;
use stillstream_data::{Data, Key};
use stillstream_types::{KeyGroup, KeyGroupRange, KeyGroups, KeyHash, Timestamp};

/// The key layout of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub groups: KeyGroups,
}

impl Layout {
    /// Bytes of the key group: 1 or 2.
    pub fn group_bytes(self) -> usize {
        match self.groups.max_parallelism() <= 128 {
            true => 1,
            false => 2,
        }
    }

    /// Starts a key with its group.
    pub fn begin(self, group: KeyGroup, out: &mut Vec<u8>) {
        out.clear();
        match self.group_bytes() {
            1 => out.push(group.0 as u8),
            _ => out.extend_from_slice(&group.0.to_be_bytes()),
        }
    }

    /// A key within a namespace, whose binary form may be empty.
    #[inline]
    pub fn entry<K: Key>(self, hash: KeyHash, namespace: &[u8], key: &K, out: &mut Vec<u8>) {
        self.begin(hash.group(), out);
        out.extend_from_slice(namespace);
        key.encode(out);
    }

    /// A timer: groups ascending, within a group times ascending.
    pub fn timer<K: Key, N: Data>(
        self,
        time: Timestamp,
        hash: KeyHash,
        key: &K,
        namespace: &N,
        out: &mut Vec<u8>,
    ) {
        self.begin(hash.group(), out);
        out.extend_from_slice(&ordered_time(time));
        out.extend_from_slice(&hash.bits().to_be_bytes()[2..]);
        key.encode(out);
        namespace.encode(out);
    }

    /// The key group of a stored key, and the rest.
    pub fn split(self, key: &[u8]) -> Result<(KeyGroup, &[u8]), DecodeError> {
        let (group, rest) =
            key.split_at_checked(self.group_bytes()).ok_or(DecodeError::Short { what: "key group" })?;
        let group = group.iter().fold(0u16, |group, byte| group << 8 | *byte as u16);
        Ok((KeyGroup(group), rest))
    }

    /// Time, hash and what follows, of a stored timer.
    pub fn split_timer(self, key: &[u8]) -> Result<(Timestamp, KeyHash, &[u8]), DecodeError> {
        let (group, rest) = self.split(key)?;
        let short = DecodeError::Short { what: "timer" };
        let (time, rest) = rest.split_first_chunk::<8>().ok_or_else(|| short.clone())?;
        let (bits, rest) = rest.split_first_chunk::<6>().ok_or(short)?;
        let bits = bits.iter().fold(0u64, |bits, byte| bits << 8 | *byte as u64);
        let time = (u64::from_be_bytes(*time) ^ 1 << 63) as i64;
        Ok((Timestamp::from_millis(time), KeyHash::new(group, bits), rest))
    }

    /// The first key of the groups of a range, and the first key after all of them.
    pub fn bounds(self, range: KeyGroupRange) -> (Vec<u8>, Vec<u8>) {
        let (mut from, mut to) = (Vec::new(), Vec::new());
        self.begin(KeyGroup(range.start), &mut from);
        // fits: there are at most 128 groups of one byte, and 32768 of two
        self.begin(KeyGroup(range.end), &mut to);
        (from, to)
    }
}

/// The first key after all that begin with `prefix`; `None` if there is no such key.
pub(crate) fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut bound = prefix[..=last].to_vec();
    bound[last] += 1;
    Some(bound)
}

/// A time whose bytes compare as the times do.
fn ordered_time(time: Timestamp) -> [u8; 8] {
    (time.as_millis() as u64 ^ 1 << 63).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn entry<K: Key>(max_parallelism: u32, group: u16, namespace: &[u8], key: K) -> String {
        let mut out = vec![9; 3];
        let layout = Layout { groups: KeyGroups::new(max_parallelism) };
        layout.entry(KeyHash::new(KeyGroup(group), 5), namespace, &key, &mut out);
        hex(&out)
    }

    // golden: files of completed checkpoints hold these bytes
    #[test]
    fn keys_have_a_one_byte_group_up_to_128_groups_and_two_bytes_above() {
        assert_eq!(entry(128, 94, &[], 258u32), "5e02010000");
        assert_eq!(entry(129, 94, &[], 258u32), "005e02010000");
        assert_eq!(entry(32768, 0x1234, &[], "ab".to_string()), "1234020000006162");
        assert_eq!(entry(1, 0, &[], ()), "00");
        assert_eq!(entry(128, 1, &7i64.to_le_bytes(), true), "01070000000000000001");
    }

    #[test]
    fn timers_are_ordered_by_group_then_time_then_hash() {
        let layout = Layout { groups: KeyGroups::new(128) };
        let timer = |group, time, bits| {
            let mut out = Vec::new();
            layout.timer(
                Timestamp::from_millis(time),
                KeyHash::new(KeyGroup(group), bits),
                &7u16,
                &(),
                &mut out,
            );
            out
        };
        assert_eq!(hex(&timer(3, 1, 0x0102_0304_0506)), "0380000000000000010102030405060700");
        assert_eq!(hex(&timer(3, -1, 0)), "037fffffffffffffff0000000000000700");
        let ordered = [
            timer(2, 900, 0),
            timer(3, i64::MIN, 5),
            timer(3, -1, 0),
            timer(3, 0, 0),
            timer(3, 0, 1),
            timer(3, i64::MAX, 0),
        ];
        assert!(ordered.is_sorted());
        for (bytes, time) in ordered.iter().zip([900, i64::MIN, -1, 0, 0, i64::MAX]) {
            assert_eq!(layout.split_timer(bytes).map(|(time, ..)| time.as_millis()), Ok(time));
        }
        assert!(layout.split_timer(&timer(3, 0, 0)[..14]).is_err());
    }

    // "a", "ab" and "" begin one another as texts, but not as keys
    #[test]
    fn no_keys_form_is_the_beginning_of_another_ones() {
        let keys = ["", "a", "ab", "a\0", "\u{ff}", "aa"].map(|key| entry(128, 1, &[], key.to_string()));
        for (i, a) in keys.iter().enumerate() {
            assert!(keys.iter().enumerate().all(|(j, b)| i == j || !b.starts_with(a)), "{a}");
        }
        // key "a" with map key "bc", key "ab" with map key "c"
        let with = |key: &str, map_key: &str| {
            let mut out = Vec::new();
            let layout = Layout { groups: KeyGroups::new(128) };
            layout.entry(KeyHash::default(), &[], &key.to_string(), &mut out);
            map_key.to_string().encode(&mut out);
            out
        };
        assert_ne!(with("a", "bc"), with("ab", "c"));
    }

    #[test]
    fn the_bound_after_a_prefix_carries_over_ff() {
        assert_eq!(after(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(after(&[0xff, 0xff]), None);
        assert_eq!(after(&[]), None);
    }
}
