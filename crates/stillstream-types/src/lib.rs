//! The vocabulary of Stillstream: ids, key groups, event time, state handles, choices of a job and errors.
//!
//! This crate uses no clock and, apart from the modes of files and the scheduling of threads, asks nothing of
//! the system. Every other crate may use it; it uses none of them.
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
//! | [`choice`] | what a checkpoint guarantees, who may read files, and other choices, by Flink's names |
//! | [`restart`] | how a failed job is started again |
//! | [`paths`] | paths as people write them |
//! | [`prefetch`] | memory that is asked for before it is read |
//! | [`threads`] | threads that leave the processor to others |
//! | [`crash`] | places where a test may make the process die |
//! | [`error`] | [`Error`], the one error type of users' code |

pub mod checkpoint_paths;
pub mod choice;
pub mod crash;
pub mod error;
pub mod file_access;
pub mod handle;
pub mod ids;
pub mod key_group;
pub mod murmur;
pub mod paths;
pub mod prefetch;
pub mod restart;
pub mod streams;
pub mod threads;
pub mod time;

pub use choice::{
    CheckpointingMode, ExternalizedCheckpointRetention, FileAccess, PendingTimers, ProgressMode,
};
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
pub use restart::RestartStrategy;
pub use time::{EventTime, Timestamp};
