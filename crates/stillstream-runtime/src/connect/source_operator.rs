//! Runs a [`SplitSource`] as a source of the runtime.

use std::fmt;
use std::sync::Arc;

use stillstream_types::{CheckpointId, Error, ErrorKind, RedistributionMode, Result, SnapshotForm};

use super::list_state::StoredList;
use super::source::{SourceContext, SplitNews, SplitReader, SplitSource};
use crate::operator::batch::Batch;
use crate::operator::{AsyncSnapshot, OpenContext, Output, Source, SourceStatus, SplitEvent};
use crate::plan::NodeBody;

/// The union list state that holds all splits with their positions.
pub(crate) const SPLITS: &str = "splits";

/// The node body for a source.
pub fn source_body<S: SplitSource>(source: Arc<S>) -> NodeBody {
    NodeBody::Source(Arc::new(move || Ok(Box::new(SourceOperator::new(source.clone())))))
}

/// One subtask of a split source.
///
/// Positions are union list state: on a restore each subtask sees all splits, takes its share, and from then
/// on snapshots only these. So the state does not grow with restores, and no split is lost or read twice at
/// any parallelism.
///
/// At an unchanged parallelism a subtask's share is what it had before: what else it keeps about its splits,
/// such as the watermark that it has reached, would be wrong for those of another subtask. Otherwise, and at
/// a fresh start, splits are dealt out one by one.
pub struct SourceOperator<S: SplitSource> {
    source: Arc<S>,
    reader: Option<Box<dyn SplitReader<S::Item, S::Split>>>,
    stored: Option<StoredList<S::Split>>,
    /// What the reader has told of its splits when they were assigned; passed on with the first records.
    assigned: Option<SplitNews>,
    /// It was opened to see which state it has.
    dry: bool,
}

impl<S: SplitSource> fmt::Debug for SourceOperator<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SourceOperator")
    }
}

fn tell(splits: &[usize], event: fn(u32) -> SplitEvent, out: &mut Output) {
    splits.iter().for_each(|split| out.split(event(*split as u32)));
}

fn not_open() -> Error {
    Error::new(ErrorKind::Plan, "a source was used before it was opened")
}

impl<S: SplitSource> SourceOperator<S> {
    /// One subtask of `source`.
    pub fn new(source: Arc<S>) -> Self {
        Self { source, reader: None, stored: None, assigned: None, dry: false }
    }
}

impl<S: SplitSource> Source for SourceOperator<S> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let (stored, restored) = StoredList::open(context, SPLITS, RedistributionMode::Union)?;
        self.stored = Some(stored);
        self.dry = context.dry;
        if context.dry {
            return Ok(());
        }
        let (mine, parallelism) = (context.subtask.0 as usize, context.parallelism.max(1) as usize);
        let own = match restored {
            Some(restored) => {
                let readers = parallelism as u32;
                restored.share(mine, parallelism, |split| self.source.reader_of(split, readers))
            }
            None => self.source.splits()?.into_iter().skip(mine).step_by(parallelism).collect(),
        };
        let mut reader = self.source.reader(&SourceContext::of(context))?;
        reader.assign(own)?;
        self.assigned = reader.split_news();
        self.reader = Some(reader);
        Ok(())
    }

    fn poll(&mut self, max_records: usize, out: &mut Output) -> Result<SourceStatus> {
        let reader = self.reader.as_mut().ok_or_else(not_open)?;
        let mut batch = Batch::default();
        if let Some(assigned) = self.assigned.take() {
            out.split(SplitEvent::Told);
            tell(&assigned.opened, SplitEvent::Opened, out);
        }
        let status = reader.poll(max_records, &mut batch)?;
        let news = reader.split_news().unwrap_or_default();
        tell(&news.opened, SplitEvent::Opened, out);
        if let Some(split) = news.current.filter(|_| !batch.is_empty()) {
            out.split(SplitEvent::From(split as u32));
        }
        out.batch(batch);
        tell(&news.ended, SplitEvent::Ended, out);
        while let Some(side) = reader.side_output() {
            out.side(0, side);
        }
        Ok(status)
    }

    fn pause(&mut self, splits: &[u32]) -> Result<()> {
        let splits: Vec<usize> = splits.iter().map(|split| *split as usize).collect();
        self.reader.as_mut().ok_or_else(not_open)?.pause(&splits)
    }

    fn place(&self) -> Option<String> {
        self.reader.as_ref()?.place()
    }

    fn snapshot(&mut self, id: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        let positions = match &mut self.reader {
            Some(reader) => reader.snapshot(id),
            None if self.dry => Vec::new(),
            None => return Err(not_open()),
        };
        // also without splits: that the state is there tells a restore from a fresh start
        let list = self.stored.as_ref().ok_or_else(not_open)?.snapshot(positions)?;
        Ok(Some(Box::new(list)))
    }

    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        self.reader.as_mut().ok_or_else(not_open)?.checkpoint_complete(id)
    }
}
