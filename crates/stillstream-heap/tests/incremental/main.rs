//! Incremental checkpoints of the heap backend.

mod bytes;
mod golden;
mod model;
mod store;
