//! Incremental checkpoints: a chain of one full image and the changes after it.
//!
//! A checkpoint writes what changed since the last one that is known to be *completed*, whatever became of
//! those in between: notices may be lost, and files of aborted checkpoints are deleted. It starts a new image
//! when
//!
//! - a full checkpoint is asked for;
//! - nothing is completed yet, or the state was restored from something that is not the job's own chain with
//!   these key groups;
//! - the changes have grown to the size of the image: so restoring reads, and storage keeps, at most about
//!   twice the state, and what is written in the long run is at most twice the changes;
//! - there are [`MOST_FILES`] files: a restore opens each of them, and looks each old entry up in each newer
//!   file;
//! - a checkpoint is on its way that does not name the files of the older chain, an image for one: if it was
//!   completed and the notice lost, those files are gone.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stillstream_state::StateError;
use stillstream_state::StateMeta;
use stillstream_state::snapshot::{ChainMeta, DeltaHeader, FrozenKeyedState, write_chain};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, IncrementalHandle, KeyedSnapshot};

use crate::digest::{RunDigest, Tracking};

/// Files of a chain, the image included. Flink has no setting for it: its heap snapshots are always full.
pub(crate) const MOST_FILES: usize = 16;
/// Checkpoints whose outcome nobody told that are remembered.
const MOST_PENDING: usize = 8;

/// State and namespace.
type RunKey = (String, Vec<u8>);

/// What is known of the contents of a chain's end.
#[derive(Debug, Default)]
struct Digests {
    runs: BTreeMap<RunKey, Arc<RunDigest>>,
    /// Whether a table that is not here had no entry.
    complete: bool,
}

/// What a checkpoint has written, or one that was restored had.
#[derive(Clone, Debug)]
struct Written {
    chain: Arc<ChainMeta>,
    digests: Arc<Digests>,
}

type Slot = Arc<Mutex<Option<Written>>>;

#[derive(Debug)]
struct Pending {
    id: CheckpointId,
    serial: u64,
    /// The files that it names beside its own; empty for an image.
    older: Option<Arc<ChainMeta>>,
    written: Slot,
}

impl Pending {
    /// Whether it names all files of a base: the base then outlives its completion.
    fn keeps(&self, base: &Base) -> bool {
        self.older.as_ref().is_some_and(|older| base.written.chain.begins(older))
    }
}

/// A completed checkpoint that changes may be told from.
#[derive(Debug)]
struct Base {
    serial: u64,
    written: Written,
}

/// The worker's side of a chain.
#[derive(Debug)]
pub(super) struct Chain {
    /// Tells this backend's files from those of others.
    backend: u64,
    seed: u64,
    /// Of the last freeze; 0 is what was restored.
    serial: u64,
    pending: Vec<Pending>,
    /// The last completed one, and older ones whose files it names: as long as checkpoints are on their way,
    /// an older one may be the newest whose files all of them name.
    bases: Vec<Base>,
    /// A store that shares nothing was given changes, which are worth nothing by themselves.
    unshared: Arc<AtomicBool>,
}

/// What a freeze is for.
pub(crate) enum Freezing<'a> {
    /// A snapshot by itself.
    Canonical,
    /// A link of a chain.
    Checkpoint(&'a mut ChainFreeze),
}

/// A link of a chain in the making.
#[derive(Debug)]
pub(crate) struct ChainFreeze {
    id: CheckpointId,
    backend: u64,
    seed: u64,
    serial: u64,
    oldest: u64,
    /// Serial number and contents of what the changes are told from.
    base: Option<(u64, Written)>,
    runs: Vec<(RunKey, Arc<Tracking>, bool)>,
    slot: Slot,
    unshared: Arc<AtomicBool>,
}

impl ChainFreeze {
    /// The number of this freeze.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The freeze whose image the changes continue; `None`: all is written.
    pub fn since(&self) -> Option<u64> {
        self.base.as_ref().map(|base| base.0)
    }

    /// The oldest freeze that may still be asked for.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// What a table's run compares with; `whole`: all its pages are in the run.
    pub fn track(&mut self, state: &str, namespace: &[u8], whole: bool) -> Arc<Tracking> {
        let key = (state.to_string(), namespace.to_vec());
        let base = self.base.as_ref().and_then(|(_, Written { digests, .. })| {
            let empty = || digests.complete.then(|| Arc::new(RunDigest::new(1, true)));
            digests.runs.get(&key).cloned().or_else(empty)
        });
        let tracking = Tracking::new(self.seed, base);
        self.runs.push((key, tracking.clone(), whole));
        tracking
    }

