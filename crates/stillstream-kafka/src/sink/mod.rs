//! The Kafka sink.
