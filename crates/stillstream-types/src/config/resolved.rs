//! What several keys say together.

use std::time::Duration;

use super::options as o;
use super::{CheckpointStorageType, Configuration, RestartStrategyType};

/// How a failed job is started again (`restart-strategy.type` and the keys below it). Each restart begins at the last
/// completed checkpoint.
///
/// Without one: no restart without checkpoints; with them [`exponential_delay`](Self::exponential_delay) from a second to a
/// minute by a factor of 1.5, without a limit.
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
        /// `restart-strategy.exponential-delay.reset-backoff-threshold`: after so much healthy time the pause is the
        /// first again.
        reset_backoff_threshold: Duration,
        /// `restart-strategy.exponential-delay.jitter-factor`: random spread as a share of the pause, 0 to 1.
        jitter_factor: f64,
        /// `restart-strategy.exponential-delay.attempts-before-reset-backoff`: so many restarts without a reset between.
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

    /// Restarts without a limit. The pause begins with `initial`, grows by the factor `multiplier` up to `max`, is spread by
    /// 10 %, and is the first again after an hour without a failure.
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

    /// What holds when nothing is configured: `none` without checkpoints, `exponential-delay` with them, as in Flink since
    /// 1.20.
    pub fn default_for(checkpointing: bool) -> Self {
        match checkpointing {
            true => Self::exponential_delay(Duration::from_secs(1), Duration::from_secs(60), 1.5),
            false => Self::None,
        }
    }
}

/// Keys hold signed numbers, none of them below zero.
fn natural(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn integer(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl Configuration {
    /// The restart strategy. With none configured: none without checkpoints, and with them a pause that
    /// grows, without limit, as in Flink since 1.20.
    ///
    /// ```
    /// use stillstream_types::config::{Configuration, RestartStrategy, options};
    /// use std::time::Duration;
    /// let mut config = Configuration::new();
    /// assert_eq!(config.restart_strategy(), RestartStrategy::None);
    /// config.set(options::CHECKPOINTING_INTERVAL, Duration::from_secs(1));
    /// let strategy = config.restart_strategy();
    /// assert_eq!(strategy, RestartStrategy::default_for(true));
    /// ```
    pub fn restart_strategy(&self) -> RestartStrategy {
        match self.get(o::RESTART_STRATEGY) {
            None if self.get(o::CHECKPOINTING_INTERVAL).is_none() => RestartStrategy::None,
            Some(RestartStrategyType::None) => RestartStrategy::None,
            Some(RestartStrategyType::FixedDelay) => RestartStrategy::FixedDelay {
                attempts: natural(self.get(o::RESTART_FIXED_DELAY_ATTEMPTS)),
                delay: self.get(o::RESTART_FIXED_DELAY_DELAY),
            },
            Some(RestartStrategyType::FailureRate) => RestartStrategy::FailureRate {
                max_failures_per_interval: natural(self.get(o::RESTART_FAILURE_RATE_MAX_FAILURES)),
                interval: self.get(o::RESTART_FAILURE_RATE_INTERVAL),
                delay: self.get(o::RESTART_FAILURE_RATE_DELAY),
            },
            None | Some(RestartStrategyType::ExponentialDelay) => RestartStrategy::ExponentialDelay {
                initial_backoff: self.get(o::RESTART_EXPONENTIAL_INITIAL),
                max_backoff: self.get(o::RESTART_EXPONENTIAL_MAX),
                backoff_multiplier: self.get(o::RESTART_EXPONENTIAL_MULTIPLIER),
                reset_backoff_threshold: self.get(o::RESTART_EXPONENTIAL_RESET),
                jitter_factor: self.get(o::RESTART_EXPONENTIAL_JITTER),
                attempts_before_reset_backoff: natural(self.get(o::RESTART_EXPONENTIAL_ATTEMPTS)),
            },
        }
    }

    /// Sets the keys of a restart strategy.
    pub fn set_restart_strategy(&mut self, strategy: RestartStrategy) {
        match strategy {
            RestartStrategy::None => {
                self.set(o::RESTART_STRATEGY, RestartStrategyType::None);
            }
            RestartStrategy::FixedDelay { attempts, delay } => {
                self.set(o::RESTART_STRATEGY, RestartStrategyType::FixedDelay)
                    .set(o::RESTART_FIXED_DELAY_ATTEMPTS, integer(attempts))
                    .set(o::RESTART_FIXED_DELAY_DELAY, delay);
            }
            RestartStrategy::FailureRate { max_failures_per_interval, interval, delay } => {
                self.set(o::RESTART_STRATEGY, RestartStrategyType::FailureRate)
                    .set(o::RESTART_FAILURE_RATE_MAX_FAILURES, integer(max_failures_per_interval))
                    .set(o::RESTART_FAILURE_RATE_INTERVAL, interval)
                    .set(o::RESTART_FAILURE_RATE_DELAY, delay);
            }
            RestartStrategy::ExponentialDelay {
                initial_backoff,
                max_backoff,
                backoff_multiplier,
                reset_backoff_threshold,
                jitter_factor,
                attempts_before_reset_backoff,
            } => {
                self.set(o::RESTART_STRATEGY, RestartStrategyType::ExponentialDelay)
                    .set(o::RESTART_EXPONENTIAL_ATTEMPTS, integer(attempts_before_reset_backoff))
                    .set(o::RESTART_EXPONENTIAL_INITIAL, initial_backoff)
                    .set(o::RESTART_EXPONENTIAL_MAX, max_backoff)
                    .set(o::RESTART_EXPONENTIAL_MULTIPLIER, backoff_multiplier)
                    .set(o::RESTART_EXPONENTIAL_JITTER, jitter_factor)
                    .set(o::RESTART_EXPONENTIAL_RESET, reset_backoff_threshold);
            }
        }
    }

    /// Where checkpoints go: what `execution.checkpointing.storage` says; else what the backend names of
    /// Flink 1.x imply; else to files if `execution.checkpointing.dir` is set, and into the JobManager's
    /// memory if not.
    pub fn checkpoint_storage(&self) -> CheckpointStorageType {
        if let Some(storage) = self.get(o::CHECKPOINT_STORAGE) {
            return storage;
        }
        let backend = self.entries.get(o::STATE_BACKEND.key()).map(|entry| entry.value.as_str());
        match backend {
            Some(name) if name.eq_ignore_ascii_case("jobmanager") => CheckpointStorageType::JobManager,
            _ if self.get(o::CHECKPOINTS_DIR).is_some() => CheckpointStorageType::FileSystem,
            _ => CheckpointStorageType::JobManager,
        }
    }
}
