//! [`KafkaRecord`]: what is written for a record of the stream.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::KafkaError;
use crate::client::Outgoing;

/// A record as Kafka has it. What is not said is left to Kafka: the topic is then the sink's, the partition
/// follows from the key, and the timestamp is the record's event time, or else the present.
///
/// ```
/// use stillstream_kafka::sink::KafkaRecord;
/// let record = KafkaRecord::value("12.5").key("station-7").header("unit", "C");
/// # let _ = record;
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KafkaRecord {
    /// The topic, if it is not the sink's.
    pub topic: Option<String>,
    /// The partition; without it the key decides (murmur2, as Kafka's own clients do), or chance.
    pub partition: Option<i32>,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value; `None` is a tombstone, which deletes the key in a compacted topic.
    pub value: Option<Vec<u8>>,
    /// Headers, in this order; a name may come twice.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
}

impl KafkaRecord {
    /// A record with this value.
    pub fn value(value: impl Into<Vec<u8>>) -> Self {
        Self { value: Some(value.into()), ..Self::default() }
    }

    /// Sets the topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Sets the partition.
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Sets the key.
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Sets the timestamp, in milliseconds since 1970.
    pub fn timestamp_ms(mut self, timestamp: i64) -> Self {
        self.timestamp_ms = Some(timestamp);
        self
    }
}

/// Turns a record of the stream into one of Kafka.
pub(super) type Encode<T> = Arc<dyn Fn(T) -> Result<KafkaRecord, String> + Send + Sync>;

/// How a sink makes records, with its topic.
pub(super) struct Encoder<T> {
    pub topic: String,
    pub encode: Option<Encode<T>>,
    pub key: Option<KeyOf<T>>,
}

pub(super) type KeyOf<T> = Arc<dyn Fn(&T) -> Vec<u8> + Send + Sync>;

impl<T> Clone for Encoder<T> {
    fn clone(&self) -> Self {
        Self { topic: self.topic.clone(), encode: self.encode.clone(), key: self.key.clone() }
    }
}

impl<T> fmt::Debug for Encoder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoder({})", self.topic)
    }
}

pub(super) fn json<T: Serialize>(value: T) -> Result<KafkaRecord, String> {
    serde_json::to_vec(&value).map(KafkaRecord::value).map_err(|error| error.to_string())
}

impl<T> Encoder<T> {
    /// A record of the stream, with its event time if it has one.
    pub fn outgoing(&self, value: T, time_ms: Option<i64>) -> Result<Outgoing, KafkaError> {
        let fail = |why: String| KafkaError::Encode { topic: self.topic.clone(), why };
        let Some(encode) = &self.encode else {
            return Err(fail("it has no serializer; see `value`, `json` and `record` of the sink".into()));
        };
        let key = self.key.as_ref().map(|key| key(&value));
        let made = encode(value).map_err(fail)?;
        Ok(Outgoing {
            topic: made.topic.unwrap_or_else(|| self.topic.clone()),
            partition: made.partition,
            key: made.key.or(key),
            value: made.value,
            headers: made.headers,
            // a record before 1970 has no timestamp that Kafka would take
            timestamp_ms: made.timestamp_ms.or(time_ms.filter(|time| *time >= 0)),
        })
    }
}
