//! Checkpoint storage under faults: fenced writers, lost answers, lying listings, failing deletes, power
//! cuts.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use object_store::memory::InMemory;
use stillstream_storage::conformance::{sample_incremental_metadata, sample_metadata, sample_record};
use stillstream_storage::local::{DiskHook, DiskStep};
use stillstream_storage::register::{NumberedRegister, TaggedRegister};
use stillstream_storage::store::{BlobStore, CasSupport};
use stillstream_storage::{
    CheckpointStorage, JobStorage, Lease, LocalStore, ObjectBlobStore, Register, StorageError,
    StorageOptions, VerifyMode,
};
use stillstream_testing::{FailingStore, Fault, Gate, Op, PowerCut, Rule};
use stillstream_types::streams::{SnapshotStore, SnapshotStream};
use stillstream_types::{CheckpointId, Generation, JobId, StreamHandle, checkpoint_paths};
use tokio::runtime::{Builder, Handle, Runtime};

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).build().unwrap()
}

fn options() -> StorageOptions {
    StorageOptions { exclusive_lock: false, inline_threshold: 10, ..StorageOptions::default() }
}

fn disk(dir: &Path) -> FailingStore {
    // the hook spares the real disk its syncs: here they take most of the time and prove nothing
    FailingStore::new(Arc::new(LocalStore::with_hook(dir, &options(), Arc::new(PowerCut::new()))))
}

fn memory(handle: &Handle) -> FailingStore {
    let (store, handle) = (Arc::new(InMemory::new()), handle.clone());
    let store = ObjectBlobStore::new(store, "", "memory://", CasSupport::Tags, &options(), handle);
    FailingStore::new(Arc::new(store))
}

/// The job as one process sees it. Each call is another process.
fn job(store: &FailingStore, handle: &Handle) -> JobStorage {
    CheckpointStorage::with_store(Arc::new(store.clone()), options(), handle.clone())
        .job(JobId::from_name("job"))
}

/// Takes a checkpoint whose state is one file of its own, a new one that the next may name too, and that of
/// the last one; retains one; deletes the older with what only that named. What it returned `Ok` for is
/// announced.
fn complete(job: &JobStorage, lease: &mut Lease) -> Result<CheckpointId, StorageError> {
    let id = lease.record().last_checkpoint_id.next();
    lease.update(|record| record.last_checkpoint_id = id)?;
    let fail =
        |error: std::io::Error| StorageError::Io { operation: "write", path: "state".into(), source: error };
    let store = job.snapshot_store(id, "0-0");
    let write = |stream: std::io::Result<Box<dyn SnapshotStream>>| {
        let mut stream = stream?;
        stream.write_all(&[id.0 as u8; 5000])?;
        stream.finish()
    };
    let mut streams = vec![write(store.create("state")).map_err(fail)?];
    streams.push(write(store.create_shared("state")).map_err(fail)?);
    let older = lease.record().completed.clone();
    let mut names = Vec::new();
    for last in &older {
        let metadata = job.read_metadata(&last.path)?;
        names.extend(metadata.streams().filter(|stream| stream.is_shared()).cloned());
    }
    let written_by = |stream: &StreamHandle| stream.path().and_then(checkpoint_paths::creator);
    streams
        .extend(names.iter().filter(|s| written_by(s) == older.last().map(|last| last.id)).take(1).cloned());
    let mut metadata = sample_incremental_metadata(id.0, job.id(), &streams);
    metadata.generation = lease.generation();
    let completed = job.write_metadata(&metadata)?;
    lease.update(|record| record.completed = vec![completed.clone()])?;
    let gone = names.iter().filter(|stream| !streams.contains(stream)).filter_map(StreamHandle::path);
    let gone: Vec<String> = gone.map(str::to_owned).collect();
    for subsumed in older {
        let _ = job.discard_checkpoint_and_shared(subsumed.id, &gone);
    }
    Ok(id)
}

/// Every file in `shared/` is named by the newest checkpoint.
fn assert_no_shared_orphan(job: &JobStorage, newest: CheckpointId, what: &str) {
    let metadata = job.read_metadata(&format!("chk-{newest}")).unwrap();
    let named: Vec<&str> =
        metadata.streams().filter(|stream| stream.is_shared()).filter_map(StreamHandle::path).collect();
    for file in job.list_shared().unwrap() {
        assert!(named.contains(&file.as_str()), "{what}: nobody names {file}");
    }
}

