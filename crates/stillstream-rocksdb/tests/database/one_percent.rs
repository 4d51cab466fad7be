//! What checkpoints upload when one percent of the keys change between two of them.

use std::error::Error;
use std::path::Path;

use stillstream_rocksdb::{RocksDbKeyedStateBackend, RocksDbOptions};
use stillstream_state::{BackendOptions, CurrentKey, Key, KeyedBackend, KeyedValues};
use stillstream_types::{CheckpointId, KeyGroups};

use crate::shared_store::SharedStore;

/// Bytes written to the checkpoint storage.
#[derive(Debug)]
pub struct Uploads {
    /// By a full checkpoint of the same state.
    pub full: u64,
    /// By each incremental checkpoint, after the one that found everything new.
    pub incremental: Vec<u64>,
}

impl Uploads {
    /// Of an incremental checkpoint.
    pub fn mean(&self) -> u64 {
        self.incremental.iter().sum::<u64>() / self.incremental.len().max(1) as u64
    }
}

/// Fills `keys` keys, changes a hundredth of them at random before each of `checkpoints` checkpoints, and
/// verifies that no change is lost.
pub fn measure(
    folder: &Path,
    keys: u64,
    checkpoints: u64,
    options: RocksDbOptions,
) -> Result<Uploads, Box<dyn Error>> {
    let groups = KeyGroups::new(128);
    let at = |key: &u64| key.key_hash(groups);
    let store = SharedStore::new(&folder.join("store"));
    let backend = BackendOptions::new(groups, groups.all()).incremental(true);
    let mut running = RocksDbKeyedStateBackend::<u64>::new(backend, options)?;
    let state = running.value::<(u64, u64)>("n")?;
    (0..keys).try_for_each(|key| state.set(&CurrentKey::new(&key, at(&key)), (key, 0)))?;
    let mut checkpoint = |id: u64| -> Result<u64, Box<dyn Error>> {
        running.freeze_checkpoint(CheckpointId(id))?.write(&store, "count-0")?;
        running.checkpoint_completed(CheckpointId(id));
        Ok(store.take_bytes())
    };
    checkpoint(1)?;
    let (mut random, mut changes) = (1u64, 0);
    let mut incremental = Vec::new();
    for id in 2..2 + checkpoints {
        for _ in 0..keys / 100 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (random >> 33) % keys;
            state.update(&CurrentKey::new(&key, at(&key)), || (0, 0), |value| value.1 += 1)?;
            changes += 1;
        }
        incremental.push(checkpoint(id)?);
    }
    running.freeze()?.write(&store, "full")?;
    let full = store.take_bytes();
    let mut total = 0;
    running.keyed_value::<(u64, u64)>("n")?.for_each(|_, value| total += value.1)?;
    match total == changes {
        true => Ok(Uploads { full, incremental }),
        false => Err(format!("{total} of {changes} changes are there").into()),
    }
}
