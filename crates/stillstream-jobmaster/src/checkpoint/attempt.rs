//! Attempts: the register is claimed, the attempt begins, runs, and stops.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stillstream_types::{CheckpointId, Generation, JobOutcome, RegisterRecord, SubtaskId};

use super::{CheckpointCoordinator, Closing, ID_RESERVE};
use crate::checkpoint::cleaner;
use crate::checkpoint::command::Command;
use crate::checkpoint::failure::FailureReason;
use crate::checkpoint::register::Purpose;
use crate::checkpoint::statistics::RestoredSummary;
use crate::checkpoint::storage::StorageCall;
use crate::plan::TaskInfo;

/// The attempt that runs.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) generation: Generation,
    tasks: Vec<TaskInfo>,
    index: BTreeMap<SubtaskId, usize>,
    pub(super) ended_sources: BTreeSet<SubtaskId>,
}

impl Attempt {
    fn new(generation: Generation, tasks: Vec<TaskInfo>) -> Self {
        let index = tasks.iter().enumerate().map(|(at, task)| (task.id, at)).collect();
        Self { generation, tasks, index, ended_sources: BTreeSet::new() }
    }

    pub(super) fn subtasks(&self) -> impl ExactSizeIterator<Item = SubtaskId> {
        self.tasks.iter().map(|task| task.id)
    }

    pub(super) fn task(&self, subtask: SubtaskId) -> Option<&TaskInfo> {
        self.index.get(&subtask).and_then(|at| self.tasks.get(*at))
    }

    pub(super) fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    pub(super) fn name(&self, subtask: SubtaskId) -> &str {
        self.task(subtask).map_or("an unknown task", |task| &task.name)
    }

    /// "map (1#0)"
    pub(super) fn label(&self, subtask: SubtaskId) -> String {
        format!("{} ({subtask})", self.name(subtask))
    }

    pub(super) fn all_sources_ended(&self) -> bool {
        let mut sources = self.tasks.iter().filter(|task| task.is_source).peekable();
        sources.peek().is_some() && sources.all(|source| self.ended_sources.contains(&source.id))
    }
}

impl CheckpointCoordinator {
    pub(super) fn on_attempt_requested(&mut self) {
        if let Closing::Ending { outcome, .. } = self.closing {
            self.warn(format!("no attempt is begun: the job is being recorded as {outcome:?}"));
            return;
        }
        if let Some(generation) = self.attempt.as_ref().map(|attempt| attempt.generation) {
            self.on_attempt_stopped(generation, "another attempt was requested", true);
        }
        self.attempt_wanted = true;
        if !self.register.has(|purpose| *purpose == Purpose::Claim) {
            self.register.push(Purpose::Claim, self.now);
        }
        self.register.renew_claim(self.now);
    }

    /// The record of a claim: one generation higher, with fresh ids behind everything that was ever reserved.
    pub(super) fn claim_record(&mut self) -> RegisterRecord {
        let Some(old) = self.register.durable() else {
            self.first_own = self.used.next();
            return RegisterRecord {
                job: self.job,
                job_name: self.job_name.clone(),
                generation: Generation(1),
                outcome: JobOutcome::Running,
                last_checkpoint_id: CheckpointId(self.used.0 + ID_RESERVE),
                completed: Vec::new(),
                retained: Vec::new(),
                ended: None,
                began: None,
            };
        };
        if self.claimed != Some(old.generation) {
            // somebody else may have used whatever was reserved
            self.used = self.used.max(old.last_checkpoint_id);
        }
        self.first_own = self.used.next();
        let mut record = old.clone();
        record.generation = Generation(old.generation.0 + 1);
        record.last_checkpoint_id = record.last_checkpoint_id.max(CheckpointId(self.used.0 + ID_RESERVE));
        if matches!(record.outcome, JobOutcome::Finished | JobOutcome::Cancelled | JobOutcome::Stopped) {
            // a new run begins afresh; what the last one left belongs to a person
            record.retained.append(&mut record.completed);
        }
        (record.outcome, record.ended) = (JobOutcome::Running, None);
        record
    }

    pub(super) fn on_claimed(&mut self) {
        self.claimed = self.register.durable().map(|record| record.generation);
        let (Some(generation), true) = (self.claimed, self.attempt_wanted) else { return };
        self.attempt_wanted = false;
        let restore_from = self.latest_completed().cloned();
        self.statistics.counts.restored += u64::from(restore_from.is_some());
        let at_ms = self.wall_ms;
        self.statistics.last_restored =
            restore_from.clone().map(|checkpoint| RestoredSummary { checkpoint, at_ms });
        self.out.push(Command::BeginAttempt { generation, restore_from });
        self.call(StorageCall::ListDirectories);
        self.read_references();
    }

    pub(super) fn on_directories_listed(&mut self, names: &[String]) {
        if self.claimed.is_none() {
            return;
        }
        for (id, path) in cleaner::orphans(names, self.first_own, self.register.named()) {
            if !self.pending.contains_key(&id) && !self.cleaner.is_deleting(&path) {
                self.info(format!("{path} was left behind by an earlier attempt and is deleted"));
                self.discard_directory(id, &path, Vec::new());
            }
        }
    }

    pub(super) fn on_attempt_started(&mut self, generation: Generation, tasks: Vec<TaskInfo>) {
        // while a new claim is under way no id may be taken: the claim decides where its ids begin
        if self.claimed != Some(generation)
            || self.attempt_wanted
            || matches!(self.closing, Closing::Ending { .. })
        {
            self.warn(format!("generation {generation} is not the present one: its start is ignored"));
            return;
        }
        self.attempt = Some(Attempt::new(generation, tasks));
        self.closing = Closing::Open;
        // Flink's: at random between the pause and the interval
        let pause = self.config.min_pause;
        let first = |period: Duration| pause + period.saturating_sub(pause).mul_f64(self.first_delay);
        self.next_periodic = self.config.period().map(|period| self.now + first(period));
    }

    pub(super) fn on_attempt_stopped(&mut self, generation: Generation, reason: &str, restarts: bool) {
        if self.attempt_of(generation).is_none() {
            return;
        }
        self.attempt = None;
        self.next_periodic = None;
        if !matches!(self.closing, Closing::Ending { .. }) {
            self.stop_lost(reason, restarts);
            self.closing = Closing::Open;
        }
        self.abort_all(FailureReason::JobFailoverRegion, &format!("the attempt ended: {reason}"));
    }
}
