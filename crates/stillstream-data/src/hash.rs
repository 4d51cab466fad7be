//! The hash of keys: Java's `hashCode` for the key group (so that groups equal Flink's), and 48 mixed bits
//! for the table.

use stillstream_types::{KeyGroups, KeyHash};

const C0: u64 = 0x243f_6a88_85a3_08d3;
const C1: u64 = 0x9e37_79b9_7f4a_7c15;
const C2: u64 = 0xd6e8_feb8_6659_fd93;

/// Takes the parts of a key one after another.
///
/// A single integer, long or string gets Java's hash code; further parts combine as `31 * code + next`, as
/// `java.util.Arrays.hashCode` does.
#[derive(Clone, Copy, Debug)]
pub struct KeyHasher {
    code: i32,
    mixed: u64,
    first: bool,
}

impl KeyHasher {
    /// A hasher that has seen nothing.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "a hasher is made in one place")]
    pub fn new() -> Self {
        Self { code: 0, mixed: C0, first: true }
    }

    #[inline(always)]
    fn add(&mut self, code: i32, word: u64) {
        self.code = if self.first { code } else { self.code.wrapping_mul(31).wrapping_add(code) };
        self.first = false;
        // two multiplications: one folded product leaves the bits of consecutive keys correlated
        let x = (self.mixed ^ word).wrapping_mul(C1);
        self.mixed = (x ^ (x >> 32)).wrapping_mul(C2);
    }

    /// A 32-bit integer or anything smaller; Java's `Integer.hashCode`.
    #[inline(always)]
    pub fn int(&mut self, value: i32) {
        self.add(value, value as u32 as u64);
    }

    /// A 64-bit integer; Java's `Long.hashCode`.
    #[inline(always)]
    pub fn long(&mut self, value: u64) {
        self.add((value ^ (value >> 32)) as i32, value);
    }

    /// A string; Java's `String.hashCode`, over UTF-16 code units.
    #[inline(always)]
    pub fn string(&mut self, value: &str) {
        #[cold]
        fn utf16_code(value: &str) -> i32 {
            value.encode_utf16().fold(0i32, |code, unit| code.wrapping_mul(31).wrapping_add(unit as i32))
        }
        let code = ascii_code(value.as_bytes()).unwrap_or_else(|| utf16_code(value));
        self.add(code, mix_bytes(value.as_bytes()));
    }

    /// Bytes; Java's `Arrays.hashCode(byte[])` without its leading 1.
    #[inline]
    pub fn bytes(&mut self, value: &[u8]) {
        let code = value.iter().fold(0i32, |code, b| code.wrapping_mul(31).wrapping_add(*b as i8 as i32));
        self.add(code, mix_bytes(value));
    }

    /// A part that tells keys apart but leaves the key group as it is: entries that belong to one key stay
    /// together when key groups move.
    #[inline(always)]
    pub fn within_group(&mut self, value: u64) {
        let (code, first) = (self.code, self.first);
        self.add(0, value);
        (self.code, self.first) = (code, first);
    }

    /// The key group and the mixed bits.
    #[inline(always)]
    pub fn finish(self, groups: KeyGroups) -> KeyHash {
        KeyHash::new(groups.group_of(self.code), self.mixed ^ (self.mixed >> 29))
    }
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut full = [0u8; 8];
    full.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(full)
}

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> u64 {
    let mut full = [0u8; 4];
    full.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(full) as u64
}

/// Up to eight bytes as a word in memory's order, behind zeroes.
#[inline(always)]
fn behind_zeroes(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    let word = match n {
        0 => return 0,
        1..=3 => byte(0) | byte(n / 2) | byte(n - 1),
        // eight too: the halves then lie side by side
        _ => half(bytes, 0) | half(bytes, n - 4) << (8 * (n - 4)),
    };
    word << (64 - 8 * n)
}

/// Java's hash code of eight characters in memory's order; zeroes at the front count for nothing.
#[inline(always)]
fn code_of_eight(word: u64) -> i32 {
    const BYTES: u64 = 0x00ff_00ff_00ff_00ff;
    const PAIRS: u64 = 0x0000_ffff_0000_ffff;
    // neighbours are joined side by side, without a carry from one sum into the next
    let pairs = (word & BYTES) * 31 + (word >> 8 & BYTES);
    let fours = (pairs & PAIRS) * (31 * 31) + (pairs >> 16 & PAIRS);
    (fours as i32).wrapping_mul(31 * 31 * 31 * 31).wrapping_add((fours >> 32) as i32)
}

