//! Commits what checkpoints hold, by the producer that wrote it or, after a crash, by its numbers alone.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_runtime::connect::Committer;
use stillstream_runtime::metrics::Counters;
use stillstream_types::Result;
use tokio::sync::watch;

use super::OnLostTransaction;
use super::committable::KafkaCommittable;
use super::connection::Connection;
use crate::KafkaError;
use crate::client::{
    Cluster, CommitFailure, Described, Ended, Lane, TransactionKey, TransactionState, spawn, wait_for,
};

/// How long an attempt waits for the one before it, in this process, to have aborted what it had open.
const PATIENCE_WITH_ABORTS: Duration = Duration::from_secs(30);

/// Producers of this process, of all attempts.
#[derive(Clone, Default, Debug)]
pub(super) struct Lanes {
    /// Those whose transactions are prepared, by transactional id.
    prepared: Arc<Mutex<HashMap<String, Arc<Lane>>>>,
    /// How many are aborting their transactions, of which no checkpoint will hold anything.
    aborting: Arc<watch::Sender<usize>>,
}

impl Lanes {
    pub fn add(&self, id: String, lane: Arc<Lane>) {
        self.prepared.lock().insert(id, lane);
    }

    fn get(&self, id: &str) -> Option<Arc<Lane>> {
        self.prepared.lock().get(id).cloned()
    }

    pub fn remove(&self, id: &str) -> Option<Arc<Lane>> {
        self.prepared.lock().remove(id)
    }

    /// Has a producer abort its transaction in the background.
    pub fn abort(&self, lane: Arc<Lane>) {
        let aborting = self.aborting.clone();
        aborting.send_modify(|count| *count += 1);
        let counted = aborting.clone();
        let begun = spawn(async move {
            lane.abort().await;
            counted.send_modify(|count| *count -= 1);
        });
        if begun.is_err() {
            // without threads there is no producer either
            aborting.send_modify(|count| *count -= 1);
        }
    }

    /// Waits until all of those have come to their end: what they still had on its way could begin a
    /// transaction behind the back of somebody who looks for open ones.
    pub async fn aborted(&self) {
        let mut aborting = self.aborting.subscribe();
        let all = aborting.wait_for(|count| *count == 0);
        // one that takes longer is found by a later look
        let _ = tokio::time::timeout(PATIENCE_WITH_ABORTS, all).await;
    }
}

pub(super) struct KafkaCommitter {
    pub connection: Connection,
    pub lanes: Lanes,
    pub on_lost: OnLostTransaction,
    pub counters: Arc<Counters>,
    pub sink: Arc<str>,
}

impl fmt::Debug for KafkaCommitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KafkaCommitter({})", self.sink)
    }
}

impl Committer<KafkaCommittable> for KafkaCommitter {
    fn commit(&mut self, committable: &KafkaCommittable) -> Result<()> {
        let Some(key) = committable.key() else { return Ok(()) };
        let (connection, lane) = (self.connection.clone(), self.lanes.get(&key.transactional_id));
        let records = committable.records;
        let done = wait_for(async move {
            if let Some(lane) = lane {
                match lane.commit().await {
                    Ok(()) => {
                        // ending a producer takes its time, and nothing depends on it
                        spawn(async move { lane.close().await })?;
                        return Ok(());
                    }
                    Err(CommitFailure::Failed(error)) => return Err(error),
                    Err(CommitFailure::NotOurs) => {}
                }
            }
            commit_by_numbers(&connection.get().await?, &key, records).await
        });
        match done {
            Err(lost @ KafkaError::Lost { .. }) if self.on_lost == OnLostTransaction::GoOn => {
                tracing::error!(sink = %self.sink, "the job goes on without them, as it was told to: {lost}");
                self.counters.add(&format!("{}.lost", self.sink), records);
            }
            done => done.map_err(KafkaError::into_error)?,
        }
        self.lanes.remove(&committable.transactional_id);
        Ok(())
    }
}

