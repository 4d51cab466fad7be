//! A connection to a cluster.

use std::fmt;
use std::sync::Arc;

use krafka::Kafka;
use krafka::admin::DescribeTopicsOptions;
use krafka::error::{ErrorCode, KrafkaError};

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

    /// Whether a topic is there and can be seen.
    ///
    /// # Errors
    /// [`KafkaError::NoTopic`] if it is not, another one if nobody answers.
    pub(crate) async fn check_topic(&self, topic: &str) -> Result<(), KafkaError> {
        let what = || format!("looking for the topic `{topic}`");
        let described = self.kafka.admin().describe_topics([topic], DescribeTopicsOptions::default()).await;
        let mut described = described.map_err(|error| KafkaError::request(what(), error))?;
        match described.remove(topic) {
            Some(Ok(_)) => Ok(()),
            None
            | Some(Err(
                KrafkaError::UnknownTopic { .. }
                | KrafkaError::Broker { code: ErrorCode::UnknownTopicOrPartition, .. },
            )) => Err(KafkaError::NoTopic { topic: topic.into(), brokers: self.brokers.to_string() }),
            Some(Err(error)) => Err(KafkaError::request(what(), error)),
        }
    }

    /// The addresses that it was connected by.
    pub(crate) fn brokers(&self) -> &str {
        &self.brokers
    }
}
