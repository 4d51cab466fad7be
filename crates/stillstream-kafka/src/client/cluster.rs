//! A connection to a cluster.

use std::fmt;
use std::sync::Arc;

use krafka::Kafka;

use super::{Properties, security};
use crate::KafkaError;

/// A connected cluster. Clones share connections and what is known of brokers and topics.
#[derive(Clone)]
pub(crate) struct Cluster {
    kafka: Kafka,
    brokers: Arc<str>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster({})", self.brokers)
    }
}

impl Cluster {
    /// Connects; `properties` must have been checked.
    ///
    /// # Errors
    /// If no broker answers in `request.timeout.ms`, if TLS or SASL fail, or if a property makes no sense.
    pub(crate) async fn connect(properties: &Properties) -> Result<Self, KafkaError> {
        let brokers = properties.brokers()?;
        let mut builder = Kafka::builder(brokers)
            .client_id(properties.get("client.id").unwrap_or("stillstream"))
            .request_timeout(properties.request_timeout()?)
            .connect_timeout(properties.connect_timeout()?)
            .metadata_max_age(properties.metadata_max_age()?);
        if let Some(security) = security::of(properties)? {
            builder = builder.security(security);
        }
        let connected = builder.connect().await;
        let kafka = connected.map_err(|error| KafkaError::connecting(brokers, error))?;
        Ok(Self { kafka, brokers: brokers.into() })
    }

    /// The client library's handle: for the modules of `client` alone.
    pub(super) fn kafka(&self) -> &Kafka {
        &self.kafka
    }

    /// The addresses that it was connected by.
    pub(crate) fn brokers(&self) -> &str {
        &self.brokers
    }
}
