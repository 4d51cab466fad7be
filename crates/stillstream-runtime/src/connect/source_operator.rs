//! Runs a [`SplitSource`] as a source of the runtime.

use std::fmt;
use std::sync::Arc;

use stillstream_state::Data as _;
use stillstream_types::{CheckpointId, Error, ErrorKind, RedistributionMode, Result, SnapshotForm};

use super::erased_enumerator::enumerator_factory;
use super::list_state::StoredList;
use super::source::{SourceContext, SplitNews, SplitReader, SplitSource};
use crate::operator::batch::Batch;
use crate::operator::{AsyncSnapshot, OpenContext, Output, Source, SourceStatus, SplitEvent};
use crate::plan::NodeBody;

/// The union list state that holds all splits with their positions.
pub(crate) const SPLITS: &str = "splits";

/// The node body for a source.
pub fn source_body<S: SplitSource>(source: Arc<S>) -> NodeBody {
    let enumerators = enumerator_factory(source.clone());
    let make = move || Ok(Box::new(SourceOperator::new(source.clone())) as _);
    NodeBody::SplitSource(Arc::new(make), enumerators)
}

/// Whether more splits are wished for, when all have been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    /// There are splits to read, as far as is known.
    None,
    /// The enumerator is to be asked.
    Asks,
    /// It has been asked, and has not answered.
    Asked,
    /// It has had none.
    Waits,
}

/// One subtask of a split source.
///
/// Positions are union list state: on a restore each subtask sees all splits, takes its share, and from then
/// on snapshots only these. So the state does not grow with restores, and no split is lost or read twice at
/// any parallelism. What was not assigned in that snapshot the enumerator assigns.
///
/// At an unchanged parallelism a subtask's share is what it had before: what else it keeps about its splits,
/// such as the watermark that it has reached, would be wrong for those of another subtask. Otherwise splits
/// go where the source says, or are dealt out one by one.
///
/// Until a subtask has splits of a snapshot, or the enumerator's first answer, it does nothing and is not
/// idle: others that have theirs already would make its records late.
pub struct SourceOperator<S: SplitSource> {
    source: Arc<S>,
    pub(super) reader: Option<Box<dyn SplitReader<S::Item, S::Split>>>,
    stored: Option<StoredList<S::Split>>,
    /// What the reader has told of splits that were assigned; passed on before the next records.
    assigned: Option<SplitNews>,
    /// It was passed on that the reader tells of its splits.
    tells: bool,
    /// It has splits of a snapshot, or an answer of the enumerator.
    knows: bool,
    no_more: bool,
    wish: Wish,
    /// It was passed on that the source waits for splits.
    idle: bool,
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
        Self {
            source,
            reader: None,
            stored: None,
            assigned: None,
            tells: false,
            knows: false,
            no_more: false,
            wish: Wish::None,
            idle: false,
            dry: false,
        }
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
        let of = |split: &S::Split| self.source.reader_of(split, parallelism as u32);
        let own = restored.map_or_else(Vec::new, |restored| restored.share(mine, parallelism, of));
        self.knows = !own.is_empty();
        let mut reader = self.source.reader(&SourceContext::of(context))?;
        reader.assign(own)?;
        // one that has none yet is asked once it is known which ones it gets: many tell of all at one time
        if self.knows {
            self.assigned = reader.split_news();
        }
        self.reader = Some(reader);
        Ok(())
    }

    fn assign(&mut self, splits: &[&[u8]], answers: bool, no_more: bool) -> Result<()> {
        let first = !std::mem::replace(&mut self.knows, true);
        self.no_more |= no_more;
        if splits.is_empty() {
            if first {
                self.assigned = self.reader.as_mut().ok_or_else(not_open)?.split_news();
            }
            if answers && self.wish == Wish::Asked {
                self.wish = Wish::Waits;
            }
            return Ok(());
        }
        let decode = |bytes: &&[u8]| {
            S::Split::decode(&mut &bytes[..]).map_err(|error| {
                let text = format!(
                    "a split that the enumerator assigned cannot be read ({error}): the `Data` of {} does not read what it \
                     writes",
                    std::any::type_name::<S::Split>()
                );
                Error::new(ErrorKind::Connector, text)
            })
        };
        let splits = splits.iter().map(decode).collect::<Result<_>>()?;
        let reader = self.reader.as_mut().ok_or_else(not_open)?;
        reader.assign(splits)?;
        if let Some(news) = reader.split_news() {
            let assigned = self.assigned.get_or_insert_default();
            assigned.opened.extend(news.opened);
            assigned.ended.extend(news.ended);
        }
        self.wish = Wish::None;
        Ok(())
    }

    fn wants_splits(&mut self) -> bool {
        let asks = self.wish == Wish::Asks;
        if asks {
            self.wish = Wish::Asked;
        }
        asks
    }

    fn poll(&mut self, max_records: usize, out: &mut Output) -> Result<SourceStatus> {
        if !self.knows {
            return Ok(SourceStatus::Idle { until_ms: None });
        }
        if self.idle && self.wish == Wish::None {
            self.idle = false;
            out.idle(false);
            out.split(SplitEvent::Waits(false));
        }
        let reader = self.reader.as_mut().ok_or_else(not_open)?;
        let mut batch = Batch::default();
        if let Some(assigned) = self.assigned.take() {
            if !std::mem::replace(&mut self.tells, true) {
                out.split(SplitEvent::Told);
            }
            tell(&assigned.opened, SplitEvent::Opened, out);
            tell(&assigned.ended, SplitEvent::Ended, out);
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
        if status != SourceStatus::Ended || self.no_more {
            return Ok(status);
        }
        match self.wish {
            Wish::None => self.wish = Wish::Asks,
            Wish::Waits if !self.idle => {
                self.idle = true;
                out.idle(true);
                out.split(SplitEvent::Waits(true));
            }
            Wish::Asks | Wish::Asked | Wish::Waits => {}
        }
        Ok(SourceStatus::Idle { until_ms: None })
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
