//! The typed names of the settings that the code reads.
//!
//! What a key means, its default and its older names stand in the [table](super::table); a test holds the two
//! together.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::byte_size::ByteSize;
use super::choice::{
    CheckpointStorageType, CheckpointingMode, CompactionStyle, ExternalizedCheckpointRetention, FileAccess,
    InfoLogLevel, PendingTimers, PredefinedOptions, ProgressMode, RecoveryClaimMode, RestartStrategyType,
    StateBackendType,
};
use super::value::{ConfigValue, Kind};

/// A key with the type of its value. Keys without a default have an `Option` type.
pub struct ConfigOption<T> {
    key: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T> ConfigOption<T> {
    // only this module makes options: the test below sees every one
    const fn new(key: &'static str) -> Self {
        Self { key, value: PhantomData }
    }

    /// The key, such as `execution.checkpointing.interval`.
    pub const fn key(&self) -> &'static str {
        self.key
    }
}

impl<T> Clone for ConfigOption<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ConfigOption<T> {}

impl<T> fmt::Debug for ConfigOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

macro_rules! typed {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $key:literal;)+) => {
        $($(#[$doc])* pub const $name: ConfigOption<$type> = ConfigOption::new($key);)+

        /// Key, kind and whether it is optional, of every constant above.
        #[cfg_attr(not(test), expect(dead_code, reason = "tests compare it with the table"))]
        pub(super) const TYPED: &[(&str, Kind, bool)] =
            &[$(($key, <$type as ConfigValue>::KIND, <$type as ConfigValue>::OPTIONAL),)+];
    };
}

typed! {
    /// Time between two checkpoints; none: no checkpoints.
    CHECKPOINTING_INTERVAL: Option<Duration> = "execution.checkpointing.interval";
    /// The same while a source is catching up; zero: none.
    CHECKPOINTING_INTERVAL_DURING_BACKLOG: Option<Duration> = "execution.checkpointing.interval-during-backlog";
    /// What a checkpoint guarantees.
    CHECKPOINTING_MODE: CheckpointingMode = "execution.checkpointing.mode";
    /// A checkpoint older than this is aborted.
    CHECKPOINTING_TIMEOUT: Duration = "execution.checkpointing.timeout";
    /// Quiet time after a completed checkpoint.
    MIN_PAUSE_BETWEEN_CHECKPOINTS: Duration = "execution.checkpointing.min-pause";
    /// Checkpoints in flight at once.
    MAX_CONCURRENT_CHECKPOINTS: i32 = "execution.checkpointing.max-concurrent-checkpoints";
    /// Failed checkpoints in a row that do not yet fail the job.
    TOLERABLE_FAILED_CHECKPOINTS: i32 = "execution.checkpointing.tolerable-failed-checkpoints";
    /// Completed checkpoints kept.
    NUM_RETAINED_CHECKPOINTS: i32 = "execution.checkpointing.num-retained";
    /// What happens to the last checkpoint when the job ends.
    EXTERNALIZED_CHECKPOINT_RETENTION: ExternalizedCheckpointRetention = "execution.checkpointing.externalized-checkpoint-retention";
    /// Root of all checkpoints, a URI or a path.
    CHECKPOINTS_DIR: Option<String> = "execution.checkpointing.dir";
    /// Default target of savepoints.
    SAVEPOINT_DIR: Option<String> = "execution.checkpointing.savepoint-dir";
    /// Where checkpoints go; none: to files if a directory is set, else into memory.
    CHECKPOINT_STORAGE: Option<CheckpointStorageType> = "execution.checkpointing.storage";
    /// Each job gets a folder of its own below the root.
    CHECKPOINTS_CREATE_SUBDIR: bool = "execution.checkpointing.create-subdir";
    /// State smaller than this is stored inside `_metadata`.
    DATA_INLINE_THRESHOLD: ByteSize = "execution.checkpointing.data-inline-threshold";
    /// Bytes buffered by a stream of state.
    CHECKPOINT_WRITE_BUFFER_SIZE: i32 = "execution.checkpointing.write-buffer-size";
    /// Only what changed is written.
    INCREMENTAL_CHECKPOINTS: bool = "execution.checkpointing.incremental";
    /// Barriers may overtake records.
    UNALIGNED: bool = "execution.checkpointing.unaligned.enabled";
    /// How long an unaligned checkpoint tries to be an aligned one.
    ALIGNED_CHECKPOINT_TIMEOUT: Duration = "execution.checkpointing.aligned-checkpoint-timeout";
    /// Checkpoints go on when a part of the job has finished.
    CHECKPOINTS_AFTER_TASKS_FINISH: bool = "execution.checkpointing.checkpoints-after-tasks-finish";

    /// The folder with Hadoop's configuration.
    HADOOP_CONF_DIR: Option<String> = "env.hadoop.conf.dir";
    /// The name of the credentials for S3.
    S3_ACCESS_KEY: Option<String> = "s3.access-key";
    /// Where an S3 server answers.
    S3_ENDPOINT: Option<String> = "s3.endpoint";
    /// Whether the bucket is part of the path.
    S3_PATH_STYLE: Option<bool> = "s3.path.style.access";
    /// The bucket's region.
    S3_REGION: Option<String> = "s3.region";
    /// The secret of the credentials for S3.
    S3_SECRET_KEY: Option<String> = "s3.secret-key";
    /// The token of credentials that were lent.
    S3_SESSION_TOKEN: Option<String> = "s3.session-token";
    /// How long a request to a store over the network may take.
    STORAGE_TIMEOUT: Duration = "stillstream.storage.timeout";

    /// The snapshot to start from.
    RECOVERY_PATH: Option<String> = "execution.state-recovery.path";
    /// Who owns that snapshot.
    RECOVERY_CLAIM_MODE: RecoveryClaimMode = "execution.state-recovery.claim-mode";
    /// What fields hold that the program's types do not have is lost.
    ALLOW_DROPPED_FIELDS: bool = "stillstream.checkpoint.allow-dropped-fields";
    /// The older checkpoint to go on from.
    FALL_BACK_TO: i64 = "stillstream.checkpoint.fall-back-to";
    /// State that no operator claims is dropped.
    RECOVERY_IGNORE_UNCLAIMED_STATE: bool = "execution.state-recovery.ignore-unclaimed-state";

    /// How a failed job is started again; see
    /// [`Configuration::restart_strategy`](super::Configuration::restart_strategy).
    RESTART_STRATEGY: Option<RestartStrategyType> = "restart-strategy.type";
    /// Restarts before the job fails.
    RESTART_FIXED_DELAY_ATTEMPTS: i32 = "restart-strategy.fixed-delay.attempts";
    /// Pause before each restart.
    RESTART_FIXED_DELAY_DELAY: Duration = "restart-strategy.fixed-delay.delay";
    /// Pause before each restart.
    RESTART_FAILURE_RATE_DELAY: Duration = "restart-strategy.failure-rate.delay";
    /// The interval in which failures are counted.
    RESTART_FAILURE_RATE_INTERVAL: Duration = "restart-strategy.failure-rate.failure-rate-interval";
    /// Failures allowed within the interval.
    RESTART_FAILURE_RATE_MAX_FAILURES: i32 = "restart-strategy.failure-rate.max-failures-per-interval";
    /// Restarts before the job fails.
    RESTART_EXPONENTIAL_ATTEMPTS: i32 = "restart-strategy.exponential-delay.attempts-before-reset-backoff";
    /// Growth of the pause.
    RESTART_EXPONENTIAL_MULTIPLIER: f64 = "restart-strategy.exponential-delay.backoff-multiplier";
    /// First pause.
    RESTART_EXPONENTIAL_INITIAL: Duration = "restart-strategy.exponential-delay.initial-backoff";
    /// Random share of the pause.
    RESTART_EXPONENTIAL_JITTER: f64 = "restart-strategy.exponential-delay.jitter-factor";
    /// Largest pause.
    RESTART_EXPONENTIAL_MAX: Duration = "restart-strategy.exponential-delay.max-backoff";
    /// Healthy time after which the pause is the first one again.
    RESTART_EXPONENTIAL_RESET: Duration = "restart-strategy.exponential-delay.reset-backoff-threshold";

    /// Keep a local copy of each keyed snapshot.
    LOCAL_BACKUP: bool = "execution.checkpointing.local-backup.enabled";
    /// Where.
    LOCAL_BACKUP_DIRS: Option<Vec<String>> = "execution.checkpointing.local-backup.dirs";

    /// Size of a data block.
    ROCKSDB_BLOCK_SIZE: ByteSize = "state.backend.rocksdb.block.blocksize";
    /// Size of the block cache of a column family.
    ROCKSDB_BLOCK_CACHE_SIZE: ByteSize = "state.backend.rocksdb.block.cache-size";
    /// Size of a block of partitioned index or filter.
    ROCKSDB_METADATA_BLOCK_SIZE: ByteSize = "state.backend.rocksdb.block.metadata-blocksize";
    /// Bits per key of the bloom filter.
    ROCKSDB_BLOOM_BITS: f64 = "state.backend.rocksdb.bloom-filter.bits-per-key";
    /// One bloom filter a block, not a file.
    ROCKSDB_BLOOM_BLOCK_BASED: bool = "state.backend.rocksdb.bloom-filter.block-based-mode";
    /// Uploads or downloads at once.
    ROCKSDB_TRANSFER_THREADS: i32 = "state.backend.rocksdb.checkpoint.transfer.thread.num";
    /// Most bytes in the first level.
    ROCKSDB_LEVEL_BASE: ByteSize = "state.backend.rocksdb.compaction.level.max-size-level-base";
    /// Size of a file in the first level.
    ROCKSDB_TARGET_FILE_SIZE: ByteSize = "state.backend.rocksdb.compaction.level.target-file-size-base";
    /// The levels' sizes follow from the last one.
    ROCKSDB_DYNAMIC_LEVELS: bool = "state.backend.rocksdb.compaction.level.use-dynamic-size";
    /// How files are compacted.
    ROCKSDB_COMPACTION_STYLE: CompactionStyle = "state.backend.rocksdb.compaction.style";
    /// Compression of each level.
    ROCKSDB_COMPRESSION: Vec<String> = "state.backend.rocksdb.compression.per.level";
    /// Most open files.
    ROCKSDB_OPEN_FILES: i32 = "state.backend.rocksdb.files.open";
    /// Compact in the background after a rescale.
    ROCKSDB_COMPACT_AFTER_RESCALE: bool = "state.backend.rocksdb.incremental-restore-async-compact-after-rescale";
    /// Where databases lie.
    ROCKSDB_LOCAL_DIR: Option<String> = "state.backend.rocksdb.localdir";
    /// Folder of RocksDB's own log.
    ROCKSDB_LOG_DIR: Option<String> = "state.backend.rocksdb.log.dir";
    /// Log files kept.
    ROCKSDB_LOG_FILES: i32 = "state.backend.rocksdb.log.file-num";
    /// What is logged.
    ROCKSDB_LOG_LEVEL: InfoLogLevel = "state.backend.rocksdb.log.level";
    /// A log file is rolled at this size.
    ROCKSDB_LOG_FILE_SIZE: ByteSize = "state.backend.rocksdb.log.max-file-size";
    /// Memory per slot.
    ROCKSDB_FIXED_PER_SLOT: Option<ByteSize> = "state.backend.rocksdb.memory.fixed-per-slot";
    /// Memory per process.
    ROCKSDB_FIXED_PER_PROCESS: Option<ByteSize> = "state.backend.rocksdb.memory.fixed-per-tm";
    /// One bounded memory for all databases of a process.
    ROCKSDB_MANAGED_MEMORY: bool = "state.backend.rocksdb.memory.managed";
    /// Two-level index and filters.
    ROCKSDB_PARTITIONED_INDEX: bool = "state.backend.rocksdb.memory.partitioned-index-filters";
    /// Share of memory for write buffers.
    ROCKSDB_WRITE_BUFFER_RATIO: f64 = "state.backend.rocksdb.memory.write-buffer-ratio";
    /// The values of the options that are not set.
    ROCKSDB_PREDEFINED_OPTIONS: PredefinedOptions = "state.backend.rocksdb.predefined-options";
    /// Drop whole files outside the range after a rescale.
    ROCKSDB_DELETE_FILES_IN_RANGE: bool = "state.backend.rocksdb.rescaling.use-delete-files-in-range";
    /// How much of a database must be one's own for it to become the base after a rescale.
    ROCKSDB_OVERLAP_THRESHOLD: f64 = "state.backend.rocksdb.restore-overlap-fraction-threshold";
    /// Background threads.
    ROCKSDB_THREADS: i32 = "state.backend.rocksdb.thread.num";
    /// The TTL filter asks for the time after so many entries.
    ROCKSDB_TTL_QUERY_TIME_AFTER: i64 = "state.backend.rocksdb.compaction.filter.query-time-after-num-entries";
    /// Files older than this are compacted for the TTL filter.
    ROCKSDB_TTL_PERIODIC_COMPACTION: Duration = "state.backend.rocksdb.compaction.filter.periodic-compaction-time";
    /// Timers of each key group in memory.
    ROCKSDB_TIMER_CACHE: i32 = "state.backend.rocksdb.timer-service.cache-size";
    /// New files get a bloom filter.
    ROCKSDB_BLOOM_FILTER: bool = "state.backend.rocksdb.use-bloom-filter";
    /// Most write buffers.
    ROCKSDB_WRITE_BUFFER_COUNT: i32 = "state.backend.rocksdb.writebuffer.count";
    /// Write buffers merged before a flush.
    ROCKSDB_WRITE_BUFFERS_TO_MERGE: i32 = "state.backend.rocksdb.writebuffer.number-to-merge";
    /// Size of a write buffer.
    ROCKSDB_WRITE_BUFFER_SIZE: ByteSize = "state.backend.rocksdb.writebuffer.size";

    /// Where keyed state is kept.
    STATE_BACKEND: StateBackendType = "state.backend.type";
    /// Subtasks of an operator that does not say.
    PARALLELISM: i32 = "parallelism.default";
    /// Number of key groups; -1: derived from the parallelism.
    MAX_PARALLELISM: i32 = "pipeline.max-parallelism";
    /// Operators without a uid get one from the graph.
    AUTO_GENERATE_UIDS: bool = "pipeline.auto-generate-uids";
    /// How often generators of watermarks are asked; zero: never.
    AUTO_WATERMARK_INTERVAL: Duration = "pipeline.auto-watermark-interval";
    /// Operators without an exchange between them run as one task.
    OPERATOR_CHAINING: bool = "pipeline.operator-chaining.enabled";
    /// Whether time matters to when a record is sent.
    BUFFER_TIMEOUT_ENABLED: bool = "execution.buffer-timeout.enabled";
    /// How long a record may wait for others.
    BUFFER_TIMEOUT: Duration = "execution.buffer-timeout.interval";
    /// Largest control message; bounds the state inside an acknowledgement.
    RPC_FRAME_SIZE: ByteSize = "pekko.framesize";
    /// Time between two signs of life of a process.
    HEARTBEAT_INTERVAL: Duration = "heartbeat.interval";
    /// A process silent for so long is lost.
    HEARTBEAT_TIMEOUT: Duration = "heartbeat.timeout";
    /// How long a task may take to stop.
    CANCELLATION_TIMEOUT: Duration = "task.cancellation.timeout";
    /// Tries to commit one committable.
    SINK_COMMITTER_RETRIES: i32 = "sink.committer.retries";

    /// Port of the REST interface.
    REST_PORT: i32 = "rest.port";
    /// Port or range of ports of the REST interface.
    REST_BIND_PORT: Option<String> = "rest.bind-port";
    /// Address that the REST interface listens at.
    REST_BIND_ADDRESS: String = "rest.bind-address";
    /// Name under which the REST interface is reached.
    REST_ADDRESS: Option<String> = "rest.address";
    /// How long the result of an asynchronous operation is kept.
    REST_ASYNC_STORE_DURATION: Duration = "rest.async.store-duration";

    /// Whether there is a REST interface.
    REST_ENABLED: Option<bool> = "stillstream.rest.enabled";
    /// What every REST request has to show.
    REST_TOKEN: Option<String> = "stillstream.rest.token";
    /// The file that has it.
    REST_TOKEN_FILE: Option<String> = "stillstream.rest.token-file";
    /// Ignore the checkpoints that a job already has, and start empty.
    START_FRESH: bool = "stillstream.checkpoint.start-fresh";
    /// Who may read the files that a job makes.
    FILE_ACCESS: FileAccess = "stillstream.files.access";
    /// Processes that a job is spread over.
    PROCESSES: i32 = "stillstream.job.processes";
    /// Whether SIGINT and SIGTERM stop a job in order.
    SIGNALS: bool = "stillstream.signals";
    /// For how long a commit is tried again.
    SINK_COMMIT_TIMEOUT: Duration = "stillstream.sink.commit-timeout";
    /// Records on their way between two operators, per edge and worker.
    RECORDS_IN_FLIGHT: i32 = "stillstream.flow.records-in-flight";
    /// Bytes on their way between two operators, per edge and worker.
    BYTES_IN_FLIGHT: ByteSize = "stillstream.flow.bytes-in-flight";
    /// How long a worker without work sleeps at most.
    LONGEST_SLEEP: Duration = "stillstream.worker.longest-sleep";
    /// Share of RocksDB's memory for hot entries as native values.
    ROCKSDB_WRITE_BACK_RATIO: f64 = "stillstream.state.rocksdb.write-back-ratio";
    /// What becomes of timers of processing time at the end of the input.
    PENDING_TIMERS: PendingTimers = "stillstream.timers.at-end-of-input";
    /// How the keys begin that are the program's own.
    USER_KEYS: Option<Vec<String>> = "stillstream.user-keys";
    /// When progress is shown.
    PROGRESS: ProgressMode = "stillstream.progress";
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn every_typed_option_is_in_the_table_with_its_kind_and_default() {
        for (key, kind, optional) in TYPED {
            let row = table::row(key).unwrap_or_else(|| panic!("`{key}` is not in the table"));
            assert_eq!(row.kind, *kind, "{key}");
            assert_eq!(row.default.is_empty(), *optional, "{key}");
        }
    }
}
