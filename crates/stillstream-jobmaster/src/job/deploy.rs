//! The start of an attempt: the register is claimed, what it begins from is read, and the workers get both.

use std::sync::Arc;

use stillstream_types::{CompletedRef, Error, ErrorKind, Generation, Result};

use super::engine::{Attempt, JobEngine, JobPhase};
use super::interface::{JobCommand, RestoreFrom};
use crate::checkpoint::event::Event;
use crate::message::{AttemptSpec, RestoredState};

impl JobEngine {
    pub(super) fn request_attempt(&mut self) {
        self.out.push(JobCommand::Reached("before-attempt"));
        self.phase = JobPhase::Preparing { until: None };
        // the coordinator claims a new generation first; `BeginAttempt` says which
        self.coordinate(Event::AttemptRequested);
    }

    /// The register is this generation's.
    pub(super) fn begin_attempt(&mut self, generation: Generation, restore_from: Option<CompletedRef>) {
        let JobPhase::Preparing { until } = &mut self.phase else { return };
        *until = Some(self.at.now + self.job.checkpoint.timeout);
        self.attempt = Attempt { generation, ..Attempt::default() };
        let from = match (restore_from, &self.job.from_snapshot) {
            (Some(own), _) => RestoreFrom::Own(own),
            (None, Some(snapshot)) => RestoreFrom::Snapshot(snapshot.clone()),
            (None, None) => RestoreFrom::Nothing,
        };
        self.out.push(JobCommand::ReadSnapshot { generation, from });
    }

    pub(super) fn snapshot_overdue(&mut self) {
        let message = format!(
            "the checkpoint to start from was not read within {:?} (execution.checkpointing.timeout) from {}",
            self.job.checkpoint.timeout, self.job.place
        );
        self.fail(Error::new(ErrorKind::Storage, message));
    }

    pub(super) fn on_restored(&mut self, generation: Generation, restored: Result<Option<RestoredState>>) {
        // Without a time by which it has to be there nothing has been asked for in this phase: it is what an
        // attempt wanted that has been given up since. Its tasks would run under a generation that the
        // coordinator does not know.
        let wanted = matches!(self.phase, JobPhase::Preparing { until: Some(_) });
        if generation != self.attempt.generation || !wanted {
            return;
        }
        let restored = match restored {
            Ok(restored) => restored,
            Err(error) => return self.fail(error.context("the checkpoint to start from cannot be used")),
        };
        if let Some(state) = restored.as_ref().filter(|_| self.status.restarts() == 0) {
            self.figures.resumed_from = Some(state.checkpoint);
        }
        let subtasks = || self.job.tasks.iter().map(|task| task.id).collect();
        self.attempt.not_ended = subtasks();
        self.attempt.enumerators =
            restored.as_ref().map(|restored| restored.enumerators.clone()).unwrap_or_default();
        self.phase = JobPhase::Deploying(subtasks());
        self.out.push(JobCommand::Deploy(AttemptSpec { generation, restored: restored.map(Arc::new) }));
    }

    /// Nothing runs, so nothing has to stop: it is a failed attempt like any other.
    pub(super) fn on_not_deployed(&mut self, generation: Generation, error: Error) {
        if generation != self.attempt.generation || !matches!(self.phase, JobPhase::Deploying(_)) {
            return;
        }
        self.attempt.stopped.extend(0..self.job.workers);
        self.fail(error);
    }
}
