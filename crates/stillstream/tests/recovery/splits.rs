//! Which subtask reads which split after a failure, as windows show it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId, SourceStatus};

/// Records of each split.
const RECORDS: i64 = 2000;
const SPLITS: u32 = 4;

/// Splits 0 and 2 are far ahead of 1 and 3 when the job fails; then all are read to their ends.
#[derive(Clone, Default)]
struct Uneven {
    failed: Arc<AtomicBool>,
    /// Subtasks of which a checkpoint holds how far they got before the failure.
    waiting: Arc<AtomicU32>,
}

struct Reader {
    source: Uneven,
    splits: Vec<(u32, i64)>,
    /// How many checkpoints were completed since the splits got as far as they do before the failure.
    checkpoints: u32,
    reported: bool,
}

impl SplitSource for Uneven {
    type Item = i64;
    type Split = (u32, i64);
    fn splits(&self) -> Result<Vec<(u32, i64)>> {
        Ok((0..SPLITS).map(|split| (split, 0)).collect())
    }
    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<i64, (u32, i64)>>> {
        Ok(Box::new(Reader { source: self.clone(), splits: Vec::new(), checkpoints: 0, reported: false }))
    }
}

impl Reader {
    fn end(&self, split: u32) -> i64 {
        match self.source.failed.load(SeqCst) {
            true => RECORDS,
            false if split.is_multiple_of(2) => RECORDS / 2,
            false => 10,
        }
    }
}

impl SplitReader<i64, (u32, i64)> for Reader {
    fn assign(&mut self, splits: Vec<(u32, i64)>) -> Result<()> {
        self.splits = splits;
        Ok(())
    }
    fn poll(&mut self, _: usize, out: &mut Batch<i64>) -> Result<SourceStatus> {
        let ends: Vec<i64> = self.splits.iter().map(|(split, _)| self.end(*split)).collect();
        for ((_, next), end) in self.splits.iter_mut().zip(&ends) {
            let until = (*next + 7).min(*end);
            out.values.extend(*next..until);
            *next = until.max(*next);
        }
        if self.splits.iter().zip(&ends).any(|((_, next), end)| next < end) {
            return Ok(SourceStatus::More);
        }
        if self.source.failed.load(SeqCst) {
            return Ok(SourceStatus::Ended);
        }
        if self.checkpoints >= 3 && !std::mem::replace(&mut self.reported, true) {
            self.source.waiting.fetch_add(1, SeqCst);
        }
        if self.source.waiting.load(SeqCst) == 2 && !self.source.failed.swap(true, SeqCst) {
            return Err(Error::new(ErrorKind::Connector, "the one failure"));
        }
        // soon, as nobody tells when the other subtask has got as far
        Ok(SourceStatus::Idle { until_ms: Some(0) })
    }
    fn positions(&self) -> Vec<(u32, i64)> {
        self.splits.clone()
    }
    fn checkpoint_complete(&mut self, _: CheckpointId) -> Result<()> {
        let ends = self.splits.iter().all(|(split, next)| *next >= self.end(*split));
        self.checkpoints += u32::from(ends);
        Ok(())
    }
}

#[test]
fn no_record_is_late_after_a_failure_because_its_split_went_to_another_subtask() {
    let source = Uneven::default();
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2)
        .enable_checkpointing(millis(10))
        .set_restart_strategy(RestartStrategy::fixed_delay(1, millis(1)));
    let windows = env
        .from_source("uneven", source.clone())
        .uid("uneven")
        .watermarks(WatermarkStrategy::monotonic().timestamp(|at: &i64| Timestamp::from_millis(*at)))
        .uid("watermarks")
        .key_by(|_| 0u32)
        .window(Tumbling::of(millis(100)))
        .count()
        .uid("windows")
        .collect();
    let result = env.execute("splits").unwrap();
    assert!(source.failed.load(SeqCst) && result.restarts == 1);
    let counted: u64 = windows.items().iter().map(|window| window.1).sum();
    assert_eq!(counted, u64::from(SPLITS) * RECORDS as u64, "{:?}", result.counters);
}
