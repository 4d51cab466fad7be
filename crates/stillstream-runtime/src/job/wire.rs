//! Frames between the JobManager and its worker processes: a `u32` length (little-endian), then a protobuf message. Every
//! message carries the generation that it belongs to.

use std::io::{self, Read, Write};

use prost::Message as _;
use stillstream_storage::metadata::{Anchor, decode, encode};
use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointMetadata, Error, ErrorKind, Generation, JobId, OperatorId,
    OperatorState, Result, SubtaskId, SubtaskIndex, TaskSnapshot,
};

use crate::control::{ChannelTime, Control, Report, RestoredState, SnapshotTimes, TaskTime};
use crate::operator::event_time::EventTime;

/// From a worker process. `kind` says which of the fields count.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ToManager {
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    #[prost(uint64, tag = "3")]
    pub checkpoint: u64,
    #[prost(uint32, tag = "4")]
    pub vertex: u32,
    #[prost(uint32, tag = "5")]
    pub index: u32,
    #[prost(bool, tag = "6")]
    pub flag: bool,
    #[prost(string, tag = "7")]
    pub text: String,
    #[prost(uint64, repeated, tag = "8")]
    pub numbers: Vec<u64>,
    #[prost(bytes = "vec", tag = "9")]
    pub body: Vec<u8>,
    #[prost(string, repeated, tag = "10")]
    pub names: Vec<String>,
}

pub(crate) mod kind {
    pub const HELLO: u32 = 1;
    pub const LISTENING: u32 = 2;
    pub const RUNNING: u32 = 3;
    pub const ENDED: u32 = 4;
    pub const ACKNOWLEDGED: u32 = 5;
    pub const DECLINED: u32 = 6;
    pub const COMMITTED: u32 = 7;
    pub const FAILED: u32 = 8;
    pub const STOPPED: u32 = 9;
    pub const METRICS: u32 = 10;
    pub const EVENT_TIME: u32 = 11;

    pub const PREPARE: u32 = 1;
    pub const START: u32 = 2;
    pub const CONTROL: u32 = 3;
    pub const SHUTDOWN: u32 = 4;
}

/// To a worker process. `kind` says which of the fields count.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ToWorker {
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(uint64, tag = "2")]
    pub generation: u64,
    /// Of a control message: 1 trigger, 2 complete, 3 aborted, 4 finish, 5 stop.
    #[prost(uint32, tag = "3")]
    pub control: u32,
    #[prost(uint64, tag = "4")]
    pub id: u64,
    #[prost(int64, tag = "5")]
    pub at_ms: i64,
    #[prost(string, repeated, tag = "6")]
    pub addresses: Vec<String>,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub restored: Option<Vec<u8>>,
    #[prost(string, optional, tag = "8")]
    pub location: Option<String>,
}

/// A frame that no honest peer sends.
const LARGEST_FRAME: usize = 1 << 30;
/// The same for the first frame of a connection, which is read before it is known who has sent it.
pub(crate) const LARGEST_HELLO: usize = 1 << 10;

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The length of a frame, from its first four bytes.
pub(crate) fn frame_len(head: [u8; 4], largest: usize) -> io::Result<usize> {
    let len = u32::from_le_bytes(head) as usize;
    if len > largest {
        let text = format!(
            "a frame of {len} bytes where at most {largest} are allowed; the peer is no Stillstream process"
        );
        return Err(invalid(text));
    }
    Ok(len)
}

pub(crate) fn write_frame(stream: &mut impl Write, message: &impl prost::Message) -> io::Result<()> {
    let len = message.encoded_len();
    if len > LARGEST_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a message between processes has {len} bytes and at most {LARGEST_FRAME} are allowed; use a file system backend"
            ),
        ));
    }
    let mut bytes = Vec::with_capacity(4 + len);
    bytes.extend_from_slice(&(len as u32).to_le_bytes());
    message.encode(&mut bytes).map_err(io::Error::other)?;
    stream.write_all(&bytes)
}

pub(crate) fn read_frame<M: prost::Message + Default>(stream: &mut impl Read) -> io::Result<M> {
    let mut head = [0u8; 4];
    stream.read_exact(&mut head)?;
    let len = frame_len(head, LARGEST_FRAME)?;
    // memory grows with what has come, not with what is promised
    let mut bytes = Vec::new();
    stream.take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decode_frame(&bytes)
}

/// The message in the body of a frame.
pub(crate) fn decode_frame<M: prost::Message + Default>(bytes: &[u8]) -> io::Result<M> {
    M::decode(bytes).map_err(|error| invalid(error.to_string()))
}