/// What recovery would find: every checkpoint that the register names exists, whole.
fn assert_recoverable(job: &JobStorage, at_least: u64, what: &str) {
    let Some(loaded) = job.load_register().unwrap_or_else(|error| panic!("{what}: {error}")) else {
        assert_eq!(at_least, 0, "{what}: the register is gone");
        return;
    };
    for completed in &loaded.record.completed {
        let metadata = job.read_metadata(&completed.path).unwrap_or_else(|error| panic!("{what}: {error}"));
        job.verify(&metadata, VerifyMode::Checksums).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let newest = loaded.record.completed.last().map_or(0, |completed| completed.id.0);
    assert!(newest >= at_least, "{what}: checkpoint {at_least} was announced, {newest} is the newest");
}

#[test]
fn a_writer_that_stalled_before_a_number_that_was_collected_is_fenced() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let slow = disk(dir.path());
    let fast = disk(dir.path());
    let (a, b) = (job(&slow, runtime.handle()), job(&fast, runtime.handle()));
    let mut first = a.claim("job").unwrap();
    complete(&a, &mut first).unwrap();
    let gate = Gate::new();
    slow.add(Rule::new(Op::PutNew, "register/", Fault::Wait(gate.clone())).first(1));
    std::thread::scope(|scope| {
        // it has seen that its number is free, and stalls
        let stalled = scope.spawn(|| first.update(|record| record.completed.clear()).map(drop));
        gate.wait_for_arrival();
        let mut second = b.claim("job").unwrap();
        for _ in 0..50 {
            complete(&b, &mut second).unwrap();
        }
        collect(&fast, runtime.handle());
        gate.open();
        let error = stalled.join().unwrap().unwrap_err();
        assert!(
            matches!(error, StorageError::Fenced { ours: Generation(1), found: Generation(2), .. }),
            "{error}"
        );
        assert_eq!(b.load_register().unwrap().unwrap().record, *second.record());
    });
    assert_recoverable(&b, 51, "after the stalled writer came back");
}

fn collect(store: &FailingStore, handle: &Handle) {
    let job_dir = JobId::from_name("job").to_string();
    NumberedRegister::new(Arc::new(store.clone()), &job_dir, 1, handle.clone()).collect_old().unwrap();
}

#[test]
fn the_stray_number_of_a_stalled_writer_is_taken_away_and_never_reported_as_success() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let (slow, fast) = (disk(dir.path()), disk(dir.path()));
    let open = |store: &FailingStore| {
        NumberedRegister::new(Arc::new(store.clone()), "job", 1, runtime.handle().clone())
    };
    let (a, b) = (open(&slow), open(&fast));
    let first = b.compare_and_set(None, &sample_record(1, &[])).unwrap();
    let gate = Gate::new();
    slow.add(Rule::new(Op::PutNew, "register/", Fault::Wait(gate.clone())).first(1));
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| a.compare_and_set(Some(&first), &sample_record(1, &[99])));
        gate.wait_for_arrival();
        let mut version = first.clone();
        for generation in 2..60 {
            version = b.compare_and_set(Some(&version), &sample_record(generation, &[])).unwrap();
        }
        b.collect_old().unwrap();
        gate.open();
        let error = stalled.join().unwrap().unwrap_err();
        assert!(matches!(error, stillstream_storage::CasError::Indeterminate(_)), "{error:?}");
    });
    assert_eq!(b.load().unwrap().unwrap().record, sample_record(59, &[]));
    assert!(!dir.path().join("job/register/register-00000000000000000002").exists(), "the stray is gone");
}

#[test]
fn a_listing_that_hides_everything_does_not_start_a_job_afresh() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    for store in [disk(dir.path()), memory(runtime.handle())] {
        let storage = job(&store, runtime.handle());
        let mut lease = storage.claim("job").unwrap();
        for _ in 0..30 {
            complete(&storage, &mut lease).unwrap();
        }
        drop(lease);
        store.add(Rule::new(Op::List, "", Fault::Hidden));
        match storage.claim("job") {
            // an object store's register is read by its name, and needs no listing
            Ok(lease) => assert_eq!(lease.record().completed.len(), 1),
            Err(error) => assert!(matches!(error, StorageError::RegisterMissing { .. }), "{error}"),
        }
        store.heal();
        assert_recoverable(&storage, 30, "after the listing came back");
    }
}

