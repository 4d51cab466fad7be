//! The threads that write snapshots: serialise, write, acknowledge.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use stillstream_types::crash::crash_point;
use stillstream_types::{
    CheckpointId, Generation, OperatorId, Result, ResultExt, SubtaskId, TaskSnapshot, streams::SnapshotStore,
};

use crate::catch::catch;
use crate::clock::Clock;
use crate::control::{Report, SnapshotTimes};
use crate::operator::AsyncSnapshot;
use crate::shared::ReportSink;

/// Opens stores for the snapshots of a job.
pub trait SnapshotStores: Send + Sync + fmt::Debug {
    /// The store for what `label` (a subtask) writes for a checkpoint.
    fn store(&self, checkpoint: CheckpointId, label: &str) -> Result<Box<dyn SnapshotStore>>;
    /// A store that reads what earlier checkpoints of the job wrote, or a snapshot of another job at `location`.
    fn reader(&self, location: Option<&str>) -> Result<Arc<dyn SnapshotStore>>;
}

/// The asynchronous part of one task's snapshot.
pub(crate) struct SnapshotJob {
    pub generation: Generation,
    pub checkpoint: CheckpointId,
    pub subtask: SubtaskId,
    pub parts: Vec<(OperatorId, Arc<str>, AsyncSnapshot)>,
    pub times: SnapshotTimes,
    pub reports: Arc<dyn ReportSink>,
}

/// A few threads that carry out the asynchronous parts, in the order in which they come.
pub struct SnapshotPool {
    jobs: mpsc::Sender<SnapshotJob>,
    aborted: Arc<Mutex<BTreeSet<(Generation, CheckpointId)>>>,
    open: Arc<Open>,
}

/// Parts that are not done yet.
#[derive(Default)]
struct Open {
    state: Mutex<OpenState>,
    changed: Condvar,
}

#[derive(Default)]
struct OpenState {
    parts: BTreeMap<Generation, usize>,
    /// Parts of this generation, and older ones, are not begun any more.
    stopped: Option<Generation>,
}

impl Open {
    fn add(&self, generation: Generation) {
        *self.state.lock().parts.entry(generation).or_default() += 1;
    }

    fn is_stopped(&self, generation: Generation) -> bool {
        self.state.lock().stopped.is_some_and(|stopped| generation <= stopped)
    }

    fn done(&self, generation: Generation) {
        let mut state = self.state.lock();
        if let Some(parts) = state.parts.get_mut(&generation) {
            *parts -= 1;
            if *parts == 0 {
                state.parts.remove(&generation);
            }
        }
        self.changed.notify_all();
    }
}

impl fmt::Debug for SnapshotPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SnapshotPool")
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
        let (jobs, receiver) = mpsc::channel::<SnapshotJob>();
        let receiver = Arc::new(Mutex::new(receiver));
        let aborted: Arc<Mutex<BTreeSet<_>>> = Arc::default();
        let open: Arc<Open> = Arc::default();
        for n in 0..threads.max(1) {
            let (receiver, stores, clock, aborted, open) =
                (receiver.clone(), stores.clone(), clock.clone(), aborted.clone(), open.clone());
            let run = move || {
                loop {
                    let job = receiver.lock().recv();
                    let Ok(job) = job else { return };
                    let (generation, checkpoint) = (job.generation, job.checkpoint);
                    if !open.is_stopped(generation) && !aborted.lock().contains(&(generation, checkpoint)) {
                        write(job, &*stores, &*clock);
                    }
                    open.done(generation);
                }
            };
            std::thread::Builder::new().name(format!("snapshot-{n}")).spawn(run)?;
        }
        Ok(Arc::new(Self { jobs, aborted, open }))
    }

    /// Ends a generation: parts that have not begun are dropped, and those that are under way are waited for, at most so
    /// long. Says whether none is left: what one of them wrote later, nobody would delete.
    pub(crate) fn settle(&self, generation: Generation, at_most: Duration) -> bool {
        let mut state = self.open.state.lock();
        state.stopped = state.stopped.max(Some(generation));
        let left = |state: &mut OpenState| state.parts.keys().any(|open| *open <= generation);
        !self.open.changed.wait_while_for(&mut state, left, at_most).timed_out()
    }

    pub(crate) fn submit(&self, job: SnapshotJob) {
        self.open.add(job.generation);
        if let Err(mpsc::SendError(job)) = self.jobs.send(job) {
            let reason = "the snapshot threads have ended".to_string();
            let (checkpoint, subtask) = (job.checkpoint, job.subtask);
            self.open.done(job.generation);
            job.reports.report(job.generation, Report::Declined { checkpoint, subtask, reason });
        }
    }

    /// Parts of this checkpoint that have not begun are dropped.
    pub(crate) fn abort(&self, generation: Generation, checkpoint: CheckpointId) {
        let mut aborted = self.aborted.lock();
        aborted.insert((generation, checkpoint));
        while aborted.len() > 64 {
            aborted.pop_first();
        }
    }
}

fn write(job: SnapshotJob, stores: &dyn SnapshotStores, clock: &dyn Clock) {
    let SnapshotJob { generation, checkpoint, subtask, parts, mut times, reports } = job;
    let begun = clock.elapsed();
    let written = catch("writing the snapshot", || {
        let store = stores.store(checkpoint, &format!("{}-{}", subtask.vertex, subtask.index))?;
        let mut snapshot = TaskSnapshot::default();
        for (operator, name, part) in parts {
            crash_point("during-snapshot")?;
            let state = part(&*store).context(|| format!("state of operator `{name}`"))?;
            snapshot.operators.push((operator, state));
        }
        Ok(snapshot)
    });
    times.async_us = clock.elapsed().saturating_sub(begun).as_micros() as u64;
    let report = match written {
        Ok(snapshot) => Report::Acknowledged { checkpoint, subtask, snapshot, times },
        Err(error) => Report::Declined { checkpoint, subtask, reason: error.to_string() },
    };
    reports.report(generation, report);
}
