//! How a batch hands its keys to the table, and how keys are compared.

use std::any::{Any, TypeId};

/// The keys of a batch of records, by the number of the record.
///
/// The key is lent to a closure, so that it may lie inside a record, be computed on the spot, or come from a
/// slice, and the table clones it only when it inserts it. Everything inlines; nothing is allocated per
/// record.
pub trait KeyAt<K> {
    /// Calls `f` with the key of record `i`.
    fn with<R>(&self, i: usize, f: impl FnOnce(&K) -> R) -> R;
}

impl<K> KeyAt<K> for [K] {
    #[inline(always)]
    fn with<R>(&self, i: usize, f: impl FnOnce(&K) -> R) -> R {
        f(&self[i])
    }
}

impl<K> KeyAt<K> for Vec<K> {
    #[inline(always)]
    fn with<R>(&self, i: usize, f: impl FnOnce(&K) -> R) -> R {
        f(&self[i])
    }
}

/// Keys that are computed: a closure from the record's number (say so: `|i: usize|`) to an owned key.
#[derive(Clone, Copy, Debug)]
pub struct KeysBy<F>(pub F);

impl<K, F: Fn(usize) -> K> KeyAt<K> for KeysBy<F> {
    #[inline(always)]
    fn with<R>(&self, i: usize, f: impl FnOnce(&K) -> R) -> R {
        f(&(self.0)(i))
    }
}

/// Keys that lie in the records: a closure from the record's number (say so: `|i: usize|`) to a borrowed key.
#[derive(Clone, Copy, Debug)]
pub struct KeysIn<F>(pub F);

impl<'a, K: 'a, F: Fn(usize) -> &'a K> KeyAt<K> for KeysIn<F> {
    #[inline(always)]
    fn with<R>(&self, i: usize, f: impl FnOnce(&K) -> R) -> R {
        f((self.0)(i))
    }
}

/// Whether keys are strings.
#[inline(always)]
pub(super) fn is_text<K: 'static>() -> bool {
    TypeId::of::<K>() == TypeId::of::<String>()
}

/// The key, if it is a string: known when compiled.
#[inline(always)]
pub(super) fn as_text<K: 'static>(key: &K) -> Option<&str> {
    (key as &dyn Any).downcast_ref::<String>().map(String::as_str)
}

/// Whether two keys are equal.
///
/// Most strings are short, and a call of `memcmp` takes longer than comparing them.
#[inline(always)]
pub(super) fn same<K: Eq + 'static>(a: &K, b: &K) -> bool {
    match (as_text(a), as_text(b)) {
        (Some(a), Some(b)) => same_bytes(a.as_bytes(), b.as_bytes()),
        _ => a == b,
    }
}

#[inline(always)]
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    /// The bits in which the `N` bytes at a place differ: of the first and of the last `N`.
    #[inline(always)]
    fn differ<const N: usize>(a: &[u8], b: &[u8], word: impl Fn([u8; N]) -> u64) -> Option<u64> {
        let first = word(*a.first_chunk()?) ^ word(*b.first_chunk()?);
        let last = word(*a.last_chunk()?) ^ word(*b.last_chunk()?);
        Some(first | last)
    }
    if a.len() != b.len() {
        return false;
    }
    let differ = match a.len() {
        4..=8 => differ(a, b, |bytes: [u8; 4]| u64::from(u32::from_ne_bytes(bytes))),
        9..=16 => differ(a, b, u64::from_ne_bytes),
        _ => None,
    };
    differ.map_or_else(|| a == b, |differ| differ == 0)
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn texts_of_any_length_are_equal_if_no_byte_differs() {
        for len in 0..40 {
            let text = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"[..len].to_string();
            assert!(same(&text, &text.clone()), "{text}");
            assert!(!same(&text, &format!("{text}x")), "{text}");
            for at in 0..len {
                let mut other = text.clone().into_bytes();
                other[at] ^= 1;
                assert!(!same(&text, &String::from_utf8(other).unwrap()), "{text} {at}");
            }
        }
        assert!(same(&7u64, &7) && !same(&7u64, &8));
    }
}
