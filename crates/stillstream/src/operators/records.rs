//! [`Records`]: a batch's records while they are added to state by key.

use std::cell::RefCell;

use stillstream_runtime::exchange::KeySelector;
use stillstream_state::Data;
use stillstream_state::table::KeyAt;

/// Records that can be taken out one by one while their keys are looked at.
///
/// A record that owns nothing is copied, any other moved out. Keys are borrowed from records that are still
/// there.
pub(crate) enum Records<T> {
    Copied(Vec<T>),
    Moved(RefCell<Vec<Option<T>>>),
}

impl<T: Data> Records<T> {
    pub fn new(values: Vec<T>) -> Self {
        match std::mem::needs_drop::<T>() {
            false => Self::Copied(values),
            true => Self::Moved(RefCell::new(values.into_iter().map(Some).collect())),
        }
    }

    /// A copy of record `i`, or the record itself if this is its `last` use; `None` if it was used up.
    #[inline(always)]
    pub fn take(&self, i: usize, last: bool) -> Option<T> {
        match self {
            Self::Copied(values) => values.get(i).cloned(),
            Self::Moved(values) if last => values.borrow_mut().get_mut(i).and_then(Option::take),
            Self::Moved(values) => values.borrow().get(i).and_then(Clone::clone),
        }
    }

    /// The key of record `i`; `None` if it was used up.
    pub fn key<S: KeySelector<T>>(&self, selector: &S, i: usize) -> Option<S::Key> {
        match self {
            Self::Copied(values) => values.get(i).map(|value| selector.key(value)),
            Self::Moved(values) => values.borrow().get(i)?.as_ref().map(|value| selector.key(value)),
        }
    }
}

/// The keys of some records: of all, or of those that `chosen` names.
pub(crate) struct Keys<'a, T, S> {
    pub records: &'a Records<T>,
    pub selector: &'a S,
    pub chosen: Option<&'a [u32]>,
}

impl<T, S> Keys<'_, T, S> {
    #[inline(always)]
    pub fn at(&self, i: usize) -> usize {
        self.chosen.map_or(i, |chosen| chosen[i] as usize)
    }
}

impl<T: Data, S: KeySelector<T>> KeyAt<S::Key> for Keys<'_, T, S> {
    #[inline(always)]
    fn with<R>(&self, i: usize, f: impl FnOnce(&S::Key) -> R) -> R {
        let i = self.at(i);
        match self.records {
            Records::Copied(values) => self.selector.with_key(&values[i], f),
            Records::Moved(values) => match &values.borrow()[i] {
                Some(value) => self.selector.with_key(value, f),
                // the table asks for a record's key before the record is added, and windows are filled in the
                // order in which the last one of each record comes last
                None => unreachable!("the key of a record is asked for after its last use"),
            },
        }
    }
}

/// The keys of records that stay where they are.
pub(crate) struct KeysOf<'a, T, S> {
    pub records: &'a [T],
    pub selector: &'a S,
}

impl<T, S: KeySelector<T>> KeyAt<S::Key> for KeysOf<'_, T, S> {
    #[inline(always)]
    fn with<R>(&self, i: usize, f: impl FnOnce(&S::Key) -> R) -> R {
        self.selector.with_key(&self.records[i], f)
    }
}