/// State by operator and subtask, in the form of `_metadata`.
fn pack(id: CheckpointId, operators: Vec<OperatorState>) -> Vec<u8> {
    let metadata = CheckpointMetadata {
        id,
        job: JobId([0; 16]),
        job_name: String::new(),
        generation: Generation(0),
        kind: CheckpointKind::Checkpoint,
        triggered_at_ms: 0,
        operators,
    };
    encode(&metadata, Anchor::Parent)
}

fn unpack(bytes: &[u8]) -> Result<CheckpointMetadata> {
    let (metadata, _) =
        decode("a message between processes", bytes).map_err(|error| Error::wrap(ErrorKind::Peer, error))?;
    Ok(metadata)
}

fn operator_state(
    id: OperatorId,
    subtasks: impl IntoIterator<Item = (SubtaskIndex, stillstream_types::OperatorSubtaskState)>,
) -> OperatorState {
    let subtasks: std::collections::BTreeMap<_, _> = subtasks.into_iter().collect();
    let parallelism = subtasks.keys().next_back().map_or(1, |index| index.0 + 1);
    let max_parallelism = stillstream_types::key_group::UPPER_MAX_PARALLELISM;
    OperatorState { id, uid: None, name: String::new(), parallelism, max_parallelism, subtasks }
}

pub(crate) fn encode_restored(restored: &RestoredState) -> Vec<u8> {
    let operators =
        restored.operators.iter().map(|(id, subtasks)| operator_state(*id, subtasks.clone())).collect();
    pack(restored.checkpoint, operators)
}

pub(crate) fn decode_restored(bytes: &[u8], location: Option<String>) -> Result<RestoredState> {
    let metadata = unpack(bytes)?;
    let operators = metadata.operators.into_iter().map(|operator| (operator.id, operator.subtasks)).collect();
    Ok(RestoredState { checkpoint: metadata.id, location, operators })
}

const KINDS: [ErrorKind; 13] = [
    ErrorKind::Configuration,
    ErrorKind::Plan,
    ErrorKind::State,
    ErrorKind::CorruptSnapshot,
    ErrorKind::Checkpoint,
    ErrorKind::Storage,
    ErrorKind::Connector,
    ErrorKind::User,
    ErrorKind::Panic,
    ErrorKind::Peer,
    ErrorKind::Fenced,
    ErrorKind::Cancelled,
    ErrorKind::Timeout,
];

/// A report as a message. An acknowledgement above `frame_size` becomes a decline that says so.
pub(crate) fn encode_report(generation: Generation, report: Report, frame_size: u64) -> ToManager {
    let mut message = ToManager { generation: generation.0, ..ToManager::default() };
    let mut of = |kind: u32, subtask: Option<SubtaskId>| {
        message.kind = kind;
        if let Some(subtask) = subtask {
            (message.vertex, message.index) = (subtask.vertex.0, subtask.index.0);
        }
    };
    match report {
        Report::Running(subtask) => of(kind::RUNNING, Some(subtask)),
        Report::Ended(subtask) => of(kind::ENDED, Some(subtask)),
        Report::Acknowledged { checkpoint, subtask, snapshot, times } => {
            of(kind::ACKNOWLEDGED, Some(subtask));
            message.checkpoint = checkpoint.0;
            message.numbers = vec![times.start_delay_us, times.alignment_us, times.sync_us, times.async_us];
            let operators = snapshot.operators.into_iter();
            message.body = pack(
                checkpoint,
                operators.map(|(id, state)| operator_state(id, [(SubtaskIndex(0), state)])).collect(),
            );
            let size = message.encoded_len() as u64;
            if size > frame_size {
                message.kind = kind::DECLINED;
                message.body = Vec::new();
                message.text = format!(
                    "its acknowledgement has {size} bytes and the largest message has {frame_size} (pekko.framesize); use a file \
                     system backend, or raise that setting"
                );
            }
        }
        Report::Declined { checkpoint, subtask, reason } => {
            of(kind::DECLINED, Some(subtask));
            (message.checkpoint, message.text) = (checkpoint.0, reason);
        }
        Report::Committed { checkpoint, subtask } => {
            of(kind::COMMITTED, Some(subtask));
            message.checkpoint = checkpoint.0;
        }
        Report::Failed { subtask, error } => {
            of(kind::FAILED, subtask);
            message.flag = subtask.is_some();
            message.numbers = vec![KINDS.iter().position(|kind| *kind == error.kind()).unwrap_or(7) as u64];
            message.text = error.to_string();
        }
        Report::EventTime { subtask, time } => {
            of(kind::EVENT_TIME, Some(subtask));
            let pair = |time: EventTime| [time.watermark as u64, u64::from(time.idle)];
            message.numbers.extend(pair(time.combined));
            for channel in time.channels {
                message.numbers.extend(pair(channel.time));
                message.numbers.push(channel.moved_at_ms as u64);
            }
        }
        Report::Stopped { worker, drained } => {
            of(kind::STOPPED, None);
            message.numbers = vec![worker as u64];
            message.flag = drained;
        }
    }
    message
}

