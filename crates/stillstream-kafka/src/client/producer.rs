//! What writes records: in a transaction, or without.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use krafka::error::KrafkaError;
use krafka::interceptor::{InterceptorResult, ProducerInterceptor, RecordContext};
use krafka::producer::{Acks, Producer, ProducerBuilder, Record, RecordMetadata, TransactionalProducer};
use krafka::{Compression, Headers};
use parking_lot::Mutex;

use super::{Cluster, Properties, TransactionKey};
use crate::KafkaError;

/// Keys that a producer takes beside those of every client.
pub(crate) const PRODUCER_KEYS: &[&str] = &[
    "acks",
    "batch.size",
    "buffer.memory",
    "compression.type",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
    "max.block.ms",
    "max.request.size",
    "retry.backoff.ms",
    "transaction.timeout.ms",
];

/// A record on its way to a topic.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outgoing {
    pub topic: String,
    pub partition: Option<i32>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub timestamp_ms: Option<i64>,
}

impl Outgoing {
    /// About how many bytes it keeps in memory.
    pub fn size(&self) -> usize {
        let of = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers = self.headers.iter().map(|(name, value)| name.len() + of(value) + 16);
        64 + self.topic.len() + of(&self.key) + of(&self.value) + headers.sum::<usize>()
    }

    fn into_record(self) -> Record {
        let mut record = Record::new(self.topic, Vec::new());
        record.partition = self.partition;
        record.key = self.key.map(Into::into);
        record.value = self.value.map(Into::into);
        record.timestamp = self.timestamp_ms;
        for (name, value) in self.headers {
            record.headers.push((name, value.map(Into::into)));
        }
        record
    }
}

/// The first record that could not be written, and why.
#[derive(Clone, Default, Debug)]
pub(crate) struct FirstFailure(Arc<Mutex<Option<String>>>);

impl FirstFailure {
    pub fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }

    fn note(&self, topic: &str, partition: Option<i32>, error: &KrafkaError) {
        let mut first = self.0.lock();
        if first.is_none() {
            let partition = partition.map(|partition| format!(", partition {partition}")).unwrap_or_default();
            let reason = match error {
                // what is to be done with the transaction is not the reader's business
                KrafkaError::TransactionAbortable { message } => message.clone(),
                error => error.to_string(),
            };
            let next = next_step(&reason);
            let next = if next.is_empty() { String::new() } else { format!("; {next}") };
            *first = Some(format!("topic `{topic}`{partition}: {reason}{next}"));
        }
    }
}

/// What to do about a record that could not be written, where that is known. The client tells the broker's
/// answer of a record in a transaction as text alone.
fn next_step(reason: &str) -> &'static str {
    let known = [
        ("MessageTooLarge", "raise max.message.bytes of the topic, or let the serializer write less"),
        ("RecordListTooLarge", "raise max.message.bytes of the topic, or let the serializer write less"),
        ("TopicAuthorizationFailed", "give the user the right to write to the topic"),
        ("UnknownTopicOrPartition", "create the topic, or say another one"),
        ("unknown topic", "create the topic, or say another one"),
        ("delivery timed out", "delivery.timeout.ms says how long a record is tried"),
    ];
    known.iter().find(|(answer, _)| reason.contains(answer)).map_or("", |(_, next)| next)
}

impl ProducerInterceptor for FirstFailure {
    fn on_acknowledgement(
        &self,
        topic: &str,
        partition: i32,
        result: Result<&RecordMetadata, &KrafkaError>,
        _: &Headers,
        _: &mut RecordContext,
    ) -> InterceptorResult {
        if let Err(error) = result {
            self.note(topic, (partition >= 0).then_some(partition), error);
        }
        Ok(())
    }
}

enum Kind {
    Plain(Box<Producer>),
    Transactional(Box<TransactionalProducer>),
}

/// A producer of one subtask. A transactional one is used for one transaction, which is open from the start.
pub(crate) struct Lane {
    kind: Kind,
    failure: FirstFailure,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane({:?})", self.key())
    }
}

impl Lane {
    /// A producer without transactions.
    ///
    /// # Errors
    /// If a property makes no sense, or the cluster does not answer.
    pub(crate) async fn plain(cluster: &Cluster, properties: &Properties) -> Result<Self, KafkaError> {
        let failure = FirstFailure::default();
        let producer = builder(cluster, properties, &failure)?.build().await;
        let producer = producer.map_err(|error| KafkaError::request("starting a producer".into(), error))?;
        Ok(Self { kind: Kind::Plain(Box::new(producer)), failure })
    }

    /// A producer with an open transaction. Aborts whatever was open under the same id.
    ///
    /// # Errors
    /// If a property makes no sense, or the cluster does not answer.
    pub(crate) async fn transactional(
        cluster: &Cluster,
        properties: &Properties,
        id: &str,
        timeout: Duration,
    ) -> Result<Self, KafkaError> {
        let failure = FirstFailure::default();
        let builder = builder(cluster, properties, &failure)?.transaction_timeout(timeout);
        let what = || format!("beginning the transaction `{id}`");
        let producer =
            builder.build_transactional(id).await.map_err(|error| KafkaError::request(what(), error))?;
        producer.begin().map_err(|error| KafkaError::request(what(), error))?;
        Ok(Self { kind: Kind::Transactional(Box::new(producer)), failure })
    }

