//! [`KafkaError`]: what can go wrong with Kafka, and what to do.

use stillstream_types::{Error, ErrorKind};

/// Why something could not be read from Kafka or written to it.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// The system gives no threads for the client.
    #[error("the threads of the Kafka client could not be started: {reason}")]
    NoThreads {
        /// The system's reason.
        reason: String,
    },
    /// The client panicked.
    #[error("the Kafka client panicked; its message is above this one in the log")]
    Panicked,
    /// A property that is needed is not set.
    #[error("the Kafka property {property} is not set: {why}")]
    Missing {
        /// Its key.
        property: &'static str,
        /// What it is needed for.
        why: &'static str,
    },
    /// A property has a value that makes no sense.
    #[error("the Kafka property {key} is {found}; {expected} is expected")]
    Property {
        /// Its key.
        key: &'static str,
        /// Its value.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A property is not known.
    #[error("the Kafka property `{key}` is not known here; these are: {known}")]
    UnknownProperty {
        /// Its key.
        key: String,
        /// Those that are known.
        known: String,
    },
    /// No broker could be reached, or it refused the login.
    #[error("cannot connect to Kafka at {brokers}: {reason}; {next}")]
    Connect {
        /// The addresses.
        brokers: String,
        /// The client's reason.
        reason: String,
        /// What to look at.
        next: &'static str,
        /// Whether it may pass by itself.
        may_pass: bool,
    },
    /// A connected cluster does not answer a question, or not as it should.
    #[error("asking Kafka at {brokers} {what}: {reason}")]
    Asking {
        /// The addresses.
        brokers: String,
        /// For what.
        what: String,
        /// The client's reason.
        reason: String,
        /// Whether it may pass by itself.
        may_pass: bool,
    },
    /// A request was refused or not answered.
    #[error("{what}: {reason}")]
    Request {
        /// What was to be done.
        what: String,
        /// The client's or the broker's reason.
        reason: String,
        /// Whether it may pass by itself.
        may_pass: bool,
    },
    /// A record could not be written.
    #[error("a record could not be written: {reason}")]
    Write {
        /// Topic, partition and the reason.
        reason: String,
    },
    /// A record could not be turned into bytes.
    #[error("a record cannot be written to topic `{topic}`: {why}")]
    Encode {
        /// The topic.
        topic: String,
        /// The serializer's reason.
        why: String,
    },
    /// A setting of a source or sink makes no sense.
    #[error("{setting} is {found}; {expected}")]
    Setting {
        /// The call.
        setting: &'static str,
        /// Its value.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// A topic is not there.
    #[error("the topic `{topic}` is not there at {brokers}: create it, or give the user the right to see it")]
    NoTopic {
        /// The topic.
        topic: String,
        /// The addresses of the cluster.
        brokers: String,
    },
    /// A transaction would be aborted by the broker before its checkpoint can be complete.
    #[error(
        "transaction.timeout.ms is {timeout_ms} ms, but a checkpoint may be complete only {needed_ms} ms after its \
         transaction began (execution.checkpointing.interval {interval_ms} ms + execution.checkpointing.timeout \
         {checkpoint_ms} ms): the broker would abort records that the checkpoint holds for written; {next}"
    )]
    TimeoutTooShort {
        /// The timeout of transactions.
        timeout_ms: u128,
        /// What is needed at least.
        needed_ms: u128,
        /// The interval of checkpoints.
        interval_ms: u128,
        /// The timeout of checkpoints.
        checkpoint_ms: u128,
        /// What to change.
        next: String,
    },
    /// The broker allows no transactions as long as that.
    #[error(
        "transaction.timeout.ms is {timeout_ms} ms, but the brokers allow {max_ms} ms at most (their \
         transaction.max.timeout.ms); raise it there, or set a shorter one here"
    )]
    TimeoutTooLong {
        /// The timeout of transactions.
        timeout_ms: u128,
        /// The longest that the brokers allow.
        max_ms: u128,
    },
    /// A transaction of a completed checkpoint is gone.
    #[error(
        "{records} records that a completed checkpoint holds for written are at risk: their transaction {transaction} \
         {finding}. {next}"
    )]
    Lost {
        /// How many records.
        records: u64,
        /// Its numbers.
        transaction: String,
        /// What is known of it.
        finding: String,
        /// What to do.
        next: String,
    },
    /// Nothing is open under a transactional id.
    #[error("nothing is open under the transactional id `{transactional_id}`: {state}")]
    NothingOpen {
        /// The id.
        transactional_id: String,
        /// What is known of it.
        state: String,
    },
    /// A sink is used in a way that it is not made for.
    #[error("{0}")]
    Misuse(&'static str),
}

impl KafkaError {
    pub(crate) fn request(what: String, error: krafka::error::KrafkaError) -> Self {
        Self::Request { what, reason: error.to_string(), may_pass: error.is_retriable() }
    }

    pub(crate) fn connecting(brokers: &str, error: krafka::error::KrafkaError) -> Self {
        use krafka::error::KrafkaError as E;
        let next = match &error {
            E::Auth { .. } => {
                "see security.protocol, sasl.mechanism and the login, and what the listener expects"
            }
            E::Config { .. } => "see the properties of the client",
            _ => {
                "see that a broker listens there and can be reached from here, and that security.protocol is its listener's"
            }
        };
        let may_pass = error.is_retriable();
        Self::Connect { brokers: brokers.to_string(), reason: error.to_string(), next, may_pass }
    }

    pub(crate) fn asking(brokers: &str, what: &str, error: &krafka::error::KrafkaError) -> Self {
        Self::Asking {
            brokers: brokers.to_string(),
            what: what.to_string(),
            reason: error.to_string(),
            may_pass: error.is_retriable(),
        }
    }

    /// Whether it may pass by itself: a broker that is away, a leader that is being elected.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Connect { may_pass, .. }
            | Self::Asking { may_pass, .. }
            | Self::Request { may_pass, .. } => *may_pass,
            _ => false,
        }
    }

    /// As the error type of the public API.
    pub fn into_error(self) -> Error {
        let kind = match self {
            Self::Missing { .. }
            | Self::Property { .. }
            | Self::UnknownProperty { .. }
            | Self::Setting { .. }
            | Self::TimeoutTooShort { .. }
            | Self::TimeoutTooLong { .. } => ErrorKind::Configuration,
            // what the snapshot names is gone, and no restart brings it back
            Self::Lost { .. } => ErrorKind::CorruptSnapshot,
            Self::Misuse(_) => ErrorKind::Plan,
            _ => ErrorKind::Connector,
        };
        Error::wrap(kind, self)
    }
}
