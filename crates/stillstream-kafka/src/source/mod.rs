//! The Kafka source.
