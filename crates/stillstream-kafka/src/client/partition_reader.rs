//! Reads partitions that somebody else assigned, from offsets that somebody else keeps.

use std::fmt;
use std::time::Duration;

use krafka::consumer::{AutoOffsetReset, Consumer, ConsumerRecord, IsolationLevel, TopicPartition};
use krafka::error::KrafkaError;

use super::offsets::Partition;
use super::{Cluster, Properties};
use crate::KafkaError;

/// A record as it was fetched.
pub(crate) type Fetched = ConsumerRecord;

/// What came of a poll.
#[derive(Debug)]
pub(crate) enum Polled {
    /// Records, those of each partition together and in order; none if nothing came.
    Records(Vec<Fetched>),
    /// The positions of these partitions lie outside of what is there.
    OutOfRange(Vec<Partition>),
    /// Something that may pass: the client tries again by itself.
    Trouble(String),
}

/// Where a partition stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    pub partition: Partition,
    /// The offset of the next record. It has passed what is no record: marks of transactions, and records of
    /// aborted ones.
    pub position: Option<u64>,
    /// How many offsets there are behind it, as far as that is known.
    pub lag: Option<u64>,
}

/// A consumer without a group.
pub(crate) struct PartitionReader {
    consumer: Consumer,
    cluster: Cluster,
}

impl fmt::Debug for PartitionReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionReader({})", self.cluster.brokers())
    }
}

impl PartitionReader {
    /// Keys of the client that only a reader takes.
    pub(crate) const KEYS: &[&str] = &[
        "client.rack",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.records",
    ];

    /// Connects. It has connections of its own, as a fetch keeps others on its connection waiting.
    pub(crate) async fn connect(properties: &Properties) -> Result<Self, KafkaError> {
        let cluster = Cluster::connect(properties).await?;
        let batch = records_of_a_poll(properties)?;
        let mut builder = cluster
            .kafka()
            .consumer_without_group()
            .auto_offset_reset(AutoOffsetReset::None)
            .enable_auto_commit(false)
            .isolation_level(match reads_committed_only(properties)? {
                true => IsolationLevel::ReadCommitted,
                false => IsolationLevel::ReadUncommitted,
            })
            .max_poll_records(batch)
            .max_buffered_records(batch)
            .metrics_push(false);
        if let Some(bytes) = positive(properties, "fetch.min.bytes")? {
            builder = builder.fetch_min_bytes(bytes);
        }
        if let Some(bytes) = positive(properties, "fetch.max.bytes")? {
            builder = builder.fetch_max_bytes(bytes);
        }
        if let Some(bytes) = positive(properties, "max.partition.fetch.bytes")? {
            builder = builder.max_partition_fetch_bytes(bytes);
        }
        if let Some(wait) = properties.millis("fetch.max.wait.ms")? {
            builder = builder.fetch_max_wait(wait);
        }
        if let Some(rack) = properties.get("client.rack") {
            builder = builder.client_rack(rack);
        }
        let consumer = builder.build().await;
        let consumer = consumer.map_err(|error| KafkaError::connecting(cluster.brokers(), error))?;
        Ok(Self { consumer, cluster })
    }

    /// The cluster that it is connected to.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Reads these partitions of a topic from now on, and no others of it. New ones must be
    /// [sought](Self::seek) before the next poll; the others go on where they are.
    pub(crate) async fn assign(&self, topic: &str, partitions: &[u32]) -> Result<(), KafkaError> {
        let numbers = partitions.iter().map(|number| *number as i32).collect();
        self.consumer
            .assign(topic, numbers)
            .await
            .map_err(|error| self.asking(&format!("for `{topic}`"), error))
    }

    /// Goes on with this offset, and drops what was fetched already.
    pub(crate) async fn seek(&self, partition: &Partition, offset: u64) -> Result<(), KafkaError> {
        let sought = self.consumer.seek(&partition.topic, partition.number as i32, offset as i64).await;
        sought.map_err(|error| self.asking(&format!("for {partition} from {offset} on"), error))
    }

