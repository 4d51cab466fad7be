//! [`KafkaSink`]: writes a stream to a topic.
//!
//! | module | what is inside |
//! |---|---|
//! | `record` | what is written for a record of the stream |
//! | `writer` | the writer of one subtask, and in what order it gets producers |
//! | `flight` | records on their way from the worker to one producer |
//! | `opening` | what is got from the cluster in the background |
//! | `commit` | commits, also after a crash, and what is made of a commit that is refused |
//! | `left_over` | transactions that earlier attempts left open |
//! | `names` | transactional ids |
//! | `check` | what is looked at before a job starts |

mod check;
mod commit;
mod committable;
mod connection;
mod flight;
mod left_over;
mod names;
mod opening;
mod record;
mod writer;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use stillstream_runtime::connect::{Committer, JobOutline, Sink, SinkContext, SinkWriter};
use stillstream_state::Data;
use stillstream_types::Result;

use commit::{KafkaCommitter, Lanes};
pub use committable::KafkaCommittable;
use connection::Connection;
use names::Names;
use record::Encoder;
pub use record::KafkaRecord;

use crate::KafkaError;
use crate::client::Properties;

/// What a reader of the topic may see after a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Delivery {
    /// Records may be missing or be there twice: no checkpoint waits for them.
    None,
    /// No record is missing; those since the last checkpoint may be there twice.
    #[default]
    AtLeastOnce,
    /// Each record is there once for readers with `isolation.level=read_committed`, which see it when its
    /// checkpoint is complete.
    ExactlyOnce,
}

/// What becomes of a job whose checkpoint holds a transaction that cannot be committed any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLostTransaction {
    /// It fails, and no restart is tried: the message has the numbers of the transaction.
    #[default]
    Fail,
    /// It goes on without those records. They are counted, and the log has the message.
    GoOn,
}

/// Writes a stream to a topic.
///
/// ```
/// use stillstream_kafka::sink::{Delivery, KafkaSink};
/// #[derive(Clone, serde::Serialize, stillstream_state::Data)]
/// # #[data(crate = stillstream_state)]
/// struct Count { word: String, count: u64 }
///
/// let sink = KafkaSink::<Count>::to_topic("counts")
///     .brokers("broker-1:9092,broker-2:9092")
///     .json()
///     .key(|count| count.word.as_bytes().to_vec())
///     .delivery(Delivery::ExactlyOnce)
///     .transactional_id_prefix("word-count")
///     .property("compression.type", "lz4");
/// # fn check<T: stillstream_state::Data>(_: impl stillstream_runtime::connect::Sink<T>) {}
/// # check(sink);
/// ```
///
/// # Exactly once
/// Each subtask writes in one transaction for each checkpoint, under a transactional id of its own:
/// `prefix-scope-subtask-generation-checkpoint`. The scope is made of the job's name, the place of its
/// checkpoints and the sink's uid, so two jobs cannot harm one another although they have one prefix. The
/// checkpoint holds what is needed to commit, and a transaction that was prepared before a crash is committed
/// after it. So `transaction.timeout.ms` (15 minutes if not said, or what the brokers allow) must be longer
/// than the job may ever be away between the two; it is checked at the start against the brokers' maximum and
/// the time that a checkpoint may take.
pub struct KafkaSink<T> {
    encoder: Encoder<T>,
    properties: Properties,
    connection: Connection,
    delivery: Delivery,
    prefix: String,
    on_lost: OnLostTransaction,
    lanes: Lanes,
}

impl<T> fmt::Debug for KafkaSink<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink")
            .field("topic", &self.encoder.topic)
            .field("properties", &self.properties)
            .field("delivery", &self.delivery)
            .finish_non_exhaustive()
    }
}

impl<T> KafkaSink<T> {
    /// A sink that writes to `topic`. It needs [`brokers`](Self::brokers) and a serializer.
    pub fn to_topic(topic: impl Into<String>) -> Self {
        Self {
            encoder: Encoder { topic: topic.into(), encode: None, key: None },
            properties: Properties::default(),
            connection: Connection::new(Properties::default()),
            delivery: Delivery::default(),
            prefix: "stillstream".into(),
            on_lost: OnLostTransaction::default(),
            lanes: Lanes::default(),
        }
    }

    /// Where to find the cluster: `host:port`, several separated by commas.
    pub fn brokers(self, brokers: impl Into<String>) -> Self {
        self.property("bootstrap.servers", brokers)
    }

    /// Sets a property by Kafka's own name, such as `compression.type` or `linger.ms`; see [`Properties`] for
    /// TLS and SASL.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.set(key, value);
        self.connection = Connection::new(self.properties.clone());
        self
    }

    /// Writes the bytes that `value` makes of a record.
    pub fn value<V: Into<Vec<u8>>>(self, value: impl Fn(&T) -> V + Send + Sync + 'static) -> Self {
        self.record(move |record| KafkaRecord::value(value(&record)))
    }

    /// Writes what `record` makes of a record: with a key, headers, a partition, a timestamp, or to another
    /// topic.
    pub fn record(self, record: impl Fn(T) -> KafkaRecord + Send + Sync + 'static) -> Self {
        self.try_record(move |value| Ok::<_, String>(record(value)))
    }

    /// The same with a serializer that may refuse a record, which fails the job.
    pub fn try_record<E: fmt::Display>(
        mut self,
        record: impl Fn(T) -> Result<KafkaRecord, E> + Send + Sync + 'static,
    ) -> Self {
        self.encoder.encode = Some(Arc::new(move |value| record(value).map_err(|error| error.to_string())));
        self
    }

    /// The key of each record, unless [`record`](Self::record) sets one. Records with one key go to one
    /// partition.
    pub fn key<K: Into<Vec<u8>>>(mut self, key: impl Fn(&T) -> K + Send + Sync + 'static) -> Self {
        self.encoder.key = Some(Arc::new(move |value| key(value).into()));
        self
    }

    /// What readers may see after a failure; at least once if not said.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// What the ids of all transactions begin with (`stillstream` if not said): name it in the rights of the
    /// user, and for `stillstream kafka transactions`.
    pub fn transactional_id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// What becomes of the job if a transaction of a completed checkpoint is gone; it fails if not said.
    pub fn on_lost_transaction(mut self, on_lost: OnLostTransaction) -> Self {
        self.on_lost = on_lost;
        self
    }
}

impl<T: Serialize> KafkaSink<T> {
    /// Writes each record as JSON.
    pub fn json(mut self) -> Self
    where
        T: 'static,
    {
        self.encoder.encode = Some(Arc::new(record::json::<T>));
        self
    }
}

impl<T: Data> Sink<T> for KafkaSink<T> {
    type Committable = KafkaCommittable;

    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<T, KafkaCommittable>>> {
        Ok(Box::new(writer::KafkaWriter::new(
            self.encoder.clone(),
            self.delivery,
            self.connection.clone(),
            self.lanes.clone(),
            Names::of(&self.prefix, context),
            context.clone(),
        )))
    }

    fn committer(&self, context: &SinkContext) -> Result<Box<dyn Committer<KafkaCommittable>>> {
        Ok(Box::new(KafkaCommitter {
            connection: self.connection.clone(),
            lanes: self.lanes.clone(),
            on_lost: self.on_lost,
            counters: context.counters.clone(),
            sink: context.name.clone(),
        }))
    }

    fn validate(&self) -> Result<()> {
        self.check(None).map_err(KafkaError::into_error)
    }

    fn validate_for(&self, job: &JobOutline) -> Result<()> {
        self.check(Some(job)).map_err(KafkaError::into_error)
    }
}
