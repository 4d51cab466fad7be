//! [`Leaf`]: some timers side by side, sorted but for the latest changes.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::Arc;

use stillstream_data::{Data, Key};
use stillstream_state::Timer;

use super::{Place, Placed};

/// Timers in a leaf before it is split: large, so that there are few leaves to find one's way in, and small
/// enough to be copied in some microseconds after a freeze.
pub(super) const LEAF: usize = 1024;
/// A log of fewer changes is not sorted in just because it has come to half of its leaf.
const SHORT_LOG: usize = 64;
/// Up to so many changes are carried out one by one: less work than a merge of the whole leaf.
const FEW: usize = 8;

/// A timer that was registered, or deleted.
#[derive(Clone, Debug)]
pub(super) struct Change<K, N> {
    pub timer: Timer<K, N>,
    pub deleted: bool,
}

/// The timers between two places.
#[derive(Debug)]
pub(super) struct Leaf<K, N> {
    /// Shared with images, and copied at its first change after a freeze.
    sorted: Arc<VecDeque<Timer<K, N>>>,
    /// What has been registered and deleted since the timers were sorted, up to the latest freeze: a part for
    /// each freeze.
    sealed: Vec<Arc<Vec<Change<K, N>>>>,
    /// The same since the latest freeze.
    log: Vec<Change<K, N>>,
    noted: usize,
}

impl<K: Key, N: Data + Ord + Copy> Leaf<K, N> {
    pub fn new(sorted: VecDeque<Timer<K, N>>) -> Self {
        Self { sorted: Arc::new(sorted), sealed: Vec::new(), log: Vec::new(), noted: 0 }
    }

    /// Notes a change, and says whether it is time to [`settle`](Self::settle).
    #[inline]
    pub fn note(&mut self, timer: Timer<K, N>, deleted: bool) -> bool {
        self.log.push(Change { timer, deleted });
        self.noted += 1;
        self.noted >= SHORT_LOG.max(self.sorted.len() / 2)
    }

    /// Changes that are not sorted in yet.
    #[inline]
    pub fn noted(&self) -> usize {
        self.noted
    }

    /// The leaf as it is now, for an image: what is there is shared, later changes are noted apart.
    pub fn freeze(&mut self) -> Self {
        if !self.log.is_empty() {
            self.sealed.push(Arc::new(std::mem::take(&mut self.log)));
        }
        self.again()
    }

    /// The same image again.
    pub fn again(&self) -> Self {
        debug_assert!(self.log.is_empty());
        Self { sorted: self.sorted.clone(), sealed: self.sealed.clone(), log: Vec::new(), noted: self.noted }
    }

    #[cfg(test)]
    pub fn shares_timers_with(&self, image: &Self) -> bool {
        Arc::ptr_eq(&self.sorted, &image.sorted)
    }

    /// All changes that are not sorted in, in the order in which they came.
    fn changes(&self) -> impl DoubleEndedIterator<Item = &Change<K, N>> {
        self.sealed.iter().flat_map(|part| part.iter()).chain(&self.log)
    }

    /// About all timers, and in no order: those that were deleted or registered again come too.
    pub fn timers(&self) -> impl Iterator<Item = &Timer<K, N>> {
        self.sorted.iter().chain(self.changes().map(|change| &change.timer))
    }

    pub fn memory_bytes(&self) -> usize {
        let sealed: usize = self.sealed.iter().map(|part| part.capacity()).sum();
        self.sorted.capacity() * size_of::<Timer<K, N>>()
            + (sealed + self.log.capacity()) * size_of::<Change<K, N>>()
    }

    /// Whether the timer is there. The log is looked through from end to start.
    pub fn contains(&self, place: &Place<N>, key: &K) -> bool {
        let is_it = |change: &&Change<K, N>| change.timer.place() == *place && change.timer.key == *key;
        match self.changes().rev().find(is_it) {
            Some(latest) => !latest.deleted,
            None => find(&self.sorted, place, key).is_ok(),
        }
    }

    /// Sorts all changes in. An amount of work that grows with the leaf, for a log that grows with it.
    /// `spare` is memory that is used and given back, for the next leaf.
    pub fn settle(&mut self, spare: &mut Vec<Timer<K, N>>) {
        if self.noted == 0 {
            return;
        }
        if !self.sealed.is_empty() {
            let mut log = Vec::with_capacity(self.noted);
            for part in self.sealed.drain(..) {
                match Arc::try_unwrap(part) {
                    Ok(own) => log.extend(own),
                    Err(shared) => log.extend_from_slice(&shared),
                }
            }
            log.append(&mut self.log);
            self.log = log;
        }
        self.noted = 0;
        if self.log.len() <= FEW {
            let sorted = Arc::make_mut(&mut self.sorted);
            self.log.drain(..).for_each(|change| carry_out(sorted, change));
            return;
        }
        spare.reserve(self.sorted.len() + self.log.len());
        let merged = std::mem::take(spare);
        match Arc::get_mut(&mut self.sorted) {
            Some(own) => {
                let merged = merged_into(merged, own.drain(..), &mut self.log);
                *spare = std::mem::replace(own, merged.into()).into();
            }
            None => {
                self.sorted = Arc::new(merged_into(merged, self.sorted.iter().cloned(), &mut self.log).into())
            }
        }
    }

