//! The one module that knows the client library (krafka).
//!
//! | module | what is inside |
//! |---|---|
//! | [`properties`] | [`Properties`]: Kafka's own keys, as they are written in a `client.properties` |
//! | `security` | TLS and SASL made of them |
//! | `runtime` | the threads that all Kafka clients of a process share |
//! | `cluster` | a connection to a cluster |
//! | `producer` | what writes records, in a transaction or without |
//! | `transactions` | transactions by their numbers: ended, described, listed and fenced by others than their producer |
//! | `offsets` | what a cluster has: topics, partitions and offsets |
//! | `partition_reader` | reads partitions |

mod cluster;
pub(crate) mod offsets;
pub(crate) mod partition_reader;
mod producer;
pub mod properties;
mod runtime;
mod security;
mod transactions;

pub(crate) use cluster::Cluster;
pub(crate) use producer::{CommitFailure, Lane, Outgoing, PRODUCER_KEYS};
pub use properties::Properties;
pub(crate) use runtime::{block_on, spawn, wait_for};
pub(crate) use transactions::{Described, Ended, TransactionKey, TransactionState};
