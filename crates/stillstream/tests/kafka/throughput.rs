//! How fast the sink writes, beside the same client used bare, in one run on one broker.

use std::time::Duration;

use krafka::Kafka as Client;
use krafka::producer::Record;
use stillstream::prelude::*;
use stillstream_services::Kafka;

use crate::world::{now, runtime};

const RECORDS: u64 = 1_000_000;
const ROUNDS: u32 = 3;

fn payload(n: u64) -> Vec<u8> {
    format!("{n:0>100}").into_bytes()
}

fn bare(kafka: &Kafka, topic: &str) -> Duration {
    let runtime = runtime();
    runtime.block_on(async {
        let client = Client::builder(kafka.bootstrap()).connect().await.expect("a client");
        let producer = client.producer().metrics_push(false).build().await.expect("a producer");
        let begun = now();
        for n in 0..RECORDS {
            // what becomes of it the flush tells
            let taken = producer.enqueue(Record::new(topic.to_string(), payload(n))).await;
            drop(taken.expect("a record is taken"));
        }
        producer.flush().await.expect("records are sent");
        let took = begun.elapsed();
        producer.close().await.expect("the producer ends");
        took
    })
}

fn job(kafka: &Kafka, topic: &str, delivery: Delivery) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(seconds(1))
        .set_parallelism(1)
        .set_state_backend(FsStateBackend::new(folder.path().to_string_lossy()));
    let sink = KafkaSink::<u64>::to_topic(topic).brokers(kafka.bootstrap()).value(|n: &u64| payload(*n));
    env.from_source("numbers", Generator::new(RECORDS, |n| n))
        .uid("numbers")
        .sink_to("out", sink.delivery(delivery));
    let begun = now();
    env.execute("throughput").expect("the job ends");
    begun.elapsed()
}

/// The best of some rounds, one after the other in turn.
pub fn run() {
    let kafka = Kafka::start().unwrap_or_else(|error| panic!("{error}"));
    let mut best = [Duration::MAX; 3];
    for round in 0..ROUNDS {
        let names = ["bare", "at-least-once", "exactly-once"].map(|name| format!("{name}-{round}"));
        for name in &names {
            kafka.create_topic(name, 4).expect("a topic");
        }
        let took = [
            bare(&kafka, &names[0]),
            job(&kafka, &names[1], Delivery::AtLeastOnce),
            job(&kafka, &names[2], Delivery::ExactlyOnce),
        ];
        for (best, took) in best.iter_mut().zip(took) {
            *best = took.min(*best);
        }
    }
    let rate = |took: Duration| RECORDS as f64 / took.as_secs_f64();
    println!("records of 100 bytes a second, best of {ROUNDS}: the client alone {:.0}", rate(best[0]));
    for (what, took) in [("at least once", best[1]), ("exactly once", best[2])] {
        println!("  sink {what}: {:.0}, ratio {:.2}", rate(took), best[0].as_secs_f64() / took.as_secs_f64());
    }
}
