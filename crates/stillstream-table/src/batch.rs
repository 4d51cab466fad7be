//! Updates of a batch of records: the memory of later ones is asked for while the present one is updated.

use stillstream_types::KeyHash;

use super::keys::KeyAt;
use super::layout::Form;
use super::pool::PAGE_BYTES;
use super::{Table, TableKey, TableValue};

/// Records ahead of the present one for which memory is asked.
pub const AHEAD: usize = 16;

/// Up to so many bytes a table is taken to be in the cache: asking for memory ahead would only cost
/// instructions there.
const IN_CACHE: usize = 256 << 10;

impl<K: TableKey, V: TableValue> Table<K, V> {
    /// Updates the values of a batch of records, in order, loading memory ahead.
    ///
    /// Record `i` has hash `hashes[i]` and the key that `keys` gives for `i`. A new key gets `init()`; then
    /// `f(i, value)`, when the key is not looked at any more: it may lie in a record that `f` takes. Batches
    /// of some hundred records or more hide most of the waiting for memory.
    #[inline(always)]
    pub fn update_batch(
        &mut self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        init: impl FnMut() -> V,
        f: impl FnMut(usize, &mut V),
    ) {
        match self.is_in_cache() {
            true => self.update_each::<false>(hashes, keys, init, f),
            false => self.update_each::<true>(hashes, keys, init, f),
        }
    }

    fn is_in_cache(&self) -> bool {
        self.pages * PAGE_BYTES + Form::<K, V>::BOXED_BYTES * self.len <= IN_CACHE
    }

    /// Asks for the memory that later look-ups of a batch will read. Call it before record `at` is processed,
    /// for each `at` that is a multiple of [`AHEAD`]: it works on the groups after that of `at`, for the
    /// first one on that too.
    pub fn prefetch_group(&self, hashes: &[KeyHash], at: usize) {
        if self.is_in_cache() {
            return;
        }
        let (view, rounds) = (self.view(), Form::<K, V>::rounds());
        for round in 0..rounds {
            let ahead = (rounds - round) * AHEAD;
            let from = if at == 0 { 0 } else { at + ahead };
            for &hash in hashes.iter().take(at + ahead + AHEAD).skip(from) {
                view.prefetch::<K, V>(round, hash);
            }
        }
    }

    #[inline(always)]
    fn update_each<const PREFETCH: bool>(
        &mut self,
        hashes: &[KeyHash],
        keys: &(impl KeyAt<K> + ?Sized),
        mut init: impl FnMut() -> V,
        mut f: impl FnMut(usize, &mut V),
    ) {
        let rounds = if PREFETCH { Form::<K, V>::rounds() } else { 0 };
        let ahead = |round: usize| (rounds - round) * AHEAD;
        // a copy for each record: what a closure may write lies in memory, and not in registers
        let mut view = self.view();
        for round in 0..rounds {
            for &hash in hashes.iter().take(ahead(round)) {
                view.prefetch::<K, V>(round, hash);
            }
        }
        for (i, &hash) in hashes.iter().enumerate() {
            for round in 0..rounds {
                if let Some(&later) = hashes.get(i + ahead(round)) {
                    view.prefetch::<K, V>(round, later);
                }
            }
            let (place, tag, entry) = view.locate::<K, V>(hash);
            let (value, moved) = keys.with(i, |key| {
                // SAFETY: only `&mut self` writes the table's pages
                let found = unsafe { Form::<K, V>::find(entry.page(), tag, key) };
                match found {
                    Ok(spot) if entry.is_own() => {
                        // SAFETY: the slot is taken, and own pages may be written
                        (unsafe { Form::<K, V>::value_mut(entry.page(), spot) }, false)
                    }
                    _ => (std::ptr::from_mut(self.get_or_insert_at(place, tag, key, &mut init)), true),
                }
            });
            if moved {
                view = self.view();
            }
            // SAFETY: the value lies in own memory, and the table is not touched before the next record
            f(i, unsafe { &mut *value });
        }
    }
}
