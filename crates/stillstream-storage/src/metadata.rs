//! The format of `_metadata`: an envelope (magic `STILLCKP`, version, length, CRC-32C) around a protobuf
//! body.
//!
//! Every version that was ever written stays readable; a file of each is in `tests/storage/golden`. A
//! checkpoint is written in the oldest version that can hold it: a reader that does not know a field would
//! skip it, and lose the state that it names.
//!
//! | version | what it added |
//! |---|---|
//! | 1 | |
//! | 2 | state as a set of files that several checkpoints may name ([`IncrementalHandle`]) |
//! | 3 | the state of a source's enumerator |

use std::sync::Arc;

use prost::Message;
use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointMetadata, Generation, IncrementalFormat, IncrementalHandle,
    JobId, KeyGroup, KeyGroupRange, KeyGroupSection, KeyedStateHandle, NamedStream, OperatorId,
    OperatorState, OperatorStateEntry, OperatorStateHandle, OperatorSubtaskState, RedistributionMode,
    StreamHandle, SubtaskIndex,
};

use crate::error::StorageError;
use crate::frame::Frame;
use crate::proto;

const FRAME: Frame = Frame { magic: b"STILLCKP", version: 3 };

/// The name of the file within a checkpoint's or savepoint's directory.
pub const METADATA_FILE: &str = "_metadata";

/// Where the paths within the handles start, seen from the directory of `_metadata`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// That directory itself: a savepoint, which can be moved alone.
    Directory,
    /// The directory above it: a checkpoint, whose files may lie in `shared/` beside it.
    Parent,
}

/// The bytes of `_metadata`.
pub fn encode(metadata: &CheckpointMetadata, anchor: Anchor) -> Vec<u8> {
    let body = proto::Metadata {
        id: metadata.id.0,
        job: metadata.job.0.to_vec(),
        job_name: metadata.job_name.clone(),
        generation: metadata.generation.0,
        kind: match metadata.kind {
            CheckpointKind::Checkpoint => 1,
            CheckpointKind::Final => 2,
            CheckpointKind::Savepoint => 3,
        },
        triggered_at_ms: metadata.triggered_at_ms,
        operators: metadata.operators.iter().map(operator_out).collect(),
        anchor_up: match anchor {
            Anchor::Directory => 0,
            Anchor::Parent => 1,
        },
    };
    FRAME.wrap_as(version(metadata), &body.encode_to_vec())
}

/// The oldest version that can hold this checkpoint.
fn version(metadata: &CheckpointMetadata) -> u32 {
    if metadata.operators.iter().any(|operator| operator.enumerator.is_some()) {
        return 3;
    }
    let mut states = metadata.operators.iter().flat_map(|operator| operator.subtasks.values());
    if states.any(|state| !state.incremental.is_empty()) { 2 } else { 1 }
}

/// Reads the bytes of `_metadata`; `path` is how errors call the file.
///
/// # Errors
/// [`StorageError::Corrupt`] with what was compared, expected and found.
pub fn decode(path: &str, bytes: &[u8]) -> Result<(CheckpointMetadata, Anchor), StorageError> {
    let (_version, body) = FRAME.unwrap(path, bytes)?;
    let body = proto::Metadata::decode(body.as_slice())
        .map_err(|error| StorageError::corrupt(path, "content", "a checkpoint's metadata", error))?;
    let reader = Reader { path };
    let metadata = CheckpointMetadata {
        id: CheckpointId(body.id),
        job: JobId(reader.id16(&body.job)?),
        job_name: body.job_name,
        generation: Generation(body.generation),
        kind: match body.kind {
            1 => CheckpointKind::Checkpoint,
            2 => CheckpointKind::Final,
            3 => CheckpointKind::Savepoint,
            other => return Err(reader.bad("kind of checkpoint", "1 to 3", other)),
        },
        triggered_at_ms: body.triggered_at_ms,
        operators: body.operators.into_iter().map(|o| reader.operator(o)).collect::<Result<_, _>>()?,
    };
    let anchor = match body.anchor_up {
        0 => Anchor::Directory,
        1 => Anchor::Parent,
        other => return Err(reader.bad("anchor of the paths", "0 or 1", other)),
    };
    Ok((metadata, anchor))
}

fn operator_out(operator: &OperatorState) -> proto::Operator {
    proto::Operator {
        id: operator.id.0.to_vec(),
        uid: operator.uid.clone(),
        name: operator.name.clone(),
        parallelism: operator.parallelism,
        max_parallelism: operator.max_parallelism,
        subtasks: operator.subtasks.iter().map(|(index, state)| subtask_out(*index, state)).collect(),
        enumerator: operator.enumerator.as_ref().map(|state| state.to_vec()),
    }
}

