//! Attempts: the register is claimed, the attempt begins, runs, and stops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stillstream_types::{Generation, OperatorId, RegisterRecord, SubtaskId};

use super::CheckpointCoordinator;
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
    generation: Generation,
    tasks: Vec<TaskInfo>,
    index: BTreeMap<SubtaskId, usize>,
    ended_sources: BTreeSet<SubtaskId>,
    // as of what their readers have been told
    enumerators: BTreeMap<OperatorId, Arc<[u8]>>,
}

impl Attempt {
    fn new(
        generation: Generation,
        tasks: Vec<TaskInfo>,
        enumerators: BTreeMap<OperatorId, Arc<[u8]>>,
    ) -> Self {
        let index = tasks.iter().enumerate().map(|(at, task)| (task.id, at)).collect();
        Self { generation, tasks, index, ended_sources: BTreeSet::new(), enumerators }
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
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

    /// The states of the enumerators. A trigger that follows has them.
    pub(super) fn enumerators(&self) -> &BTreeMap<OperatorId, Arc<[u8]>> {
        &self.enumerators
    }

    fn all_sources_ended(&self) -> bool {
        let mut sources = self.tasks.iter().filter(|task| task.is_source).peekable();
        sources.peek().is_some() && sources.all(|source| self.ended_sources.contains(&source.id))
    }
}

/// The claims of this coordinator, and the attempt that it makes under the last of them.
///
/// The process has claimed a generation before the coordinator begins; its first attempt runs under that one,
/// and each later attempt under one of its own.
///
/// Invariant: an attempt runs only under the generation that is claimed, no two run under the same one, and
/// none begins while another claim is wanted.
#[derive(Clone, Debug)]
pub(super) struct Attempts {
    // the generation of the process, as long as no attempt was to begin under it
    unused: Option<Generation>,
    // the generation under which this coordinator may write
    claimed: Option<Generation>,
    // an attempt begins when the register is claimed for it
    wanted: bool,
    running: Option<Attempt>,
}

impl Attempts {
    pub(super) fn new(of_process: Option<Generation>) -> Self {
        Self { unused: of_process, claimed: None, wanted: false, running: None }
    }

    /// Whether this coordinator has ever claimed the register.
    pub(super) fn has_claim(&self) -> bool {
        self.claimed.is_some()
    }

    /// Whether this record is one of the present claim.
    pub(super) fn owns(&self, record: &RegisterRecord) -> bool {
        self.claimed == Some(record.generation)
    }

    pub(super) fn running(&self) -> Option<&Attempt> {
        self.running.as_ref()
    }

    /// The attempt, if it is this one.
    pub(super) fn of(&self, generation: Generation) -> Option<&Attempt> {
        self.running().filter(|attempt| attempt.generation == generation)
    }

    /// A source of this attempt has ended. Returns whether all have by now; `None` if it is another attempt.
    pub(super) fn source_ended(&mut self, generation: Generation, source: SubtaskId) -> Option<bool> {
        let attempt = self.running.as_mut().filter(|attempt| attempt.generation == generation)?;
        attempt.ended_sources.insert(source);
        Some(attempt.all_sources_ended())
    }

    /// An enumerator of this attempt has another state.
    pub(super) fn enumerated(&mut self, generation: Generation, operator: OperatorId, state: Arc<[u8]>) {
        if let Some(attempt) = self.running.as_mut().filter(|attempt| attempt.generation == generation) {
            attempt.enumerators.insert(operator, state);
        }
    }

    /// No attempt runs, and none begins.
    pub(super) fn end(&mut self) {
        (self.running, self.wanted) = (None, false);
    }

    /// The register is claimed. Returns the generation if an attempt is to begin under it.
    fn on_claimed(&mut self, generation: Option<Generation>) -> Option<Generation> {
        (self.claimed, self.unused) = (generation, None);
        generation.filter(|_| std::mem::take(&mut self.wanted))
    }

    /// Whether an attempt of this generation may run. While a new claim is under way no id may be taken: the
    /// claim decides where its ids begin.
    fn may_run(&self, generation: Generation) -> bool {
        self.claimed == Some(generation) && !self.wanted
    }
}

impl CheckpointCoordinator {
    pub(super) fn on_attempt_requested(&mut self) {
        if let Some(outcome) = self.end.ending() {
            self.commands.warn(format!("no attempt is begun: the job is being recorded as {outcome:?}"));
            return;
        }
        if let Some(generation) = self.attempts.running().map(Attempt::generation) {
            self.on_attempt_stopped(generation, "another attempt was requested", true);
        }
        self.attempts.wanted = true;
        let now = self.clock.now();
        if !self.register.has(|purpose| *purpose == Purpose::Claim) {
            self.register.push(Purpose::Claim, now);
        }
        self.register.renew_claim(now);
    }

    /// The record of the next claim.
    pub(super) fn claim_record(&mut self) -> RegisterRecord {
        let durable = self.register.durable();
        // somebody else may have used whatever was reserved
        let foreign = durable.filter(|record| !self.attempts.owns(record));
        self.ids.begin_claim(foreign.map(|record| record.last_checkpoint_id));
        self.job.claim(durable, self.attempts.unused, &self.ids)
    }

    pub(super) fn on_claimed(&mut self) {
        let claimed = self.register.durable().map(|record| record.generation);
        let Some(generation) = self.attempts.on_claimed(claimed) else { return };
        let restore_from = self.latest_completed().cloned();
        self.statistics.counts.restored += u64::from(restore_from.is_some());
        let at_ms = self.clock.wall_ms();
        self.statistics.last_restored =
            restore_from.clone().map(|checkpoint| RestoredSummary { checkpoint, at_ms });
        self.commands.push(Command::BeginAttempt { generation, restore_from });
        self.commands.call(StorageCall::ListDirectories);
        self.read_references();
    }

    pub(super) fn on_directories_listed(&mut self, names: &[String]) {
        if !self.attempts.has_claim() {
            return;
        }
        for (id, path) in cleaner::orphans(names, self.ids.first_own(), self.register.named()) {
            if !self.in_progress.contains(id) && !self.cleaner.is_deleting(&path) {
                self.commands.info(format!("{path} was left behind by an earlier attempt and is deleted"));
                self.discard_directory(id, &path, Vec::new());
            }
        }
    }

    pub(super) fn on_attempt_started(
        &mut self,
        generation: Generation,
        tasks: Vec<TaskInfo>,
        enumerators: BTreeMap<OperatorId, Arc<[u8]>>,
    ) {
        if !self.attempts.may_run(generation) || self.end.ending().is_some() {
            let text = format!("generation {generation} is not the present one: its start is ignored");
            return self.commands.warn(text);
        }
        self.attempts.running = Some(Attempt::new(generation, tasks, enumerators));
        self.end.reopen();
        self.requests.start_timer(self.clock.now(), &self.config);
    }

    pub(super) fn on_attempt_stopped(&mut self, generation: Generation, reason: &str, restarts: bool) {
        if self.attempts.of(generation).is_none() {
            return;
        }
        self.attempts.running = None;
        self.requests.stop_timer();
        if self.end.ending().is_none() {
            self.stop_lost(reason, restarts);
            self.end.reopen();
        }
        self.abort_all(FailureReason::JobFailoverRegion, &format!("the attempt ended: {reason}"));
    }
}
