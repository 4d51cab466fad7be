//! What the tasks of one worker share during one attempt.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use stillstream_types::{CheckpointingMode, Error, Generation, SubtaskId};

use crate::checkpoint::snapshot_pool::SnapshotPool;
use crate::clock::Clock;
use crate::control::{Control, Report, ReportSink};
use crate::dataflow::mailbox::Mailbox;
use crate::dataflow::turn::TurnLimits;
use crate::flow::Flow;
use crate::metrics::WorkerMetrics;

/// One attempt on one worker.
pub(crate) struct WorkerAttempt {
    /// The worker's index.
    pub worker: usize,
    pub generation: Generation,
    /// Whether records behind a barrier wait until it has come from all inputs.
    pub mode: CheckpointingMode,
    /// When a task lets others run.
    pub turn: TurnLimits,
    pub flow: Rc<Flow>,
    /// By task.
    pub mailboxes: RefCell<Vec<Mailbox>>,
    pub failed: Cell<bool>,
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
        self.mailboxes.borrow_mut().iter_mut().for_each(|mailbox| mailbox.put(message));
    }
}
