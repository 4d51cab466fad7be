//! Stateful stream processing for Rust that loses nothing.

mod collector;
mod data_stream;
mod environment;
pub mod functions;
mod graph;
mod keyed_functions;
mod keyed_stream;
mod operators;
mod plain_functions;
pub mod prelude;
mod side_output;

pub use collector::Collector;
pub use data_stream::DataStream;
pub use environment::StreamExecutionEnvironment;
pub use functions::{BroadcastProcess, CoProcess, KeyedProcess};
pub use keyed_functions::{BroadcastConnected, ConnectedStreams, KeyedConnected};
pub use keyed_stream::KeyedStream;
pub use side_output::OutputTag;
pub use stillstream_runtime::exchange::KeySelector;
