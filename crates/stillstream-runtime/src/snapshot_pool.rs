//! The threads that write snapshots: serialise, write, acknowledge.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;

use parking_lot::Mutex;
use stillstream_types::crash::crash_point;
use stillstream_types::threads::work_in_background;
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
        for n in 0..threads.max(1) {
            let (receiver, stores, clock, aborted) =
                (receiver.clone(), stores.clone(), clock.clone(), aborted.clone());
            let run = move || {
                work_in_background();
                loop {
                    let job = receiver.lock().recv();
                    let Ok(job) = job else { return };
                    if !aborted.lock().contains(&(job.generation, job.checkpoint)) {
                        write(job, &*stores, &*clock);
                    }
                }
            };
            std::thread::Builder::new().name(format!("snapshot-{n}")).spawn(run)?;
        }
        Ok(Arc::new(Self { jobs, aborted }))
    }

    pub(crate) fn submit(&self, job: SnapshotJob) {
        if let Err(mpsc::SendError(job)) = self.jobs.send(job) {
            let reason = "the snapshot threads have ended".to_string();
            let (checkpoint, subtask) = (job.checkpoint, job.subtask);
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
