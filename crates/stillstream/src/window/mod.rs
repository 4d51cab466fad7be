//! Windows of event time: records of one key that belong together, and what is made of them when their time is over.
//!
//! A window fires when the watermark passes its last millisecond; its results carry that time. A record whose window is
//! over goes to the late output, or is dropped and counted as `<operator>.late`. With
//! [`allowed_lateness`](WindowedStream::allowed_lateness) a window stays for a while and fires again for what comes late.
//!
//! | module | what is inside |
//! |---|---|
//! | `assigner` | [`Tumbling`], [`Sliding`], [`Session`]: which windows a record belongs to |
//! | `function` | what is kept of a window and what comes out of it |
//! | `event_clock` | how far event time is, also after a restore |
//! | `fixed` | the operator of tumbling and sliding windows: one table per window, no timers |
//! | `sessions`, `session` | how sessions merge, and their operator |
//! | `stream` | [`WindowedStream`]: the methods |

mod assigner;
mod event_clock;
mod fixed;
mod function;
mod keyed_batch;
mod late;
mod session;
mod sessions;
mod stream;
#[cfg(test)]
mod tests;

pub use assigner::{Session, Sliding, TimeWindow, Tumbling, WindowAssigner};
pub use function::ProcessWindow;
pub use stream::WindowedStream;
