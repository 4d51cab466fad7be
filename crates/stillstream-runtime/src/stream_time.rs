//! The Timely timestamp of all streams: checkpoint epoch and event-time watermark under the product order.

use serde::{Deserialize, Serialize};
use stillstream_types::Timestamp;
use timely::order::PartialOrder;
use timely::progress::timestamp::{PathSummary, Refines};

/// A point in both orders that progress is tracked in.
///
/// A checkpoint barrier is an epoch: an operator has all barriers `n` exactly when no element of its input frontier has
/// an epoch below `n`. The event-time watermark is the least `watermark` over the frontier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct StreamTime {
    /// The newest checkpoint whose barrier has been passed.
    pub epoch: u64,
    /// Event time in milliseconds: no earlier record will come, late ones aside.
    pub watermark: i64,
}

impl StreamTime {
    /// Epoch and watermark.
    pub fn new(epoch: u64, watermark: Timestamp) -> Self {
        Self { epoch, watermark: watermark.as_millis() }
    }
}

impl Default for StreamTime {
    fn default() -> Self {
        Self { epoch: 0, watermark: i64::MIN }
    }
}

impl PartialOrder for StreamTime {
    #[inline]
    fn less_equal(&self, other: &Self) -> bool {
        self.epoch <= other.epoch && self.watermark <= other.watermark
    }
}

impl timely::progress::Timestamp for StreamTime {
    type Summary = ();
    fn minimum() -> Self {
        Self::default()
    }
}

impl PathSummary<StreamTime> for () {
    #[inline]
    fn results_in(&self, time: &StreamTime) -> Option<StreamTime> {
        Some(*time)
    }
    #[inline]
    fn followed_by(&self, _: &()) -> Option<()> {
        Some(())
    }
}

impl Refines<()> for StreamTime {
    fn to_inner(_: ()) -> Self {
        Self::default()
    }
    fn to_outer(self) {}
    fn summarize(_: ()) {}
}
