//! Transactions between pre-commit and commit.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use stillstream_types::{CheckpointId, Result};

use super::sink::{MakeDurable, Prepared};

/// What is left to do before a transaction counts as pre-committed; shared with the snapshots that wait for
/// it.
///
/// Every snapshot that names the transaction does the rest of this work before it is acknowledged. So a
/// transaction whose own checkpoint was aborted before that work ran is never committed by a later checkpoint
/// without it.
#[derive(Clone)]
pub(crate) struct Durability(Arc<Mutex<Option<MakeDurable>>>);

impl Durability {
    pub fn ensure(&self) -> Result<()> {
        let mut rest = self.0.lock();
        if let Some(make_durable) = rest.as_mut() {
            make_durable()?;
        }
        *rest = None;
        Ok(())
    }
}

/// A transaction that is to be committed.
pub(crate) struct Transaction<C> {
    pub checkpoint: CheckpointId,
    pub committable: C,
    pub durability: Durability,
}

impl<C: Clone> Clone for Transaction<C> {
    fn clone(&self) -> Self {
        let (committable, durability) = (self.committable.clone(), self.durability.clone());
        Self { checkpoint: self.checkpoint, committable, durability }
    }
}

/// All transactions that are prepared and whose commit is not confirmed, in the order in which they are
/// committed. A snapshot holds them all: nobody knows whether a commit that is under way will succeed.
pub(crate) struct Transactions<C> {
    pending: VecDeque<Transaction<C>>,
    /// How many of them, from the first one on, are being committed.
    under_way: usize,
}

impl<C> Default for Transactions<C> {
    fn default() -> Self {
        Self { pending: VecDeque::new(), under_way: 0 }
    }
}

impl<C: Clone + 'static> Transactions<C> {
    pub fn add(&mut self, checkpoint: CheckpointId, prepared: Prepared<C>) {
        let Prepared { committable, make_durable } = prepared;
        let durability = Durability(Arc::new(Mutex::new(make_durable)));
        self.pending.push_back(Transaction { checkpoint, committable, durability });
    }

    pub fn len(&self) -> usize {
        self.pending.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// What a snapshot holds.
    pub fn items(&self) -> Vec<(u64, C)> {
        self.pending.iter().map(|pending| (pending.checkpoint.0, pending.committable.clone())).collect()
    }

    pub fn durabilities(&self) -> Vec<Durability> {
        self.pending.iter().map(|pending| pending.durability.clone()).collect()
    }

    /// Everything up to checkpoint `id` that is not being committed yet: it is from now on.
    pub fn begin_up_to(&mut self, id: CheckpointId) -> Vec<Transaction<C>> {
        let waiting = self.pending.iter().skip(self.under_way);
        let begun: Vec<_> = waiting.take_while(|pending| pending.checkpoint <= id).cloned().collect();
        self.under_way += begun.len();
        begun
    }

    /// The first `count` of those under way have been committed: they are forgotten.
    pub fn confirm(&mut self, count: usize) {
        let count = count.min(self.under_way);
        self.pending.drain(..count);
        self.under_way -= count;
    }

    /// The checkpoint of the first one that is being committed.
    pub fn oldest_under_way(&self) -> Option<CheckpointId> {
        self.pending.front().filter(|_| self.under_way > 0).map(|pending| pending.checkpoint)
    }
}
