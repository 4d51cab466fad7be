//! The suites that every source should pass.

use std::time::Duration;

use stillstream_conformance::{self as conformance, DiscoveryTarget};
use stillstream_kafka::source::{KafkaSource, StopOffsets};
use stillstream_services::Kafka;

use super::texts;
use crate::records::{abort, begin, commit, write};
use crate::topic::fresh_name;

#[test]
fn a_source_that_ends_passes_the_suite_of_sources() {
    let kafka = Kafka::shared();
    kafka.create_topic("suite", 4).unwrap();
    let values = |partition: u32, n: u32| (0..n).map(move |n| format!("{partition}-{n}"));
    // partition 3 stays empty
    let sizes = [(0, 17), (1, 9), (2, 1)];
    sizes
        .into_iter()
        .for_each(|(partition, n)| write(kafka.bootstrap(), "suite", partition, values(partition, n)));
    // offsets that are no records lie between records, and before the end
    commit(&begin(kafka.bootstrap(), "suite-1", "suite", &["inside"])).unwrap();
    abort(&begin(kafka.bootstrap(), "suite-2", "suite", &["never"])).unwrap();
    let mut expected: Vec<String> =
        sizes.into_iter().flat_map(|(partition, n)| values(partition, n)).collect();
    expected.push("inside".to_string());
    let source = texts(&kafka, "suite").stop(StopOffsets::Latest).property("max.poll.records", "5");
    conformance::source(source, &expected);
}

/// A topic that gets partitions while it is read.
struct Growing<'a> {
    kafka: &'a Kafka,
    topic: String,
    partitions: u32,
}

impl<'a> Growing<'a> {
    fn fresh(kafka: &'a Kafka) -> Self {
        let topic = fresh_name("growing");
        kafka.create_topic(&topic, 1).unwrap();
        Self { kafka, topic, partitions: 0 }
    }
}

impl DiscoveryTarget for Growing<'_> {
    type Source = KafkaSource<String>;
    fn source(&self) -> KafkaSource<String> {
        texts(self.kafka, &self.topic).discovery_interval(Duration::from_secs(1))
    }
    fn add(&mut self) -> Vec<String> {
        let partition = self.partitions;
        self.partitions += 1;
        if partition > 0 {
            self.kafka.add_partitions(&self.topic, self.partitions).unwrap();
        }
        let values: Vec<String> = (0..3).map(|n| format!("{partition}-{n}")).collect();
        write(self.kafka.bootstrap(), &self.topic, partition, values.clone());
        values
    }
}

#[test]
fn a_topic_that_grows_passes_the_suite_of_discovery() {
    let kafka = Kafka::shared();
    conformance::discovery(3, || Growing::fresh(&kafka));
}
