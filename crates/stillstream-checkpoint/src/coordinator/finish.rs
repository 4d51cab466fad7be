//! The end: of the input (final checkpoint, then commits, then FINISHED), by a person, or by a failure.

use std::collections::BTreeSet;
use std::time::Duration;

use stillstream_types::{
    CheckpointId, CheckpointKind, ErrorKind, Generation, JobOutcome, RegisterRecord, SubtaskId,
};

use super::CheckpointCoordinator;
use crate::command::Command;
use crate::config::Retention;
use crate::failure::FailureReason;
use crate::register::{Purpose, RETRY};
use crate::request_queue::Request;
use crate::statistics::missing_text;

/// A notice can be lost: who has not confirmed is told again after this time.
const REMIND: Duration = Duration::from_secs(5);

/// How near the job is to its end.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Closing {
    /// It runs.
    Open,
    /// All sources have ended: a final checkpoint is wanted (again) at this time, or under way.
    Final { at: Option<Duration> },
    /// The final checkpoint is completed; these have not confirmed their commits.
    Committing {
        id: CheckpointId,
        waiting: BTreeSet<SubtaskId>,
        since: Duration,
        remind_at: Duration,
        late_said: bool,
    },
    /// The outcome is being recorded.
    Ending(JobOutcome),
}

impl Closing {
    pub(super) fn wake_at(&self, timeout: Duration) -> Option<Duration> {
        match self {
            Self::Final { at } => *at,
            Self::Committing { since, remind_at, late_said: false, .. } => {
                Some((*remind_at).min(*since + timeout))
            }
            Self::Committing { .. } | Self::Open | Self::Ending(_) => None,
        }
    }
}

