//! The records that the scenarios work on.

/// Sebastiano Vigna's `splitmix64`: a well-mixed number for each index.
#[inline(always)]
pub fn splitmix64(index: u64) -> u64 {
    let x = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The record with this index: a key and a small value.
///
/// The first `keys` records have each key once, so that all of them are there when measuring begins; later
/// ones have uniformly distributed keys.
#[inline(always)]
pub fn keyed(seq: u64, keys: u64) -> (u64, u64) {
    let key = if seq < keys { seq } else { (splitmix64(seq) >> 1) % keys };
    (key, seq & 0xff)
}

/// How many records go by before measuring begins: each key once, and some for caches and branch predictors.
pub fn warm_up(keys: u64) -> u64 {
    keys + keys / 10 + 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_numbers() {
        // the first outputs of the reference implementation for seed 0; its state after n steps is n times
        // the constant
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let outputs = [0, 1, 2].map(|n| splitmix64(step.wrapping_mul(n)));
        assert_eq!(outputs, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn each_key_comes_once_before_any_comes_again() {
        assert!((0..100).all(|seq| keyed(seq, 100).0 == seq));
        assert!((100..10_000).all(|seq| keyed(seq, 100).0 < 100));
    }
}
