//! How often, how long and how many: the settings of checkpointing, with Flink's defaults.

use std::time::Duration;

use stillstream_types::{CheckpointingMode, ExternalizedCheckpointRetention};

/// The settings of one job's checkpoints. The defaults are Flink's.
///
/// ```
/// use std::time::Duration;
/// use stillstream_jobmaster::CheckpointConfig;
/// let config = CheckpointConfig { interval: Some(Duration::from_secs(1)), ..CheckpointConfig::default() };
/// assert_eq!(config.timeout, Duration::from_secs(600));
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointConfig {
    /// `execution.checkpointing.interval`; `None` means that checkpointing is off.
    pub interval: Option<Duration>,
    /// `execution.checkpointing.mode`
    pub mode: CheckpointingMode,
    /// `execution.checkpointing.timeout`: a checkpoint older than this is aborted.
    pub timeout: Duration,
    /// `execution.checkpointing.min-pause`: quiet time after a completed checkpoint; raises the interval if
    /// larger.
    pub min_pause: Duration,
    /// `execution.checkpointing.max-concurrent-checkpoints`
    pub max_concurrent: usize,
    /// `execution.checkpointing.tolerable-failed-checkpoints`: so many counted failures in a row do not fail
    /// the job.
    pub tolerable_failed_checkpoints: u32,
    /// `execution.checkpointing.num-retained`
    pub num_retained: usize,
    /// `execution.checkpointing.externalized-checkpoint-retention`
    pub retention: ExternalizedCheckpointRetention,
    /// `execution.checkpointing.incremental`: checkpoints leave out what completed ones hold.
    pub incremental: bool,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            interval: None,
            mode: CheckpointingMode::ExactlyOnce,
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            max_concurrent: 1,
            tolerable_failed_checkpoints: 0,
            num_retained: 1,
            retention: ExternalizedCheckpointRetention::NoExternalizedCheckpoints,
            incremental: false,
        }
    }
}

/// A setting that cannot be used. Each message names the key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The interval is too short.
    #[error("execution.checkpointing.interval is {0:?}: at least 10 ms is expected")]
    IntervalTooShort(Duration),
    /// The timeout is too short.
    #[error("execution.checkpointing.timeout is {0:?}: at least 10 ms is expected")]
    TimeoutTooShort(Duration),
    /// The pause is too long.
    #[error("execution.checkpointing.min-pause is {0:?}: at most one year is expected")]
    PauseTooLong(Duration),
    /// No checkpoint could ever run.
    #[error("execution.checkpointing.max-concurrent-checkpoints is 0: at least 1 is expected")]
    NoConcurrency,
    /// No checkpoint would ever be kept.
    #[error("execution.checkpointing.num-retained is 0: at least 1 is expected")]
    NothingRetained,
}

const MIN_PERIOD: Duration = Duration::from_millis(10);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl CheckpointConfig {
    /// Refuses what cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self.interval {
            Some(interval) if interval < MIN_PERIOD => return Err(ConfigError::IntervalTooShort(interval)),
            _ => {}
        }
        if self.timeout < MIN_PERIOD {
            return Err(ConfigError::TimeoutTooShort(self.timeout));
        }
        if self.min_pause > YEAR {
            return Err(ConfigError::PauseTooLong(self.min_pause));
        }
        if self.max_concurrent == 0 {
            return Err(ConfigError::NoConcurrency);
        }
        if self.num_retained == 0 {
            return Err(ConfigError::NothingRetained);
        }
        Ok(())
    }

    /// The time between two periodic triggers: the interval, or the pause if that is longer.
    pub fn period(&self) -> Option<Duration> {
        self.interval.map(|interval| interval.max(self.min_pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_flinks_and_legal() {
        let config = CheckpointConfig::default();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(
            (config.max_concurrent, config.num_retained, config.tolerable_failed_checkpoints),
            (1, 1, 0)
        );
        assert_eq!((config.interval, config.min_pause), (None, Duration::ZERO));
    }

    #[test]
    fn each_illegal_setting_is_refused_with_its_key() {
        let ok = CheckpointConfig::default;
        for (config, key) in [
            (CheckpointConfig { interval: Some(Duration::from_millis(9)), ..ok() }, "interval is 9ms"),
            (CheckpointConfig { timeout: Duration::ZERO, ..ok() }, "timeout is 0ns"),
            (CheckpointConfig { min_pause: YEAR * 2, ..ok() }, "min-pause"),
            (CheckpointConfig { max_concurrent: 0, ..ok() }, "max-concurrent-checkpoints"),
            (CheckpointConfig { num_retained: 0, ..ok() }, "num-retained"),
        ] {
            let text = config.validate().unwrap_err().to_string();
            assert!(text.contains(key), "{text}");
        }
    }

    #[test]
    fn a_pause_longer_than_the_interval_raises_the_period() {
        let config = CheckpointConfig {
            interval: Some(Duration::from_secs(1)),
            min_pause: Duration::from_secs(3),
            ..CheckpointConfig::default()
        };
        assert_eq!(config.period(), Some(Duration::from_secs(3)));
    }
}