#[test]
fn a_lost_answer_or_request_changes_the_register_exactly_once() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    for (store, op) in [(disk(dir.path()), Op::PutNew), (memory(runtime.handle()), Op::PutIf)] {
        let storage = job(&store, runtime.handle());
        let mut lease = storage.claim("job").unwrap();
        for fault in [Fault::LostAnswer, Fault::LostRequest] {
            for times in 1..4 {
                store.add(Rule::new(op, "register/", fault.clone()).first(times));
                let before = lease.record().last_checkpoint_id;
                lease.update(|record| record.last_checkpoint_id = record.last_checkpoint_id.next()).unwrap();
                assert_eq!(lease.record().last_checkpoint_id, before.next(), "{fault:?} {times}");
                assert_eq!(storage.load_register().unwrap().unwrap().record, *lease.record());
                store.heal();
            }
            store.add(Rule::new(op, "register/", fault.clone()).first(1));
            let old = lease.record().clone();
            let mut next = old.clone();
            next.generation.0 += 1;
            while let Err(error) = lease.compare_and_set(&old, &next) {
                assert!(error.is_indeterminate(), "{error}");
                // its own write does not fence it
                if *lease.refresh().unwrap() == next {
                    break;
                }
            }
            assert_eq!(lease.generation(), next.generation);
            store.heal();
        }
    }
}

#[test]
fn a_request_that_is_sent_twice_recognises_its_own_first_result() {
    // what an HTTP client does that got no answer: the first request counted, the second is refused
    #[derive(Debug)]
    struct Resending(FailingStore);
    impl Resending {
        fn register(self) -> TaggedRegister {
            TaggedRegister::new(Arc::new(self), "job", 5)
        }
    }
    impl BlobStore for Resending {
        fn display(&self, key: &str) -> String {
            self.0.display(key)
        }
        fn local_folder(&self, prefix: &str) -> Result<Option<std::path::PathBuf>, StorageError> {
            self.0.local_folder(prefix)
        }
        fn cas_support(&self) -> CasSupport {
            CasSupport::Tags
        }
        fn put_new(
            &self,
            key: &str,
            bytes: &[u8],
        ) -> Result<stillstream_storage::store::Created, StorageError> {
            self.0.put_new(key, bytes)?;
            self.0.put_new(key, bytes)
        }
        fn put_if(
            &self,
            key: &str,
            bytes: &[u8],
            tag: &stillstream_storage::store::Tag,
        ) -> Result<stillstream_storage::store::Replaced, StorageError> {
            self.0.put_if(key, bytes, tag)?;
            self.0.put_if(key, bytes, tag)
        }
        fn create(&self, key: &str) -> Result<Box<dyn stillstream_storage::store::BlobWriter>, StorageError> {
            self.0.create(key)
        }
        fn get(&self, key: &str) -> Result<(Vec<u8>, Option<stillstream_storage::store::Tag>), StorageError> {
            self.0.get(key)
        }
        fn read(&self, key: &str, offset: u64, len: u64) -> Result<Vec<u8>, StorageError> {
            self.0.read(key, offset, len)
        }
        fn len(&self, key: &str) -> Result<u64, StorageError> {
            self.0.len(key)
        }
        fn list(&self, prefix: &str) -> Result<Vec<stillstream_storage::store::Entry>, StorageError> {
            self.0.list(prefix)
        }
        fn delete(&self, key: &str) -> Result<stillstream_storage::store::Deleted, StorageError> {
            self.0.delete(key)
        }
        fn remove_empty_dirs(&self, prefix: &str) -> Result<(), StorageError> {
            self.0.remove_empty_dirs(prefix)
        }
        fn sync_folder(&self, prefix: &str) -> Result<(), StorageError> {
            self.0.sync_folder(prefix)
        }
    }
    let runtime = runtime();
    let register = Resending(memory(runtime.handle())).register();
    let one = register.compare_and_set(None, &sample_record(1, &[])).unwrap();
    let two = register.compare_and_set(Some(&one), &sample_record(1, &[1])).unwrap();
    assert_eq!(two.number, 2);
    assert!(
        register.compare_and_set(Some(&one), &sample_record(1, &[9])).is_err(),
        "an old version stays refused"
    );
}

