//! What the JobManager writes into the log. Which lines, and how often, is decided in `job_log`.

use stillstream_jobmaster::{CheckpointSummary, JobStatus, Level, RestoredState};

use super::*;
use crate::job::job_log::{Now, UnderWay, count, subtask_name, time};

/// A failure that repeats itself so often is said to do so.
const REPEATED: u64 = 3;

impl Manager {
    pub(super) fn write(&mut self, level: Level, text: &str) {
        // a line of the log must not be the end of the progress line
        self.state.progress.clear();
        let job = &self.settings.name;
        match level {
            Level::Debug => tracing::debug!(%job, "{text}"),
            Level::Info => tracing::info!(%job, "{text}"),
            Level::Warn => tracing::warn!(%job, "{text}"),
            Level::Error => tracing::error!(%job, "{text}"),
        }
    }

    /// Warns; of a flood of warnings that differ in numbers only a few are written, and how many there were.
    pub(super) fn warn(&mut self, text: &str) {
        if let Some(text) = self.state.log.warning(text, self.clock.elapsed()) {
            self.write(Level::Warn, &text);
        }
    }

    /// Where an attempt begins. A job that has no checkpoint hears which others have some in the same place.
    pub(super) fn say_start(&mut self, restored: Option<&RestoredState>) {
        let (job, place) = (self.settings.name.clone(), self.checkpoints.describe());
        let begins = match restored {
            Some(RestoredState { checkpoint, location: Some(from), .. })
                if self.engine.latest_completed() == Some(*checkpoint) =>
            {
                format!("resumes from its savepoint {from}, with which it was to be stopped")
            }
            Some(RestoredState { checkpoint, location: Some(from), .. }) => {
                format!("resumes from {from} (checkpoint {checkpoint} of another run)")
            }
            Some(RestoredState { checkpoint, .. }) => {
                format!("resumes from checkpoint {checkpoint} of {place}")
            }
            None if self.settings.checkpoint.interval.is_none() => {
                "starts empty and takes no checkpoints: execution.checkpointing.interval is not set"
                    .to_string()
            }
            None if !self.checkpoints.is_durable() => {
                format!("starts empty: checkpoints are kept in {place}")
            }
            None if self.settings.start_fresh => {
                format!(
                    "starts empty, as stillstream.checkpoint.start-fresh (--start-fresh) says; checkpoints of before in {place} \
                     are not used, and what earlier runs have written stays and is written once more"
                )
            }
            None => {
                let mut text = format!("starts empty: no checkpoint of `{job}` in {place}");
                let others = self.state.neighbours.get().filter(|others| others.count > 0);
                if let Some(others) = others {
                    let names: Vec<_> = others.names.iter().map(|name| format!("`{name}`")).collect();
                    let more = others.count.saturating_sub(names.len());
                    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                    text += &format!(
                        " (but of {}: {}{more}; a job finds its checkpoints by its name)",
                        count(others.count as u64, "other job"),
                        names.join(", ")
                    );
                }
                text
            }
        };
        if self.engine.restarts() > 0 {
            // the line about the failure has said it
            return self.write(Level::Debug, &begins);
        }
        let tasks: u64 = self.physical.tasks.iter().map(|task| u64::from(task.parallelism)).sum();
        let mut text = format!(
            "job `{job}` {begins}; {} on {}",
            count(tasks, "subtask"),
            count(self.physical.workers.into(), "worker")
        );
        if self.settings.processes > 1 {
            text += &format!(" in {} processes", self.settings.processes);
        }
        if let Some(interval) = self.settings.checkpoint.interval {
            text += &format!(", a checkpoint every {}", time(interval));
        }
        text += &format!("; job id {}", self.info.id);
        self.write(Level::Info, &text);
    }

    /// What there is to say while the job runs. Called often.
    pub(super) fn say_progress(&mut self, metrics: &JobMetrics) {
        let now = self.clock.elapsed();
        let lines = self.state.log.lines(&Now {
            now,
            running: self.engine.status() == JobStatus::Running,
            metrics,
            checkpoints: self.engine.statistics(),
            restarts: self.engine.restarts(),
        });
        lines.iter().for_each(|(level, text)| self.write(*level, text));
        self.say_late(now);
    }

    fn say_late(&mut self, now: Duration) {
        if self.engine.statistics().counts.in_progress == 0 {
            return;
        }
        let timeout = self.settings.checkpoint.timeout;
        let late_after = self.state.log.late_after(timeout);
        // the names are looked up once there is something to say
        let late = |checkpoint: &CheckpointSummary| now.saturating_sub(checkpoint.triggered_at) >= late_after;
        let Some(checkpoint) = self.engine.in_progress().into_iter().find(late) else { return };
        let under_way = UnderWay {
            id: checkpoint.id,
            since: checkpoint.triggered_at,
            subtasks: checkpoint.subtasks,
            missing: checkpoint.missing.iter().map(subtask_name).collect(),
            missing_count: checkpoint.subtasks - checkpoint.acknowledged,
        };
        if let Some((level, text)) = self.state.log.late(&under_way, now, timeout) {
            self.write(level, &text);
        }
    }

