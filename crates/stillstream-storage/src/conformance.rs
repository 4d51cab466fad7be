//! Suites that every [`BlobStore`], every [`Register`] and every checkpoint storage must pass, for those who
//! bring their own.
//!
//! Each function wants an empty place and panics with a sentence that says what is wrong.

#![expect(clippy::missing_panics_doc, reason = "to panic is what they are for")]

use std::io::{ErrorKind, Write};
use std::sync::Arc;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointMetadata, CompletedRef, Generation, IncrementalFormat,
    IncrementalHandle, JobId, JobOutcome, KeyGroup, KeyGroupRange, KeyGroupSection, KeyedStateHandle,
    NamedStream, OperatorId, OperatorState, OperatorStateEntry, OperatorStateHandle, OperatorSubtaskState,
    RedistributionMode, RegisterRecord, StreamHandle, SubtaskIndex, checkpoint_paths,
};

use crate::checkpoint::{CheckpointStorage, JobStorage};
use crate::error::{CasError, StorageError};
use crate::register::Register;
use crate::store::{BlobStore, CasSupport, Created, Deleted, Replaced};
use crate::verify::VerifyMode;

/// A record to write to a register: generation `generation` with checkpoints `completed`.
pub fn sample_record(generation: u64, completed: &[u64]) -> RegisterRecord {
    RegisterRecord {
        job: JobId::from_name("conformance"),
        job_name: "conformance".into(),
        generation: Generation(generation),
        outcome: JobOutcome::Running,
        last_checkpoint_id: CheckpointId(completed.last().copied().unwrap_or(0)),
        completed: completed
            .iter()
            .map(|&id| CompletedRef {
                id: CheckpointId(id),
                path: checkpoint_paths::checkpoint(CheckpointId(id)),
            })
            .collect(),
        retained: Vec::new(),
        ended: None,
        began: None,
    }
}

/// Metadata that uses every field of the format, with these streams as state (cycled through).
pub fn sample_metadata(id: u64, job: JobId, streams: &[StreamHandle]) -> CheckpointMetadata {
    let mut streams = streams.iter().cycle().cloned();
    let mut stream = || streams.next().unwrap_or(StreamHandle::Inline { bytes: Arc::from(*b"inline") });
    let section =
        |group, offset| KeyGroupSection { group: KeyGroup(group), offset, len: 7, crc32c: 0xdead_beef };
    let keyed = KeyedStateHandle {
        range: KeyGroupRange::new(0, 64),
        header_len: 3,
        header_crc32c: 0x0102_0304,
        sections: vec![section(0, 3), section(63, 10)],
        stream: stream(),
    };
    let entry = |mode| OperatorStateEntry { mode, schema: vec![1, 2, 3], offsets: vec![0, 5, 9], end: 12 };
    let operator = OperatorStateHandle {
        states: [
            ("splits", RedistributionMode::Split),
            ("union", RedistributionMode::Union),
            ("rules", RedistributionMode::Broadcast),
        ]
        .map(|(name, mode)| (name.to_owned(), entry(mode)))
        .into(),
        stream: stream(),
    };
    let with_state = OperatorState {
        id: OperatorId::from_uid("carrier-days"),
        uid: Some("carrier-days".into()),
        name: "Tumbling window".into(),
        parallelism: 2,
        max_parallelism: 128,
        subtasks: [
            (
                SubtaskIndex(0),
                OperatorSubtaskState {
                    keyed: vec![keyed],
                    incremental: Vec::new(),
                    operator: vec![operator],
                },
            ),
            (SubtaskIndex(1), OperatorSubtaskState::default()),
        ]
        .into(),
        enumerator: None,
    };
    let without_uid = OperatorState {
        id: OperatorId::from_uid("other"),
        uid: None,
        name: String::new(),
        parallelism: 1,
        max_parallelism: 32768,
        subtasks: Default::default(),
        enumerator: None,
    };
    CheckpointMetadata {
        id: CheckpointId(id),
        job,
        job_name: "flights".into(),
        generation: Generation(3),
        kind: CheckpointKind::Checkpoint,
        triggered_at_ms: -1_600_000_000_000,
        operators: vec![with_state, without_uid],
    }
}

