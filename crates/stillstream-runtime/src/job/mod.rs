//! Jobs: settings, the JobManager, the fleet of workers, and what the submitting program holds.
//!
//! | module | what is inside |
//! |---|---|
//! | `settings` | [`JobSettings`], [`StateBackend`] |
//! | `client` | [`JobClient`], [`JobResult`], [`JobEnding`] |
//! | `look` | what else can be seen of a job through a [`JobClient`] |
//! | `info` | [`JobInfo`], [`JobPlan`]: what is known of a job before it runs |
//! | `manager` | the JobManager: a shell around the engine of `stillstream-jobmaster` |
//! | `beginning` | where a start begins, and whether the program can go on from there |
//! | `checkpoint_storage` | where checkpoints and the register live |
//! | `savepoints` | where savepoints go |
//! | `io` | threads for storage calls |
//! | `progress` | the line on the terminal |
//! | `job_log` | what the log says of a running job, and how often |

mod beginning;
mod checkpoint_storage;
mod client;
mod enumerators;
mod event_times;
mod info;
mod io;
mod job_log;
mod look;
mod manager;
mod progress;
mod savepoints;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use stillstream_jobmaster::{JobEngine, JobEvent, JobSetup, JobStatus, StartDecision, decide_start};
pub use stillstream_restore::PlanDescription;
use stillstream_restore::without_uid;
pub use stillstream_storage::RemoteStores;
use stillstream_storage::{CheckpointStorage, JobStorage, StorageError, StorageOptions};
use stillstream_types::{
    Error, ErrorKind, JobEnd, JobId, JobOutcome, OperatorId, RegisterRecord, RestartStrategy, Result,
    Timestamp, checkpoint_paths,
};

pub use beginning::{PLAN_FILE, describe_plan, plan_file};
pub use client::{CheckpointTotals, JobClient, JobEnding, JobMetrics, JobResult};
pub(crate) use event_times::EventTimes;
pub use event_times::{ChannelEventTime, TaskEventTime};
pub use info::{JobInfo, JobPlan, PlanInput, PlanOperator, PlanVertex, ShipStrategy};
pub use look::{EndHold, RestoredFrom};
pub use settings::{DEFAULT_FRAME_SIZE, DEFAULT_MAX_STATE_SIZE, JobSettings, ProgressMode, StateBackend};

use crate::catch::catch_on_thread;
use crate::checkpoint::snapshot_pool::{SnapshotPool, SnapshotStores};
use crate::checkpoint::stores::{FileStores, MemoryStores};
use crate::clock::{Clock, SystemClock};
use crate::cluster::fleet::{ContextFactory, Fleet, LocalFleet, ReportQueue};
use crate::cluster::process::{self, Figures, Identity, WorkerProcess};
use crate::cluster::remote::{ProcessFleet, ProcessSettings};
use crate::control::ReportSink;
use crate::dataflow::open::{WorkerContext, WorkerSettings};
use crate::dataflow::turn::TurnLimits;
use crate::flow::credits::FlowLimits;
use crate::metrics::Counters;
use crate::plan::{PhysicalPlan, Plan};
use beginning::Beginning;
use checkpoint_storage::{FileSystemCheckpointStorage, JobCheckpointStorage, JobManagerCheckpointStorage};
use client::{Owner, Shared};
use io::IoThreads;
use manager::{Manager, Message, State, random_unit, tasks};
use savepoints::{MadeFor, SavepointPlaces};

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
    if let Some(max_state_size) = settings.backend.max_state_size()
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

/// How the job's files are written.
fn storage_options(settings: &JobSettings) -> StorageOptions {
    StorageOptions {
        inline_threshold: settings.inline_threshold as usize,
        file_access: settings.file_access,
        remote: settings.remote_storage.clone(),
        deadline: settings.storage_timeout,
        ..StorageOptions::default()
    }
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
    let storage = CheckpointStorage::open(uri, storage_options(settings), handle.clone())
        .map_err(StorageError::into_error)?;
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
    let options = storage_options(settings);
    match (settings.backend.max_state_size(), storage) {
        (Some(max_state_size), files) => {
            Arc::new(MemoryStores { max_state_size, files: files.clone(), options })
        }
        (None, Some(storage)) => Arc::new(FileStores { files: storage.clone(), options }),
        // without checkpoints nothing is ever written but savepoints
        (None, None) => Arc::new(MemoryStores { max_state_size: u64::MAX, files: None, options }),
    }
}

