//! Settings in code.

use std::time::Duration;

use stillstream_config::{
    ByteSize, CheckpointStorageType, RecoveryClaimMode, StateBackendType, options as o,
};
use stillstream_types::{
    CheckpointingMode, ExternalizedCheckpointRetention, PendingTimers, ProgressMode, RestartStrategy,
};

use super::StreamExecutionEnvironment;
use crate::backend::StateBackend;

/// Keys have 32-bit numbers, as in Flink; more than that is "no limit".
fn number(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// Settings of checkpoints.
impl StreamExecutionEnvironment {
    /// Takes a checkpoint every `interval`, 10 ms or more. Without this a job takes none and loses its state
    /// when it fails.
    ///
    /// Key `execution.checkpointing.interval`.
    pub fn enable_checkpointing(&mut self, interval: Duration) -> &mut Self {
        self.config.set(o::CHECKPOINTING_INTERVAL, interval);
        self
    }

    /// What a checkpoint guarantees. Default: exactly once. Key `execution.checkpointing.mode`.
    pub fn set_checkpointing_mode(&mut self, mode: CheckpointingMode) -> &mut Self {
        self.config.set(o::CHECKPOINTING_MODE, mode);
        self
    }

    /// A checkpoint that takes longer is aborted. Default: 10 minutes. Key `execution.checkpointing.timeout`.
    pub fn set_checkpoint_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.config.set(o::CHECKPOINTING_TIMEOUT, timeout);
        self
    }

    /// Quiet time between the end of a checkpoint and the next. Default: none. Key
    /// `execution.checkpointing.min-pause`.
    pub fn set_min_pause_between_checkpoints(&mut self, pause: Duration) -> &mut Self {
        self.config.set(o::MIN_PAUSE_BETWEEN_CHECKPOINTS, pause);
        self
    }

    /// How many checkpoints may be under way at once. Default: 1. Key
    /// `execution.checkpointing.max-concurrent-checkpoints`.
    pub fn set_max_concurrent_checkpoints(&mut self, checkpoints: u32) -> &mut Self {
        self.config.set(o::MAX_CONCURRENT_CHECKPOINTS, number(checkpoints));
        self
    }

    /// How many checkpoints may fail one after another before the job fails. Default: 0.
    ///
    /// Key `execution.checkpointing.tolerable-failed-checkpoints`.
    pub fn set_tolerable_checkpoint_failures(&mut self, failures: u32) -> &mut Self {
        self.config.set(o::TOLERABLE_FAILED_CHECKPOINTS, number(failures));
        self
    }

    /// How many completed checkpoints are kept. Default: 1. Key `execution.checkpointing.num-retained`.
    pub fn set_num_retained(&mut self, checkpoints: u32) -> &mut Self {
        self.config.set(o::NUM_RETAINED_CHECKPOINTS, number(checkpoints));
        self
    }

    /// What happens to checkpoints when the job is cancelled. Default: they are deleted.
    ///
    /// Key `execution.checkpointing.externalized-checkpoint-retention`.
    pub fn set_externalized_retention(&mut self, retention: ExternalizedCheckpointRetention) -> &mut Self {
        self.config.set(o::EXTERNALIZED_CHECKPOINT_RETENTION, retention);
        self
    }

    /// Whether a checkpoint writes only what changed since the last completed one. Default: no.
    ///
    /// It takes an [`FsStateBackend`](crate::FsStateBackend): in memory there are no files to share, and
    /// every snapshot is whole. The first checkpoint after a start from another job's is whole too. What
    /// restores is the same with and without it, at any parallelism, and it can be switched on or off between
    /// two starts.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// let mut env = StreamExecutionEnvironment::new();
    /// env.enable_checkpointing(seconds(10))
    ///     .set_state_backend(FsStateBackend::new("/var/checkpoints"))
    ///     .set_incremental_checkpoints(true);
    /// ```
    ///
    /// Key `execution.checkpointing.incremental`. The rules are in `docs/design.md`, "Snapshots" and "On
    /// storage".
    pub fn set_incremental_checkpoints(&mut self, incremental: bool) -> &mut Self {
        self.config.set(o::INCREMENTAL_CHECKPOINTS, incremental);
        self
    }

    /// Where state lies and where snapshots go: a [`MemoryStateBackend`](crate::MemoryStateBackend), an
    /// [`FsStateBackend`](crate::FsStateBackend) or a [`RocksDbStateBackend`](crate::RocksDbStateBackend).
    ///
    /// Keys `state.backend.type`, `execution.checkpointing.storage` and `execution.checkpointing.dir`.
    /// Default: files if a directory is set.
    pub fn set_state_backend(&mut self, backend: impl Into<StateBackend>) -> &mut Self {
        match backend.into() {
            StateBackend::Memory(memory) => {
                self.config.set(o::CHECKPOINT_STORAGE, CheckpointStorageType::JobManager);
                self.config.set(o::STATE_BACKEND, StateBackendType::HashMap);
                self.backend = memory;
            }
            StateBackend::RocksDb(rocksdb) => {
                self.config
                    .set(o::STATE_BACKEND, StateBackendType::RocksDb)
                    .set(o::CHECKPOINT_STORAGE, CheckpointStorageType::FileSystem)
                    .set(o::CHECKPOINTS_DIR, rocksdb.uri)
                    .set(o::INCREMENTAL_CHECKPOINTS, rocksdb.incremental);
                self.backend.asynchronous = rocksdb.asynchronous;
            }
            StateBackend::Fs(files) => {
                self.config
                    .set(o::STATE_BACKEND, StateBackendType::HashMap)
                    .set(o::CHECKPOINT_STORAGE, CheckpointStorageType::FileSystem)
                    .set(o::CHECKPOINTS_DIR, files.uri);
                self.backend.asynchronous = files.asynchronous;
            }
        }
        self
    }
}