/// The same with the state of an enumerator, which is what version 3 of the format added.
pub fn sample_enumerator_metadata(id: u64, job: JobId, streams: &[StreamHandle]) -> CheckpointMetadata {
    let mut metadata = sample_incremental_metadata(id, job, streams);
    for (operator, state) in metadata.operators.iter_mut().zip([&b"which splits were assigned"[..], b""]) {
        operator.enumerator = Some(Arc::from(state));
    }
    metadata
}

/// The same with state as sets of files, which is what version 2 of the format added.
pub fn sample_incremental_metadata(id: u64, job: JobId, streams: &[StreamHandle]) -> CheckpointMetadata {
    let mut metadata = sample_metadata(id, job, streams);
    let inline = StreamHandle::Inline { bytes: Arc::from(*b"how the files belong together") };
    let named = |(at, stream): (usize, &StreamHandle)| NamedStream {
        name: format!("{at:06}.sst"),
        stream: stream.clone(),
    };
    let handle = |format, range, backend| IncrementalHandle {
        range,
        format,
        backend,
        meta: inline.clone(),
        files: streams.iter().enumerate().map(named).collect(),
    };
    let incremental = vec![
        handle(IncrementalFormat::RocksDb, KeyGroupRange::new(64, 96), 0x0102_0304_0506_0708),
        handle(IncrementalFormat::HeapChain, KeyGroupRange::new(97, 127), u64::MAX),
    ];
    let state = OperatorSubtaskState { incremental, ..OperatorSubtaskState::default() };
    if let Some(operator) = metadata.operators.first_mut() {
        operator.subtasks.insert(SubtaskIndex(1), state);
    }
    metadata
}

/// What every low-level store must do.
pub fn blob_store(store: &dyn BlobStore) {
    // create if absent
    let made = store.put_new("a/new", b"one").expect("creates an object");
    assert!(matches!(made, Created::New(_)), "a first put_new creates");
    assert_eq!(
        store.put_new("a/new", b"two").expect("answers"),
        Created::Exists,
        "a second put_new does not"
    );
    assert_eq!(store.get("a/new").expect("reads").0, b"one", "put_new leaves what is there as it is");

    // streams, short and long, become visible at the end only
    let long: Vec<u8> = (0..20_000_000u32).map(|n| (n % 251) as u8).collect();
    for (key, content, piece) in
        [("a/empty", &long[..0], 1), ("a/short", &long[..1000], 7), ("a/long", &long[..], 300_007)]
    {
        let mut writer = store.create(key).expect("opens a stream");
        for piece in content.chunks(piece) {
            writer.write(piece).expect("appends");
        }
        assert!(store.get(key).is_err_and(|e| e.is_not_found()), "`{key}` is not visible before finish");
        writer.finish().expect("finishes");
        assert_eq!(store.len(key).expect("has a length"), content.len() as u64, "`{key}` has its length");
        assert!(store.get(key).expect("reads").0 == content, "`{key}` has its content");
    }

    // ranges
    assert_eq!(store.read("a/long", 9_999_999, 5).expect("reads a range"), &long[9_999_999..10_000_004]);
    assert!(store.read("a/long", 20_000_000, 0).expect("reads nothing at the end").is_empty());
    for (offset, len) in [(19_999_999, 2), (20_000_001, 0), (0, u64::MAX), (u64::MAX, 1)] {
        let error = store.read("a/long", offset, len).expect_err("a range past the end is an error");
        let text = error.to_string();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{text}");
        assert!(
            text.contains("a/long") && text.contains("20000000"),
            "names the file and what was found: {text}"
        );
    }

    // an abandoned stream leaves nothing
    let mut writer = store.create("b/dropped").expect("opens a stream");
    writer.write(b"half").expect("appends");
    drop(writer);
    assert!(store.list("b").expect("lists").is_empty(), "an abandoned stream leaves nothing");

    // listing
    let mut keys: Vec<_> = store.list("a").expect("lists").into_iter().map(|e| (e.key, e.len)).collect();
    keys.sort();
    let expected = [("a/empty", 0), ("a/long", 20_000_000), ("a/new", 3), ("a/short", 1000)];
    assert_eq!(keys, expected.map(|(key, len)| (key.to_owned(), len)));
    assert!(store.list("nowhere").expect("a folder that is not there is empty").is_empty());

    // what is not there
    assert!(store.get("a/absent").is_err_and(|e| e.is_not_found()));
    assert!(store.len("a/absent").is_err_and(|e| e.is_not_found()));
    assert!(store.read("a/absent", 0, 1).is_err_and(|e| e.is_not_found()));
    store.delete("a/absent").expect("deleting what is not there is fine");
    assert_eq!(store.delete("a/short").expect("deletes"), Deleted::Yes);
    assert!(store.get("a/short").is_err_and(|e| e.is_not_found()), "what was deleted is gone");
    store.sync_folder("a").expect("syncs");
    store.remove_empty_dirs("a").expect("leaves a folder with files");
    assert_eq!(store.get("a/new").expect("reads").0, b"one", "removing empty folders keeps files");

    // keys that would leave the root
    for key in ["../out", "/etc/passwd", "a//b", "a/./b", "", "a/..", "a\\b"] {
        let refused =
            |result: Result<(), StorageError>| matches!(result, Err(StorageError::BadLocation { .. }));
        assert!(refused(store.get(key).map(drop)), "get refuses `{key}`");
        assert!(refused(store.put_new(key, b"").map(drop)), "put_new refuses `{key}`");
        assert!(refused(store.create(key).map(drop)), "create refuses `{key}`");
        assert!(refused(store.delete(key).map(drop)), "delete refuses `{key}`");
    }

    // of racing creators of a large object one wins, and it is whole
    let wins = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..4u8)
            .map(|racer| {
                scope.spawn(move || store.put_new("c/raced", &vec![racer; 2 << 20]).expect("answers"))
            })
            .collect();
        racers.into_iter().filter_map(|r| r.join().ok()).filter(|c| matches!(c, Created::New(_))).count()
    });
    assert_eq!(wins, 1, "one of four racing creators wins");
    let raced = store.get("c/raced").expect("reads").0;
    assert_eq!(raced.len(), 2 << 20);
    assert!(raced.iter().all(|byte| *byte == raced[0]), "the winner's content is whole");

    if store.cas_support() == CasSupport::Tags {
        conditional_puts(store);
    }
}

