//! What is in a chain is told without the program, and is what the canonical form says.

use std::ops::ControlFlow;

use stillstream_heap::{HeapBackendFactory, HeapKeyedStateBackend};
use stillstream_state::conformance::{Everything, PlainEntry, all_groups, backend_of, entries};
use stillstream_state::snapshot::{SnapshotEntry, for_each_entry_of_chain, header_of_incremental};
use stillstream_state::{
    BackendOptions, Data, DecodeError, Key, KeyHasher, KeyedBackend, KeyedValues, MemorySnapshotStore,
    Schema, StateError,
};
use stillstream_types::{CheckpointId, KeyedSnapshot};

use crate::store::SharedFiles;

/// Entries of the chain; maps are left out, whose entries have no order.
fn told(snapshot: &KeyedSnapshot, store: &SharedFiles) -> Result<Vec<PlainEntry>, StateError> {
    let mut found = Vec::new();
    for_each_entry_of_chain(&snapshot.incremental[0], store, &mut |entry| {
        found.push(plain(entry));
        ControlFlow::Continue(())
    })?;
    found.retain(is_no_map);
    found.sort();
    Ok(found)
}

fn is_no_map(entry: &PlainEntry) -> bool {
    !entry.state.ends_with("map")
}

fn plain(entry: SnapshotEntry<'_>) -> PlainEntry {
    PlainEntry {
        state: entry.state.name.clone(),
        group: entry.group.0,
        key: entry.key.to_vec(),
        namespace: entry.namespace.to_vec(),
        time: entry.time,
        value: entry.value.to_vec(),
    }
}

#[test]
fn the_entries_of_a_chain_are_those_of_the_canonical_form() -> Result<(), StateError> {
    let store = SharedFiles::default();
    let factory = HeapBackendFactory { asynchronous: true, incremental: true };
    let mut running = Everything::register(backend_of(&factory, all_groups().all())?)?;
    let keys: Vec<String> = (0..400).map(|n| format!("user-{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        running.set(key, n as u64)?;
    }
    for id in 1..=3u64 {
        // some are removed, and some come back
        for (n, key) in keys.iter().enumerate().filter(|(n, _)| *n as u64 % 40 < id) {
            match (n as u64 + id).is_multiple_of(3) {
                true => running.set(key, n as u64 + id)?,
                false => running.clear(key, n as u64)?,
            }
        }
        let snapshot = running.backend.freeze_checkpoint(CheckpointId(id))?.write(&store, "chain")?;
        running.backend.checkpoint_completed(CheckpointId(id));
        assert_eq!(snapshot.incremental[0].files.len(), id as usize, "an image, then changes");
        let mut expected = running.entries()?;
        expected.retain(is_no_map);
        assert_eq!(told(&snapshot, &store)?, expected, "checkpoint {id}");
        let header = header_of_incremental(&snapshot.incremental[0], &store)?;
        assert_eq!((header.states.len(), header.key), (13, String::schema()));
    }
    Ok(())
}

/// A key whose hash is its own.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Reversed(u32);

impl Data for Reversed {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        u32::decode(input).map(Self)
    }
    fn schema() -> Schema {
        u32::schema()
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.int(self.0.reverse_bits() as i32);
    }
}

#[test]
fn a_chain_of_keys_with_a_hash_of_their_own_is_listed_as_long_as_nothing_replaces_anything()
-> Result<(), StateError> {
    let store = SharedFiles::default();
    let options = BackendOptions::new(all_groups(), all_groups().all()).incremental(true);
    let mut backend = HeapKeyedStateBackend::<Reversed>::new(options);
    let sums = backend.keyed_value::<u64>("sums")?;
    for key in (0..500).map(Reversed) {
        sums.insert(key.key_hash(all_groups()), &key, 1)?;
    }
    let image = backend.freeze_checkpoint(CheckpointId(1))?.write(&store, "chain")?;
    backend.checkpoint_completed(CheckpointId(1));
    let canonical = backend.freeze()?.write(&MemorySnapshotStore::unlimited(), "canonical")?;
    assert_eq!(told(&image, &store)?, entries(&canonical, &MemorySnapshotStore::unlimited())?);
    sums.remove(Reversed(7).key_hash(all_groups()), &Reversed(7))?;
    let changes = backend.freeze_checkpoint(CheckpointId(2))?.write(&store, "chain")?;
    assert_eq!(changes.incremental[0].files.len(), 2);
    let Err(error) = told(&changes, &store) else { panic!("nobody can know what the change replaces") };
    assert!(error.to_string().contains("a hash of its own"), "{error}");
    Ok(())
}
