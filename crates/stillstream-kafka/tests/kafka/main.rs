//! Source and sink against a real Kafka (`cargo xtask services prepare` downloads it).

mod job;
mod sink_suite;
mod sink_transactions;
mod sink_troubles;
mod topic;