fn worker_settings(settings: &JobSettings) -> WorkerSettings {
    WorkerSettings {
        pending_timers: settings.pending_timers,
        auto_watermark_interval: settings.auto_watermark_interval,
        watermark_each_batch: settings.watermark_each_batch,
        longest_sleep: settings.longest_sleep,
        mode: settings.checkpoint.mode,
        job: JobId::from_name(&settings.name),
        checkpoint_storage: settings.checkpoint_storage().into(),
        file_access: settings.file_access,
        checkpointing: settings.checkpoint.interval.is_some(),
        backend: settings
            .backend
            .factory(&JobId::from_name(&settings.name).to_string(), settings.checkpoint.incremental),
        flow: FlowLimits::new(settings.records_in_flight, settings.bytes_in_flight),
        turn: TurnLimits::new(settings.budget, settings.buffer_timeout),
    }
}

fn warn(settings: &JobSettings, physical: &PhysicalPlan) {
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
    let operators = physical.tasks.iter().flat_map(|task| &task.chain);
    for operator in operators.filter(|operator| checkpointing && operator.needs_uid) {
        tracing::warn!(%job, "{}", without_uid(&operator.name));
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
/// It runs the same program as the JobManager, which has already said and checked what there is to say and
/// check.
pub fn in_worker_process() -> bool {
    Identity::from_environment().is_some()
}

fn start_tokio() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(1).thread_name("tokio").enable_all().build()?)
}

/// What the job's register means for this start: its recorded result if it has finished, an error if a person
/// cancelled it, `None` if it is to run.
fn start_of(
    record: Option<&RegisterRecord>,
    storage: &JobStorage,
    settings: &JobSettings,
) -> Result<Option<JobResult>> {
    let name = &settings.name;
    let at = |end: &Option<JobEnd>| match end {
        Some(end) => format!("at {}", Timestamp::from_millis(end.at_ms)),
        None => "at an unknown time (a release before this one recorded it)".into(),
    };
    let decision = match settings.start_fresh {
        true => StartDecision::Run,
        false => decide_start(record, settings.from_snapshot.is_some() || settings.fall_back_to.is_some()),
    };
    match decision {
        StartDecision::Run => Ok(None),
        StartDecision::AlreadyFinished(end) => {
            tracing::warn!(
                job = %name,
                "the job finished {} and is not run again, as its register in {} says; `--start-fresh` runs it from the \
                 beginning",
                at(&end),
                storage.display()
            );
            sweep_finished(storage, name);
            Ok(Some(JobResult::recorded(name, end)))
        }
        StartDecision::AlreadyCancelled { ended, retained } => {
            let kept = match retained {
                Some(kept) if kept.is_savepoint() => format!(
                    "`--from {}` goes on from its savepoint, `--start-fresh` runs it from the beginning",
                    kept.path
                ),
                Some(kept) => format!(
                    "`--from {}/{}` goes on from the checkpoint that was kept, `--start-fresh` runs it from the beginning",
                    storage.display(),
                    kept.path
                ),
                None => "no checkpoint was kept; `--from` a savepoint goes on from that, `--start-fresh` runs it from the beginning".into(),
            };
            let message = format!(
                "job `{name}` was cancelled {} and is not run again unasked: {kept} (its register: {})",
                at(&ended),
                storage.display()
            );
            Err(Error::new(ErrorKind::Cancelled, message))
        }
        StartDecision::AlreadyStopped { ended, savepoint } => {
            sweep_finished(storage, name);
            let kept = match savepoint {
                Some(savepoint) => format!(
                    "`--from {}` goes on from its savepoint, `--start-fresh` runs it from the beginning",
                    savepoint.path
                ),
                None => "`--start-fresh` runs it from the beginning".into(),
            };
            let message = format!(
                "job `{name}` was stopped with a savepoint {} and is not run again unasked: {kept} (its register: {})",
                at(&ended),
                storage.display()
            );
            Err(Error::new(ErrorKind::Cancelled, message))
        }
    }
}

