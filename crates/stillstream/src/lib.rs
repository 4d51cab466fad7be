//! Stateful stream processing for Rust that loses nothing.
//!
//! A job keeps state by key, takes checkpoints of it while it runs, and goes on from the last one after any failure, with
//! every record counted exactly once. The model is Apache Flink's; the engine is Timely Dataflow.
//!
//! ```
//! use stillstream::prelude::*;
//!
//! fn main() -> Result<()> {
//!     let mut env = StreamExecutionEnvironment::new();
//!     env.enable_checkpointing(Duration::from_secs(1));
//!     env.from_collection(vec!["to be or not to be".to_string()])
//!         .flat_map_into(|line, out| line.split(' ').for_each(|word| out.emit(word.to_string())))
//!         .key_by_ref(|word| word)
//!         .map_with_state("seen", |seen: &mut u64, word| { *seen += 1; (word, *seen) })
//!         .uid("word-count")
//!         .print();
//!     env.execute("word count").map(drop)
//! }
//! ```
//!
//! | start at | for |
//! |---|---|
//! | [`StreamExecutionEnvironment`] | settings, sources, running |
//! | [`DataStream`], [`KeyedStream`] | what can be done with records |
//! | [`KeyedProcess`], [`CoProcess`], [`BroadcastProcess`] | functions with state and timers |
//! | [`window`], [`watermark`] | event time |
//! | [`Data`](state::Data) | types of your own in state |

extern crate self as stillstream;

mod backend;
mod collection;
mod collector;
mod data_stream;
mod environment;
pub mod functions;
mod graph;
mod keyed_functions;
mod keyed_stream;
mod logging;
mod operators;
mod options;
mod plain_functions;
pub mod prelude;
mod restart;
mod settings;
mod side_output;
mod sinks;
pub mod watermark;
pub mod window;

pub use backend::{FsStateBackend, MemoryStateBackend, StateBackend};
pub use collector::Collector;
pub use data_stream::DataStream;
pub use environment::StreamExecutionEnvironment;
pub use functions::{BroadcastProcess, CoProcess, KeyedProcess};
pub use keyed_functions::{BroadcastConnected, ConnectedStreams, KeyedConnected};
pub use keyed_stream::KeyedStream;
pub use restart::RestartStrategy;
pub use side_output::OutputTag;
pub use sinks::StreamSink;
pub use stillstream_checkpoint::{CheckpointStatistics, CheckpointingMode, JobStatus, Retention};
pub use stillstream_connectors as connectors;
pub use stillstream_runtime::connect;
pub use stillstream_runtime::exchange::KeySelector;
pub use stillstream_runtime::job::{CheckpointTotals, JobClient, JobMetrics, JobResult, ProgressMode};
pub use stillstream_state as state;
pub use stillstream_types::config;
pub use watermark::WatermarkStrategy;
