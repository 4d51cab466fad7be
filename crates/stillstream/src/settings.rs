//! From the configuration to the settings of a job: the one place where keys become numbers that the runtime
//! reads.

use std::time::Duration;

use stillstream_config::{
    CheckpointStorageType, Configuration, RecoveryClaimMode, StateBackendType, options as o,
};
use stillstream_jobmaster::CheckpointConfig;
use stillstream_runtime::connect::CommitPolicy;
use stillstream_runtime::job::{JobSettings, RemoteStores, StateBackend};
use stillstream_types::{CheckpointId, Error, ErrorKind, Result};

use crate::backend::MemoryStateBackend;

/// `task.cancellation.timeout: 0` is "wait for ever"; a longer time than this cannot be told from it.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What the settings of a plan are, beside those of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlanSettings {
    /// Key groups of operators that do not set their own.
    pub max_parallelism: Option<u32>,
    /// Operators without a uid are refused.
    pub require_uids: bool,
    /// How sinks try a commit again.
    pub commits: CommitPolicy,
}

/// Keys are checked to be in range, so this cannot lose anything.
fn natural(n: i32) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

/// The settings of the plan.
pub(crate) fn plan_settings(config: &Configuration) -> PlanSettings {
    PlanSettings {
        max_parallelism: u32::try_from(config.get(o::MAX_PARALLELISM)).ok(),
        require_uids: !config.get(o::AUTO_GENERATE_UIDS),
        commits: CommitPolicy {
            retries: natural(config.get(o::SINK_COMMITTER_RETRIES)),
            timeout: config.get(o::SINK_COMMIT_TIMEOUT).min(FOREVER),
            ..CommitPolicy::default()
        },
    }
}

/// The settings of job `name`. `memory` has what the keys cannot say of a backend.
///
/// # Errors
/// All that is wrong with the configuration.
pub(crate) fn job_settings(
    name: &str,
    config: &Configuration,
    memory: &MemoryStateBackend,
) -> Result<JobSettings> {
    config.validate().map_err(|errors| errors.into_error())?;
    Ok(JobSettings {
        name: name.to_string(),
        parallelism: natural(config.get(o::PARALLELISM)),
        processes: natural(config.get(o::PROCESSES)),
        chaining: config.get(o::OPERATOR_CHAINING),
        checkpoint: checkpoint(config),
        backend: backend(config, memory)?,
        restart: Some(config.restart_strategy()),
        from_snapshot: config.get(o::RECOVERY_PATH),
        allow_non_restored_state: config.get(o::RECOVERY_IGNORE_UNCLAIMED_STATE),
        allow_dropped_fields: config.get(o::ALLOW_DROPPED_FIELDS),
        start_fresh: config.get(o::START_FRESH),
        // LEGACY is refused by `validate`
        claim_snapshot: config.get(o::RECOVERY_CLAIM_MODE) == RecoveryClaimMode::Claim,
        fall_back_to: u64::try_from(config.get(o::FALL_BACK_TO)).ok().map(CheckpointId),
        records_in_flight: natural(config.get(o::RECORDS_IN_FLIGHT)).into(),
        longest_sleep: config.get(o::LONGEST_SLEEP),
        bytes_in_flight: config.get(o::BYTES_IN_FLIGHT).bytes(),
        buffer_timeout: config.get(o::BUFFER_TIMEOUT_ENABLED).then(|| config.get(o::BUFFER_TIMEOUT)),
        auto_watermark_interval: Some(config.get(o::AUTO_WATERMARK_INTERVAL)).filter(|at| !at.is_zero()),
        watermark_each_batch: !config.is_set(o::AUTO_WATERMARK_INTERVAL),
        pending_timers: config.get(o::PENDING_TIMERS),
        cancellation_timeout: match config.get(o::CANCELLATION_TIMEOUT) {
            Duration::ZERO => FOREVER,
            timeout => timeout.min(FOREVER),
        },
        inline_threshold: config.get(o::DATA_INLINE_THRESHOLD).bytes(),
        remote_storage: remote_storage(config),
        storage_timeout: config.get(o::STORAGE_TIMEOUT),
        file_access: config.get(o::FILE_ACCESS),
        frame_size: config.get(o::RPC_FRAME_SIZE).bytes(),
        progress: config.get(o::PROGRESS),
        heartbeat_timeout: config.get(o::HEARTBEAT_TIMEOUT),
        savepoint_dir: config.get(o::SAVEPOINT_DIR),
        ..JobSettings::default()
    })
}