fn subtask_out(index: SubtaskIndex, state: &OperatorSubtaskState) -> proto::Subtask {
    proto::Subtask {
        index: index.0,
        keyed: state.keyed.iter().map(keyed_out).collect(),
        operator: state.operator.iter().map(operator_handle_out).collect(),
        incremental: state.incremental.iter().map(incremental_out).collect(),
    }
}

/// The state of one subtask, as it is within `_metadata`: for messages between processes.
pub fn encode_state(state: &OperatorSubtaskState) -> Vec<u8> {
    subtask_out(SubtaskIndex(0), state).encode_to_vec()
}

/// Reads what [`encode_state`] wrote; `what` is how errors call the message.
///
/// # Errors
/// [`StorageError::Corrupt`] with what was compared, expected and found.
pub fn decode_state(what: &str, bytes: &[u8]) -> Result<OperatorSubtaskState, StorageError> {
    let subtask = proto::Subtask::decode(bytes)
        .map_err(|error| StorageError::corrupt(what, "content", "the state of a subtask", error))?;
    Reader { path: what }.subtask(subtask).map(|(_, state)| state)
}

fn keyed_out(handle: &KeyedStateHandle) -> proto::Keyed {
    let sections = &handle.sections;
    proto::Keyed {
        start: handle.range.start.into(),
        end: handle.range.end.into(),
        header_len: handle.header_len,
        header_crc32c: handle.header_crc32c,
        groups: sections.iter().map(|s| s.group.0.into()).collect(),
        offsets: sections.iter().map(|s| s.offset).collect(),
        lens: sections.iter().map(|s| s.len).collect(),
        crc32cs: sections.iter().map(|s| s.crc32c).collect(),
        stream: Some(stream_out(&handle.stream)),
    }
}

fn incremental_out(handle: &IncrementalHandle) -> proto::Incremental {
    proto::Incremental {
        start: handle.range.start.into(),
        end: handle.range.end.into(),
        format: match handle.format {
            IncrementalFormat::HeapChain => 1,
            IncrementalFormat::RocksDb => 2,
        },
        backend: handle.backend,
        meta: Some(stream_out(&handle.meta)),
        names: handle.files.iter().map(|file| file.name.clone()).collect(),
        streams: handle.files.iter().map(|file| stream_out(&file.stream)).collect(),
    }
}

fn operator_handle_out(handle: &OperatorStateHandle) -> proto::OperatorHandle {
    let entry = |entry: &OperatorStateEntry| proto::Entry {
        mode: match entry.mode {
            RedistributionMode::Split => 1,
            RedistributionMode::Union => 2,
            RedistributionMode::Broadcast => 3,
        },
        schema: entry.schema.clone(),
        offsets: entry.offsets.clone(),
        end: entry.end,
    };
    proto::OperatorHandle {
        states: handle.states.iter().map(|(name, state)| (name.clone(), entry(state))).collect(),
        stream: Some(stream_out(&handle.stream)),
    }
}

fn stream_out(stream: &StreamHandle) -> proto::Stream {
    let kind = match stream {
        StreamHandle::Inline { bytes } => proto::StreamKind::Inline(bytes.to_vec()),
        StreamHandle::File { path, len, crc32c } => {
            proto::StreamKind::File(proto::FileHandle { path: path.clone(), len: *len, crc32c: *crc32c })
        }
    };
    proto::Stream { kind: Some(kind) }
}

/// Turns messages into the vocabulary's types, and refuses what has no meaning there.
pub(crate) struct Reader<'a> {
    pub(crate) path: &'a str,
}

