//! What a job is told when it is submitted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use stillstream_heap::HeapBackendFactory;
use stillstream_jobmaster::CheckpointConfig;
use stillstream_storage::RemoteStores;
pub use stillstream_types::ProgressMode;
use stillstream_types::file_access::FileAccess;
use stillstream_types::paths::absolute;
use stillstream_types::{CheckpointId, RestartStrategy};

#[cfg(feature = "rocksdb")]
use crate::backends::{RocksDbOptions, rocksdb};
use crate::backends::{StateBackends, heap};
use crate::connect::JobOutline;
use crate::operator::{DEFAULT_AUTO_WATERMARK_INTERVAL, PendingTimers};

/// Where state lives while the job runs, and where its snapshots go.
#[derive(Clone, Debug, PartialEq)]
pub enum StateBackend {
    /// State on the heap; snapshots in the JobManager's memory, inside the acknowledgement.
    Memory {
        /// The largest snapshot of one single state, in bytes.
        max_state_size: u64,
        /// Whether state is copied on write while a snapshot is written.
        asynchronous: bool,
        /// Where metadata (with the state inside) is kept, so that the job survives its process; `None`:
        /// nowhere.
        checkpoint_uri: Option<String>,
    },
    /// State on the heap; snapshots in files.
    Fs {
        /// A folder, or the URI of one: `file://`, `s3://` and so on.
        checkpoint_uri: String,
        /// Whether state is copied on write while a snapshot is written.
        asynchronous: bool,
    },
    /// State in RocksDB on the local disk; snapshots in files.
    RocksDb {
        /// A folder, or the URI of one: `file://`, `s3://` and so on.
        checkpoint_uri: String,
        /// Whether a checkpoint uploads only what the last completed one does not hold.
        incremental: bool,
        /// RocksDB's own settings. Without the cargo feature `rocksdb` the job is refused.
        #[cfg(feature = "rocksdb")]
        options: Box<RocksDbOptions>,
    },
}

/// Flink's default for `max_state_size`: 5 MiB.
pub const DEFAULT_MAX_STATE_SIZE: u64 = 5 << 20;
/// Flink's default for the largest RPC message: 10 MiB.
pub const DEFAULT_FRAME_SIZE: u64 = 10 << 20;

impl Default for StateBackend {
    fn default() -> Self {
        Self::Memory { max_state_size: DEFAULT_MAX_STATE_SIZE, asynchronous: true, checkpoint_uri: None }
    }
}

impl StateBackend {
    /// What makes the backends of this job. `incremental`: checkpoints leave out what did not change, where
    /// that is possible.
    pub(crate) fn factory(&self, job: &str, incremental: bool) -> StateBackends {
        // only RocksDB has folders of its own
        let _ = job;
        match self {
            // the memory of the JobManager keeps no files that a later checkpoint could name
            Self::Memory { asynchronous, .. } => {
                heap(HeapBackendFactory { asynchronous: *asynchronous, incremental: false })
            }
            Self::Fs { asynchronous, .. } => {
                heap(HeapBackendFactory { asynchronous: *asynchronous, incremental })
            }
            #[cfg(feature = "rocksdb")]
            Self::RocksDb { incremental, options, .. } => {
                rocksdb(*incremental, options.for_subtask(0, &[job]))
            }
            #[cfg(not(feature = "rocksdb"))]
            Self::RocksDb { .. } => heap(HeapBackendFactory::default()),
        }
    }

    /// Its name in the configuration.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory { .. } | Self::Fs { .. } => "hashmap",
            Self::RocksDb { .. } => "rocksdb",
        }
    }

    /// As a plan describes it.
    pub(crate) fn described(&self) -> stillstream_restore::Backend {
        match self {
            Self::Memory { .. } | Self::Fs { .. } => stillstream_restore::Backend::Hashmap,
            Self::RocksDb { .. } => stillstream_restore::Backend::Rocksdb,
        }
    }

    /// The largest snapshot of one state, in bytes, where snapshots lie inside the acknowledgement; `None`
    /// where they lie in files.
    pub(crate) fn max_state_size(&self) -> Option<u64> {
        match self {
            Self::Memory { max_state_size, .. } => Some(*max_state_size),
            Self::Fs { .. } | Self::RocksDb { .. } => None,
        }
    }

    /// The folder with copies of this job's checkpoints on the local disk, where such are kept.
    pub(crate) fn local_copies(&self, job: &str) -> Option<PathBuf> {
        match self {
            #[cfg(feature = "rocksdb")]
            Self::RocksDb { options, .. } => {
                options.for_subtask(0, &[job]).local_recovery.map(|local| local.dir)
            }
            _ => {
                let _ = job;
                None
            }
        }
    }

    pub(crate) fn checkpoint_uri(&self) -> Option<&str> {
        match self {
            Self::Memory { checkpoint_uri, .. } => checkpoint_uri.as_deref(),
            Self::Fs { checkpoint_uri, .. } | Self::RocksDb { checkpoint_uri, .. } => Some(checkpoint_uri),
        }
    }
}