/// Java's hash code of text, if it is ASCII.
#[inline(always)]
fn ascii_code(bytes: &[u8]) -> Option<i32> {
    const STEP: i32 = 31i32.wrapping_pow(8);
    const ASCII: u64 = !0x8080_8080_8080_8080;
    // most words: without a branch by length, which the processor would guess wrong
    if let 4..=8 = bytes.len() {
        let word = behind_zeroes(bytes);
        return (word & !ASCII == 0).then_some(code_of_eight(word));
    }
    let (first, rest) = bytes.split_at(bytes.len() % 8);
    let first = behind_zeroes(first);
    let (mut all, mut code) = (first, code_of_eight(first));
    for eight in rest.as_chunks::<8>().0 {
        let eight = u64::from_le_bytes(*eight);
        all |= eight;
        code = code.wrapping_mul(STEP).wrapping_add(code_of_eight(eight));
    }
    (all & !ASCII == 0).then_some(code)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// 64 bits of any byte string, after wyhash's way of folding 16 bytes at a time.
#[inline]
fn mix_bytes(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let (mut a, c) = (C0 ^ n as u64, C1);
    let (x, y) = match n {
        0 => (0, 0),
        1..=3 => (bytes[0] as u64 | (bytes[n / 2] as u64) << 8, bytes[n - 1] as u64),
        // seven and eight are alike often enough that a branch between them would be guessed wrong
        4..=8 => {
            let (first, last) = (half(bytes, 0), half(bytes, n - 4));
            let both = first | last << 32;
            if n == 8 { (both, both) } else { (first, last) }
        }
        9..=16 => (word(bytes, 0), word(bytes, n - 8)),
        _ => {
            let mut at = 0;
            while at + 16 < n {
                a = fold(word(bytes, at) ^ a, word(bytes, at + 8) ^ c);
                at += 16;
            }
            (word(bytes, n - 16), word(bytes, n - 8))
        }
    };
    fold(fold(x ^ a, y ^ c), C2)
}

#[cfg(test)]
mod tests {
    use crate::Key;
    use stillstream_types::KeyGroups;

    #[test]
    fn a_string_of_any_length_has_javas_hash_code() {
        use super::ascii_code;
        let text = "The quick brown fox jumps over the lazy dog \x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f";
        for len in 0..=text.len() {
            for part in [&text[..len], &text[text.len() - len..]] {
                let java = part.bytes().fold(0i32, |code, b| code.wrapping_mul(31).wrapping_add(b as i32));
                assert_eq!(ascii_code(part.as_bytes()), Some(java), "{part:?}");
                let other = format!("{part}\u{e9}");
                assert_eq!(ascii_code(other.as_bytes()), None, "{other:?}");
            }
        }
        // as printed by Java
        assert_eq!(ascii_code(b"hello"), Some(99_162_322));
    }

    #[test]
    fn keys_land_in_flinks_key_groups() {
        let groups = KeyGroups::new(128);
        let group = |hash: stillstream_types::KeyHash| hash.group().0;
        for (key, expected) in [
            (0i32, 94),
            (1, 86),
            (2, 127),
            (-1, 80),
            (42, 29),
            (123456789, 81),
            (i32::MAX, 62),
            (i32::MIN, 108),
        ] {
            assert_eq!(group(key.key_hash(groups)), expected, "{key}");
        }
        for (key, expected) in [(i64::MAX, 108), (-1i64, 94), (4294967296, 86)] {
            assert_eq!(group(key.key_hash(groups)), expected, "{key}");
        }
        for (key, expected) in [
            ("", 94),
            ("a", 81),
            ("hello", 35),
            ("user-1", 121),
            ("user-2", 22),
            ("flink", 98),
            ("\u{e9}", 30),
        ] {
            assert_eq!(group(key.to_string().key_hash(groups)), expected, "{key}");
        }
    }
}
