//! Messages between the JobManager and the workers of an attempt. In one process they go through channels,
//! between processes as frames (see `cluster::wire`).

pub use stillstream_jobmaster::{
    AckMetrics, Assignment, AttemptSpec, ChannelTime, Control, Report, TaskTime,
};

use stillstream_types::Generation;

/// Takes reports of an attempt's workers.
pub trait ReportSink: Send + Sync {
    /// Takes one report of the given generation. Never blocks for long.
    fn report(&self, generation: Generation, report: Report);
}
