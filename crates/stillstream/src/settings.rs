//! From configuration to the settings of a job: one place for all keys.

use stillstream_checkpoint::{CheckpointConfig, CheckpointingMode, RestartStrategyConfig, Retention};
use stillstream_runtime::job::{JobSettings, ProgressMode, StateBackend};
use stillstream_types::config::{
    self, CheckpointStorageType, Configuration, ExternalizedCheckpointRetention, options as o,
};
use stillstream_types::{Error, ErrorKind, Result};

/// What only code can say about the backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackendDetails {
    pub asynchronous: bool,
    pub max_state_size: u64,
}

fn natural(n: i32) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

fn restart(config: &Configuration) -> Option<RestartStrategyConfig> {
    // unset: the default depends on whether checkpoints are taken, which the job knows
    config.get(o::RESTART_STRATEGY)?;
    Some(match config.restart_strategy() {
        config::RestartStrategy::None => RestartStrategyConfig::None,
        config::RestartStrategy::FixedDelay { attempts, delay } => {
            RestartStrategyConfig::FixedDelay { attempts: natural(attempts), delay }
        }
        config::RestartStrategy::FailureRate { max_failures, interval, delay } => {
            RestartStrategyConfig::FailureRate {
                max_failures_per_interval: natural(max_failures),
                interval,
                delay,
            }
        }
        config::RestartStrategy::ExponentialDelay { attempts, initial, max, multiplier, jitter, reset } => {
            RestartStrategyConfig::ExponentialDelay {
                initial_backoff: initial,
                max_backoff: max,
                backoff_multiplier: multiplier,
                reset_backoff_threshold: reset,
                jitter_factor: jitter,
                attempts_before_reset_backoff: natural(attempts),
            }
        }
    })
}

fn checkpoints(config: &Configuration) -> CheckpointConfig {
    CheckpointConfig {
        interval: config.get(o::CHECKPOINTING_INTERVAL),
        mode: match config.get(o::CHECKPOINTING_MODE) {
            config::CheckpointingMode::ExactlyOnce => CheckpointingMode::ExactlyOnce,
            config::CheckpointingMode::AtLeastOnce => CheckpointingMode::AtLeastOnce,
        },
        timeout: config.get(o::CHECKPOINTING_TIMEOUT),
        min_pause: config.get(o::MIN_PAUSE_BETWEEN_CHECKPOINTS),
        max_concurrent: natural(config.get(o::MAX_CONCURRENT_CHECKPOINTS)) as usize,
        tolerable_failed_checkpoints: natural(config.get(o::TOLERABLE_FAILED_CHECKPOINTS)),
        num_retained: natural(config.get(o::NUM_RETAINED_CHECKPOINTS)) as usize,
        retention: match config.get(o::EXTERNALIZED_CHECKPOINT_RETENTION) {
            ExternalizedCheckpointRetention::NoExternalizedCheckpoints => Retention::NoExternalized,
            ExternalizedCheckpointRetention::DeleteOnCancellation => Retention::DeleteOnCancellation,
            ExternalizedCheckpointRetention::RetainOnCancellation => Retention::RetainOnCancellation,
        },
    }
}

fn backend(config: &Configuration, details: BackendDetails) -> Result<StateBackend> {
    let BackendDetails { asynchronous, max_state_size } = details;
    let directory = config.get(o::CHECKPOINTS_DIR);
    Ok(match (config.checkpoint_storage(), directory) {
        (CheckpointStorageType::FileSystem, Some(checkpoint_uri)) => {
            StateBackend::Fs { checkpoint_uri, asynchronous }
        }
        (CheckpointStorageType::FileSystem, None) => {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the file system backend needs a folder for checkpoints: set execution.checkpointing.dir or --checkpoint-dir",
            ));
        }
        (CheckpointStorageType::JobManager, checkpoint_uri) => {
            StateBackend::Memory { max_state_size, asynchronous, checkpoint_uri }
        }
    })
}

