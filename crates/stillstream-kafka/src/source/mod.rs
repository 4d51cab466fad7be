//! The Kafka source: partitions of topics, with their offsets in checkpoints.

mod deserializer;
mod enumerator;
mod error;
mod fetch;
mod group;
mod options;
mod reader;
mod record;
mod settings;
mod split;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use stillstream_runtime::connect::{Enumerator, EnumeratorContext, SourceContext, SplitReader, SplitSource};
use stillstream_state::Data;
use stillstream_types::Result;

pub use deserializer::{Json, KafkaDeserializer, Raw, Refusal, Text};
use enumerator::KafkaEnumerator;
pub use error::SourceError;
pub use options::{OffsetReset, OnBadRecord, StartOffsets, StopOffsets, Topics};
use reader::KafkaReader;
pub use record::{ConsumerRecord, DeadLetter, RawRecord};
use settings::Settings;
pub use split::KafkaSplit;

/// Reads topics of Kafka, exactly once: each partition is a split, and its offset is in every checkpoint.
///
/// Records of transactions are read when they are committed (`isolation.level`). Event times are Kafka's
/// timestamps, unless a watermark strategy says others; each partition has a watermark of its own.
///
/// Partitions are looked for every five minutes ([`discovery_interval`](Self::discovery_interval)); those
/// that are found later are read from their first record on. The source never ends, unless it is told
/// [where](Self::stop).
///
/// ```
/// use stillstream_kafka::source::{KafkaSource, OnBadRecord, StartOffsets};
/// #[derive(Clone, serde::Deserialize, stillstream_state::Data)]
/// # #[data(crate = stillstream_state)]
/// struct Flight {
///     carrier: String,
///     dep_delay: Option<i32>,
/// }
/// let flights = KafkaSource::<Flight>::from_topic("flights")
///     .brokers("localhost:9092")
///     .group_id("delays")
///     .start(StartOffsets::Latest)
///     .json()
///     .on_bad_record(OnBadRecord::SkipAndCount);
/// # fn check(_: impl stillstream_runtime::connect::SplitSource<Item = Flight>) {}
/// # check(flights);
/// ```
pub struct KafkaSource<T> {
    settings: Settings,
    deserializer: Option<Arc<dyn KafkaDeserializer<T>>>,
}

impl<T> Clone for KafkaSource<T> {
    fn clone(&self) -> Self {
        Self { settings: self.settings.clone(), deserializer: self.deserializer.clone() }
    }
}

impl<T> fmt::Debug for KafkaSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KafkaSource").field(&self.settings).finish()
    }
}

impl<T> KafkaSource<T> {
    /// Reads a topic, several, or all that match a [pattern](Topics::pattern).
    pub fn from_topic(topics: impl Into<Topics>) -> Self {
        Self { settings: Settings::new(topics.into()), deserializer: None }
    }

    /// The brokers to begin with, as `host:port`, separated by commas: `bootstrap.servers`.
    pub fn brokers(self, brokers: impl Into<String>) -> Self {
        self.property("bootstrap.servers", brokers)
    }

    /// The group whose offsets are committed at each completed checkpoint, for whoever watches how far the
    /// job is: `group.id`. The source itself goes on from its checkpoints.
    pub fn group_id(self, group: impl Into<String>) -> Self {
        self.property("group.id", group)
    }

    /// Sets a property of the client by the name that Kafka has for it, such as those of TLS and SASL
    /// ([`Properties`](crate::client::Properties)), or `fetch.min.bytes`, `max.partition.fetch.bytes`,
    /// `isolation.level`, `client.rack`. An unknown one is refused at the start.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.properties.set(key, value);
        self
    }

    /// Where a fresh start begins; [`StartOffsets::Earliest`] if not said.
    pub fn start(mut self, at: StartOffsets) -> Self {
        self.settings.start = at;
        self
    }

    /// Where the source ends. It is bounded then, and looks for no partitions later.
    pub fn stop(mut self, at: StopOffsets) -> Self {
        self.settings.stop = Some(at);
        self
    }

    /// How values are made of records.
    pub fn deserializer(mut self, deserializer: impl KafkaDeserializer<T>) -> Self {
        self.deserializer = Some(Arc::new(deserializer));
        self
    }

    /// What happens to records that the deserializer refuses; the job fails if not said.
    pub fn on_bad_record(mut self, policy: OnBadRecord) -> Self {
        self.settings.on_bad_record = policy;
        self
    }

    /// What happens when the records from which to go on are not there any more, because retention has
    /// deleted them, for instance. The job fails if not said here or by `auto.offset.reset`. A jump is
    /// logged, and counted as `<source>.out-of-range`.
    pub fn on_out_of_range(mut self, reset: OffsetReset) -> Self {
        self.settings.on_out_of_range = Some(reset);
        self
    }

    /// How often topics and partitions are looked for that came later; 5 minutes if not said, and zero for
    /// never: `partition.discovery.interval.ms`.
    pub fn discovery_interval(mut self, interval: Duration) -> Self {
        self.settings.discovery = Some(interval);
        self
    }
}

impl<T: DeserializeOwned> KafkaSource<T> {
    /// Each record's value is a JSON text, read by serde.
    pub fn json(self) -> Self {
        self.deserializer(Json)
    }
}

impl KafkaSource<String> {
    /// Each record's value is a text in UTF-8.
    pub fn text(self) -> Self {
        self.deserializer(Text)
    }
}

impl KafkaSource<RawRecord> {
    /// The records themselves, with all that belongs to them.
    pub fn raw(self) -> Self {
        self.deserializer(Raw)
    }
}

impl<T: Data> SplitSource for KafkaSource<T> {
    type Item = T;
    type Split = KafkaSplit;

    fn enumerator(&self, context: &EnumeratorContext) -> Result<Option<Enumerator<KafkaSplit>>> {
        let enumerator = KafkaEnumerator::new(self.settings.clone(), &context.name);
        Ok(Some(Enumerator::new(enumerator)))
    }

    /// What a fresh start would be assigned now.
    fn splits(&self) -> Result<Vec<KafkaSplit>> {
        let mut enumerator = KafkaEnumerator::new(self.settings.clone(), &"".into());
        enumerator.look().map_err(SourceError::into_error)
    }

    fn reader_of(&self, split: &KafkaSplit, readers: u32) -> Option<u32> {
        Some(split.reader(readers))
    }

    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<T, KafkaSplit>>> {
        let Some(deserializer) = self.deserializer.clone() else {
            return Err(SourceError::NoDeserializer.into_error());
        };
        let reader = KafkaReader::new(self.settings.clone(), deserializer, context.clone());
        Ok(Box::new(reader.map_err(SourceError::into_error)?))
    }

    fn validate(&self) -> Result<()> {
        if self.deserializer.is_none() {
            return Err(SourceError::NoDeserializer.into_error());
        }
        self.settings.check().map_err(SourceError::into_error)?;
        enumerator::look_at_topics(&self.settings).map_err(SourceError::into_error)
    }
}