/// The report in a message; `None` for other messages.
pub(crate) fn decode_report(message: ToManager) -> Result<Option<Report>> {
    let subtask = SubtaskId::new(message.vertex, message.index);
    let checkpoint = CheckpointId(message.checkpoint);
    let number = |at: usize| message.numbers.get(at).copied().unwrap_or(0);
    Ok(Some(match message.kind {
        kind::RUNNING => Report::Running(subtask),
        kind::ENDED => Report::Ended(subtask),
        kind::ACKNOWLEDGED => {
            let times = SnapshotTimes {
                start_delay_us: number(0),
                alignment_us: number(1),
                sync_us: number(2),
                async_us: number(3),
            };
            let operators = unpack(&message.body)?.operators.into_iter();
            let first = |operator: OperatorState| {
                (operator.id, operator.subtasks.into_values().next().unwrap_or_default())
            };
            let snapshot = TaskSnapshot { operators: operators.map(first).collect() };
            Report::Acknowledged { checkpoint, subtask, snapshot, times }
        }
        kind::EVENT_TIME => {
            let pair = |numbers: &[u64]| EventTime { watermark: numbers[0] as i64, idle: numbers[1] != 0 };
            let (combined, channels) = message.numbers.split_at(message.numbers.len().min(2));
            let channels = channels
                .chunks_exact(3)
                .map(|numbers| ChannelTime { time: pair(numbers), moved_at_ms: numbers[2] as i64 });
            let combined = if combined.len() == 2 { pair(combined) } else { EventTime::START };
            Report::EventTime { subtask, time: TaskTime { combined, channels: channels.collect() } }
        }
        kind::DECLINED => Report::Declined { checkpoint, subtask, reason: message.text },
        kind::COMMITTED => Report::Committed { checkpoint, subtask },
        kind::FAILED => {
            let kind = KINDS.get(number(0) as usize).copied().unwrap_or(ErrorKind::User);
            Report::Failed { subtask: message.flag.then_some(subtask), error: Error::new(kind, message.text) }
        }
        kind::STOPPED => Report::Stopped { worker: number(0) as usize, drained: message.flag },
        _ => return Ok(None),
    }))
}

pub(crate) fn encode_control(generation: Generation, control: &Control) -> ToWorker {
    let (control, id, at_ms) = match control {
        Control::Trigger { id, at_ms } => (1, id.0, *at_ms),
        Control::Complete { id } => (2, id.0, 0),
        Control::Aborted { id } => (3, id.0, 0),
        Control::Finish => (4, 0, 0),
        Control::Stop => (5, 0, 0),
    };
    ToWorker { kind: kind::CONTROL, generation: generation.0, control, id, at_ms, ..ToWorker::default() }
}

