//! Topics, partitions and records of a broker under test.

use std::time::Duration;

use super::now;
use super::protocol::{Answer, Body, Connection};
use crate::error::{Error, Result};

const METADATA: i16 = 3;
const CREATE_TOPICS: i16 = 19;
const DELETE_TOPICS: i16 = 20;
const DELETE_RECORDS: i16 = 21;
const CREATE_PARTITIONS: i16 = 37;

/// How long a broker may take for a change.
const DONE_WITHIN: Duration = Duration::from_secs(30);
const DONE_WITHIN_MS: i32 = DONE_WITHIN.as_millis() as i32;

/// Whether the broker has joined its cluster and names itself.
pub(super) fn is_ready(connection: &mut Connection) -> Result<bool> {
    Ok(metadata(connection, &[])?.0 > 0)
}

/// How many brokers there are, and how many partitions with a leader each topic has.
fn metadata(connection: &mut Connection, topics: &[&str]) -> Result<(usize, Vec<usize>)> {
    let mut body = Body::default();
    body.array(topics, |body, topic| _ = body.string(topic)).bool(false);
    let mut answer = connection.ask(METADATA, 5, &body)?;
    answer.int32()?;
    let brokers = answer.array(|answer| {
        answer.int32()?;
        answer.string()?;
        answer.int32()?;
        answer.string()
    })?;
    answer.string()?;
    answer.int32()?;
    let topics = answer.array(|answer| {
        answer.int16()?;
        answer.string()?;
        answer.bool()?;
        let partitions = answer.array(|answer| {
            let code = answer.int16()?;
            answer.int32()?;
            let leader = answer.int32()?;
            for _ in 0..3 {
                answer.array(Answer::int32)?;
            }
            Ok(code == 0 && leader >= 0)
        })?;
        Ok(partitions.into_iter().filter(|led| *led).count())
    })?;
    Ok((brokers.len(), topics))
}

/// Waits until all partitions of a topic have a leader, here where clients ask.
pub(super) fn wait_for(connection: &mut Connection, topic: &str, partitions: u32) -> Result<()> {
    let start = now();
    while metadata(connection, &[topic])?.1 != [partitions as usize] {
        if start.elapsed() > DONE_WITHIN {
            return Err(Error::new(format!(
                "topic `{topic}` does not get leaders for {partitions} partitions"
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

pub(super) fn create_topic(
    connection: &mut Connection,
    name: &str,
    partitions: u32,
    settings: &[(&str, &str)],
) -> Result<()> {
    let mut body = Body::default();
    body.array(&[name], |body, name| {
        body.string(name).int32(partitions as i32).int16(1).int32(0);
        body.array(settings, |body, (key, value)| _ = body.string(key).string(value));
    });
    body.int32(DONE_WITHIN_MS).bool(false);
    let mut answer = connection.ask(CREATE_TOPICS, 4, &body)?;
    answer.int32()?;
    named(answer, true, "making topic")
}

pub(super) fn create_partitions(connection: &mut Connection, topic: &str, total: u32) -> Result<()> {
    let mut body = Body::default();
    // -1: the broker chooses where they lie
    body.array(&[topic], |body, topic| _ = body.string(topic).int32(total as i32).int32(-1));
    body.int32(DONE_WITHIN_MS).bool(false);
    let mut answer = connection.ask(CREATE_PARTITIONS, 1, &body)?;
    answer.int32()?;
    named(answer, true, "adding partitions to topic")
}

pub(super) fn delete_topic(connection: &mut Connection, name: &str) -> Result<()> {
    let mut body = Body::default();
    body.array(&[name], |body, name| _ = body.string(name)).int32(DONE_WITHIN_MS);
    let mut answer = connection.ask(DELETE_TOPICS, 3, &body)?;
    answer.int32()?;
    named(answer, false, "deleting topic")
}

/// Reads the answer for each topic, and returns the first one that is an error.
fn named(mut answer: Answer, with_message: bool, doing: &str) -> Result<()> {
    let topics = answer.array(|answer| {
        let (topic, code) = (answer.string()?, answer.int16()?);
        Ok((topic, code, if with_message { answer.string()? } else { String::new() }))
    })?;
    match topics.into_iter().find(|(_, code, _)| *code != 0) {
        None => Ok(()),
        Some((topic, code, message)) => {
            Err(Error::new(format!("{doing} `{topic}`: Kafka's error {code} {message}")))
        }
    }
}

pub(super) fn delete_records(
    connection: &mut Connection,
    topic: &str,
    partition: u32,
    before: u64,
) -> Result<()> {
    let mut body = Body::default();
    body.array(&[topic], |body, topic| {
        body.string(topic);
        body.array(&[partition], |body, partition| {
            body.int32(*partition as i32).int64(before as i64);
        });
    });
    body.int32(DONE_WITHIN_MS);
    let mut answer = connection.ask(DELETE_RECORDS, 1, &body)?;
    answer.int32()?;
    let codes = answer.array(|answer| {
        answer.string()?;
        answer.array(|answer| {
            answer.int32()?;
            answer.int64()?;
            answer.int16()
        })
    })?;
    match codes.concat().into_iter().find(|code| *code != 0) {
        None => Ok(()),
        Some(code) => Err(Error::new(format!(
            "deleting the records of {topic}-{partition} before {before}: Kafka's error {code}"
        ))),
    }
}
