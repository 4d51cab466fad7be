//! The threads that write snapshots: serialise, write, acknowledge.
//!
//! Work belongs to a generation. Before a worker says that it has stopped, it *retires* its generation: what
//! waits is thrown away, what is under way is awaited, what still comes is refused. So nothing that a dead
//! attempt started, such as the pre-commit of a transaction, has an effect after the next attempt has been
//! opened or the job has ended.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use stillstream_types::crash::crash_point;
use stillstream_types::threads::work_in_background;
use stillstream_types::{
    CheckpointId, Error, ErrorKind, Generation, OperatorId, Result, ResultExt, SavepointTarget, SubtaskId,
    TaskSnapshot, streams::SnapshotStore,
};

use crate::catch::{catch, catch_on_thread, spawn};
use crate::clock::Clock;
use crate::control::{AckMetrics, Report, ReportSink};
use crate::operator::AsyncSnapshot;

/// A worker that waits this long for a snapshot under way says so in the log, again and again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens stores for the snapshots of a job.
pub trait SnapshotStores: Send + Sync + fmt::Debug {
    /// The store for what `label` (a subtask) writes for a checkpoint, or for a savepoint: into its own
    /// directory then, wherever checkpoints go.
    fn store(
        &self,
        checkpoint: CheckpointId,
        label: &str,
        savepoint: Option<&SavepointTarget>,
    ) -> Result<Box<dyn SnapshotStore>>;
    /// A store that reads what earlier checkpoints of the job wrote, or a snapshot of another job at
    /// `location`.
    fn reader(&self, location: Option<&str>) -> Result<Arc<dyn SnapshotStore>>;
}

/// The asynchronous part of one task's snapshot.
pub(crate) struct SnapshotJob {
    pub generation: Generation,
    pub checkpoint: CheckpointId,
    /// The savepoint that it is; `None` for a checkpoint.
    pub savepoint: Option<SavepointTarget>,
    pub subtask: SubtaskId,
    pub parts: Vec<(OperatorId, Arc<str>, AsyncSnapshot)>,
    pub metrics: AckMetrics,
    pub reports: Arc<dyn ReportSink>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<SnapshotJob>,
    running: Vec<(Generation, CheckpointId, SubtaskId)>,
    aborted: BTreeSet<(Generation, CheckpointId)>,
    /// Work of this generation, and of those before it, is refused.
    retired: Option<Generation>,
    /// The pool was dropped: its threads end when nothing waits.
    closed: bool,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    /// The next job, or `None` when the pool is gone.
    fn next(&self) -> Option<SnapshotJob> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.running.push((job.generation, job.checkpoint, job.subtask));
                return Some(job);
            }
            if state.closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    fn is_retired(&self, generation: Generation) -> bool {
        self.state.lock().retired >= Some(generation)
    }

    fn is_aborted(&self, generation: Generation, checkpoint: CheckpointId) -> bool {
        self.state.lock().aborted.contains(&(generation, checkpoint))
    }

    fn done(&self, job: (Generation, CheckpointId, SubtaskId)) {
        let mut state = self.state.lock();
        if let Some(at) = state.running.iter().position(|running| *running == job) {
            state.running.swap_remove(at);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// A thread of the pool.
    fn work(&self, stores: &dyn SnapshotStores, clock: &dyn Clock) {
        work_in_background();
        while let Some(job) = self.next() {
            let key = (job.generation, job.checkpoint, job.subtask);
            let (generation, checkpoint, subtask) = key;
            let reports = job.reports.clone();
            let worked = catch_on_thread(|| {
                if !self.is_aborted(generation, checkpoint) {
                    self.write(job, stores, clock);
                }
                Ok(())
            });
            if let Err(error) = worked {
                reports.report(generation, Report::Failed { subtask: Some(subtask), error });
            }
            self.done(key);
        }
    }

    fn write(&self, job: SnapshotJob, stores: &dyn SnapshotStores, clock: &dyn Clock) {
        let SnapshotJob { generation, checkpoint, savepoint, subtask, parts, mut metrics, reports } = job;
        let begun = clock.elapsed();
        let written = catch("writing the snapshot", || {
            let label = format!("{}-{}", subtask.vertex, subtask.index);
            let store = stores.store(checkpoint, &label, savepoint.as_ref())?;
            let mut snapshot = TaskSnapshot::default();
            for (operator, name, part) in parts {
                if self.is_retired(generation) {
                    return Err(Error::new(ErrorKind::Checkpoint, "the attempt has ended"));
                }
                crash_point("during-snapshot")?;
                let state = part(&*store).context(|| format!("state of operator `{name}`"))?;
                snapshot.operators.push((operator, state));
            }
            Ok(snapshot)
        });
        metrics.asynchronous = clock.elapsed().saturating_sub(begun);
        let report = match written {
            Ok(snapshot) => Report::Acknowledged { checkpoint, subtask, snapshot, metrics },
            Err(error) => Report::Declined { checkpoint, subtask, reason: error.to_string() },
        };
        reports.report(generation, report);
    }
}

/// A few threads that carry out the asynchronous parts, in the order in which they come.
pub struct SnapshotPool(Arc<Queue>);

impl fmt::Debug for SnapshotPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SnapshotPool")
    }
}