    /// Leaves partitions out, or reads them again.
    pub(crate) async fn pause(&self, partition: &Partition, paused: bool) {
        let number = [partition.number as i32];
        match paused {
            true => self.consumer.pause(&partition.topic, &number).await,
            false => self.consumer.resume(&partition.topic, &number).await,
        }
    }

    /// Waits up to this long for records.
    ///
    /// # Errors
    /// What does not pass by itself.
    pub(crate) async fn poll(&self, wait: Duration) -> Result<Polled, KafkaError> {
        match self.consumer.poll(wait).await {
            Ok(records) => Ok(Polled::Records(records)),
            Err(KrafkaError::NoOffset { partitions }) => {
                let partitions =
                    partitions.iter().map(|(topic, number)| Partition::new(topic, *number as u32));
                Ok(Polled::OutOfRange(partitions.collect()))
            }
            Err(error) if error.is_retriable() => Ok(Polled::Trouble(error.to_string())),
            Err(error) => Err(self.asking("for records", error)),
        }
    }

    /// The first offset that is there, and the one behind the last.
    pub(crate) async fn range(&self, partition: &Partition) -> Result<(u64, u64), KafkaError> {
        let found = self.consumer.fetch_watermarks(&partition.topic, partition.number as i32).await;
        let (first, end) =
            found.map_err(|error| self.asking(&format!("for the range of {partition}"), error))?;
        Ok((first.max(0) as u64, end.max(0) as u64))
    }

    /// Where all partitions stand. Nobody is asked for it.
    pub(crate) async fn standings(&self) -> Vec<Standing> {
        let lags = self.consumer.lag().await.into_iter();
        let standing = |(key, lag): (TopicPartition, krafka::consumer::PartitionLag)| Standing {
            partition: Partition::new(key.topic(), key.partition() as u32),
            position: lag.position.map(|position| position.max(0) as u64),
            lag: lag.lag,
        };
        lags.map(standing).collect()
    }

    /// Tells the brokers that nothing more is wanted.
    pub(crate) async fn close(&self) {
        // they find out by themselves
        let _ = self.consumer.close().await;
    }

    fn asking(&self, what: &str, error: KrafkaError) -> KafkaError {
        KafkaError::asking(self.cluster.brokers(), what, &error)
    }
}

/// Checks the keys of [`PartitionReader::KEYS`] without connecting.
pub(crate) fn check(properties: &Properties) -> Result<(), KafkaError> {
    reads_committed_only(properties)?;
    records_of_a_poll(properties)?;
    for key in ["fetch.min.bytes", "fetch.max.bytes", "max.partition.fetch.bytes"] {
        positive(properties, key)?;
    }
    properties.millis("fetch.max.wait.ms").map(drop)
}

/// Whether records of transactions that are open or were aborted are left out: yes, if `isolation.level` does
/// not say otherwise.
pub(crate) fn reads_committed_only(properties: &Properties) -> Result<bool, KafkaError> {
    match properties.get("isolation.level").map(str::to_ascii_lowercase).as_deref() {
        None | Some("read_committed") => Ok(true),
        Some("read_uncommitted") => Ok(false),
        Some(_) => Err(properties.wrong("isolation.level", "read_committed or read_uncommitted")),
    }
}

fn records_of_a_poll(properties: &Properties) -> Result<i32, KafkaError> {
    Ok(positive(properties, "max.poll.records")?.unwrap_or(1000))
}

fn positive(properties: &Properties, key: &'static str) -> Result<Option<i32>, KafkaError> {
    match properties.number(key)? {
        None => Ok(None),
        Some(number) => match i32::try_from(number) {
            Ok(number) if number > 0 => Ok(Some(number)),
            _ => Err(properties.wrong(key, "a number between 1 and 2147483647")),
        },
    }
}
