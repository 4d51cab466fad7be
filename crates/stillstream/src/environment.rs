//! [`StreamExecutionEnvironment`]: where a job begins.

use std::sync::atomic::Ordering;
use std::time::Duration;

use stillstream_checkpoint::{CheckpointingMode, Retention};
use stillstream_runtime::connect::SplitSource;
use stillstream_runtime::job::{self, DEFAULT_MAX_STATE_SIZE, JobClient, JobResult, ProgressMode};
use stillstream_state::Data;
use stillstream_types::config::{
    self, CheckpointStorageType, Configuration, ExternalizedCheckpointRetention, options as o,
};
use stillstream_types::{Error, ErrorKind, Result};

use crate::backend::StateBackend;
use crate::collection::Collection;
use crate::data_stream::DataStream;
use crate::graph::Graph;
use crate::logging::init_logging;
use crate::options;
use crate::restart::RestartStrategy;
use crate::settings::{BackendDetails, job_settings};

/// Where a job begins: makes sources, holds the settings, and runs what was built.
///
/// Settings come from a configuration file, from code, and from the arguments; code wins over the file, and the arguments
/// (`-D key=value` and their short forms) over both.
///
/// ```
/// use stillstream::prelude::*;
///
/// let env = StreamExecutionEnvironment::new();
/// let even = env.from_collection(0..10u64).filter(|n| n % 2 == 0).collect();
/// let result = env.execute("even numbers")?;
/// assert_eq!(even.sorted(), [0, 2, 4, 6, 8]);
/// assert_eq!(result.records_in, 10);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct StreamExecutionEnvironment {
    graph: Graph,
    config: Configuration,
    details: BackendDetails,
    chaining: bool,
    arguments: Vec<String>,
}

impl Default for StreamExecutionEnvironment {
    fn default() -> Self {
        Self::from_configuration(Configuration::new())
    }
}

/// Making one.
impl StreamExecutionEnvironment {
    /// An environment with the default settings. It reads no file and no arguments.
    pub fn new() -> Self {
        Self::default()
    }

    /// An environment with these settings.
    pub fn from_configuration(config: Configuration) -> Self {
        let details = BackendDetails { asynchronous: true, max_state_size: DEFAULT_MAX_STATE_SIZE };
        Self { graph: Graph::default(), config, details, chaining: true, arguments: Vec::new() }
    }

    /// An environment with the settings of the command line, and of the configuration file that it names.
    ///
    /// | argument | meaning |
    /// |---|---|
    /// | `-D key=value` | any setting |
    /// | `--config PATH` | a configuration file, or a folder with one (or the variable `STILLSTREAM_CONF_DIR`) |
    /// | `--parallelism N`, `--processes N` | subtasks of each operator; worker processes |
    /// | `--checkpoint-dir URI`, `--checkpoint-interval D` | where and how often |
    /// | `--backend memory` or `filesystem` | where snapshots go |
    /// | `--from PATH` | a retained checkpoint to start from |
    /// | `--allow-non-restored-state`, `--start-fresh` | leave state behind on purpose |
    ///
    /// Others are left to the program: [`arguments`](Self::arguments).
    ///
    /// # Errors
    /// All mistakes in file and arguments, each with its line or argument.
    #[expect(clippy::disallowed_methods, reason = "the start-up shell reads arguments and environment once")]
    pub fn from_args() -> Result<Self> {
        let folder = std::env::var("STILLSTREAM_CONF_DIR").ok();
        Self::build(std::env::args().skip(1), folder)
    }

    /// Like [`from_args`](Self::from_args), for arguments given by the caller (the program's name aside).
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let env = StreamExecutionEnvironment::from_arguments(["--parallelism", "4", "input.csv"])?;
    /// assert_eq!(env.arguments(), ["input.csv"]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_args`](Self::from_args).
    pub fn from_arguments(arguments: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        Self::build(arguments.into_iter().map(Into::into), None)
    }

    fn build(arguments: impl IntoIterator<Item = String>, folder: Option<String>) -> Result<Self> {
        let parsed = options::parse(arguments)?;
        let mut config = match parsed.file.or(folder) {
            Some(path) => Configuration::load(path).map_err(|errors| errors.into_error())?,
            None => Configuration::new(),
        };
        config.merge(parsed.settings);
        Ok(Self { arguments: parsed.rest, ..Self::from_configuration(config) })
    }

    /// Arguments that are none of the environment's.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The settings so far.
    pub fn configuration(&self) -> &Configuration {
        &self.config
    }
}

/// Settings in code.
impl StreamExecutionEnvironment {
    /// Takes a checkpoint at this interval; at least 10 ms. Without it no checkpoints are taken.
    pub fn enable_checkpointing(&mut self, interval: Duration) -> &mut Self {
        self.config.set(o::CHECKPOINTING_INTERVAL, Some(interval));
        self
    }

