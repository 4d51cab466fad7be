//! [`Collect`]: a sink for tests, whose records the test reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stillstream_runtime::Batch;
use stillstream_runtime::connect::{Committer, Prepared, Sink, SinkContext, SinkWriter};
use stillstream_state::Data;
use stillstream_types::{CheckpointId, ErrorKind, Result};

use crate::ConnectorError;

/// A transaction: the writer's number in this process, and the checkpoint.
type Id = (u64, u64);

struct Shared<T> {
    writers: u64,
    /// Pre-committed records, with the generation that wrote them.
    staged: BTreeMap<Id, (u64, Vec<T>)>,
    done: BTreeSet<Id>,
    committed: Vec<T>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { writers: 0, staged: BTreeMap::new(), done: BTreeSet::new(), committed: Vec::new() }
    }
}

/// Collects records in memory. Exactly-once: what is seen is what was committed, so a test that compares it
/// with what should come out finds lost and doubled records. Works within one process.
///
/// ```
/// use stillstream_connectors::Collect;
/// let out = Collect::<u64>::new();
/// let sink = out.clone(); // goes into the job
/// // after the job:
/// assert_eq!(out.items(), Vec::<u64>::new());
/// # fn check(_: impl stillstream_runtime::connect::Sink<u64>) {}
/// # check(sink);
/// ```
pub struct Collect<T>(Arc<Mutex<Shared<T>>>);

impl<T> Clone for Collect<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Collect<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> fmt::Debug for Collect<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collect({} committed)", self.shared().committed.len())
    }
}

impl<T> Collect<T> {
    /// A sink whose clones share what was collected.
    pub fn new() -> Self {
        Self::default()
    }

    fn shared(&self) -> MutexGuard<'_, Shared<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many records were committed.
    pub fn len(&self) -> usize {
        self.shared().committed.len()
    }

    /// Whether nothing was committed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone> Collect<T> {
    /// The committed records, in the order of the commits.
    pub fn items(&self) -> Vec<T> {
        self.shared().committed.clone()
    }
}

impl<T: Clone + Ord> Collect<T> {
    /// The committed records in ascending order: what to compare when the order between subtasks does not
    /// matter.
    pub fn sorted(&self) -> Vec<T> {
        let mut items = self.items();
        items.sort();
        items
    }
}

impl<T: Data> Sink<T> for Collect<T> {
    type Committable = Id;

    fn writer(&self, context: &SinkContext) -> Result<Box<dyn SinkWriter<T, Id>>> {
        let mut shared = self.shared();
        shared.writers += 1;
        let (number, generation) = (shared.writers, context.generation);
        Ok(Box::new(Writer { collect: self.clone(), number, generation, current: Vec::new() }))
    }

    fn committer(&self, _: &SinkContext) -> Result<Box<dyn Committer<Id>>> {
        let collect = self.clone();
        Ok(Box::new(move |id: &Id| {
            let mut shared = collect.shared();
            match shared.staged.remove(id) {
                Some((_, records)) => {
                    shared.committed.extend(records);
                    shared.done.insert(*id);
                    Ok(())
                }
                None if shared.done.contains(id) => Ok(()),
                // no new try can find it
                None => {
                    Err(ConnectorError::CollectLost(id.1).into_error().with_kind(ErrorKind::CorruptSnapshot))
                }
            }
        }))
    }
}

struct Writer<T> {
    collect: Collect<T>,
    number: u64,
    generation: u64,
    current: Vec<T>,
}

impl<T: Data> SinkWriter<T, Id> for Writer<T> {
    fn write(&mut self, batch: Batch<T>) -> Result<()> {
        self.current.extend(batch.values);
        Ok(())
    }

    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<Id>>> {
        if self.current.is_empty() {
            return Ok(None);
        }
        let id = (self.number, checkpoint.0);
        let records = std::mem::take(&mut self.current);
        self.collect.shared().staged.insert(id, (self.generation, records));
        Ok(Some(Prepared::done(id)))
    }

    fn recovered(&mut self, restored: Option<CheckpointId>) -> Result<()> {
        let (restored, generation) = (restored.unwrap_or_default(), self.generation);
        let mut shared = self.collect.shared();
        shared.staged.retain(|(_, checkpoint), (by, _)| *by >= generation || *checkpoint <= restored.0);
        Ok(())
    }
}