/// Settings of one job. Defaults are Flink's.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// The job's name; its checkpoints are found by it.
    pub name: String,
    /// Parallelism of operators that do not set their own.
    pub parallelism: u32,
    /// Worker processes; 1 runs everything in this process.
    pub processes: u32,
    /// Whether operators may share a task.
    pub chaining: bool,
    /// When and how checkpoints are taken.
    pub checkpoint: CheckpointConfig,
    /// The state backend.
    pub backend: StateBackend,
    /// What happens after a failure; `None`: no restart without checkpoints, with them exponential delay.
    pub restart: Option<RestartStrategy>,
    /// A retained checkpoint or savepoint to start from.
    pub from_snapshot: Option<String>,
    /// Whether state in the snapshot that no operator claims is left behind.
    pub allow_non_restored_state: bool,
    /// Whether what fields hold that the program's types no longer have may be lost.
    pub allow_dropped_fields: bool,
    /// Whether the job owns that snapshot from then on, and deletes it when it no longer needs it.
    pub claim_snapshot: bool,
    /// An older checkpoint of the job's own from which it goes on, although it has newer ones.
    pub fall_back_to: Option<CheckpointId>,
    /// Starts without state although the job has checkpoints.
    pub start_fresh: bool,
    /// Most records in flight on one edge to one worker.
    pub records_in_flight: u64,
    /// Most bytes in flight on one edge to one worker, as measured.
    pub bytes_in_flight: u64,
    /// Records that an operator processes before it lets others run.
    pub budget: usize,
    /// How long a record may wait for others that are sent with it (`execution.buffer-timeout.interval`);
    /// zero: not at all, `None`: time does not matter.
    pub buffer_timeout: Option<Duration>,
    /// How long a worker without work sleeps at most. Whatever brings work wakes it: records, a control
    /// message, a source's thread, a timer. It looks around by itself this often all the same
    /// (`stillstream.worker.longest-sleep`).
    pub longest_sleep: Duration,
    /// What becomes of timers of processing time at the end of a bounded input
    /// (`stillstream.timers.at-end-of-input`).
    pub pending_timers: PendingTimers,
    /// How often generators of watermarks are asked (`pipeline.auto-watermark-interval`); `None`: never.
    pub auto_watermark_interval: Option<Duration>,
    /// Whether strategies that are built in say after each batch how far event time is, and not at that
    /// interval.
    pub watermark_each_batch: bool,
    /// How long a subtask may take to stop before it is given up and named (`task.cancellation.timeout`).
    pub cancellation_timeout: Duration,
    /// State streams below this many bytes are kept inside `_metadata`.
    pub inline_threshold: u64,
    /// How stores that are reached over the network are asked (`s3.*` and so on), and the connections to
    /// them.
    pub remote_storage: RemoteStores,
    /// How long one request to such a store may take, with its retries (`stillstream.storage.timeout`).
    pub storage_timeout: Duration,
    /// Who may read the files that the job makes (`stillstream.files.access`).
    pub file_access: FileAccess,
    /// The largest message between JobManager and workers, in bytes (`pekko.framesize`).
    pub frame_size: u64,
    /// The progress line.
    pub progress: ProgressMode,
    /// The log goes where `main` prints its error, to standard error: the error that ends the job is left to
    /// whoever waits for the job, so that it is not there twice.
    pub error_is_printed: bool,
    /// Threads that write snapshots, per process.
    pub snapshot_threads: usize,
    /// Where savepoints go whose request names no directory (`execution.checkpointing.savepoint-dir`).
    pub savepoint_dir: Option<String>,
    /// How long a worker process may be silent (`heartbeat.timeout`).
    pub heartbeat_timeout: Duration,
    /// The settings as a person wrote them, secrets hidden: for those who ask what the job was started with.
    pub configuration: BTreeMap<String, String>,
    /// Where the REST interface of this process answers, if the job has one.
    pub rest_address: Option<SocketAddr>,
}

impl JobSettings {
    /// What a connector may know of the job before it starts.
    pub fn outline(&self) -> JobOutline {
        JobOutline {
            name: self.name.clone(),
            checkpoint_interval: self.checkpoint.interval,
            checkpoint_timeout: self.checkpoint.timeout,
        }
    }

    /// Where checkpoints are kept, in one form for each place; empty if nowhere.
    pub(crate) fn checkpoint_storage(&self) -> String {
        let uri = self.backend.checkpoint_uri().unwrap_or_default();
        match uri.strip_prefix("file://").unwrap_or(uri) {
            "" => String::new(),
            elsewhere if elsewhere.contains("://") => elsewhere.trim_end_matches('/').to_string(),
            folder => absolute(folder).to_string_lossy().trim_end_matches('/').to_string(),
        }
    }
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            name: "job".into(),
            parallelism: 1,
            processes: 1,
            chaining: true,
            checkpoint: CheckpointConfig::default(),
            backend: StateBackend::default(),
            restart: None,
            from_snapshot: None,
            allow_non_restored_state: false,
            allow_dropped_fields: false,
            claim_snapshot: false,
            fall_back_to: None,
            start_fresh: false,
            records_in_flight: 65_536,
            bytes_in_flight: 32 << 20,
            budget: 8_192,
            buffer_timeout: Some(Duration::from_millis(100)),
            longest_sleep: Duration::from_secs(1),
            pending_timers: PendingTimers::Drop,
            auto_watermark_interval: Some(DEFAULT_AUTO_WATERMARK_INTERVAL),
            watermark_each_batch: true,
            cancellation_timeout: Duration::from_secs(180),
            inline_threshold: 20 << 10,
            remote_storage: RemoteStores::default(),
            storage_timeout: Duration::from_secs(60),
            file_access: FileAccess::default(),
            frame_size: DEFAULT_FRAME_SIZE,
            progress: ProgressMode::Auto,
            error_is_printed: false,
            snapshot_threads: 2,
            savepoint_dir: None,
            heartbeat_timeout: Duration::from_secs(50),
            configuration: BTreeMap::new(),
            rest_address: None,
        }
    }
}

impl JobSettings {
    /// How long the record of the job's end may take. Tasks may be given for ever to stop; a wait for storage
    /// ends.
    pub(crate) fn end_timeout(&self) -> Duration {
        const DEFAULT: Duration = Duration::from_secs(180);
        self.cancellation_timeout.min(self.checkpoint.timeout.max(DEFAULT))
    }
}