    /// Whether records behind a barrier wait until it has come from all inputs (exactly-once, the default), or not.
    pub fn set_checkpointing_mode(&mut self, mode: CheckpointingMode) -> &mut Self {
        let mode = match mode {
            CheckpointingMode::ExactlyOnce => config::CheckpointingMode::ExactlyOnce,
            CheckpointingMode::AtLeastOnce => config::CheckpointingMode::AtLeastOnce,
        };
        self.config.set(o::CHECKPOINTING_MODE, mode);
        self
    }

    /// A checkpoint that takes longer is aborted; 10 minutes if not said.
    pub fn set_checkpoint_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.config.set(o::CHECKPOINTING_TIMEOUT, timeout);
        self
    }

    /// Quiet time between the end of a checkpoint and the start of the next; none if not said.
    pub fn set_min_pause_between_checkpoints(&mut self, pause: Duration) -> &mut Self {
        self.config.set(o::MIN_PAUSE_BETWEEN_CHECKPOINTS, pause);
        self
    }

    /// Checkpoints under way at once; 1 if not said.
    pub fn set_max_concurrent_checkpoints(&mut self, n: u32) -> &mut Self {
        self.config.set(o::MAX_CONCURRENT_CHECKPOINTS, i32::try_from(n).unwrap_or(i32::MAX));
        self
    }

    /// Checkpoints in a row that may fail before the job fails; 0 if not said.
    pub fn set_tolerable_checkpoint_failures(&mut self, n: u32) -> &mut Self {
        self.config.set(o::TOLERABLE_FAILED_CHECKPOINTS, i32::try_from(n).unwrap_or(i32::MAX));
        self
    }

    /// Completed checkpoints that are kept; 1 if not said.
    pub fn set_num_retained(&mut self, n: u32) -> &mut Self {
        self.config.set(o::NUM_RETAINED_CHECKPOINTS, i32::try_from(n).unwrap_or(i32::MAX));
        self
    }

    /// What becomes of the last checkpoint when the job is cancelled.
    pub fn set_externalized_retention(&mut self, retention: Retention) -> &mut Self {
        let retention = match retention {
            Retention::NoExternalized => ExternalizedCheckpointRetention::NoExternalizedCheckpoints,
            Retention::DeleteOnCancellation => ExternalizedCheckpointRetention::DeleteOnCancellation,
            Retention::RetainOnCancellation => ExternalizedCheckpointRetention::RetainOnCancellation,
        };
        self.config.set(o::EXTERNALIZED_CHECKPOINT_RETENTION, retention);
        self
    }

    /// Where state lives and where its snapshots go; [`MemoryStateBackend`](crate::MemoryStateBackend) if not said.
    pub fn set_state_backend(&mut self, backend: impl Into<StateBackend>) -> &mut Self {
        match backend.into() {
            StateBackend::Memory(memory) => {
                self.details = BackendDetails {
                    asynchronous: memory.asynchronous,
                    max_state_size: memory.max_state_size,
                };
                self.config.set(o::CHECKPOINT_STORAGE, Some(CheckpointStorageType::JobManager));
            }
            StateBackend::Fs(files) => {
                self.details.asynchronous = files.asynchronous;
                self.config.set(o::CHECKPOINT_STORAGE, Some(CheckpointStorageType::FileSystem));
                self.config.set(o::CHECKPOINTS_DIR, Some(files.uri));
            }
        }
        self
    }

    /// A folder for checkpoints, whatever the backend.
    pub fn set_checkpoint_dir(&mut self, uri: impl Into<String>) -> &mut Self {
        self.config.set(o::CHECKPOINTS_DIR, Some(uri.into()));
        self
    }

    /// How a failed job is started again.
    pub fn set_restart_strategy(&mut self, strategy: RestartStrategy) -> &mut Self {
        strategy.apply(&mut self.config);
        self
    }

    /// Subtasks of each operator that does not say otherwise; 1 if not said.
    pub fn set_parallelism(&mut self, parallelism: u32) -> &mut Self {
        self.config.set(o::PARALLELISM, i32::try_from(parallelism).unwrap_or(i32::MAX));
        self
    }

    /// Key groups of each operator that does not say otherwise: the most that its parallelism can ever be.
    pub fn set_max_parallelism(&mut self, max_parallelism: u32) -> &mut Self {
        self.config.set(o::MAX_PARALLELISM, i32::try_from(max_parallelism).unwrap_or(i32::MAX));
        self
    }

    /// Worker processes; 1 (all in this process) if not said.
    pub fn set_processes(&mut self, processes: u32) -> &mut Self {
        self.config.set(o::PROCESSES, i32::try_from(processes).unwrap_or(i32::MAX));
        self
    }

    /// The most records in flight from one operator to one subtask of the next; 65 536 if not said.
    pub fn set_records_in_flight(&mut self, records: u32) -> &mut Self {
        self.config.set(o::RECORDS_IN_FLIGHT, i32::try_from(records).unwrap_or(i32::MAX));
        self
    }

    /// How long a subtask may take to stop before the job gives it up and names it; 3 minutes if not said.
    pub fn set_cancellation_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.config.set(o::CANCELLATION_TIMEOUT, timeout);
        self
    }

    /// Gives every operator a task of its own.
    pub fn disable_operator_chaining(&mut self) -> &mut Self {
        self.chaining = false;
        self
    }

    /// Starts without state although the job has checkpoints. They are kept, but no longer used.
    pub fn start_fresh(&mut self) -> &mut Self {
        self.config.set(o::START_FRESH, true);
        self
    }

    /// Starts from a retained checkpoint (its `chk-<n>` folder), of this job or another.
    pub fn restore_from(&mut self, path: impl Into<String>) -> &mut Self {
        self.config.set(o::RECOVERY_PATH, Some(path.into()));
        self
    }

    /// Leaves state behind that no operator claims.
    pub fn allow_non_restored_state(&mut self) -> &mut Self {
        self.config.set(o::RECOVERY_IGNORE_UNCLAIMED_STATE, true);
        self
    }

    /// When a line about progress is shown; on a terminal if not said.
    pub fn set_progress(&mut self, mode: ProgressMode) -> &mut Self {
        let mode = match mode {
            ProgressMode::Auto => config::ProgressMode::Auto,
            ProgressMode::Always => config::ProgressMode::Always,
            ProgressMode::Never => config::ProgressMode::Never,
        };
        self.config.set(o::PROGRESS, mode);
        self
    }
}