fn conditional_puts(store: &dyn BlobStore) {
    let Created::New(Some(first)) = store.put_new("d/tagged", b"1").expect("creates") else {
        panic!("a store with tags gives the tag of what it created")
    };
    let Replaced::New(second) = store.put_if("d/tagged", b"2", &first).expect("answers") else {
        panic!("put_if replaces under the right tag")
    };
    assert_ne!(first, second, "another content has another tag");
    assert_eq!(store.put_if("d/tagged", b"3", &first).expect("answers"), Replaced::Mismatch);
    let (bytes, tag) = store.get("d/tagged").expect("reads");
    assert_eq!((bytes.as_slice(), tag), (&b"2"[..], Some(second.clone())), "a mismatch changes nothing");
    assert_eq!(store.put_if("d/absent", b"3", &second).expect("answers"), Replaced::Mismatch);
}

/// What every register must do. `open` gives a new handle on the same register, as another process would
/// have.
pub fn register(open: impl Fn() -> Arc<dyn Register>) {
    let (a, b) = (open(), open());
    assert_eq!(a.load().expect("loads"), None, "there is no register at first");
    assert_eq!(a.head().expect("looks"), None);

    let first = sample_record(1, &[]);
    let one = a.compare_and_set(None, &first).expect("the first write");
    assert_eq!(one.number, 1);
    let conflict = b.compare_and_set(None, &sample_record(9, &[])).expect_err("a second first write");
    assert!(matches!(&conflict, CasError::Conflict(found) if *found == one), "{conflict:?}");
    assert_eq!(b.head().expect("looks"), Some(one.clone()));

    let loaded = b.load().expect("loads").expect("there is one");
    assert_eq!((loaded.record, &loaded.version), (first, &one));
    let second = sample_record(2, &[1, 2]);
    let two = b.compare_and_set(Some(&one), &second).expect("a write that expects what is there");
    assert!(two.number > one.number, "versions only grow");
    let conflict =
        a.compare_and_set(Some(&one), &sample_record(1, &[7])).expect_err("a write that expects what was");
    assert!(matches!(&conflict, CasError::Conflict(found) if *found == two), "{conflict:?}");
    assert_eq!(a.load().expect("loads").expect("there is one").record, second, "a conflict changes nothing");

    // many writers: every success is one step, and none is lost
    let tries = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let register = open();
                scope.spawn(move || {
                    let mut successes = 0;
                    while successes < 10 {
                        let loaded = register.load().expect("loads").expect("there is one");
                        let mut record = loaded.record;
                        record.last_checkpoint_id = record.last_checkpoint_id.next();
                        match register.compare_and_set(Some(&loaded.version), &record) {
                            Ok(_) => successes += 1,
                            Err(CasError::Conflict(_)) => {}
                            Err(CasError::Indeterminate(_)) => return (successes, 1),
                            Err(CasError::Storage(error)) => {
                                panic!("a race is a conflict, not an error: {error}")
                            }
                        }
                    }
                    (successes, 0)
                })
            })
            .collect();
        writers.into_iter().map(|w| w.join().expect("a writer")).collect::<Vec<_>>()
    });
    let (sure, unsure) = tries.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let last = a.load().expect("loads").expect("there is one").record.last_checkpoint_id.0 - 2;
    assert!(
        (sure..=sure + unsure).contains(&last),
        "{sure} sure and {unsure} unsure writes make {last} steps"
    );
}

