//! From what the JobManager and the tasks say to each other to messages, and back.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;
use stillstream_jobmaster::{AckMetrics, Assignment, ChannelTime, Control, Report, RestoredState, TaskTime};
use stillstream_storage::metadata::{decode_state, encode_state};
use stillstream_types::{
    CheckpointId, Error, ErrorKind, EventTime, Generation, OperatorId, OperatorSubtaskState, Result,
    SavepointFormat, SavepointTarget, SubtaskId, SubtaskIndex, TaskSnapshot,
};

use super::{
    Acknowledged, Assign, Committed, Declined, Failed, FromManager, FromWorker, Kind, Restored, Savepoint,
    State, Stopped, Subtask, SubtaskTime, Time, ToManager, Trigger,
};

impl From<SubtaskId> for Subtask {
    fn from(id: SubtaskId) -> Self {
        Self { vertex: id.vertex.0, index: id.index.0 }
    }
}

impl From<Subtask> for SubtaskId {
    fn from(subtask: Subtask) -> Self {
        Self::new(subtask.vertex, subtask.index)
    }
}

impl Time {
    fn of(time: EventTime, moved_at_ms: i64) -> Self {
        Self { watermark: time.watermark, idle: time.idle, moved_at_ms }
    }

    fn event_time(self) -> EventTime {
        EventTime { watermark: self.watermark, idle: self.idle }
    }
}

impl State {
    fn of(operator: OperatorId, index: SubtaskIndex, state: &OperatorSubtaskState) -> Self {
        Self { operator: operator.0.to_vec(), index: index.0, state: encode_state(state) }
    }

