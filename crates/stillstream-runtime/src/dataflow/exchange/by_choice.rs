//! Splitting batches as a function of each record says.

use stillstream_state::Data;
use stillstream_types::{Error, ErrorKind, Result};

use super::Splitter;
use crate::operator::batch::{AnyBatch, Batch, push_mark};
use crate::operator::event_time::Mark;

/// Records of one part that are sent together, as by key.
const PART: usize = 1024;

/// A splitter that asks `choose` for the subtask of each record, with the number of subtasks.
pub fn by_choice<T: Data>(
    choose: impl FnMut(&T, u32) -> u32 + 'static,
    parallelism: u32,
) -> Box<dyn Splitter> {
    let parts = (0..parallelism).map(|_| Gathered::default()).collect();
    Box::new(ByChoice { parts, choose })
}

/// Spreads records at random: a generator whose numbers follow from its seed.
pub fn at_random<T: Data>(seed: u64, parallelism: u32) -> Box<dyn Splitter> {
    // xorshift, which must not begin with zero
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let choose = move |_: &T, parallelism: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // the upper half as a part of the whole, without a division
        (((state >> 32) * u64::from(parallelism)) >> 32) as u32
    };
    by_choice(choose, parallelism)
}

/// What is gathered for one subtask.
struct Gathered<T> {
    records: Batch<T>,
    marks: Vec<Mark>,
    /// How many marks were given, those included that a later one has replaced.
    weight: u32,
}

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Self { records: Batch::default(), marks: Vec::new(), weight: 0 }
    }
}

impl<T: Data> Gathered<T> {
    fn take(&mut self) -> Option<AnyBatch> {
        let mut batch = AnyBatch::from(std::mem::take(&mut self.records));
        batch.set_marks(std::mem::take(&mut self.marks));
        batch.weight = std::mem::take(&mut self.weight);
        (!batch.is_void()).then_some(batch)
    }

    /// Whether another record, with or without a time, needs a batch of its own.
    fn is_full(&self, timed: bool) -> bool {
        let len = self.records.len();
        len >= PART || len > 0 && timed == self.records.times.is_empty()
    }
}

struct ByChoice<T, F> {
    parts: Vec<Gathered<T>>,
    choose: F,
}

impl<T: Data, F: FnMut(&T, u32) -> u32 + 'static> Splitter for ByChoice<T, F> {
    fn split(&mut self, mut batch: AnyBatch, send: &mut dyn FnMut(usize, AnyBatch)) -> Result<()> {
        let marks = batch.take_marks();
        let Batch { values, times, .. } = batch.take::<T>()?;
        let mut marks = marks.into_iter().peekable();
        let parallelism = self.parts.len() as u32;
        let mark_all = |parts: &mut [Gathered<T>], mark: Mark| {
            for part in parts {
                push_mark(&mut part.marks, part.records.len() as u32, mark.time);
                part.weight += 1;
            }
        };
        for (at, record) in values.into_iter().enumerate() {
            while let Some(mark) = marks.next_if(|mark| mark.at as usize <= at) {
                mark_all(&mut self.parts, mark);
            }
            let target = (self.choose)(&record, parallelism);
            let Some(part) = self.parts.get_mut(target as usize) else {
                return Err(Error::new(
                    ErrorKind::User,
                    format!(
                        "a partitioner has chosen subtask {target} for a record of type `{}`, and there are {parallelism}, from 0: \
                         return less than the number that it is given, as with `hash % subtasks`",
                        std::any::type_name::<T>()
                    ),
                ));
            };
            let time = times.get(at).copied();
            if part.is_full(time.is_some()) {
                part.take().into_iter().for_each(|batch| send(target as usize, batch));
            }
            part.records.push(record, time);
        }
        marks.for_each(|mark| mark_all(&mut self.parts, mark));
        Ok(())
    }

    fn flush(&mut self, send: &mut dyn FnMut(usize, AnyBatch)) {
        for (target, part) in self.parts.iter_mut().enumerate() {
            part.take().into_iter().for_each(|batch| send(target, batch));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::event_time::EventTime;

    fn split(splitter: &mut dyn Splitter, batch: AnyBatch) -> Result<Vec<(usize, AnyBatch)>> {
        let mut parts = Vec::new();
        splitter.split(batch, &mut |target, part| parts.push((target, part)))?;
        splitter.flush(&mut |target, part| parts.push((target, part)));
        Ok(parts)
    }

    #[test]
    fn a_chosen_subtask_gets_the_record_and_all_get_each_mark_at_its_place() {
        let mut splitter = by_choice(|n: &u64, subtasks| (*n % u64::from(subtasks)) as u32, 3);
        let mut batch = AnyBatch::from(Batch::timed((0..3_000u64).collect(), (0..3_000i64).collect()));
        let mark = |at, watermark| Mark { at, time: EventTime { watermark, idle: false } };
        batch.set_marks(vec![mark(0, 1), mark(1_500, 2), mark(3_000, 3)]);
        let parts = split(&mut *splitter, batch).unwrap();
        for target in 0..3 {
            let (mut all, mut marks) = (Vec::new(), Vec::new());
            for (_, part) in parts.iter().filter(|(to, _)| *to == target) {
                let before = all.len();
                marks
                    .extend(part.marks().iter().map(|mark| (before + mark.at as usize, mark.time.watermark)));
                all.extend(part.clone().take::<u64>().unwrap().values);
            }
            assert!(all.iter().copied().eq((target as u64..3_000).step_by(3)));
            assert_eq!(marks, [(0, 1), (500, 2), (1_000, 3)]);
        }
        let weight: u32 = parts.iter().map(|(_, part)| part.weight).sum();
        assert_eq!(weight, 9, "each copy of a mark counts");
    }

    #[test]
    fn random_targets_are_even_and_all_are_reached() {
        let parts = split(&mut *at_random::<u64>(7, 5), Batch::new((0..10_000u64).collect()).into()).unwrap();
        for target in 0..5 {
            let records: usize =
                parts.iter().filter(|(to, _)| *to == target).map(|(_, part)| part.len()).sum();
            assert!((1_800..2_200).contains(&records), "{target}: {records}");
        }
    }

    #[test]
    fn a_subtask_that_does_not_exist_is_an_error_that_says_how_many_there_are() {
        let error = split(&mut *by_choice(|_: &u64, subtasks| subtasks, 2), Batch::new(vec![1u64]).into())
            .unwrap_err();
        assert!(
            error.to_string().contains("subtask 2") && error.to_string().contains("there are 2"),
            "{error}"
        );
    }
}
