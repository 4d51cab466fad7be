//! What jobs left open: transactions listed, committed and aborted by a person.
//!
//! A job that starts again sees to its own transactions. This is for those of a job that never does: readers
//! of committed records wait for them until `transaction.timeout.ms` has passed.
//!
//! ```no_run
//! use stillstream_kafka::client::Properties;
//! use stillstream_kafka::transactions;
//! let properties = Properties::new("localhost:9092");
//! for open in transactions::open(&properties, "word-count")? {
//!     println!("{} of {:?}", open.transactional_id, open.partitions);
//!     transactions::abort(&properties, &open.transactional_id)?;
//! }
//! # Ok::<(), stillstream_types::Error>(())
//! ```

use std::time::Duration;

use stillstream_types::Result;

use crate::KafkaError;
use crate::client::{Cluster, Described, Ended, Properties, TransactionKey, TransactionState, wait_for};

/// A transaction that has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenTransaction {
    /// The transactional id; of a sink: `prefix-scope-subtask-generation-checkpoint`.
    pub transactional_id: String,
    /// The producer id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub epoch: i16,
    /// When it began, in milliseconds since 1970.
    pub began_ms: Option<i64>,
    /// The broker aborts it when it has been open for this long.
    pub timeout: Duration,
    /// Its partitions, as `topic-partition`.
    pub partitions: Vec<String>,
}

async fn connect(properties: &Properties) -> Result<Cluster, KafkaError> {
    properties.check(&[])?;
    Cluster::connect(properties).await
}

/// The open transactions whose ids begin with `prefix`.
///
/// # Errors
/// If the cluster does not answer, or does not let its transactions be described.
pub fn open(properties: &Properties, prefix: &str) -> Result<Vec<OpenTransaction>> {
    let (properties, prefix) = (properties.clone(), prefix.to_string());
    let found = wait_for(async move {
        let cluster = connect(&properties).await?;
        let mut found = Vec::new();
        for (id, _) in cluster.list_transactions(&prefix, true).await? {
            // one that has ended meanwhile is none
            if let Some(described) = cluster.describe_transaction(&id).await?.filter(is_open) {
                found.push(OpenTransaction {
                    transactional_id: id,
                    producer_id: described.producer_id,
                    epoch: described.epoch,
                    began_ms: described.began_ms,
                    timeout: described.timeout,
                    partitions: described.partitions,
                });
            }
        }
        Ok(found)
    });
    found.map_err(KafkaError::into_error)
}

fn is_open(described: &Described) -> bool {
    described.state == TransactionState::Ongoing
}

/// Commits what is open under a transactional id: for a transaction that a completed checkpoint holds, whose
/// job is not to start again. Its records are seen from then on.
///
/// # Errors
/// If nothing is open under this id, or the cluster does not answer.
pub fn commit(properties: &Properties, transactional_id: &str) -> Result<()> {
    end(properties, transactional_id, true)
}

/// Aborts what is open under a transactional id, and shuts out the producer that opened it. Its records are
/// never seen.
///
/// # Errors
/// If nothing is open under this id, or the cluster does not answer.
pub fn abort(properties: &Properties, transactional_id: &str) -> Result<()> {
    end(properties, transactional_id, false)
}

fn end(properties: &Properties, transactional_id: &str, commit: bool) -> Result<()> {
    let (properties, id) = (properties.clone(), transactional_id.to_string());
    let ended = wait_for(async move {
        let cluster = connect(&properties).await?;
        let described = cluster.describe_transaction(&id).await?;
        let state = described.as_ref().map(|described| described.state.to_string());
        let Some(open) = described.filter(is_open) else {
            let state =
                state.map_or("the cluster does not know it".into(), |state| format!("its state is {state}"));
            return Err(KafkaError::NothingOpen { transactional_id: id, state });
        };
        if !commit {
            return cluster.fence(&id, open.timeout).await;
        }
        let v2 = cluster.has_transactions_v2().await?;
        let key =
            TransactionKey { transactional_id: id, producer_id: open.producer_id, epoch: open.epoch, v2 };
        match cluster.end_transaction(&key, true).await? {
            Ended::Done => Ok(()),
            Ended::Unknown(answer) => Err(KafkaError::NothingOpen {
                state: format!("it has ended meanwhile ({answer})"),
                transactional_id: key.transactional_id,
            }),
        }
    });
    ended.map_err(KafkaError::into_error)
}
