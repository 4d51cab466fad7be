//! The end: of the input (final checkpoint, then commits, then FINISHED), by a person, or by a failure.

use std::collections::BTreeSet;
use std::time::Duration;

use stillstream_types::{
    CheckpointId, CheckpointKind, CompletedRef, ErrorKind, Generation, JobEnd, JobOutcome, RegisterRecord,
    SubtaskId,
};

use super::{CheckpointCoordinator, Stopped};
use crate::checkpoint::command::Command;
use crate::checkpoint::completed::latest;
use crate::checkpoint::failure::{CheckpointFailure, FailureReason};
use crate::checkpoint::register::{Purpose, RETRY};
use crate::checkpoint::request_queue::Request;
use crate::checkpoint::statistics::missing_text;
use crate::message::Control;
use stillstream_types::config::ExternalizedCheckpointRetention as Retention;

/// A notice can be lost: who has not confirmed is told again after this time.
const REMIND: Duration = Duration::from_secs(5);

/// How near the job is to its end.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Closing {
    /// It runs.
    Open,
    /// It is to stop, and the sources are told to end first.
    Draining,
    /// It stops: its last checkpoint is under way. Or its stop has failed, and its attempt is about to begin
    /// anew.
    Stopping,
    /// All sources have ended: a final checkpoint is wanted (again) at this time, or under way. It has failed
    /// since then.
    Final { at: Option<Duration>, failing_since: Option<Duration> },
    /// The final checkpoint, or the last one of a stop, is completed; these have not confirmed their commits.
    Committing {
        id: CheckpointId,
        waiting: BTreeSet<SubtaskId>,
        since: Duration,
        remind_at: Duration,
        late_said: bool,
    },
    /// The outcome is being recorded; at this time the job ends without a record. `None`: it is recorded.
    Ending { outcome: JobOutcome, until: Option<Duration> },
}

impl Closing {
    pub(super) fn wake_at(&self, timeout: Duration) -> Option<Duration> {
        match self {
            Self::Final { at, .. } => *at,
            Self::Ending { until, .. } => *until,
            Self::Committing { since, remind_at, late_said: false, .. } => {
                Some((*remind_at).min(*since + timeout))
            }
            Self::Committing { .. } | Self::Open | Self::Draining | Self::Stopping => None,
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
        if all && self.closing == Closing::Draining {
            self.take_last();
        }
        if all && self.config.interval.is_some() && self.closing == Closing::Open {
            self.closing = Closing::Final { at: Some(self.now), failing_since: None };
            self.next_periodic = None;
            for request in self.queue.drain() {
                let message = "the job has reached the end of its input and takes its final checkpoint";
                self.refuse(request, FailureReason::NotAllRequiredTasksRunning, message);
            }
        }
    }

    /// The final checkpoint failed: once more, soon. When it has failed for as long as a checkpoint may take,
    /// whatever its reasons, the attempt fails: the job must not wait for its end for ever.
    pub(super) fn retry_final(&mut self, message: &str) {
        let (now, timeout) = (self.now, self.config.timeout);
        let Closing::Final { at, failing_since } = &mut self.closing else { return };
        let since = *failing_since.get_or_insert(now);
        if now < since + timeout {
            *at = Some(now + RETRY);
            return;
        }
        *at = None;
        let message = format!(
            "the final checkpoint has failed for {:?}, longer than execution.checkpointing.timeout ({timeout:?}); the last \
             time: {message}",
            now.saturating_sub(since)
        );
        self.out.push(Command::FailJob { kind: ErrorKind::Checkpoint, message });
    }

    /// The last checkpoint that this job takes is completed: what it covers has to be committed.
    pub(super) fn await_commits(&mut self, id: CheckpointId, generation: Generation) {
        let Some(attempt) = self.attempt_of(generation) else { return };
        let waiting: BTreeSet<_> = attempt.subtasks().collect();
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
            self.end(self.outcome_of_the_end());
        }
    }

    fn end(&mut self, outcome: JobOutcome) {
        self.closing = Closing::Ending { outcome, until: Some(self.now + self.end_timeout) };
        self.next_periodic = None;
        self.abort_all(FailureReason::CheckpointCoordinatorShutdown, "the job ended");
        self.register.push(Purpose::End(outcome), self.now);
    }