pub(crate) fn decode_control(message: &ToWorker) -> Option<Control> {
    let id = CheckpointId(message.id);
    Some(match message.control {
        1 => Control::Trigger { id, at_ms: message.at_ms },
        2 => Control::Complete { id },
        3 => Control::Aborted { id },
        4 => Control::Finish,
        5 => Control::Stop,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_controls_survive_the_way_between_processes() {
        let generation = Generation(7);
        let subtask = SubtaskId::new(2, 3);
        let error = Error::new(ErrorKind::Panic, "it broke");
        let frame = |report| {
            let mut wire = Vec::new();
            write_frame(&mut wire, &encode_report(generation, report, 1 << 20)).unwrap();
            let message: ToManager = read_frame(&mut wire.as_slice()).unwrap();
            assert_eq!(message.generation, 7);
            decode_report(message).unwrap().unwrap()
        };
        match frame(Report::Failed { subtask: Some(subtask), error }) {
            Report::Failed { subtask: Some(who), error } => {
                assert_eq!(
                    (who, error.kind(), error.to_string().as_str()),
                    (subtask, ErrorKind::Panic, "it broke")
                );
            }
            other => panic!("{other:?}"),
        }
        let snapshot = TaskSnapshot { operators: vec![(OperatorId::from_uid("a"), Default::default())] };
        let (checkpoint, times) = (CheckpointId(9), SnapshotTimes { sync_us: 5, ..Default::default() });
        match frame(Report::Acknowledged { checkpoint, subtask, snapshot: snapshot.clone(), times }) {
            Report::Acknowledged { snapshot: found, times: took, .. } => {
                assert_eq!((found, took), (snapshot, times))
            }
            other => panic!("{other:?}"),
        }
        for control in [
            Control::Stop,
            Control::Trigger { id: checkpoint, at_ms: 12 },
            Control::Complete { id: checkpoint },
        ] {
            assert_eq!(decode_control(&encode_control(generation, &control)), Some(control));
        }
    }

    #[test]
    fn state_that_shares_files_between_checkpoints_survives_the_way_in_both_directions() {
        use stillstream_types::{
            IncrementalFormat, IncrementalHandle, KeyGroupRange, NamedStream, StreamHandle,
        };
        let file = |path: &str| StreamHandle::File { path: path.into(), len: 3 << 30, crc32c: 0xfeed_beef };
        let state = stillstream_types::OperatorSubtaskState {
            incremental: vec![IncrementalHandle {
                range: KeyGroupRange::new(64, 128),
                format: IncrementalFormat::RocksDb,
                backend: u64::MAX,
                meta: StreamHandle::Inline { bytes: [1, 2].as_slice().into() },
                files: vec![
                    NamedStream { name: "000007.sst".into(), stream: file("shared/3-1-0-000007-1") },
                    NamedStream { name: "MANIFEST".into(), stream: file("chk-9/1-0-MANIFEST-2") },
                ],
            }],
            ..Default::default()
        };
        let operator = OperatorId::from_uid("a");
        let snapshot = TaskSnapshot { operators: vec![(operator, state.clone())] };
        let (checkpoint, subtask, times) = (CheckpointId(9), SubtaskId::new(1, 0), SnapshotTimes::default());
        let report = Report::Acknowledged { checkpoint, subtask, snapshot: snapshot.clone(), times };
        match decode_report(encode_report(Generation(1), report, 1 << 20)).unwrap() {
            Some(Report::Acknowledged { snapshot: found, .. }) => assert_eq!(found, snapshot),
            other => panic!("{other:?}"),
        }
        let restored = RestoredState {
            checkpoint,
            location: Some("/elsewhere/chk-9".into()),
            operators: [(operator, [(SubtaskIndex(3), state)].into())].into(),
        };
        let found = decode_restored(&encode_restored(&restored), restored.location.clone()).unwrap();
        assert_eq!((found.checkpoint, found.operators), (restored.checkpoint, restored.operators));
    }

    #[test]
    fn an_acknowledgement_that_names_twenty_thousand_files_fits_into_the_default_frame() {
        use stillstream_types::{
            IncrementalFormat, IncrementalHandle, KeyGroupRange, NamedStream, StreamHandle,
        };
        let file = |path: String| StreamHandle::File { path, len: 3 << 30, crc32c: 0xfeed_beef };
        let named = |n: u32| NamedStream {
            name: format!("{n:06}.sst"),
            stream: file(format!("shared/123456-127-totals-{n:06}-sst-0123456789abcdef-{n}")),
        };
        let state = stillstream_types::OperatorSubtaskState {
            incremental: vec![IncrementalHandle {
                range: KeyGroupRange::new(0, 64),
                format: IncrementalFormat::RocksDb,
                backend: 1,
                meta: file("chk-123456/meta".into()),
                files: (0..20_000).map(named).collect(),
            }],
            ..Default::default()
        };
        let snapshot = TaskSnapshot { operators: vec![(OperatorId::from_uid("totals"), state)] };
        let report = Report::Acknowledged {
            checkpoint: CheckpointId(123_456),
            subtask: SubtaskId::new(1, 127),
            snapshot: snapshot.clone(),
            times: SnapshotTimes::default(),
        };
        let message = encode_report(Generation(1), report, super::super::settings::DEFAULT_FRAME_SIZE);
        match decode_report(message).unwrap() {
            Some(Report::Acknowledged { snapshot: found, .. }) => assert_eq!(found, snapshot),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_frame_costs_the_memory_of_what_has_come_and_not_of_what_it_promises() {
        let mut wire = (1u32 << 30).to_le_bytes().to_vec();
        wire.extend_from_slice(b"and then nothing");
        let error = read_frame::<ToManager>(&mut wire.as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = frame_len([0, 0, 0, 64], LARGEST_HELLO).unwrap_err();
        assert!(error.to_string().contains("at most 1024"), "{error}");
    }

    #[test]
    fn an_acknowledgement_above_the_frame_size_is_declined_with_both_numbers() {
        let report = Report::Acknowledged {
            checkpoint: CheckpointId(1),
            subtask: SubtaskId::new(0, 0),
            snapshot: TaskSnapshot { operators: vec![(OperatorId::from_uid("a"), Default::default())] },
            times: SnapshotTimes::default(),
        };
        match decode_report(encode_report(Generation(1), report, 10)).unwrap() {
            Some(Report::Declined { reason, .. }) => {
                assert!(reason.contains("largest message has 10"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    }
}
