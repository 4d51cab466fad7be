//! One subtask of a source, driven by hand.

use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::clock::{Clock, SystemClock};
use stillstream_runtime::connect::{
    Enumerate, EnumeratorContext, Found, RestoredSplits, SourceOperator, SplitSource, enumerator_factory,
};
use stillstream_runtime::{OpenContext, Output, Source, SourceStatus};
use stillstream_state::{Data, MemorySnapshotStore};
use stillstream_types::{CheckpointId, OperatorSubtaskState, Result, SnapshotForm, SubtaskIndex};

/// A source that says nothing for this long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });

/// What a snapshot has of one reader, and of the enumerator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceState {
    /// The reader's splits.
    pub reader: OperatorSubtaskState,
    /// What the enumerator has assigned.
    pub enumerator: Option<Arc<[u8]>>,
}

/// The enumerator of a source, afresh or from a snapshot.
pub(crate) fn enumerator<S: SplitSource>(
    source: &Arc<S>,
    readers: usize,
    restored: Option<(Option<Arc<[u8]>>, OperatorSubtaskState)>,
) -> Result<Box<dyn Enumerate>> {
    let context = EnumeratorContext::for_test("source", readers as u32);
    let mut enumerator = enumerator_factory(source.clone()).make(&context)?;
    let store = Arc::new(MemorySnapshotStore::default());
    enumerator.open(restored.map(|(state, readers)| RestoredSplits { state, readers, store }))?;
    Ok(enumerator)
}

/// One subtask of a source, driven by hand, with an enumerator of its own.
#[derive(Debug)]
pub struct SourceDriver<S: SplitSource> {
    operator: SourceOperator<S>,
    out: Output,
    subtask: u32,
    enumerator: Own,
    /// What its context counts, such as skipped rows.
    pub counters: Arc<stillstream_runtime::metrics::Counters>,
    clock: SystemClock,
}

/// The driver's own enumerator, and its state.
#[derive(Default)]
struct Own(Option<Box<dyn Enumerate>>, Option<Arc<[u8]>>);

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own")
    }
}

impl<S: SplitSource> SourceDriver<S> {
    /// Opens subtask `subtask` of `parallelism`, afresh or from a snapshot, and gives it its splits.
    ///
    /// # Errors
    /// Those of the source.
    pub fn open(
        source: &Arc<S>,
        subtask: usize,
        parallelism: usize,
        restored: Option<SourceState>,
    ) -> Result<Self> {
        let context = OpenContext::for_test("source", subtask as u32, parallelism as u32);
        Self::open_in(source, context, restored)
    }

    /// The same, in this context.
    ///
    /// # Errors
    /// Those of the source.
    pub fn open_in(source: &Arc<S>, context: OpenContext, restored: Option<SourceState>) -> Result<Self> {
        let readers = context.parallelism as usize;
        let state = restored.as_ref().and_then(|restored| restored.enumerator.clone());
        let held = restored.as_ref().map(|restored| (state.clone(), restored.reader.clone()));
        let mut driver = Self::without_splits(source, context, restored.map(|restored| restored.reader))?;
        driver.enumerator = Own(Some(enumerator(source, readers, held)?), state);
        driver.discover()?;
        Ok(driver)
    }

    /// The reader alone: what it is to read it is told by [`take`](Self::take).
    pub(crate) fn without_splits(
        source: &Arc<S>,
        context: OpenContext,
        restored: Option<OperatorSubtaskState>,
    ) -> Result<Self> {
        let mut context = match restored {
            Some(state) => context.restored_for_test(2, CheckpointId(1), state),
            None => context,
        };
        let (counters, subtask) = (context.counters.clone(), context.subtask.0);
        let mut operator = SourceOperator::new(source.clone());
        operator.open(&mut context)?;
        let (out, clock) = (Output::default(), SystemClock::default());
        Ok(Self { operator, out, subtask, enumerator: Own::default(), counters, clock })
    }