impl Drop for SnapshotPool {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.changed.notify_all();
    }
}

impl SnapshotPool {
    /// Starts `threads` threads; they end when the pool is dropped and its jobs are done.
    ///
    /// # Errors
    /// If the system gives no more threads.
    pub fn start(
        threads: usize,
        stores: Arc<dyn SnapshotStores>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        let pool = Arc::new(Self(Arc::default()));
        for n in 0..threads.max(1) {
            let (queue, stores, clock) = (pool.0.clone(), stores.clone(), clock.clone());
            let run = move || queue.work(&*stores, &*clock);
            spawn(format!("snapshot-{n}"), run, |error| tracing::error!("{error}"))?;
        }
        Ok(pool)
    }

    /// Work of a retired generation is refused without a word: nobody waits for it any more.
    pub(crate) fn submit(&self, job: SnapshotJob) {
        let mut state = self.0.state.lock();
        if state.retired >= Some(job.generation) {
            drop(state);
            return;
        }
        state.waiting.push_back(job);
        drop(state);
        self.0.changed.notify_all();
    }

    /// Parts of this checkpoint that have not begun are dropped.
    pub(crate) fn abort(&self, generation: Generation, checkpoint: CheckpointId) {
        let mut state = self.0.state.lock();
        state.aborted.insert((generation, checkpoint));
        while state.aborted.len() > 64 {
            state.aborted.pop_first();
        }
    }

    /// Ends the work of this generation and of those before it; returns when none of it is under way.
    ///
    /// It has no deadline of its own: who waits for the worker has one (`task.cancellation.timeout`).
    pub(crate) fn retire(&self, generation: Generation) {
        let mut state = self.0.state.lock();
        state.retired = state.retired.max(Some(generation));
        let old = |job: &SnapshotJob| job.generation <= generation;
        let (dropped, kept) = std::mem::take(&mut state.waiting).into_iter().partition(old);
        state.waiting = kept;
        // what a snapshot holds may take a while to let go, and others need the lock
        drop(state);
        drop::<VecDeque<SnapshotJob>>(dropped);
        let mut state = self.0.state.lock();
        loop {
            let running: Vec<_> = state.running.iter().filter(|(of, ..)| *of <= generation).collect();
            let Some((_, checkpoint, subtask)) = running.first() else { return };
            let text = format!("the snapshot of subtask {subtask} for checkpoint {checkpoint}");
            if self.0.changed.wait_for(&mut state, PATIENCE).timed_out() {
                tracing::warn!("a worker that stops is still waiting for {text} to be written");
            }
        }
    }
}

#[cfg(test)]
#[path = "snapshot_pool_tests.rs"]
mod tests;
