//! What a user reads when Kafka or the settings are not as they should be, and that nothing is lost by it.

use std::time::Duration;

use stillstream_kafka::sink::{Delivery, KafkaRecord, KafkaSink};
use stillstream_runtime::connect::{JobOutline, Sink};
use stillstream_services::Kafka;
use stillstream_types::ErrorKind;

use crate::job::{Begin, sink, sorted};
use crate::topic::{Topic, fresh_name, wait_until};

fn begin() -> Begin<'static> {
    Begin { job: "job", generation: 1, parallelism: 1, from: None }
}

#[test]
fn a_cluster_that_is_not_there_is_named_before_the_job_starts() {
    let sink = KafkaSink::<u64>::to_topic("out").brokers("127.0.0.1:1").value(|n: &u64| n.to_string());
    let error = sink.property("request.timeout.ms", "2000").validate().unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_topic_that_is_not_there_is_named_before_the_job_starts() {
    let kafka = Kafka::shared();
    let missing = fresh_name("missing");
    let sink = KafkaSink::<u64>::to_topic(&missing).brokers(kafka.bootstrap()).value(|n: &u64| n.to_string());
    let error = sink.validate().unwrap_err().to_string();
    assert!(error.contains(&format!("`{missing}` is not there")), "{error}");
}

#[test]
fn a_login_that_is_refused_is_said_before_the_job_starts_and_the_right_one_writes() {
    let kafka = Kafka::shared();
    let topic = Topic::fresh(&kafka, 1);
    let with = |user: &str, password: &str, address: &str| {
        let tls = address == kafka.sasl_tls();
        let sink = sink(&topic, "login").brokers(address).property("sasl.mechanism", "SCRAM-SHA-256");
        let sink = match tls {
            true => sink
                .property("security.protocol", "SASL_SSL")
                .property("ssl.truststore.location", kafka.certificate().to_string_lossy()),
            false => sink.property("security.protocol", "SASL_PLAINTEXT"),
        };
        sink.property("sasl.username", user).property("sasl.password", password)
    };
    let error = with(Kafka::USER, "guessed", kafka.sasl()).validate().unwrap_err().to_string();
    assert!(error.contains("sasl.mechanism") && !error.contains("guessed"), "{error}");
    for address in [kafka.sasl(), kafka.sasl_tls()] {
        let sink = with(Kafka::USER, Kafka::PASSWORD, address);
        sink.validate().unwrap();
        let job = format!("job at {address}");
        let mut job = Begin { job: &job, ..begin() }.open(sink).unwrap();
        job.write(0..10).unwrap();
        job.snapshot(1).unwrap();
        // commits by its own producer; one by numbers goes over the same connections
        job.complete(1).unwrap();
    }
    topic.settle("login");
    assert_eq!(topic.committed().len(), 20);
}

#[test]
fn transactions_that_cannot_live_long_enough_are_refused_with_both_numbers() {
    let kafka = Kafka::shared();
    let topic = Topic::fresh(&kafka, 1);
    let job = JobOutline {
        name: "job".into(),
        checkpoint_interval: Some(Duration::from_secs(30)),
        checkpoint_timeout: Duration::from_secs(60),
    };
    sink(&topic, "time").validate_for(&job).unwrap();
    let with = |timeout: &str| sink(&topic, "time").property("transaction.timeout.ms", timeout);
    let error = with("3600000").validate_for(&job).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("3600000 ms") && error.to_string().contains("900000 ms"), "{error}");
    let error = with("60000").validate_for(&job).unwrap_err().to_string();
    assert!(error.contains("60000 ms") && error.contains("90000 ms"), "{error}");
    let at_least_once = with("60000").delivery(Delivery::AtLeastOnce);
    at_least_once.validate_for(&job).unwrap();
}

