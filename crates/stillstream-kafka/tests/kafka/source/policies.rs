//! What becomes of records that do not fit, and of offsets that are not there.

use krafka::producer::Record;
use stillstream_kafka::source::{
    ConsumerRecord, DeadLetter, KafkaSource, OffsetReset, OnBadRecord, RawRecord, Refusal, StopOffsets,
};
use stillstream_services::Kafka;

use super::{Driver, open, restore, take, texts};
use crate::records::{send, write};

#[test]
fn a_poisoned_record_fails_is_counted_or_is_put_aside() {
    let kafka = Kafka::shared();
    kafka.create_topic("poison", 1).unwrap();
    write(kafka.bootstrap(), "poison", 0, ["[1, 2]", "[oh", "[3]"]);
    let source = |policy| {
        let source = KafkaSource::<Vec<u32>>::from_topic("poison").brokers(kafka.bootstrap()).json();
        open(source.stop(StopOffsets::Latest).on_bad_record(policy))
    };
    let error = source(OnBadRecord::Fail).rest().unwrap_err().to_string();
    assert!(error.contains("offset 1 of poison-0") && error.contains("`[oh`"), "{error}");

    let mut skips = source(OnBadRecord::SkipAndCount);
    assert_eq!(skips.rest().unwrap(), [vec![1, 2], vec![3]]);
    assert_eq!(skips.counters.all()["source.malformed"], 1);

    let mut dead = source(OnBadRecord::DeadLetter);
    assert_eq!(dead.rest().unwrap(), [vec![1, 2], vec![3]]);
    let letters = dead.side::<DeadLetter>();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].record.offset, letters[0].record.value.as_deref()), (1, Some(&b"[oh"[..])));
    assert!(letters[0].reason.contains("expected"), "{letters:?}");
    assert_eq!(dead.counters.all()["source.malformed"], 1);
}

#[test]
fn a_deserializer_sees_all_of_a_record_and_emits_what_it_likes() {
    let kafka = Kafka::shared();
    kafka.create_topic("all-of-it", 1).unwrap();
    let record = Record::new("all-of-it", "to be")
        .partition(0)
        .key("k")
        .timestamp(1234)
        .header("h", "1")
        .null_header("n");
    send(kafka.bootstrap(), vec![record, Record::tombstone("all-of-it", "gone").partition(0)]);
    let raw = KafkaSource::from_topic("all-of-it").brokers(kafka.bootstrap()).raw().stop(StopOffsets::Latest);
    let raw: Vec<RawRecord> = open(raw).rest().unwrap();
    assert_eq!((raw[0].topic.as_str(), raw[0].partition, raw[0].offset), ("all-of-it", 0, 0));
    assert_eq!(raw[0].timestamp.as_millis(), 1234);
    assert_eq!(raw[0].headers, [("h".to_string(), Some(b"1".to_vec())), ("n".to_string(), None)]);
    assert_eq!((raw[1].key.as_deref(), raw[1].value.as_deref()), (Some(&b"gone"[..]), None));
    let words = |record: &ConsumerRecord<'_>, out: &mut Vec<String>| -> Result<(), Refusal> {
        let text = std::str::from_utf8(record.value.unwrap_or_default())?;
        out.extend(text.split_whitespace().map(String::from));
        Ok(())
    };
    let words = KafkaSource::from_topic("all-of-it").brokers(kafka.bootstrap()).deserializer(words);
    assert_eq!(open(words.stop(StopOffsets::Latest)).rest().unwrap(), ["to", "be"]);
}

#[test]
fn a_position_that_retention_has_passed_fails_or_is_jumped_over_as_it_was_told() {
    let kafka = Kafka::shared();
    kafka.create_topic("passed", 1).unwrap();
    write(kafka.bootstrap(), "passed", 0, ["a", "b", "c", "d"]);
    let mut driver = open(texts(&kafka, "passed").property("max.poll.records", "1"));
    assert_eq!(take(&mut driver, 1), ["a"]);
    let state = driver.snapshot();
    drop(driver);
    kafka.delete_records("passed", 0, 3).unwrap();

    let error = restore(texts(&kafka, "passed"), state.clone()).next().unwrap_err().to_string();
    assert!(error.contains("passed-0 has the offsets from 3 to 4, and is to be read from 1 on"), "{error}");

    let mut earliest =
        restore(texts(&kafka, "passed").property("auto.offset.reset", "earliest"), state.clone());
    assert_eq!(take(&mut earliest, 1), ["d"]);
    assert_eq!(earliest.counters.all()["source.out-of-range"], 1);

    let mut latest = restore(texts(&kafka, "passed").on_out_of_range(OffsetReset::Latest), state);
    // it looks for its place when it is read
    let jumped = |driver: &Driver<String>| driver.counters.all().contains_key("source.out-of-range");
    while !jumped(&latest) {
        std::thread::yield_now();
    }
    write(kafka.bootstrap(), "passed", 0, ["e"]);
    assert_eq!(take(&mut latest, 1), ["e"]);
}
