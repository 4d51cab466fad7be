//! Incremental checkpoints of the heap backend.

mod bytes;
mod model;
mod store;
