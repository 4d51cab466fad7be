//! From the heap to RocksDB and back in canonical form, with a state of every kind.

use proptest::prelude::*;
use stillstream_heap::HeapBackendFactory;
use stillstream_state::conformance::{Everything, all_groups, backend_of, entries};
use stillstream_state::{BackendFactory, KeyedBackend, MemorySnapshotStore, StateError};
use stillstream_types::KeyedStateHandle;

use crate::conformance::rocksdb;

const STORE: MemorySnapshotStore = MemorySnapshotStore::unlimited();

/// A key, what it is set to, and whether it is cleared instead.
type Change = (u8, u64, bool);

fn key(n: u8) -> String {
    format!("user-{n}")
}

/// What a backend says when it is asked for each key, and the snapshot that it writes.
type Told = (Vec<String>, Vec<KeyedStateHandle>);

fn tell<B: KeyedBackend<Key = String>>(everything: &mut Everything<B>) -> Result<Told, StateError> {
    let said = (0..=u8::MAX).map(|n| everything.ask(&key(n))).collect::<Result<_, _>>()?;
    Ok((said, everything.backend.freeze()?.write(&STORE, "round trip")?))
}

fn changed(factory: &impl BackendFactory, changes: &[Change]) -> Result<Told, StateError> {
    let mut everything = Everything::register(backend_of(factory, all_groups().all())?)?;
    for (number, n, clears) in changes {
        match clears {
            false => everything.set(&key(*number), *n)?,
            true => everything.clear(&key(*number), *n)?,
        }
    }
    tell(&mut everything)
}

/// `early`: the states are registered before the restore, not after it.
fn restored(
    factory: &impl BackendFactory,
    handles: &[KeyedStateHandle],
    early: bool,
) -> Result<Told, StateError> {
    let mut backend = backend_of(factory, all_groups().all())?;
    if early {
        let mut everything = Everything::register(backend)?;
        everything.backend.restore(handles, &STORE)?;
        return tell(&mut everything);
    }
    backend.restore(handles, &STORE)?;
    tell(&mut Everything::register(backend)?)
}

fn go_round(changes: &[Change], early: bool) -> Result<(), StateError> {
    let (heap, rocksdb) = (HeapBackendFactory::default(), rocksdb(128));
    let (said, first) = changed(&heap, changes)?;
    let held = entries(&first, &STORE)?;
    let (said_there, there) = restored(&rocksdb, &first, early)?;
    let (said_back, back) = restored(&heap, &there, early)?;
    let (_, there_again) = restored(&rocksdb, &back, !early)?;
    assert_eq!((&said_there, &said_back), (&said, &said));
    for handles in [&there, &back, &there_again] {
        assert_eq!(entries(handles, &STORE)?, held);
    }
    // RocksDB writes in the order of the keys' bytes: the same state has the same bytes
    assert!(there == there_again, "bytes differ, not entries");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn state_of_every_kind_goes_to_rocksdb_and_back_unchanged(
        changes in prop::collection::vec((any::<u8>(), 0u64..1000, prop::bool::weighted(0.2)), 0..400),
        early: bool,
    ) {
        go_round(&changes, early).unwrap();
    }
}
