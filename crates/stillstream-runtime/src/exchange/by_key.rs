//! Splitting batches by the key group of each record's key.

use std::sync::Arc;

use stillstream_state::Data;
use stillstream_types::{KeyGroups, KeyHash, Result};

use super::hashing::Hasher;
use super::part::{Part, can_go_to_two, deal_to_two};
use super::{KeySelector, Splitter};
use crate::batch::{AnyBatch, Batch};

/// A splitter by key group.
pub fn by_key<T: Data, S: KeySelector<T>>(
    selector: Arc<S>,
    groups: KeyGroups,
    parallelism: u32,
) -> Box<dyn Splitter> {
    let parts = (0..parallelism).map(|_| Part::new()).collect();
    let owner = |group| groups.owner(group, parallelism) as u16;
    let owners = groups.all().iter().map(owner).collect();
    let second = KeyHash(u64::from(groups.range(1, 2).start) << 48);
    Box::new(ByKey { parts, second, owners, hasher: Hasher { selector, groups }, hashes: Vec::new() })
}

struct ByKey<T: Data, S> {
    parts: Vec<Part<T>>,
    /// The subtask of each key group: a division less per record.
    owners: Box<[u16]>,
    /// The lowest hash of the second of two parts.
    second: KeyHash,
    hasher: Hasher<S>,
    /// Hashes of the batch that is dealt out. A pass of its own keeps the constants of both loops in registers.
    hashes: Vec<KeyHash>,
}

impl<T: Data, S: KeySelector<T>> ByKey<T, S> {
    fn deal(&mut self, batch: Batch<T>, send: &mut dyn FnMut(usize, AnyBatch)) {
        if batch.is_empty() {
            // it would look like one without times
            return;
        }
        let timed = !batch.times.is_empty();
        for (target, part) in self.parts.iter_mut().enumerate().filter(|(_, part)| part.timed != timed) {
            // a batch with times after one without, or the other way round: the columns must not mix
            part.take().into_iter().for_each(|batch| send(target, batch));
        }
        self.hasher.hash_all(&batch.values, &mut self.hashes);
        if can_go_to_two::<T>()
            && let [a, b] = &mut self.parts[..]
        {
            match timed {
                false => deal_to_two::<T, false>(a, b, self.second, &batch, &self.hashes, send),
                true => deal_to_two::<T, true>(a, b, self.second, &batch, &self.hashes, send),
            }
            return;
        }
        let Batch { values, times, .. } = batch;
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
            self.hasher.hash_all(&batch.values, &mut batch.hashes);
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
