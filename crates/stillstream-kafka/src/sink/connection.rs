//! [`Connection`]: the connection of all subtasks of a sink in one process, made when it is first needed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::KafkaError;
use crate::client::{Cluster, Properties};

/// How long a transaction may be open if nobody says it: what brokers allow if nobody says it there.
pub(super) const DEFAULT_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(900);

struct Inner {
    properties: Properties,
    cluster: OnceCell<Cluster>,
    transaction_timeout: OnceCell<Duration>,
}

/// The properties of a sink, and the connection that is made of them once.
#[derive(Clone)]
pub(super) struct Connection(Arc<Inner>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({:?})", self.0.properties)
    }
}

impl Connection {
    pub fn new(properties: Properties) -> Self {
        Self(Arc::new(Inner { properties, cluster: OnceCell::new(), transaction_timeout: OnceCell::new() }))
    }

    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    /// The cluster; the first call connects.
    pub async fn get(&self) -> Result<Cluster, KafkaError> {
        self.0.cluster.get_or_try_init(|| Cluster::connect(&self.0.properties)).await.cloned()
    }

    /// How long something is tried before the job fails: as long as a record is.
    pub fn patience(&self) -> Result<Duration, KafkaError> {
        Ok(self.0.properties.millis("delivery.timeout.ms")?.unwrap_or(Duration::from_secs(120)))
    }

    /// What was said, or else the default, or less if the brokers allow less.
    pub async fn transaction_timeout(&self) -> Result<Duration, KafkaError> {
        let timeout = self.0.transaction_timeout.get_or_try_init(|| async {
            if let Some(said) = self.0.properties.millis("transaction.timeout.ms")? {
                return Ok(said);
            }
            let allowed = self.get().await?.max_transaction_timeout().await?;
            Ok(allowed
                .map_or(DEFAULT_TRANSACTION_TIMEOUT, |allowed| allowed.min(DEFAULT_TRANSACTION_TIMEOUT)))
        });
        timeout.await.copied()
    }
}
