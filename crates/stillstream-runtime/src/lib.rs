//! Runs plans of stateful operators on Timely Dataflow: batches, barriers as epochs, flow control, the JobManager.
//!
//! | module | what is inside |
//! |---|---|
//! | [`plan`] | what the user wrote, and the tasks and edges that it becomes |
//! | [`operator`] | what an operator and a source are to the runtime |
//! | [`backends`] | the state backends that a job can choose from |
//! | [`batch`] | what travels on edges |
//! | [`exchange`] | how records get from task to task |
//! | [`event_time`] | watermarks and idleness, which travel between the records of a batch |
//! | [`control`] | messages between JobManager and workers |
//! | [`connect`] | what connectors are written against: typed sources and sinks |
//! | `chain`, `task` | the driver: one Timely operator that runs a chain of operators |
//! | `flow` | credits |
//! | [`watermark_groups`] | sources that keep together in event time |
//! | `worker` | one worker thread during one attempt |
//! | `panics` | panics of users' functions become errors |
//! | `record_type` | which type of records an operator has taken, for messages |

pub mod backends;
pub mod batch;
mod catch;
mod chain;
pub mod clock;
pub mod connect;
pub mod control;
pub mod event_time;
pub mod exchange;
mod flow;
pub mod job;
pub mod metrics;
pub mod operator;
mod panics;
pub mod plan;
mod record_type;
pub mod shared;
pub mod snapshot_pool;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod turn;
pub mod waker;
pub mod watermark_groups;
mod worker;

pub use batch::{AnyBatch, Batch};
pub use operator::{
    AsyncSnapshot, Emission, OpenContext, Operator, Output, PendingTimers, Source, SourceStatus, SplitEvent,
};
