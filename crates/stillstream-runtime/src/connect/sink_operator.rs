//! Runs a [`Sink`] as an operator of the runtime.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_state::Data;
use stillstream_types::{CheckpointId, Error, ErrorKind, RedistributionMode, Result};

use super::committer::Committer;
use super::list_state::StoredList;
use super::sink::{Sink, SinkContext, SinkWriter};
use crate::batch::AnyBatch;
use crate::operator::{AsyncSnapshot, OpenContext, Operator, Output};
use crate::plan::NodeBody;

/// The list state that holds what is prepared and not yet committed, each with its checkpoint.
const COMMITTABLES: &str = "committables";

/// What a job without checkpoints calls its only transaction: above every checkpoint, so that what a crash leaves of it is
/// never taken for part of one.
const NO_CHECKPOINT: CheckpointId = CheckpointId(u64::MAX);

/// The node body for a sink; `retries` is `sink.committer.retries`.
pub fn sink_body<T: Data, S: Sink<T>>(sink: Arc<S>, retries: u32) -> NodeBody {
    NodeBody::Operator(Arc::new(move || Ok(Box::new(SinkOperator::<T, S>::new(sink.clone(), retries)))))
}

/// One subtask of a sink.
///
/// Pending transactions are list state, so a restore deals all of them out whatever the parallelism. Each notice commits
/// everything up to the announced checkpoint, as notices can be lost; each restore commits all that it finds.
pub struct SinkOperator<T: Data, S: Sink<T>> {
    sink: Arc<S>,
    writer: Option<Box<dyn SinkWriter<T, S::Committable>>>,
    committer: Committer<S::Committable>,
    stored: Option<StoredList<(u64, S::Committable)>>,
    checkpointing: bool,
    items: PhantomData<fn(T)>,
}

impl<T: Data, S: Sink<T>> fmt::Debug for SinkOperator<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SinkOperator({} pending)", self.committer.len())
    }
}

fn not_open() -> Error {
    Error::new(ErrorKind::Plan, "a sink was used before it was opened")
}

impl<T: Data, S: Sink<T>> SinkOperator<T, S> {
    /// One subtask of `sink`, which tries a commit again `retries` times.
    pub fn new(sink: Arc<S>, retries: u32) -> Self {
        let committer = Committer::new(retries);
        Self { sink, writer: None, committer, stored: None, checkpointing: true, items: PhantomData }
    }

    fn commit_up_to(&mut self, id: CheckpointId) -> Result<()> {
        let writer = self.writer.as_mut().ok_or_else(not_open)?;
        self.committer.commit_up_to(id, &mut **writer)
    }

    fn prepare(&mut self, id: CheckpointId) -> Result<bool> {
        let writer = self.writer.as_mut().ok_or_else(not_open)?;
        let prepared = writer.prepare(id)?;
        Ok(prepared.map(|prepared| self.committer.add(id, prepared)).is_some())
    }
}

impl<T: Data, S: Sink<T>> Operator for SinkOperator<T, S> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        self.checkpointing = context.checkpointing;
        self.writer = Some(self.sink.writer(&SinkContext::of(context))?);
        let (stored, restored) = StoredList::open(context, COMMITTABLES, RedistributionMode::Split)?;
        self.stored = Some(stored);
        for (checkpoint, committable) in restored.unwrap_or_default() {
            self.committer.add(CheckpointId(checkpoint), super::Prepared::done(committable));
        }
        self.commit_up_to(NO_CHECKPOINT)?;
        let writer = self.writer.as_mut().ok_or_else(not_open)?;
        writer.recovered(context.restored_checkpoint)
    }

    fn process(&mut self, _: usize, batch: AnyBatch, _: &mut Output) -> Result<()> {
        self.writer.as_mut().ok_or_else(not_open)?.write(batch.take()?)
    }

    fn ready(&mut self) -> Result<bool> {
        self.writer.as_mut().ok_or_else(not_open)?.ready()
    }

    fn snapshot(&mut self, id: CheckpointId) -> Result<Option<AsyncSnapshot>> {
        self.prepare(id)?;
        if self.committer.is_empty() {
            return Ok(None);
        }
        let durabilities = self.committer.durabilities();
        let list = self.stored.as_ref().ok_or_else(not_open)?.snapshot(self.committer.items())?;
        Ok(Some(Box::new(move |store| {
            durabilities.iter().try_for_each(|durability| durability.ensure())?;
            list(store)
        })))
    }

    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        self.commit_up_to(id)
    }

    fn finish(&mut self) -> Result<()> {
        let late = self.prepare(NO_CHECKPOINT)?;
        if !self.checkpointing {
            self.committer.durabilities().iter().try_for_each(|durability| durability.ensure())?;
            return self.commit_up_to(NO_CHECKPOINT);
        }
        if self.committer.is_empty() {
            return self.writer.as_mut().ok_or_else(not_open)?.finished();
        }
        let what =
            if late { "records that no checkpoint holds" } else { "transactions that were never announced" };
        Err(Error::new(
            ErrorKind::Checkpoint,
            format!(
                "the sink ends with {} ({} uncommitted): the job's last checkpoint did not cover everything, start it \
                 again from that checkpoint",
                what,
                self.committer.len()
            ),
        ))
    }
}
