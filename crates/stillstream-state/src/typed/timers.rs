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

    /// Registers a timer, and says whether it is new.
    #[inline]
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

    /// Takes the first timer that is due at `up_to` or before: by time, then key group, then key.
    pub fn pop_due(&self, up_to: Timestamp) -> Result<Option<Timer<K, N>>, StateError> {
        on!(Over, &self.0; heap => Ok(heap.pop_due(up_to)); rocks => rocks.pop_due(up_to))
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
