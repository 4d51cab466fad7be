//! The suite that every sink should pass.

use stillstream_conformance::SinkTarget;
use stillstream_kafka::sink::{Delivery, KafkaSink};
use stillstream_services::Kafka;

use crate::topic::{Topic, fresh_name, wait_until};

struct Target {
    topic: Topic,
    prefix: String,
}

impl SinkTarget for Target {
    type Item = u64;
    type Sink = KafkaSink<u64>;
    fn sink(&self) -> KafkaSink<u64> {
        KafkaSink::to_topic(&self.topic.name)
            .brokers(&self.topic.brokers)
            .value(|n: &u64| n.to_string())
            .delivery(Delivery::ExactlyOnce)
            .transactional_id_prefix(&self.prefix)
            .property("linger.ms", "0")
    }
    fn item(&self, n: u64) -> u64 {
        n
    }
    fn committed(&self) -> Vec<u64> {
        self.topic.settle(&self.prefix);
        self.topic.committed().iter().map(|text| text.parse().unwrap()).collect()
    }
    fn left_overs(&self) -> Vec<String> {
        // what a dying attempt aborts itself, it does not wait for
        wait_until("transactions that are open end", || {
            self.topic.in_state(&self.prefix, &["Ongoing"]).is_empty()
        });
        Vec::new()
    }
    fn await_written(&self, count: u64) {
        wait_until("records arrive", || self.topic.written().len() as u64 >= count);
    }
}

#[test]
fn an_exactly_once_sink_passes_the_suite() {
    let kafka = Kafka::shared();
    // all crash points of all troubles take some minutes
    stillstream_conformance::sink_at_every(11, || Target {
        topic: Topic::fresh(&kafka, 1),
        prefix: fresh_name("suite"),
    });
}