    /// The final checkpoint's time, reminders, and the deadline of commits.
    pub(super) fn on_closing_time(&mut self) {
        let (now, timeout) = (self.now, self.config.timeout);
        let Some(attempt) = &self.attempt else { return };
        match &mut self.closing {
            Closing::Final { at, .. } if at.is_some_and(|at| at <= now) => {
                *at = None;
                let (kind, periodic) = (CheckpointKind::Final, false);
                self.submit(Request { kind, forced: true, periodic, ..Request::periodic(now) });
            }
            Closing::Committing { waiting, since, late_said, .. }
                if now >= *since + timeout && !*late_said =>
            {
                *late_said = true;
                let named: Vec<_> =
                    waiting.iter().take(10).map(|id| (*id, attempt.name(*id).to_owned())).collect();
                let which = if self.stop.is_some() { "last" } else { "final" };
                let text = missing_text(waiting.len(), attempt.subtasks().len(), &named);
                let message = format!(
                    "the commits of the {which} checkpoint were not confirmed within {timeout:?} \
                     (execution.checkpointing.timeout): {text}"
                );
                self.out.push(Command::FailJob { kind: ErrorKind::Timeout, message });
            }
            Closing::Committing { id, remind_at, late_said: false, .. } if now >= *remind_at => {
                *remind_at = now + REMIND;
                let (generation, id) = (attempt.generation, *id);
                self.tell(generation, Control::Complete { id });
            }
            _ => {}
        }
    }

    pub(super) fn on_job_ended(&mut self, outcome: JobOutcome) {
        // what is being recorded has happened before: a finish stays a finish
        if matches!(self.closing, Closing::Ending { .. }) {
            return;
        }
        self.stop_lost("the job ended", false);
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
                ended: None,
                began: None,
            },
        };
        record.outcome = outcome;
        let mut figures = self.figures.clone();
        // it may be that of an earlier process
        figures.last_checkpoint =
            figures.last_checkpoint.max(latest(&record.completed).map(|newest| newest.id));
        record.ended = Some(Box::new(JobEnd { at_ms: self.wall_ms, figures }));
        match outcome {
            // a later start resumes from them
            JobOutcome::Failed | JobOutcome::Running | JobOutcome::Suspended => {}
            JobOutcome::Cancelled if self.config.retention == Retention::RetainOnCancellation => {
                record.retained.append(&mut record.completed);
            }
            // the savepoint of a stop has everything, and nobody is to take an older checkpoint for the
            // newest
            JobOutcome::Stopped | JobOutcome::Cancelled => {
                let completed = std::mem::take(&mut record.completed);
                record.retained.extend(completed.into_iter().filter(CompletedRef::is_savepoint));
            }
            JobOutcome::Finished => record.completed.clear(),
        }
        record
    }

    pub(super) fn on_end_recorded(&mut self, outcome: JobOutcome) {
        if let Closing::Ending { until, .. } = &mut self.closing {
            *until = None;
        }
        self.stop_recorded();
        self.out.push(Command::FinishJob { outcome });
    }

    /// Ends the job without a record when the time for that is over.
    pub(super) fn on_end_overdue(&mut self) {
        let Closing::Ending { outcome, until: Some(until) } = self.closing else { return };
        if self.now < until {
            return;
        }
        let trouble = self.register.trouble().unwrap_or("the job's register did not answer");
        let why = format!(
            "the job's end could not be recorded within {:?} (task.cancellation.timeout): {trouble}",
            self.end_timeout
        );
        let message = format!("{why}; {}", self.what_the_next_start_does());
        let text = format!("all output is committed, but {message}");
        self.answer_stop(Err(CheckpointFailure::new(FailureReason::FinalizeCheckpointFailure, text)));
        self.out.push(Command::EndUnrecorded { outcome, message });
        self.stopped = Some(Stopped { kind: ErrorKind::Storage, why });
    }

    /// What the register says, as far as that is known, and what follows from it.
    pub(super) fn what_the_next_start_does(&self) -> String {
        let said = match self.register.end_may_be_written() {
            true => "it is not known whether the register says so or still says running; if it does",
            false => "the register still says running",
        };
        match self.latest_completed() {
            Some(newest) => format!("{said}: the next start resumes from {newest}"),
            None => format!("{said}: the next start begins without a checkpoint, for none was completed"),
        }
    }
}
