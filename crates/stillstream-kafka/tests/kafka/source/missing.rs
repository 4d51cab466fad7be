//! Topics and brokers that are not there.

use std::time::{Duration, Instant};

use stillstream_kafka::source::{KafkaSource, StartOffsets, Topics};
use stillstream_runtime::connect::SplitSource;
use stillstream_services::Kafka;

use super::{open, restore, take, texts};
use crate::records::write;

fn refused<T: stillstream_state::Data>(source: &KafkaSource<T>) -> String {
    source.validate().unwrap_err().to_string()
}

#[test]
fn a_topic_that_does_not_exist_is_named_before_the_job_starts() {
    let kafka = Kafka::shared();
    let error = refused(&texts(&kafka, "not-there"));
    assert!(
        error.contains("topic `not-there` does not exist") && error.contains(kafka.bootstrap()),
        "{error}"
    );
    texts(&kafka, "unused").validate().unwrap_err();
    // a pattern waits for topics that come
    KafkaSource::from_topic(Topics::pattern("not-there-.*"))
        .brokers(kafka.bootstrap())
        .text()
        .validate()
        .unwrap();
}

#[test]
fn a_broker_that_does_not_listen_is_named_within_seconds() {
    // nobody listens on a port that was just free
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    #[expect(clippy::disallowed_methods, reason = "how long it took")]
    let start = Instant::now();
    let error = refused(&KafkaSource::from_topic("in").brokers(&address).text());
    assert!(error.contains(&address), "{error}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}: {error}", start.elapsed());
}

#[test]
fn what_is_wrong_with_the_description_of_a_source_is_said_before_anybody_is_asked() {
    let source = || KafkaSource::<String>::from_topic("in").brokers("127.0.0.1:1");
    let error = refused(&source());
    assert!(error.contains(".json()"), "{error}");
    let error = refused(&source().text().property("fetch.size", "1"));
    assert!(error.contains("`fetch.size`"), "{error}");
    let error = refused(&source().text().property("isolation.level", "serial"));
    assert!(error.contains("isolation.level") && error.contains("`serial`"), "{error}");
    let error = refused(&source().text().property("auto.offset.reset", "somewhere"));
    assert!(error.contains("auto.offset.reset"), "{error}");
    let error = refused(&source().text().start(StartOffsets::Committed { otherwise: Default::default() }));
    assert!(error.contains("group.id"), "{error}");
    let error = refused(&KafkaSource::from_topic(Topics::pattern("a(")).brokers("127.0.0.1:1").text());
    assert!(error.contains("`a(`"), "{error}");
    let error = refused(&KafkaSource::from_topic("in").text());
    assert!(error.contains("bootstrap.servers"), "{error}");
}

#[test]
fn a_topic_that_was_deleted_and_created_again_is_not_read_from_an_offset_of_the_old_one() {
    let kafka = Kafka::shared();
    kafka.create_topic("again", 1).unwrap();
    write(kafka.bootstrap(), "again", 0, ["a"]);
    let mut driver = open(texts(&kafka, "again"));
    assert_eq!(take(&mut driver, 1), ["a"]);
    let state = driver.snapshot();
    drop(driver);
    kafka.delete_topic("again").unwrap();
    kafka.create_topic("again", 1).unwrap();
    write(kafka.bootstrap(), "again", 0, ["x", "y"]);
    let error = restore(texts(&kafka, "again"), state).next().unwrap_err().to_string();
    assert!(error.contains("topic `again`") && error.contains("deleted and created again"), "{error}");
}

#[test]
fn a_topic_that_is_deleted_while_it_is_read_fails_the_job_and_names_what_was_read() {
    let kafka = Kafka::shared();
    kafka.create_topic("deleted", 1).unwrap();
    write(kafka.bootstrap(), "deleted", 0, ["a"]);
    let mut driver = open(texts(&kafka, "deleted"));
    assert_eq!(take(&mut driver, 1), ["a"]);
    kafka.delete_topic("deleted").unwrap();
    let error = driver.next().unwrap_err().to_string();
    assert!(error.contains("deleted-0 is not there any more") && error.contains("up to offset 1"), "{error}");
}

#[test]
fn a_broker_that_is_away_for_a_while_delays_records_and_loses_none() {
    let kafka = Kafka::alone();
    kafka.create_topic("away", 2).unwrap();
    write(kafka.bootstrap(), "away", 0, ["a"]);
    let mut driver = open(texts(&kafka, "away"));
    assert_eq!(take(&mut driver, 1), ["a"]);
    kafka.kill().unwrap();
    kafka.restart().unwrap();
    write(kafka.bootstrap(), "away", 0, ["b"]);
    write(kafka.bootstrap(), "away", 1, ["c"]);
    let mut found = take(&mut driver, 2);
    found.sort();
    assert_eq!(found, ["b", "c"]);
    // one that hangs
    kafka.pause().unwrap();
    let state = driver.snapshot();
    kafka.resume().unwrap();
    write(kafka.bootstrap(), "away", 1, ["d"]);
    assert_eq!(take(&mut driver, 1), ["d"]);
    assert_eq!(take(&mut restore(texts(&kafka, "away"), state), 1), ["d"]);
}
