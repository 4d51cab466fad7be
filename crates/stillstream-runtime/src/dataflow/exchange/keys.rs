//! How the key of a record is found.

use std::fmt;
use std::marker::PhantomData;

use stillstream_state::Key;

/// Finds the key of a record, without a copy where the key is a part of the record.
pub trait KeySelector<T>: Send + Sync + 'static {
    /// The key's type.
    type Key: Key;
    /// Calls `f` with the key of `record`.
    fn with_key<R>(&self, record: &T, f: impl FnOnce(&Self::Key) -> R) -> R;
    /// Asks for the memory that comparing the key of `record` will read beside the record; a hint for keys
    /// that own memory.
    #[inline(always)]
    fn prefetch(&self, record: &T) {
        let _ = record;
    }
    /// The key of `record`, as a value of its own.
    #[inline(always)]
    fn key(&self, record: &T) -> Self::Key {
        self.with_key(record, Clone::clone)
    }
    /// The key of `record`, as a value of its own in `place`, whose memory is used again.
    #[inline(always)]
    fn key_in<'a>(&self, record: &T, place: &'a mut Option<Self::Key>) -> &'a Self::Key {
        self.with_key(record, |key| match place {
            Some(place) => place.clone_from(key),
            None => *place = Some(key.clone()),
        });
        place.get_or_insert_with(|| self.key(record))
    }
}

/// A closure that makes the key: `|flight| flight.carrier.clone()`.
#[derive(Debug, Clone)]
pub struct OwnedKey<F>(pub F);

impl<T, K: Key, F: Fn(&T) -> K + Send + Sync + 'static> KeySelector<T> for OwnedKey<F> {
    type Key = K;
    #[inline(always)]
    fn with_key<R>(&self, record: &T, f: impl FnOnce(&K) -> R) -> R {
        f(&(self.0)(record))
    }
    #[inline(always)]
    fn key(&self, record: &T) -> K {
        (self.0)(record)
    }
    #[inline(always)]
    fn key_in<'a>(&self, record: &T, place: &'a mut Option<K>) -> &'a K {
        place.insert((self.0)(record))
    }
}

/// A closure that points to the key inside the record: `|flight| &flight.carrier`.
pub struct BorrowedKey<F, K>(pub F, PhantomData<fn() -> K>);

impl<F, K> BorrowedKey<F, K> {
    /// Wraps the closure.
    pub fn new(f: F) -> Self {
        Self(f, PhantomData)
    }
}

impl<F, K> fmt::Debug for BorrowedKey<F, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BorrowedKey")
    }
}

impl<T, K: Key, F: Fn(&T) -> &K + Send + Sync + 'static> KeySelector<T> for BorrowedKey<F, K> {
    type Key = K;
    #[inline(always)]
    fn with_key<R>(&self, record: &T, f: impl FnOnce(&K) -> R) -> R {
        f((self.0)(record))
    }
    #[inline(always)]
    fn prefetch(&self, record: &T) {
        (self.0)(record).prefetch();
    }
}
