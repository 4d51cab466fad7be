//! Stateful stream processing for Rust that loses nothing: Flink's model of checkpoints, on Timely Dataflow.
//!
//! ```
//! use stillstream::prelude::*;
//!
//! #[stillstream::main] // exit codes by kind of error; without it each is 1
//! fn main() -> Result<()> {
//!     let mut env = StreamExecutionEnvironment::from_args()?;
//!     env.enable_checkpointing(Duration::from_secs(1));
//!
//!     env.from_collection(["to be", "or not to be"].map(String::from))
//!         .flat_map_into(|line, out| line.split(' ').for_each(|word| out.emit(word.to_string())))
//!         .key_by_ref(|word| word)
//!         .map_with_state("count", |count: &mut u64, word| { *count += 1; (word, *count) })
//!         .uid("counts")
//!         .print();
//!
//!     env.execute("word count").map(drop)
//! }
//! ```
//!
//! Every second the job takes a checkpoint: a consistent picture of all state and all positions in the input,
//! without stopping. When it fails it goes on from the last one, and each record counts once. With
//! `--checkpoint-dir` the checkpoints are in files, and the same program, started again, goes on where it
//! was, also after a `kill -9`.
//!
//! | to learn about | see |
//! |---|---|
//! | settings and arguments | [`StreamExecutionEnvironment`], [`config`] |
//! | transformations | [`DataStream`], [`KeyedStream`] |
//! | functions with state and timers | [`KeyedProcess`], [`CoProcess`], [`BroadcastProcess`] |
//! | event time | [`window`], [`watermark`] |
//! | joins | [`join`] |
//! | operators of your own | [`operator`] |
//! | state | [`state`] |
//! | files, generators, sinks | [`connectors`] |
//! | connectors of your own | [`connect`] |
//! | tests of functions | [`testing`] |
//! | watching a running job | [`JobClient`] |

// `derive(Data)` names this crate, also within itself
extern crate self as stillstream;

mod aggregations;
mod async_io;
mod backend;
mod collection;
mod collector;
mod data_stream;
mod environment;
mod exit;
mod expiring_functions;
pub mod functions;
mod graph;
pub mod join;
mod keyed_functions;
mod keyed_stream;
mod logging;
pub mod operator;
mod operators;
mod partitioning;
mod plain_functions;
pub mod prelude;
mod rest;
mod settings;
mod side_output;
mod signals;
mod sinks;
pub mod state;
pub mod testing;
pub mod watermark;
pub mod window;

pub use aggregations::{Summable, TryAggregate};
pub use async_io::{AsyncRetry, AsyncStream};
pub use backend::{FsStateBackend, MemoryStateBackend, RocksDbStateBackend, StateBackend};
pub use collector::Collector;
pub use data_stream::DataStream;
pub use environment::StreamExecutionEnvironment;
pub use exit::{exit_code, exit_with};
pub use functions::{BroadcastProcess, CoProcess, KeyedProcess};
pub use keyed_functions::{BroadcastConnected, ConnectedStreams, KeyedConnected};
pub use keyed_stream::KeyedStream;
pub use side_output::OutputTag;
pub use sinks::StreamSink;
pub use stillstream_config as config;
pub use stillstream_connectors as connectors;
pub use stillstream_derive::main;
pub use stillstream_jobmaster::{
    CheckpointReport, CheckpointStatistics, CheckpointStatus, CheckpointSummary, JobStatus, LongestPhases,
};
#[cfg(feature = "kafka")]
pub use stillstream_kafka as kafka;
pub use stillstream_runtime::connect;
pub use stillstream_runtime::exchange::KeySelector;
pub use stillstream_runtime::job::{
    ChannelEventTime, CheckpointTotals, JobClient, JobEnding, JobMetrics, JobResult, TaskEventTime,
};
pub use stillstream_runtime::{Batch, SourceStatus};
pub use stillstream_types::{
    CheckpointId, CheckpointType, Error, ErrorKind, RestartStrategy, Result, ResultExt, SavepointFormat,
};
pub use watermark::{WatermarkGenerator, WatermarkOutput, WatermarkStrategy};