/// Settings of savepoints.
impl StreamExecutionEnvironment {
    /// Where savepoints go whose request names no folder. Key `execution.checkpointing.savepoint-dir`.
    pub fn set_default_savepoint_dir(&mut self, folder: impl Into<String>) -> &mut Self {
        self.config.set(o::SAVEPOINT_DIR, folder.into());
        self
    }
}

/// Settings of starts and restarts.
impl StreamExecutionEnvironment {
    /// How a failed job is started again. Keys `restart-strategy.*`.
    pub fn set_restart_strategy(&mut self, strategy: RestartStrategy) -> &mut Self {
        self.config.set_restart_strategy(strategy);
        self
    }

    /// Starts without state although the job has checkpoints, and although it has finished or was cancelled
    /// before. Key `stillstream.checkpoint.start-fresh`.
    pub fn start_fresh(&mut self) -> &mut Self {
        self.config.set(o::START_FRESH, true);
        self
    }

    /// Starts from a retained checkpoint, if the job has no checkpoints of its own. Key
    /// `execution.state-recovery.path`.
    pub fn restore_from(&mut self, path: impl Into<String>) -> &mut Self {
        self.config.set(o::RECOVERY_PATH, path.into());
        self
    }

    /// Who owns the snapshot of [`restore_from`](Self::restore_from). Key
    /// `execution.state-recovery.claim-mode`.
    pub fn set_claim_mode(&mut self, mode: RecoveryClaimMode) -> &mut Self {
        self.config.set(o::RECOVERY_CLAIM_MODE, mode);
        self
    }

    /// Goes on from an older checkpoint of the job, although it has newer ones: output that was committed
    /// after it may appear twice. Key `stillstream.checkpoint.fall-back-to`.
    pub fn fall_back_to(&mut self, checkpoint: u64) -> &mut Self {
        self.config.set(o::FALL_BACK_TO, i64::try_from(checkpoint).unwrap_or(i64::MAX));
        self
    }

    /// Lets state go that is in the checkpoint and that no operator of the program has any more.
    ///
    /// Key `execution.state-recovery.ignore-unclaimed-state`.
    pub fn allow_non_restored_state(&mut self) -> &mut Self {
        self.config.set(o::RECOVERY_IGNORE_UNCLAIMED_STATE, true);
        self
    }

    /// Lets go what fields hold that are in the checkpoint and that the program's types no longer have. Without it a start that would
    /// lose them is refused, for a field may only have been renamed without an `alias`.
    ///
    /// Key `stillstream.checkpoint.allow-dropped-fields`.
    pub fn allow_dropped_fields(&mut self) -> &mut Self {
        self.config.set(o::ALLOW_DROPPED_FIELDS, true);
        self
    }
}

/// Settings of how the job runs.
impl StreamExecutionEnvironment {
    /// Subtasks of each operator that does not set its own. Default: 1. Key `parallelism.default`.
    pub fn set_parallelism(&mut self, parallelism: u32) -> &mut Self {
        self.config.set(o::PARALLELISM, number(parallelism));
        self
    }

