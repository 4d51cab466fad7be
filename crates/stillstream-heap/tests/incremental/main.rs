//! Incremental checkpoints of the heap backend.

mod bytes;
mod entries;
mod golden;
mod model;
mod rescaling;
mod store;
