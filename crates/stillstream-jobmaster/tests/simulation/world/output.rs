//! What the sinks have committed: each record once, and all in the end.

use super::*;

/// What a sink has prepared at the barrier of a checkpoint: its share of the records since the barrier
/// before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    pub generation: Generation,
    pub checkpoint: CheckpointId,
    /// The sink's subtask, and how many there are.
    pub index: u32,
    pub of: u32,
    pub from: u64,
    pub to: u64,
}

impl Transaction {
    fn records(&self) -> impl Iterator<Item = u64> {
        (self.from..self.to).filter(|record| record % u64::from(self.of) == u64::from(self.index))
    }

    fn name(&self) -> (Generation, CheckpointId, u32) {
        (self.generation, self.checkpoint, self.index)
    }
}

/// What is in a subtask's file.
#[derive(Clone, Default, Debug)]
pub struct Content {
    /// Where the input was.
    pub position: u64,
    /// What the sink has prepared and not committed.
    pub pending: Vec<Transaction>,
    /// The splits that a reader has.
    pub splits: BTreeSet<u64>,
}

/// By record, the transaction that committed it.
#[derive(Default)]
pub struct Output(Vec<Option<(Generation, CheckpointId, u32)>>);

impl Output {
    /// Commits; a transaction that was committed before changes nothing.
    pub fn commit(&mut self, transactions: &[Transaction]) {
        for transaction in transactions {
            for record in transaction.records() {
                let at = record as usize;
                if self.0.len() <= at {
                    self.0.resize(at + 1, None);
                }
                let by = self.0[at].get_or_insert(transaction.name());
                assert!(
                    *by == transaction.name(),
                    "record {record} is committed by {by:?} and by {transaction:?}"
                );
            }
        }
    }

    /// An attempt begins behind `position`: all before it is committed, or will be.
    pub fn assert_nothing_lost(&self, position: u64, pending: &[Transaction]) {
        let to_come: BTreeSet<u64> = pending.iter().flat_map(Transaction::records).collect();
        for record in 0..position {
            let committed = self.0.get(record as usize).is_some_and(Option::is_some);
            assert!(
                committed || to_come.contains(&record),
                "record {record} is lost: an attempt begins at {position}"
            );
        }
    }

    /// The job has finished.
    pub fn assert_whole(&self, input: Option<u64>) {
        let Some(input) = input else { panic!("the job has finished, and its input has no end") };
        self.assert_exactly(input);
    }

    /// The job has ended here, and everything is committed.
    pub fn assert_exactly(&self, position: u64) {
        for record in 0..position {
            let committed = self.0.get(record as usize).is_some_and(Option::is_some);
            assert!(committed, "record {record} of {position} is not committed, and the job has ended");
        }
        self.assert_nothing_beyond(position);
    }

    /// Nothing is committed of which this snapshot does not know.
    pub fn assert_nothing_beyond(&self, position: u64) {
        let committed = self.0.iter().rposition(Option::is_some).map_or(0, |last| last as u64 + 1);
        assert!(
            committed <= position,
            "{committed} records are committed, and the job has ended at {position}"
        );
    }
}

impl World {
    /// Where an attempt begins that starts from this, and what its sinks have still to commit.
    pub(super) fn content_of(&self, restored: &RestoredState) -> (u64, Vec<Transaction>) {
        let states = restored.operators.values().flat_map(|subtasks| subtasks.values());
        let handles = states.flat_map(|state| &state.incremental);
        let contents: Vec<&Content> =
            handles.filter_map(|handle| self.contents.get(handle.meta.path()?)).collect();
        let position = contents.iter().map(|content| content.position).max().unwrap_or(0);
        let mut pending: Vec<Transaction> = Vec::new();
        for transaction in contents.iter().flat_map(|content| &content.pending) {
            if !pending.contains(transaction) {
                pending.push(transaction.clone());
            }
        }
        (position, pending)
    }
}
