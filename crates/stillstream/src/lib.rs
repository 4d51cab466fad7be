//! Stateful stream processing for Rust that loses nothing.
