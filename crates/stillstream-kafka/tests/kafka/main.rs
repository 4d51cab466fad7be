//! Source and sink on a real Kafka, which `cargo xtask services prepare` downloads and this program starts.

mod records;
mod source;