    /// Key groups of each operator that does not set its own: the most that its parallelism can ever be. 1
    /// to 32768.
    ///
    /// Key `pipeline.max-parallelism`. Default: derived from the parallelism, at least 128.
    pub fn set_max_parallelism(&mut self, max_parallelism: u32) -> &mut Self {
        self.config.set(o::MAX_PARALLELISM, number(max_parallelism));
        self
    }

    /// Records on their way between two operators, per edge and worker, above which sources wait.
    /// Default: 65536.
    ///
    /// Key `stillstream.flow.records-in-flight`.
    pub fn set_records_in_flight(&mut self, records: u32) -> &mut Self {
        self.config.set(o::RECORDS_IN_FLIGHT, number(records));
        self
    }

    /// Bytes on their way between two operators, per edge and worker, above which sources wait; the size of a
    /// record is measured on some of them. Default: 32 MiB.
    ///
    /// Key `stillstream.flow.bytes-in-flight`.
    pub fn set_bytes_in_flight(&mut self, bytes: u64) -> &mut Self {
        self.config.set(o::BYTES_IN_FLIGHT, ByteSize::from_bytes(bytes));
        self
    }

    /// How long a record may wait for others that are sent with it, on each way between two tasks. Default:
    /// 100 ms.
    ///
    /// A worker that has nothing else to do sends at once. The time matters where an operator is slow: it
    /// then works in small pieces, and sends after each eighth of this time. Zero sends each record by
    /// itself, which costs throughput.
    ///
    /// Key `execution.buffer-timeout.interval`.
    pub fn set_buffer_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.config.set(o::BUFFER_TIMEOUT_ENABLED, true).set(o::BUFFER_TIMEOUT, timeout);
        self
    }

    /// Sends records when a worker is through with its batch, however long that takes: Flink's timeout of -1.
    ///
    /// Key `execution.buffer-timeout.enabled`.
    pub fn disable_buffer_timeout(&mut self) -> &mut Self {
        self.config.set(o::BUFFER_TIMEOUT_ENABLED, false);
        self
    }

    /// How often generators of watermarks are asked for one; zero: never. Default: 200 ms.
    ///
    /// It is for generators of one's own
    /// ([`WatermarkGenerator::on_periodic`](crate::WatermarkGenerator::on_periodic)). The strategies that are
    /// built in say after each batch how far event time is, and only if this is set at its interval instead.
    ///
    /// Key `pipeline.auto-watermark-interval`.
    pub fn set_auto_watermark_interval(&mut self, interval: Duration) -> &mut Self {
        self.config.set(o::AUTO_WATERMARK_INTERVAL, interval);
        self
    }

    /// What becomes of timers of processing time that are still set when a bounded input ends: dropped, fired
    /// at once, or awaited. Default: dropped, as in Flink. While they are awaited the job goes on and takes
    /// checkpoints; a function that sets a new timer each time one fires never ends.
    ///
    /// Key `stillstream.timers.at-end-of-input`.
    pub fn set_pending_timers(&mut self, pending: PendingTimers) -> &mut Self {
        self.config.set(o::PENDING_TIMERS, pending);
        self
    }

    /// How long a subtask may take to stop; zero: for ever. Default: 3 minutes. Key
    /// `task.cancellation.timeout`.
    pub fn set_cancellation_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.config.set(o::CANCELLATION_TIMEOUT, timeout);
        self
    }

    /// Gives every operator a task of its own. Key `pipeline.operator-chaining.enabled`.
    pub fn disable_operator_chaining(&mut self) -> &mut Self {
        self.config.set(o::OPERATOR_CHAINING, false);
        self
    }

    /// Lets jobs of this process be watched and driven by REST, on a loopback address: `stillstream list`,
    /// `stop`, `cancel` and the like find them there.
    /// [`JobClient::rest_address`](crate::JobClient::rest_address) and the log say where. Default: if the
    /// program reads its arguments by [`from_args`](Self::from_args), or a `rest.` key is set.
    ///
    /// Key `stillstream.rest.enabled`; `rest.bind-port` and `rest.bind-address` say where it listens.
    pub fn set_rest(&mut self, enabled: bool) -> &mut Self {
        self.config.set(o::REST_ENABLED, enabled);
        self
    }

    /// When a line about the job's progress is shown on standard error. Default: if it is a terminal.
    ///
    /// Key `stillstream.progress`.
    pub fn set_progress(&mut self, progress: ProgressMode) -> &mut Self {
        self.config.set(o::PROGRESS, progress);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::job_settings;
    use crate::{FsStateBackend, MemoryStateBackend};
    use stillstream_runtime::job::{self, JobSettings};

    fn settings(set: impl FnOnce(&mut StreamExecutionEnvironment)) -> JobSettings {
        let mut env = StreamExecutionEnvironment::new();
        set(&mut env);
        job_settings("job", &env.config, &env.backend).unwrap()
    }

    #[test]
    fn setters_reach_the_settings_of_the_job() {
        let settings = settings(|env| {
            env.enable_checkpointing(Duration::from_secs(1))
                .set_checkpointing_mode(CheckpointingMode::AtLeastOnce)
                .set_checkpoint_timeout(Duration::from_secs(2))
                .set_min_pause_between_checkpoints(Duration::from_secs(3))
                .set_max_concurrent_checkpoints(4)
                .set_tolerable_checkpoint_failures(5)
                .set_num_retained(6)
                .set_incremental_checkpoints(true)
                .set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation)
                .set_restart_strategy(RestartStrategy::fixed_delay(u32::MAX, Duration::from_secs(7)))
                .start_fresh()
                .restore_from("/s")
                .allow_non_restored_state()
                .allow_dropped_fields()
                .set_parallelism(8)
                .set_max_parallelism(64)
                .set_records_in_flight(9)
                .set_cancellation_timeout(Duration::from_secs(10))
                .disable_operator_chaining()
                .set_progress(ProgressMode::Never);
        });
        let checkpoint = format!("{:?}", settings.checkpoint);
        assert_eq!(
            checkpoint,
            "CheckpointConfig { interval: Some(1s), mode: AtLeastOnce, timeout: 2s, min_pause: 3s, max_concurrent: 4, \
             tolerable_failed_checkpoints: 5, num_retained: 6, retention: RetainOnCancellation, incremental: true }"
        );
        assert_eq!(format!("{:?}", settings.restart), "Some(FixedDelay { attempts: 2147483647, delay: 7s })");
        assert!(
            settings.start_fresh
                && settings.allow_non_restored_state
                && settings.allow_dropped_fields
                && !settings.chaining
        );
        assert_eq!(settings.from_snapshot.as_deref(), Some("/s"));
        assert_eq!((settings.parallelism, settings.records_in_flight), (8, 9));
        assert_eq!(settings.cancellation_timeout, Duration::from_secs(10));
    }

    #[test]
    fn a_backend_in_files_and_one_in_memory_replace_each_other() {
        let fs = settings(|env| {
            env.set_state_backend(MemoryStateBackend::new())
                .set_state_backend(FsStateBackend::new("/c").asynchronous(false));
        });
        assert_eq!(fs.backend, job::StateBackend::Fs { checkpoint_uri: "/c".into(), asynchronous: false });
        let memory = settings(|env| {
            env.set_state_backend(MemoryStateBackend::new().max_state_size(7));
        });
        let expected =
            job::StateBackend::Memory { max_state_size: 7, asynchronous: true, checkpoint_uri: None };
        assert_eq!(memory.backend, expected);
    }

    #[test]
    fn the_other_restart_strategies_reach_the_settings() {
        let secs = Duration::from_secs;
        let of = |strategy| format!("{:?}", settings(|env| _ = env.set_restart_strategy(strategy)).restart);
        assert_eq!(of(RestartStrategy::none()), "Some(None)");
        assert!(of(RestartStrategy::failure_rate(2, secs(60), secs(1))).contains("interval: 60s"));
        let exponential = of(RestartStrategy::exponential_delay(secs(1), secs(9), 2.0));
        assert!(exponential.contains("max_backoff: 9s, backoff_multiplier: 2.0"), "{exponential}");
    }

    #[test]
    fn a_number_out_of_range_is_reported_with_its_key() {
        let mut env = StreamExecutionEnvironment::new();
        env.set_parallelism(0).set_num_retained(0);
        let error = job_settings("job", &env.config, &env.backend).unwrap_err().to_string();
        assert!(error.contains("`parallelism.default: 0`") && error.contains("num-retained: 0"), "{error}");
    }
}
