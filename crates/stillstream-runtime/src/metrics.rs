//! Figures of a running job, counted once a batch.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Counts by name, for rare events: late records, skipped rows, expired entries.
#[derive(Debug, Default)]
pub struct Counters(Mutex<BTreeMap<String, u64>>);

impl Counters {
    /// Adds to the count of `name`.
    pub fn add(&self, name: &str, n: u64) {
        if n == 0 {
            return;
        }
        let mut counts = self.0.lock();
        match counts.get_mut(name) {
            Some(count) => *count += n,
            None => {
                counts.insert(name.to_string(), n);
            }
        }
    }

    /// All counts.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }
}

/// What one worker is doing, written by it and read by the JobManager.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    /// Records that sources emitted.
    pub records_in: AtomicU64,
    /// Records that reached an operator without outputs.
    pub records_out: AtomicU64,
    /// Number of task activations so far in the upper bits, and in the lower 16 the task that runs now plus one, or 0.
    activity: AtomicU64,
    /// The most that was ever set aside or in flight on one edge.
    pub max_in_flight: AtomicU64,
}

/// [`WorkerMetrics`] in a message.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct WorkerFigures {
    #[prost(uint64, tag = "1")]
    records_in: u64,
    #[prost(uint64, tag = "2")]
    records_out: u64,
    #[prost(uint64, tag = "3")]
    activity: u64,
    #[prost(uint64, tag = "4")]
    max_in_flight: u64,
}

impl WorkerMetrics {
    pub(crate) fn enter(&self, vertex: u32) {
        let turn = (self.activity.load(Ordering::Relaxed) >> 16) + 1;
        self.activity.store(turn << 16 | (vertex as u64 + 1), Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        let turn = self.activity.load(Ordering::Relaxed) >> 16;
        self.activity.store(turn << 16, Ordering::Relaxed);
    }

    /// Everything, for the way to the JobManager.
    pub(crate) fn figures(&self) -> WorkerFigures {
        WorkerFigures {
            records_in: self.records_in.load(Ordering::Relaxed),
            records_out: self.records_out.load(Ordering::Relaxed),
            activity: self.activity.load(Ordering::Relaxed),
            max_in_flight: self.max_in_flight.load(Ordering::Relaxed),
        }
    }

    /// Takes over what another process counted.
    pub(crate) fn learn(&self, figures: WorkerFigures) {
        let WorkerFigures { records_in, records_out, activity, max_in_flight } = figures;
        self.records_in.store(records_in, Ordering::Relaxed);
        self.records_out.store(records_out, Ordering::Relaxed);
        self.activity.store(activity, Ordering::Relaxed);
        self.max_in_flight.store(max_in_flight, Ordering::Relaxed);
    }

    /// A number that changes with every activation, and the task that is being run now.
    pub fn activity(&self) -> (u64, Option<u32>) {
        let activity = self.activity.load(Ordering::Relaxed);
        (activity, ((activity & 0xffff) as u32).checked_sub(1))
    }
}
