//! The same job with its checkpoints on S3 and on HDFS: killed at any moment, and its store with it.

#![expect(
    clippy::disallowed_methods,
    reason = "processes are killed at moments by the clock, and deadlines are by it too"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use stillstream::prelude::*;
use stillstream_services::{Hdfs, S3};
use stillstream_storage::{CheckpointStorage, FileUse, JobStorage, RemoteStores, StorageOptions, VerifyMode};
use stillstream_types::JobId;

use crate::ledger::{STEP, check, environment};
use crate::{STEPS, command, random};

/// Where the program's checkpoints lie, if not in its folder.
pub const PLACE: &str = "STILLSTREAM_INCREMENTAL_TEST_PLACE";
/// Its state backend, `heap` or `rocksdb`.
const BACKEND: &str = "STILLSTREAM_INCREMENTAL_TEST_BACKEND";
/// How often the programs are killed.
const KILLS: &str = "STILLSTREAM_INCREMENTAL_TEST_KILLS";
const LONG: Duration = Duration::from_secs(300);

/// The environment of a program with its checkpoints at `place`. It lives through a store that is away for a
/// while.
pub fn environment_at(folder: &Path, place: &str) -> StreamExecutionEnvironment {
    let mut env = environment(folder);
    match std::env::var(BACKEND).as_deref() {
        Ok("rocksdb") => env.set_state_backend(RocksDbStateBackend::new(place).incremental(true)),
        _ => env.set_state_backend(FsStateBackend::new(place)),
    };
    env.set_restart_strategy(RestartStrategy::fixed_delay(1_000, Duration::from_millis(100)))
        .set_tolerable_checkpoint_failures(1_000);
    // as users have it
    let threshold = stillstream_config::ByteSize::from_bytes(20 << 10);
    env.configuration_mut().set(stillstream::config::options::DATA_INLINE_THRESHOLD, threshold);
    env
}

/// More are wanted now and then than in every run.
fn kills() -> u64 {
    std::env::var(KILLS).map_or(3, |kills| kills.parse().unwrap())
}

/// The store of a run.
enum Server {
    S3(S3),
    Hdfs(Hdfs),
}

impl Server {
    fn uri(&self) -> String {
        match self {
            Self::S3(_) => format!("s3://{}/jobs", S3::BUCKET),
            Self::Hdfs(hdfs) => format!("{}/jobs", hdfs.uri()),
        }
    }

    /// What a program must find in its environment.
    fn environment(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::S3(s3) => s3.environment().to_vec(),
            Self::Hdfs(_) => Vec::new(),
        }
    }

    fn options(&self) -> StorageOptions {
        let Self::S3(s3) = self else { return StorageOptions::default() };
        let set = [
            ("s3.endpoint", s3.endpoint()),
            ("s3.access-key", S3::ACCESS_KEY.into()),
            ("s3.secret-key", S3::SECRET_KEY.into()),
        ];
        let remote = RemoteStores::new(set.map(|(key, value)| (key.to_string(), value)));
        StorageOptions { remote, ..StorageOptions::default() }
    }

    /// Is away while a program goes on.
    fn away(&self, meanwhile: impl FnOnce()) {
        match self {
            // its objects would be gone
            Self::S3(s3) if !s3.keeps_objects() => {
                s3.pause().unwrap();
                meanwhile();
                s3.resume().unwrap();
            }
            Self::S3(s3) => {
                s3.kill().unwrap();
                meanwhile();
                s3.restart().unwrap();
            }
            Self::Hdfs(hdfs) => {
                hdfs.kill().unwrap();
                meanwhile();
                hdfs.restart().unwrap();
            }
        }
    }
}

/// A job in a store.
struct Remote {
    server: Arc<Server>,
    folder: tempfile::TempDir,
    backend: &'static str,
    job: JobStorage,
    _runtime: tokio::runtime::Runtime,
}

impl Remote {
    fn new(server: Arc<Server>, backend: &'static str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let place = format!("{}/{backend}", server.uri());
        let storage = CheckpointStorage::open(&place, server.options(), runtime.handle().clone()).unwrap();
        let job = storage.job(JobId::from_name("crash"));
        Self { server, folder: tempfile::tempdir().unwrap(), backend, job, _runtime: runtime }
    }

    fn command(&self) -> Command {
        let mut command = command(self.folder.path());
        command.env(PLACE, format!("{}/{}", self.server.uri(), self.backend)).env(BACKEND, self.backend);
        command.envs(self.server.environment());
        command
    }

    /// The program, which cannot come to its end soon.
    fn slowly(&self) -> Child {
        self.command().env(STEPS, (STEP / 15).to_string()).spawn().unwrap()
    }

    fn newest(&self) -> u64 {
        let loaded = self.job.load_register().unwrap();
        let newest = loaded.and_then(|loaded| loaded.record.completed.last().map(|newest| newest.id.0));
        newest.unwrap_or(0)
    }

