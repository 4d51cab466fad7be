//! The suite of bounded sources.

use std::fmt::Debug;
use std::sync::Arc;

use stillstream_runtime::SourceStatus;
use stillstream_runtime::clock::{Clock, SystemClock};
use stillstream_runtime::connect::SplitSource;
use stillstream_types::{OperatorSubtaskState, StreamHandle};

use crate::driver::DEADLINE;
use crate::job::{Job, JobState};

/// Polls a reader until records come (`true`) or it has ended.
fn next<S: SplitSource>(job: &mut Job<S>, reader: usize, max_records: usize) -> bool {
    let clock = SystemClock::default();
    loop {
        let (came, status) = job.poll(reader, max_records);
        if came > 0 || status == SourceStatus::Ended {
            return came > 0;
        }
        job.deliver_all();
        assert!(clock.elapsed() < DEADLINE, "the source says {status:?} for {DEADLINE:?}");
        std::thread::yield_now();
    }
}

fn read_all<S: SplitSource>(job: &mut Job<S>) {
    for reader in 0..job.readers() {
        while next(job, reader, 1000) {}
    }
}

/// Reads what is left behind this checkpoint.
fn rest<S: SplitSource>(source: &Arc<S>, parallelism: usize, state: &JobState) -> Vec<S::Item> {
    let mut job = Job::begin(source, parallelism, Some(state));
    read_all(&mut job);
    job.emitted()
}

/// The bytes of a snapshot, without how they are grouped.
fn positions(states: &[OperatorSubtaskState]) -> Vec<u8> {
    let streams = states.iter().flat_map(OperatorSubtaskState::streams);
    let bytes = streams.map(|stream| match stream {
        StreamHandle::Inline { bytes } => bytes.to_vec(),
        StreamHandle::File { path, .. } => path.clone().into_bytes(),
    });
    bytes.collect::<Vec<_>>().concat()
}

/// Checks a bounded source that reads `expected` records, in any order: restarts after every poll, restarts
/// with another parallelism while subtasks are at different points, checkpoints whose barrier comes before or
/// behind the splits, restarts at the end, that splits stay with their subtask at an unchanged parallelism, and
/// the size of its state over many restarts.
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

    let mut job = Job::begin(&source, 1, None);
    read_all(&mut job);
    same(job.emitted(), "read in one go");

    // restart after every poll
    let mut emitted = Vec::new();
    let mut job = Job::begin(&source, 1, None);
    loop {
        let (state, covered) = job.checkpoint();
        emitted.extend(covered);
        let (again, _) = job.checkpoint();
        assert_eq!(state, again, "two snapshots without a poll between them are equal");
        let (restored, _) = Job::begin(&source, 1, Some(&state)).checkpoint();
        assert_eq!(
            positions(&restored.readers),
            positions(&state.readers),
            "a restored source is where the snapshot was"
        );
        let when = format!("restarted after {} records", emitted.len());
        same([emitted.clone(), rest(&source, 1, &state)].concat(), &when);
        if !next(&mut job, 0, 7) {
            break;
        }
    }

    // restart with another parallelism, subtasks at different points
    for (before, after) in [(1, 3), (2, 2), (3, 1), (4, 3), (2, 7)] {
        for polls in 0..4 {
            let mut job = Job::begin(&source, before, None);
            for reader in 0..before {
                for _ in 0..polls * (reader + 1) {
                    next(&mut job, reader, 5);
                }
            }
            let (state, covered) = job.checkpoint();
            drop(job);
            let when = format!("restarted with parallelism {after} instead of {before}");
            same([covered, rest(&source, after, &state)].concat(), &when);
        }
    }

    // the barrier comes before the splits are found, and while they are on their way
    for (before, after) in [(1, 2), (3, 1)] {
        for triggered_first in [true, false] {
            let mut job = Job::open(&source, before, None);
            if triggered_first {
                job.trigger();
            }
            job.discover();
            job.trigger();
            job.deliver_all();
            let (state, covered) = job.completed().expect("all readers have taken the barrier");
            read_all(&mut job);
            let when = format!("a barrier {} the splits", if triggered_first { "before" } else { "behind" });
            same([covered, rest(&source, after, &state)].concat(), &when);
        }
    }

    // at the same parallelism every split stays where it was
    for parallelism in [2, 3, 5] {
        let mut job = Job::begin(&source, parallelism, None);
        for restore in 0..3 {
            for reader in 0..parallelism {
                next(&mut job, reader, 5);
            }
            let (state, _) = job.checkpoint();
            job = Job::begin(&source, parallelism, Some(&state));
            let (again, _) = job.checkpoint();
            for (subtask, (before, after)) in state.readers.iter().zip(&again.readers).enumerate() {
                assert_eq!(
                    positions(std::slice::from_ref(before)),
                    positions(std::slice::from_ref(after)),
                    "splits of subtask {subtask} of {parallelism} went elsewhere with restore {restore}"
                );
            }
        }
    }

    // what is done is not read again, and restores do not make the state grow
    let mut job = Job::begin(&source, 3, None);
    read_all(&mut job);
    same(job.emitted(), "read by three subtasks");
    let (mut state, _) = job.checkpoint();
    let before = state.len();
    for restore in 0..30 {
        let mut job = Job::begin(&source, 1 + restore % 4, Some(&state));
        read_all(&mut job);
        assert_eq!(job.emitted().len(), 0, "records were read again after the end");
        (state, _) = job.checkpoint();
        assert_eq!(state.len(), before, "the state changes its size with restore {restore}");
    }
}
