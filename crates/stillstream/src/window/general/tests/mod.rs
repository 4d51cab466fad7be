//! The general window operator against what Flink's does, rule by rule.

mod count_and_purge;
mod evictors;
mod lifetime;
mod mistakes;
mod processing_time;
mod restarts;
mod sessions;

use crate::prelude::*;
use crate::testing::StreamDriver;

/// Key, value.
type Record = (String, u64);
type Driver<R> = StreamDriver<Record, R>;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn record(value: u64) -> Record {
    ("a".into(), value)
}

/// Key of the record.
fn name(record: &Record) -> &String {
    &record.0
}

fn add(a: Record, b: Record) -> Record {
    (a.0, a.1 + b.1)
}

/// Feeds records of key `a`, each with its time.
fn feed<R: Data>(driver: &mut Driver<R>, records: impl IntoIterator<Item = (u64, i64)>) {
    for (value, time) in records {
        driver.record_at(record(value), at(time)).unwrap();
    }
}

/// The values that came out.
fn values(driver: &mut Driver<Record>) -> Vec<u64> {
    driver.output().into_iter().map(|record| record.1).collect()
}
