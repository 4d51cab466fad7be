//! What clients read of a running job, and the result that it leaves.

use stillstream_jobmaster::Measured;
use stillstream_types::JobOutcome;

use super::*;

impl Manager {
    pub(super) fn job_metrics(&self) -> JobMetrics {
        let mut metrics = JobMetrics { counters: self.counters.all(), ..JobMetrics::default() };
        self.fleet.metrics().iter().for_each(|worker| metrics.add(worker));
        metrics
    }

    /// What the workers have counted.
    pub(super) fn measure(&self) -> Measured {
        let JobMetrics { records_in, records_out, counters, .. } = self.job_metrics();
        Measured { records_in, records_out, counters }
    }

    pub(super) fn publish(&mut self) {
        let metrics = self.job_metrics();
        self.say_progress(&metrics);
        let (statistics, restarts) = (self.engine.statistics(), self.engine.restarts());
        let status = self.engine.status();
        self.state.progress.show(self.clock.elapsed(), status, &metrics, statistics, restarts);
        let mut published = self.shared.published.lock();
        published.status = Some(status);
        published.restarts = restarts;
        published.status_times.clone_from(&self.state.status_times);
        published.in_progress = match statistics.counts.in_progress {
            0 => Vec::new(),
            _ => self.engine.in_progress(),
        };
        published.kept = self.engine.completed().iter().map(|checkpoint| checkpoint.id).collect();
        published.restored.clone_from(&self.state.restored);
        published.exceptions = self.engine.exceptions().cloned().collect();
        published.statistics = statistics.clone();
        published.metrics = metrics;
        self.shared.changed.notify_all();
    }

    /// Local copies of checkpoints that no later start will restore.
    fn needless_copies(&self) -> Option<std::path::PathBuf> {
        let fenced = matches!(&self.state.result, Some(Err(error)) if error.kind() == ErrorKind::Fenced);
        // the copies of a job that another process has taken over are that one's
        let checkpointing = self.settings.checkpoint.interval.is_some();
        if fenced || !checkpointing || !self.engine.completed().is_empty() {
            return None;
        }
        let job = stillstream_types::JobId::from_name(&self.settings.name).to_string();
        self.settings.backend.local_copies(&job)
    }

    /// How the job has ended, if it has ended well.
    fn ending(&self) -> JobEnding {
        match (self.engine.good_end(), self.state.savepoint.clone()) {
            (Some(JobOutcome::Stopped), Some(savepoint)) => JobEnding::Stopped(savepoint),
            (Some(JobOutcome::Suspended), _) => {
                let (checkpoint, kept) = (self.engine.latest_completed(), self.checkpoints.is_durable());
                JobEnding::Suspended { checkpoint, kept }
            }
            _ => JobEnding::Finished,
        }
    }

    pub(super) fn end(mut self) {
        self.fleet.shutdown(self.settings.cancellation_timeout);
        // the metadata of a checkpoint that the end cut short may be on its way: it has to go again
        self.io.finish_main();
        while let Ok(message) = self.messages.try_recv() {
            if let Message::Event(event @ JobEvent::Storage(StorageAnswer::MetadataWritten { .. })) = message
            {
                self.handle(event);
            }
        }
        let (checkpoints, copies) = (self.checkpoints.clone(), self.needless_copies());
        self.io.run_low(move || {
            checkpoints.tidy();
            // a cache: what cannot be deleted costs only its room on the disk
            let _ = copies.map(std::fs::remove_dir_all);
            // nobody waits for an answer
            JobEvent::Tick
        });
        self.io.finish();
        // before anybody learns of the end: the next start may follow at once
        self.checkpoints.release();
        self.state.progress.clear();
        self.handle(JobEvent::Measured(self.measure()));
        let metrics = self.job_metrics();
        let mut result = JobResult::of(&self.settings.name, self.engine.figures());
        result.duration = self.clock.elapsed().saturating_sub(self.state.started);
        result.checkpoints.slowest = self.engine.slowest_checkpoint();
        let ended = self
            .state
            .result
            .take()
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Peer, "the JobManager ended early")));
        result.ending = self.ending();
        self.say_end(&ended, &result);
        let statistics = self.engine.statistics();
        let mut published = self.shared.published.lock();
        published.status = Some(self.engine.status());
        published.status_times = self.state.status_times;
        published.in_progress.clear();
        published.exceptions = self.engine.exceptions().cloned().collect();
        published.kept = self.engine.completed().iter().map(|checkpoint| checkpoint.id).collect();
        published.statistics = statistics.clone();
        published.metrics = metrics;
        published.result = Some(ended.map(|()| result));
        drop(published);
        // with the end the process may end: whoever has still to say what became of the job does so first
        self.shared.await_holds(&*self.clock);
        self.shared.published.lock().ended = true;
        self.shared.changed.notify_all();
    }
}
