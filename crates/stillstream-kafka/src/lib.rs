//! Kafka source and sink of Stillstream, exactly once from topic to topic.
//!
//! | floor | what is inside |
//! |---|---|
//! | [`sink`], [`source`] | what jobs write to and read from |
//! | [`client`] | the one module that knows the client library: settings, connections, transactions |
//! | `error` | [`KafkaError`]: what can go wrong, and what to do |

pub mod client;
mod error;
pub mod sink;
pub mod source;

pub use error::KafkaError;
