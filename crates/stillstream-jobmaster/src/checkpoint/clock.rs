//! What time it is for the coordinator.

use std::time::Duration;

use crate::moment::Moment;

/// The time of the event that is being handled.
///
/// Invariant: `now` never goes back, whatever the shell says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    now: Duration,
    wall_ms: i64,
}

impl Clock {
    /// Another event has come, at this moment.
    pub(super) fn advance(&mut self, at: Moment) {
        (self.now, self.wall_ms) = (self.now.max(at.now), at.wall_ms);
    }

    /// The time since the coordinator's zero.
    pub(super) fn now(self) -> Duration {
        self.now
    }

    /// The wall clock, in milliseconds since 1970: dates what is written, decides nothing.
    pub(super) fn wall_ms(self) -> i64 {
        self.wall_ms
    }
}
