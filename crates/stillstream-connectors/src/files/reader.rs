//! The reader of file sources: takes what the reading thread has sent, at the wanted rate.

use std::time::Duration;

use stillstream_runtime::connect::{Arrived, BackgroundReader, SourceContext, SplitReader};
use stillstream_runtime::{AnyBatch, Batch, SourceStatus};
use stillstream_state::Data;
use stillstream_types::Result;

use super::rows::{ChunkSize, OpenRows, read_splits};
use super::split::{FileSplit, OnMalformed};
use crate::pace::{Pacer, Rate};

/// Chunks that may wait in the channel.
const CAPACITY: usize = 8;
/// Records of a chunk where nothing limits the rate.
const CHUNK: usize = 256;

pub(crate) struct FileReader<T> {
    pub context: SourceContext,
    pub open: OpenRows<T>,
    pub on_malformed: OnMalformed,
    pub rate: Rate,
    pub started: Option<Started<T>>,
}

pub(crate) struct Started<T> {
    reader: BackgroundReader<T, FileSplit>,
    pacer: Option<Pacer>,
}

/// This subtask's share of the rate in units (records or bytes) per second.
fn share(rate: Rate, parallelism: u32, splits: &[FileSplit]) -> Option<f64> {
    match rate {
        Rate::Unlimited => None,
        Rate::RecordsPerSecond(rate) => {
            let of = splits.first().map_or(1, |split| split.of);
            Some(rate / f64::from(parallelism.min(of).max(1)))
        }
        Rate::SpreadOver(duration) => {
            let bytes: u64 = splits.iter().map(|split| split.bytes).sum();
            Some(bytes.max(1) as f64 / duration.max(Duration::from_millis(1)).as_secs_f64())
        }
    }
}

impl<T: Data> SplitReader<T, FileSplit> for FileReader<T> {
    fn assign(&mut self, splits: Vec<FileSplit>) -> Result<()> {
        if splits.is_empty() {
            return Ok(());
        }
        if let Some(Started { reader, .. }) = &mut self.started {
            reader.forget(|split| split.done);
            reader.assign(splits);
            return Ok(());
        }
        let share = share(self.rate, self.context.parallelism, &splits);
        // about a hundred chunks a second, so that a slow rate is also an even one
        let per_chunk = share.map(|share| (share / 100.0).max(1.0));
        let by_bytes = matches!(self.rate, Rate::SpreadOver(_));
        let size = ChunkSize {
            records: per_chunk.filter(|_| !by_bytes).map_or(CHUNK, |n| (n as usize).clamp(1, CHUNK)),
            raw: per_chunk.filter(|_| by_bytes).map_or(u64::MAX, |n| n as u64),
            by_bytes,
        };
        let pacer = share.map(|share| Pacer::new(self.context.clock.clone(), share));
        let (open, on_malformed) = (self.open.clone(), self.on_malformed);
        let name = format!("{}-{}", self.context.name, self.context.subtask);
        let waker = self.context.waker.clone();
        let mut reader = BackgroundReader::start(&name, CAPACITY, waker, move |splits, chunks| {
            read_splits(splits, &open, on_malformed, size, chunks)
        })?;
        reader.assign(splits);
        self.started = Some(Started { reader, pacer });
        Ok(())
    }

    fn poll(&mut self, max_records: usize, out: &mut Batch<T>) -> Result<SourceStatus> {
        let Some(Started { reader, pacer }) = &mut self.started else { return Ok(SourceStatus::Ended) };
        let status = loop {
            match reader.peek()? {
                Arrived::Chunk(_) => {}
                Arrived::Nothing => break SourceStatus::Idle { until_ms: None },
                Arrived::Ended => break SourceStatus::Ended,
            }
            if let Some(Err(wait)) = pacer.as_mut().map(Pacer::due) {
                break wait;
            }
            let weight = reader.take(out).unwrap_or(0);
            if let Some(pacer) = pacer {
                pacer.take(weight);
            }
            if out.len() >= max_records {
                break SourceStatus::More;
            }
        };
        let skipped = reader.take_skipped();
        if skipped > 0 {
            self.context.counters.add(&format!("{}.malformed", self.context.name), skipped);
        }
        Ok(status)
    }

    fn positions(&self) -> Vec<FileSplit> {
        let mut splits = self.started.as_ref().map_or_else(Vec::new, |started| started.reader.positions());
        // what is done counts where the rate is reckoned by the bytes of all
        splits.retain(|split| !split.done || matches!(self.rate, Rate::SpreadOver(_)));
        splits
    }

    fn place(&self) -> Option<String> {
        // files are read one after another: the last one that was begun is the one whose records came last
        self.started.as_ref()?.reader.positions().iter().filter_map(FileSplit::place).next_back()
    }

    fn side_output(&mut self) -> Option<AnyBatch> {
        self.started.as_mut()?.reader.side_output()
    }
}
