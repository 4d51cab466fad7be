//! The checkpoints that are under way, and those whose files are not settled although they are given up.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use stillstream_types::{CheckpointId, Generation};

use crate::checkpoint::pending::{Files, PendingCheckpoint};

/// So many aborted checkpoints are remembered, to tell late acknowledgements from unknown ones.
const REMEMBERED: usize = 16;

/// How far a checkpoint is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CheckpointPhase {
    /// Tasks acknowledge.
    Collecting,
    /// All have acknowledged, and `_metadata` is being written.
    WritingMetadata,
    /// It waits for the register to name it.
    Registering,
}

/// A checkpoint that is under way.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) checkpoint: PendingCheckpoint,
    generation: Generation,
    phase: CheckpointPhase,
    // tasks may build on its files
    base: Option<CheckpointId>,
}

impl Pending {
    /// One whose barrier is about to leave the sources. `base` is the newest completed checkpoint by then.
    pub(super) fn new(
        checkpoint: PendingCheckpoint,
        generation: Generation,
        base: Option<CheckpointId>,
    ) -> Self {
        Self { checkpoint, generation, phase: CheckpointPhase::Collecting, base }
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    pub(super) fn phase(&self) -> CheckpointPhase {
        self.phase
    }

    pub(super) fn enter(&mut self, phase: CheckpointPhase) {
        self.phase = phase;
    }
}

/// What is to be deleted of a checkpoint when the write of its metadata has ended.
#[derive(Clone, Debug)]
pub(super) struct Abandoned {
    pub(super) files: Files,
    pub(super) shared: Vec<String>,
}

/// Invariant: a checkpoint that is pending is neither abandoned nor remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct InProgress {
    pending: BTreeMap<CheckpointId, Pending>,
    // given up while their metadata was written: deleted when that has ended
    abandoned_writes: BTreeMap<CheckpointId, Abandoned>,
    // those that ended otherwise than in the register; `None`: their files are left where they are
    remembered: VecDeque<(CheckpointId, Option<Files>)>,
}

impl InProgress {
    pub(super) fn begin(&mut self, pending: Pending) {
        self.pending.insert(pending.checkpoint.id, pending);
    }

    pub(super) fn get(&self, id: CheckpointId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: CheckpointId) -> Option<&mut Pending> {
        self.pending.get_mut(&id)
    }

    pub(super) fn contains(&self, id: CheckpointId) -> bool {
        self.pending.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// All of them, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.pending.values()
    }

    /// Their ids, oldest first.
    pub(super) fn ids(&self) -> Vec<CheckpointId> {
        self.pending.keys().copied().collect()
    }

    /// Those that are older than the timeout.
    pub(super) fn expired(&self, now: Duration, timeout: Duration) -> Vec<CheckpointId> {
        let is_expired = |pending: &&Pending| now >= pending.checkpoint.triggered_at + timeout;
        self.iter().filter(is_expired).map(|pending| pending.checkpoint.id).collect()
    }

    /// Those that a completed checkpoint drops: they are older, and nobody has forced them.
    pub(super) fn subsumed_by(&self, completed: CheckpointId) -> Vec<CheckpointId> {
        let older = self.pending.range(..completed);
        older.filter(|(_, pending)| pending.checkpoint.can_be_subsumed()).map(|(id, _)| *id).collect()
    }

    /// These checkpoints and those on whose files they may build.
    pub(super) fn with_bases(&self) -> impl Iterator<Item = CheckpointId> {
        self.pending.iter().flat_map(|(id, pending)| [Some(*id), pending.base]).flatten()
    }

    /// It has ended.
    pub(super) fn take(&mut self, id: CheckpointId) -> Option<Pending> {
        self.pending.remove(&id)
    }

    /// All have ended.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Pending> + use<> {
        std::mem::take(&mut self.pending).into_values()
    }

    /// Whether nothing is written for this checkpoint: it is not under way, and the write of its metadata has
    /// ended.
    pub(super) fn is_over(&self, id: CheckpointId) -> bool {
        !self.contains(id) && !self.abandoned_writes.contains_key(&id)
    }

    /// A checkpoint is given up while its metadata is being written.
    pub(super) fn abandon_write(&mut self, id: CheckpointId, abandoned: Abandoned) {
        self.abandoned_writes.insert(id, abandoned);
    }

    /// The write of its metadata has ended: what is to be deleted, if the checkpoint was given up meanwhile.
    pub(super) fn take_abandoned(&mut self, id: CheckpointId) -> Option<Abandoned> {
        self.abandoned_writes.remove(&id)
    }

    /// Remembers what becomes of an acknowledgement that comes too late: these files are deleted, or, without
    /// any, nothing is.
    pub(super) fn remember(&mut self, id: CheckpointId, deleted: Option<Files>) {
        self.remembered.push_back((id, deleted));
        if self.remembered.len() > REMEMBERED {
            self.remembered.pop_front();
        }
    }

    /// What was remembered of this checkpoint.
    pub(super) fn remembered(&self, id: CheckpointId) -> Option<Option<&Files>> {
        self.remembered.iter().find(|(late, _)| *late == id).map(|(_, files)| files.as_ref())
    }
}
