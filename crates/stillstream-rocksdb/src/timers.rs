//! Timers: ordered in the database by key group and time, the next few of each key group in memory too.
//!
//! Of each key group a *head* is held: its first timers, without a gap. So what is due is found in memory, a
//! timer that lies before the end of its head is known to be there or not without a read, and the database is
//! only read when a head runs out. Reading goes on behind the last timer that was in the head: what was
//! removed before it is not passed again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use stillstream_data::Key;
use stillstream_state::StateError;
use stillstream_state::Timer;
use stillstream_state::backend::{Namespace, TimerService};
use stillstream_types::{KeyGroup, KeyGroupRange, KeyHash, Timestamp};

use crate::db::{Family, Scan};
use crate::layout::Layout;
use crate::state::{RocksState, left_over, unreadable};

/// When a key group's first timer is due; the hash tells the group.
type Due = (Timestamp, KeyHash);

#[derive(Debug)]
struct Head<K, N> {
    /// By the timers' keys in the database.
    timers: BTreeMap<Vec<u8>, Timer<K, N>>,
    /// Whether the database holds no timer of the group that is not here.
    complete: bool,
    /// Under which the group stands in [`Queue::due`].
    due: Option<Due>,
}

impl<K, N> Head<K, N> {
    /// Whether the head knows if a timer with this key is there.
    fn covers(&self, key: &[u8]) -> bool {
        self.complete || self.timers.last_key_value().is_some_and(|(last, _)| key <= last.as_slice())
    }
}

#[derive(Debug)]
struct Queue<K, N> {
    heads: BTreeMap<KeyGroup, Head<K, N>>,
    due: BTreeSet<Due>,
    scratch: Vec<u8>,
}

/// The timers of one service and clock.
#[derive(Debug)]
pub(crate) struct TimerTable<K, N> {
    family: Family,
    layout: Layout,
    /// Timers that a head is filled with.
    head_len: usize,
    queue: RefCell<Queue<K, N>>,
    /// How many timers there are, once somebody has asked.
    len: Cell<Option<usize>>,
}

impl<K: Key, N: Namespace> RocksState for TimerTable<K, N> {
    fn reload(&self) -> Result<(), StateError> {
        let queue = &mut *self.queue.borrow_mut();
        (queue.heads, queue.due) = Default::default();
        self.len.set(None);
        // one walk over the groups that have timers, however many groups there are
        let mut scan = self.family.scan(&[]);
        while let Some((key, _)) = scan.entry()? {
            let (group, _) = self.layout.split(key).map_err(unreadable(&self.family))?;
            let mut head = Head { timers: BTreeMap::new(), complete: false, due: None };
            self.fill_from(&mut scan, group, &mut head)?;
            if !head.complete {
                let mut next = Vec::new();
                self.layout.begin(KeyGroup(group.0 + 1), &mut next);
                scan.seek(&next);
            }
            show(&mut head, &mut queue.due);
            queue.heads.insert(group, head);
        }
        Ok(())
    }

    fn known_len(&self) -> Option<usize> {
        self.len.get()
    }
}

/// Keeps a group's place in the order of what is due.
fn show<K, N>(head: &mut Head<K, N>, due: &mut BTreeSet<Due>) {
    let first = head.timers.first_key_value().map(|(_, timer)| (timer.time, timer.hash));
    if first != head.due {
        if let Some(before) = head.due {
            due.remove(&before);
        }
        due.extend(first);
        head.due = first;
    }
}

impl<K: Key, N: Namespace> TimerTable<K, N> {
    /// Timers of an empty column family; [`reload`](RocksState::reload) looks at one that is not.
    pub fn new(family: Family, layout: Layout) -> Self {
        let head_len = family.database().tuning.options.timer_cache.max(1);
        let queue = Queue { heads: BTreeMap::new(), due: BTreeSet::new(), scratch: Vec::new() };
        Self { family, layout, head_len, queue: RefCell::new(queue), len: Cell::new(Some(0)) }
    }

    /// Reads the next timers of a group, from the key `from` on.
    fn fill(&self, group: KeyGroup, head: &mut Head<K, N>, from: &[u8]) -> Result<(), StateError> {
        let (_, end) = self.layout.bounds(KeyGroupRange::new(group.0, group.0 + 1));
        let mut scan = self.family.scan_between(from, end);
        self.fill_from(&mut scan, group, head)
    }