#[test]
fn a_store_that_heals_is_used_again() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    for store in [disk(dir.path()), memory(runtime.handle())] {
        let storage = job(&store, runtime.handle());
        let mut lease = storage.claim("job").unwrap();
        complete(&storage, &mut lease).unwrap();
        for op in [Op::PutNew, Op::PutIf, Op::Create, Op::Write, Op::Finish, Op::List, Op::Get, Op::Delete] {
            for fault in [Fault::Fail(ErrorKind::StorageFull), Fault::LostAnswer, Fault::LostRequest] {
                store.add(Rule::new(op, "", fault.clone()));
                for _ in 0..3 {
                    if let Err(error) = complete(&storage, &mut lease) {
                        assert!(!matches!(error, StorageError::Fenced { .. }), "{op:?} {fault:?}: {error}");
                    }
                }
                store.heal();
                complete(&storage, &mut lease).unwrap_or_else(|error| panic!("{op:?} {fault:?}: {error}"));
                assert_recoverable(&storage, lease.record().last_checkpoint_id.0, "after the store healed");
            }
        }
    }
}

#[test]
fn a_full_disk_is_named_with_its_path_and_the_next_step() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = disk(dir.path());
    store.add(Rule::new(Op::Write, "chk-1", Fault::Fail(ErrorKind::StorageFull)));
    let mut stream =
        job(&store, runtime.handle()).snapshot_store(CheckpointId(1), "0-0").create("state").unwrap();
    let error = stream.write_all(&[0; 100]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let text = error.to_string();
    assert!(text.contains(dir.path().to_str().unwrap()) && text.contains("free space there"), "{text}");
    store.heal();
    assert!(stream.finish().is_err(), "what follows a failed write is not the whole stream");
    assert!(store.list("").unwrap().is_empty(), "and leaves nothing");
}

#[test]
fn bytes_that_a_store_lost_without_a_word_are_found_before_they_are_used() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = disk(dir.path());
    store.add(Rule::new(Op::Create, "chk-1", Fault::Tear(300)));
    let job = job(&store, runtime.handle());
    let snapshots = job.snapshot_store(CheckpointId(1), "0-0");
    let mut stream = snapshots.create("state").unwrap();
    stream.write_all(&[3; 1000]).unwrap();
    let handle = stream.finish().unwrap();
    let text = snapshots.read_all(&handle).unwrap_err().to_string();
    assert!(text.contains("expected 1000") && text.contains("found 300"), "{text}");
    let metadata = sample_metadata(1, job.id(), &[handle]);
    assert!(job.verify(&metadata, VerifyMode::Lengths).is_err());
}

#[test]
fn deletes_that_answer_not_found_are_done() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = disk(dir.path());
    let storage = job(&store, runtime.handle());
    let mut lease = storage.claim("job").unwrap();
    store.add(Rule::new(Op::Delete, "", Fault::NotFound));
    for _ in 0..30 {
        complete(&storage, &mut lease).unwrap();
        assert!(storage.discard_checkpoint(CheckpointId(1)).is_complete());
    }
}

#[test]
fn a_delete_that_fails_is_tried_again_and_then_reported() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = disk(dir.path());
    let storage = job(&store, runtime.handle());
    let mut lease = storage.claim("job").unwrap();
    complete(&storage, &mut lease).unwrap();
    let metadata = storage.read_metadata("chk-1").unwrap();

    let shared = storage.list_shared().unwrap();
    assert_eq!(shared.len(), 1);
    store.add(Rule::new(Op::Delete, "_metadata", Fault::Fail(ErrorKind::TimedOut)));
    let report = storage.discard_checkpoint_and_shared(CheckpointId(1), &shared);
    assert_eq!((report.deleted, report.failed.len()), (0, 1));
    storage
        .verify(&metadata, VerifyMode::Checksums)
        .expect("while the metadata is there, so is all that it names");
    store.heal();

    store.add(Rule::new(Op::Delete, "chk-1", Fault::Fail(ErrorKind::TimedOut)).first(2));
    store.add(Rule::new(Op::Delete, "shared/1-", Fault::Fail(ErrorKind::TimedOut)).first(2));
    let report = storage.discard_checkpoint_and_shared(CheckpointId(1), &shared);
    assert!(report.is_complete(), "a third try helps");
    assert_eq!(storage.list_shared().unwrap(), Vec::<String>::new());
}

