//! A coordinator driven by hand: set state, call, compare commands.

mod abort;
mod acknowledge;
mod attempt;
mod complete;
mod cost;
mod finish;
mod savepoint;
mod shared;
mod stop;
mod trigger;

use std::collections::BTreeMap;
use std::time::Duration;

use stillstream_types::{
    CheckpointId, CheckpointKind, CompletedRef, ErrorKind, Generation, JobEnd, JobFigures, JobId, JobOutcome,
    OperatorId, OperatorStateHandle, OperatorSubtaskState, RegisterRecord, SavepointFormat, SavepointTarget,
    StreamHandle, SubtaskId, TaskSnapshot,
};

use super::{CheckpointCoordinator, CoordinatorSetup};
use crate::checkpoint::command::Command;
use crate::checkpoint::config::CheckpointConfig;
use crate::checkpoint::event::{Event, RequestId};
use crate::checkpoint::failure::FailureReason;
use crate::checkpoint::storage::{
    DiscardTarget, FoundRegister, References, RegisterOutcome, StorageAnswer, StorageCall, WriteOutcome,
};
use crate::message::{AckMetrics, Control};
use crate::moment::Moment;
use crate::plan::{OperatorInfo, TaskInfo};

const SECOND: Duration = Duration::from_secs(1);

/// The wall clock says 1000 s when the coordinator begins.
fn at(now: Duration) -> Moment {
    Moment { now, wall_ms: 1_000_000 + now.as_millis() as i64, random: 0.5 }
}

fn source() -> SubtaskId {
    SubtaskId::new(0, 0)
}

fn sink() -> SubtaskId {
    SubtaskId::new(1, 0)
}

fn operator(subtask: SubtaskId) -> OperatorId {
    OperatorId::from_uid(&format!("op-{}", subtask.vertex))
}

fn tasks() -> Vec<TaskInfo> {
    let task = |id: SubtaskId, name: &str| TaskInfo {
        id,
        name: name.to_owned(),
        operators: vec![OperatorInfo {
            id: operator(id),
            uid: Some(format!("op-{}", id.vertex)),
            name: name.to_owned(),
            parallelism: 1,
            max_parallelism: 128,
        }],
        is_source: id == source(),
    };
    vec![task(source(), "flights"), task(sink(), "out")]
}

fn every_ten_seconds() -> CheckpointConfig {
    CheckpointConfig { interval: Some(SECOND * 10), ..CheckpointConfig::default() }
}

fn state(subtask: SubtaskId, path: &str) -> TaskSnapshot {
    let stream = StreamHandle::File { path: path.to_owned(), len: 100, crc32c: 0 };
    let operator_state = vec![OperatorStateHandle { states: BTreeMap::new(), stream }];
    let state = OperatorSubtaskState { operator: operator_state, ..OperatorSubtaskState::default() };
    TaskSnapshot { operators: vec![(operator(subtask), state)] }
}

fn reference(id: u64) -> CompletedRef {
    CompletedRef { id: CheckpointId(id), path: format!("chk-{id}") }
}

struct Bench {
    coordinator: CheckpointCoordinator,
    now: Duration,
    generation: Generation,
}

impl Bench {
    fn new(config: CheckpointConfig, register: Option<RegisterRecord>) -> Self {
        let coordinator = CheckpointCoordinator::new(CoordinatorSetup {
            job: JobId::from_name("job"),
            job_name: "job".into(),
            config,
            register,
            first_delay: 1.0,
            end_timeout: SECOND * 180,
        });
        Self { coordinator: coordinator.unwrap(), now: Duration::ZERO, generation: Generation(0) }
    }

    /// A bench with a running attempt of a new job.
    fn running(config: CheckpointConfig) -> Self {
        let mut bench = Self::new(config, None);
        bench.start();
        bench
    }

    fn start(&mut self) {
        self.on(Event::AttemptRequested);
        let commands = self.register_written();
        let begun = commands.iter().find_map(|command| match command {
            Command::BeginAttempt { generation, .. } => Some(*generation),
            _ => None,
        });
        self.generation = begun.unwrap();
        if commands
            .iter()
            .any(|command| matches!(command, Command::Storage(StorageCall::ReadReferences { .. })))
        {
            self.references_read(&[]);
        }
        self.on(Event::AttemptStarted {
            generation: self.generation,
            tasks: tasks(),
            enumerators: Default::default(),
        });
    }

    /// The metadata of all checkpoints that the register names has been read; these name shared files.
    fn references_read(&mut self, shared: &[(u64, &[&str])]) -> Vec<Command> {
        let record = self.coordinator.register().cloned();
        let named = record.iter().flat_map(|record| record.completed.iter().chain(&record.retained));
        let files = |id: CheckpointId| {
            let found = shared.iter().find(|(of, _)| *of == id.0);
            (id, found.map_or_else(Vec::new, |(_, files)| files.iter().map(|f| (*f).to_owned()).collect()))
        };
        let found = named.map(|checkpoint| files(checkpoint.id)).collect();
        self.on(Event::Storage(StorageAnswer::ReferencesRead {
            references: References { found, ..References::default() },
        }))
    }

    /// Hands an event in; commands that only log or set the alarm are left out.
    fn on(&mut self, event: Event) -> Vec<Command> {
        let quiet = |c: &Command| matches!(c, Command::WakeAt(_) | Command::Warn(_) | Command::Info(_));
        let undated = |command: Command| match command {
            Command::Tell { generation, control: Control::Trigger { id, savepoint, full, stop, .. } } => {
                told(generation.0, id.0, savepoint, full, stop)
            }
            command => command,
        };
        self.all(event).into_iter().filter(|command| !quiet(command)).map(undated).collect()
    }

