//! Runs plans of stateful operators on Timely Dataflow: batches, barriers as epochs, flow control, the
//! JobManager.
//!
//! The floors of this crate, the highest first. A floor uses those below it and none above: `cargo xtask
//! rules` reads this table and checks it.
//!
//! | floor | what is inside |
//! |---|---|
//! | [`job`] | jobs: settings, the JobManager, what the submitting program holds |
//! | `cluster` | the workers: threads of this process, or processes |
//! | `dataflow` | one worker during one attempt: tasks, their chains, and the channels between them |
//! | `checkpoint` | the threads that write snapshots |
//! | `control` | messages between JobManager and workers |
//! | [`connect`] | what connectors are written against: typed sources and sinks |
//! | [`plan`] | what the user wrote, and the tasks and edges that it becomes |
//! | `operator` | what an operator is to the runtime: batches, event time between their records, a snapshot at each barrier |
//! | `flow` | what workers tell one another: credits, and how far groups of sources are |
//! | [`backends`] | the state backends that a job can choose from |
//! | [`requests`] | futures that an operator waits for without blocking |
//! | [`metrics`], [`waker`], `panics` | figures, waking an operator from another thread, panics of users' functions as errors |
//! | [`clock`], `catch` | processing time, panics of the runtime's own threads |

pub mod backends;
mod catch;
mod checkpoint;
pub mod clock;
mod cluster;
pub mod connect;
mod control;
mod dataflow;
mod flow;
pub mod job;
pub mod metrics;
mod operator;
mod panics;
pub mod plan;
pub mod requests;
pub mod waker;

pub use dataflow::exchange;
pub use flow::watermark_groups;
pub use operator::batch::{self, AnyBatch, Batch};
pub use operator::event_time;
#[cfg(any(test, feature = "testing"))]
pub use operator::testing;
pub use operator::{
    AsyncSnapshot, Emission, OpenContext, Operator, Output, PendingTimers, Source, SourceStatus, SplitEvent,
};