    /// The timers, ascending, with all changes sorted in; those of an image are not copied if there are no
    /// changes.
    pub fn into_sorted(mut self) -> Arc<VecDeque<Timer<K, N>>> {
        self.settle(&mut Vec::new());
        self.sorted
    }

    // what follows is for leaves without a log

    pub fn len(&self) -> usize {
        debug_assert!(self.noted == 0);
        self.sorted.len()
    }

    pub fn first(&self) -> Option<&Timer<K, N>> {
        debug_assert!(self.noted == 0);
        self.sorted.front()
    }

    pub fn pop(&mut self) -> Option<Timer<K, N>> {
        debug_assert!(self.noted == 0);
        Arc::make_mut(&mut self.sorted).pop_front()
    }

    /// Takes the timers for which `due` is true, at most so many; they come first.
    pub fn take(
        &mut self,
        due: impl FnMut(&Timer<K, N>) -> bool,
        most: usize,
        out: &mut Vec<Timer<K, N>>,
    ) -> usize {
        debug_assert!(self.noted == 0);
        let n = self.sorted.partition_point(due).min(most);
        match Arc::get_mut(&mut self.sorted) {
            Some(own) => out.extend(own.drain(..n)),
            None => {
                out.extend(self.sorted.range(..n).cloned());
                self.sorted = Arc::new(self.sorted.range(n..).cloned().collect());
            }
        }
        n
    }

    /// The leaves that a too large one becomes, each with its first place. Timers of one place stay together,
    /// or nobody could find them: a leaf of only such timers grows.
    pub fn split(self, spare: &mut Vec<Timer<K, N>>) -> Vec<(Place<N>, Self)> {
        debug_assert!(self.noted == 0);
        let mut timers = Arc::unwrap_or_clone(self.sorted);
        let each = timers.len().div_ceil((timers.len() / (LEAF / 2)).max(1));
        let (mut parts, mut part) = (Vec::new(), VecDeque::<Timer<K, N>>::with_capacity(each));
        for timer in timers.drain(..) {
            if part.len() >= each && part.back().is_some_and(|last| last.place() != timer.place()) {
                parts.push(std::mem::replace(&mut part, VecDeque::with_capacity(each)));
            }
            part.push_back(timer);
        }
        parts.push(part);
        *spare = timers.into();
        let with_place = |part: VecDeque<Timer<K, N>>| Some((part.front()?.place(), Self::new(part)));
        parts.into_iter().filter_map(with_place).collect()
    }
}

/// Where a timer is, or where it would go.
fn find<K: Key, N: Data + Ord + Copy>(
    sorted: &VecDeque<Timer<K, N>>,
    place: &Place<N>,
    key: &K,
) -> Result<usize, usize> {
    let mut at = sorted.partition_point(|timer| timer.place() < *place);
    // keys of equal hash lie side by side, in the order in which they came
    while let Some(timer) = sorted.get(at) {
        match timer.place().cmp(place) {
            Ordering::Equal if timer.key == *key => return Ok(at),
            Ordering::Equal => at += 1,
            _ => break,
        }
    }
    Err(at)
}

fn carry_out<K: Key, N: Data + Ord + Copy>(sorted: &mut VecDeque<Timer<K, N>>, change: Change<K, N>) {
    let timer = change.timer;
    match (find(sorted, &timer.place(), &timer.key), change.deleted) {
        (Ok(at), true) => drop(sorted.remove(at)),
        (Err(at), false) => sorted.insert(at, timer),
        _ => {}
    }
}

/// Sorted timers with the changes of a log, in the memory of `all`, which is empty. The log is empty
/// afterwards.
fn merged_into<K: Key, N: Data + Ord + Copy>(
    mut all: Vec<Timer<K, N>>,
    sorted: impl Iterator<Item = Timer<K, N>>,
    log: &mut Vec<Change<K, N>>,
) -> Vec<Timer<K, N>> {
    // changes of one timer stay in their order
    log.sort_by_key(|change| change.timer.place());
    let mut sorted: Peekable<_> = sorted.peekable();
    let mut changes = log.drain(..).peekable();
    while let Some(place) = changes.peek().map(|change| change.timer.place()) {
        while let Some(timer) = sorted.next_if(|timer| timer.place() < place) {
            all.push(timer);
        }
        // the timers of this place: nearly always one
        let from = all.len();
        while let Some(timer) = sorted.next_if(|timer| timer.place() == place) {
            all.push(timer);
        }
        while let Some(change) = changes.next_if(|change| change.timer.place() == place) {
            let at = all[from..].iter().position(|timer| timer.key == change.timer.key);
            match (at, change.deleted) {
                (Some(at), true) => drop(all.remove(from + at)),
                (None, false) => all.push(change.timer),
                _ => {}
            }
        }
    }
    all.extend(sorted);
    all
}