#[test]
fn deletes_that_hang_do_not_hold_up_the_register() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = disk(dir.path());
    let storage = job(&store, runtime.handle());
    let mut lease = storage.claim("job").unwrap();
    let gate = Gate::new();
    store.add(Rule::new(Op::Delete, "register/", Fault::Wait(gate.clone())));
    for _ in 0..40 {
        lease.update(|record| record.last_checkpoint_id = record.last_checkpoint_id.next()).unwrap();
    }
    gate.wait_for_arrival();
    assert_eq!(lease.record().last_checkpoint_id, CheckpointId(40));
    gate.open();
}

/// Runs a job until the power goes, then loses what was not synced. Returns the steps asked for.
fn run_until_power_cut(handle: &Handle, step: Option<u64>) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("checkpoints");
    let power = Arc::new(step.map_or_else(PowerCut::new, PowerCut::before_step));
    let options = || StorageOptions { exclusive_lock: true, ..options() };
    let open = |store: Arc<dyn BlobStore>| {
        CheckpointStorage::with_store(store, options(), handle.clone()).job(JobId::from_name("job"))
    };
    let mut announced = 0;
    {
        let storage = open(Arc::new(LocalStore::with_hook(&root, &options(), power.clone())));
        if let Ok(mut lease) = storage.claim("job") {
            for _ in 0..3 {
                match complete(&storage, &mut lease) {
                    Ok(id) => announced = id.0,
                    Err(_) => break,
                }
            }
        }
    }
    power.lose_unsynced().unwrap();
    let what = format!("power cut before step {step:?}");
    let storage = open(Arc::new(disk(&root)));
    assert_recoverable(&storage, announced, &what);
    // and the next start works, sweeps, and goes on
    let mut lease = storage.claim("job").unwrap_or_else(|error| panic!("{what}: {error}"));
    let report = storage.sweep_orphans(lease.record(), lease.generation());
    assert!(report.files.is_complete() && report.left.is_empty(), "{what}: {report:?}");
    let id = complete(&storage, &mut lease).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(id.0 > announced);
    let left: Vec<_> = std::fs::read_dir(root.join(storage.id().to_string()))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("chk-"))
        .collect();
    assert_eq!(left, [format!("chk-{id}")], "{what}: no orphan stays");
    assert_no_shared_orphan(&storage, id, &what);
    power.steps()
}

#[test]
fn whatever_was_announced_survives_a_power_cut_at_every_step() {
    let runtime = runtime();
    let steps = run_until_power_cut(runtime.handle(), None);
    assert!(steps > 50, "the run takes many steps: {steps}");
    for step in 0..=steps {
        run_until_power_cut(runtime.handle(), Some(step));
    }
}

/// A disk that may lose power, and whose next syncs of a folder of the register fail.
#[derive(Debug)]
struct UnsyncedRegister {
    power: PowerCut,
    fails: AtomicBool,
}

impl DiskHook for UnsyncedRegister {
    fn before(&self, step: DiskStep<'_>) -> std::io::Result<()> {
        match step {
            DiskStep::SyncDir(dir) if dir.ends_with("register") && self.fails.load(Ordering::SeqCst) => {
                Err(std::io::Error::other("the disk did not answer"))
            }
            step => self.power.before(step),
        }
    }

    fn really_syncs(&self) -> bool {
        self.power.really_syncs()
    }

    fn after(&self, step: DiskStep<'_>) {
        self.power.after(step);
    }
}

