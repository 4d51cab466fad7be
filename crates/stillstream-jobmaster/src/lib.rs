//! The JobMaster of Stillstream: the life of a job and its checkpoints, as an engine without input, output,
//! clock, thread or random number.
//!
//! [`JobEngine::handle`] takes in what happened and says what to do. Whatever has to be durable before a
//! command may run is durable when the command is given, so a shell is a loop: receive an event, hand it in,
//! start the commands in their order, and turn each answer into the next event. The same engine serves all
//! attempts that a process makes; after a crash a new one is built from the register's record. That is why
//! whole job lives are tested in one thread and in seconds (`tests/simulation`).
//!
//! | module | what is inside |
//! |---|---|
//! | `job` | deploying, running, stopping, restarting and ending a job; what goes in and what comes out |
//! | `checkpoint` | the coordinator: triggers, acknowledgements, metadata, the register, and what may be deleted |
//! | `message` | what the JobManager and the tasks say to each other |
//! | `restore` | who gets which state at another parallelism |
//! | `plan`, `moment` | what is known of the running plan, and of the world |
//!
//! # The loop
//!
//! A whole job in one thread: one task without checkpoints, whose input ends at once.
//!
//! ```
//! use std::{collections::VecDeque, time::Duration};
//! use stillstream_jobmaster::*;
//! use stillstream_types::*;
//!
//! let id = SubtaskId::new(0, 0);
//! let mut engine = JobEngine::new(
//!     JobSetup {
//!         job: JobId::from_name("example"),
//!         name: "example".into(),
//!         checkpoint: CheckpointConfig::default(),
//!         restart: config::RestartStrategy::None,
//!         tasks: vec![TaskInfo { id, name: "flights".into(), operators: vec![], is_source: true }],
//!         workers: 1,
//!         from_snapshot: None,
//!         place: "memory".into(),
//!         durable: false,
//!         register: None, // a new job
//!         first_delay: 0.5,
//!         cancellation_timeout: Duration::from_secs(180),
//!         end_timeout: Duration::from_secs(180),
//!     },
//!     Duration::ZERO,
//! )?;
//!
//! let mut register: Option<RegisterRecord> = None;
//! let mut events = VecDeque::from([JobEvent::Submitted]);
//! let mut result = None;
//! while let Some(event) = events.pop_front() {
//!     // a real shell asks its clocks, and sends a `Tick` at `JobEngine::wake_at`
//!     let at = Moment { now: Duration::from_millis(1), wall_ms: 1_357_035_300_000, random: 0.5 };
//!     for command in engine.handle(event, at) {
//!         match command {
//!             JobCommand::Storage(StorageCall::UpdateRegister { expected, record }) => {
//!                 assert_eq!(register, expected); // compare ..
//!                 register = Some(record); // .. and set
//!                 let outcome = RegisterOutcome::Written;
//!                 events.push_back(JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome }));
//!             }
//!             JobCommand::ReadSnapshot { generation, from: RestoreFrom::Nothing } => {
//!                 events.push_back(JobEvent::Restored { generation, result: Ok(None) });
//!             }
//!             JobCommand::Deploy(AttemptSpec { generation, .. }) => {
//!                 events.push_back(JobEvent::Report(generation, Report::Running(id)));
//!                 events.push_back(JobEvent::Report(generation, Report::Ended(id)));
//!             }
//!             JobCommand::Tell { generation, control: Control::Finish } => {
//!                 let stopped = Report::Stopped { worker: 0, drained: true };
//!                 events.push_back(JobEvent::Report(generation, stopped));
//!             }
//!             JobCommand::End(ended) => result = Some(ended),
//!             _ => {}
//!         }
//!     }
//! }
//! assert!(matches!(result, Some(Ok(()))));
//! assert_eq!(engine.status(), JobStatus::Finished);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checkpoint;
mod job;
mod message;
mod moment;
mod plan;
mod restore;

pub use checkpoint::command::CheckpointReport;
pub use checkpoint::config::{CheckpointConfig, ConfigError};
pub use checkpoint::distribution::Distribution;
pub use checkpoint::event::RequestId;
pub use checkpoint::failure::{CheckpointFailure, FailureReason};
pub use checkpoint::statistics::{
    CheckpointStatistics, CheckpointStatus, CheckpointSummary, Counts, LongestPhases, RestoredSummary,
    Slowest, SubtaskPhase, SubtaskStatistics, explain,
};
pub use checkpoint::storage::{
    DiscardId, DiscardTarget, FoundRegister, References, RegisterOutcome, StorageAnswer, StorageCall,
    WriteOutcome,
};
pub use job::engine::JobEngine;
pub use job::exceptions::ExceptionEntry;
pub use job::figures::Measured;
pub use job::interface::{JobCommand, JobEvent, JobSetup, Level, RestoreFrom, StopRequest};
pub use job::start::{StartDecision, decide_start, way_back};
pub use job::status::JobStatus;
pub use message::{
    AckMetrics, Assignment, AttemptSpec, ChannelTime, Control, Enumerated, Report, RestoredState, TaskTime,
};
pub use moment::Moment;
pub use plan::{OperatorInfo, TaskInfo};
pub use restore::{
    RestoreError, RestorePlan, Unclaimed, key_groups, plan_restore, refuse_unclaimed, unclaimed,
};
