//! [`InOrder`]: records that own memory, each used once and in order.

use std::cell::RefCell;
use std::vec::IntoIter;

use stillstream_runtime::exchange::KeySelector;
use stillstream_state::table::{AHEAD, KeyAt};

/// Records that are taken out first to last, while the keys of those that are still there can be looked at.
///
/// What a key owns was written by another worker, so it is asked for some records ahead.
pub(crate) struct InOrder<'a, T, S> {
    rest: RefCell<IntoIter<T>>,
    len: usize,
    selector: &'a S,
}

impl<'a, T, S> InOrder<'a, T, S> {
    pub fn new(records: Vec<T>, selector: &'a S) -> Self {
        let len = records.len();
        Self { rest: RefCell::new(records.into_iter()), len, selector }
    }

    /// Takes the next record.
    #[inline(always)]
    pub fn take(&self) -> Option<T> {
        self.rest.borrow_mut().next()
    }
}

impl<T, S: KeySelector<T>> KeyAt<S::Key> for InOrder<'_, T, S> {
    #[inline(always)]
    fn with<R>(&self, i: usize, f: impl FnOnce(&S::Key) -> R) -> R {
        let rest = self.rest.borrow();
        let rest = rest.as_slice();
        // a state asks for a record's key before the record is taken
        let at = i + rest.len() - self.len;
        if let Some(later) = rest.get(at + AHEAD) {
            self.selector.prefetch(later);
        }
        self.selector.with_key(&rest[at], f)
    }
}