    /// A failure after which the job is started again; it is the `times`th of its kind since the newest
    /// checkpoint.
    pub(super) fn say_restart(&mut self, error: &Error, delay: Duration, times: u64) {
        let from = match self.engine.latest_completed() {
            Some(checkpoint) => format!("from checkpoint {checkpoint}"),
            None if self.settings.from_snapshot.is_some() => "from the snapshot it began with".to_string(),
            None => "from the beginning".to_string(),
        };
        let mut text =
            format!("failed: {error}; restart {} in {} {from}", self.engine.restarts(), time(delay));
        if times == REPEATED {
            let again = format!(
                "; the same failure for the {REPEATED}rd time there: a restart alone will hardly mend it"
            );
            text += &again;
            // this line is to be seen, however many there were
            return self.write(Level::Warn, &text);
        }
        if let Some(text) = self.state.log.limited("failed", &text, self.clock.elapsed()) {
            self.write(Level::Warn, &text);
        }
    }

    /// Which subtask is at work on each of these workers.
    pub(super) fn names(&self, workers: &[usize]) -> String {
        let metrics = self.fleet.metrics();
        let name = |worker: &usize| {
            let task = metrics.get(*worker).and_then(|metrics| metrics.activity().1);
            match task.and_then(|task| self.physical.tasks.get(task as usize)) {
                Some(task) => format!("`{}` subtask {worker} (its code does not return)", task.name),
                None => format!("worker {worker}"),
            }
        };
        workers.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// The outcome of a savepoint: whoever asked for it may be gone.
    pub(super) fn say_answer(&mut self, result: &Result<CheckpointReport, CheckpointFailure>) {
        match result {
            Ok(report) if report.kind == CheckpointKind::Savepoint => {
                let (path, took) = (&report.path, time(report.duration));
                self.write(Level::Info, &format!("savepoint {path} was completed in {took}"));
            }
            Ok(_) => {}
            Err(failure) => self.write(Level::Warn, &format!("what was asked for has failed: {failure}")),
        }
    }

    pub(super) fn say_still_stopping(&mut self, workers: &[usize], after: Option<String>) {
        let after = after.map_or_else(String::new, |error| format!(", after: {error}"));
        let text = format!("still waiting for {} to stop{after}", self.names(workers));
        self.write(Level::Warn, &text);
    }

    /// How the job ended. The reason of a failure is said once: here, or by whoever waits for the job.
    pub(super) fn say_end(&mut self, ended: &Result<()>, result: &JobResult) {
        let committed = match (ended, result.checkpoints.last_id.or(result.resumed_from)) {
            // what came after it is read again
            (Ok(()), _) if matches!(result.ending, JobEnding::Suspended { .. }) => match result.ending {
                JobEnding::Suspended { checkpoint: Some(checkpoint), .. } => {
                    format!("output is committed up to checkpoint {checkpoint}")
                }
                _ => "no output is committed".to_string(),
            },
            (Ok(()), _) => "all output is committed".to_string(),
            (Err(_), Some(checkpoint)) => format!("output is committed up to checkpoint {checkpoint}"),
            (Err(_), None) => "no output is committed".to_string(),
        };
        let checkpoints = match (result.checkpoints.completed, result.checkpoints.failed) {
            (completed, 0) => count(completed, "checkpoint"),
            (completed, failed) => format!("{} ({failed} failed)", count(completed, "checkpoint")),
        };
        let figures = format!(
            "after {}: {} records in, {} out, {}, {checkpoints}; {committed}",
            time(result.duration),
            result.records_in,
            result.records_out,
            count(result.restarts, "restart"),
        );
        let job = self.settings.name.clone();
        match ended {
            Ok(()) => {
                let how = &result.ending;
                let advice = how.advice().map_or_else(String::new, |advice| format!("; {advice}"));
                self.write(Level::Info, &format!("job `{job}` {} {figures}{advice}", how.said()));
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => {
                let kept = match self.settings.checkpoint.interval {
                    Some(_) => "",
                    None => "; it took no checkpoints, and nothing is kept",
                };
                self.write(Level::Info, &format!("job `{job}` was cancelled {figures}{kept}"));
            }
            Err(error) => {
                // whoever waits for the job gets the error, and `main` prints it
                let reason = match self.settings.error_is_printed {
                    true => String::new(),
                    false => format!(": {error}"),
                };
                self.shared.published.lock().unsaid = self.settings.error_is_printed;
                self.state.progress.clear();
                tracing::error!(%job, "job `{job}` failed {figures}{reason}");
            }
        }
    }
}
