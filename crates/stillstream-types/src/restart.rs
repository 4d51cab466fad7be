//! How a failed job is started again.

use std::time::Duration;

/// How a failed job is started again (`restart-strategy.type` and the keys below it). Each restart begins at
/// the last completed checkpoint.
///
/// Without one: no restart without checkpoints; with them [`exponential_delay`](Self::exponential_delay) from
/// a second to a minute by a factor of 1.5, without a limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RestartStrategy {
    /// `none`: the first failure is the last.
    None,
    /// `fixed-delay`
    FixedDelay {
        /// `restart-strategy.fixed-delay.attempts`: so many restarts.
        attempts: u32,
        /// `restart-strategy.fixed-delay.delay`: the pause before each.
        delay: Duration,
    },
    /// `failure-rate`
    FailureRate {
        /// `restart-strategy.failure-rate.max-failures-per-interval`: more than so many fail the job.
        max_failures_per_interval: u32,
        /// `restart-strategy.failure-rate.failure-rate-interval`: the sliding interval.
        interval: Duration,
        /// `restart-strategy.failure-rate.delay`: the pause before each.
        delay: Duration,
    },
    /// `exponential-delay`
    ExponentialDelay {
        /// `restart-strategy.exponential-delay.initial-backoff`: the first pause.
        initial_backoff: Duration,
        /// `restart-strategy.exponential-delay.max-backoff`: the longest pause.
        max_backoff: Duration,
        /// `restart-strategy.exponential-delay.backoff-multiplier`: growth for each failure, at least 1.
        backoff_multiplier: f64,
        /// `restart-strategy.exponential-delay.reset-backoff-threshold`: after so much healthy time the pause
        /// is the first again.
        reset_backoff_threshold: Duration,
        /// `restart-strategy.exponential-delay.jitter-factor`: random spread as a share of the pause, 0 to 1.
        jitter_factor: f64,
        /// `restart-strategy.exponential-delay.attempts-before-reset-backoff`: so many restarts without a
        /// reset between.
        attempts_before_reset_backoff: u32,
    },
}

/// Flink's "no limit": 2^31 - 1.
pub const UNLIMITED: u32 = i32::MAX as u32;

impl RestartStrategy {
    /// The first failure fails the job.
    pub fn none() -> Self {
        Self::None
    }

    /// `attempts` restarts, each after the pause `delay`. `u32::MAX`: without a limit.
    pub fn fixed_delay(attempts: u32, delay: Duration) -> Self {
        Self::FixedDelay { attempts, delay }
    }

    /// Restarts after the pause `delay`, unless there were more than `max_failures` within `interval`.
    pub fn failure_rate(max_failures: u32, interval: Duration, delay: Duration) -> Self {
        Self::FailureRate { max_failures_per_interval: max_failures, interval, delay }
    }

    /// Restarts without a limit. The pause begins with `initial`, grows by the factor `multiplier` up to
    /// `max`, is spread by 10 %, and is the first again after an hour without a failure.
    pub fn exponential_delay(initial: Duration, max: Duration, multiplier: f64) -> Self {
        Self::ExponentialDelay {
            initial_backoff: initial,
            max_backoff: max,
            backoff_multiplier: multiplier,
            reset_backoff_threshold: Duration::from_secs(3600),
            jitter_factor: 0.1,
            attempts_before_reset_backoff: UNLIMITED,
        }
    }

    /// What holds when nothing is configured: `none` without checkpoints, `exponential-delay` with them, as
    /// in Flink since 1.20.
    pub fn default_for(checkpointing: bool) -> Self {
        match checkpointing {
            true => Self::exponential_delay(Duration::from_secs(1), Duration::from_secs(60), 1.5),
            false => Self::None,
        }
    }
}
