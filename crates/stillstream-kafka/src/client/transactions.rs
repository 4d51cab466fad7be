//! Transactions by their numbers: how they are ended, described, listed and fenced by somebody who is not
//! their producer.
//!
//! A transaction that was prepared before a crash is committed by `FindCoordinator` and `EndTxn` with the
//! producer id and epoch that its checkpoint holds, and *without* `InitProducerId`, which would abort it. No
//! client has a call for that, so these requests are made here, over the client's own connections.

use std::fmt;
use std::time::Duration;

use krafka::__private::kafka_metadata;
use krafka::__private::network::BrokerConnection;
use krafka::__private::protocol::{
    ApiKey, EndTxnRequest, EndTxnResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    InitProducerIdRequest, InitProducerIdResponse, VersionedDecode, VersionedEncode, versions,
};
use krafka::admin::{
    ConfigResource, DescribeConfigsOptions, DescribeTransactionsOptions, ListTransactionsOptions,
};
use krafka::error::{ErrorCode, KrafkaError};

use super::Cluster;
use crate::KafkaError;

/// How often a request is sent again because the coordinator is busy, before the caller hears of it.
const BUSY_TRIES: u32 = 20;
/// How long it is let alone in between.
const BUSY_PAUSE: Duration = Duration::from_millis(25);

/// The first version of `EndTxn` that ends a transaction in the way of KIP-890 (TV2): it raises the epoch.
const END_TXN_V2: i16 = 5;

/// A transaction by the numbers that its coordinator knows it by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TransactionKey {
    pub transactional_id: String,
    pub producer_id: i64,
    pub epoch: i16,
    /// Whether it was begun in the way of KIP-890 (`transaction.version` 2 or later), so that it must be
    /// ended in that way too.
    pub v2: bool,
}

impl fmt::Display for TransactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (producer id {}, epoch {})", self.transactional_id, self.producer_id, self.epoch)
    }
}

/// What became of a request to end a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// It has ended as was asked, now or before.
    Done,
    /// The coordinator does not know this producer id and epoch, or not any more: whether the transaction was
    /// committed must be found out in another way.
    Unknown(String),
}

/// Where a transactional id stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Described {
    pub state: TransactionState,
    pub producer_id: i64,
    pub epoch: i16,
    /// When the transaction began, in milliseconds since 1970; `None` if none is open.
    pub began_ms: Option<i64>,
    /// Its partitions, as `topic-partition`.
    pub partitions: Vec<String>,
    pub timeout: Duration,
}

/// The state of a transactional id, by Kafka's names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TransactionState {
    /// No transaction was ever begun under it, or a new producer has taken it over.
    Empty,
    /// A transaction is open.
    Ongoing,
    /// The coordinator has decided to commit; nothing can change that any more.
    PrepareCommit,
    /// The coordinator has decided to abort.
    PrepareAbort,
    /// The last transaction was committed.
    CompleteCommit,
    /// The last transaction was aborted.
    CompleteAbort,
    /// Another one.
    Other(String),
}

impl TransactionState {
    fn of(name: &str) -> Self {
        match name {
            "Empty" => Self::Empty,
            "Ongoing" => Self::Ongoing,
            "PrepareCommit" => Self::PrepareCommit,
            "PrepareAbort" | "PrepareEpochFence" => Self::PrepareAbort,
            "CompleteCommit" => Self::CompleteCommit,
            "CompleteAbort" => Self::CompleteAbort,
            other => Self::Other(other.to_string()),
        }
    }
}

impl fmt::Display for TransactionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(name) => f.write_str(name),
            known => write!(f, "{known:?}"),
        }
    }
}

/// Whether the answer means: the same again in a moment.
fn is_busy(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ConcurrentTransactions
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
    )
}

/// Whether the answer says that these numbers are not those of the transaction that the id has now.
fn is_unknown(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::InvalidProducerEpoch
            | ErrorCode::ProducerFenced
            | ErrorCode::InvalidTxnState
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::UnknownProducerId
    )
}

