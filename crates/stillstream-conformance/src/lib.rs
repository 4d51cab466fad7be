//! Suites that every source and every sink should pass, also those of others: they drive the runtime's
//! adapters by hand, stop at every point, and go on from the last checkpoint, also with another parallelism.
//! A connector has this crate among its `dev-dependencies`.
//!
//! | function | what it shows |
//! |---|---|
//! | [`source`] | a bounded source: a restart at any point, at any parallelism, reads each record once |
//! | [`discovery`] | a source that finds splits while it runs: the same, with splits that appear between any two phases and assignments in flight at the barrier |
//! | [`sink`] | a crash between any two phases, aborted, lost or empty checkpoints, a commit that was reported as failed: each record is committed once |
//!
//! [`SourceDriver`] reads a source by hand, for tests of one's own.
//!
//! A violation panics with what was expected and found, as a test wants it.
//!
//! ```
//! use stillstream_runtime::connect::{SourceContext, SplitReader, SplitSource};
//! use stillstream_runtime::{Batch, SourceStatus};
//! use stillstream_types::Result;
//!
//! /// Splits are the next number and the first that is not the split's.
//! struct Numbers;
//! #[derive(Default)]
//! struct Reader(Vec<(u64, u64)>);
//!
//! impl SplitSource for Numbers {
//!     type Item = u64;
//!     type Split = (u64, u64);
//!     fn splits(&self) -> Result<Vec<(u64, u64)>> { Ok(vec![(0, 5), (5, 12)]) }
//!     fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<u64, (u64, u64)>>> {
//!         Ok(Box::<Reader>::default())
//!     }
//! }
//!
//! impl SplitReader<u64, (u64, u64)> for Reader {
//!     fn assign(&mut self, splits: Vec<(u64, u64)>) -> Result<()> { self.0.extend(splits); Ok(()) }
//!     fn poll(&mut self, _: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
//!         let Some((next, _)) = self.0.iter_mut().find(|(next, end)| next < end) else {
//!             return Ok(SourceStatus::Ended);
//!         };
//!         out.values.push(*next);
//!         *next += 1;
//!         Ok(SourceStatus::More)
//!     }
//!     fn positions(&self) -> Vec<(u64, u64)> { self.0.clone() }
//! }
//!
//! stillstream_conformance::source(Numbers, &(0..12).collect::<Vec<u64>>());
//! ```

mod discovery;
mod driver;
mod job;
mod sink;
mod source;

pub use discovery::{DiscoveryTarget, discovery};
pub use driver::{SourceDriver, SourceState};
pub use sink::{SinkTarget, sink, sink_at_every};
pub use source::source;