#[test]
fn what_is_read_back_after_a_write_of_the_register_whose_outcome_was_not_known_survives_a_power_cut() {
    let runtime = runtime();
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(UnsyncedRegister { power: PowerCut::new(), fails: AtomicBool::new(false) });
    let store = Arc::new(LocalStore::with_hook(dir.path(), &options(), disk.clone()));
    let storage = CheckpointStorage::with_store(store, options(), runtime.handle().clone())
        .job(JobId::from_name("job"));
    let mut lease = storage.claim("job").unwrap();
    let old = lease.record().clone();
    let mut next = old.clone();
    next.last_checkpoint_id = CheckpointId(8);
    disk.fails.store(true, Ordering::SeqCst);
    let error = lease.compare_and_set(&old, &next).unwrap_err();
    assert!(error.is_indeterminate(), "{error}");
    assert!(lease.refresh().is_err(), "it can be seen, but it is not durable");
    disk.fails.store(false, Ordering::SeqCst);
    assert_eq!(*lease.refresh().unwrap(), next);
    drop(lease);
    disk.power.lose_unsynced().unwrap();
    assert_eq!(storage.load_register().unwrap().unwrap().record, next);
}

#[test]
fn the_simulated_power_cut_does_lose_what_is_not_synced() {
    let dir = tempfile::tempdir().unwrap();
    let (temp, named) = (dir.path().join("t"), dir.path().join("n"));
    for (sync_file, sync_dir, expected) in
        [(true, true, Some(5)), (false, true, Some(0)), (true, false, None), (false, false, None)]
    {
        let power = PowerCut::new();
        std::fs::write(&temp, "bytes").unwrap();
        power.after(DiskStep::Create(&temp));
        power.after(DiskStep::Write { path: &temp, len: 5 });
        if sync_file {
            power.after(DiskStep::SyncFile(&temp));
        }
        std::fs::rename(&temp, &named).unwrap();
        power.after(DiskStep::Rename { from: &temp, to: &named });
        if sync_dir {
            power.after(DiskStep::SyncDir(dir.path()));
        }
        power.lose_unsynced().unwrap();
        let found = std::fs::metadata(&named).ok().map(|metadata| metadata.len());
        assert_eq!(found, expected, "file synced: {sync_file}, folder synced: {sync_dir}");
        let _ = std::fs::remove_file(&named);
    }
}

/// Each store operation in turn is the last one that happens (the process dies there); then a restart.
#[test]
fn after_a_death_at_every_store_operation_the_newest_complete_checkpoint_is_found() {
    let runtime = runtime();
    let run = |last: Option<u64>| {
        let dir = tempfile::tempdir().unwrap();
        let store = disk(dir.path());
        let storage = job(&store, runtime.handle());
        if let Some(last) = last {
            // dead: from here on nothing happens any more
            for op in [Op::PutNew, Op::Create, Op::Write, Op::Finish, Op::Get, Op::List, Op::Delete] {
                let fault = Fault::Fail(ErrorKind::BrokenPipe);
                store.add(Rule::new(op, "", fault).after_operation(last));
            }
        }
        let mut announced = 0;
        if let Ok(mut lease) = storage.claim("job") {
            for _ in 0..4 {
                match complete(&storage, &mut lease) {
                    Ok(id) => announced = id.0,
                    Err(_) => break,
                }
            }
        }
        store.heal();
        let (what, operations) = (format!("death after operation {last:?}"), store.log().len() as u64);
        assert_recoverable(&storage, announced, &what);
        let mut lease = storage.claim("job").unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(storage.sweep_orphans(lease.record(), lease.generation()).files.is_complete(), "{what}");
        let id = complete(&storage, &mut lease).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_no_shared_orphan(&storage, id, &what);
        operations
    };
    let operations = run(None);
    assert!(operations > 30);
    for last in 0..operations {
        run(Some(last));
    }
}

#[test]
fn the_metadata_of_another_process_under_the_same_number_is_not_overwritten() {
    let (runtime, dir) = (runtime(), tempfile::tempdir().unwrap());
    let store = disk(dir.path());
    let (a, b) = (job(&store, runtime.handle()), job(&store, runtime.handle()));
    let inline = |byte| StreamHandle::Inline { bytes: Arc::from([byte]) };
    let (first, second) =
        (sample_metadata(5, a.id(), &[inline(1)]), sample_metadata(5, a.id(), &[inline(2)]));
    a.write_metadata(&first).unwrap();
    let error = b.write_metadata(&second).unwrap_err();
    assert!(matches!(error, StorageError::AlreadyExists { .. }), "{error}");
    assert_eq!(b.read_metadata("chk-5").unwrap(), first);
}
