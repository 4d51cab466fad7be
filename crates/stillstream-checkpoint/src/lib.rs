//! The checkpoint protocol of Stillstream as an engine without IO.
pub mod cleaner;
pub mod command;
pub mod completed;
pub mod config;
pub mod event;
pub mod failure;
pub mod job;
pub mod pending;
pub mod plan;
pub mod request_queue;
pub mod restart;
pub mod restore;
pub mod statistics;

pub use command::{CheckpointReport, Command, DiscardId, DiscardTarget};
pub use config::{CheckpointConfig, CheckpointingMode, ConfigError, Retention};
pub use event::{AckMetrics, Event, RegisterOutcome, RequestId, WriteOutcome};
pub use failure::{CheckpointFailure, FailureReason};
pub use plan::{OperatorInfo, TaskInfo};
pub use statistics::{CheckpointStatistics, CheckpointSummary, explain};
