//! Kafka source and sink of Stillstream, exactly once from topic to topic.
//!
//! | module | what is inside |
//! |---|---|
//! | [`sink`], [`source`], [`transactions`] | what jobs write to and read from, and what they left open |
//! | [`client`] | the one module that knows the client library: settings, connections, transactions |
//! | `error` | [`KafkaError`]: what can go wrong, and what to do |

pub mod client;
mod error;
pub mod sink;
pub mod source;
pub mod transactions;

pub use error::KafkaError;
