//! Where a source begins, ends, and goes on.

use krafka::admin::TopicPartition;
use krafka::producer::Record;
use stillstream_kafka::source::{OffsetReset, StartOffsets, StopOffsets};
use stillstream_services::Kafka;
use stillstream_types::{CheckpointId, Timestamp};

use super::{Driver, open, restore, take, texts};
use crate::records::{abort, begin, block_on, commit, connect, send, write};

/// Values `a`, `b` and `c` at offsets 0, 1 and 2, and at 1, 2 and 3 s.
fn abc(kafka: &Kafka, topic: &str) {
    // retention goes by the time of records
    kafka.create_topic_with(topic, 1, &[("retention.ms", "-1")]).unwrap();
    let record = |(value, at): (&'static str, i64)| Record::new(topic, value).partition(0).timestamp(at);
    send(kafka.bootstrap(), [("a", 1000), ("b", 2000), ("c", 3000)].map(record).to_vec());
}

#[test]
fn a_source_begins_where_it_is_told() {
    let kafka = Kafka::shared();
    abc(&kafka, "starts");
    let from = |start| {
        open(texts(&kafka, "starts").group_id("starts").start(start).stop(StopOffsets::Latest))
            .rest()
            .unwrap()
    };
    assert_eq!(from(StartOffsets::Earliest), ["a", "b", "c"]);
    assert_eq!(from(StartOffsets::Timestamp(Timestamp::from_millis(1001))), ["b", "c"]);
    assert!(from(StartOffsets::Timestamp(Timestamp::from_millis(9000))).is_empty());
    assert_eq!(from(StartOffsets::Offsets(vec![("starts".into(), 0, 2)])), ["c"]);
    let committed = StartOffsets::Committed { otherwise: OffsetReset::Earliest };
    assert_eq!(from(committed.clone()), ["a", "b", "c"], "nothing is committed");
    block_on(async {
        let admin = connect(kafka.bootstrap()).await.admin();
        let offsets = [(TopicPartition::new("starts", 0), 1)];
        admin.alter_consumer_group_offsets("starts", offsets, Default::default()).await.unwrap();
    });
    assert_eq!(from(committed), ["b", "c"]);
}

#[test]
fn a_group_shows_the_last_checkpoint_also_when_the_source_has_ended() {
    let kafka = Kafka::shared();
    abc(&kafka, "watched");
    let source = || texts(&kafka, "watched").group_id("watched").stop(StopOffsets::Latest);
    let mut driver = open(source());
    assert_eq!(driver.rest().unwrap(), ["a", "b", "c"]);
    driver.reader.snapshot(CheckpointId(1));
    driver.reader.checkpoint_complete(CheckpointId(1)).unwrap();
    drop(driver);
    let committed = StartOffsets::Committed { otherwise: OffsetReset::Fail };
    assert!(open(source().start(committed)).rest().unwrap().is_empty());
}

#[test]
fn a_source_that_cannot_begin_where_it_is_told_says_why() {
    let kafka = Kafka::shared();
    abc(&kafka, "no-start");
    let fails = |start| {
        let source = texts(&kafka, "no-start").group_id("nobody").start(start);
        Driver::begin(&source).err().expect("it cannot begin there").to_string()
    };
    let error = fails(StartOffsets::Committed { otherwise: OffsetReset::Fail });
    assert!(error.contains("`nobody`") && error.contains("no-start-0"), "{error}");
    let error = fails(StartOffsets::Offsets(vec![("no-start".into(), 7, 1)]));
    assert!(error.contains("no-start-7"), "{error}");
}

#[test]
fn what_comes_behind_the_latest_offset_is_read_also_if_it_was_written_while_the_job_was_down() {
    let kafka = Kafka::shared();
    kafka.create_topic("latest", 2).unwrap();
    write(kafka.bootstrap(), "latest", 0, ["old"]);
    let source = || texts(&kafka, "latest").start(StartOffsets::Latest);
    let mut driver = open(source());
    write(kafka.bootstrap(), "latest", 0, ["new"]);
    assert_eq!(take(&mut driver, 1), ["new"]);
    // partition 1 has had no record so far
    let state = driver.snapshot();
    drop(driver);
    let ids: Vec<String> = (0..100).map(|id| id.to_string()).collect();
    write(kafka.bootstrap(), "latest", 1, ids.clone());
    assert_eq!(take(&mut restore(source(), state), 100), ids);
}

#[test]
fn a_source_that_is_to_end_does_so_behind_the_marks_of_transactions_and_reads_nothing_later() {
    let kafka = Kafka::shared();
    kafka.create_topic("ends", 2).unwrap();
    commit(&begin(kafka.bootstrap(), "ends-1", "ends", &["a", "b"])).unwrap();
    abort(&begin(kafka.bootstrap(), "ends-2", "ends", &["never"])).unwrap();
    let mut driver = open(texts(&kafka, "ends").stop(StopOffsets::Latest));
    write(kafka.bootstrap(), "ends", 0, ["later"]);
    assert_eq!(driver.rest().unwrap(), ["a", "b"]);
    let at = StopOffsets::Offsets(vec![("ends".into(), 0, 1)]);
    assert_eq!(open(texts(&kafka, "ends").stop(at)).rest().unwrap(), ["a"]);
}

#[test]
fn records_of_a_transaction_are_read_when_it_is_committed() {
    let kafka = Kafka::shared();
    kafka.create_topic("undecided", 1).unwrap();
    write(kafka.bootstrap(), "undecided", 0, ["before"]);
    let transaction = begin(kafka.bootstrap(), "undecided-1", "undecided", &["inside"]);
    let mut driver = open(texts(&kafka, "undecided"));
    let mut hasty = open(texts(&kafka, "undecided").property("isolation.level", "read_uncommitted"));
    assert_eq!(take(&mut hasty, 2), ["before", "inside"]);
    assert_eq!(take(&mut driver, 1), ["before"]);
    // a start at the latest offset lies before what is undecided
    let mut latest = open(texts(&kafka, "undecided").start(StartOffsets::Latest));
    commit(&transaction).unwrap();
    assert_eq!(take(&mut driver, 1), ["inside"]);
    assert_eq!(take(&mut latest, 1), ["inside"]);
}
