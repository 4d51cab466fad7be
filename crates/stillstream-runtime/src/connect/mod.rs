//! What connectors are written against: typed sources and sinks, and the adapters that run them.
//!
//! | module | what is inside |
//! |---|---|
//! | [`source`] | [`SplitSource`] and [`SplitReader`]: a replayable source cut into splits, each with its position |
//! | [`enumerator`] | [`SplitEnumerator`]: finds the splits of a source, also while the job runs, and deals them out |
//! | [`background`] | [`BackgroundReader`]: reads in a thread of its own, so that the worker never waits |
//! | [`sink`] | [`Sink`], [`SinkWriter`] and [`Committer`]: two-phase commit at checkpoints |
//! | [`plain`] | [`Plain`]: a sink without transactions, at-least-once |

pub mod background;
#[cfg(test)]
mod background_tests;
mod commit_gate;
mod commit_thread;
pub mod enumerator;
mod erased_enumerator;
mod list_state;
pub mod plain;
pub mod sink;
mod sink_operator;
#[cfg(test)]
mod sink_tests;
pub mod source;
mod source_operator;
mod transactions;

pub use crate::operator::enumeration::{
    Enumerate, EnumeratorContext, EnumeratorFactory, EnumeratorWaker, Found, RestoredSplits,
};
pub use background::{Arrived, BackgroundReader, Chunk, ChunkSender};
pub use enumerator::{Assignments, Enumerator, SplitEnumerator};
pub use plain::{Plain, PlainWriter};
pub use sink::{CommitPolicy, Committer, JobOutline, MakeDurable, Prepared, Sink, SinkContext, SinkWriter};
pub use sink_operator::{SinkOperator, sink_body};
pub use source::{SourceContext, SplitNews, SplitReader, SplitSource};
pub use source_operator::{SourceOperator, source_body};
