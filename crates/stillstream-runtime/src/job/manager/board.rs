//! What clients read of a running job, and the result that it leaves.

use super::*;

impl Manager {
    pub(super) fn job_metrics(&self) -> JobMetrics {
        let mut metrics = JobMetrics { counters: self.counters.all(), ..JobMetrics::default() };
        self.fleet.metrics().iter().for_each(|worker| metrics.add(worker));
        metrics
    }

    /// What the run has come to so far.
    fn figures(&self) -> JobFigures {
        let (metrics, statistics) = (self.job_metrics(), self.coordinator.statistics());
        let last = statistics.last_completed.as_ref();
        let slowest = last.map_or(Duration::ZERO, |last| last.duration).max(self.state.slowest);
        JobFigures {
            records_in: metrics.records_in,
            records_out: metrics.records_out,
            duration_ms: ms(self.clock.elapsed().saturating_sub(self.state.started)),
            restarts: self.state.job.restarts(),
            resumed_from: self.state.resumed_from,
            checkpoints_completed: statistics.counts.completed,
            checkpoints_failed: statistics.counts.failed,
            last_checkpoint: last.map(|last| last.id),
            last_checkpoint_bytes: last.map_or(0, |last| last.size_bytes),
            slowest_checkpoint_ms: ms(slowest),
            counters: metrics.counters,
        }
    }

    /// Tells the coordinator what will be recorded with the job's end.
    pub(super) fn measure(&mut self) {
        let figures = self.figures();
        self.engine(Event::Measured { figures });
    }

    pub(super) fn publish(&mut self) {
        let metrics = self.job_metrics();
        self.say_progress(&metrics);
        let statistics = self.coordinator.statistics();
        if let Some(last) = &statistics.last_completed {
            self.state.slowest = self.state.slowest.max(last.duration);
        }
        let restarts = self.state.job.restarts();
        self.state.progress.show(
            self.clock.elapsed(),
            self.state.job.status(),
            &metrics,
            statistics,
            restarts,
        );
        let mut board = self.shared.board.lock();
        board.status = Some(self.state.job.status());
        board.restarts = restarts;
        board.statistics = statistics.clone();
        board.metrics = metrics;
        self.shared.changed.notify_all();
    }

    /// Local copies of checkpoints that no later start will restore.
    fn needless_copies(&self) -> Option<std::path::PathBuf> {
        let fenced = matches!(&self.state.result, Some(Err(error)) if error.kind() == ErrorKind::Fenced);
        // the copies of a job that another process has taken over are that one's
        if fenced || !self.checkpointing() || !self.coordinator.completed().is_empty() {
            return None;
        }
        let job = stillstream_types::JobId::from_name(&self.settings.name).to_string();
        self.settings.backend.local_copies(&job)
    }

    pub(super) fn end(mut self) {
        self.fleet.shutdown(self.settings.cancellation_timeout);
        // the metadata of a checkpoint that the end cut short may be on its way: it has to go again
        self.io.finish_main();
        while let Ok(message) = self.messages.try_recv() {
            if let Message::Engine(event @ Event::MetadataWritten { .. }) = message {
                self.engine(event);
            }
        }
        let (home, copies) = (self.home.clone(), self.needless_copies());
        self.io.run_low(move || {
            home.tidy();
            // a cache: what cannot be deleted costs only its room on the disk
            let _ = copies.map(std::fs::remove_dir_all);
            // nobody waits for an answer
            Message::Engine(Event::Tick)
        });
        self.io.finish();
        // before anybody learns of the end: the next start may follow at once
        self.home.release();
        self.state.progress.clear();
        let metrics = self.job_metrics();
        let mut result = JobResult::of(&self.settings.name, self.figures());
        result.duration = self.clock.elapsed().saturating_sub(self.state.started);
        result.checkpoints.slowest = self.state.slowest;
        let ended = self
            .state
            .result
            .take()
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Peer, "the JobManager ended early")));
        self.say_end(&ended, &result);
        let statistics = self.coordinator.statistics();
        let mut board = self.shared.board.lock();
        board.status = Some(self.state.job.status());
        board.statistics = statistics.clone();
        board.metrics = metrics;
        board.result = Some(ended.map(|()| result));
        board.ended = true;
        drop(board);
        self.shared.changed.notify_all();
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
