//! The end: of the input (final checkpoint, then commits, then FINISHED), by a person, or by a failure.

use std::collections::BTreeSet;
use std::time::Duration;

use stillstream_types::{
    CheckpointId, CheckpointKind, ErrorKind, Generation, JobFigures, JobOutcome, RegisterRecord, SubtaskId,
};

use super::CheckpointCoordinator;
use crate::checkpoint::command::Command;
use crate::checkpoint::failure::{CheckpointFailure, FailureReason};
use crate::checkpoint::register::{Purpose, RETRY};
use crate::checkpoint::request_queue::Request;
use crate::checkpoint::statistics::missing_text;
use crate::message::Control;

/// A notice can be lost: who has not confirmed is told again after this time.
const REMIND: Duration = Duration::from_secs(5);

/// How near the job is to its end.
#[derive(Clone, PartialEq, Debug)]
enum Closing {
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

/// The end of the job: how near it is, and what is recorded of it.
#[derive(Clone, Debug)]
pub(super) struct End {
    closing: Closing,
    // so long may the record take
    timeout: Duration,
    figures: JobFigures,
}

impl End {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { closing: Closing::Open, timeout, figures: JobFigures::default() }
    }

    /// Whether the job goes on, as far as is known here.
    pub(super) fn is_open(&self) -> bool {
        self.closing == Closing::Open
    }

    /// Whether a stop waits for the sources to end.
    pub(super) fn is_draining(&self) -> bool {
        self.closing == Closing::Draining
    }

    /// The outcome that is being recorded, or is recorded.
    pub(super) fn ending(&self) -> Option<JobOutcome> {
        match self.closing {
            Closing::Ending { outcome, .. } => Some(outcome),
            _ => None,
        }
    }

    /// Why nobody's request can be taken now, if none can. `stops` says whether a person's stop is under way.
    pub(super) fn why_none_begins(&self, stops: bool) -> Option<&'static str> {
        match self.closing {
            Closing::Open => None,
            Closing::Draining | Closing::Stopping => {
                Some("the job is being stopped: try again if it goes on, or start from what its stop leaves")
            }
            _ if stops => Some("the job has been stopped, and its last output is being committed"),
            _ => Some("the job has reached the end of its input and takes its final checkpoint"),
        }
    }

    /// The job goes on, or another attempt does.
    pub(super) fn reopen(&mut self) {
        self.closing = Closing::Open;
    }

    /// The job is to stop, and the sources end first.
    pub(super) fn drain(&mut self) {
        self.closing = Closing::Draining;
    }

    /// Nothing but the last checkpoint of a stop begins.
    pub(super) fn hold(&mut self) {
        self.closing = Closing::Stopping;
    }

    /// What was measured of the job: the record has it.
    pub(super) fn measured(&mut self, figures: JobFigures) {
        self.figures = figures;
    }

    /// The record is to be written from now on.
    fn begin_record(&mut self, outcome: JobOutcome, now: Duration) {
        self.closing = Closing::Ending { outcome, until: Some(now + self.timeout) };
    }

    /// The outcome whose record has taken too long.
    fn overdue(&self, now: Duration) -> Option<JobOutcome> {
        match self.closing {
            Closing::Ending { outcome, until: Some(until) } if now >= until => Some(outcome),
            _ => None,
        }
    }

    /// When something is due: the final checkpoint, a reminder, or the end of a deadline.
    pub(super) fn wake_at(&self, timeout: Duration) -> Option<Duration> {
        match &self.closing {
            Closing::Final { at, .. } => *at,
            Closing::Ending { until, .. } => *until,
            Closing::Committing { since, remind_at, late_said: false, .. } => {
                Some((*remind_at).min(*since + timeout))
            }
            Closing::Committing { .. } | Closing::Open | Closing::Draining | Closing::Stopping => None,
        }
    }
}

impl CheckpointCoordinator {
    pub(super) fn on_source_ended(&mut self, generation: Generation, source: SubtaskId) {
        let Some(all) = self.attempts.source_ended(generation, source) else { return };
        if all && self.end.is_draining() {
            self.take_last();
        }
        if all && self.config.interval.is_some() && self.end.is_open() {
            self.end.closing = Closing::Final { at: Some(self.clock.now()), failing_since: None };
            self.requests.stop_timer();
            for request in self.requests.drain() {
                let message = "the job has reached the end of its input and takes its final checkpoint";
                self.refuse(request, FailureReason::NotAllRequiredTasksRunning, message);
            }
        }
    }

