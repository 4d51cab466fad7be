//! The offsets of a group, which are committed for whoever watches how far a job is.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::client::offsets::Partition;
use crate::client::{Cluster, spawn};

/// How long the end of a reader waits for the commit that is under way: the process may end after that.
const LAST: Duration = Duration::from_secs(3);

/// Commits the offsets of checkpoints beside everything else, one commit at a time; only the newest count.
#[derive(Debug)]
pub(super) struct GroupOffsets {
    group: String,
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Known when the reader has splits.
    cluster: Option<Cluster>,
    newest: Option<Vec<(Partition, u64)>>,
    under_way: bool,
}

impl GroupOffsets {
    pub(super) fn new(group: &str) -> Arc<Self> {
        Arc::new(Self { group: group.to_string(), state: Mutex::default(), done: Condvar::new() })
    }

    pub(super) fn connected(self: &Arc<Self>, cluster: &Cluster) {
        self.state.lock().cluster = Some(cluster.clone());
        self.begin();
    }

    pub(super) fn commit(self: &Arc<Self>, offsets: Vec<(Partition, u64)>) {
        self.state.lock().newest = Some(offsets);
        self.begin();
    }

    /// Waits a little for what is under way.
    pub(super) fn finish(&self) {
        self.done.wait_while_for(&mut self.state.lock(), |state| state.under_way, LAST);
    }

    fn begin(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.under_way || state.newest.is_none() {
            return;
        }
        let Some(cluster) = state.cluster.clone() else { return };
        state.under_way = true;
        drop(state);
        let group = self.clone();
        let spawned = spawn(async move {
            while let Some(offsets) = group.next() {
                if let Err(error) = cluster.commit_group_offsets(&group.group, offsets).await {
                    group.warn(&error);
                }
            }
        });
        if let Err(error) = spawned {
            self.state.lock().under_way = false;
            self.warn(&error);
        }
    }

    fn next(&self) -> Option<Vec<(Partition, u64)>> {
        let mut state = self.state.lock();
        let newest = state.newest.take();
        if newest.is_none() {
            state.under_way = false;
            self.done.notify_all();
        }
        newest
    }

    fn warn(&self, error: &crate::KafkaError) {
        tracing::warn!(
            "the offsets of group `{}` are out of date, which harms nothing but what it shows: {error}",
            self.group
        );
    }
}
