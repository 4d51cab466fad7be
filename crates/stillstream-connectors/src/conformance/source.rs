//! The suite of sources.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::clock::{Clock, SystemClock};
use stillstream_runtime::connect::{SourceOperator, SplitSource};
use stillstream_runtime::testing::redistribute;
use stillstream_runtime::{OpenContext, Output, Source, SourceStatus};
use stillstream_state::MemorySnapshotStore;
use stillstream_types::{CheckpointId, OperatorSubtaskState, Result, SnapshotForm};

/// A source that says nothing for this long has failed.
const DEADLINE: Duration = Duration::from_secs(20);

/// One subtask of a source, driven by hand.
#[derive(Debug)]
pub struct SourceDriver<S: SplitSource> {
    operator: SourceOperator<S>,
    out: Output,
    /// What its context counts, such as skipped rows.
    pub counters: Arc<stillstream_runtime::metrics::Counters>,
    clock: SystemClock,
}

impl<S: SplitSource> SourceDriver<S> {
    /// Opens subtask `subtask` of `parallelism`, afresh or from what checkpoint 1 has for it.
    ///
    /// # Errors
    /// Those of the source.
    pub fn open(
        source: &Arc<S>,
        subtask: usize,
        parallelism: usize,
        restored: Option<OperatorSubtaskState>,
    ) -> Result<Self> {
        let context = OpenContext::for_test("source", subtask as u32, parallelism as u32);
        Self::open_in(
            source,
            match restored {
                Some(state) => context.restored_for_test(2, CheckpointId(1), state),
                None => context,
            },
        )
    }

    /// Opens a subtask in this context.
    ///
    /// # Errors
    /// Those of the source.
    pub fn open_in(source: &Arc<S>, mut context: OpenContext) -> Result<Self> {
        let counters = context.counters.clone();
        let mut operator = SourceOperator::new(source.clone());
        operator.open(&mut context)?;
        Ok(Self { operator, out: Output::default(), counters, clock: SystemClock::default() })
    }

