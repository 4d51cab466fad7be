//! A process that dies at each crash point of the storage, and the next one that goes on.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use stillstream_storage::conformance::sample_metadata;
use stillstream_storage::{CheckpointStorage, JobStorage, StorageOptions, VerifyMode};
use stillstream_testing::CrashPoints;
use stillstream_types::JobId;
use stillstream_types::streams::SnapshotStore;
use tokio::runtime::{Builder, Runtime};

const DIRECTORY: &str = "STILLSTREAM_TEST_DIRECTORY";
const CHECKPOINTS: u64 = 4;

fn open(dir: &Path, runtime: &Runtime) -> JobStorage {
    let options = StorageOptions { inline_threshold: 10, ..StorageOptions::default() };
    let handle = runtime.handle().clone();
    CheckpointStorage::open(dir.to_str().unwrap(), options, handle).unwrap().job(JobId::from_name("job"))
}

/// The process under test: takes checkpoints and writes the number of each that was announced to a file.
fn run_job(dir: &Path) {
    let armed = CrashPoints::from_env().unwrap();
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let job = open(dir, &runtime);
    let mut lease = job.claim("job").unwrap();
    let report = job.sweep_orphans(lease.record(), lease.generation());
    assert!(report.files.is_complete() && report.left.is_empty(), "{report:?}");
    for _ in 0..CHECKPOINTS {
        let id = lease.record().last_checkpoint_id.next();
        lease.update(|record| record.last_checkpoint_id = id).unwrap();
        let mut stream = job.snapshot_store(id, "0-0").create("state").unwrap();
        stream.write_all(&[id.0 as u8; 5000]).unwrap();
        let state = stream.finish().unwrap();
        let completed = job.write_metadata(&sample_metadata(id.0, job.id(), &[state])).unwrap();
        let older = lease.record().completed.clone();
        lease.update(|record| record.completed = vec![completed.clone()]).unwrap();
        std::fs::write(dir.join("announced"), id.to_string()).unwrap();
        for subsumed in older {
            assert!(job.discard_checkpoint(subsumed.id).is_complete());
        }
    }
    drop(armed);
}

fn start(dir: &Path, crash: Option<&str>) -> bool {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["a_job_killed_at_any_point_goes_on_from_its_newest_checkpoint", "--exact", "--nocapture"]);
    process.env(DIRECTORY, dir).env_remove(CrashPoints::VARIABLE);
    process.envs(crash.map(|rule| (CrashPoints::VARIABLE, rule)));
    process.output().unwrap().status.success()
}

#[test]
fn a_job_killed_at_any_point_goes_on_from_its_newest_checkpoint() {
    if let Some(dir) = std::env::var_os(DIRECTORY) {
        return run_job(Path::new(&dir));
    }
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    for rule in [
        "before-metadata:1",
        "before-metadata:3",
        "after-metadata:1",
        "after-metadata:3",
        "before-register:1",
        "before-register:4",
        "after-register:2",
        "after-register:6",
        "half-discarded:1",
        "half-discarded:3",
    ] {
        let dir = tempfile::tempdir().unwrap();
        assert!(!start(dir.path(), Some(rule)), "{rule}: the process must die");
        let announced = |dir: &Path| {
            std::fs::read_to_string(dir.join("announced")).map_or(0, |text| text.parse::<u64>().unwrap())
        };
        let before = announced(dir.path());
        let job = open(dir.path(), &runtime);
        let record = job.load_register().unwrap().unwrap().record;
        for completed in &record.completed {
            job.verify(&job.read_metadata(&completed.path).unwrap(), VerifyMode::Checksums).unwrap();
        }
        let newest = record.completed.last().map_or(0, |completed| completed.id.0);
        assert!(newest >= before, "{rule}: {before} was announced, {newest} is the newest");
        // the dead process' lock does not stand in the way, and nothing of it stays
        assert!(start(dir.path(), None), "{rule}: the next start works");
        let last = announced(dir.path());
        assert!(last >= newest + CHECKPOINTS, "{rule}: numbers go on");
        let left: Vec<_> = std::fs::read_dir(dir.path().join(job.id().to_string()))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("chk-"))
            .collect();
        assert_eq!(left, [format!("chk-{last}")], "{rule}: no orphan stays");
    }
}
