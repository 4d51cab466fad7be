//! A job engine driven by hand, with storage that answers at once, or not at all.

mod attempts;
mod ends;
mod exceptions;
mod stop;

use std::time::Duration;

use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointType, CompletedRef, Error, ErrorKind, Generation, JobId,
    JobOutcome, RegisterRecord, RestartStrategy, Result, SavepointFormat, SavepointTarget, SubtaskId,
    SubtaskIndex, TaskSnapshot, VertexId,
};

use super::engine::JobEngine;
use super::interface::{JobCommand, JobEvent, JobSetup, Level, RestoreFrom, StopRequest};
use super::status::JobStatus;
use crate::checkpoint::config::CheckpointConfig;
use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::FailureReason;
use crate::checkpoint::storage::{
    FoundRegister, References, RegisterOutcome, StorageAnswer, StorageCall, WriteOutcome,
};
use crate::message::{AckMetrics, Control, Report, RestoredState};
use crate::moment::Moment;
use crate::plan::TaskInfo;

const SECOND: Duration = Duration::from_secs(1);
const SOURCE: SubtaskId = SubtaskId { vertex: VertexId(0), index: SubtaskIndex(0) };
const SINK: SubtaskId = SubtaskId { vertex: VertexId(1), index: SubtaskIndex(0) };

/// What storage does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Storage {
    Answers,
    /// Writes of the register fail, and surely so.
    RefusesTheRegister,
    Silent,
}

struct Bench {
    engine: JobEngine,
    now: Duration,
    storage: Storage,
    register: Option<RegisterRecord>,
    /// Commands that are not carried out here.
    seen: Vec<JobCommand>,
    ended: Option<Result<()>>,
}

impl Bench {
    fn new(interval: Option<Duration>, attempts: u32) -> Self {
        let task = |id: SubtaskId, name: &str| TaskInfo {
            id,
            name: name.into(),
            operators: Vec::new(),
            is_source: id == SOURCE,
        };
        let setup = JobSetup {
            job: JobId::from_name("job"),
            name: "job".into(),
            checkpoint: CheckpointConfig { interval, ..CheckpointConfig::default() },
            restart: RestartStrategy::FixedDelay { attempts, delay: SECOND },
            tasks: vec![task(SOURCE, "flights"), task(SINK, "out")],
            workers: 1,
            from_snapshot: None,
            place: "memory".into(),
            durable: true,
            register: None,
            first_delay: 1.0,
            cancellation_timeout: SECOND * 30,
            end_timeout: SECOND * 60,
        };
        Self {
            engine: JobEngine::new(setup, Duration::ZERO).unwrap(),
            now: Duration::ZERO,
            storage: Storage::Answers,
            register: None,
            seen: Vec::new(),
            ended: None,
        }
    }

    /// A job with checkpoints and two restarts, whose first attempt runs.
    fn running() -> Self {
        let mut bench = Self::new(Some(SECOND * 10), 2);
        bench.on(JobEvent::Submitted);
        bench.open();
        bench
    }

