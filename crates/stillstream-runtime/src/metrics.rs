//! Figures of a running job, counted once a batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Counts by name, over all subtasks of a process: late records, skipped rows, expired entries, and what
/// users count.
#[derive(Debug, Default)]
pub struct Counters(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counters {
    /// Adds to the count of `name`.
    pub fn add(&self, name: &str, n: u64) {
        if n == 0 {
            return;
        }
        let counts = self.0.lock();
        match counts.get(name) {
            Some(count) => _ = count.fetch_add(n, Ordering::Relaxed),
            None => {
                drop(counts);
                self.handle(name).fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    /// The count of `name`, for those that count often.
    pub fn handle(&self, name: &str) -> Arc<AtomicU64> {
        self.0.lock().entry(name.to_string()).or_default().clone()
    }

    /// All counts of what has happened at all.
    pub fn all(&self) -> BTreeMap<String, u64> {
        let counts = self.0.lock();
        let counted = counts.iter().map(|(name, count)| (name.clone(), count.load(Ordering::Relaxed)));
        counted.filter(|(_, count)| *count > 0).collect()
    }
}

/// Declares the figures that each worker counts. A line is a figure: what it is, its name, and what the
/// figures of all workers together are, `sum` or `most`. Nothing else has to know of it: the figures of a
/// worker go to the JobManager as a row of numbers, and the job's figures have the same names.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident: $together:ident,)*) => {
        /// What one worker is doing, written by it and read by the JobManager.
        #[derive(Debug, Default)]
        pub struct WorkerMetrics {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// The number of activations of tasks so far in the upper bits, and in the lower 16 the task that
            /// runs now plus one, or 0.
            activity: AtomicU64,
        }

        /// Figures of a running job.
        #[derive(Clone, Debug, Default)]
        pub struct JobMetrics {
            $($(#[$doc])* pub $name: u64,)*
            /// Rare events by name.
            pub counters: BTreeMap<String, u64>,
        }

        impl WorkerMetrics {
            /// How many numbers a worker's figures are.
            pub(crate) const FIGURES: usize = [$(stringify!($name)),*].len() + 1;

            fn all(&self) -> [&AtomicU64; Self::FIGURES] {
                [$(&self.$name,)* &self.activity]
            }
        }

        impl JobMetrics {
            /// Takes in what a worker has counted.
            pub(crate) fn add(&mut self, worker: &WorkerMetrics) {
                $(self.$name = $together(self.$name, worker.$name.load(Ordering::Relaxed));)*
            }
        }
    };
}

figures! {
    /// Records that sources emitted.
    records_in: sum,
    /// Records that reached an operator without outputs.
    records_out: sum,
    /// The most records that were ever in flight on one edge to one worker, as of the end of the last
    /// attempt.
    max_in_flight: most,
}

fn sum(a: u64, b: u64) -> u64 {
    a.saturating_add(b)
}

fn most(a: u64, b: u64) -> u64 {
    a.max(b)
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

    /// Everything as numbers, for the way to the JobManager.
    pub(crate) fn figures(&self) -> [u64; Self::FIGURES] {
        self.all().map(|figure| figure.load(Ordering::Relaxed))
    }

    /// Takes over what another process counted.
    pub(crate) fn learn(&self, figures: &[u64]) {
        self.all().into_iter().zip(figures).for_each(|(own, figure)| own.store(*figure, Ordering::Relaxed));
    }

    /// A number that changes with every activation, and the task that is being run now.
    pub fn activity(&self) -> (u64, Option<u32>) {
        let activity = self.activity.load(Ordering::Relaxed);
        (activity, ((activity & 0xffff) as u32).checked_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_counted_elsewhere_is_added_up_here() {
        let mut job = JobMetrics::default();
        for counted in [(3, 2, 10), (4, 1, 7)] {
            let (there, here) = (WorkerMetrics::default(), WorkerMetrics::default());
            there.records_in.store(counted.0, Ordering::Relaxed);
            there.records_out.store(counted.1, Ordering::Relaxed);
            there.max_in_flight.store(counted.2, Ordering::Relaxed);
            there.enter(5);
            here.learn(&there.figures());
            assert_eq!(here.activity(), there.activity());
            job.add(&here);
        }
        assert_eq!((job.records_in, job.records_out, job.max_in_flight), (7, 3, 10));
    }
}
