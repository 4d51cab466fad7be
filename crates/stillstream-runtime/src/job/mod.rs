//! Jobs: settings, the JobManager, the fleet of workers, and what the submitting program holds.
//!
//! | module | what is inside |
//! |---|---|
//! | `settings` | [`JobSettings`], [`StateBackend`] |
//! | `client` | [`JobClient`], [`JobResult`] |
//! | `manager` | the JobManager: a shell around the engines of `stillstream-checkpoint` |
//! | `fleet` | worker threads, and what an attempt needs of any fleet |
//! | `home` | where checkpoints and the register live |
//! | `stores` | where a subtask writes its snapshot |
//! | `io` | threads for storage calls |
//! | `remote`, `process`, `wire` | worker processes on this machine: the JobManager's side, theirs, and the messages |
//! | `progress` | the line on the terminal |

mod client;
mod event_times;
mod fleet;
mod home;
mod io;
mod manager;
mod process;
mod progress;
mod remote;
mod settings;
mod stores;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

use stillstream_checkpoint::{CheckpointCoordinator, CheckpointingMode, CoordinatorSetup, JobStatus};
use stillstream_storage::{CheckpointStorage, JobStorage, StorageError, StorageOptions};
use stillstream_types::{Error, ErrorKind, JobId, JobOutcome, Result};

pub use client::{CheckpointTotals, JobClient, JobMetrics, JobResult};
pub(crate) use event_times::EventTimes;
pub use event_times::{ChannelEventTime, TaskEventTime};
pub use settings::{
    DEFAULT_FRAME_SIZE, DEFAULT_MAX_STATE_SIZE, JobSettings, ProgressMode, RocksDbSettings, StateBackend,
};

use crate::clock::{Clock, SystemClock};
use crate::metrics::Counters;
use crate::plan::{Physical, Plan};
use crate::shared::{Alignment, ReportSink};
use crate::snapshot_pool::{SnapshotPool, SnapshotStores};
use crate::turn::TurnLimits;
use crate::worker::{WorkerContext, WorkerSettings};
use client::Shared;
use fleet::{ContextFactory, Fleet, LocalFleet, ReportQueue};
use home::{CheckpointHome, MemoryHome, StorageHome};
use io::IoThreads;
use manager::{Manager, Message, Parts};
use process::{Identity, WorkerProcess};
use remote::{ProcessFleet, ProcessSettings};
use stores::{FileStores, MemoryStores};

