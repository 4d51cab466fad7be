//! Suites that every source and every sink should pass: they drive the runtime's adapters by hand, stop at
//! every point, and go on from the last checkpoint, also with another parallelism.
//!
//! | function | what it shows |
//! |---|---|
//! | [`source`] | a restart at any point, at any parallelism, reads each record once |
//! | [`sink`] | a crash at any point, and aborted, lost or empty checkpoints, commit each record once; [`sink_at_every`] takes fewer points |
//!
//! A violation panics with what was expected and found, as a test wants it.

mod sink;
mod source;

pub use sink::{SinkTarget, sink, sink_at_every};
pub use source::{SourceDriver, source};
