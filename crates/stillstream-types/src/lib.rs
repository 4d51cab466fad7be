//! The vocabulary of Stillstream: ids, key groups, event time, state handles, configuration and errors.
//!
//! This crate uses no clock and, apart from reading a configuration file and the scheduling of threads, asks nothing of the system. Every other crate may use it; it uses none of them.
//!
//! | module | what is inside |
//! |---|---|
//! | [`ids`] | newtypes for jobs, operators, subtasks, checkpoints, generations |
//! | [`key_group`] | which key belongs to which key group, and which subtask owns it |
//! | [`time`] | [`Timestamp`] and durations as Flink writes them |
//! | [`file_access`] | who may read the files that a job makes |
//! | [`handle`] | what a task hands to the coordinator: where its state lies |
//! | [`checkpoint_paths`] | every path below a job's checkpoint directory |
//! | [`streams`] | the narrow door through which a snapshot is written and read |
//! | [`config`] | Flink's configuration keys, typed and checked |
//! | [`paths`] | paths as people write them |
//! | [`prefetch`] | memory that is asked for before it is read |
//! | [`threads`] | threads that leave the processor to others |
//! | [`crash`] | places where a test may make the process die |
//! | [`error`] | [`Error`], the one error type of users' code |

pub mod checkpoint_paths;
pub mod config;
pub mod crash;
pub mod error;
pub mod file_access;
pub mod handle;
pub mod ids;
pub mod key_group;
pub mod murmur;
pub mod paths;
pub mod prefetch;
pub mod streams;
pub mod threads;
pub mod time;

pub use config::{ByteSize, ConfigError, ConfigErrors, ConfigOption, Configuration};
pub use error::{Error, ErrorKind, Result, ResultExt};
pub use handle::{
    CheckpointKind, CheckpointMetadata, CheckpointType, CompletedRef, IncrementalFormat, IncrementalHandle,
    JobEnd, JobFigures, JobOutcome, JobStart, KeyGroupSection, KeyedSnapshot, KeyedStateHandle, NamedStream,
    OperatorState, OperatorStateEntry, OperatorStateHandle, OperatorSubtaskState, RedistributionMode,
    RegisterRecord, SavepointFormat, SavepointTarget, SnapshotForm, SnapshotIdentity, StartedFrom,
    StreamHandle, TaskSnapshot,
};
pub use ids::{CheckpointId, Generation, JobId, OperatorId, SubtaskId, SubtaskIndex, VertexId};
pub use key_group::{KeyGroup, KeyGroupRange, KeyGroups, KeyHash};
pub use time::{EventTime, Timestamp};