impl CheckpointCoordinator {
    pub(super) fn on_source_ended(&mut self, generation: Generation, source: SubtaskId) {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.generation == generation) else {
            return;
        };
        attempt.ended_sources.insert(source);
        let all = attempt.all_sources_ended();
        if all && self.config.interval.is_some() && self.closing == Closing::Open {
            self.closing = Closing::Final { at: Some(self.now) };
            self.next_periodic = None;
            for request in self.queue.drain() {
                let message = "the job has reached the end of its input and takes its final checkpoint";
                self.refuse(request, FailureReason::NotAllRequiredTasksRunning, message);
            }
        }
    }

    /// The final checkpoint failed: once more, soon.
    pub(super) fn retry_final(&mut self) {
        if let Closing::Final { at } = &mut self.closing {
            *at = Some(self.now + RETRY);
        }
    }

    pub(super) fn on_final_completed(&mut self, id: CheckpointId, generation: Generation) {
        let Some(attempt) = self.attempt_of(generation) else { return };
        let waiting: BTreeSet<_> = attempt.subtasks.iter().copied().collect();
        let (since, remind_at) = (self.now, self.now + REMIND);
        self.closing = Closing::Committing { id, waiting, since, remind_at, late_said: false };
    }

    pub(super) fn on_commit_confirmed(
        &mut self,
        generation: Generation,
        up_to: CheckpointId,
        subtask: SubtaskId,
    ) {
        if self.attempt_of(generation).is_none() {
            return;
        }
        if let Closing::Committing { id, waiting, .. } = &mut self.closing
            && up_to >= *id
        {
            waiting.remove(&subtask);
            self.finish_if_committed();
        }
    }

    fn finish_if_committed(&mut self) {
        if matches!(&self.closing, Closing::Committing { waiting, .. } if waiting.is_empty()) {
            self.end(JobOutcome::Finished);
        }
    }

    fn end(&mut self, outcome: JobOutcome) {
        self.closing = Closing::Ending(outcome);
        self.next_periodic = None;
        self.abort_all(FailureReason::CheckpointCoordinatorShutdown, "the job ended");
        self.register.push(Purpose::End(outcome), self.now);
    }

    pub(super) fn on_task_finished(&mut self, generation: Generation, subtask: SubtaskId) {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.generation == generation) else {
            return;
        };
        let Some(task) = attempt.task(subtask) else { return };
        if matches!(self.closing, Closing::Ending(_)) {
            return;
        }
        let needed = task.is_source || attempt.stateful.contains(&subtask);
        if needed && self.config.interval.is_some() {
            let message = format!(
                "{} finished before its part of the final checkpoint was committed: later checkpoints would miss its state",
                attempt.label(subtask)
            );
            self.out.push(Command::FailJob { kind: ErrorKind::State, message });
            return;
        }
        let label = attempt.label(subtask);
        attempt.finish(subtask);
        let all = attempt.subtasks.is_empty();
        let waiting: Vec<CheckpointId> =
            self.pending.iter().filter(|(_, p)| p.checkpoint.waits_for(subtask)).map(|(id, _)| *id).collect();
        for id in waiting {
            let message = format!("{label} finished before it acknowledged");
            self.fail_checkpoint(id, FailureReason::CheckpointDeclinedTaskClosing, &message);
        }
        if let Closing::Committing { waiting, .. } = &mut self.closing {
            waiting.remove(&subtask);
            self.finish_if_committed();
        } else if all && self.config.interval.is_none() {
            self.end(JobOutcome::Finished);
        }
    }

    /// The final checkpoint's time, reminders, and the deadline of commits.
    pub(super) fn on_closing_time(&mut self) {
        let (now, timeout) = (self.now, self.config.timeout);
        let Some(attempt) = &self.attempt else { return };
        match &mut self.closing {
            Closing::Final { at } if at.is_some_and(|at| at <= now) => {
                *at = None;
                let (request, kind) = (None, CheckpointKind::Final);
                self.submit(Request { request, kind, forced: true, periodic: false, at: now });
            }
            Closing::Committing { waiting, since, late_said, .. }
                if now >= *since + timeout && !*late_said =>
            {
                *late_said = true;
                let named: Vec<_> =
                    waiting.iter().take(10).map(|id| (*id, attempt.name(*id).to_owned())).collect();
                let text = missing_text(waiting.len(), attempt.subtasks.len(), &named);
                let message = format!(
                    "the commits of the final checkpoint were not confirmed within {timeout:?} \
                     (execution.checkpointing.timeout): {text}"
                );
                self.out.push(Command::FailJob { kind: ErrorKind::Timeout, message });
            }
            Closing::Committing { id, waiting, remind_at, late_said: false, .. } if now >= *remind_at => {
                *remind_at = now + REMIND;
                let (generation, checkpoint) = (attempt.generation, *id);
                let subtasks = waiting.iter().copied().collect();
                self.out.push(Command::NotifyComplete { generation, checkpoint, subsumed: None, subtasks });
            }
            _ => {}
        }
    }

    pub(super) fn on_job_ended(&mut self, outcome: JobOutcome) {
        if matches!(self.closing, Closing::Ending(_)) {
            return;
        }
        self.attempt = None;
        self.attempt_wanted = false;
        self.register.withdraw_claims();
        self.end(outcome);
    }

    /// The record of a job that ended, by the retention policy.
    pub(super) fn end_record(&self, outcome: JobOutcome) -> RegisterRecord {
        let mut record = match self.register.durable() {
            Some(record) => record.clone(),
            None => RegisterRecord {
                job: self.job,
                job_name: self.job_name.clone(),
                generation: Generation(0),
                outcome,
                last_checkpoint_id: CheckpointId(0),
                completed: Vec::new(),
                retained: Vec::new(),
            },
        };
        record.outcome = outcome;
        match outcome {
            // a later start resumes from them
            JobOutcome::Failed | JobOutcome::Running => {}
            JobOutcome::Cancelled if self.config.retention == Retention::RetainOnCancellation => {
                record.retained.append(&mut record.completed);
            }
            JobOutcome::Cancelled | JobOutcome::Finished => record.completed.clear(),
        }
        record
    }

    pub(super) fn on_end_recorded(&mut self, outcome: JobOutcome) {
        self.out.push(Command::FinishJob { outcome });
    }
}