    /// The numbers of its transaction.
    pub(crate) fn key(&self) -> Option<TransactionKey> {
        let Kind::Transactional(producer) = &self.kind else { return None };
        Some(TransactionKey {
            transactional_id: producer.transactional_id().to_string(),
            producer_id: producer.producer_id(),
            epoch: producer.producer_epoch(),
            v2: producer.transaction_version().is_v2(),
        })
    }

    /// Takes records, and waits while its memory is full. They are sent in the background.
    ///
    /// # Errors
    /// The first record that could not be sent, now or before.
    pub(crate) async fn send(&self, records: Vec<Outgoing>) -> Result<(), KafkaError> {
        for record in records {
            let record = record.into_record();
            let topic = record.topic.clone();
            let sent = match &self.kind {
                Kind::Plain(producer) => producer.enqueue(record).await,
                Kind::Transactional(producer) => producer.enqueue(record).await,
            };
            // the outcome of each record comes through the interceptor
            if let Err(error) = sent {
                self.failure.note(&topic, None, &error);
                return self.outcome();
            }
        }
        Ok(())
    }

    /// Waits until every record that was taken is acknowledged.
    ///
    /// # Errors
    /// The first record that was not.
    pub(crate) async fn flush(&self) -> Result<(), KafkaError> {
        let flushed = match &self.kind {
            Kind::Plain(producer) => producer.flush().await,
            Kind::Transactional(producer) => producer.flush().await,
        };
        self.outcome()?;
        flushed.map_err(|error| KafkaError::request("flushing".into(), error))
    }

    fn outcome(&self) -> Result<(), KafkaError> {
        match self.failure.get() {
            Some(reason) => Err(KafkaError::Write { reason }),
            None => Ok(()),
        }
    }

    /// The first record that was not written.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.get()
    }

    /// Commits its transaction; may be called again after an error.
    ///
    /// # Errors
    /// [`CommitFailure::NotOurs`]: somebody else has taken the id over, or ended the transaction.
    pub(crate) async fn commit(&self) -> Result<(), CommitFailure> {
        let Kind::Transactional(producer) = &self.kind else { return Ok(()) };
        producer.commit().await.map_err(|error| {
            let what = format!("committing the transaction `{}`", producer.transactional_id());
            match error.is_fatal() {
                true => CommitFailure::NotOurs,
                false => CommitFailure::Failed(KafkaError::request(what, error)),
            }
        })
    }

    /// Aborts its transaction if it is open, and ends the producer. One that was shut out has nothing to
    /// abort any more, so errors are of no interest.
    pub(crate) async fn abort(&self) {
        if let Kind::Transactional(producer) = &self.kind {
            let _ = producer.abort().await;
        }
        self.close().await;
    }

    /// Ends the producer; its transaction must have ended.
    pub(crate) async fn close(&self) {
        let _ = match &self.kind {
            Kind::Plain(producer) => producer.close().await,
            Kind::Transactional(producer) => producer.close().await,
        };
    }
}

/// Why a commit by the producer itself failed.
#[derive(Debug)]
pub(crate) enum CommitFailure {
    /// It is not its transaction any more: what became of it must be asked.
    NotOurs,
    /// Another reason; a new try may help.
    Failed(KafkaError),
}

fn builder(
    cluster: &Cluster,
    properties: &Properties,
    failure: &FirstFailure,
) -> Result<ProducerBuilder, KafkaError> {
    let size = |key| properties.number(key).map(|value| value.map(|value| value as usize));
    let mut builder = cluster.kafka().producer().interceptor(failure.clone()).metrics_push(false);
    builder = match properties.get("acks") {
        None | Some("all" | "-1") => builder.acks(Acks::All),
        Some("1") => builder.acks(Acks::Leader),
        Some("0") => builder.acks(Acks::None),
        Some(_) => return Err(properties.wrong("acks", "all, 1 or 0")),
    };
    builder = match properties.get("compression.type") {
        None | Some("none") => builder,
        Some("gzip") => builder.compression(Compression::Gzip),
        Some("snappy") => builder.compression(Compression::Snappy),
        Some("lz4") => builder.compression(Compression::Lz4),
        Some(_) => return Err(properties.wrong("compression.type", "none, gzip, snappy or lz4")),
    };
    builder = match properties.get("enable.idempotence") {
        // a producer that does not wait for all replicas cannot be idempotent
        None => builder.idempotent(matches!(properties.get("acks"), None | Some("all" | "-1"))),
        Some("true") => builder.idempotent(true),
        Some("false") => builder.idempotent(false),
        Some(_) => return Err(properties.wrong("enable.idempotence", "true or false")),
    };
    if let Some(bytes) = size("batch.size")? {
        builder = builder.batch_size(bytes);
    }
    if let Some(bytes) = size("buffer.memory")? {
        builder = builder.buffer_memory(bytes);
    }
    if let Some(bytes) = size("max.request.size")? {
        builder = builder.max_request_size(bytes);
    }
    if let Some(time) = properties.millis("linger.ms")? {
        builder = builder.linger(time);
    }
    if let Some(time) = properties.millis("delivery.timeout.ms")? {
        builder = builder.delivery_timeout(time);
    }
    if let Some(time) = properties.millis("max.block.ms")? {
        builder = builder.max_block(time);
    }
    if let Some(time) = properties.millis("retry.backoff.ms")? {
        builder = builder.retry_backoff(time);
    }
    Ok(builder)
}
