//! The source, one subtask at a time.

mod access;
mod missing;
mod policies;
mod starts;

use std::sync::Arc;

use stillstream_conformance::{SourceDriver, SourceState};
use stillstream_kafka::source::KafkaSource;
use stillstream_services::Kafka;

type Driver = SourceDriver<KafkaSource<String>>;

fn texts(kafka: &Kafka, topic: &str) -> KafkaSource<String> {
    KafkaSource::from_topic(topic).brokers(kafka.bootstrap()).text()
}

fn open(source: KafkaSource<String>) -> Driver {
    SourceDriver::open(&Arc::new(source), 0, 1, None).unwrap()
}

fn restore(source: KafkaSource<String>, state: SourceState) -> Driver {
    SourceDriver::open(&Arc::new(source), 0, 1, Some(state)).unwrap()
}

/// The next `n` records.
fn take(driver: &mut Driver, n: usize) -> Vec<String> {
    let mut taken = Vec::new();
    while taken.len() < n {
        taken.extend(driver.next(n - taken.len()).unwrap().expect("the source has ended"));
    }
    taken
}