/// Deletes what a process left that was killed after it had recorded the end of its job: no later run would
/// do it.
fn sweep_finished(storage: &JobStorage, name: &str) {
    let left = |record: &RegisterRecord| {
        let kept = |path: &String| record.retained.iter().any(|kept| kept.path == *path);
        let directories = storage.list_directories().unwrap_or_default();
        let is_checkpoint = |path: &String| checkpoint_paths::checkpoint_of(path).is_some();
        directories.iter().any(|path| is_checkpoint(path) && !kept(path))
            || storage.list_shared().is_ok_and(|files| !files.is_empty())
    };
    let Ok(Some(loaded)) = storage.load_register() else { return };
    if !left(&loaded.record) {
        // no list of files shows a folder whose last file is gone
        if let Err(error) = storage.remove_empty_folders() {
            tracing::debug!(job = %name, "empty folders stay: {error}");
        }
        return;
    }
    // another process may be at it, or may have begun the job afresh meanwhile
    let Ok(lease) = storage.claim(name) else { return };
    if matches!(lease.record().outcome, JobOutcome::Finished | JobOutcome::Stopped) {
        let report = storage.sweep_orphans(lease.record(), lease.generation());
        tracing::debug!(job = %name, "left by a process that was killed at the end of its job: {report:?}");
    }
}

/// The result of an earlier job of the program, for a worker process of a later one: what its register has,
/// if it has any.
fn result_elsewhere(settings: &JobSettings) -> JobResult {
    let recorded = || -> Result<Option<JobResult>> {
        let tokio = start_tokio()?;
        let Some(storage) = job_storage(settings, tokio.handle(), false)? else { return Ok(None) };
        let loaded = storage.load_register().map_err(StorageError::into_error)?;
        match decide_start(loaded.as_ref().map(|loaded| &loaded.record), true) {
            StartDecision::AlreadyFinished(end) => Ok(Some(JobResult::recorded(&settings.name, end))),
            _ => Ok(None),
        }
    };
    let unknown = || JobResult { name: settings.name.clone(), ..JobResult::default() };
    recorded().ok().flatten().unwrap_or_else(unknown)
}

