//! Transactions between pre-commit and commit.

use std::sync::Arc;

use parking_lot::Mutex;
use stillstream_types::{CheckpointId, Result};

use super::sink::{MakeDurable, Prepared, SinkWriter};

/// What is left to do before a transaction counts as pre-committed; shared with the snapshots that wait for it.
///
/// Every snapshot that names the transaction does the rest of this work before it is acknowledged. So a transaction whose
/// own checkpoint was aborted before that work ran is never committed by a later checkpoint without it.
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

struct Pending<C> {
    checkpoint: CheckpointId,
    committable: C,
    durability: Durability,
}

/// All transactions that are prepared and not yet committed, oldest first.
pub(crate) struct Committer<C> {
    pending: Vec<Pending<C>>,
    retries: u32,
}

impl<C: Clone + 'static> Committer<C> {
    pub fn new(retries: u32) -> Self {
        Self { pending: Vec::new(), retries }
    }

    pub fn add(&mut self, checkpoint: CheckpointId, prepared: Prepared<C>) {
        let Prepared { committable, make_durable } = prepared;
        let durability = Durability(Arc::new(Mutex::new(make_durable)));
        self.pending.push(Pending { checkpoint, committable, durability });
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

    /// Commits everything up to checkpoint `id`. What was committed is forgotten, also if a later one fails.
    pub fn commit_up_to<T: 'static>(
        &mut self,
        id: CheckpointId,
        writer: &mut dyn SinkWriter<T, C>,
    ) -> Result<()> {
        let mut failed = None;
        self.pending.retain(|pending| {
            if pending.checkpoint > id || failed.is_some() {
                return true;
            }
            let mut attempt = 0;
            loop {
                match writer.commit(&pending.committable) {
                    Ok(()) => return false,
                    Err(_) if attempt < self.retries => attempt += 1,
                    Err(error) => {
                        failed = Some(error.context(format!(
                            "committing what was written for checkpoint {} failed {} times (sink.committer.retries: {})",
                            pending.checkpoint,
                            attempt + 1,
                            self.retries
                        )));
                        return true;
                    }
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }
}
