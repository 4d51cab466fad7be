//! How fast a task works its input off: as much as that may be in flight before it.

use std::time::Duration;

/// How fast a task works its input off, waiting for room downstream included.
#[derive(Debug, Default)]
pub(crate) struct WorkPace {
    records: f64,
    seconds: f64,
    /// Since when the records below have been under way.
    since: Option<Duration>,
    done: u64,
}

/// What lies in flight before a task should be about so much of its work.
const IN_FLIGHT: f64 = 1.0;
/// How much older measurements count less with each new one.
const FADE: f64 = 0.8;

impl WorkPace {
    /// A batch has begun.
    #[inline]
    pub fn begin(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// So many records have been worked off.
    #[inline]
    pub fn done(&mut self, records: u32) {
        self.done += u64::from(records);
    }

    /// Something was worked off since the last measurement.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.done > 0
    }

    /// Measures; returns how many records should be in flight at most. `under_way`: whether a batch is.
    pub fn measure(&mut self, now: Duration, under_way: bool) -> i64 {
        let took = now.saturating_sub(self.since.unwrap_or(now)).as_secs_f64();
        self.records = self.records * FADE + self.done as f64;
        self.seconds = self.seconds * FADE + took;
        self.done = 0;
        self.since = under_way.then_some(now);
        (self.records / self.seconds.max(1e-9) * IN_FLIGHT) as i64
    }
}
