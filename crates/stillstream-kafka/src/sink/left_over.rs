//! Aborts the transactions that earlier attempts left open, so that no reader waits for them.

use std::time::Duration;

use stillstream_types::CheckpointId;

use super::names::Names;
use crate::KafkaError;
use crate::client::Cluster;

/// Which of them one subtask aborts.
#[derive(Clone, Debug)]
pub(super) struct LeftOver {
    pub names: Names,
    pub generation: u64,
    pub restored: Option<CheckpointId>,
    /// The subtasks of this attempt deal out among them what those of earlier ones left, however many those
    /// were.
    pub subtask: u32,
    pub parallelism: u32,
    pub timeout: Duration,
}

/// The pause before the second look, and the longest one between two looks.
const PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(300)];

impl LeftOver {
    /// Looks again and again, for the whole attempt: what a process that is cut off still had on its way
    /// begins a transaction when everybody takes it for dead. Never returns.
    pub async fn keep_looking(mut self, cluster: Cluster) {
        // one subtask does it for all
        (self.subtask, self.parallelism) = (0, 1);
        let [mut pause, longest] = PAUSES;
        loop {
            tokio::time::sleep(pause).await;
            pause = longest.min(pause * 2);
            if let Err(error) = self.abort(&cluster).await {
                tracing::debug!("looking for transactions that earlier attempts left open: {error}");
            }
        }
    }

    /// Aborts them and returns how many there were.
    ///
    /// # Errors
    /// If the cluster does not answer or refuses.
    pub async fn abort(&self, cluster: &Cluster) -> Result<usize, KafkaError> {
        let (mut count, mut later) = (0, Vec::new());
        for (id, _) in cluster.list_transactions(self.names.begin(), true).await? {
            let Some(named) = self.names.parse(&id) else { continue };
            let mine = named.subtask % self.parallelism.max(1) == self.subtask;
            if mine && named.generation > self.generation {
                later.push(id);
            } else if mine && named.is_left_over(self.generation, self.restored) {
                cluster.fence(&id, self.timeout).await?;
                tracing::info!(
                    "the transaction `{id}` of an earlier attempt, which no checkpoint holds, was aborted"
                );
                count += 1;
            }
        }
        if !later.is_empty() {
            tracing::warn!(
                "these transactions are open and of a later attempt than this one, which another process may run, or which \
                 was before the job's checkpoints were deleted; readers wait for them until they end (`stillstream kafka \
                 transactions` can end them): {}",
                later.join(", ")
            );
        }
        Ok(count)
    }
}
