//! [`SourceError`]: what can go wrong with what a source reads, and what to do.

use stillstream_types::{Error, ErrorKind};

use crate::KafkaError;

/// Why a Kafka source cannot begin, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The cluster does not answer, or not as it should.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// It was not said what becomes of records.
    #[error(
        "it was not said how records become values: call `.json()`, `.text()`, `.raw()` or `.deserializer(..)` on the source"
    )]
    NoDeserializer,
    /// A pattern of topics makes no sense.
    #[error("`{pattern}` is no regular expression: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No topic was named.
    #[error("no topic was named, so there is nothing to read")]
    NoTopics,
    /// A topic does not exist.
    #[error(
        "topic `{topic}` does not exist at {brokers}: create it, or correct its name (a source creates no topics; to wait \
         for topics that come later, give a pattern)"
    )]
    NoTopic {
        /// Its name.
        topic: String,
        /// Where it was looked for.
        brokers: String,
    },
    /// An offset was given for a partition that does not exist.
    #[error("an offset is given for {partition}, but there is no such partition at {brokers}")]
    NoPartition {
        /// Topic and number.
        partition: String,
        /// Where it was looked for.
        brokers: String,
    },
    /// The group has no offset for a partition.
    #[error(
        "group `{group}` has committed no offset for {partition}, and the source is to begin with what it has committed: \
         say what else with `StartOffsets::Committed {{ otherwise: .. }}`"
    )]
    NotCommitted {
        /// The group.
        group: String,
        /// Topic and number.
        partition: String,
    },
    /// A topic that was being read is gone.
    #[error(
        "{partition} is not there any more at {brokers}: its topic was deleted. It was read up to offset {next}; what came \
         behind that is lost. Start the job without the partition's state, or with other topics"
    )]
    Gone {
        /// Topic and number.
        partition: String,
        /// Where it was.
        brokers: String,
        /// The next offset.
        next: u64,
    },
    /// A topic was deleted and made again.
    #[error(
        "topic `{topic}` at {brokers} is another one than before: it was deleted and created again, so offset {next} of \
         {partition}, from which to go on, means nothing. Start the job without the state of this source"
    )]
    Replaced {
        /// Its name.
        topic: String,
        /// Topic and number of a partition.
        partition: String,
        /// Where it is.
        brokers: String,
        /// The next offset.
        next: u64,
    },
    /// The records from which to go on are not there.
    #[error(
        "{partition} has the offsets from {first} to {end}, and is to be read from {wanted} on: {why}. To go on with what is \
         there, say so with `on_out_of_range` (auto.offset.reset)"
    )]
    OutOfRange {
        /// Topic and number.
        partition: String,
        /// Where to go on.
        wanted: u64,
        /// The first offset that is there.
        first: u64,
        /// The offset behind the last.
        end: u64,
        /// What has probably happened.
        why: &'static str,
    },
    /// A record does not become a value.
    #[error(
        "offset {offset} of {partition}: {reason}; the value is `{value}`. Say with `on_bad_record` that such records are \
         skipped, or go to a side output"
    )]
    BadRecord {
        /// Topic and number.
        partition: String,
        /// Its offset.
        offset: u64,
        /// What is wrong with it.
        reason: String,
        /// Its value, shortened.
        value: String,
    },
}

impl SourceError {
    /// As the error type of the public API.
    pub fn into_error(self) -> Error {
        match self {
            Self::Kafka(error) => error.into_error(),
            Self::NoDeserializer | Self::Pattern { .. } | Self::NoTopics => {
                Error::wrap(ErrorKind::Configuration, self)
            }
            other => Error::wrap(ErrorKind::Connector, other),
        }
    }

    /// Whether it may pass by itself.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Kafka(error) if error.may_pass())
    }
}
