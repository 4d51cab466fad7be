//! Joins of two keyed streams.
//!
//! | join | pairs |
//! |---|---|
//! | [`KeyedStream::interval_join`](crate::KeyedStream::interval_join) | records whose event times are not further apart than two bounds |
//! | [`KeyedStream::join`](crate::KeyedStream::join) | records of the same window, inner and outer, or both sides of it as lists (a co-group) |
//! | [`CoProcess`](crate::CoProcess) | whatever a function with state makes of both |
//!
//! Both keep records only as long as they can find a partner: an interval join by its bounds, a window join
//! by its windows.

mod bounds;
mod interval;
#[cfg(test)]
mod tests;
mod two_inputs;
mod windowed;

pub use bounds::{TimeOffset, after, before};
pub use interval::{IntervalJoin, IntervalJoinContext};
pub use two_inputs::{BothKeys, Either};
pub(crate) use two_inputs::{Merged, Ports};
pub use windowed::{EvictingWindowJoin, Joined, WindowJoin};
