//! Stateful stream processing for Rust that loses nothing.

mod collector;
mod side_output;
pub mod watermark;
pub mod window;
