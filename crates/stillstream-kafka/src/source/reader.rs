//! The reader of a subtask: takes what its thread has fetched.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use stillstream_runtime::connect::{Arrived, BackgroundReader, SourceContext, SplitNews, SplitReader};
use stillstream_runtime::{AnyBatch, Batch, SourceStatus};
use stillstream_state::Data;
use stillstream_types::{CheckpointId, Result};

use super::fetch::{Fetcher, Orders};
use super::group::GroupOffsets;
use super::settings::Settings;
use super::{KafkaDeserializer, KafkaSplit, SourceError};
use crate::client::offsets::Partition;

/// Chunks that may wait in the channel. A chunk has the records of one partition in one poll.
const CAPACITY: usize = 16;

/// Checkpoints of which it is not known whether they are complete: more than can be under way.
const UNCONFIRMED: usize = 64;

pub(super) struct KafkaReader<T> {
    context: SourceContext,
    fetcher: Option<Fetcher<T>>,
    reader: Option<BackgroundReader<T, KafkaSplit>>,
    orders: Arc<Orders>,
    /// By number.
    splits: BTreeMap<usize, KafkaSplit>,
    assigned: usize,
    news: SplitNews,
    last: Option<usize>,
    /// `None`: nobody watches.
    group: Option<Arc<GroupOffsets>>,
    snapshots: VecDeque<(CheckpointId, Vec<(Partition, u64)>)>,
}

impl<T: Data> KafkaReader<T> {
    pub(super) fn new(
        settings: Settings,
        deserializer: Arc<dyn KafkaDeserializer<T>>,
        context: SourceContext,
    ) -> Result<Self, SourceError> {
        let orders = Arc::new(Orders::default());
        let group = settings.commits_offsets()?.map(GroupOffsets::new);
        let fetcher = Fetcher::new(settings, deserializer, context.clone(), orders.clone(), group.clone())?;
        Ok(Self {
            context,
            fetcher: Some(fetcher),
            reader: None,
            orders,
            splits: BTreeMap::new(),
            assigned: 0,
            news: SplitNews::default(),
            last: None,
            group,
            snapshots: VecDeque::new(),
        })
    }
}

impl<T: Data> SplitReader<T, KafkaSplit> for KafkaReader<T> {
    fn assign(&mut self, splits: Vec<KafkaSplit>) -> Result<()> {
        self.news = SplitNews::default();
        if splits.is_empty() {
            return Ok(());
        }
        if let Some(mut fetcher) = self.fetcher.take() {
            let name = format!("{}-{}", self.context.name, self.context.subtask);
            let waker = self.context.waker.clone();
            self.reader = Some(BackgroundReader::start(&name, CAPACITY, waker, move |splits, chunks| {
                fetcher.read(splits, chunks)
            })?);
        }
        for split in &splits {
            if !split.is_done() {
                self.news.opened.push(self.assigned);
            }
            self.splits.insert(self.assigned, split.clone());
            self.assigned += 1;
        }
        if let Some(reader) = &mut self.reader {
            reader.assign(splits);
        }
        Ok(())
    }

    /// Takes chunks of one partition: whose records they are is told once for all of them.
    fn poll(&mut self, max_records: usize, out: &mut Batch<T>) -> Result<SourceStatus> {
        self.news = SplitNews::default();
        let Some(reader) = &mut self.reader else { return Ok(SourceStatus::Ended) };
        let status = loop {
            let (split, position) = match reader.peek()? {
                Arrived::Chunk(chunk) => (chunk.split, chunk.position.clone()),
                Arrived::Nothing => break SourceStatus::Idle { until_ms: None },
                Arrived::Ended => break SourceStatus::Ended,
            };
            if self.news.current.is_some_and(|current| current != split) {
                break SourceStatus::More;
            }
            reader.take(out);
            self.news.current = Some(split);
            if position.is_done() {
                self.news.ended.push(split);
            }
            self.last = Some(split);
            self.splits.insert(split, position);
            if out.len() >= max_records {
                break SourceStatus::More;
            }
        };
        let malformed = reader.take_skipped();
        if malformed > 0 {
            self.context.counters.add(&format!("{}.malformed", self.context.name), malformed);
        }
        Ok(status)
    }

    fn positions(&self) -> Vec<KafkaSplit> {
        self.splits.values().filter(|split| !split.is_done()).cloned().collect()
    }

    fn snapshot(&mut self, id: CheckpointId) -> Vec<KafkaSplit> {
        if self.group.is_some() {
            let offsets = self.splits.values().map(|split| (split.key(), split.next)).collect();
            self.snapshots.push_back((id, offsets));
            if self.snapshots.len() > UNCONFIRMED {
                self.snapshots.pop_front();
            }
        }
        self.positions()
    }

    fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        let mut newest = None;
        while self.snapshots.front().is_some_and(|(snapshot, _)| *snapshot <= id) {
            newest = self.snapshots.pop_front().filter(|(snapshot, _)| *snapshot == id).map(|(_, at)| at);
        }
        if let (Some(group), Some(offsets)) = (&self.group, newest) {
            group.commit(offsets);
        }
        Ok(())
    }

    fn place(&self) -> Option<String> {
        let split = self.splits.get(&self.last?)?;
        Some(format!("offset {} of {}, or shortly before", split.next.saturating_sub(1), split.key()))
    }

    fn split_news(&mut self) -> Option<SplitNews> {
        Some(std::mem::take(&mut self.news))
    }

    fn pause(&mut self, splits: &[usize]) -> Result<()> {
        let splits: BTreeSet<usize> = splits.iter().copied().collect();
        if let Some(reader) = &mut self.reader {
            reader.pause(splits.clone());
        }
        self.orders.pause(splits);
        Ok(())
    }

    fn side_output(&mut self) -> Option<AnyBatch> {
        self.reader.as_mut()?.side_output()
    }
}

impl<T> Drop for KafkaReader<T> {
    fn drop(&mut self) {
        self.orders.end();
        if let Some(group) = &self.group {
            group.finish();
        }
    }
}
