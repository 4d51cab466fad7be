//! A source whose job is as long as its checkpoints are many, however slow the machine is.

use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};
use stillstream_types::CheckpointId;

/// Emits what `inner` has, but after the first records only a fixed number more for each completed
/// checkpoint.
pub struct Paced<S> {
    inner: S,
    first: u64,
    step: u64,
}

impl<S> Paced<S> {
    /// `first` records at once and `step` more after each checkpoint, over all subtasks.
    pub fn new(inner: S, first: u64, step: u64) -> Self {
        Self { inner, first, step }
    }
}

impl<S: SplitSource> SplitSource for Paced<S> {
    type Item = S::Item;
    type Split = S::Split;

    fn splits(&self) -> Result<Vec<S::Split>> {
        self.inner.splits()
    }

    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<S::Item, S::Split>>> {
        let share = |records: u64| records.div_ceil(u64::from(context.parallelism));
        Ok(Box::new(PacedReader {
            inner: self.inner.reader(context)?,
            context: context.clone(),
            open: share(self.first),
            step: share(self.step),
        }))
    }
}

struct PacedReader<T, S> {
    inner: Box<dyn SplitReader<T, S>>,
    context: SourceContext,
    /// How many records may still be emitted before the next checkpoint.
    open: u64,
    step: u64,
}

impl<T: Data, S: Data> SplitReader<T, S> for PacedReader<T, S> {
    fn assign(&mut self, splits: Vec<S>) -> Result<()> {
        self.inner.assign(splits)
    }

    fn poll(&mut self, max_records: usize, out: &mut Batch<T>) -> Result<SourceStatus> {
        if self.open == 0 {
            let soon = self.context.clock.now_ms() + 2;
            return Ok(SourceStatus::Idle { until_ms: Some(soon) });
        }
        let before = out.values.len();
        let status = self.inner.poll(max_records.min(self.open as usize), out)?;
        self.open -= (out.values.len() - before) as u64;
        Ok(status)
    }

    fn positions(&self) -> Vec<S> {
        self.inner.positions()
    }

    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        self.open += self.step;
        self.inner.checkpoint_complete(id)
    }
}
