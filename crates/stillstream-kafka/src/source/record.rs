//! Records as a deserializer sees them, and as they are kept.

use stillstream_state::Data;
use stillstream_types::Timestamp;

use crate::client::partition_reader::Fetched;

/// A record of a topic, as a deserializer sees it.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerRecord<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The number of the partition.
    pub partition: u32,
    /// The offset within the partition.
    pub offset: u64,
    /// The time that the producer gave it, or the broker (`message.timestamp.type`).
    pub timestamp: Timestamp,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone, which deletes a key of a compacted topic.
    pub value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Headers<'a> {
    Fetched(&'a Fetched),
    Kept(&'a [(String, Option<Vec<u8>>)]),
}

impl<'a> ConsumerRecord<'a> {
    pub(super) fn of(fetched: &'a Fetched) -> Self {
        Self {
            topic: &fetched.topic,
            partition: fetched.partition as u32,
            offset: fetched.offset.max(0) as u64,
            timestamp: Timestamp::from_millis(fetched.timestamp),
            key: fetched.key.as_deref(),
            value: fetched.value.as_deref(),
            headers: Headers::Fetched(fetched),
        }
    }

    /// The headers, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, Option<&'a [u8]>)> + use<'a> {
        let (fetched, kept) = match self.headers {
            Headers::Fetched(record) => (record.headers.as_slice(), &[][..]),
            Headers::Kept(headers) => (&[][..], headers),
        };
        let fetched = fetched.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
        fetched.chain(kept.iter().map(|(key, value)| (key.as_str(), value.as_deref())))
    }

    /// The value of the last header with this name.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers().filter(|(key, _)| *key == name).last()?.1
    }

    /// A copy of all of it.
    pub fn to_raw(&self) -> RawRecord {
        RawRecord {
            topic: self.topic.to_string(),
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            key: self.key.map(<[u8]>::to_vec),
            value: self.value.map(<[u8]>::to_vec),
            headers: self
                .headers()
                .map(|(key, value)| (key.to_string(), value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}

/// A record of a topic with all that belongs to it, as bytes.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct RawRecord {
    /// The topic.
    pub topic: String,
    /// The number of the partition.
    pub partition: u32,
    /// The offset within the partition.
    pub offset: u64,
    /// The time that the producer gave it, or the broker.
    pub timestamp: Timestamp,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// The headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl RawRecord {
    /// As a deserializer sees it: to try one by hand.
    pub fn as_consumer_record(&self) -> ConsumerRecord<'_> {
        ConsumerRecord {
            topic: &self.topic,
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: Headers::Kept(&self.headers),
        }
    }
}

/// A record that the deserializer refused: what the side output of a source has with
/// [`OnBadRecord::DeadLetter`](super::OnBadRecord).
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct DeadLetter {
    /// The record.
    pub record: RawRecord,
    /// What the deserializer said.
    pub reason: String,
}