    /// Reads the next timers of a group from where the scan is.
    fn fill_from(&self, scan: &mut Scan, group: KeyGroup, head: &mut Head<K, N>) -> Result<(), StateError> {
        while let Some((key, _)) = scan.entry()? {
            if self.layout.split(key).map_err(unreadable(&self.family))?.0 != group {
                break;
            }
            if head.timers.len() >= self.head_len {
                return Ok(());
            }
            let read = || {
                let (time, hash, mut rest) = self.layout.split_timer(key)?;
                let typed = K::decode(&mut rest)?;
                let namespace = N::decode(&mut rest)?;
                match rest.is_empty() {
                    true => Ok(Timer { time, hash, key: typed, namespace }),
                    false => Err(left_over(rest)),
                }
            };
            head.timers.insert(key.to_vec(), read().map_err(unreadable(&self.family))?);
            scan.next();
        }
        head.complete = true;
        Ok(())
    }

    fn count(&self, change: isize) {
        self.len.set(self.len.get().map(|len| len.saturating_add_signed(change)));
    }

    pub fn register(
        &self,
        time: Timestamp,
        hash: KeyHash,
        key: &K,
        namespace: N,
    ) -> Result<bool, StateError> {
        let queue = &mut *self.queue.borrow_mut();
        self.layout.timer(time, hash, key, &namespace, &mut queue.scratch);
        let bytes = &queue.scratch;
        let head = queue.heads.entry(hash.group()).or_insert_with(|| Head {
            timers: BTreeMap::new(),
            complete: true,
            due: None,
        });
        let covered = head.covers(bytes);
        let there = match covered {
            true => head.timers.contains_key(bytes),
            false => self.family.get(bytes)?.is_some(),
        };
        if there {
            return Ok(false);
        }
        self.family.put(bytes, &[])?;
        self.count(1);
        if covered {
            head.timers.insert(bytes.clone(), Timer { time, hash, key: key.clone(), namespace });
            // with room to grow, so that not every timer pushes out another one
            if head.timers.len() > 2 * self.head_len {
                head.timers.pop_last();
                head.complete = false;
            }
            show(head, &mut queue.due);
        }
        Ok(true)
    }

    pub fn delete(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError> {
        let queue = &mut *self.queue.borrow_mut();
        self.layout.timer(time, hash, key, &namespace, &mut queue.scratch);
        let bytes = &queue.scratch;
        let Some(head) = queue.heads.get_mut(&hash.group()) else { return Ok(false) };
        if head.covers(bytes) {
            if head.timers.remove(bytes).is_none() {
                return Ok(false);
            }
        } else if self.family.get(bytes)?.is_none() {
            return Ok(false);
        }
        self.family.delete(bytes)?;
        self.count(-1);
        if head.timers.is_empty() && !head.complete {
            self.fill(hash.group(), head, bytes)?;
        }
        show(head, &mut queue.due);
        Ok(true)
    }

    pub fn pop_due(&self, up_to: Timestamp) -> Result<Option<Timer<K, N>>, StateError> {
        let queue = &mut *self.queue.borrow_mut();
        let Some((time, hash)) = queue.due.first().copied() else { return Ok(None) };
        if time > up_to {
            return Ok(None);
        }
        let Some(head) = queue.heads.get_mut(&hash.group()) else { return Ok(None) };
        let Some((bytes, timer)) = head.timers.pop_first() else { return Ok(None) };
        self.family.delete(&bytes)?;
        self.count(-1);
        if head.timers.is_empty() && !head.complete {
            self.fill(hash.group(), head, &bytes)?;
        }
        show(head, &mut queue.due);
        Ok(Some(timer))
    }

    pub fn peek_next_time(&self) -> Option<Timestamp> {
        self.queue.borrow().due.first().map(|(time, _)| *time)
    }

    /// Counts them, the first time after a restore.
    pub fn len(&self) -> Result<usize, StateError> {
        if let Some(len) = self.len.get() {
            return Ok(len);
        }
        let mut len = 0;
        self.family.scan(&[]).each(|_, _| {
            len += 1;
            Ok(())
        })?;
        self.len.set(Some(len));
        Ok(len)
    }
}

/// Timers, with the key's type known.
#[derive(Debug)]
pub struct RocksTimers<K, N>(pub(crate) Rc<TimerTable<K, N>>);

impl<K, N> Clone for RocksTimers<K, N> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Key, N: Namespace> TimerService<K, N> for RocksTimers<K, N> {
    fn register(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError> {
        self.0.register(time, hash, key, namespace)
    }

    fn delete(&self, time: Timestamp, hash: KeyHash, key: &K, namespace: N) -> Result<bool, StateError> {
        self.0.delete(time, hash, key, namespace)
    }

    fn pop_due(&self, up_to: Timestamp) -> Result<Option<Timer<K, N>>, StateError> {
        self.0.pop_due(up_to)
    }

    fn peek_next_time(&self) -> Option<Timestamp> {
        self.0.peek_next_time()
    }

    fn len(&self) -> Result<usize, StateError> {
        self.0.len()
    }
}