    /// Writes the link; `header` is that of the changes.
    pub fn write(
        self,
        frozen: FrozenKeyedState,
        header: DeltaHeader,
        store: &dyn SnapshotStore,
        name: &str,
    ) -> Result<KeyedSnapshot, StateError> {
        let range = frozen.range;
        if header.header.states.is_empty() || self.base.is_none() && !store.keeps_shared() {
            return Ok(KeyedSnapshot { keyed: frozen.write(store, name)?, ..KeyedSnapshot::default() });
        }
        if !store.keeps_shared() {
            self.unshared.store(true, Ordering::Relaxed);
        }
        let (kind, header, older, complete) = match &self.base {
            None => ("image", header.header.to_bytes(), ChainMeta { files: Vec::new() }, true),
            Some((_, base)) => {
                ("changes", header.to_bytes(), base.chain.as_ref().clone(), base.digests.complete)
            }
        };
        let file = format!("{kind}-{}", self.id);
        let (chain, meta) = write_chain(frozen, &header, file, older, store, &format!("{name}-{kind}"))?;
        let runs = self.runs.into_iter().map(|(key, tracking, whole)| (key, tracking.finish(whole)));
        let digests = Arc::new(Digests { runs: runs.collect(), complete });
        let incremental = vec![chain.handle(self.backend, range, meta)];
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Written { chain: chain.into(), digests });
        Ok(KeyedSnapshot { keyed: Vec::new(), incremental })
    }
}

impl Chain {
    pub fn new() -> Self {
        // hash maps' keys are the only random numbers without a source of them; two backends must not have
        // the same
        let random = || RandomState::new().hash_one(0);
        Self {
            backend: random(),
            seed: random(),
            serial: 0,
            pending: Vec::new(),
            bases: Vec::new(),
            unshared: Arc::default(),
        }
    }

    /// The chain goes on from what was restored: tables are now as its end has them.
    pub fn restored(&mut self, handle: &IncrementalHandle, chain: ChainMeta) {
        self.backend = handle.backend;
        let digests = Arc::default();
        self.bases = vec![Base { serial: 0, written: Written { chain: chain.into(), digests } }];
    }

    /// The number under which tables are marked that hold what was restored, as long as nothing was frozen
    /// since.
    pub fn restored_serial(&self) -> Option<u64> {
        (self.serial == 0).then(|| self.bases.first().map(|base| base.serial))?
    }

    /// State came from elsewhere: no older file tells it.
    pub fn break_off(&mut self) {
        self.bases.clear();
        self.pending.clear();
    }

    /// Begins a link for checkpoint `id`; a `full` one begins a new chain.
    pub fn freeze(&mut self, id: CheckpointId, full: bool) -> ChainFreeze {
        self.serial += 1;
        if self.unshared.swap(false, Ordering::Relaxed) {
            self.bases.clear();
        }
        let stays = |base: &&Base| self.pending.iter().all(|pending| pending.keeps(base));
        let base = self.bases.iter().rfind(stays).filter(|_| !full).filter(|base| {
            let (image, changes) = base.written.chain.bytes();
            changes < image && base.written.chain.files.len() < MOST_FILES
        });
        let base = base.map(|base| (base.serial, base.written.clone()));
        let slot = Slot::default();
        let older = base.as_ref().map(|(_, base)| base.chain.clone());
        if self.pending.is_empty() {
            // the next ones name the files of the last base or an image is on its way
            self.bases.drain(..self.bases.len().saturating_sub(1));
        }
        self.pending.push(Pending { id, serial: self.serial, older, written: slot.clone() });
        if self.pending.len() > MOST_PENDING {
            let forgotten = self.pending.remove(0);
            self.bases.retain(|base| forgotten.keeps(base));
        }
        let oldest = self.bases.first().map(|base| base.serial).or(self.pending.first().map(|p| p.serial));
        ChainFreeze {
            id,
            backend: self.backend,
            seed: self.seed,
            serial: self.serial,
            oldest: oldest.unwrap_or(self.serial),
            base,
            runs: Vec::new(),
            slot,
            unshared: self.unshared.clone(),
        }
    }

    /// Checkpoint `id` is completed: it is the new base, if it wrote a link.
    pub fn completed(&mut self, id: CheckpointId) {
        let Some(at) = self.pending.iter().position(|pending| pending.id == id) else { return };
        // what is older was overtaken
        let Some(pending) = self.pending.drain(..=at).next_back() else { return };
        self.bases.retain(|base| pending.keeps(base));
        let written = pending.written.lock().unwrap_or_else(PoisonError::into_inner).take();
        match written {
            Some(written) => self.bases.push(Base { serial: pending.serial, written }),
            None => self.bases.clear(),
        }
    }

    /// Checkpoint `id` was given up.
    pub fn aborted(&mut self, id: CheckpointId) {
        self.pending.retain(|pending| pending.id != id);
    }
}

/// Whether a state's part of a chain can be read without the program's types, as it must be where the program
/// no longer has the state: entries that newer files replace are passed over.
pub(super) fn can_chain(state: &StateMeta) -> bool {
    state.namespace.can_skip() && state.value.can_skip()
}