impl Cluster {
    async fn coordinator(
        &self,
        transactional_id: &str,
    ) -> Result<std::sync::Arc<BrokerConnection>, KrafkaError> {
        let metadata = kafka_metadata(self.kafka());
        let mut brokers = metadata.brokers();
        if brokers.is_empty() {
            metadata.refresh().await?;
            brokers = metadata.brokers();
        }
        let mut last = KrafkaError::broker(ErrorCode::CoordinatorNotAvailable, "no broker is known");
        // one that is away must not hide the others
        for broker in brokers {
            match self.ask_for_coordinator(broker.id(), transactional_id).await {
                Ok(coordinator) => return metadata.get_broker_connection(coordinator).await,
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn ask_for_coordinator(&self, broker: i32, transactional_id: &str) -> Result<i32, KrafkaError> {
        let connection = kafka_metadata(self.kafka()).get_broker_connection(broker).await?;
        let version = negotiate(
            &connection,
            ApiKey::FindCoordinator,
            versions::FIND_COORDINATOR_MIN,
            versions::FIND_COORDINATOR_MAX,
        )?;
        let request = FindCoordinatorRequest::for_transaction(transactional_id);
        let mut bytes = connection
            .send_request(ApiKey::FindCoordinator, version, |buf| request.encode_versioned(version, buf))
            .await?;
        let response = FindCoordinatorResponse::decode_versioned(version, &mut bytes)?;
        match response.error_code {
            ErrorCode::None => Ok(response.node_id),
            code => Err(KrafkaError::broker(code, "looking for the transaction coordinator")),
        }
    }

    /// Commits or aborts a transaction by its numbers. It may have ended in this way before.
    ///
    /// # Errors
    /// If nobody answers, or the coordinator refuses for a reason that has nothing to do with the numbers:
    /// then nothing is known.
    pub(crate) async fn end_transaction(
        &self,
        key: &TransactionKey,
        commit: bool,
    ) -> Result<Ended, KafkaError> {
        let what = || format!("{} the transaction {key}", if commit { "committing" } else { "aborting" });
        let mut tries = 0;
        loop {
            let answer = self.send_end(key, commit).await;
            tries += 1;
            match answer.map_err(|error| KafkaError::request(what(), error))? {
                ErrorCode::None => return Ok(Ended::Done),
                code if is_unknown(code) => return Ok(Ended::Unknown(format!("{code:?}"))),
                code if is_busy(code) && tries < BUSY_TRIES => tokio::time::sleep(BUSY_PAUSE).await,
                code => {
                    return Err(KafkaError::request(what(), KrafkaError::broker(code, "EndTxn was refused")));
                }
            }
        }
    }

    async fn send_end(&self, key: &TransactionKey, commit: bool) -> Result<ErrorCode, KrafkaError> {
        let connection = match self.coordinator(&key.transactional_id).await {
            Err(KrafkaError::Broker { code, .. }) if is_busy(code) => return Ok(code),
            connection => connection?,
        };
        // a transaction is ended in the way in which it was begun
        let (least, most) = match key.v2 {
            true => (END_TXN_V2, versions::END_TXN_MAX),
            false => (versions::END_TXN_MIN, END_TXN_V2 - 1),
        };
        let version = negotiate(&connection, ApiKey::EndTxn, least, most)?;
        let request = match commit {
            true => EndTxnRequest::commit(&key.transactional_id, key.producer_id, key.epoch),
            false => EndTxnRequest::abort(&key.transactional_id, key.producer_id, key.epoch),
        };
        let mut bytes = connection
            .send_request(ApiKey::EndTxn, version, |buf| request.encode_versioned(version, buf))
            .await?;
        Ok(EndTxnResponse::decode_versioned(version, &mut bytes)?.error_code)
    }

    /// Aborts whatever is open under a transactional id, and shuts out the producer that opened it.
    ///
    /// # Errors
    /// If nobody answers or the coordinator refuses.
    pub(crate) async fn fence(&self, transactional_id: &str, timeout: Duration) -> Result<(), KafkaError> {
        let what = || format!("aborting what is open under `{transactional_id}`");
        let mut tries = 0;
        loop {
            let answer = self.send_init(transactional_id, timeout).await;
            tries += 1;
            match answer.map_err(|error| KafkaError::request(what(), error))? {
                ErrorCode::None => return Ok(()),
                code if is_busy(code) && tries < BUSY_TRIES => tokio::time::sleep(BUSY_PAUSE).await,
                code => {
                    let error = KrafkaError::broker(code, "InitProducerId was refused");
                    return Err(KafkaError::request(what(), error));
                }
            }
        }
    }

    async fn send_init(&self, transactional_id: &str, timeout: Duration) -> Result<ErrorCode, KrafkaError> {
        let connection = match self.coordinator(transactional_id).await {
            Err(KrafkaError::Broker { code, .. }) if is_busy(code) => return Ok(code),
            connection => connection?,
        };
        let version = negotiate(
            &connection,
            ApiKey::InitProducerId,
            versions::INIT_PRODUCER_ID_MIN,
            versions::INIT_PRODUCER_ID_MAX,
        )?;
        let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let request = InitProducerIdRequest::transactional(transactional_id, timeout);
        let mut bytes = connection
            .send_request(ApiKey::InitProducerId, version, |buf| request.encode_versioned(version, buf))
            .await?;
        Ok(InitProducerIdResponse::decode_versioned(version, &mut bytes)?.error_code)
    }

    /// What the coordinator knows of a transactional id; `None` if it does not know it.
    ///
    /// # Errors
    /// If nobody answers or the coordinator refuses.
    pub(crate) async fn describe_transaction(
        &self,
        transactional_id: &str,
    ) -> Result<Option<Described>, KafkaError> {
        let what = || format!("describing the transactional id `{transactional_id}`");
        let options = DescribeTransactionsOptions::default();
        let answers = self.kafka().admin().describe_transactions([transactional_id], options).await;
        let mut answers = answers.map_err(|error| KafkaError::request(what(), error))?;
        match answers.remove(transactional_id) {
            Some(Ok(found)) => Ok(Some(Described {
                state: TransactionState::of(&found.state),
                producer_id: found.producer_id,
                epoch: found.producer_epoch,
                began_ms: (found.start_time_ms >= 0).then_some(found.start_time_ms),
                partitions: found
                    .partitions
                    .iter()
                    .map(|at| format!("{}-{}", at.topic, at.partition))
                    .collect(),
                timeout: found.timeout,
            })),
            None | Some(Err(KrafkaError::Broker { code: ErrorCode::TransactionalIdNotFound, .. })) => {
                Ok(None)
            }
            Some(Err(error)) => Err(KafkaError::request(what(), error)),
        }
    }

    /// The transactional ids that begin with `prefix`, each with its state. `open_only`: those alone that
    /// have a transaction under way.
    ///
    /// # Errors
    /// If a broker does not answer or refuses: what it coordinates is not known then.
    pub(crate) async fn list_transactions(
        &self,
        prefix: &str,
        open_only: bool,
    ) -> Result<Vec<(String, TransactionState)>, KafkaError> {
        let what = || format!("listing the transactions of `{prefix}*`");
        let mut pattern = Some(format!("{}.*", quoted(prefix)));
        loop {
            let mut options = ListTransactionsOptions::default();
            if open_only {
                options = options.states(vec!["Ongoing".to_string()]);
            }
            let filtered = pattern.is_some();
            if let Some(pattern) = pattern.take() {
                options = options.transactional_id_pattern(pattern);
            }
            let brokers = self.kafka().admin().list_transactions(options).await;
            let brokers = brokers.map_err(|error| KafkaError::request(what(), error))?;
            let mut found = Vec::new();
            let mut too_old = false;
            for (_, listed) in brokers {
                match listed {
                    Ok(listed) => found.extend(listed),
                    // before Kafka 4.1 there were no patterns: list all, and look ourselves
                    Err(KrafkaError::Protocol { .. }) if filtered => too_old = true,
                    Err(error) => return Err(KafkaError::request(what(), error)),
                }
            }
            if too_old {
                continue;
            }
            let mut ids: Vec<_> = found
                .into_iter()
                .filter(|found| found.transactional_id.starts_with(prefix))
                .map(|found| (found.transactional_id, TransactionState::of(&found.state)))
                .collect();
            ids.sort_by(|a, b| a.0.cmp(&b.0));
            return Ok(ids);
        }
    }

    /// Whether the cluster's transactions are those of KIP-890 (`transaction.version` 2 or later).
    ///
    /// # Errors
    /// If nobody answers.
    pub(crate) async fn has_transactions_v2(&self) -> Result<bool, KafkaError> {
        let asked = |error| KafkaError::request("reading the cluster's features".into(), error);
        let metadata = kafka_metadata(self.kafka());
        for broker in metadata.brokers() {
            let connection = metadata.get_broker_connection(broker.id()).await.map_err(asked)?;
            if connection.broker_features().finalized_level("transaction.version").unwrap_or(0) < 2 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The longest time that the brokers let a transaction be open (`transaction.max.timeout.ms`); `None` if
    /// they do not tell.
    ///
    /// # Errors
    /// If nobody answers.
    pub(crate) async fn max_transaction_timeout(&self) -> Result<Option<Duration>, KafkaError> {
        const KEY: &str = "transaction.max.timeout.ms";
        let brokers = kafka_metadata(self.kafka()).brokers();
        let resources = brokers.iter().map(|broker| ConfigResource::broker(broker.id()));
        let options = DescribeConfigsOptions::default().config_names(vec![KEY.to_string()]);
        let configs = self.kafka().admin().describe_configs(resources, options).await;
        let configs =
            configs.map_err(|error| KafkaError::request("reading the brokers' settings".into(), error))?;
        let values = configs.values().filter_map(|entries| {
            let entry = entries.as_ref().ok()?.iter().find(|entry| entry.name == KEY)?;
            entry.config_value().as_str()?.parse().ok().map(Duration::from_millis)
        });
        Ok(values.min())
    }
}

fn negotiate(connection: &BrokerConnection, api: ApiKey, least: i16, most: i16) -> Result<i16, KrafkaError> {
    connection.negotiate_api_version(api, most, least).ok_or_else(|| {
        KrafkaError::broker(
            ErrorCode::UnsupportedVersion,
            format!("the broker has no {api:?} of the versions {least} to {most}"),
        )
    })
}

/// A text as a regular expression that matches just it.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for c in text.chars() {
        if !c.is_alphanumeric() && !matches!(c, '_' | '-') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_matched_as_it_is_written() {
        assert_eq!(quoted("orders.v1-a_b"), "orders\\.v1-a_b");
        assert_eq!(quoted("a+(b)"), "a\\+\\(b\\)");
    }
}