    fn read(self) -> Result<(OperatorId, SubtaskIndex, OperatorSubtaskState)> {
        const WHERE: &str = "a message between processes";
        let operator = self.operator.as_slice().try_into().map_err(|_| {
            Error::new(ErrorKind::Peer, format!("{WHERE} names an operator by {} bytes", self.operator.len()))
        })?;
        let state = decode_state(WHERE, &self.state).map_err(|error| Error::wrap(ErrorKind::Peer, error))?;
        Ok((OperatorId(operator), SubtaskIndex(self.index), state))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl From<Report> for FromWorker {
    fn from(report: Report) -> Self {
        match report {
            Report::Running(subtask) => Self::Running(subtask.into()),
            Report::Ended(subtask) => Self::Ended(subtask.into()),
            Report::SplitsWanted(subtask) => Self::SplitsWanted(subtask.into()),
            Report::EventTime { subtask, time } => Self::EventTime(SubtaskTime {
                subtask: subtask.into(),
                combined: Time::of(time.combined, 0),
                channels: time.channels.iter().map(|one| Time::of(one.time, one.moved_at_ms)).collect(),
            }),
            Report::Acknowledged { checkpoint, subtask, snapshot, metrics } => {
                Self::Acknowledged(Acknowledged {
                    checkpoint: checkpoint.0,
                    subtask: subtask.into(),
                    snapshot: snapshot
                        .operators
                        .iter()
                        .map(|(id, s)| State::of(*id, subtask.index, s))
                        .collect(),
                    start_delay_us: micros(metrics.start_delay),
                    alignment_us: micros(metrics.alignment),
                    synchronous_us: micros(metrics.synchronous),
                    asynchronous_us: micros(metrics.asynchronous),
                    set_aside_bytes: metrics.set_aside_bytes,
                })
            }
            Report::Declined { checkpoint, subtask, reason } => {
                Self::Declined(Declined { checkpoint: checkpoint.0, subtask: subtask.into(), reason })
            }
            Report::Committed { checkpoint, subtask } => {
                Self::Committed(Committed { checkpoint: checkpoint.0, subtask: subtask.into() })
            }
            Report::Failed { subtask, error } => Self::Failed(Failed {
                subtask: subtask.map(Into::into),
                kind: Kind::from(error.kind()).into(),
                message: error.to_string(),
            }),
            Report::Stopped { worker, drained } => Self::Stopped(Stopped { worker: worker as u64, drained }),
        }
    }
}

/// A report as a message. An acknowledgement above `frame_size` becomes a decline that says so.
pub(crate) fn encode_report(generation: Generation, report: Report, frame_size: u64) -> ToManager {
    let mut message = ToManager { generation: generation.0, message: Some(report.into()) };
    let size = message.encoded_len() as u64;
    if size > frame_size
        && let Some(FromWorker::Acknowledged(Acknowledged { checkpoint, subtask, .. })) = message.message
    {
        let reason = format!(
            "its acknowledgement has {size} bytes and the largest message has {frame_size} (pekko.framesize); use a file \
             system backend, or raise that setting"
        );
        message.message = Some(FromWorker::Declined(Declined { checkpoint, subtask, reason }));
    }
    message
}

/// The report in a message; `None` for a message of another kind.
pub(crate) fn decode_report(message: FromWorker) -> Result<Option<Report>> {
    Ok(Some(match message {
        FromWorker::Hello(_) | FromWorker::Listening(_) | FromWorker::Figures(_) => return Ok(None),
        FromWorker::Running(subtask) => Report::Running(subtask.into()),
        FromWorker::Ended(subtask) => Report::Ended(subtask.into()),
        FromWorker::SplitsWanted(subtask) => Report::SplitsWanted(subtask.into()),
        FromWorker::EventTime(SubtaskTime { subtask, combined, channels }) => {
            let channel = |one: Time| ChannelTime { time: one.event_time(), moved_at_ms: one.moved_at_ms };
            let channels = channels.into_iter().map(channel).collect();
            Report::EventTime {
                subtask: subtask.into(),
                time: TaskTime { combined: combined.event_time(), channels },
            }
        }
        FromWorker::Acknowledged(message) => {
            let states = message.snapshot.into_iter().map(State::read);
            let states = states.map(|state| state.map(|(operator, _, state)| (operator, state)));
            Report::Acknowledged {
                checkpoint: CheckpointId(message.checkpoint),
                subtask: message.subtask.into(),
                snapshot: TaskSnapshot { operators: states.collect::<Result<_>>()? },
                metrics: AckMetrics {
                    start_delay: Duration::from_micros(message.start_delay_us),
                    alignment: Duration::from_micros(message.alignment_us),
                    synchronous: Duration::from_micros(message.synchronous_us),
                    asynchronous: Duration::from_micros(message.asynchronous_us),
                    set_aside_bytes: message.set_aside_bytes,
                },
            }
        }
        FromWorker::Declined(Declined { checkpoint, subtask, reason }) => {
            Report::Declined { checkpoint: CheckpointId(checkpoint), subtask: subtask.into(), reason }
        }
        FromWorker::Committed(Committed { checkpoint, subtask }) => {
            Report::Committed { checkpoint: CheckpointId(checkpoint), subtask: subtask.into() }
        }
        FromWorker::Failed(failed) => {
            let error = Error::new(failed.kind().into(), failed.message);
            Report::Failed { subtask: failed.subtask.map(Into::into), error }
        }
        FromWorker::Stopped(Stopped { worker, drained }) => {
            Report::Stopped { worker: usize::try_from(worker).unwrap_or(usize::MAX), drained }
        }
    }))
}

impl From<Control> for FromManager {
    fn from(control: Control) -> Self {
        match control {
            Control::Trigger { id, at_ms, savepoint, full, stop } => {
                let savepoint = savepoint.map(|target| Savepoint {
                    location: target.location.to_string(),
                    native: target.format == SavepointFormat::Native,
                });
                Self::Trigger(Trigger { id: id.0, at_ms, savepoint, stop, full })
            }
            Control::Drain => Self::Drain(()),
            Control::Assign(assignment) => Self::Assign(assignment.into()),
            Control::Complete { id } => Self::Complete(id.0),
            Control::Aborted { id } => Self::Aborted(id.0),
            Control::Finish => Self::Finish(()),
            Control::Stop => Self::Stop(()),
        }
    }
}

impl FromManager {
    /// The control message; `None` for a message of another kind.
    pub fn control(&self) -> Option<Control> {
        Some(match self {
            Self::Trigger(Trigger { id, at_ms, savepoint, stop, full }) => {
                let format =
                    |native| if native { SavepointFormat::Native } else { SavepointFormat::Canonical };
                let savepoint = savepoint.as_ref().map(|savepoint| SavepointTarget {
                    location: savepoint.location.as_str().into(),
                    format: format(savepoint.native),
                });
                Control::Trigger { id: CheckpointId(*id), at_ms: *at_ms, savepoint, full: *full, stop: *stop }
            }
            Self::Complete(id) => Control::Complete { id: CheckpointId(*id) },
            Self::Aborted(id) => Control::Aborted { id: CheckpointId(*id) },
            Self::Drain(()) => Control::Drain,
            Self::Assign(assign) => Control::Assign(assign.read()?),
            Self::Finish(()) => Control::Finish,
            Self::Stop(()) => Control::Stop,
            Self::Prepare(()) | Self::Start(_) | Self::Shutdown(()) => return None,
        })
    }
}

impl From<Assignment> for Assign {
    fn from(assignment: Assignment) -> Self {
        let (readers, splits) = assignment.splits.iter().map(|(to, split)| (to.0, split.clone())).unzip();
        Self {
            operator: assignment.operator.0.to_vec(),
            readers,
            splits,
            answers: assignment.answers.map(|reader| reader.0),
            no_more: assignment.no_more,
        }
    }
}

impl Assign {
    fn read(&self) -> Option<Assignment> {
        let splits = self.readers.iter().map(|reader| SubtaskIndex(*reader)).zip(self.splits.iter().cloned());
        Some(Assignment {
            operator: OperatorId(self.operator.as_slice().try_into().ok()?),
            splits: splits.collect(),
            answers: self.answers.map(SubtaskIndex),
            no_more: self.no_more,
        })
    }
}

impl From<&RestoredState> for Restored {
    fn from(restored: &RestoredState) -> Self {
        let states = restored.operators.iter().flat_map(|(operator, subtasks)| {
            subtasks.iter().map(|(index, state)| State::of(*operator, *index, state))
        });
        Self {
            checkpoint: restored.checkpoint.0,
            location: restored.location.clone(),
            states: states.collect(),
        }
    }
}

impl Restored {
    pub fn read(self) -> Result<RestoredState> {
        let mut operators: BTreeMap<OperatorId, BTreeMap<SubtaskIndex, OperatorSubtaskState>> =
            BTreeMap::new();
        for state in self.states {
            let (operator, index, state) = state.read()?;
            operators.entry(operator).or_default().insert(index, state);
        }
        Ok(RestoredState {
            checkpoint: CheckpointId(self.checkpoint),
            location: self.location,
            operators,
            enumerators: BTreeMap::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ToWorker, read_frame, write_frame};
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
            decode_report(message.message.unwrap()).unwrap().unwrap()
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
        let (checkpoint, metrics) =
            (CheckpointId(9), AckMetrics { synchronous: Duration::from_micros(5), ..Default::default() });
        match frame(Report::Acknowledged { checkpoint, subtask, snapshot: snapshot.clone(), metrics }) {
            Report::Acknowledged { snapshot: found, metrics: took, .. } => {
                assert_eq!((found, took), (snapshot, metrics))
            }
            other => panic!("{other:?}"),
        }
        for control in [
            Control::Stop,
            Control::Trigger { id: checkpoint, at_ms: 12, savepoint: None, full: true, stop: false },
            Control::Trigger {
                id: checkpoint,
                at_ms: 12,
                savepoint: Some(SavepointTarget {
                    location: "/savepoints/savepoint-ababab-1".into(),
                    format: SavepointFormat::Native,
                }),
                full: false,
                stop: true,
            },
            Control::Drain,
            Control::Assign(Assignment {
                operator: OperatorId::from_uid("a"),
                splits: [(SubtaskIndex(1), vec![1, 2]), (SubtaskIndex(0), vec![])].into(),
                answers: Some(SubtaskIndex(0)),
                no_more: true,
            }),
            Control::Complete { id: checkpoint },
            Control::Aborted { id: checkpoint },
            Control::Finish,
        ] {
            let message = ToWorker { generation: 7, message: Some(control.clone().into()) };
            let mut wire = Vec::new();
            write_frame(&mut wire, &message).unwrap();
            let found: ToWorker = read_frame(&mut wire.as_slice()).unwrap();
            assert_eq!((found.generation, found.message.unwrap().control()), (7, Some(control)));
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
        let (checkpoint, subtask, metrics) = (CheckpointId(9), SubtaskId::new(1, 0), AckMetrics::default());
        let report = Report::Acknowledged { checkpoint, subtask, snapshot: snapshot.clone(), metrics };
        match decode_report(encode_report(Generation(1), report, 1 << 20).message.unwrap()).unwrap() {
            Some(Report::Acknowledged { snapshot: found, .. }) => assert_eq!(found, snapshot),
            other => panic!("{other:?}"),
        }
        let restored = RestoredState {
            checkpoint,
            location: Some("/elsewhere/chk-9".into()),
            operators: [(operator, [(SubtaskIndex(3), state)].into())].into(),
            enumerators: BTreeMap::new(),
        };
        let found = Restored::from(&restored).read().unwrap();
        assert_eq!(
            (found.checkpoint, found.location, found.operators),
            (restored.checkpoint, restored.location, restored.operators)
        );
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
            metrics: AckMetrics::default(),
        };
        let message = encode_report(Generation(1), report, 10 << 20);
        match decode_report(message.message.unwrap()).unwrap() {
            Some(Report::Acknowledged { snapshot: found, .. }) => assert_eq!(found, snapshot),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_acknowledgement_above_the_frame_size_is_declined_with_both_numbers() {
        let report = Report::Acknowledged {
            checkpoint: CheckpointId(1),
            subtask: SubtaskId::new(0, 0),
            snapshot: TaskSnapshot { operators: vec![(OperatorId::from_uid("a"), Default::default())] },
            metrics: AckMetrics::default(),
        };
        match decode_report(encode_report(Generation(1), report, 10).message.unwrap()).unwrap() {
            Some(Report::Declined { reason, .. }) => {
                assert!(reason.contains("largest message has 10"), "{reason}")
            }
            other => panic!("{other:?}"),
        }
    }
}