    /// The final checkpoint failed: once more, soon. When it has failed for as long as a checkpoint may take,
    /// whatever its reasons, the attempt fails: the job must not wait for its end for ever.
    pub(super) fn retry_final(&mut self, message: &str) {
        let (now, timeout) = (self.clock.now(), self.config.timeout);
        let Closing::Final { at, failing_since } = &mut self.end.closing else { return };
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
        self.commands.push(Command::FailJob { kind: ErrorKind::Checkpoint, message });
    }

    /// The last checkpoint that this job takes is completed: what it covers has to be committed.
    pub(super) fn await_commits(&mut self, id: CheckpointId, generation: Generation) {
        let Some(attempt) = self.attempts.of(generation) else { return };
        let waiting: BTreeSet<_> = attempt.subtasks().collect();
        let since = self.clock.now();
        let remind_at = since + REMIND;
        self.end.closing = Closing::Committing { id, waiting, since, remind_at, late_said: false };
    }

    pub(super) fn on_commit_confirmed(
        &mut self,
        generation: Generation,
        up_to: CheckpointId,
        subtask: SubtaskId,
    ) {
        if self.attempts.of(generation).is_none() {
            return;
        }
        if let Closing::Committing { id, waiting, .. } = &mut self.end.closing
            && up_to >= *id
        {
            waiting.remove(&subtask);
            self.finish_if_committed();
        }
    }

    fn finish_if_committed(&mut self) {
        if matches!(&self.end.closing, Closing::Committing { waiting, .. } if waiting.is_empty()) {
            self.record_end(self.outcome_of_the_end());
        }
    }

    fn record_end(&mut self, outcome: JobOutcome) {
        self.end.begin_record(outcome, self.clock.now());
        self.requests.stop_timer();
        self.abort_all(FailureReason::CheckpointCoordinatorShutdown, "the job ended");
        self.register.push(Purpose::End(outcome), self.clock.now());
    }

    /// The final checkpoint's time, reminders, and the deadline of commits.
    pub(super) fn on_closing_time(&mut self) {
        let (now, timeout) = (self.clock.now(), self.config.timeout);
        let Some(attempt) = self.attempts.running() else { return };
        match &mut self.end.closing {
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
                self.commands.push(Command::FailJob { kind: ErrorKind::Timeout, message });
            }
            Closing::Committing { id, remind_at, late_said: false, .. } if now >= *remind_at => {
                *remind_at = now + REMIND;
                self.commands.tell(attempt.generation(), Control::Complete { id: *id });
            }
            _ => {}
        }
    }

    pub(super) fn on_job_ended(&mut self, outcome: JobOutcome) {
        // what is being recorded has happened before: a finish stays a finish
        if self.end.ending().is_some() {
            return;
        }
        self.stop_lost("the job ended", false);
        self.attempts.end();
        self.register.withdraw_claims();
        self.record_end(outcome);
    }

    /// The record of a job that ended, by the retention policy.
    pub(super) fn end_record(&self, outcome: JobOutcome) -> RegisterRecord {
        let (at_ms, figures) = (self.clock.wall_ms(), self.end.figures.clone());
        self.job.end(self.register.durable(), outcome, at_ms, figures, self.config.retention)
    }

    pub(super) fn on_end_recorded(&mut self, outcome: JobOutcome) {
        if let Closing::Ending { until, .. } = &mut self.end.closing {
            *until = None;
        }
        self.stop_recorded();
        self.commands.push(Command::FinishJob { outcome });
    }

    /// Ends the job without a record when the time for that is over.
    pub(super) fn on_end_overdue(&mut self) {
        let Some(outcome) = self.end.overdue(self.clock.now()) else { return };
        let trouble = self.register.trouble().unwrap_or("the job's register did not answer");
        let why = format!(
            "the job's end could not be recorded within {:?} (task.cancellation.timeout): {trouble}",
            self.end.timeout
        );
        let message = format!("{why}; {}", self.what_the_next_start_does());
        let text = format!("all output is committed, but {message}");
        self.answer_stop(Err(CheckpointFailure::new(FailureReason::FinalizeCheckpointFailure, text)));
        self.commands.push(Command::EndUnrecorded { outcome, message });
        self.decide_no_more(ErrorKind::Storage, why);
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
