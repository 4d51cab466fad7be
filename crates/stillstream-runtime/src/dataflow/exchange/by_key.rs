//! Splitting batches by the key group of each record's key.

use std::ops::Range;
use std::sync::Arc;

use stillstream_state::Data;
use stillstream_types::{KeyGroups, KeyHash, Result};

use super::hashing::Hasher;
use super::part::{Part, can_go_to_two, deal_to_two};
use super::{KeySelector, Splitter};
use crate::operator::batch::{AnyBatch, Batch};
use crate::operator::event_time::Mark;

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
    /// Hashes of the batch that is dealt out. A pass of its own keeps the constants of both loops in
    /// registers.
    hashes: Vec<KeyHash>,
}

impl<T: Data, S: KeySelector<T>> ByKey<T, S> {
    /// Deals out records and marks: each record to its owner, each mark to all.
    fn deal(&mut self, batch: Batch<T>, marks: &[Mark], send: &mut dyn FnMut(usize, AnyBatch)) {
        if batch.is_empty() {
            // it would look like one without times
            marks.iter().for_each(|mark| self.mark(*mark));
            return;
        }
        let timed = !batch.times.is_empty();
        for (target, part) in self.parts.iter_mut().enumerate().filter(|(_, part)| part.timed != timed) {
            // a batch with times after one without, or the other way round: the columns must not mix
            part.take().into_iter().for_each(|batch| send(target, batch));
        }
        self.hasher.hash_all(&batch.values, &mut self.hashes);
        let pieces = pieces(marks, batch.len());
        if can_go_to_two::<T>() && self.parts.len() == 2 {
            for (rows, mark) in pieces {
                if let [a, b] = &mut self.parts[..] {
                    match timed {
                        false => deal_to_two::<T, false>(a, b, self.second, &batch, rows, &self.hashes, send),
                        true => deal_to_two::<T, true>(a, b, self.second, &batch, rows, &self.hashes, send),
                    }
                }
                mark.into_iter().for_each(|mark| self.mark(mark));
            }
            return;
        }
        let len = batch.len() as u32;
        let Batch { values, times, .. } = batch;
        let plain = values.into_iter();
        if marks.iter().all(|mark| mark.at == len) {
            // a loop of its own for what is usual
            match timed {
                false => self.deal_all(plain.map(|record| (record, None)), 0, send),
                true => self.deal_all(plain.zip(times.into_iter().map(Some)), 0, send),
            }
            marks.iter().for_each(|mark| self.mark(*mark));
            return;
        }
        match timed {
            false => self.deal_pieces(plain.map(|record| (record, None)), pieces, send),
            true => self.deal_pieces(plain.zip(times.into_iter().map(Some)), pieces, send),
        }
    }

    fn mark(&mut self, mark: Mark) {
        self.parts.iter_mut().for_each(|part| part.mark(mark.time));
    }

    #[inline(always)]
    fn deal_pieces(
        &mut self,
        mut records: impl Iterator<Item = (T, Option<i64>)>,
        pieces: impl Iterator<Item = (Range<usize>, Option<Mark>)>,
        send: &mut dyn FnMut(usize, AnyBatch),
    ) {
        for (rows, mark) in pieces {
            self.deal_all(records.by_ref().take(rows.len()), rows.start, send);
            mark.into_iter().for_each(|mark| self.mark(mark));
        }
    }

    #[inline(always)]
    fn deal_all(
        &mut self,
        records: impl Iterator<Item = (T, Option<i64>)>,
        first: usize,
        send: &mut dyn FnMut(usize, AnyBatch),
    ) {
        let Self { parts, owners, hashes, .. } = self;
        for ((record, time), &hash) in records.zip(&hashes[first..]) {
            let target = owners[hash.group().0 as usize] as usize;
            parts[target].push(record, hash, time, |batch| send(target, batch));
        }
    }
}

/// The records between marks, each with the mark behind them.
fn pieces(marks: &[Mark], len: usize) -> impl Iterator<Item = (Range<usize>, Option<Mark>)> {
    let start = |n: usize| n.checked_sub(1).map_or(0, |before| marks[before].at as usize);
    let before = marks.iter().enumerate().map(move |(n, mark)| (start(n)..mark.at as usize, Some(*mark)));
    let rest = start(marks.len());
    before.chain((rest < len).then_some((rest..len, None)))
}

impl<T: Data, S: KeySelector<T>> Splitter for ByKey<T, S> {
    fn split(&mut self, mut batch: AnyBatch, send: &mut dyn FnMut(usize, AnyBatch)) -> Result<()> {
        let marks = batch.take_marks();
        let weight = batch.weight;
        let mut batch = batch.take::<T>()?;
        if self.parts.len() == 1 {
            self.hasher.hash_all(&batch.values, &mut batch.hashes);
            let mut batch = AnyBatch::from(batch);
            batch.set_marks(marks);
            batch.weight = weight;
            send(0, batch);
        } else {
            self.deal(batch, &marks, send);
        }
        Ok(())
    }

    fn flush(&mut self, send: &mut dyn FnMut(usize, AnyBatch)) {
        for (target, part) in self.parts.iter_mut().enumerate() {
            part.take().into_iter().for_each(|batch| send(target, batch));
        }
    }
}
