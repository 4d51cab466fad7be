//! A checkpoint that is under way: who has acknowledged, who has not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::{CheckpointId, CheckpointKind, OperatorId, SavepointFormat, SubtaskId, TaskSnapshot};

use crate::checkpoint::event::RequestId;
use crate::message::AckMetrics;

/// The answer to an acknowledgement (Flink's `TaskAcknowledgeResult`). A snapshot that is handed back is not
/// part of the checkpoint: its files have to be deleted.
#[derive(Clone, PartialEq, Debug)]
pub enum AckOutcome {
    /// Taken. `last` says whether it was the last missing one.
    Success {
        /// Whether all have acknowledged now.
        last: bool,
    },
    /// The subtask had acknowledged before: its first snapshot stays, and nothing is deleted (both may name
    /// the same files).
    Duplicate,
    /// The subtask takes no part in this checkpoint.
    Unknown(TaskSnapshot),
}

/// Where the files of one checkpoint lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Files {
    /// In a directory below that of the job.
    Checkpoint(Arc<str>),
    /// At a savepoint's location.
    Savepoint(Arc<str>),
}

/// One subtask's part.
#[derive(Clone, PartialEq, Debug)]
pub struct Acknowledged {
    /// Where its state lies.
    pub snapshot: TaskSnapshot,
    /// What it measured.
    pub metrics: AckMetrics,
    /// When it came.
    pub at: Duration,
}

/// A checkpoint that is under way.
///
/// Invariant: each subtask is in exactly one of `waiting` and `acknowledged`.
#[derive(Clone, Debug)]
pub struct PendingCheckpoint {
    /// Its number.
    pub id: CheckpointId,
    /// What it will be.
    pub kind: CheckpointKind,
    /// Its directory; of a savepoint its location.
    pub path: Arc<str>,
    /// The form of a savepoint.
    pub format: Option<SavepointFormat>,
    /// The job stops with it.
    pub last: bool,
    /// Who asked for it, if somebody waits for an answer.
    pub request: Option<RequestId>,
    /// When it was triggered.
    pub triggered_at: Duration,
    /// The same by the wall clock, in milliseconds since 1970.
    pub triggered_at_ms: i64,
    /// The states of the sources' enumerators as of the trigger.
    pub enumerators: BTreeMap<OperatorId, Arc<[u8]>>,
    forced: bool,
    waiting: BTreeSet<SubtaskId>,
    acknowledged: BTreeMap<SubtaskId, Acknowledged>,
    size_bytes: u64,
    newest: Option<(SubtaskId, Duration)>,
}

impl PendingCheckpoint {
    /// A checkpoint that waits for all of `subtasks`.
    pub fn new(
        id: CheckpointId,
        kind: CheckpointKind,
        forced: bool,
        path: Arc<str>,
        subtasks: impl IntoIterator<Item = SubtaskId>,
        now: Duration,
    ) -> Self {
        Self {
            id,
            kind,
            path,
            format: None,
            last: false,
            request: None,
            triggered_at: now,
            triggered_at_ms: 0,
            enumerators: BTreeMap::new(),
            forced,
            waiting: subtasks.into_iter().collect(),
            acknowledged: BTreeMap::new(),
            size_bytes: 0,
            newest: None,
        }
    }

    /// A subtask's part has come.
    pub fn acknowledge(
        &mut self,
        subtask: SubtaskId,
        snapshot: TaskSnapshot,
        metrics: AckMetrics,
        now: Duration,
    ) -> AckOutcome {
        if !self.waiting.remove(&subtask) {
            return match self.acknowledged.contains_key(&subtask) {
                true => AckOutcome::Duplicate,
                false => AckOutcome::Unknown(snapshot),
            };
        }
        self.size_bytes += snapshot.len();
        self.newest = Some((subtask, now));
        self.acknowledged.insert(subtask, Acknowledged { snapshot, metrics, at: now });
        AckOutcome::Success { last: self.waiting.is_empty() }
    }

    /// Whether it is a savepoint.
    pub fn is_savepoint(&self) -> bool {
        self.kind == CheckpointKind::Savepoint
    }

