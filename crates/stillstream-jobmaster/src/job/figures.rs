//! What the run has come to: recorded with the job's end, and told to whoever waits for it.

use std::collections::BTreeMap;
use std::time::Duration;

use stillstream_types::{CheckpointId, JobFigures};

use crate::checkpoint::statistics::CheckpointStatistics;

/// What the workers have counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Measured {
    /// Records that sources emitted.
    pub records_in: u64,
    /// Records that reached a sink.
    pub records_out: u64,
    /// Rare events by name.
    pub counters: BTreeMap<String, u64>,
}

/// What the engine knows beside the statistics of checkpoints.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) measured: Measured,
    /// The checkpoint that the run started from.
    pub(super) resumed_from: Option<CheckpointId>,
    started: Duration,
    pub(super) slowest: Duration,
}

impl Figures {
    pub(super) fn new(started: Duration) -> Self {
        Self { measured: Measured::default(), resumed_from: None, started, slowest: Duration::ZERO }
    }

    /// Remembers the longest checkpoint.
    pub(super) fn see(&mut self, statistics: &CheckpointStatistics) {
        let last = statistics.last_completed.as_ref().map_or(Duration::ZERO, |last| last.duration);
        self.slowest = self.slowest.max(last);
    }

    pub(super) fn of(&self, now: Duration, restarts: u64, statistics: &CheckpointStatistics) -> JobFigures {
        let last = statistics.last_completed.as_ref();
        let slowest = last.map_or(Duration::ZERO, |last| last.duration).max(self.slowest);
        JobFigures {
            records_in: self.measured.records_in,
            records_out: self.measured.records_out,
            duration_ms: ms(now.saturating_sub(self.started)),
            restarts,
            resumed_from: self.resumed_from,
            checkpoints_completed: statistics.counts.completed,
            checkpoints_failed: statistics.counts.failed_checkpoints(),
            last_checkpoint: last.map(|last| last.id),
            last_checkpoint_bytes: last.map_or(0, |last| last.size_bytes),
            slowest_checkpoint_ms: ms(slowest),
            counters: self.measured.counters.clone(),
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
