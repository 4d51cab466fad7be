//! Jobs whose checkpoints share files, on a real disk: what a checkpoint names is there, and what nobody
//! names goes.

mod backend;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backend::{Behaviour, plan};
use stillstream_runtime::job::{JobClient, JobResult, JobSettings, StateBackend, submit};
use stillstream_storage::{CheckpointStorage, JobStorage, StorageOptions, VerifyMode};
use stillstream_testing::CrashPoints;
use stillstream_types::{
    ErrorKind, ExternalizedCheckpointRetention as Retention, JobId, RegisterRecord, RestartStrategy, Result,
    StreamHandle, checkpoint_paths,
};

const FOLDER: &str = "STILLSTREAM_SHARED_FILES_FOLDER";
const DEADLINE: Duration = Duration::from_secs(60);

fn settings(dir: &Path, name: &str) -> JobSettings {
    let checkpoint_uri = dir.to_str().unwrap().to_owned();
    let mut settings = JobSettings {
        name: name.into(),
        backend: StateBackend::Fs { checkpoint_uri, asynchronous: true },
        restart: Some(RestartStrategy::FixedDelay { attempts: 3, delay: Duration::from_millis(1) }),
        ..JobSettings::default()
    };
    settings.checkpoint.interval = Some(Duration::from_millis(10));
    settings.checkpoint.tolerable_failed_checkpoints = 1000;
    settings.checkpoint.num_retained = 2;
    settings
}

fn counting(records: u64) -> Behaviour {
    Behaviour { records, ..Behaviour::default() }
}

fn run(settings: JobSettings, behaviour: &Behaviour) -> Result<JobResult> {
    submit(plan(behaviour), settings).and_then(JobClient::wait)
}

/// Runs a job until `checkpoints` checkpoints are completed, then cancels it; its checkpoints are retained.
fn cancelled(dir: &Path, name: &str, behaviour: &Behaviour, checkpoints: u64) {
    let mut settings = settings(dir, name);
    settings.checkpoint.retention = Retention::RetainOnCancellation;
    let job = submit(plan(behaviour), settings).unwrap();
    let enough = |job: &JobClient| job.checkpoint_statistics().counts.completed >= checkpoints;
    assert!(job.wait_until(DEADLINE, enough), "{:?}", job.checkpoint_statistics().counts);
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}

/// A job's directory, looked at from outside.
struct Place {
    job: JobStorage,
    root: PathBuf,
    _runtime: tokio::runtime::Runtime,
}

impl Place {
    fn new(dir: &Path, name: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let handle = runtime.handle().clone();
        let storage = CheckpointStorage::open(dir.to_str().unwrap(), StorageOptions::default(), handle);
        let job = storage.unwrap().job(JobId::from_name(name));
        let root = dir.join(job.id().to_string());
        Self { job, root, _runtime: runtime }
    }

    fn record(&self) -> RegisterRecord {
        self.job.load_register().unwrap().unwrap().record
    }

    /// Checks every checkpoint that the register names, and gives the shared files that they name.
    fn named(&self, what: &str) -> BTreeSet<String> {
        let record = self.record();
        let mut named = BTreeSet::new();
        for checkpoint in record.completed.iter().chain(&record.retained) {
            let metadata = self.job.read_metadata(&checkpoint.path).unwrap();
            self.job
                .verify(&metadata, VerifyMode::Checksums)
                .unwrap_or_else(|error| panic!("{what}: {} is not whole: {error}", checkpoint.path));
            let shared = metadata.streams().filter(|stream| stream.is_shared());
            named.extend(shared.filter_map(StreamHandle::path).map(str::to_owned));
        }
        named
    }

    fn shared(&self) -> BTreeSet<String> {
        self.job.list_shared().unwrap().into_iter().collect()
    }

    /// Every file of a checkpoint and every shared file, byte for byte.
    fn bytes(&self, checkpoint: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let directory = self.root.join(checkpoint);
        let own = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let metadata = self.job.read_metadata(checkpoint).unwrap();
        let shared = metadata.streams().filter(|stream| stream.is_shared()).filter_map(StreamHandle::path);
        let shared: Vec<PathBuf> = shared.map(|path| self.root.join(path)).collect();
        assert!(!shared.is_empty(), "{checkpoint} shares no file");
        own.chain(shared).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }
}

/// Crash points are armed for the whole process, and a test that is slowed down by others proves less.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn files_of_good_checkpoints_survive_aborted_ones_and_what_those_left_goes_with_the_next_start() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    // every third snapshot fails when all its files are written; and the job fails once
    let bad = Behaviour { declines: 3, fails_at: Arc::new(AtomicU64::new(1_000)), ..counting(u64::MAX) };
    cancelled(dir.path(), "abort", &bad, 25);
    assert_eq!(bad.fails_at.load(SeqCst), 0, "it failed and was restored");
    let place = Place::new(dir.path(), "abort");
    let named = place.named("after the cancellation");
    assert!(!named.is_empty() && named.is_subset(&place.shared()));
    // a fresh start after a cancellation sweeps, and its own files go when it has finished
    let good = counting(1_000);
    let mut fresh = settings(dir.path(), "abort");
    fresh.start_fresh = true;
    run(fresh, &good).unwrap();
    assert_eq!(good.counted.load(SeqCst), 1_000);
    assert_eq!(place.shared(), named, "what was retained is still there, and nothing else is");
}

