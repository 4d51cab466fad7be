//! What the operators of one worker share during one attempt.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use stillstream_types::{CheckpointId, Error, Generation, SubtaskId};

use crate::clock::Clock;
use crate::control::Report;
use crate::flow::Board;
use crate::metrics::WorkerMetrics;
use crate::snapshot_pool::SnapshotPool;
use crate::turn::TurnLimits;
use crate::watermark_groups::WatermarkGroups;

/// Takes reports of an attempt's workers.
pub trait ReportSink: Send + Sync {
    /// Takes one report of the given generation. Never blocks for long.
    fn report(&self, generation: Generation, report: Report);
}

/// Barriers wait for records of older epochs, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alignment {
    /// Records behind a barrier wait until it has come from all inputs.
    ExactlyOnce,
    /// Nothing waits.
    AtLeastOnce,
}

/// What the JobManager wants of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    Trigger { id: CheckpointId, at_ms: i64 },
    Complete { id: CheckpointId },
    Aborted { id: CheckpointId },
    Finish,
}

pub(crate) struct TaskSlot {
    pub notices: VecDeque<Notice>,
    pub activator: timely::scheduling::Activator,
    pub is_source: bool,
    pub active: bool,
}

pub(crate) struct WorkerShared {
    pub index: usize,
    pub generation: Generation,
    pub alignment: Alignment,
    /// When a task lets others run.
    pub turn: TurnLimits,
    pub board: RefCell<Board>,
    pub watermark_groups: WatermarkGroups,
    pub slots: RefCell<Vec<TaskSlot>>,
    pub failed: Cell<bool>,
    /// Set while a trigger is out that some source has not seen, so that metrics know when it began.
    pub triggered: RefCell<VecDeque<(CheckpointId, i64)>>,
    pub reports: Arc<dyn ReportSink>,
    pub pool: Arc<SnapshotPool>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<WorkerMetrics>,
}

impl WorkerShared {
    pub fn report(&self, report: Report) {
        self.reports.report(self.generation, report);
    }

    /// The attempt is over: the first error is reported, later ones are its consequences.
    pub fn fail(&self, subtask: Option<SubtaskId>, error: Error) {
        if !self.failed.replace(true) {
            self.report(Report::Failed { subtask, error });
        }
    }

    /// When checkpoint `id` was triggered, as far as this worker knows.
    pub fn triggered_at(&self, id: u64) -> Option<i64> {
        self.triggered.borrow().iter().find(|(known, _)| known.0 == id).map(|(_, at)| *at)
    }
}
