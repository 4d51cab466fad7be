//! Figures of a running job, counted once a batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Counts by name, over all subtasks of a process (late records, skipped rows, expired entries, and what
/// users count), and numbers that go up and down (how far a source is behind).
#[derive(Debug, Default)]
pub struct Counters {
    counts: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    /// Those of this process, and by its number those of each worker process.
    gauges: Mutex<BTreeMap<(Option<usize>, String), u64>>,
}

impl Counters {
    /// Adds to the count of `name`.
    pub fn add(&self, name: &str, n: u64) {
        if n == 0 {
            return;
        }
        let counts = self.counts.lock();
        match counts.get(name) {
            Some(count) => _ = count.fetch_add(n, Ordering::Relaxed),
            None => {
                drop(counts);
                self.handle(name).fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    /// Sets a number that goes up and down. In the figures of the job it is the sum over its processes, so
    /// only one subtask at a time should set it to something else than 0.
    pub fn set(&self, name: &str, n: u64) {
        self.gauges.lock().insert((None, name.to_string()), n);
    }

    /// The count of `name`, for those that count often.
    pub fn handle(&self, name: &str) -> Arc<AtomicU64> {
        self.counts.lock().entry(name.to_string()).or_default().clone()
    }

    /// All counts of what has happened at all, and all numbers.
    pub fn all(&self) -> BTreeMap<String, u64> {
        let mut all = self.counts();
        for ((_, name), n) in &*self.gauges.lock() {
            let sum = all.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
        all
    }

    /// What only grows.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let counts = self.counts.lock();
        let counted = counts.iter().map(|(name, count)| (name.clone(), count.load(Ordering::Relaxed)));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// What goes up and down in this process.
    pub(crate) fn gauges(&self) -> BTreeMap<String, u64> {
        let gauges = self.gauges.lock();
        let own = gauges.iter().filter(|((process, _), _)| process.is_none());
        own.map(|((_, name), n)| (name.clone(), *n)).collect()
    }

    /// Takes over what goes up and down in a worker process; nothing of it is left of one that is gone.
    pub(crate) fn learn(&self, process: usize, of_process: BTreeMap<String, u64>) {
        let mut gauges = self.gauges.lock();
        gauges.retain(|(owner, _), _| *owner != Some(process));
        gauges.extend(of_process.into_iter().map(|(name, n)| ((Some(process), name), n)));
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
    fn what_goes_up_and_down_is_the_sum_over_the_processes_that_are_there() {
        let (job, there) = (Counters::default(), Counters::default());
        there.set("lag.in-0", 7);
        there.add("late", 1);
        assert_eq!((there.gauges().len(), there.counts().len(), there.all().len()), (1, 1, 2));
        job.learn(1, there.gauges());
        job.set("lag.in-0", 2);
        assert_eq!(job.all()["lag.in-0"], 9);
        there.set("lag.in-0", 0);
        job.learn(1, there.gauges());
        assert_eq!(job.all()["lag.in-0"], 2);
        job.learn(1, BTreeMap::new());
        assert_eq!((job.all()["lag.in-0"], job.gauges().len()), (2, 1));
    }

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
