//! Source and sink on a real Kafka, which `cargo xtask services prepare` downloads and this program starts.

mod job;
mod records;
mod sink_suite;
mod sink_transactions;
mod sink_troubles;
mod source;
mod topic;
