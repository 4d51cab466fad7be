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
    let parts = (0..parallelism).map(|_| Part::new()).collect();
    let owner = |group| groups.owner(group, parallelism) as u16;
    let owners = groups.all().iter().map(owner).collect();
    Box::new(ByKey { parts, owners, hasher: Hasher { selector, groups }, hashes: Vec::new() })
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

/// What is gathered for one subtask: the columns have room for `PART` and `len` entries; they are told their length only when
/// the part is taken. Without memory `len` is `PART` too, so that one comparison a record finds both what is full and what
/// has not begun.
struct Part<T: Data> {
    columns: Batch<T>,
    len: usize,
    timed: bool,
}

impl<T: Data> Part<T> {
    fn new() -> Self {
        Self { columns: Batch::default(), len: PART, timed: false }
    }

    /// What was gathered, if there is something.
    fn take(&mut self) -> Option<AnyBatch> {
        if self.columns.hashes.capacity() == 0 {
            return None;
        }
        let len = std::mem::replace(&mut self.len, PART);
        // SAFETY: the first `len` entries of each column that is used have been written since `renew` made the columns
        unsafe {
            self.columns.values.set_len(len);
            self.columns.hashes.set_len(len);
            self.columns.times.set_len(if self.timed { len } else { 0 });
        }
        Some(std::mem::take(&mut self.columns).into())
    }

    /// Takes what was gathered, if there is something, and makes room for another part.
    #[cold]
    #[inline(never)]
    fn renew(&mut self, timed: bool) -> Option<AnyBatch> {
        let full = self.take();
        self.columns.values.reserve_exact(PART);
        self.columns.hashes.reserve_exact(PART);
        self.columns.times.reserve_exact(if timed { PART } else { 0 });
        (self.timed, self.len) = (timed, 0);
        full
    }

    /// Adds a record; all of a part have times or none. What was gathered before goes to `send` if it is full.
    #[inline(always)]
    fn push(&mut self, record: T, hash: KeyHash, time: Option<i64>, send: impl FnOnce(AnyBatch)) {
        if self.len == PART
            && let Some(full) = self.renew(time.is_some())
        {
            send(full);
        }
        let len = self.len;
        debug_assert!(len < PART && self.timed == time.is_some());
        // SAFETY: `renew` made room for PART of each column that is used, and `len` is below that
        unsafe {
            self.columns.values.as_mut_ptr().add(len).write(record);
            self.columns.hashes.as_mut_ptr().add(len).write(hash);
            if let Some(time) = time {
                self.columns.times.as_mut_ptr().add(len).write(time);
            }
        }
        self.len = len + 1;
    }
}

impl<T: Data> Drop for Part<T> {
    fn drop(&mut self) {
        // what a job that was stopped has not sent is dropped with its memory
        drop(self.take());
    }
}

struct ByKey<T: Data, S> {
    parts: Vec<Part<T>>,
    /// The subtask of each key group: a division less per record.
    owners: Box<[u16]>,
    hasher: Hasher<S>,
    /// Hashes of the batch that is dealt out. A pass of its own keeps the constants of both loops in registers.
    hashes: Vec<KeyHash>,
}

impl<T: Data, S: KeySelector<T>> ByKey<T, S> {
    fn deal(&mut self, batch: Batch<T>, send: &mut dyn FnMut(usize, AnyBatch)) {
        let Batch { values, times, .. } = batch;
        let timed = !times.is_empty();
        for (target, part) in self.parts.iter_mut().enumerate().filter(|(_, part)| part.timed != timed) {
            // a batch with times after one without, or the other way round: the columns must not mix
            part.take().into_iter().for_each(|batch| send(target, batch));
        }
        self.hashes.clear();
        self.hashes.extend(values.iter().map(|record| self.hasher.hash(record)));
        match timed {
            false => self.deal_all(values.into_iter().map(|record| (record, None)), send),
            true => self.deal_all(values.into_iter().zip(times.into_iter().map(Some)), send),
        }
    }

    #[inline(always)]
    fn deal_all(
        &mut self,
        records: impl Iterator<Item = (T, Option<i64>)>,
        send: &mut dyn FnMut(usize, AnyBatch),
    ) {
        let Self { parts, owners, hashes, .. } = self;
        for ((record, time), &hash) in records.zip(&*hashes) {
            let target = owners[hash.group().0 as usize] as usize;
            parts[target].push(record, hash, time, |batch| send(target, batch));
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
        for (target, part) in self.parts.iter_mut().enumerate() {
            part.take().into_iter().for_each(|batch| send(target, batch));
        }
    }
}