/// Starts a job in this process and returns at once.
///
/// A job whose end is recorded in its register does not run again, unless the settings say so: one that has
/// finished ends at once with its recorded result.
///
/// # Errors
/// Wrong settings, a plan that cannot be run, a checkpoint directory that cannot be used or that another live
/// process uses; a job that a person cancelled, when the settings do not say from where it is to go on.
///
/// In a worker process it does not return: the process serves the JobManager that started it and ends with
/// the job.
pub fn submit(plan: Plan, settings: JobSettings) -> Result<JobClient> {
    static SUBMISSIONS: AtomicUsize = AtomicUsize::new(0);
    crate::panics::install();
    let submission = SUBMISSIONS.fetch_add(1, Ordering::SeqCst);
    validate(&settings)?;
    let physical = Arc::new(plan.compile(settings.parallelism, settings.chaining)?);
    if let Some(identity) = Identity::from_environment() {
        if identity.submission != submission {
            // this process was started for a later job of the program; the earlier ones have run
            return Ok(JobClient::ended(result_elsewhere(&settings), &settings));
        }
        let plan = plan.with_key_groups(&identity.key_groups)?;
        serve(identity, &Arc::new(plan.compile(settings.parallelism, settings.chaining)?), &settings)?;
    }
    let tokio = start_tokio()?;
    let storage = job_storage(&settings, tokio.handle(), true)?;
    let mut record = None;
    if let Some(storage) = storage.as_ref().filter(|_| !settings.start_fresh) {
        // only a look: a job that has ended is neither claimed nor changed
        record = storage.load_register().map_err(StorageError::into_error)?.map(|loaded| loaded.record);
        if let Some(result) = start_of(record.as_ref(), storage, &settings)? {
            return Ok(JobClient::ended(result, &settings));
        }
    }
    let begin = |record: Option<&RegisterRecord>| -> Result<(Beginning, Arc<PhysicalPlan>)> {
        let storage = storage.as_ref().map(|storage| (storage, tokio.handle()));
        let mut beginning = Beginning::find(&settings, storage, record)?;
        let physical = beginning.fit(&plan, physical.clone(), &settings)?;
        Ok((beginning, physical))
    };
    // also only a look: what cannot be restored changes nothing
    let (mut beginning, mut fitted) = begin(record.as_ref())?;
    warn(&settings, &physical);
    let stores = snapshot_stores(&settings, &storage);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let checkpoints: Arc<dyn JobCheckpointStorage> = match &storage {
        Some(storage) => {
            let mut checkpoints = FileSystemCheckpointStorage::claim(storage.clone(), &settings)?;
            let claimed = checkpoints.claimed();
            // another process may have ended it since
            if let Some(result) = start_of(claimed.as_ref(), storage, &settings)? {
                return Ok(JobClient::ended(result, &settings));
            }
            let begins = |record: &RegisterRecord| (record.outcome, record.completed.clone());
            if !settings.start_fresh && record.as_ref().map(begins) != claimed.as_ref().map(begins) {
                // it ran on between the look and the claim
                (beginning, fitted) = begin(claimed.as_ref())?;
            }
            checkpoints.note(&beginning)?;
            Arc::new(checkpoints)
        }
        None => Arc::new(JobManagerCheckpointStorage::new(storage_options(&settings))),
    };
    let physical = fitted;
    let settings = JobSettings { from_snapshot: beginning.snapshot_begun_with(&settings), ..settings };
    let job = &settings.name;
    beginning.warnings.iter().for_each(|text| tracing::warn!(%job, "{text}"));
    beginning.notes.iter().for_each(|text| tracing::info!(%job, "{text}"));
    let (sender, messages) = mpsc::channel();
    let counters = Arc::new(Counters::default());
    let fleet = match settings.processes {
        1 => local_fleet(&settings, &physical, &stores, &clock, &counters, &sender)?,
        _ => process_fleet(&settings, &physical, submission, &counters, &sender, &clock, tokio.handle())?,
    };
    let shared = Arc::new(Shared::default());
    shared.published.lock().status = Some(JobStatus::Initializing);
    let info = Arc::new(JobInfo::new(&settings, &physical, &*checkpoints, &*clock));
    *shared.event_times.lock() = EventTimes::of(info.clone(), clock.clone());
    let made = MadeFor::default();
    let client = JobClient {
        messages: sender.clone(),
        shared: shared.clone(),
        clock: clock.clone(),
        info: info.clone(),
        owner: Some(Arc::new(Owner(shared.clone()))),
        savepoints: Arc::new(SavepointPlaces::of(&settings, made.clone())),
        takes_checkpoints: settings.checkpoint.interval.is_some(),
    };
    let io = IoThreads::start(sender.clone(), made)?;
    let engine = job_engine(&settings, &physical, &*fleet, &*checkpoints, clock.elapsed())?;
    let state = State::new(&settings, clock.elapsed());
    let manager = Manager {
        settings,
        physical,
        engine,
        fleet,
        checkpoints,
        io,
        stores,
        clock,
        messages,
        shared,
        info,
        counters,
        state,
    };
    let watched = client.clone();
    std::thread::Builder::new().name("jobmanager".into()).spawn(move || {
        let ran = catch_on_thread(|| {
            manager.run();
            Ok(())
        });
        tokio.shutdown_background();
        if let Err(error) = ran {
            watched.broke(error);
        }
    })?;
    Ok(client)
}