/// What is set of stores that are reached over the network; the rest they take from the environment.
fn remote_storage(config: &Configuration) -> RemoteStores {
    let texts = [
        ("env.hadoop.conf.dir", o::HADOOP_CONF_DIR),
        ("s3.access-key", o::S3_ACCESS_KEY),
        ("s3.endpoint", o::S3_ENDPOINT),
        ("s3.region", o::S3_REGION),
        ("s3.secret-key", o::S3_SECRET_KEY),
        ("s3.session-token", o::S3_SESSION_TOKEN),
    ];
    let texts = texts.into_iter().filter_map(|(key, option)| Some((key.to_string(), config.get(option)?)));
    let path_style = config.get(o::S3_PATH_STYLE).map(|set| ("s3.path.style.access".into(), set.to_string()));
    RemoteStores::new(texts.chain(path_style))
}

fn checkpoint(config: &Configuration) -> CheckpointConfig {
    CheckpointConfig {
        interval: config.get(o::CHECKPOINTING_INTERVAL),
        mode: config.get(o::CHECKPOINTING_MODE),
        timeout: config.get(o::CHECKPOINTING_TIMEOUT),
        min_pause: config.get(o::MIN_PAUSE_BETWEEN_CHECKPOINTS),
        max_concurrent: natural(config.get(o::MAX_CONCURRENT_CHECKPOINTS)) as usize,
        tolerable_failed_checkpoints: natural(config.get(o::TOLERABLE_FAILED_CHECKPOINTS)),
        num_retained: natural(config.get(o::NUM_RETAINED_CHECKPOINTS)) as usize,
        retention: config.get(o::EXTERNALIZED_CHECKPOINT_RETENTION),
        incremental: config.get(o::INCREMENTAL_CHECKPOINTS),
    }
}

#[cfg(feature = "rocksdb")]
fn rocksdb_options(config: &Configuration) -> Result<stillstream_runtime::backends::RocksDbOptions> {
    let slots = natural(config.get(o::PARALLELISM)).div_ceil(natural(config.get(o::PROCESSES)).max(1));
    stillstream_runtime::backends::RocksDbOptions::from_config(config, slots)
        .map_err(stillstream_state::StateError::into_error)
}

fn backend(config: &Configuration, memory: &MemoryStateBackend) -> Result<StateBackend> {
    let (dir, asynchronous) = (config.get(o::CHECKPOINTS_DIR), memory.asynchronous);
    if config.get(o::STATE_BACKEND) == StateBackendType::RocksDb {
        #[cfg(feature = "rocksdb")]
        let options = rocksdb_options(config)?;
        let Some(checkpoint_uri) = dir.or_else(|| {
            // a job that never takes a checkpoint needs no folder for them
            config.get(o::CHECKPOINTING_INTERVAL).is_none().then(String::new)
        }) else {
            return Err(Error::new(
                ErrorKind::Configuration,
                "checkpoints of the RocksDB backend are files: set `execution.checkpointing.dir` (`--checkpoint-dir`)",
            ));
        };
        return Ok(StateBackend::RocksDb {
            checkpoint_uri,
            incremental: config.get(o::INCREMENTAL_CHECKPOINTS),
            #[cfg(feature = "rocksdb")]
            options: Box::new(options),
        });
    }
    Ok(match (config.checkpoint_storage(), dir) {
        (CheckpointStorageType::FileSystem, Some(checkpoint_uri)) => {
            StateBackend::Fs { checkpoint_uri, asynchronous }
        }
        // files without a directory are refused by `validate`
        (_, checkpoint_uri) => {
            StateBackend::Memory { max_state_size: memory.max_state_size, asynchronous, checkpoint_uri }
        }
    })
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