/// The settings of a job of this name.
///
/// # Errors
/// Settings that contradict one another.
pub(crate) fn job_settings(
    config: &Configuration,
    details: BackendDetails,
    name: &str,
) -> Result<JobSettings> {
    let warnings = config.validate().map_err(|errors| errors.into_error())?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(JobSettings {
        name: name.to_string(),
        parallelism: natural(config.get(o::PARALLELISM)),
        processes: natural(config.get(o::PROCESSES)),
        checkpoint: checkpoints(config),
        backend: backend(config, details)?,
        restart: restart(config),
        from_snapshot: config.get(o::RECOVERY_PATH),
        allow_non_restored_state: config.get(o::RECOVERY_IGNORE_UNCLAIMED_STATE),
        start_fresh: config.get(o::START_FRESH),
        records_in_flight: natural(config.get(o::RECORDS_IN_FLIGHT)) as u64,
        cancellation_timeout: config.get(o::CANCELLATION_TIMEOUT),
        inline_threshold: config.get(o::DATA_INLINE_THRESHOLD).bytes(),
        frame_size: config.get(o::RPC_FRAME_SIZE).bytes(),
        heartbeat_timeout: config.get(o::HEARTBEAT_TIMEOUT),
        progress: match config.get(o::PROGRESS) {
            config::ProgressMode::Auto => ProgressMode::Auto,
            config::ProgressMode::Always => ProgressMode::Always,
            config::ProgressMode::Never => ProgressMode::Never,
        },
        ..JobSettings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const DETAILS: BackendDetails = BackendDetails { asynchronous: true, max_state_size: 5 << 20 };

    fn settings(pairs: &[(&str, &str)]) -> Result<JobSettings> {
        let mut config = Configuration::new();
        for (key, value) in pairs {
            config.set_text(key, value).map_err(|errors| errors.into_error())?;
        }
        job_settings(&config, DETAILS, "job")
    }

    #[test]
    fn defaults_are_flinks() {
        let settings = settings(&[]).unwrap();
        assert_eq!(settings.checkpoint, CheckpointConfig::default());
        assert_eq!((settings.parallelism, settings.processes, settings.restart), (1, 1, None));
        assert_eq!(settings.backend, StateBackend::default());
        assert_eq!(settings.inline_threshold, 20 << 10);
        assert_eq!(settings.cancellation_timeout, Duration::from_secs(180));
    }

    #[test]
    fn each_key_reaches_its_setting() {
        let settings = settings(&[
            ("execution.checkpointing.interval", "1 s"),
            ("execution.checkpointing.mode", "AT_LEAST_ONCE"),
            ("execution.checkpointing.timeout", "2 min"),
            ("execution.checkpointing.min-pause", "3 s"),
            ("execution.checkpointing.max-concurrent-checkpoints", "4"),
            ("execution.checkpointing.tolerable-failed-checkpoints", "5"),
            ("execution.checkpointing.num-retained", "6"),
            ("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"),
            ("execution.checkpointing.storage", "filesystem"),
            ("execution.checkpointing.dir", "file:///c"),
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "7"),
            ("restart-strategy.fixed-delay.delay", "8 s"),
            ("stillstream.job.processes", "2"),
            ("task.cancellation.timeout", "9 s"),
        ])
        .unwrap();
        let expected = CheckpointConfig {
            interval: Some(Duration::from_secs(1)),
            mode: CheckpointingMode::AtLeastOnce,
            timeout: Duration::from_secs(120),
            min_pause: Duration::from_secs(3),
            max_concurrent: 4,
            tolerable_failed_checkpoints: 5,
            num_retained: 6,
            retention: Retention::RetainOnCancellation,
        };
        assert_eq!(settings.checkpoint, expected);
        assert_eq!(
            settings.backend,
            StateBackend::Fs { checkpoint_uri: "file:///c".into(), asynchronous: true }
        );
        assert_eq!(
            settings.restart,
            Some(RestartStrategyConfig::FixedDelay { attempts: 7, delay: Duration::from_secs(8) })
        );
        assert_eq!((settings.processes, settings.cancellation_timeout), (2, Duration::from_secs(9)));
    }
}
