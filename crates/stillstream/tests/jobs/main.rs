//! Jobs as users write them, run in this process from source to sink. They are one program, for each program
//! of this folder takes a minute to build.

#[path = "../paced/mod.rs"]
mod paced;

mod api;
mod collected;
mod end_of_input;
mod joins;
#[cfg(feature = "kafka")]
mod kafka;
mod numbers;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "serde-adapter")]
mod serde_state;
mod windows;
mod word_count;