fn configuration(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

fn validate(settings: &JobSettings) -> Result<()> {
    settings.checkpoint.validate().map_err(|error| Error::wrap(ErrorKind::Configuration, error))?;
    if settings.processes == 0 {
        return Err(configuration("the number of processes is 0; --processes takes 1 or more"));
    }
    if let StateBackend::RocksDb { .. } = settings.backend
        && !cfg!(feature = "rocksdb")
    {
        return Err(configuration(
            "this program was built without RocksDB: add the cargo feature `rocksdb` to `stillstream` in its Cargo.toml (the \
             build needs a C++ compiler and libclang), or write `state.backend.type: hashmap`",
        ));
    }
    if let StateBackend::Memory { max_state_size, .. } = settings.backend
        && max_state_size >= settings.frame_size
    {
        return Err(configuration(format!(
            "max_state_size is {max_state_size} bytes and must be below the RPC frame size of {} bytes (pekko.framesize): the \
             memory backend sends its state inside the acknowledgement",
            settings.frame_size
        )));
    }
    Ok(())
}

/// The job's directory in checkpoint storage, if the settings name one.
///
/// With `probe`, a directory that cannot be written is found here.
fn job_storage(
    settings: &JobSettings,
    handle: &tokio::runtime::Handle,
    probe: bool,
) -> Result<Option<JobStorage>> {
    let Some(uri) = settings.backend.checkpoint_uri().filter(|_| settings.checkpoint.interval.is_some())
    else {
        return Ok(None);
    };
    let options = StorageOptions {
        inline_threshold: settings.inline_threshold as usize,
        file_access: settings.file_access,
        ..StorageOptions::default()
    };
    let storage = CheckpointStorage::open(uri, options, handle.clone()).map_err(StorageError::into_error)?;
    if probe {
        storage.probe_writable().map_err(StorageError::into_error)?;
    }
    let job = storage.job(JobId::from_name(&settings.name));
    if !probe {
        // the JobManager has claimed it
        job.hold().map_err(StorageError::into_error)?;
    }
    Ok(Some(job))
}

fn snapshot_stores(settings: &JobSettings, storage: &Option<JobStorage>) -> Arc<dyn SnapshotStores> {
    match (&settings.backend, storage) {
        (StateBackend::Fs { .. } | StateBackend::RocksDb { .. }, Some(storage)) => {
            Arc::new(FileStores(storage.clone()))
        }
        (StateBackend::Memory { max_state_size, .. }, files) => {
            Arc::new(MemoryStores { max_state_size: *max_state_size, files: files.clone() })
        }
        // without checkpoints nothing is ever written
        (StateBackend::Fs { .. } | StateBackend::RocksDb { .. }, None) => {
            Arc::new(MemoryStores { max_state_size: u64::MAX, files: None })
        }
    }
}

fn worker_settings(settings: &JobSettings) -> WorkerSettings {
    WorkerSettings {
        pending_timers: settings.pending_timers,
        auto_watermark_interval: settings.auto_watermark_interval,
        watermark_each_batch: settings.watermark_each_batch,
        alignment: match settings.checkpoint.mode {
            CheckpointingMode::ExactlyOnce => Alignment::ExactlyOnce,
            CheckpointingMode::AtLeastOnce => Alignment::AtLeastOnce,
        },
        job: JobId::from_name(&settings.name),
        file_access: settings.file_access,
        checkpointing: settings.checkpoint.interval.is_some(),
        asynchronous_snapshots: settings.backend.asynchronous(),
        // the memory of the JobManager keeps no files that a later checkpoint could name
        incremental_checkpoints: settings.incremental_checkpoints
            && !matches!(settings.backend, StateBackend::Memory { .. }),
        rocksdb: settings.backend.rocksdb(&JobId::from_name(&settings.name).to_string()),
        records_in_flight: settings.records_in_flight,
        turn: TurnLimits::new(settings.budget, settings.buffer_timeout),
    }
}

fn warn(settings: &JobSettings, physical: &Physical) {
    let job = &settings.name;
    let checkpointing = settings.checkpoint.interval.is_some() || settings.from_snapshot.is_some();
    for (operator, sources) in &physical.without_watermarks {
        let sources = sources.iter().map(|source| format!("`{source}`")).collect::<Vec<_>>().join(" and ");
        tracing::warn!(
            %job,
            "`{operator}` waits for event time, and no watermark strategy lies on its way from {sources}: it emits nothing before \
             that input ends; add `.watermarks(WatermarkStrategy::..)` in between"
        );
    }
    // without checkpoints there is no state to lose
    for name in physical.without_uid.iter().filter(|_| checkpointing) {
        tracing::warn!(
            %job,
            "operator `{name}` keeps state and has no uid: its id comes from the shape of the graph, so any change of the job \
             can lose its state; name it with `.uid(\"..\")`"
        );
    }
    if settings.checkpoint.interval.is_some() && settings.backend.checkpoint_uri().is_none() {
        tracing::warn!(
            %job,
            "checkpoints are kept in this process's memory and end with it; name a folder (execution.checkpointing.dir, \
             --checkpoint-dir) to survive a killed process"
        );
    }
}

/// Whether this process was started by a JobManager to run a part of its job, and not by a person.
///
/// It runs the same program as the JobManager, which has already said and checked what there is to say and check.
pub fn in_worker_process() -> bool {
    Identity::from_environment().is_some()
}

/// Starts a job in this process and returns at once.
///
/// # Errors
/// Wrong settings, a plan that cannot be run, a checkpoint directory that cannot be used or that another live process uses.
///
/// In a worker process it does not return: the process serves the JobManager that started it and ends with the job.
pub fn submit(plan: Plan, settings: JobSettings) -> Result<JobClient> {
    static SUBMISSIONS: AtomicUsize = AtomicUsize::new(0);
    let submission = SUBMISSIONS.fetch_add(1, Ordering::SeqCst);
    validate(&settings)?;
    let physical = Arc::new(plan.compile(settings.parallelism, settings.chaining)?);
    if let Some(identity) = Identity::from_environment() {
        if identity.submission != submission {
            // this process was started for a later job of the program; the earlier ones have run
            return Ok(JobClient::ended(&settings.name));
        }
        serve(identity, &physical, &settings)?;
    }
    warn(&settings, &physical);
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("tokio")
        .enable_all()
        .build()?;
    let storage = job_storage(&settings, tokio.handle(), true)?;
    let stores = snapshot_stores(&settings, &storage);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let home: Arc<dyn CheckpointHome> = match storage {
        Some(storage) => Arc::new(StorageHome::claim(storage, &settings.name, settings.start_fresh)?),
        None => Arc::new(MemoryHome::default()),
    };
    refuse_two_starts(&settings, &*home)?;
    let coordinator = CheckpointCoordinator::new(CoordinatorSetup {
        job: JobId::from_name(&settings.name),
        job_name: settings.name.clone(),
        config: settings.checkpoint.clone(),
        zero_ms: clock.now_ms(),
        register: home.claimed(),
    });
    let coordinator = coordinator.map_err(|error| Error::wrap(ErrorKind::Configuration, error))?;
    let (sender, messages) = mpsc::channel();
    let counters = Arc::new(Counters::default());
    let fleet = match settings.processes {
        1 => local_fleet(&settings, &physical, &stores, &clock, &counters, &sender)?,
        _ => process_fleet(&settings, &physical, submission, &counters, &sender)?,
    };
    let shared = Arc::new(Shared::default());
    shared.board.lock().status = Some(JobStatus::Initializing);
    *shared.event_times.lock() = EventTimes::of(physical.clone(), clock.clone());
    let client =
        JobClient { messages: sender.clone(), shared: shared.clone(), name: settings.name.as_str().into() };
    let io = IoThreads::start(sender.clone())?;
    let manager = Manager::new(Parts {
        settings,
        physical,
        coordinator,
        fleet,
        home,
        io,
        clock,
        messages,
        shared,
        counters,
    });
    std::thread::Builder::new().name("jobmanager".into()).spawn(move || {
        manager.run();
        tokio.shutdown_background();
    })?;
    Ok(client)
}

/// Refuses `--from` for a job that would go on from a checkpoint of its own: neither is passed over in silence.
fn refuse_two_starts(settings: &JobSettings, home: &dyn CheckpointHome) -> Result<()> {
    let (Some(from), Some(record)) = (&settings.from_snapshot, home.claimed()) else { return Ok(()) };
    // a job that was finished or cancelled begins anew
    if matches!(record.outcome, JobOutcome::Finished | JobOutcome::Cancelled) {
        return Ok(());
    }
    let Some(own) = record.completed.last() else { return Ok(()) };
    if let (Ok(own), Ok(named)) = (home.read_metadata(&own.path), home.read_foreign(from))
        && own == named
    {
        return Ok(());
    }
    let (name, id, place) = (&settings.name, own.id, home.describe());
    Err(configuration(format!(
        "job `{name}` has a checkpoint of its own, `{place}/{}`, and `--from` (execution.state-recovery.path) names `{from}`: \
         leave out `--from` to go on from checkpoint {id}, or add `--start-fresh` (stillstream.checkpoint.start-fresh: true) to \
         begin from `{from}`; the job's own checkpoints stay then, and only a person deletes them",
        own.path
    )))
}

fn local_fleet(
    settings: &JobSettings,
    physical: &Arc<Physical>,
    stores: &Arc<dyn SnapshotStores>,
    clock: &Arc<dyn Clock>,
    counters: &Arc<Counters>,
    sender: &mpsc::Sender<Message>,
) -> Result<Box<dyn Fleet>> {
    let sender = std::sync::Mutex::new(sender.clone());
    let reports = Arc::new(ReportQueue(move |generation, report| {
        // the job has ended if nobody listens
        if let Ok(sender) = sender.lock() {
            let _ = sender.send(Message::Report(generation, report));
        }
    }));
    let workers = physical.workers as usize;
    let context = context_factory(settings, physical, stores, clock, counters, reports)?;
    Ok(Box::new(LocalFleet::start(workers, context)?))
}

/// Workers of each process, so that all subtasks have one.
fn threads_per_process(physical: &Physical, processes: u32) -> usize {
    physical.workers.div_ceil(processes) as usize
}

fn process_fleet(
    settings: &JobSettings,
    physical: &Arc<Physical>,
    submission: usize,
    counters: &Arc<Counters>,
    sender: &mpsc::Sender<Message>,
) -> Result<Box<dyn Fleet>> {
    Ok(Box::new(ProcessFleet::start(ProcessSettings {
        processes: settings.processes as usize,
        threads: threads_per_process(physical, settings.processes),
        submission,
        silence: settings.heartbeat_timeout,
        counters: counters.clone(),
        messages: sender.clone(),
    })?))
}

/// The life of a worker process: does not return, unless it could not begin.
fn serve(identity: Identity, physical: &Arc<Physical>, settings: &JobSettings) -> Result<()> {
    let threads = threads_per_process(physical, settings.processes);
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("tokio")
        .enable_all()
        .build()?;
    let storage = job_storage(settings, tokio.handle(), false)?;
    let stores = snapshot_stores(settings, &storage);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let counters = Arc::new(Counters::default());
    let (stream, link) = process::connect(&identity, settings.frame_size)?;
    let context = context_factory(settings, physical, &stores, &clock, &counters, link.clone())?;
    let metrics = (0..threads).map(|_| Arc::default()).collect();
    WorkerProcess { identity, threads, counters, metrics, stopped: AtomicU64::new(0) }
        .serve(stream, &link, &context)
}

/// 128 random bits as text.
pub(crate) fn random_token() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let word = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", word(), word())
}

fn context_factory(
    settings: &JobSettings,
    physical: &Arc<Physical>,
    stores: &Arc<dyn SnapshotStores>,
    clock: &Arc<dyn Clock>,
    counters: &Arc<Counters>,
    reports: Arc<dyn ReportSink>,
) -> Result<ContextFactory> {
    let pool = SnapshotPool::start(settings.snapshot_threads, stores.clone(), clock.clone())?;
    let (physical, stores, clock, counters) =
        (physical.clone(), stores.clone(), clock.clone(), counters.clone());
    let settings = worker_settings(settings);
    Ok(Arc::new(move |metrics| WorkerContext {
        physical: physical.clone(),
        settings: settings.clone(),
        stores: stores.clone(),
        pool: pool.clone(),
        reports: reports.clone(),
        clock: clock.clone(),
        metrics,
        counters: counters.clone(),
    }))
}
