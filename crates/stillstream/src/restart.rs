//! [`RestartStrategy`]: how a failed job is started again.

use std::time::Duration;

use stillstream_types::config::{self, Configuration, RestartStrategyType, options as o};

/// How a failed job is started again. Each restart begins at the last completed checkpoint.
///
/// Without one: no restart without checkpoints; with them [`exponential_delay`](Self::exponential_delay) from
/// a second to a minute by a factor of 1.5, without a limit.
///
/// ```
/// use stillstream::prelude::*;
/// let mut env = StreamExecutionEnvironment::new();
/// env.set_restart_strategy(RestartStrategy::fixed_delay(3, Duration::from_millis(100)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RestartStrategy(config::RestartStrategy);

fn count(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

impl RestartStrategy {
    /// The first failure fails the job.
    pub fn none() -> Self {
        Self(config::RestartStrategy::None)
    }

    /// `attempts` restarts, each after the pause `delay`. `u32::MAX`: without a limit.
    pub fn fixed_delay(attempts: u32, delay: Duration) -> Self {
        Self(config::RestartStrategy::FixedDelay { attempts: count(attempts), delay })
    }

    /// Restarts after the pause `delay`, unless there were more than `max_failures` within `interval`.
    pub fn failure_rate(max_failures: u32, interval: Duration, delay: Duration) -> Self {
        Self(config::RestartStrategy::FailureRate { max_failures: count(max_failures), interval, delay })
    }

    /// Restarts without a limit. The pause begins with `initial`, grows by the factor `multiplier` up to
    /// `max`, is spread by 10 %, and is the first again after an hour without a failure.
    pub fn exponential_delay(initial: Duration, max: Duration, multiplier: f64) -> Self {
        Self(config::RestartStrategy::ExponentialDelay {
            attempts: i32::MAX,
            initial,
            max,
            multiplier,
            jitter: 0.1,
            reset: Duration::from_secs(3600),
        })
    }

    /// Sets the keys.
    pub(crate) fn apply(self, config: &mut Configuration) {
        match self.0 {
            config::RestartStrategy::None => {
                config.set(o::RESTART_STRATEGY, RestartStrategyType::None);
            }
            config::RestartStrategy::FixedDelay { attempts, delay } => {
                config
                    .set(o::RESTART_STRATEGY, RestartStrategyType::FixedDelay)
                    .set(o::RESTART_FIXED_DELAY_ATTEMPTS, attempts)
                    .set(o::RESTART_FIXED_DELAY_DELAY, delay);
            }
            config::RestartStrategy::FailureRate { max_failures, interval, delay } => {
                config
                    .set(o::RESTART_STRATEGY, RestartStrategyType::FailureRate)
                    .set(o::RESTART_FAILURE_RATE_MAX_FAILURES, max_failures)
                    .set(o::RESTART_FAILURE_RATE_INTERVAL, interval)
                    .set(o::RESTART_FAILURE_RATE_DELAY, delay);
            }
            config::RestartStrategy::ExponentialDelay {
                attempts,
                initial,
                max,
                multiplier,
                jitter,
                reset,
            } => {
                config
                    .set(o::RESTART_STRATEGY, RestartStrategyType::ExponentialDelay)
                    .set(o::RESTART_EXPONENTIAL_ATTEMPTS, attempts)
                    .set(o::RESTART_EXPONENTIAL_INITIAL, initial)
                    .set(o::RESTART_EXPONENTIAL_MAX, max)
                    .set(o::RESTART_EXPONENTIAL_MULTIPLIER, multiplier)
                    .set(o::RESTART_EXPONENTIAL_JITTER, jitter)
                    .set(o::RESTART_EXPONENTIAL_RESET, reset);
            }
        }
    }
}
