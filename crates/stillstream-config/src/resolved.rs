//! What several keys say together.

use stillstream_types::RestartStrategy;

use super::options as o;
use super::{CheckpointStorageType, Configuration, RestartStrategyType};

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
    /// use stillstream_config::{Configuration, RestartStrategy, options};
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
