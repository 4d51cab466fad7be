//! Jobs that read Kafka: partitions that come while they run, other numbers of subtasks, partitions without
//! records, and what is seen by whoever watches.

use std::collections::BTreeSet;
use std::path::Path;

use stillstream::prelude::*;
use stillstream_services::Kafka;

const DEADLINE: Duration = Duration::from_secs(90);

/// Writes values to a partition, each with its number as timestamp.
fn write(kafka: &Kafka, topic: &str, partition: i32, values: std::ops::Range<i64>) {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(1);
    let sink = KafkaSink::to_topic(topic).brokers(kafka.bootstrap());
    let sink = sink.record(move |n: i64| {
        KafkaRecord::value(format!("{partition}-{n}")).partition(partition).timestamp_ms(n)
    });
    env.from_collection(values).sink_to("out", sink);
    env.execute("write").unwrap();
}

fn source(kafka: &Kafka, topic: &str) -> KafkaSource<String> {
    KafkaSource::from_topic(topic).brokers(kafka.bootstrap()).text()
}

/// Retention goes by the time of records, and those of these tests are of 1970.
fn topic(kafka: &Kafka, name: &str, partitions: u32) {
    kafka.create_topic_with(name, partitions, &[("retention.ms", "-1")]).unwrap();
}

fn copy(kafka: &Kafka, dir: &Path, parallelism: u32, out: &Collect<String>) -> JobClient {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(50)).set_state_backend(FsStateBackend::new(dir.to_str().unwrap()));
    env.set_parallelism(parallelism);
    let source = source(kafka, "grows").discovery_interval(millis(200)).group_id("grows");
    env.from_source("in", source).uid("in").sink_to("out", out.clone()).uid("out");
    env.execute_async("copy").unwrap()
}

fn wait_for(job: &JobClient, out: &Collect<String>, records: usize) {
    let there = job.wait_until(DEADLINE, |_| out.items().len() >= records);
    assert!(there, "{} of {records} records, {:?}", out.items().len(), job.status());
}

#[test]
fn a_topic_grows_while_it_is_read_by_other_numbers_of_subtasks_and_each_record_comes_once() {
    let kafka = Kafka::shared();
    topic(&kafka, "grows", 3);
    let (dir, out) = (tempfile::tempdir().unwrap(), Collect::new());
    (0..3).for_each(|partition| write(&kafka, "grows", partition, 0..100));

    let job = copy(&kafka, dir.path(), 3, &out);
    wait_for(&job, &out, 300);
    kafka.add_partitions("grows", 4).unwrap();
    write(&kafka, "grows", 3, 0..50);
    wait_for(&job, &out, 350);
    let read_through = |job: &JobClient| {
        let counters = job.metrics().counters;
        (0..4).all(|partition| counters.get(&format!("in.lag.grows-{partition}")) == Some(&0))
    };
    assert!(job.wait_until(DEADLINE, read_through), "{:?}", job.metrics().counters);
    job.stop().unwrap();
    job.wait().unwrap();

    let mut expected = 350;
    for (round, parallelism) in [2, 4].into_iter().enumerate() {
        let values = 100 * (round as i64 + 1)..100 * (round as i64 + 2);
        (0..4).for_each(|partition| write(&kafka, "grows", partition, values.clone()));
        expected += 400;
        let job = copy(&kafka, dir.path(), parallelism, &out);
        wait_for(&job, &out, expected);
        job.stop().unwrap();
        job.wait().unwrap();
    }
    let found = out.items();
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!((found.len(), once.len()), (expected, expected));

    // whoever watches the group sees that all is read
    let behind = || {
        let env = StreamExecutionEnvironment::new();
        let start = StartOffsets::Committed { otherwise: OffsetReset::Earliest };
        let rest = source(&kafka, "grows").group_id("grows").start(start).stop(StopOffsets::Latest);
        let rest = env.from_source("rest", rest).uid("rest").collect();
        env.execute("what the group has not read").unwrap();
        rest.items().len()
    };
    assert_eq!(behind(), 0, "the group has not committed the last checkpoint");
}

#[test]
fn a_partition_without_records_does_not_hold_event_time_back_when_it_is_idle() {
    let kafka = Kafka::shared();
    topic(&kafka, "half-empty", 2);
    write(&kafka, "half-empty", 0, 0..5001);
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(50));
    let strategy = WatermarkStrategy::monotonic().idleness(millis(200));
    let counts = env
        .from_source("in", source(&kafka, "half-empty"))
        .uid("in")
        .watermarks(strategy)
        .uid("times")
        .map(|_| 1u64)
        .key_by(|_| 0u8)
        .window(Tumbling::of(seconds(1)))
        .reduce(|a, b| a + b)
        .uid("counts")
        .collect();
    let job = env.execute_async("half empty").unwrap();
    // Kafka's timestamps are the event times
    let fired = |_: &JobClient| counts.items().len() >= 5;
    assert!(job.wait_until(DEADLINE, fired), "{:?} of {:?}", counts.items(), job.event_time());
    assert_eq!(counts.items(), [1000; 5]);
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
}
