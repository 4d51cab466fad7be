//! What the workers of an attempt report.

use stillstream_types::{Error, ErrorKind, Generation, SubtaskId};

use super::engine::{JobEngine, JobPhase};
use super::interface::Level;
use super::status::JobStatus;
use crate::checkpoint::event::Event;
use crate::message::{Control, Enumerated, Report};

impl JobEngine {
    pub(super) fn on_report(&mut self, generation: Generation, report: Report) {
        if generation != self.attempt.generation {
            // of what an attempt that has gone says, only its files matter: they have to be deleted
            if let Report::Acknowledged { checkpoint, subtask, snapshot, metrics } = report {
                self.coordinate(Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics });
            }
            return;
        }
        match report {
            Report::Running(subtask) => self.on_running(subtask),
            // for people, and for an enumerator
            Report::EventTime { .. } | Report::SplitsWanted(_) => {}
            Report::Ended(subtask) => {
                self.attempt.not_ended.remove(&subtask);
                self.all_ended();
            }
            Report::Acknowledged { checkpoint, subtask, snapshot, metrics } => {
                self.coordinate(Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics });
            }
            Report::Declined { checkpoint, subtask, reason } => {
                let message = format!("{}: {reason}", self.job.task_name(subtask));
                self.coordinate(Event::Decline { generation, checkpoint, subtask, message });
            }
            Report::Committed { checkpoint, subtask } => {
                // it may be the last one, with which the end is recorded
                self.measure();
                self.coordinate(Event::CommitConfirmed { generation, checkpoint, subtask });
            }
            Report::Failed { subtask, error } => self.on_failed(subtask, error),
            Report::Stopped { worker, drained } => self.on_stopped(worker, drained),
        }
    }

    fn on_running(&mut self, subtask: SubtaskId) {
        let JobPhase::Deploying(waiting) = &mut self.phase else { return };
        waiting.remove(&subtask);
        if !waiting.is_empty() {
            return;
        }
        self.phase = JobPhase::Running;
        self.advance(JobStatus::Running);
        // before the first trigger, for its checkpoint has states that know of them
        for assignment in std::mem::take(&mut self.attempt.assigned) {
            self.tell(Control::Assign(assignment));
        }
        let (generation, tasks) = (self.attempt.generation, self.job.tasks.clone());
        let enumerators = std::mem::take(&mut self.attempt.enumerators);
        self.coordinate(Event::AttemptStarted { generation, tasks, enumerators });
        self.all_ended();
    }

    /// Tasks that are not open yet hear of it when all are: a worker process that is still coming up would
    /// miss it.
    pub(super) fn on_enumerated(&mut self, generation: Generation, enumerated: Enumerated) {
        if generation != self.attempt.generation {
            return;
        }
        let Enumerated { state, assignment } = enumerated;
        let operator = assignment.operator;
        match self.phase {
            JobPhase::Deploying(_) => {
                self.attempt.enumerators.insert(operator, state);
                self.attempt.assigned.push(assignment);
            }
            JobPhase::Running => {
                // in this order: the coordinator may trigger a checkpoint at once, and that has the new state
                self.tell(Control::Assign(assignment));
                self.coordinate(Event::Enumerated { generation, operator, state });
            }
            // nothing is read any more
            _ => {}
        }
    }

    pub(super) fn on_enumerator_failed(&mut self, generation: Generation, error: Error) {
        if generation != self.attempt.generation {
            return;
        }
        match self.phase {
            JobPhase::Deploying(_) | JobPhase::Running => self.fail(error),
            _ => self.log(Level::Warn, format!("while nothing is read: {error}")),
        }
    }

    fn on_failed(&mut self, subtask: Option<SubtaskId>, error: Error) {
        if self.recorded.is_some() && matches!(self.phase, JobPhase::Draining { .. }) {
            // everything is committed and the register says so: what goes wrong while the dataflow drains
            // changes nothing
            self.log(Level::Warn, format!("after the job had finished: {error}"));
            return self.tell(Control::Stop);
        }
        if !self.phase.has_attempt() {
            // nothing runs that could fail: who is lost between two attempts is replaced when the next one is
            // deployed
            return self.log(Level::Warn, format!("while no attempt runs: {error}"));
        }
        let task = subtask.map(|subtask| self.job.task_name(subtask));
        if self.attempt.failed_task.is_none() {
            self.attempt.failed_task.clone_from(&task);
        }
        self.fail(match task {
            Some(task) => error.context(task),
            None => error,
        });
    }

    fn on_stopped(&mut self, worker: usize, drained: bool) {
        // of an attempt that has been counted as stopped
        if !self.phase.has_attempt() {
            return;
        }
        self.attempt.stopped.insert(worker);
        // only a worker that was told to finish may end
        let early = match self.phase {
            JobPhase::Running | JobPhase::Deploying(_) => true,
            JobPhase::Draining { .. } => !drained && self.recorded.is_none(),
            _ => false,
        };
        if early {
            self.fail(Error::new(ErrorKind::Peer, format!("worker {worker} stopped by itself")));
        }
        self.all_stopped();
    }

    /// The input is through, and everything has been emitted that its end causes: with checkpoints it is time
    /// for the final one, without them it is the end of the job. Also a task without checkpoints must not end
    /// before: a window may still emit.
    ///
    /// A stop that is under way decides first: its last checkpoint covers the end of the input too.
    pub(super) fn all_ended(&mut self) {
        if !self.attempt.not_ended.is_empty() || !matches!(self.phase, JobPhase::Running) {
            return;
        }
        let drains = self.coordinator.is_draining();
        if !drains && !self.coordinator.is_open() {
            return;
        }
        if drains || self.job.checkpointing() {
            let generation = self.attempt.generation;
            let sources = self.job.tasks.iter().filter(|task| task.is_source);
            let sources: Vec<SubtaskId> = sources.map(|task| task.id).collect();
            for subtask in sources {
                self.coordinate(Event::SourceEnded { generation, subtask });
            }
        } else {
            // a savepoint of a task that has let its dataflow go would never come to its end
            let reason = "the job has reached the end of its input".into();
            let generation = self.attempt.generation;
            self.coordinate(Event::AttemptStopped { generation, reason, restarts: false });
            // what is under way may take as long as it takes: it is the job's own work
            self.phase = JobPhase::Draining { until: None };
            self.tell(Control::Finish);
        }
    }
}