    /// Waits until the program has completed this many more checkpoints.
    fn further(&self, child: &mut Child, checkpoints: u64) {
        let (from, start) = (self.newest(), std::time::Instant::now());
        while self.newest() < from + checkpoints {
            assert!(child.try_wait().unwrap().is_none(), "{}: it came to its end before", self.backend);
            assert!(start.elapsed() < LONG, "{}: no checkpoint for {LONG:?}", self.backend);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn kill(&self, mut child: Child) {
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "{}: it came to its end before", self.backend);
    }

    /// Every file that a completed checkpoint names is there and whole.
    fn verify(&self) {
        let loaded = self.job.load_register().unwrap().unwrap();
        for completed in loaded.record.completed {
            let metadata = self.job.read_metadata(&completed.path).unwrap();
            self.job.verify(&metadata, VerifyMode::Checksums).unwrap();
        }
    }

    /// Runs it to its end: all output is there once, and no file is left but the register.
    fn finish(&self) {
        let what = format!("{} on {}", self.backend, self.server.uri());
        assert!(self.command().status().unwrap().success(), "{what}: the next start failed");
        check(self.folder.path(), &what);
        let survey = self.job.survey().unwrap();
        let left: Vec<_> = survey.files.iter().filter(|file| file.used != FileUse::Register).collect();
        assert!(left.is_empty(), "{what}: left over: {left:?}");
    }
}

fn killed_at_any_moment(server: Server) {
    let server = Arc::new(server);
    for backend in ["heap", "rocksdb"] {
        let remote = Remote::new(server.clone(), backend);
        for (kill, pause) in random(7, kills() as usize, 400).into_iter().enumerate() {
            let mut child = remote.slowly();
            remote.further(&mut child, 1);
            if kill == 1 {
                // the store dies and comes back under the running job
                remote.server.away(|| std::thread::sleep(Duration::from_millis(1_500)));
                remote.further(&mut child, 2);
            }
            // at no particular step
            std::thread::sleep(Duration::from_millis(pause));
            remote.kill(child);
            remote.verify();
        }
        remote.finish();
    }
}

#[test]
fn a_job_on_s3_that_is_killed_and_whose_store_is_killed_counts_everything_once() {
    let _one = crate::one_at_a_time();
    killed_at_any_moment(Server::S3(S3::start().unwrap()));
}

#[test]
fn a_job_on_hdfs_that_is_killed_and_whose_store_is_killed_counts_everything_once() {
    let _one = crate::one_at_a_time();
    killed_at_any_moment(Server::Hdfs(Hdfs::start().unwrap()));
}

/// What the server was asked, by kind of request.
fn requests(s3: &S3) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(s3.access_log()).unwrap_or_default().lines() {
        if let Some(action) = line.split_whitespace().find(|word| word.starts_with("s3_")) {
            *counts.entry(action.to_string()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn a_checkpoint_on_s3_takes_few_requests_and_lists_nothing() {
    let _one = crate::one_at_a_time();
    let s3 = S3::start().unwrap();
    if !s3.keeps_objects() {
        eprintln!("the S3 server that is here writes no log of requests: nothing was counted");
        return;
    }
    let server = Arc::new(Server::S3(s3));
    for backend in ["heap", "rocksdb"] {
        let remote = Remote::new(server.clone(), backend);
        let Server::S3(s3) = &*server else { unreachable!("it is S3") };
        let mut child = remote.slowly();
        remote.further(&mut child, 3);
        let (before, from) = (requests(s3), remote.newest());
        // without a look at the register, which would be counted
        let completed = |counts: &BTreeMap<String, u64>| {
            counts.get("s3_PutObject").copied().unwrap_or(0)
                - before.get("s3_PutObject").copied().unwrap_or(0)
        };
        let start = std::time::Instant::now();
        while completed(&requests(s3)) < 300 && child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(5));
        }
        let after = requests(s3);
        remote.kill(child);
        let checkpoints = remote.newest() - from;
        let counts: BTreeMap<&String, f64> = after
            .iter()
            .map(|(action, count)| (action, (count - before.get(action).copied().unwrap_or(0)) as f64))
            .map(|(action, count)| (action, (count / checkpoints as f64 * 10.0).round() / 10.0))
            .filter(|(_, count)| *count > 0.0)
            .collect();
        println!("{backend}: requests for each of {checkpoints} checkpoints: {counts:?}");
        let of = |name: &str| counts.get(&name.to_string()).copied().unwrap_or(0.0);
        // clean-up of the checkpoint before lists its folder, off the path of a checkpoint
        assert!(of("s3_ListObjectsV2") <= 1.5, "{counts:?}");
        assert!(of("s3_DeleteObject") <= 1.5 && of("s3_DeleteObjects") <= 2.5, "{counts:?}");
    }
}