/// Commits a transaction whose producer is gone.
async fn commit_by_numbers(cluster: &Cluster, key: &TransactionKey, records: u64) -> Result<(), KafkaError> {
    let Ended::Unknown(answer) = cluster.end_transaction(key, true).await? else { return Ok(()) };
    let found = cluster.describe_transaction(&key.transactional_id).await?;
    match verdict(key, found.as_ref()) {
        Verdict::Committed => Ok(()),
        Verdict::Again => Err(KafkaError::Request {
            what: format!("committing the transaction {key}"),
            reason: format!("the coordinator answered {answer}, but describes it as open"),
            may_pass: true,
        }),
        Verdict::Lost(finding) => Err(KafkaError::Lost {
            records,
            transaction: key.to_string(),
            finding: format!("{finding} (EndTxn was answered with {answer})"),
            next: "Start the job from a checkpoint or savepoint before this one, which writes them again (what was \
                   committed since then is written twice), or tell the sink with `on_lost_transaction` to go on \
                   without them. See transaction.timeout.ms if the job was away for longer than that"
                .into(),
        }),
    }
}

/// What became of a transaction whose numbers its coordinator refuses.
#[derive(PartialEq, Eq, Debug)]
enum Verdict {
    /// It is proven that it was committed.
    Committed,
    /// It is still open, so that a new try must succeed.
    Again,
    /// It was aborted, or nobody can tell.
    Lost(String),
}

/// A transactional id is used for one transaction only, so what its coordinator says is about that one as
/// long as the numbers fit: KIP-890 raises the epoch by one when a transaction ends, and a new producer id
/// begins when the epochs of one are used up.
fn verdict(key: &TransactionKey, found: Option<&Described>) -> Verdict {
    let Some(found) = found else {
        return Verdict::Lost(
            "is not known to the cluster: it was forgotten after transactional.id.expiration.ms, or this is another \
             cluster"
                .into(),
        );
    };
    let since = i32::from(found.epoch) - i32::from(key.epoch);
    let ours = found.producer_id == key.producer_id && (since == 0 || since == 1);
    match &found.state {
        TransactionState::PrepareCommit | TransactionState::CompleteCommit if ours => Verdict::Committed,
        TransactionState::Ongoing if found.producer_id == key.producer_id && since == 0 => Verdict::Again,
        TransactionState::PrepareAbort | TransactionState::CompleteAbort if ours => Verdict::Lost(
            "was aborted: by the broker after transaction.timeout.ms, or by somebody who took its id over"
                .into(),
        ),
        state => Verdict::Lost(format!(
            "was taken over, and whether it was committed before cannot be told: its id now has producer id {}, epoch \
             {} and state {state}",
            found.producer_id, found.epoch
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(state: TransactionState, producer_id: i64, epoch: i16) -> Described {
        let (began_ms, partitions, timeout) = (None, Vec::new(), Duration::from_secs(60));
        Described { state, producer_id, epoch, began_ms, partitions, timeout }
    }

    #[test]
    fn a_refused_commit_counts_as_done_only_where_the_coordinator_proves_it() {
        use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareCommit};
        let key = TransactionKey { transactional_id: "t".into(), producer_id: 7, epoch: 3, v2: true };
        let of = |state, id, epoch| verdict(&key, Some(&described(state, id, epoch)));
        assert_eq!(of(CompleteCommit, 7, 3), Verdict::Committed);
        assert_eq!(of(CompleteCommit, 7, 4), Verdict::Committed);
        assert_eq!(of(PrepareCommit, 7, 3), Verdict::Committed);
        assert_eq!(of(Ongoing, 7, 3), Verdict::Again);
        for (state, id, epoch) in [
            (CompleteAbort, 7, 4),
            (CompleteCommit, 7, 5),
            (CompleteCommit, 8, 3),
            (Empty, 7, 4),
            (Ongoing, 7, 4),
        ] {
            assert!(matches!(of(state.clone(), id, epoch), Verdict::Lost(_)), "{state} {id} {epoch}");
        }
        assert!(matches!(verdict(&key, None), Verdict::Lost(_)));
    }
}