/// Sources.
impl StreamExecutionEnvironment {
    /// A stream from a source: files, a generator, or one of your own (see [`SplitSource`]).
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let env = StreamExecutionEnvironment::new();
    /// let numbers = env.from_source("numbers", Generator::new(1000, |n| n * 2)).uid("numbers");
    /// numbers.discard();
    /// ```
    pub fn from_source<S: SplitSource>(&self, name: impl Into<String>, source: S) -> DataStream<S::Item> {
        DataStream::new(self.graph.clone(), self.graph.source(name.into(), source))
    }

    /// A stream of records that the program has at hand, in their order, by one subtask. They must be the same each time
    /// the program is started.
    pub fn from_collection<T: Data>(&self, records: impl IntoIterator<Item = T>) -> DataStream<T> {
        self.from_source("collection", Collection::new(records)).set_parallelism(1)
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }
}

/// Running.
impl StreamExecutionEnvironment {
    /// Runs the job and waits for its end. Afterwards the environment is empty, for the next job.
    ///
    /// A job that was killed goes on from its last checkpoint when it is started again under the same name with the same
    /// checkpoint directory. One that has finished, or was cancelled, starts afresh.
    ///
    /// # Errors
    /// Mistakes in the program or the settings before the job starts; the error that ended the job.
    pub fn execute(&self, name: &str) -> Result<JobResult> {
        self.execute_async(name)?.wait()
    }

    /// Starts the job and returns at once, with a client to watch and cancel it.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// let env = StreamExecutionEnvironment::new();
    /// env.from_source("numbers", Generator::unbounded(|n| n)).discard();
    /// let job = env.execute_async("endless")?;
    /// job.cancel();
    /// assert!(job.wait().unwrap_err().to_string().contains("was cancelled"));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Mistakes in the program or the settings.
    pub fn execute_async(&self, name: &str) -> Result<JobClient> {
        init_logging();
        let mut settings = job_settings(&self.config, self.details, name)?;
        settings.chaining = self.chaining;
        let mut plan = self.graph.plan()?;
        let max_parallelism = self.config.get(o::MAX_PARALLELISM);
        if max_parallelism > 0 {
            plan.nodes.iter_mut().for_each(|node| {
                node.max_parallelism = node.max_parallelism.or(Some(max_parallelism as u32));
            });
        }
        self.graph.run_checks()?;
        let retries = u32::try_from(self.config.get(o::SINK_COMMITTER_RETRIES)).unwrap_or(0);
        self.graph.commit_retries().store(retries, Ordering::Relaxed);
        if settings.name.is_empty() {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the job has no name; its checkpoints are found by it: execute(\"..\")",
            ));
        }
        let client = job::submit(plan, settings)?;
        self.graph.clear();
        Ok(client)
    }
}
