//! Small examples of Stillstream, one idea each. Every module is a whole program: copy it to the
//! `src/main.rs` of a crate of your own, and write `#[stillstream::main]` above its `main`.
//!
//! `cargo run -p cookbook -- word_count` runs one, and `cargo run -p cookbook` lists them. They are one
//! program, as to link a program takes longer than to compile an example.

mod broadcast_rules;
mod changing_state;
mod custom_sink;
mod custom_source;
mod enrichment_join;
mod fraud_detection;
mod http_enrichment;
mod interval_join;
mod late_data;
mod long_rides;
mod rides_and_fares;
mod sessions;
mod silence_alert;
mod state_ttl;
mod word_count;

use stillstream::prelude::*;

/// An example's name and its `main`.
type Example = (&'static str, fn() -> Result<()>);

const ALL: [Example; 15] = [
    ("word_count", word_count::main),
    ("fraud_detection", fraud_detection::main),
    ("rides_and_fares", rides_and_fares::main),
    ("long_rides", long_rides::main),
    ("sessions", sessions::main),
    ("late_data", late_data::main),
    ("silence_alert", silence_alert::main),
    ("enrichment_join", enrichment_join::main),
    ("http_enrichment", http_enrichment::main),
    ("interval_join", interval_join::main),
    ("broadcast_rules", broadcast_rules::main),
    ("state_ttl", state_ttl::main),
    ("changing_state", changing_state::main),
    ("custom_source", custom_source::main),
    ("custom_sink", custom_sink::main),
];

#[stillstream::main]
fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let wanted = env.arguments().first().map(String::as_str);
    match ALL.iter().find(|(name, _)| Some(*name) == wanted) {
        Some((_, example)) => example(),
        None => {
            let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
            let usage = format!("usage: cargo run -p cookbook -- NAME [--help]\n\n{}", names.join("\n"));
            match wanted {
                None => {
                    println!("{usage}");
                    Ok(())
                }
                Some(other) => {
                    let message = format!("there is no example `{other}` to run\n{usage}");
                    Err(Error::new(ErrorKind::Configuration, message))
                }
            }
        }
    }
}