#[test]
fn a_setting_that_makes_no_sense_is_refused_before_the_job_starts() {
    let kafka = Kafka::shared();
    let topic = Topic::fresh(&kafka, 1);
    let refused = |sink: KafkaSink<u64>, part: &str| {
        let error = sink.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(sink(&topic, "no spaces please"), "transactional_id_prefix");
    refused(sink(&topic, "p").property("acks", "1"), "acks");
    refused(sink(&topic, "p").property("linger", "1"), "linger.ms");
    refused(KafkaSink::to_topic(&topic.name).brokers(&topic.brokers), "serializer");
}

#[test]
fn a_record_that_is_too_large_fails_the_job_and_says_where_to_raise_the_limit() {
    let kafka = Kafka::shared();
    let name = fresh_name("small");
    kafka.create_topic_with(&name, 1, &[("max.message.bytes", "2000")]).unwrap();
    let topic = Topic::of(&kafka, name, 1);
    let large = sink(&topic, &fresh_name("large"));
    let large =
        large.record(|n| KafkaRecord::value(if n == 5 { vec![b'x'; 100_000] } else { b"1".to_vec() }));
    let mut job = begin().open(large).unwrap();
    job.write(0..10).unwrap();
    let error = job.snapshot(1).map(drop).unwrap_err().to_string();
    assert!(error.contains("max.message.bytes") && error.contains(&topic.name), "{error}");
    let error = job.await_ready(0).unwrap_err().to_string();
    assert!(error.contains("max.message.bytes"), "the job ends with the reason too: {error}");
    drop(job);
    assert_eq!(topic.committed().len(), 0);
}

#[test]
fn a_topic_that_is_deleted_while_the_job_runs_fails_it_with_its_name() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("deleted"));
    let hasty = sink(&topic, &prefix).property("request.timeout.ms", "2000").property("max.block.ms", "3000");
    let mut job = begin().open(hasty.property("delivery.timeout.ms", "4000")).unwrap();
    job.write(0..10).unwrap();
    job.snapshot(1).unwrap();
    job.complete(1).unwrap();
    kafka.delete_topic(&topic.name).unwrap();
    // the broker answers before it has deleted the topic, and takes records for it until then
    let (mut checkpoint, mut error) = (1, String::new());
    wait_until("the job fails", || {
        checkpoint += 1;
        let result = job.write(10..20).and_then(|()| job.snapshot(checkpoint));
        error = result.map_or_else(|error| error.to_string(), |_| String::new());
        !error.is_empty()
    });
    assert!(error.contains(&topic.name), "{error}");
}

#[test]
fn a_broker_that_is_away_for_a_while_delays_and_fails_nothing() {
    let kafka = Kafka::alone();
    let (topic, prefix) = (Topic::fresh(&kafka, 2), fresh_name("away"));
    let mut job = begin().open(sink(&topic, &prefix)).unwrap();
    job.write(0..100).unwrap();
    let first = job.snapshot(1).unwrap();
    kafka.kill().unwrap();
    // the commit and the next transaction have to wait
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::park_timeout(Duration::from_secs(3));
            kafka.restart().unwrap();
        });
        job.complete(first.id).unwrap();
        job.write(100..200).unwrap();
        job.snapshot(2).unwrap();
        job.complete(2).unwrap();
    });
    topic.settle(&prefix);
    assert_eq!(sorted(topic.committed()), (0..200).collect::<Vec<_>>());
}

#[test]
fn a_broker_that_stops_answering_in_a_transaction_delays_and_fails_nothing() {
    let kafka = Kafka::alone();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("stalls"));
    let mut job = begin().open(sink(&topic, &prefix).property("request.timeout.ms", "10000")).unwrap();
    job.write(0..100).unwrap();
    kafka.pause().unwrap();
    job.write(100..200).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::park_timeout(Duration::from_secs(3));
            kafka.resume().unwrap();
        });
        job.snapshot(1).unwrap();
        job.complete(1).unwrap();
    });
    topic.settle(&prefix);
    assert_eq!(sorted(topic.committed()), (0..200).collect::<Vec<_>>());
}

#[test]
fn an_at_least_once_sink_has_written_everything_when_its_checkpoint_is_acknowledged() {
    let kafka = Kafka::shared();
    let topic = Topic::fresh(&kafka, 2);
    // without the flush at the barrier these would wait for others
    let lazy = sink(&topic, "p").delivery(Delivery::AtLeastOnce).property("linger.ms", "60000");
    let mut job = begin().open(lazy.property("delivery.timeout.ms", "200000")).unwrap();
    job.write(0..100).unwrap();
    let checkpoint = job.snapshot(1).unwrap();
    assert_eq!(sorted(topic.committed()), (0..100).collect::<Vec<_>>());
    job.die();
    // what the checkpoint holds of them needs no commit
    Begin { generation: 2, from: Some(&checkpoint), ..begin() }.open(sink(&topic, "p")).unwrap();
    wait_until("readers see each once", || topic.committed().len() == 100);
}

#[test]
fn records_have_the_key_partition_headers_and_timestamp_that_they_are_given() {
    let kafka = Kafka::shared();
    let (topic, other) = (Topic::fresh(&kafka, 3), Topic::fresh(&kafka, 1));
    let elsewhere = other.name.clone();
    let made = sink(&topic, "p").delivery(Delivery::AtLeastOnce).record(move |n| {
        let record = KafkaRecord::value(n.to_string()).key("k").header("h", "v").timestamp_ms(86_400_000);
        if n == 7 { record.topic(&elsewhere) } else { record.partition((n % 3) as i32) }
    });
    let mut job = begin().open(made).unwrap();
    job.write(0..9).unwrap();
    job.snapshot(1).unwrap();
    assert_eq!(topic.committed(), ["0", "3", "6", "1", "4", "2", "5", "8"], "partition by partition");
    assert_eq!(other.committed(), ["7"]);
    let record = other.first_record();
    assert_eq!((record.key.as_deref(), record.timestamp), (Some(&b"k"[..]), 86_400_000));
    assert_eq!(record.headers.len(), 1);
}