/// What every checkpoint storage must do. Its inline threshold must be the default.
pub fn checkpoint_storage(storage: &CheckpointStorage) {
    storage.probe_writable().expect("is writable");
    let job = storage.job(JobId::from_name("conformance"));
    let snapshots = job.snapshot_store(CheckpointId(1), "0-3");
    let write = |len: usize| {
        let content: Vec<u8> = (0..len).map(|n| (n % 241) as u8).collect();
        let mut stream = snapshots.create("state").expect("opens a stream");
        for piece in content.chunks(4099) {
            stream.write_all(piece).expect("appends");
        }
        (stream.finish().expect("finishes"), content)
    };
    let threshold = (20 << 10).max(job.store().inline_at_least());
    let mut handles = Vec::new();
    for len in [0, 1, threshold - 1, threshold, threshold + 1, 3_000_000] {
        let (handle, content) = write(len);
        assert_eq!(handle.len(), len as u64);
        assert_eq!(handle.path().is_none(), len < threshold, "{len} bytes: inline below the threshold only");
        assert!(snapshots.read_all(&handle).expect("reads") == content, "{len} bytes come back");
        let (at, n) = (len / 3, len / 2);
        let part = snapshots.read(&handle, at as u64, n as u64).expect("reads a part");
        assert!(part == content[at..at + n], "a part of {len} bytes comes back");
        let past = snapshots.read(&handle, len as u64, 1).expect_err("nothing lies past the end");
        assert_eq!(past.kind(), ErrorKind::UnexpectedEof, "{past}");
        handles.push(handle);
    }
    let paths: std::collections::HashSet<_> = handles.iter().filter_map(StreamHandle::path).collect();
    assert_eq!(paths.len(), 3, "each stream has a file of its own");

    let mut abandoned = snapshots.create("abandoned").expect("opens a stream");
    abandoned.write_all(&vec![1; 100_000]).expect("appends");
    drop(abandoned);
    let orphan = job.snapshot_store(CheckpointId(2), "0-3");
    let mut stream = orphan.create("late").expect("opens a stream");
    stream.write_all(&vec![1; 200_000]).expect("appends");
    let late = stream.finish().expect("finishes");

    let metadata = sample_metadata(1, job.id(), &handles);
    let completed = job.write_metadata(&metadata).expect("writes metadata");
    assert_eq!((completed.id, completed.path.as_str()), (CheckpointId(1), "chk-1"));
    job.write_metadata(&metadata).expect("the same once more is fine");
    let other = CheckpointMetadata { generation: Generation(4), ..metadata.clone() };
    let error = job.write_metadata(&other).expect_err("another content is not");
    assert!(matches!(error, StorageError::AlreadyExists { .. }), "{error}");
    assert_eq!(job.read_metadata("chk-1").expect("reads"), metadata);
    job.verify(&metadata, VerifyMode::Lengths).expect("all files are there");
    job.verify(&metadata, VerifyMode::Checksums).expect("all files are whole");

    let report = job.discard_streams([&late, &handles[0]]);
    assert_eq!((report.deleted, report.missing, report.failed.len()), (1, 0, 0));
    let report = job.discard_streams([&late]);
    // object stores do not say whether there was anything
    assert_eq!((report.deleted + report.missing, report.failed.len()), (1, 0), "deleting is idempotent");
    let report = job.discard_checkpoint(CheckpointId(1));
    assert_eq!((report.deleted, report.failed.len()), (4, 0), "metadata and three files: no more, no less");
    assert!(job.discard_checkpoint(CheckpointId(1)).is_complete(), "deleting is idempotent");
    assert!(job.read_metadata("chk-1").is_err_and(|e| e.is_not_found()));
    let gone = snapshots.read_all(&handles[5]).expect_err("the file is gone");
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");

    shared_files(&job);
}

