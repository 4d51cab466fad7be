//! [`Generator`]: records made from their index.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fmt;
use std::sync::Arc;

use stillstream_runtime::connect::{SourceContext, SplitReader, SplitSource};
use stillstream_runtime::{Batch, SourceStatus};
use stillstream_state::Data;
use stillstream_types::Result;

use crate::ConnectorError;
use crate::pace::{Pacer, Rate};

/// Indexes are dealt out in blocks of this many.
const BLOCK: u64 = 64;
/// Number of splits: the highest parallelism at which every subtask has something to do.
const SPLITS: u64 = 128;

/// A source that makes each record from its index: the same record for the same index whatever the
/// parallelism, so that tests can tell a lost or doubled record.
///
/// Split i of 128 has each 128th block of 64 indexes. A subtask emits the indexes of its splits in ascending
/// order; with parallelism 1 that is 0, 1, 2, ...
///
/// ```
/// use stillstream_connectors::Generator;
/// let squares = Generator::new(1_000, |index| index * index);
/// let ticks = Generator::unbounded(|index| index).records_per_second(100.0);
/// # fn check(_: impl stillstream_runtime::connect::SplitSource<Item = u64>) {}
/// # check(squares); check(ticks);
/// ```
pub struct Generator<F> {
    count: u64,
    make: Arc<F>,
    rate: Rate,
}

impl<F> fmt::Debug for Generator<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generator").field("count", &self.count).field("rate", &self.rate).finish()
    }
}

impl<F> Generator<F> {
    /// `count` records, made by `make` from the indexes 0 to `count - 1`.
    pub fn new<T>(count: u64, make: F) -> Self
    where
        F: Fn(u64) -> T,
    {
        Self { count, make: Arc::new(make), rate: Rate::Unlimited }
    }

    /// Records without end.
    pub fn unbounded<T>(make: F) -> Self
    where
        F: Fn(u64) -> T,
    {
        Self::new(u64::MAX, make)
    }

    /// Emits `rate` records per second over all subtasks together. A source that was held up makes up for at
    /// most one second.
    pub fn records_per_second(mut self, rate: f64) -> Self {
        self.rate = Rate::RecordsPerSecond(rate);
        self
    }
}

/// One split of a [`Generator`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct GeneratorSplit {
    /// The next index; the split is done when the generator does not go that far.
    next: u64,
}

/// What a split emits after everything below `index`: the rest of the block, or its next block.
fn after(index: u64) -> u64 {
    if index.is_multiple_of(BLOCK) { index.saturating_add(BLOCK * (SPLITS - 1)) } else { index }
}

impl<T: Data, F: Fn(u64) -> T + Send + Sync + 'static> SplitSource for Generator<F> {
    type Item = T;
    type Split = GeneratorSplit;

    fn splits(&self) -> Result<Vec<GeneratorSplit>> {
        Ok((0..SPLITS).map(|number| GeneratorSplit { next: number * BLOCK }).collect())
    }

    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<T, GeneratorSplit>>> {
        let pacer = match self.rate {
            Rate::RecordsPerSecond(rate) => {
                let busy =
                    (context.parallelism.max(1) as u64).min(SPLITS).min(self.count.div_ceil(BLOCK)).max(1);
                Some(Pacer::new(context.clock.clone(), rate / busy as f64))
            }
            _ => None,
        };
        let (count, make) = (self.count, self.make.clone());
        Ok(Box::new(Reader { count, make, pacer, splits: Vec::new(), order: BinaryHeap::new() }))
    }

    fn validate(&self) -> Result<()> {
        self.rate.check().map_err(ConnectorError::into_error)
    }
}

struct Reader<F> {
    count: u64,
    make: Arc<F>,
    pacer: Option<Pacer>,
    splits: Vec<GeneratorSplit>,
    /// Splits that are not done, the lowest next index first.
    order: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<T: Data, F: Fn(u64) -> T + 'static> SplitReader<T, GeneratorSplit> for Reader<F> {
    fn assign(&mut self, splits: Vec<GeneratorSplit>) -> Result<()> {
        let open = splits.iter().enumerate().filter(|(_, split)| split.next < self.count);
        self.order = open.map(|(at, split)| Reverse((split.next, at))).collect();
        self.splits = splits;
        Ok(())
    }

    fn poll(&mut self, max_records: usize, out: &mut Batch<T>) -> Result<SourceStatus> {
        let mut room = max_records as u64;
        if let Some(pacer) = self.pacer.as_mut().filter(|_| !self.order.is_empty()) {
            match pacer.due() {
                Ok(due) => room = room.min(due as u64),
                Err(wait) => return Ok(wait),
            }
            pacer.take(room);
        }
        out.values.reserve(room as usize);
        while room > 0 {
            let Some(mut first) = self.order.peek_mut() else { break };
            let Reverse((from, at)) = *first;
            let block_end = (from / BLOCK + 1).saturating_mul(BLOCK).min(self.count);
            let until = block_end.min(from.saturating_add(room));
            let make = &*self.make;
            out.values.extend((from..until).map(make));
            room -= until - from;
            let split = &mut self.splits[at];
            split.next = after(until);
            // in place: one way down the heap instead of two
            match split.next < self.count {
                true => *first = Reverse((split.next, at)),
                false => drop(PeekMut::pop(first)),
            }
        }
        Ok(if self.order.is_empty() { SourceStatus::Ended } else { SourceStatus::More })
    }

    fn positions(&self) -> Vec<GeneratorSplit> {
        self.splits.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_runtime::clock::ManualClock;

    fn all(count: u64, parallelism: u32) -> Vec<u64> {
        let source = Generator::new(count, |index| index);
        let mut records = Vec::new();
        for subtask in 0..parallelism {
            let mut reader = source.reader(&SourceContext::for_test("g", subtask, parallelism)).unwrap();
            let splits = source.splits().unwrap().into_iter().enumerate();
            let own = splits.filter(|(at, _)| *at as u32 % parallelism == subtask).map(|(_, split)| split);
            reader.assign(own.collect()).unwrap();
            let mut out = Batch::default();
            while reader.poll(1000, &mut out).unwrap() != SourceStatus::Ended {}
            assert!(out.values.is_sorted(), "a subtask emits ascending indexes");
            records.extend(out.values);
        }
        records
    }

    #[test]
    fn one_subtask_emits_all_indexes_in_order() {
        for count in [0, 1, 63, 64, 65, 8191, 8192, 8193, 20_000] {
            assert_eq!(all(count, 1), (0..count).collect::<Vec<_>>(), "{count}");
        }
    }

    #[test]
    fn every_index_is_emitted_once_at_any_parallelism() {
        for parallelism in [2, 3, 128, 200] {
            let mut records = all(20_000, parallelism);
            records.sort_unstable();
            assert_eq!(records, (0..20_000).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_rate_is_shared_by_the_subtasks() {
        let source = Generator::unbounded(|index| index).records_per_second(200.0);
        let clock = Arc::new(ManualClock::default());
        let context = SourceContext { clock: clock.clone(), ..SourceContext::for_test("g", 0, 2) };
        let mut reader = source.reader(&context).unwrap();
        reader.assign(source.splits().unwrap()).unwrap();
        let mut out = Batch::default();
        for ms in 0..1000 {
            clock.set_ms(ms);
            while reader.poll(1024, &mut out).unwrap() == SourceStatus::More {}
        }
        assert!((98..=102).contains(&out.len()), "{}", out.len());
    }
}