    fn on(&mut self, event: JobEvent) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let at = Moment { now: self.now, wall_ms: self.now.as_millis() as i64, random: 0.5 };
            let commands = self.engine.handle(event, at);
            // answers come in the order of the calls
            let mut answers = Vec::new();
            for command in commands {
                answers.extend(self.carry_out(command));
            }
            events.extend(answers.into_iter().rev());
        }
    }

    fn carry_out(&mut self, command: JobCommand) -> Option<JobEvent> {
        match command {
            JobCommand::Storage(call) => return self.answer(call).map(JobEvent::Storage),
            JobCommand::ReadSnapshot { generation, from } if self.storage == Storage::Answers => {
                let state =
                    |own: CompletedRef| RestoredState { checkpoint: own.id, ..RestoredState::default() };
                let result = Ok(match from {
                    RestoreFrom::Own(own) => Some(state(own)),
                    RestoreFrom::Snapshot(_) | RestoreFrom::Nothing => None,
                });
                return Some(JobEvent::Restored { generation, result });
            }
            JobCommand::End(result) => {
                assert!(self.ended.is_none(), "a second end: {result:?}");
                self.ended = Some(result);
            }
            other => self.seen.push(other),
        }
        None
    }

    fn answer(&mut self, call: StorageCall) -> Option<StorageAnswer> {
        if self.storage == Storage::Silent {
            return None;
        }
        Some(match call {
            StorageCall::UpdateRegister { .. } if self.storage == Storage::RefusesTheRegister => {
                let outcome = RegisterOutcome::Failed("no space".into());
                StorageAnswer::RegisterUpdated { outcome }
            }
            StorageCall::UpdateRegister { expected, record } => {
                assert_eq!(self.register, expected);
                self.register = Some(record);
                StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written }
            }
            StorageCall::ReadRegister => {
                let found = self.register.clone().map_or(FoundRegister::Missing, FoundRegister::Own);
                StorageAnswer::RegisterRead { result: Ok(found) }
            }
            StorageCall::ListDirectories => StorageAnswer::DirectoriesListed { names: Vec::new() },
            StorageCall::ReadReferences { completed, .. } => {
                let found = completed.into_iter().map(|checkpoint| (checkpoint.id, Vec::new())).collect();
                StorageAnswer::ReferencesRead { references: References { found, ..References::default() } }
            }
            StorageCall::ListShared => StorageAnswer::SharedListed { result: Ok(Vec::new()) },
            StorageCall::WriteMetadata { metadata, .. } => {
                StorageAnswer::MetadataWritten { checkpoint: metadata.id, outcome: WriteOutcome::Written }
            }
            StorageCall::Discard { discard, .. } => StorageAnswer::DiscardDone { discard, failure: None },
        })
    }

    fn report(&mut self, report: Report) {
        let generation = self.engine.generation();
        self.on(JobEvent::Report(generation, report));
    }

    /// All tasks open.
    fn open(&mut self) {
        assert!(self.saw(|command| matches!(command, JobCommand::Deploy(_))));
        self.report(Report::Running(SOURCE));
        self.report(Report::Running(SINK));
        assert_eq!(self.engine.status(), JobStatus::Running);
    }

    fn fails(&mut self, kind: ErrorKind) {
        self.report(Report::Failed { subtask: Some(SINK), error: Error::new(kind, "it broke") });
    }

    fn stops(&mut self, drained: bool) {
        self.report(Report::Stopped { worker: 0, drained });
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.on(JobEvent::Tick);
    }

    /// The input ends, and the final checkpoint 1 completes.
    fn up_to_commit(&mut self) {
        self.report(Report::Ended(SOURCE));
        self.report(Report::Ended(SINK));
        self.acknowledge(1);
        assert!(self.told(Control::Complete { id: CheckpointId(1) }));
    }

    fn acknowledge(&mut self, id: u64) {
        for subtask in [SOURCE, SINK] {
            let (checkpoint, snapshot, metrics) =
                (CheckpointId(id), TaskSnapshot::default(), AckMetrics::default());
            self.report(Report::Acknowledged { checkpoint, subtask, snapshot, metrics });
        }
    }

    fn commit(&mut self) {
        for subtask in [SOURCE, SINK] {
            self.report(Report::Committed { checkpoint: CheckpointId(1), subtask });
        }
    }

    /// Whether there was such a command since this was last asked.
    fn saw(&mut self, what: impl Fn(&JobCommand) -> bool) -> bool {
        std::mem::take(&mut self.seen).iter().any(what)
    }

    fn told(&mut self, wanted: Control) -> bool {
        self.saw(|command| matches!(command, JobCommand::Tell { control, .. } if *control == wanted))
    }

    fn outcome(&self) -> Option<JobOutcome> {
        self.register.as_ref().map(|record| record.outcome)
    }

    fn error(&self) -> String {
        match &self.ended {
            Some(Err(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

fn failed(kind: ErrorKind) -> JobEvent {
    let report = Report::Failed { subtask: None, error: Error::new(kind, "it broke") };
    JobEvent::Report(Generation(1), report)
}

impl Bench {
    /// Checkpoint 1 is acknowledged by all, its metadata is written, and the register is being written.
    fn up_to_metadata(&mut self) {
        self.acknowledge(1);
        let (checkpoint, outcome) = (CheckpointId(1), WriteOutcome::Written);
        self.on(JobEvent::Storage(StorageAnswer::MetadataWritten { checkpoint, outcome }));
    }
}