impl Reader<'_> {
    pub(crate) fn bad(
        &self,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> StorageError {
        StorageError::corrupt(self.path, what, expected, found)
    }

    pub(crate) fn id16(&self, bytes: &[u8]) -> Result<[u8; 16], StorageError> {
        bytes.try_into().map_err(|_| self.bad("length of an id in bytes", 16, bytes.len()))
    }

    fn operator(&self, operator: proto::Operator) -> Result<OperatorState, StorageError> {
        let subtasks = operator.subtasks.into_iter().map(|subtask| self.subtask(subtask));
        Ok(OperatorState {
            id: OperatorId(self.id16(&operator.id)?),
            uid: operator.uid,
            name: operator.name,
            parallelism: operator.parallelism,
            max_parallelism: operator.max_parallelism,
            subtasks: subtasks.collect::<Result<_, StorageError>>()?,
            enumerator: operator.enumerator.map(Arc::from),
        })
    }

    fn subtask(&self, s: proto::Subtask) -> Result<(SubtaskIndex, OperatorSubtaskState), StorageError> {
        let state = OperatorSubtaskState {
            keyed: s.keyed.into_iter().map(|k| self.keyed(k)).collect::<Result<_, _>>()?,
            operator: s.operator.into_iter().map(|o| self.operator_handle(o)).collect::<Result<_, _>>()?,
            incremental: s.incremental.into_iter().map(|i| self.incremental(i)).collect::<Result<_, _>>()?,
        };
        Ok((SubtaskIndex(s.index), state))
    }

    fn keyed(&self, keyed: proto::Keyed) -> Result<KeyedStateHandle, StorageError> {
        let count = keyed.groups.len();
        for column in [keyed.offsets.len(), keyed.lens.len(), keyed.crc32cs.len()] {
            if column != count {
                return Err(self.bad("number of key-group sections", count, column));
            }
        }
        let rest = keyed.offsets.iter().zip(&keyed.lens).zip(&keyed.crc32cs);
        let sections = keyed.groups.iter().zip(rest).map(|(&number, ((&offset, &len), &crc32c))| {
            Ok(KeyGroupSection { group: KeyGroup(self.group(number)?), offset, len, crc32c })
        });
        let sections = sections.collect::<Result<_, StorageError>>()?;
        Ok(KeyedStateHandle {
            range: self.range(keyed.start, keyed.end)?,
            header_len: keyed.header_len,
            header_crc32c: keyed.header_crc32c,
            sections,
            stream: self.stream(keyed.stream)?,
        })
    }

    fn group(&self, number: u32) -> Result<u16, StorageError> {
        u16::try_from(number).map_err(|_| self.bad("key group", "at most 65535", number))
    }

    fn range(&self, start: u32, end: u32) -> Result<KeyGroupRange, StorageError> {
        let (start, end) = (self.group(start)?, self.group(end)?);
        match end < start {
            true => Err(self.bad("end of a key-group range", format!("at least {start}"), end)),
            false => Ok(KeyGroupRange::new(start, end)),
        }
    }

    fn incremental(&self, handle: proto::Incremental) -> Result<IncrementalHandle, StorageError> {
        if handle.names.len() != handle.streams.len() {
            return Err(self.bad("number of files", handle.names.len(), handle.streams.len()));
        }
        let files = handle.names.into_iter().zip(handle.streams);
        let file = |(name, stream)| Ok(NamedStream { name, stream: self.stream(Some(stream))? });
        Ok(IncrementalHandle {
            range: self.range(handle.start, handle.end)?,
            format: match handle.format {
                1 => IncrementalFormat::HeapChain,
                2 => IncrementalFormat::RocksDb,
                other => return Err(self.bad("form of incremental state", "1 or 2", other)),
            },
            backend: handle.backend,
            meta: self.stream(handle.meta)?,
            files: files.map(file).collect::<Result<_, StorageError>>()?,
        })
    }

    fn operator_handle(&self, handle: proto::OperatorHandle) -> Result<OperatorStateHandle, StorageError> {
        let entry = |(name, entry): (String, proto::Entry)| {
            let mode = match entry.mode {
                1 => RedistributionMode::Split,
                2 => RedistributionMode::Union,
                3 => RedistributionMode::Broadcast,
                other => return Err(self.bad("redistribution mode", "1 to 3", other)),
            };
            let (schema, offsets, end) = (entry.schema, entry.offsets, entry.end);
            Ok((name, OperatorStateEntry { mode, schema, offsets, end }))
        };
        Ok(OperatorStateHandle {
            states: handle.states.into_iter().map(entry).collect::<Result<_, _>>()?,
            stream: self.stream(handle.stream)?,
        })
    }

    fn stream(&self, stream: Option<proto::Stream>) -> Result<StreamHandle, StorageError> {
        match stream.and_then(|s| s.kind) {
            Some(proto::StreamKind::Inline(bytes)) => Ok(StreamHandle::Inline { bytes: Arc::from(bytes) }),
            Some(proto::StreamKind::File(file)) => {
                Ok(StreamHandle::File { path: file.path, len: file.len, crc32c: file.crc32c })
            }
            None => Err(self.bad("stream of a handle", "inline bytes or a file", "neither")),
        }
    }
}