#[test]
fn a_job_that_falls_back_to_shared_files_counts_each_record_once() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let behaviour = Behaviour { declines: 4, fails_at: Arc::new(AtomicU64::new(2_000)), ..counting(4_000) };
    let result = run(settings(dir.path(), "restart"), &behaviour).unwrap();
    assert_eq!((result.restarts, behaviour.counted.load(SeqCst)), (1, 4_000), "{result}");
    // a task that fails leaves files that it did not report: the next start removes them
    run(settings(dir.path(), "restart"), &counting(500)).unwrap();
    assert_eq!(Place::new(dir.path(), "restart").shared(), BTreeSet::new());
}

#[test]
fn the_checkpoint_that_a_job_is_restored_from_stays_byte_for_byte_as_it_was() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    cancelled(dir.path(), "first", &counting(u64::MAX), 12);
    let first = Place::new(dir.path(), "first");
    let retained = first.record().retained;
    let newest = &retained.last().unwrap().path;
    let before = first.bytes(newest);
    let location = first.root.join(newest).to_str().unwrap().to_owned();
    // another job, the same job once more, and another one again
    for name in ["second", "first", "third"] {
        let behaviour = counting(6_000);
        let mut settings = settings(dir.path(), name);
        settings.from_snapshot = Some(location.clone());
        let result = run(settings, &behaviour).unwrap();
        assert!(result.resumed_from.is_some() && result.records_in < 6_000, "{name}: {result}");
        assert!(result.checkpoints.completed >= 10, "{name}: {result}");
        // the last one may overtake one that is under way
        assert!(result.checkpoints.failed <= 1, "{name}: files of another job are not named again");
        assert_eq!(behaviour.counted.load(SeqCst), 6_000, "{name}");
        assert_eq!(first.bytes(newest), before, "{name}");
    }
    assert_eq!(first.shared(), first.named("in the end"));
    assert_eq!(Place::new(dir.path(), "second").shared(), BTreeSet::new());
}

#[test]
fn a_cancelled_job_that_retains_nothing_takes_its_shared_files_along() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(dir.path(), "delete");
    settings.checkpoint.retention = Retention::DeleteOnCancellation;
    let job = submit(plan(&counting(u64::MAX)), settings.clone()).unwrap();
    assert!(job.wait_until(DEADLINE, |job| job.checkpoint_statistics().counts.completed >= 8));
    let place = Place::new(dir.path(), "delete");
    assert!(!place.shared().is_empty());
    let watch = job.clone();
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(place.record().completed, []);
    // only what a snapshot was still writing when the job ended may be left for the next start
    let last = watch.checkpoint_statistics().last_completed.unwrap().id;
    for left in place.shared() {
        assert!(checkpoint_paths::creator_of_leftover(&left).is_some_and(|by| by > last), "{left}, {last}");
    }
    settings.start_fresh = true;
    run(settings, &counting(200)).unwrap();
    assert_eq!(place.shared(), BTreeSet::new());
}

/// Not a test of its own: the job of the program that dies.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn program() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let _armed = CrashPoints::from_env().unwrap();
        let dies = std::env::var_os(CrashPoints::VARIABLE).is_some();
        let behaviour = counting(if dies { u64::MAX } else { 300 });
        run(settings(Path::new(&folder), "crash"), &behaviour).unwrap();
        assert_eq!(behaviour.counted.load(SeqCst), behaviour.emitted.load(SeqCst));
    }
}

fn start(folder: &Path, crash: Option<&str>) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program", "--exact"]).env(FOLDER, folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.env_remove(CrashPoints::VARIABLE).envs(crash.map(|rule| (CrashPoints::VARIABLE, rule)));
    command.status().unwrap().success()
}

#[test]
fn death_at_any_point_leaves_no_checkpoint_without_its_files_and_the_next_start_leaves_no_file_without_one() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for point in [
        "during-snapshot",
        "after-acknowledge",
        "before-metadata",
        "after-metadata",
        "before-register",
        "after-register",
        "before-notification",
        "half-discarded",
        "before-shared-discarded",
    ] {
        for pass in [1, 4, 9] {
            // a shared file goes only after a compaction: there are fewer passes
            let pass = if point == "before-shared-discarded" { 1 + pass / 4 } else { pass };
            let folder = tempfile::tempdir().unwrap();
            let crash = format!("{point}:{pass}:abort");
            assert!(!start(folder.path(), Some(&crash)), "{crash}: the program did not pass there");
            let place = Place::new(folder.path(), "crash");
            place.named(&crash);
            assert!(start(folder.path(), None), "{crash}: the next start failed");
            assert_eq!(place.shared(), BTreeSet::new(), "{crash}");
            assert_eq!(place.job.list_directories().unwrap(), Vec::<String>::new(), "{crash}");
        }
    }
}

/// The register never names what is gone, at whatever moment one looks: a person may copy the directory at
/// any time.
#[test]
fn while_a_job_runs_every_checkpoint_that_the_register_names_is_whole() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let behaviour = Behaviour { declines: 5, ..counting(4_000) };
    let job = submit(plan(&behaviour), settings(dir.path(), "watched")).unwrap();
    let place = Place::new(dir.path(), "watched");
    let mut looked = 0;
    while !job.wait_until(Duration::from_millis(1), |job| job.status().is_terminal()) {
        let Ok(Some(before)) = place.job.load_register() else { continue };
        for checkpoint in &before.record.completed {
            let whole = place
                .job
                .read_metadata(&checkpoint.path)
                .and_then(|metadata| place.job.verify(&metadata, VerifyMode::Checksums));
            if let Err(error) = whole {
                // it may have been subsumed since the register was read, and only then
                let now = place.record();
                assert!(!now.completed.iter().any(|named| named.id == checkpoint.id), "{error}");
            } else {
                looked += 1;
            }
        }
    }
    job.wait().unwrap();
    assert!(looked > 20, "{looked}");
}
