//! What an engine is told of the world.

use std::time::Duration;

/// What the shell reads of clocks and chance when something happens. The engines see nothing else of either.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Moment {
    /// The time since the engine's zero, from a monotonic clock.
    pub now: Duration,
    /// The wall clock, in milliseconds since 1970: dates what is written, decides nothing.
    pub wall_ms: i64,
    /// A fresh random number from 0 to 1: spreads restarts.
    pub random: f64,
}