    /// Has the enumerator look for splits, and takes what it assigns to this reader.
    ///
    /// # Errors
    /// Those of the source.
    pub fn discover(&mut self) -> Result<()> {
        let Own(Some(enumerator), _) = &mut self.enumerator else { return Ok(()) };
        let found = enumerator.discover()?;
        self.enumerator.1 = Some(found.state.as_slice().into());
        self.take(&found, None)
    }

    /// Takes what was assigned to this reader.
    pub(crate) fn take(&mut self, found: &Found, answers: Option<SubtaskIndex>) -> Result<()> {
        let mine = SubtaskIndex(self.subtask);
        let splits = found.splits.iter().filter(|(reader, _)| *reader == mine);
        let splits: Vec<&[u8]> = splits.map(|(_, split)| &split[..]).collect();
        self.operator.assign(&splits, answers == Some(mine), found.no_more)
    }

    /// Asks for records once. `true` with the status: the reader has read all that it has, and asks for splits.
    pub(crate) fn poll(&mut self, max_records: usize) -> Result<(SourceStatus, Vec<S::Item>, bool)> {
        let status = self.operator.poll(max_records, &mut self.out)?;
        let mut records = Vec::new();
        for batch in self.out.take_batches() {
            records.extend(batch.take::<S::Item>()?.values);
        }
        let asks = self.operator.wants_splits();
        if asks && let Own(Some(enumerator), _) = &mut self.enumerator {
            let mine = SubtaskIndex(self.subtask);
            let found = enumerator.requested(mine)?;
            self.enumerator.1 = Some(found.state.as_slice().into());
            self.take(&found, Some(mine))?;
        }
        Ok((status, records, asks))
    }

    /// Waits until there is something: records, or the end (`None`).
    ///
    /// # Errors
    /// Those of the source.
    pub fn next(&mut self, max_records: usize) -> Result<Option<Vec<S::Item>>> {
        let begun = self.clock.elapsed();
        loop {
            let (status, records, _) = self.poll(max_records)?;
            if !records.is_empty() {
                return Ok(Some(records));
            }
            if status == SourceStatus::Ended {
                return Ok(None);
            }
            assert!(self.clock.elapsed() - begun < DEADLINE, "the source says {status:?} for {DEADLINE:?}");
            std::thread::yield_now();
        }
    }

    /// Everything that comes until the source waits for processing time, and whether it has ended.
    ///
    /// # Errors
    /// Those of the source.
    pub fn until_idle(&mut self) -> Result<(Vec<S::Item>, bool)> {
        let (begun, mut all) = (self.clock.elapsed(), Vec::new());
        loop {
            let (status, records, _) = self.poll(1000)?;
            all.extend(records);
            match status {
                SourceStatus::Ended => return Ok((all, true)),
                SourceStatus::Idle { until_ms: Some(_) } => return Ok((all, false)),
                SourceStatus::Idle { until_ms: None } | SourceStatus::More => {}
            }
            assert!(self.clock.elapsed() - begun < DEADLINE, "the source says {status:?} for {DEADLINE:?}");
            std::thread::yield_now();
        }
    }

    /// Everything that is left.
    ///
    /// # Errors
    /// Those of the source.
    pub fn rest(&mut self) -> Result<Vec<S::Item>> {
        let mut all = Vec::new();
        while let Some(records) = self.next(1000)? {
            all.extend(records);
        }
        Ok(all)
    }

    /// What went into side output 0 so far.
    ///
    /// # Errors
    /// If the records are of another type.
    pub fn side<T: Data>(&mut self) -> Result<Vec<T>> {
        let batches = self.out.take_side(0).into_iter();
        let batches = batches.map(|batch| batch.take::<T>()).collect::<Result<Vec<_>>>()?;
        Ok(batches.into_iter().flat_map(|batch| batch.values).collect())
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// Those of the source.
    pub fn snapshot(&mut self) -> Result<SourceState> {
        Ok(SourceState { reader: self.positions()?, enumerator: self.enumerator.1.clone() })
    }

    /// The reader's part of a snapshot.
    pub(crate) fn positions(&mut self) -> Result<OperatorSubtaskState> {
        let part = self.operator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint)?;
        part.map_or_else(|| Ok(OperatorSubtaskState::default()), |part| part(&MemorySnapshotStore::default()))
    }
}
