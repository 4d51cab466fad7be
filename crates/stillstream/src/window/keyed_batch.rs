//! [`KeyedBatch`]: the columns of a batch that a window operator works on.

use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::{AnyBatch, Batch};
use stillstream_state::Data;
use stillstream_types::{Error, ErrorKind, KeyHash, Result};

/// Records with their times, keys and hashes. Keys are made once: records are given away while keys are still needed.
pub(crate) struct KeyedBatch<T, K> {
    pub values: Vec<T>,
    pub times: Vec<i64>,
    pub hashes: Vec<KeyHash>,
    pub keys: Vec<K>,
}

impl<T: Data, K> KeyedBatch<T, K> {
    /// Takes a batch apart; `keys` is a vector to use again.
    pub fn take<S: KeySelector<T, Key = K>>(batch: AnyBatch, selector: &S, mut keys: Vec<K>) -> Result<Self> {
        let Batch { values, times, hashes } = batch.take::<T>()?;
        if hashes.len() != values.len() {
            return Err(Error::new(ErrorKind::Plan, "a window got records without key hashes"));
        }
        if times.len() != values.len() {
            return Err(Error::new(
                ErrorKind::Plan,
                "a window of event time got records without a time: add \
                 `.watermarks(WatermarkStrategy::bounded_out_of_orderness(..).timestamp(|record| ..))` to the stream \
                 before its `key_by`",
            ));
        }
        keys.clear();
        keys.extend(values.iter().map(|record| selector.key(record)));
        Ok(Self { values, times, hashes, keys })
    }
}

/// The numbers in `candidates`, less those whose key came before; `candidates` is used up.
pub(crate) fn distinct_keys<K: Eq>(candidates: &mut Vec<u32>, hashes: &[KeyHash], keys: &[K]) {
    candidates.sort_unstable_by_key(|i| (hashes[*i as usize], *i));
    let mut kept: usize = 0;
    for at in 0..candidates.len() {
        let i = candidates[at] as usize;
        let same_hash = candidates[..kept].iter().rev().take_while(|k| hashes[**k as usize] == hashes[i]);
        if !same_hash.into_iter().any(|k| keys[*k as usize] == keys[i]) {
            candidates[kept] = i as u32;
            kept += 1;
        }
    }
    candidates.truncate(kept);
    candidates.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_hash_are_told_apart() {
        let hashes = [KeyHash(7), KeyHash(7), KeyHash(3), KeyHash(7), KeyHash(7)];
        let mut candidates = vec![4, 3, 2, 1, 0];
        distinct_keys(&mut candidates, &hashes, &["a", "b", "c", "a", "b"]);
        assert_eq!(candidates, [0, 1, 2]);
    }
}
