//! [`Timers`]: timers as keyed state.

use std::rc::Rc;

use stillstream_types::{KeyHash, Timestamp};

use super::on;
use crate::StateError;
use crate::data::{Data, Key};
use crate::heap::{Timer, TimerQueue};
#[cfg(feature = "rocksdb")]
use crate::rocksdb::RocksTimers;

#[derive(Debug)]
enum Over<K, N> {
    Heap(Rc<TimerQueue<K, N>>),
    #[cfg(feature = "rocksdb")]
    RocksDb(Rc<RocksTimers<K, N>>),
}

/// The timers of one timer service, of one clock. Each timer is one per key, namespace and time.
///
/// ```
/// use stillstream_state::{BackendOptions, Key, KeyedStateBackend, TimeDomain};
/// use stillstream_types::{KeyGroups, Timestamp};
///
/// let groups = KeyGroups::new(128);
/// let mut backend = KeyedStateBackend::<u64>::heap(BackendOptions::new(groups, groups.all()));
/// let timers = backend.timers::<()>("sessions", TimeDomain::EventTime)?;
/// let (key, at) = (7, Timestamp::from_millis(1000));
/// assert!(timers.register(at, key.key_hash(groups), &key, ())?);
/// assert!(!timers.register(at, key.key_hash(groups), &key, ())?); // there already
///
/// assert_eq!(timers.pop_due(Timestamp::from_millis(999))?, None);
/// assert_eq!(timers.pop_due(at)?.map(|timer| timer.key), Some(7));
/// # Ok::<(), stillstream_state::StateError>(())
/// ```
///
/// # Errors
/// Timers in RocksDB fail as its other states do; those in memory never do.
#[derive(Debug)]
pub struct Timers<K, N>(Over<K, N>);

impl<K, N> Clone for Timers<K, N> {
    fn clone(&self) -> Self {
        Self(on!(Over, &self.0; heap => Over::Heap(heap.clone()); rocks => Over::RocksDb(rocks.clone())))
    }
}

impl<K: Key, N: Data + Ord + Copy> Timers<K, N> {
    pub(crate) fn over_heap(timers: Rc<TimerQueue<K, N>>) -> Self {
        Self(Over::Heap(timers))
    }

    #[cfg(feature = "rocksdb")]
    pub(crate) fn over_rocksdb(timers: Rc<RocksTimers<K, N>>) -> Self {
        Self(Over::RocksDb(timers))
    }

    /// Registers a timer, and says whether it is new. [`set`](Self::set) is quicker.
    pub fn register(
        &self,
        time: Timestamp,
        hash: KeyHash,
        key: &K,
        namespace: N,
    ) -> Result<bool, StateError> {
        on!(Over, &self.0;
            heap => Ok(heap.register(time, hash, key, namespace));
            rocks => rocks.register(time, hash, key, namespace))
    }

    /// Deletes a timer, and says whether it was there.
    pub fn delete(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError> {
        on!(Over, &self.0;
            heap => Ok(heap.delete(time, hash, key, namespace));
            rocks => rocks.delete(time, hash, key, namespace))
    }

    /// Registers a timer. In memory it is not looked whether it is there already, so that it costs little; there is one such
    /// timer all the same.
    #[inline]
    pub fn set(&self, timer: Timer<K, N>) -> Result<(), StateError> {
        self.set_all([timer])
    }

    /// Registers timers, as [`set`](Self::set) does.
    #[inline]
    pub fn set_all(&self, timers: impl IntoIterator<Item = Timer<K, N>>) -> Result<(), StateError> {
        on!(Over, &self.0;
        heap => {
            heap.set_all(timers.into_iter());
            Ok(())
        };
        rocks => {
            let mut timers = timers.into_iter();
            timers.try_for_each(|t| rocks.register(t.time, t.hash, &t.key, t.namespace).map(drop))
        })
    }

    /// Deletes a timer if it is there. Costs as little as [`set`](Self::set).
    #[inline]
    pub fn unset(&self, timer: Timer<K, N>) -> Result<(), StateError> {
        on!(Over, &self.0;
            heap => {
                heap.unset(timer);
                Ok(())
            };
            rocks => rocks.delete(timer.time, timer.hash, &timer.key, timer.namespace).map(drop))
    }

    /// Takes the first timer that is due at `up_to` or before: by time, then key group, then key.
    pub fn pop_due(&self, up_to: Timestamp) -> Result<Option<Timer<K, N>>, StateError> {
        on!(Over, &self.0; heap => Ok(heap.pop_due(up_to)); rocks => rocks.pop_due(up_to))
    }

    /// Takes the first timers that are due at `up_to` or before, at most so many, and appends them to `out` in the order of
    /// [`pop_due`](Self::pop_due).
    pub fn pop_all_due(
        &self,
        up_to: Timestamp,
        most: usize,
        out: &mut Vec<Timer<K, N>>,
    ) -> Result<(), StateError> {
        on!(Over, &self.0;
        heap => {
            heap.pop_all_due(up_to, most, out);
            Ok(())
        };
        rocks => {
            for _ in 0..most {
                let Some(timer) = rocks.pop_due(up_to)? else { break };
                out.push(timer);
            }
            Ok(())
        })
    }

    /// When the first timer is due.
    pub fn peek_next_time(&self) -> Option<Timestamp> {
        on!(Over, &self.0; heap => heap.peek_next_time(); rocks => rocks.peek_next_time())
    }

    /// How many timers there are. RocksDB counts them the first time after a restore.
    pub fn len(&self) -> Result<usize, StateError> {
        on!(Over, &self.0; heap => Ok(heap.len()); rocks => rocks.len())
    }

    /// Whether there is no timer.
    pub fn is_empty(&self) -> bool {
        self.peek_next_time().is_none()
    }
}