fn job_engine(
    settings: &JobSettings,
    physical: &PhysicalPlan,
    fleet: &dyn Fleet,
    checkpoints: &dyn JobCheckpointStorage,
    now: Duration,
) -> Result<JobEngine> {
    let checkpointing = settings.checkpoint.interval.is_some();
    let setup = JobSetup {
        job: JobId::from_name(&settings.name),
        name: settings.name.clone(),
        checkpoint: settings.checkpoint.clone(),
        restart: settings.restart.unwrap_or_else(|| RestartStrategy::default_for(checkpointing)),
        tasks: tasks(physical),
        workers: fleet.workers(),
        from_snapshot: settings.from_snapshot.clone(),
        place: checkpoints.describe(),
        durable: checkpoints.is_durable(),
        register: checkpoints.claimed(),
        first_delay: random_unit(),
        cancellation_timeout: settings.cancellation_timeout,
        end_timeout: settings.end_timeout(),
    };
    JobEngine::new(setup, now).map_err(|error| Error::wrap(ErrorKind::Configuration, error))
}

fn local_fleet(
    settings: &JobSettings,
    physical: &Arc<PhysicalPlan>,
    stores: &Arc<dyn SnapshotStores>,
    clock: &Arc<dyn Clock>,
    counters: &Arc<Counters>,
    sender: &mpsc::Sender<Message>,
) -> Result<Box<dyn Fleet>> {
    let sender = std::sync::Mutex::new(sender.clone());
    let reports = Arc::new(ReportQueue(move |generation, report| {
        // the job has ended if nobody listens
        if let Ok(sender) = sender.lock() {
            let _ = sender.send(Message::Event(JobEvent::Report(generation, report)));
        }
    }));
    let workers = physical.workers as usize;
    let context = context_factory(settings, physical, stores, clock, counters, reports)?;
    Ok(Box::new(LocalFleet::start(workers, context)?))
}

/// Workers of each process, so that all subtasks have one.
fn threads_per_process(physical: &PhysicalPlan, processes: u32) -> usize {
    physical.workers.div_ceil(processes) as usize
}

fn process_fleet(
    settings: &JobSettings,
    physical: &Arc<PhysicalPlan>,
    submission: usize,
    counters: &Arc<Counters>,
    sender: &mpsc::Sender<Message>,
    clock: &Arc<dyn Clock>,
    tokio: &tokio::runtime::Handle,
) -> Result<Box<dyn Fleet>> {
    Ok(Box::new(ProcessFleet::start(ProcessSettings {
        processes: settings.processes as usize,
        threads: threads_per_process(physical, settings.processes),
        submission,
        key_groups: key_groups(physical),
        silence: settings.heartbeat_timeout,
        counters: counters.clone(),
        events: Box::new({
            let sender = sender.clone();
            // the job has ended if nobody listens
            move |event| drop(sender.send(Message::Event(event)))
        }),
        clock: clock.clone(),
        tokio: tokio.clone(),
    })?))
}

/// The number of key groups of each operator.
fn key_groups(physical: &PhysicalPlan) -> BTreeMap<OperatorId, u32> {
    let operators = physical.tasks.iter().flat_map(|task| &task.chain);
    operators.map(|operator| (operator.id, operator.key_groups.max_parallelism())).collect()
}

/// The life of a worker process: does not return, unless it could not begin.
fn serve(identity: Identity, physical: &Arc<PhysicalPlan>, settings: &JobSettings) -> Result<()> {
    let threads = threads_per_process(physical, settings.processes);
    let tokio = start_tokio()?;
    let storage = job_storage(settings, tokio.handle(), false)?;
    let stores = snapshot_stores(settings, &storage);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let counters = Arc::new(Counters::default());
    let metrics: Vec<_> = (0..threads).map(|_| Arc::default()).collect();
    let figures = Figures { metrics: metrics.clone(), counters: counters.clone() };
    let (stream, link) = process::connect(&identity, settings.frame_size, figures)?;
    let context = context_factory(settings, physical, &stores, &clock, &counters, link.clone())?;
    let (silence, stopped) = (settings.heartbeat_timeout, AtomicU64::new(0));
    WorkerProcess { identity, threads, metrics, clock, silence, stopped }.serve(stream, &link, &context)
}

fn context_factory(
    settings: &JobSettings,
    physical: &Arc<PhysicalPlan>,
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

#[cfg(test)]
mod fleet_tests;
