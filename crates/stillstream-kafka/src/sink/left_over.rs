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

impl LeftOver {
    /// Aborts them and returns how many there were.
    ///
    /// # Errors
    /// If the cluster does not answer or refuses.
    pub async fn abort(&self, cluster: &Cluster) -> Result<usize, KafkaError> {
        let mut count = 0;
        for (id, _) in cluster.list_transactions(self.names.begin(), true).await? {
            let Some(named) = self.names.parse(&id) else { continue };
            let mine = named.subtask % self.parallelism.max(1) == self.subtask;
            if mine && named.is_left_over(self.generation, self.restored) {
                cluster.fence(&id, self.timeout).await?;
                tracing::info!(
                    "the transaction `{id}` of an earlier attempt, which no checkpoint holds, was aborted"
                );
                count += 1;
            }
        }
        Ok(count)
    }
}
