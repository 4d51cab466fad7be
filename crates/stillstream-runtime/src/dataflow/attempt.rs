//! What the tasks of one worker share during one attempt.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use stillstream_types::{CheckpointId, Error, Generation, SubtaskId};

use crate::checkpoint::snapshot_pool::SnapshotPool;
use crate::clock::Clock;
use crate::control::{Control, Report, ReportSink};
use crate::dataflow::mailbox::Mailbox;
use crate::dataflow::turn::TurnLimits;
use crate::flow::Flow;
use crate::metrics::WorkerMetrics;

/// The most triggers whose times a worker remembers.
const TRIGGERS: usize = 16;

/// Barriers wait for records of older epochs, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alignment {
    /// Records behind a barrier wait until it has come from all inputs.
    ExactlyOnce,
    /// Nothing waits.
    AtLeastOnce,
}

/// One attempt on one worker.
pub(crate) struct WorkerAttempt {
    /// The worker's index.
    pub worker: usize,
    pub generation: Generation,
    pub alignment: Alignment,
    /// When a task lets others run.
    pub turn: TurnLimits,
    pub flow: Rc<Flow>,
    /// By task.
    pub mailboxes: RefCell<Vec<Mailbox>>,
    pub failed: Cell<bool>,
    /// The newest checkpoints that were triggered, with the time of the trigger.
    pub triggered: RefCell<VecDeque<(CheckpointId, i64)>>,
    pub reports: Arc<dyn ReportSink>,
    pub pool: Arc<SnapshotPool>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<WorkerMetrics>,
}

impl WorkerAttempt {
    pub fn report(&self, report: Report) {
        self.reports.report(self.generation, report);
    }

    /// The attempt is over: the first error is reported, later ones are its consequences.
    pub fn fail(&self, subtask: Option<SubtaskId>, error: Error) {
        if !self.failed.replace(true) {
            self.report(Report::Failed { subtask, error });
        }
    }

    /// Hands a control message to the tasks that it is for.
    pub fn deliver(&self, message: &Control) {
        if let Control::Trigger { id, at_ms, .. } = message {
            let mut triggered = self.triggered.borrow_mut();
            triggered.push_back((*id, *at_ms));
            if triggered.len() > TRIGGERS {
                triggered.pop_front();
            }
        }
        self.mailboxes.borrow_mut().iter_mut().for_each(|mailbox| mailbox.put(message));
    }

    /// When checkpoint `id` was triggered, as far as this worker knows.
    pub fn triggered_at(&self, id: u64) -> Option<i64> {
        self.triggered.borrow().iter().find(|(known, _)| known.0 == id).map(|(_, at)| *at)
    }
}