/// Files that several checkpoints name.
fn shared_files(job: &JobStorage) {
    let store = |id| job.snapshot_store(CheckpointId(id), "0-3");
    let write = |id: u64, content: &[u8]| {
        let mut stream = store(id).create_shared("000012.sst").expect("opens a shared stream");
        stream.write_all(content).expect("appends");
        stream.finish().expect("finishes")
    };
    assert!(store(3).keeps_shared());
    let (empty, small) = (write(3, b""), write(3, b"small"));
    for handle in [&empty, &small] {
        let creator = handle.path().and_then(checkpoint_paths::creator);
        assert_eq!(creator, Some(CheckpointId(3)), "a shared stream is a file, however small: {handle:?}");
    }
    let mut abandoned = store(3).create_shared("abandoned").expect("opens a shared stream");
    abandoned.write_all(&vec![1; 100_000]).expect("appends");
    drop(abandoned);

    let earlier = sample_incremental_metadata(3, job.id(), &[empty.clone(), small.clone()]);
    let later = write(4, &[7; 100_000]);
    let metadata = sample_incremental_metadata(4, job.id(), &[small.clone(), later.clone()]);
    let completed =
        [&earlier, &metadata].map(|metadata| job.write_metadata(metadata).expect("writes metadata"));
    assert_eq!(job.read_metadata("chk-4").expect("reads"), metadata);
    let paths = |handles: &[&StreamHandle]| {
        let mut paths: Vec<String> = handles.iter().filter_map(|h| h.path()).map(str::to_owned).collect();
        paths.sort();
        paths
    };
    let mut listed = job.list_shared().expect("lists");
    listed.sort();
    assert_eq!(listed, paths(&[&empty, &small, &later]), "an abandoned stream leaves nothing");
    let references = job.shared_references(&completed, &[]);
    let expected =
        vec![(CheckpointId(3), paths(&[&empty, &small])), (CheckpointId(4), paths(&[&small, &later]))];
    assert_eq!((references.found, references.unreadable), (expected, Vec::new()));

    let gone = paths(&[&empty]);
    assert!(job.discard_checkpoint_and_shared(CheckpointId(3), &gone).is_complete());
    assert!(
        job.discard_checkpoint_and_shared(CheckpointId(3), &gone).is_complete(),
        "deleting is idempotent"
    );
    job.verify(&metadata, VerifyMode::Checksums).expect("what a later checkpoint names is still there");
    assert!(job.verify(&earlier, VerifyMode::Lengths).is_err(), "a missing shared file is found");
    let references = job.shared_references(&completed[1..], &completed[..1]);
    assert_eq!(references.found.last(), Some(&(CheckpointId(3), Vec::new())), "its owner deleted it");
    assert_eq!(job.shared_references(&completed, &[]).unreadable.len(), 1, "a completed one must be there");
    assert!(job.discard_checkpoint_and_shared(CheckpointId(4), &paths(&[&small, &later])).is_complete());
    assert!(job.list_shared().expect("lists").is_empty());
}
