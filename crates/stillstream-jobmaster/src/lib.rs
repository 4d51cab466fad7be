//! The checkpoint protocol of Stillstream as an engine without input, output, clock, thread or random number.
//!
//! [`CheckpointCoordinator::handle`] takes in what happened and says what to do. Whatever has to be durable before a
//! command may run is durable when the command is given, so a shell is a loop: receive an event, hand it in, start the
//! commands in their order, and turn each answer into the next event. The same coordinator serves all attempts that a
//! process makes; after a crash a new one is built from the register's record.
//!
//! | module | what is inside |
//! |---|---|
//! | [`coordinator`] | the protocol itself |
//! | [`event`], [`command`] | what goes in, what comes out |
//! | [`config`], [`plan`] | settings, and what is known of the running plan |
//! | [`request_queue`] | which request may start |
//! | [`pending`], [`completed`] | checkpoints under way, and those that are kept |
//! | [`failure`] | reasons, which of them count, and when the job fails |
//! | [`cleaner`] | what may be deleted |
//! | [`shared_files`] | files that several checkpoints name, and when each may go |
//! | [`statistics`] | counts, history, and the one-line explanation of a slow checkpoint |
//! | [`restore`] | who gets which state at another parallelism |
//! | [`start`] | whether a start runs the job at all |
//! | [`restart`], [`job`] | restart strategies and the states of a job |
//!
//! # The loop
//!
//! A whole job in one thread: two tasks, a register in memory, one checkpoint by hand.
//!
//! ```
//! use std::{collections::VecDeque, time::Duration};
//! use stillstream_jobmaster::*;
//! use stillstream_types::*;
//!
//! let task = |vertex, is_source| TaskInfo {
//!     id: SubtaskId::new(vertex, 0), name: format!("task-{vertex}"), operators: vec![], is_source,
//! };
//! let mut coordinator = CheckpointCoordinator::new(CoordinatorSetup {
//!     job: JobId::from_name("example"),
//!     job_name: "example".into(),
//!     config: CheckpointConfig { interval: Some(Duration::from_secs(60)), ..CheckpointConfig::default() },
//!     zero_ms: 1_357_035_300_000,
//!     register: None, // a new job
//!     first_delay: 0.5, // a random number
//!     end_timeout: Duration::from_secs(180),
//! })?;
//!
//! let mut register: Option<RegisterRecord> = None;
//! let mut completed = Vec::new();
//! let mut events = VecDeque::from([Event::AttemptRequested]);
//! let mut now = Duration::ZERO; // a real shell asks its clock, and sends a `Tick` at `WakeAt`
//! while let Some(event) = events.pop_front() {
//!     now += Duration::from_millis(1);
//!     for command in coordinator.handle(event, now) {
//!         match command {
//!             Command::UpdateRegister { expected, record } => {
//!                 assert_eq!(register, expected); // compare ..
//!                 register = Some(record); // .. and set
//!                 events.push_back(Event::RegisterUpdated { outcome: RegisterOutcome::Written });
//!             }
//!             Command::ReadRegister => events.push_back(Event::RegisterRead { result: Ok(register.clone()) }),
//!             Command::BeginAttempt { generation, restore_from } => {
//!                 assert_eq!(restore_from, None);
//!                 let tasks = vec![task(0, true), task(1, false)];
//!                 events.push_back(Event::AttemptStarted { generation, tasks });
//!                 let (request, kind) = (RequestId(1), CheckpointKind::Checkpoint);
//!                 events.push_back(Event::TriggerRequested { request, kind, forced: false });
//!             }
//!             Command::ListDirectories => events.push_back(Event::DirectoriesListed { names: vec![] }),
//!             Command::ReadReferences { .. } => {
//!                 events.push_back(Event::ReferencesRead { references: References::default() });
//!             }
//!             Command::ListShared => events.push_back(Event::SharedListed { result: Ok(vec![]) }),
//!             Command::TriggerSources { generation, checkpoint, .. } => {
//!                 for vertex in [0, 1] {
//!                     events.push_back(Event::Acknowledge {
//!                         generation,
//!                         checkpoint,
//!                         subtask: SubtaskId::new(vertex, 0),
//!                         snapshot: TaskSnapshot::default(),
//!                         metrics: AckMetrics::default(),
//!                     });
//!                 }
//!             }
//!             Command::WriteMetadata { metadata } => {
//!                 let (checkpoint, outcome) = (metadata.id, WriteOutcome::Written);
//!                 events.push_back(Event::MetadataWritten { checkpoint, outcome });
//!             }
//!             Command::NotifyComplete { checkpoint, .. } => completed.push(checkpoint),
//!             Command::NotifyAborted { .. } => {}
//!             Command::Discard { discard, .. } => {
//!                 events.push_back(Event::DiscardDone { discard, failure: None });
//!             }
//!             Command::Reply { result, .. } => assert_eq!(result?.path, "chk-1"),
//!             Command::WakeAt(_) => {}
//!             Command::FailJob { message, .. } => panic!("{message}"),
//!             Command::FinishJob { .. } | Command::EndUnrecorded { .. } | Command::StepDown { .. } => break,
//!             Command::Warn(text) | Command::Info(text) => println!("{text}"),
//!         }
//!     }
//! }
//! assert_eq!(completed, [CheckpointId(1)]);
//! assert_eq!(register.unwrap().completed[0].path, "chk-1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checkpoint;
mod job;
mod plan;
mod restore;

pub use checkpoint::command::{CheckpointReport, Command, DiscardId, DiscardTarget};
pub use checkpoint::config::{CheckpointConfig, CheckpointingMode, ConfigError, Retention};
pub use checkpoint::event::{AckMetrics, Event, References, RegisterOutcome, RequestId, WriteOutcome};
pub use checkpoint::failure::{CheckpointFailure, FailureReason};
pub use checkpoint::statistics::{
    CheckpointStatistics, CheckpointStatus, CheckpointSummary, Counts, LongestPhases, Phase, Slowest, explain,
};
pub use checkpoint::{CheckpointCoordinator, CoordinatorSetup};
pub use job::restart::{Repetition, RestartDecision, RestartStrategy, RestartStrategyConfig};
pub use job::start::{StartDecision, decide_start};
pub use job::status::{IllegalTransition, JobState, JobStatus};
pub use plan::{OperatorInfo, TaskInfo};
pub use restore::{RestoreError, RestorePlan, plan_restore};
