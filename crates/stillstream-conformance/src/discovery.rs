//! The suite of sources that find splits while they run.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::clock::{Clock, SystemClock};
use stillstream_runtime::connect::SplitSource;

use crate::driver::DEADLINE;
use crate::job::{Job, JobState};

/// A source whose input grows by splits, as the suite sees it.
pub trait DiscoveryTarget {
    /// The source.
    type Source: SplitSource<Item: Ord + Debug>;
    /// A source that reads this input.
    fn source(&self) -> Self::Source;
    /// Another split appears, with these records: others than all before.
    fn add(&mut self) -> Vec<<Self::Source as SplitSource>::Item>;
}

/// What may happen to the source, in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// A split appears.
    Add,
    /// The enumerator looks, and what it assigns is on its way.
    Discover,
    /// A checkpoint is triggered.
    Trigger,
    /// Each reader takes a message: an assignment, or a barrier.
    Deliver,
    /// Each reader is asked for records.
    Read,
}

const STEPS: [Step; 5] = [Step::Add, Step::Discover, Step::Trigger, Step::Deliver, Step::Read];

/// So long readers may take for the records of one step; that none came then is no fault.
const READ: Duration = Duration::from_millis(20);

type Item<T> = <<T as DiscoveryTarget>::Source as SplitSource>::Item;

/// Has splits appear in every sequence of `steps` steps: a split appears, the enumerator looks, a checkpoint is
/// triggered, readers take a message, readers read. After each sequence everything crashes, and goes on from the
/// last completed checkpoint with another parallelism: an assignment in flight at the barrier, one that was taken
/// and is in no checkpoint, a split that nobody had found. Five steps are 3125 runs, four are 625.
///
/// # Panics
/// If a record is lost or read twice.
pub fn discovery<T: DiscoveryTarget>(steps: u32, fresh: impl Fn() -> T) {
    fresh().source().validate().expect("the source is valid");
    let runs = STEPS.len().pow(steps);
    for run in 0..runs {
        let digit = |at: u32| STEPS[run / STEPS.len().pow(at) % STEPS.len()];
        let sequence: Vec<Step> = (0..steps).map(digit).collect();
        let (before, after) = [(1, 2), (2, 1), (2, 2), (2, 3)][run % 4];
        let mut target = fresh();
        let expected = target.add();
        crashing_run(&mut target, expected, &sequence, before, after);
    }
}

fn crashing_run<T: DiscoveryTarget>(
    target: &mut T,
    mut expected: Vec<Item<T>>,
    sequence: &[Step],
    before: usize,
    after: usize,
) {
    let source = Arc::new(target.source());
    let mut job = Job::open(&source, before, None);
    let (mut completed, mut covered): (Option<JobState>, Vec<Item<T>>) = (None, Vec::new());
    for step in sequence {
        match step {
            Step::Add => expected.extend(target.add()),
            Step::Discover => job.discover(),
            Step::Trigger => drop(job.trigger()),
            Step::Deliver => drop(job.deliver()),
            Step::Read => read(&mut job),
        }
        if let Some((state, records)) = job.completed() {
            completed = Some(state);
            covered.extend(records);
        }
    }
    drop(job);
    let mut job = Job::begin(&source, after, completed.as_ref());
    let when = || format!("{sequence:?}, parallelism {before} and then {after}");
    let clock = SystemClock::default();
    while covered.len() + job.emitted().len() < expected.len() {
        poll_all(&mut job);
        job.deliver_all();
        let found = job.emitted();
        assert!(clock.elapsed() < DEADLINE, "{}: only {covered:?} and {found:?} came", when());
        std::thread::yield_now();
    }
    // nothing comes twice, also behind a checkpoint in which everything is read
    poll_all(&mut job);
    let (state, records) = job.checkpoint();
    covered.extend(records);
    let mut job = Job::begin(&source, before, Some(&state));
    read(&mut job);
    let mut found = [covered, job.emitted()].concat();
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "{}", when());
}

fn poll_all<S: SplitSource>(job: &mut Job<S>) {
    for reader in 0..job.readers() {
        job.poll(reader, 5);
    }
}

/// Each reader is asked for records, until one has some or it is clear that none come.
fn read<S: SplitSource>(job: &mut Job<S>) {
    let clock = SystemClock::default();
    for reader in 0..job.readers() {
        while job.poll(reader, 2).0 == 0 && !job.has_none(reader) && clock.elapsed() < READ {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
