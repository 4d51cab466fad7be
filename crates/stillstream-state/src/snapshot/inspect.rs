//! What is in a snapshot, without the program that wrote it.

use std::collections::BTreeMap;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{KeyGroup, KeyGroupRange, KeyedStateHandle};

use super::read::{for_each_chunk, read_header};
use crate::StateError;
use crate::data::Schema;
use crate::meta::StateMeta;

/// The contents of one keyed snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyedStateContents {
    /// The key's type.
    pub key: Schema,
    /// The number of key groups.
    pub max_parallelism: u32,
    /// The states, in the order of the header.
    pub states: Vec<StateContents>,
}

/// One state of a keyed snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateContents {
    /// Name, kind and types.
    pub meta: StateMeta,
    /// How many entries: keys, or timers.
    pub entries: u64,
    /// Bytes, by key group; groups without an entry are left out.
    pub bytes: BTreeMap<KeyGroup, u64>,
}

impl StateContents {
    /// Bytes in all key groups.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.values().sum()
    }
}

/// Reads and verifies a whole keyed snapshot and says what is in it: which state grows, and in which key
/// group. Blocks.
pub fn inspect(
    handle: &KeyedStateHandle,
    store: &dyn SnapshotStore,
) -> Result<KeyedStateContents, StateError> {
    let header = read_header(handle, store)?;
    let mut states: Vec<StateContents> = header
        .states
        .into_iter()
        .map(|meta| StateContents { meta, entries: 0, bytes: BTreeMap::new() })
        .collect();
    let all = KeyGroupRange::new(0, u16::MAX);
    for_each_chunk(handle, store, all, states.len(), |state, chunk| {
        states[state].entries += chunk.count as u64;
        *states[state].bytes.entry(chunk.group).or_default() += chunk.payload().len() as u64;
    })?;
    Ok(KeyedStateContents { key: header.key, max_parallelism: header.max_parallelism, states })
}