    /// Where its files lie.
    pub fn files(&self) -> Files {
        match self.is_savepoint() {
            true => Files::Savepoint(self.path.clone()),
            false => Files::Checkpoint(self.path.clone()),
        }
    }

    /// "checkpoint 7", "savepoint 8"
    pub fn label(&self) -> String {
        format!("{} {}", word(self.kind), self.id)
    }

    /// Whether a later checkpoint that completes first drops this one.
    pub fn can_be_subsumed(&self) -> bool {
        !self.forced && self.kind == CheckpointKind::Checkpoint
    }

    /// Whether this subtask has not acknowledged but has to.
    pub fn waits_for(&self, subtask: SubtaskId) -> bool {
        self.waiting.contains(&subtask)
    }

    /// Those that have not acknowledged.
    pub fn missing(&self) -> impl ExactSizeIterator<Item = SubtaskId> {
        self.waiting.iter().copied()
    }

    /// The parts that have come, by subtask.
    pub fn acknowledged(&self) -> &BTreeMap<SubtaskId, Acknowledged> {
        &self.acknowledged
    }

    /// The last subtask that acknowledged, and when.
    pub fn last_acknowledged(&self) -> Option<(SubtaskId, Duration)> {
        self.newest
    }

    /// How many take part.
    pub fn subtasks(&self) -> usize {
        self.waiting.len() + self.acknowledged.len()
    }

    /// Bytes of state that have come.
    pub fn size_bytes(&self) -> u64 {
        self.enumerators.values().map(|state| state.len() as u64).sum::<u64>() + self.size_bytes
    }
}

/// What people call it.
pub fn word(kind: CheckpointKind) -> &'static str {
    match kind {
        CheckpointKind::Savepoint => "savepoint",
        CheckpointKind::Checkpoint | CheckpointKind::Final => "checkpoint",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use stillstream_types::{OperatorId, OperatorStateHandle, OperatorSubtaskState, StreamHandle};

    fn task(index: u32) -> SubtaskId {
        SubtaskId::new(0, index)
    }

    fn snapshot(bytes: usize) -> TaskSnapshot {
        let stream = StreamHandle::Inline { bytes: Arc::from(vec![0u8; bytes]) };
        let state = OperatorSubtaskState {
            operator: vec![OperatorStateHandle { states: BTreeMap::new(), stream }],
            ..OperatorSubtaskState::default()
        };
        TaskSnapshot { operators: vec![(OperatorId::from_uid("a"), state)] }
    }

    fn pending(kind: CheckpointKind, forced: bool) -> PendingCheckpoint {
        PendingCheckpoint::new(
            CheckpointId(1),
            kind,
            forced,
            "chk-1".into(),
            [task(0), task(1)],
            Duration::ZERO,
        )
    }

    fn ack(pending: &mut PendingCheckpoint, index: u32, bytes: usize) -> AckOutcome {
        pending.acknowledge(task(index), snapshot(bytes), AckMetrics::default(), Duration::from_secs(1))
    }

    #[test]
    fn each_answer_to_an_acknowledgement_is_told_apart() {
        let mut pending = pending(CheckpointKind::Checkpoint, false);
        assert_eq!(ack(&mut pending, 0, 5), AckOutcome::Success { last: false });
        assert_eq!(ack(&mut pending, 0, 9), AckOutcome::Duplicate);
        assert_eq!(ack(&mut pending, 7, 3), AckOutcome::Unknown(snapshot(3)));
        assert_eq!(pending.missing().collect::<Vec<_>>(), [task(1)]);
        assert_eq!(ack(&mut pending, 1, 6), AckOutcome::Success { last: true });
        assert_eq!((pending.size_bytes(), pending.subtasks()), (11, 2));
    }

    #[test]
    fn only_plain_checkpoints_that_were_not_forced_can_be_subsumed() {
        assert!(pending(CheckpointKind::Checkpoint, false).can_be_subsumed());
        assert!(!pending(CheckpointKind::Checkpoint, true).can_be_subsumed());
        assert!(!pending(CheckpointKind::Savepoint, false).can_be_subsumed());
        assert!(!pending(CheckpointKind::Final, false).can_be_subsumed());
    }
}
