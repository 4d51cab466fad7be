//! What several keys say together.

use std::time::Duration;

use super::options as o;
use super::{CheckpointStorageType, Configuration, RestartStrategyType};

/// How a failed job is started again, with the numbers of the chosen strategy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RestartStrategy {
    /// Not at all.
    None,
    /// After a fixed pause.
    FixedDelay {
        /// Restarts before the job fails; `i32::MAX` is no limit.
        attempts: i32,
        /// Pause before each.
        delay: Duration,
    },
    /// After a fixed pause, while failures stay rare.
    FailureRate {
        /// Failures allowed within the interval.
        max_failures: i32,
        /// The sliding interval.
        interval: Duration,
        /// Pause before each restart.
        delay: Duration,
    },
    /// After a pause that grows.
    ExponentialDelay {
        /// Restarts before the job fails; `i32::MAX` is no limit.
        attempts: i32,
        /// First pause.
        initial: Duration,
        /// Largest pause.
        max: Duration,
        /// Growth per failure.
        multiplier: f64,
        /// Random spread, as a share of the pause.
        jitter: f64,
        /// Healthy time after which the pause is the first one again.
        reset: Duration,
    },
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
    /// assert!(matches!(strategy, RestartStrategy::ExponentialDelay { attempts: i32::MAX, .. }));
    /// ```
    pub fn restart_strategy(&self) -> RestartStrategy {
        match self.get(o::RESTART_STRATEGY) {
            None if self.get(o::CHECKPOINTING_INTERVAL).is_none() => RestartStrategy::None,
            Some(RestartStrategyType::None) => RestartStrategy::None,
            Some(RestartStrategyType::FixedDelay) => RestartStrategy::FixedDelay {
                attempts: self.get(o::RESTART_FIXED_DELAY_ATTEMPTS),
                delay: self.get(o::RESTART_FIXED_DELAY_DELAY),
            },
            Some(RestartStrategyType::FailureRate) => RestartStrategy::FailureRate {
                max_failures: self.get(o::RESTART_FAILURE_RATE_MAX_FAILURES),
                interval: self.get(o::RESTART_FAILURE_RATE_INTERVAL),
                delay: self.get(o::RESTART_FAILURE_RATE_DELAY),
            },
            None | Some(RestartStrategyType::ExponentialDelay) => RestartStrategy::ExponentialDelay {
                attempts: self.get(o::RESTART_EXPONENTIAL_ATTEMPTS),
                initial: self.get(o::RESTART_EXPONENTIAL_INITIAL),
                max: self.get(o::RESTART_EXPONENTIAL_MAX),
                multiplier: self.get(o::RESTART_EXPONENTIAL_MULTIPLIER),
                jitter: self.get(o::RESTART_EXPONENTIAL_JITTER),
                reset: self.get(o::RESTART_EXPONENTIAL_RESET),
            },
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
