//! Real servers for tests. A connector is tested against the server that its users have, not against
//! something that resembles it.
//!
//! `cargo xtask services prepare` downloads what is needed, once, into a cache outside the checkout
//! ([`cache::folder`]); a test program starts a server of its own from there:
//!
//! ```no_run
//! use stillstream_services::Kafka;
//! let kafka = Kafka::start()?;
//! kafka.create_topic("in", 3)?;
//! println!("a client's bootstrap.servers: {}", kafka.bootstrap());
//! # Ok::<(), stillstream_services::Error>(())
//! ```
//!
//! A server never outlives the program that started it, however that one ends (see [`process`]). A server
//! that is not there is an error that says what to do, and never a reason to leave a test out.

pub mod cache;
mod error;
pub mod kafka;
pub mod packages;
mod ports;
pub mod process;

pub use error::{Error, Result};
pub use kafka::Kafka;
