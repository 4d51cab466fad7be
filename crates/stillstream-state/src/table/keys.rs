//! How a batch hands its keys to the table.

/// The keys of a batch of records, by the number of the record.
///
/// The key is lent to a closure, so that it may lie inside a record, be computed on the spot, or come from a slice, and
/// the table clones it only when it inserts it. Everything inlines; nothing is allocated per record.
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
