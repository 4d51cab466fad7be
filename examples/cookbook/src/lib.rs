//! Small examples of Stillstream, one idea each. Every module is a whole program: copy it to the
//! `src/main.rs` of a crate of your own, and write `#[stillstream::main]` above its `main`.
//!
//! `cargo run -p cookbook -- word_count` runs one, and `cargo run -p cookbook` lists them.

#![expect(
    missing_docs,
    reason = "each module reads as a program would, and a program documents none of its items"
)]

pub mod broadcast_rules;
pub mod changing_state;
pub mod custom_sink;
pub mod custom_source;
pub mod enrichment_join;
pub mod fraud_detection;
pub mod late_data;
pub mod sessions;
pub mod silence_alert;
pub mod state_ttl;
pub mod word_count;

use stillstream::Result;

/// An example's name and its `main`.
pub type Example = (&'static str, fn() -> Result<()>);

pub const ALL: [Example; 11] = [
    ("word_count", word_count::main),
    ("fraud_detection", fraud_detection::main),
    ("sessions", sessions::main),
    ("late_data", late_data::main),
    ("silence_alert", silence_alert::main),
    ("enrichment_join", enrichment_join::main),
    ("broadcast_rules", broadcast_rules::main),
    ("state_ttl", state_ttl::main),
    ("changing_state", changing_state::main),
    ("custom_source", custom_source::main),
    ("custom_sink", custom_sink::main),
];
