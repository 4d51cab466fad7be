//! A savepoint with a state of every kind in a directory, whose files have names that do not change.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use stillstream_heap::HeapBackendFactory;
use stillstream_state::conformance::{Everything, all_groups, backend_of};
use stillstream_state::{BackendFactory, Key, KeyedBackend, OperatorStateBackend, StateError};
use stillstream_storage::metadata::{Anchor, METADATA_FILE, encode};
use stillstream_types::streams::{SnapshotStore, SnapshotStream};
use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointMetadata, Generation, JobId, KeyGroupRange, KeyedSnapshot,
    OperatorId, OperatorState, OperatorSubtaskState, SavepointFormat, SnapshotForm, StreamHandle,
    SubtaskIndex,
};

/// Writes each stream as a file of the directory, named after what it is.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    names: Mutex<Vec<String>>,
}

struct Stream {
    file: File,
    name: String,
    bytes: Vec<u8>,
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl SnapshotStream for Stream {
    fn finish(self: Box<Self>) -> io::Result<StreamHandle> {
        let (len, crc32c) = (self.bytes.len() as u64, crc32c::crc32c(&self.bytes));
        Ok(StreamHandle::File { path: self.name, len, crc32c })
    }
}

impl SnapshotStore for Directory {
    fn create(&self, name: &str) -> io::Result<Box<dyn SnapshotStream>> {
        let mut names = self.names.lock().map_err(|_| io::Error::other("a writer has panicked"))?;
        assert!(!names.iter().any(|known| known == name), "`{name}` is written twice");
        names.push(name.into());
        let file = File::create(self.path.join(name))?;
        Ok(Box::new(Stream { file, name: name.into(), bytes: Vec::new() }))
    }

    fn read(&self, _: &StreamHandle, _: u64, _: u64) -> io::Result<Vec<u8>> {
        Err(io::Error::other("it is only written"))
    }

    fn read_all(&self, _: &StreamHandle) -> io::Result<Vec<u8>> {
        Err(io::Error::other("it is only written"))
    }
}

pub const PARALLELISM: u32 = 2;

/// The keys of the savepoint.
pub fn keys(range: KeyGroupRange) -> impl Iterator<Item = (u64, String)> {
    let keys = (0..12u64).map(|n| (n, format!("user-{n}")));
    keys.filter(move |(_, key)| range.contains(key.key_hash(all_groups()).group()))
}

fn keyed(
    factory: &impl BackendFactory,
    index: u32,
    form: SavepointFormat,
    store: &Directory,
) -> Result<KeyedSnapshot, StateError> {
    let range = all_groups().range(index, PARALLELISM);
    let mut everything = Everything::register(backend_of(factory, range)?)?;
    for (n, key) in keys(range) {
        everything.set(&key, n)?;
    }
    let form = SnapshotForm::Savepoint(form);
    everything.backend.freeze_as(CheckpointId(1), form)?.write(store, &format!("keyed-{index}"))
}

/// What operator state each subtask has.
pub fn operator_state(index: u32) -> Result<OperatorStateBackend, StateError> {
    let mut backend = OperatorStateBackend::new(SubtaskIndex(index));
    let offset = u64::from(index) * 100;
    backend.list::<(String, u64)>("splits")?.update(vec![("a".into(), offset), ("b".into(), offset + 1)])?;
    backend.union_list::<u32>("seen")?.add(index)?;
    backend.broadcast::<String, bool>("rules")?.put("strict".into(), true)?;
    Ok(backend)
}

/// Writes a savepoint into a directory.
pub fn write(path: &Path, factory: &impl BackendFactory, form: SavepointFormat) -> Result<(), StateError> {
    fs::create_dir_all(path).unwrap();
    let store = Directory { path: path.into(), names: Mutex::default() };
    let subtask = |index: u32| -> Result<_, StateError> {
        let factory = factory.for_subtask(u64::from(index), &["savepoint"]);
        let KeyedSnapshot { keyed, incremental } = keyed(&factory, index, form, &store)?;
        let operator = operator_state(index)?.freeze()?.write(&store, &format!("operator-{index}"))?;
        Ok((SubtaskIndex(index), OperatorSubtaskState { keyed, incremental, operator }))
    };
    let metadata = CheckpointMetadata {
        id: CheckpointId(17),
        job: JobId::from_name("golden"),
        job_name: "golden".into(),
        generation: Generation(3),
        kind: CheckpointKind::Savepoint,
        triggered_at_ms: 1_700_000_000_000,
        operators: vec![OperatorState {
            id: OperatorId::from_uid("everything"),
            uid: Some("everything".into()),
            name: "a state of every kind".into(),
            parallelism: PARALLELISM,
            max_parallelism: all_groups().max_parallelism(),
            subtasks: (0..PARALLELISM).map(subtask).collect::<Result<_, _>>()?,
            enumerator: None,
        }],
    };
    fs::write(path.join(METADATA_FILE), encode(&metadata, Anchor::Directory)).unwrap();
    Ok(())
}

/// In canonical form, as every backend reads it.
pub fn write_canonical(path: &Path) {
    write(path, &HeapBackendFactory::default(), SavepointFormat::Canonical).unwrap();
}