    fn all(&mut self, event: Event) -> Vec<Command> {
        self.coordinator.handle(event, at(self.now))
    }

    fn wait(&mut self, time: Duration) -> Vec<Command> {
        self.now += time;
        self.on(Event::Tick)
    }

    fn register_written(&mut self) -> Vec<Command> {
        self.on(Event::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written }))
    }

    fn request(&mut self, request: u64, forced: bool) -> Vec<Command> {
        self.on(Event::TriggerRequested { request: RequestId(request), savepoint: None, full: false, forced })
    }

    fn savepoint(&mut self, request: u64, location: &str) -> Vec<Command> {
        let savepoint = Some(target(location));
        self.on(Event::TriggerRequested {
            request: RequestId(request),
            savepoint,
            full: false,
            forced: false,
        })
    }

    fn ack_event(&self, id: u64, subtask: SubtaskId) -> Event {
        Event::Acknowledge {
            generation: self.generation,
            checkpoint: CheckpointId(id),
            subtask,
            snapshot: state(subtask, &format!("chk-{id}/{subtask}")),
            metrics: AckMetrics { asynchronous: Duration::from_millis(40), ..AckMetrics::default() },
        }
    }

    fn ack(&mut self, id: u64, subtask: SubtaskId) -> Vec<Command> {
        let event = self.ack_event(id, subtask);
        self.on(event)
    }

    fn metadata(&mut self, id: u64, outcome: WriteOutcome) -> Vec<Command> {
        self.on(Event::Storage(StorageAnswer::MetadataWritten { checkpoint: CheckpointId(id), outcome }))
    }

    /// Triggers a checkpoint by hand, up to the barrier.
    fn trigger(&mut self, id: u64) {
        let commands = self.request(id, true);
        assert!(commands.contains(&trigger(self.generation.0, id)), "{commands:?}");
    }

    /// Triggers a checkpoint and lets all acknowledge and the metadata be written.
    fn up_to_register(&mut self, id: u64) -> Vec<Command> {
        self.trigger(id);
        self.ack(id, source());
        self.ack(id, sink());
        self.metadata(id, WriteOutcome::Written)
    }

    fn complete(&mut self, id: u64) -> Vec<Command> {
        self.up_to_register(id);
        self.register_written()
    }

    fn decline(&mut self, id: u64, subtask: SubtaskId) -> Vec<Command> {
        self.on(Event::Decline {
            generation: self.generation,
            checkpoint: CheckpointId(id),
            subtask,
            message: "disk full".into(),
        })
    }
}

/// The word to the sources.
fn trigger(generation: u64, id: u64) -> Command {
    trigger_as(generation, id, None, false)
}

fn trigger_as(generation: u64, id: u64, savepoint: Option<SavepointTarget>, stop: bool) -> Command {
    told(generation, id, savepoint, false, stop)
}

fn told(generation: u64, id: u64, savepoint: Option<SavepointTarget>, full: bool, stop: bool) -> Command {
    // the time is looked at elsewhere
    let control = Control::Trigger { id: CheckpointId(id), at_ms: 0, savepoint, full, stop };
    Command::Tell { generation: Generation(generation), control }
}

fn target(location: &str) -> SavepointTarget {
    SavepointTarget { location: location.into(), format: SavepointFormat::Canonical }
}

fn savepoint_ref(id: u64, location: &str) -> CompletedRef {
    CompletedRef { id: CheckpointId(id), path: location.into() }
}

fn discarded(commands: &[Command]) -> Vec<DiscardTarget> {
    let target = |command: &Command| match command {
        Command::Storage(StorageCall::Discard { target, .. }) => Some(target.clone()),
        _ => None,
    };
    commands.iter().filter_map(target).collect()
}

fn directory(id: u64) -> Vec<DiscardTarget> {
    directory_and(id, &[])
}

fn directory_and(id: u64, shared: &[&str]) -> Vec<DiscardTarget> {
    let shared = shared.iter().map(|path| (*path).to_owned()).collect();
    vec![DiscardTarget::Directory { path: format!("chk-{id}"), shared }]
}

fn failed_job(commands: &[Command]) -> Option<&str> {
    commands.iter().find_map(|command| match command {
        Command::FailJob { message, .. } => Some(message.as_str()),
        _ => None,
    })
}

fn announced(commands: &[Command]) -> Vec<u64> {
    let id = |command: &Command| match command {
        Command::Tell { control: Control::Complete { id }, .. } => Some(id.0),
        _ => None,
    };
    commands.iter().filter_map(id).collect()
}

fn aborted(commands: &[Command]) -> Vec<u64> {
    let id = |command: &Command| match command {
        Command::Tell { control: Control::Aborted { id }, .. } => Some(id.0),
        _ => None,
    };
    commands.iter().filter_map(id).collect()
}

fn refused(commands: &[Command]) -> Vec<(u64, FailureReason)> {
    let reply = |command: &Command| match command {
        Command::Reply { request, result: Err(failure) } => Some((request.0, failure.reason)),
        _ => None,
    };
    commands.iter().filter_map(reply).collect()
}

fn record(outcome: JobOutcome, generation: u64, last: u64, completed: &[u64]) -> RegisterRecord {
    RegisterRecord {
        job: JobId::from_name("job"),
        job_name: "job".into(),
        generation: Generation(generation),
        outcome,
        last_checkpoint_id: CheckpointId(last),
        completed: completed.iter().map(|id| reference(*id)).collect(),
        retained: Vec::new(),
        ended: None,
        began: None,
    }
}
