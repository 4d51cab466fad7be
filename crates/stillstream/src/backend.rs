//! State backends: where state lives, and where its snapshots go.

use stillstream_runtime::job::DEFAULT_MAX_STATE_SIZE;

/// State on the heap; snapshots in the JobManager's memory. For development and small state.
///
/// With a checkpoint directory (`--checkpoint-dir`, `execution.checkpointing.dir`) the JobManager writes what
/// it has into it, so that the job survives its process; without one, checkpoints only survive failures
/// within the process.
///
/// ```
/// use stillstream::prelude::*;
/// let mut env = StreamExecutionEnvironment::new();
/// env.set_state_backend(MemoryStateBackend::new().max_state_size(1 << 20));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryStateBackend {
    pub(crate) max_state_size: u64,
    pub(crate) asynchronous: bool,
}

impl Default for MemoryStateBackend {
    fn default() -> Self {
        Self { max_state_size: DEFAULT_MAX_STATE_SIZE, asynchronous: true }
    }
}

impl MemoryStateBackend {
    /// At most 5 MiB for one state, asynchronous snapshots.
    pub fn new() -> Self {
        Self::default()
    }

    /// The largest snapshot of one single state, in bytes. Must be below `pekko.framesize`, 10 MiB by
    /// default: snapshots travel inside the acknowledgement.
    pub fn max_state_size(mut self, bytes: u64) -> Self {
        self.max_state_size = bytes;
        self
    }

    /// Whether records are processed while a snapshot is written (the default); if not, they wait.
    pub fn asynchronous(mut self, asynchronous: bool) -> Self {
        self.asynchronous = asynchronous;
        self
    }
}

/// State on the heap; snapshots in files. For production.
///
/// ```
/// use stillstream::prelude::*;
/// let mut env = StreamExecutionEnvironment::new();
/// env.set_state_backend(FsStateBackend::new("file:///var/lib/orders/checkpoints"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsStateBackend {
    pub(crate) uri: String,
    pub(crate) asynchronous: bool,
}

impl FsStateBackend {
    /// Checkpoints below `uri`: a folder, or a URI such as `s3://bucket/jobs` (cargo feature `s3`).
    /// `--checkpoint-dir` wins over it.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), asynchronous: true }
    }

    /// Whether records are processed while a snapshot is written (the default); if not, they wait.
    pub fn asynchronous(mut self, asynchronous: bool) -> Self {
        self.asynchronous = asynchronous;
        self
    }
}

/// State in RocksDB on the local disk; snapshots in files. For state that is larger than memory. Needs the
/// cargo feature `rocksdb`; without it a job with this backend is refused when it starts.
///
/// RocksDB's own settings are the keys `state.backend.rocksdb.*`.
///
/// ```
/// use stillstream::prelude::*;
/// let mut env = StreamExecutionEnvironment::new();
/// env.set_state_backend(RocksDbStateBackend::new("file:///var/lib/orders/checkpoints").incremental(true));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RocksDbStateBackend {
    pub(crate) uri: String,
    pub(crate) asynchronous: bool,
    pub(crate) incremental: bool,
}

impl RocksDbStateBackend {
    /// Checkpoints below `uri`: a folder, or a URI such as `s3://bucket/jobs` (cargo feature `s3`).
    /// `--checkpoint-dir` wins over it.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), asynchronous: true, incremental: false }
    }

    /// Whether records are processed while a snapshot is written. In RocksDB they always are, and `false`
    /// changes nothing but the operator state, which is in memory.
    pub fn asynchronous(mut self, asynchronous: bool) -> Self {
        self.asynchronous = asynchronous;
        self
    }

    /// Whether a checkpoint uploads only what the last completed one does not hold. The default is no: each
    /// checkpoint then holds everything in the canonical form, which every backend reads.
    pub fn incremental(mut self, incremental: bool) -> Self {
        self.incremental = incremental;
        self
    }
}

/// One of them, for [`set_state_backend`](crate::StreamExecutionEnvironment::set_state_backend).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateBackend {
    /// Snapshots in memory.
    Memory(MemoryStateBackend),
    /// Snapshots in files.
    Fs(FsStateBackend),
    /// State in RocksDB, snapshots in files.
    RocksDb(RocksDbStateBackend),
}

impl From<RocksDbStateBackend> for StateBackend {
    fn from(backend: RocksDbStateBackend) -> Self {
        Self::RocksDb(backend)
    }
}

impl From<MemoryStateBackend> for StateBackend {
    fn from(backend: MemoryStateBackend) -> Self {
        Self::Memory(backend)
    }
}

impl From<FsStateBackend> for StateBackend {
    fn from(backend: FsStateBackend) -> Self {
        Self::Fs(backend)
    }
}
