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
}

impl KafkaError {
    pub(crate) fn connecting(brokers: &str, error: krafka::error::KrafkaError) -> Self {
        use krafka::error::KrafkaError as E;
        let next = match &error {
            E::Auth { .. } => "see security.protocol, sasl.mechanism and the login, and what the listener expects",
            E::Config { .. } => "see the properties of the client",
            _ => "see that a broker listens there and can be reached from here, and that security.protocol is its listener's",
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
        matches!(self, Self::Connect { may_pass: true, .. } | Self::Asking { may_pass: true, .. })
    }

    /// As the error type of the public API.
    pub fn into_error(self) -> Error {
        let kind = match self {
            Self::Missing { .. } | Self::Property { .. } | Self::UnknownProperty { .. } => ErrorKind::Configuration,
            _ => ErrorKind::Connector,
        };
        Error::wrap(kind, self)
    }
}
