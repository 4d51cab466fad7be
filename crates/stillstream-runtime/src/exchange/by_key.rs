//! Splitting batches by the key group of each record's key.

use std::sync::Arc;

use stillstream_state::Data;
use stillstream_types::{KeyGroups, KeyHash, Result};

use super::{KeySelector, Splitter};
use crate::batch::{AnyBatch, Batch};

/// Records of one part that are sent together. Chosen by measurement: larger parts gain nothing, smaller ones cost.
const PART: usize = 1024;

/// A splitter by key group.
pub fn by_key<T: Data, S: KeySelector<T>>(
    selector: Arc<S>,
    groups: KeyGroups,
    parallelism: u32,
) -> Box<dyn Splitter> {
    let parts = (0..parallelism).map(|_| Part(Batch::default())).collect();
    let owner = |group| groups.owner(group, parallelism) as u16;
    let owners = groups.all().iter().map(owner).collect();
    Box::new(ByKey { parts, owners, hasher: Hasher { selector, groups } })
}

struct Hasher<S> {
    selector: Arc<S>,
    groups: KeyGroups,
}

impl<S> Hasher<S> {
    #[inline(always)]
    fn hash<T: Data>(&self, record: &T) -> KeyHash
    where
        S: KeySelector<T>,
    {
        let groups = self.groups;
        self.selector.with_key(record, |key| stillstream_state::Key::key_hash(key, groups))
    }
}

/// What is gathered for one subtask: less than `PART` records, with room for `PART` as soon as there is one.
struct Part<T>(Batch<T>);

impl<T: Data> Part<T> {
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, timed: bool) {
        let times = if timed { PART } else { 0 };
        self.0.values.reserve_exact(PART);
        self.0.hashes.reserve_exact(PART);
        self.0.times.reserve_exact(times);
    }

    fn is_empty(&self) -> bool {
        self.0.values.is_empty()
    }

    fn take(&mut self) -> AnyBatch {
        std::mem::take(&mut self.0).into()
    }
}

struct ByKey<T, S> {
    parts: Vec<Part<T>>,
    /// The subtask of each key group: a division less per record.
    owners: Box<[u16]>,
    hasher: Hasher<S>,
}

impl<T: Data, S: KeySelector<T>> ByKey<T, S> {
    fn deal(&mut self, batch: Batch<T>, send: &mut dyn FnMut(usize, AnyBatch)) {
        let timed = !batch.times.is_empty();
        for (target, part) in self.parts.iter_mut().enumerate() {
            if !part.is_empty() && part.0.times.is_empty() == timed {
                // a batch with times after one without, or the other way round: the columns must not mix
                send(target, part.take());
            }
        }
        match timed {
            false => self.deal_columns(batch.values, std::iter::repeat(()), |_, ()| {}, false, send),
            true => {
                let push = |part: &mut Batch<T>, time| part.times.push(time);
                self.deal_columns(batch.values, batch.times.into_iter(), push, true, send);
            }
        }
    }

    #[inline(always)]
    fn deal_columns<M>(
        &mut self,
        values: Vec<T>,
        times: impl Iterator<Item = M>,
        push_time: impl Fn(&mut Batch<T>, M),
        timed: bool,
        send: &mut dyn FnMut(usize, AnyBatch),
    ) {
        let Self { parts, owners, hasher } = self;
        for (record, time) in values.into_iter().zip(times) {
            let hash = hasher.hash(&record);
            let target = owners[hash.group().0 as usize] as usize;
            let part = &mut parts[target];
            if part.is_empty() {
                part.make_room(timed);
            }
            let Part(batch) = part;
            let len = batch.values.len();
            debug_assert!(len < PART && batch.hashes.len() == len);
            // SAFETY: room for PART records and hashes was made before the first one; at PART the batch is taken, so
            // there is room for one more of each
            unsafe {
                batch.values.as_mut_ptr().add(len).write(record);
                batch.values.set_len(len + 1);
                batch.hashes.as_mut_ptr().add(len).write(hash);
                batch.hashes.set_len(len + 1);
            }
            push_time(batch, time);
            if len + 1 == PART {
                send(target, part.take());
            }
        }
    }
}

impl<T: Data, S: KeySelector<T>> Splitter for ByKey<T, S> {
    fn split(&mut self, batch: AnyBatch, send: &mut dyn FnMut(usize, AnyBatch)) -> Result<()> {
        let mut batch = batch.take::<T>()?;
        if self.parts.len() == 1 {
            batch.hashes = batch.values.iter().map(|record| self.hasher.hash(record)).collect();
            send(0, batch.into());
        } else {
            self.deal(batch, send);
        }
        Ok(())
    }

    fn flush(&mut self, send: &mut dyn FnMut(usize, AnyBatch)) {
        for (target, part) in self.parts.iter_mut().enumerate().filter(|(_, part)| !part.is_empty()) {
            send(target, part.take());
        }
    }
}