    /// Waits until there is something: records, or the end (`None`).
    ///
    /// # Errors
    /// Those of the source.
    pub fn next(&mut self, max_records: usize) -> Result<Option<Vec<S::Item>>> {
        let begun = self.clock.elapsed();
        loop {
            let status = self.operator.poll(max_records, &mut self.out)?;
            let mut records = Vec::new();
            for batch in self.out.take_batches() {
                records.extend(batch.take::<S::Item>()?.values);
            }
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
        let (begun, mut records) = (self.clock.elapsed(), Vec::new());
        loop {
            let status = self.operator.poll(1000, &mut self.out)?;
            for batch in self.out.take_batches() {
                records.extend(batch.take::<S::Item>()?.values);
            }
            match status {
                SourceStatus::Ended => return Ok((records, true)),
                SourceStatus::Idle { until_ms: Some(_) } => return Ok((records, false)),
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
    pub fn side<T: stillstream_state::Data>(&mut self) -> Result<Vec<T>> {
        let batches = self.out.take_side(0).into_iter();
        Ok(batches
            .map(|batch| batch.take::<T>())
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flat_map(|b| b.values)
            .collect())
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// Those of the source.
    pub fn snapshot(&mut self) -> Result<OperatorSubtaskState> {
        let part = self.operator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint)?;
        part.map_or_else(|| Ok(OperatorSubtaskState::default()), |part| part(&MemorySnapshotStore::default()))
    }
}

fn open_all<S: SplitSource>(
    source: &Arc<S>,
    parallelism: usize,
    restored: Option<&[OperatorSubtaskState]>,
) -> Vec<SourceDriver<S>> {
    let restored = restored.map(|states| redistribute(states, parallelism));
    let open = |subtask: usize| {
        let state = restored.as_ref().map(|states| states[subtask].clone());
        SourceDriver::open(source, subtask, parallelism, state).expect("the source opens")
    };
    (0..parallelism).map(open).collect()
}

fn rest<S: SplitSource<Item: Ord>>(drivers: &mut [SourceDriver<S>]) -> Vec<S::Item> {
    drivers.iter_mut().flat_map(|driver| driver.rest().expect("the source reads")).collect()
}

fn snapshot<S: SplitSource>(drivers: &mut [SourceDriver<S>]) -> Vec<OperatorSubtaskState> {
    drivers.iter_mut().map(|driver| driver.snapshot().expect("the source takes a snapshot")).collect()
}

/// Checks a bounded source that reads `expected` records, in any order: restarts after every poll, restarts
/// with another parallelism while subtasks are at different points, restarts at the end, that splits stay
/// with their subtask at an unchanged parallelism, and the size of its state over many restarts.
///
/// # Panics
/// If the source loses a record or reads one twice.
pub fn source<S: SplitSource<Item: Ord + Debug>>(source: S, expected: &[S::Item]) {
    source.validate().expect("the source is valid");
    let (source, mut expected) = (Arc::new(source), expected.to_vec());
    expected.sort();
    let same = |mut found: Vec<S::Item>, when: &str| {
        found.sort();
        assert!(
            found == expected,
            "{when}: {} records expected, {} found; found {:?}..., expected {:?}...",
            expected.len(),
            found.len(),
            found.iter().zip(&expected).find(|(found, expected)| found != expected),
            expected.first()
        );
    };

    same(rest(&mut open_all(&source, 1, None)), "read in one go");

    // restart after every poll
    let mut emitted = Vec::new();
    let mut driver = open_all(&source, 1, None);
    loop {
        let state = snapshot(&mut driver);
        assert_eq!(state, snapshot(&mut driver), "two snapshots without a poll between them are equal");
        let mut again = open_all(&source, 1, Some(&state));
        assert_eq!(
            driver_positions(&snapshot(&mut again)),
            driver_positions(&state),
            "a restored source is where the snapshot was"
        );
        let when = format!("restarted after {} records", emitted.len());
        same([emitted.clone(), rest(&mut again)].concat(), &when);
        match driver[0].next(7).expect("the source reads") {
            Some(records) => emitted.extend(records),
            None => break,
        }
    }

    // restart with another parallelism, subtasks at different points
    for (before, after) in [(1, 3), (2, 2), (3, 1), (4, 3), (2, 7)] {
        for polls in 0..4 {
            let mut emitted = Vec::new();
            let mut drivers = open_all(&source, before, None);
            for (subtask, driver) in drivers.iter_mut().enumerate() {
                for _ in 0..polls * (subtask + 1) {
                    emitted.extend(driver.next(5).expect("the source reads").unwrap_or_default());
                }
            }
            let state = snapshot(&mut drivers);
            drop(drivers);
            let rest = rest(&mut open_all(&source, after, Some(&state)));
            same(
                [emitted, rest].concat(),
                &format!("restarted with parallelism {after} instead of {before}"),
            );
        }
    }

    // at the same parallelism every split stays where it was
    for parallelism in [2, 3, 5] {
        let mut drivers = open_all(&source, parallelism, None);
        for restore in 0..3 {
            for driver in &mut drivers {
                driver.next(5).expect("the source reads");
            }
            let state = snapshot(&mut drivers);
            drivers = open_all(&source, parallelism, Some(&state));
            for (subtask, (before, after)) in state.iter().zip(snapshot(&mut drivers)).enumerate() {
                let positions = |state: &OperatorSubtaskState| driver_positions(std::slice::from_ref(state));
                assert_eq!(
                    positions(before),
                    positions(&after),
                    "splits of subtask {subtask} of {parallelism} went elsewhere with restore {restore}"
                );
            }
        }
    }

    // what is done is not read again, and restores do not make the state grow
    let mut drivers = open_all(&source, 3, None);
    same(rest(&mut drivers), "read by three subtasks");
    let mut state = snapshot(&mut drivers);
    let size = |state: &[OperatorSubtaskState]| state.iter().map(OperatorSubtaskState::len).sum::<u64>();
    let before = size(&state);
    for restore in 0..30 {
        let mut drivers = open_all(&source, 1 + restore % 4, Some(&state));
        assert_eq!(rest(&mut drivers).len(), 0, "records were read again after the end");
        state = snapshot(&mut drivers);
        assert_eq!(size(&state), before, "the state changes its size with restore {restore}");
    }
}

/// The bytes of a snapshot, without how they are grouped.
fn driver_positions(states: &[OperatorSubtaskState]) -> Vec<u8> {
    let streams = states.iter().flat_map(OperatorSubtaskState::streams);
    let bytes = streams.map(|stream| match stream {
        stillstream_types::StreamHandle::Inline { bytes } => bytes.to_vec(),
        stillstream_types::StreamHandle::File { path, .. } => path.clone().into_bytes(),
    });
    bytes.collect::<Vec<_>>().concat()
}
