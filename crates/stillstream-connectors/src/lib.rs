//! Sources and sinks of Stillstream.
//!
//! | module | what is inside |
//! |---|---|
//! | [`files`] | [`TextSource`] and [`CsvSource`]: lines and typed rows of files |
//! | [`file_sink`] | [`FileSink`]: exactly-once part files by rename |
//! | [`generator`] | [`Generator`]: records made from their index |
//! | [`mod@print`] | [`Print`] and [`Discard`] |
//! | [`collect`] | [`Collect`]: a sink that tests read |
//!
//! Suites that every source and sink should pass, also one's own, are in the crate `stillstream-conformance`.

pub mod collect;
mod error;
pub mod file_sink;
pub mod files;
pub mod generator;
mod pace;
pub mod print;

pub use collect::Collect;
pub use error::ConnectorError;
pub use file_sink::FileSink;
pub use files::{CsvSource, FileSplit, IntoPaths, Malformed, OnMalformed, TextSource};
pub use generator::Generator;
pub use print::{Discard, Print};
