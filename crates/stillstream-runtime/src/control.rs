//! Messages between the JobManager and the workers of an attempt. In one process they go through channels, between
//! processes as frames (see `job::wire`).

pub use stillstream_jobmaster::{
    AckMetrics, AttemptSpec, ChannelTime, Control, Report, RestoredState, TaskTime,
};
