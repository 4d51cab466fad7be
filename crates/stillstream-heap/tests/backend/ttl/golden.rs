//! The form of state with a time to live: files of completed checkpoints hold it.

use stillstream_heap::HeapKeyedStateBackend;
use stillstream_state::{BackendOptions, CurrentKey, Key, KeyedBackend, MemorySnapshotStore, StateError};
use stillstream_types::{KeyGroups, StreamHandle};

use super::{Result, TestClock, ttl};

fn backend(now: i64) -> HeapKeyedStateBackend<u64> {
    let groups = KeyGroups::new(1);
    let mut backend =
        HeapKeyedStateBackend::new(BackendOptions::new(groups, groups.all()).asynchronous(false));
    let clock = TestClock::default();
    clock.set(now);
    clock.give(&mut backend);
    backend
}

fn key() -> CurrentKey<'static> {
    CurrentKey::new(&7u64, 7u64.key_hash(KeyGroups::new(1)))
}

fn fill(backend: &mut HeapKeyedStateBackend<u64>) -> std::result::Result<(), StateError> {
    let config = ttl(100);
    backend.with_ttl(&config).value::<String>("value")?.set(&key(), "a".into())?;
    backend.with_ttl(&config).list::<u16>("list")?.add_all(&key(), [1, 2])?;
    backend.with_ttl(&config).map::<u8, u16>("map")?.put(&key(), 3, 4)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_time_lies_in_front_of_each_value_item_and_map_value() -> Result {
    let mut written = backend(0x0102);
    fill(&mut written)?;
    let handle = written.freeze()?.write(&MemorySnapshotStore::unlimited(), "n")?.remove(0);
    let StreamHandle::Inline { bytes } = &handle.stream else { panic!("the memory store writes inline") };
    let section = hex(&bytes[handle.sections[0].offset as usize..]);
    let stamp = "0201000000000000";
    let key = "0700000000000000";
    for (entry, what) in [
        (format!("{key}{stamp}0100000061"), "value"),
        (format!("{key}02000000{stamp}0100{stamp}0200"), "list"),
        (format!("{key}0100000003{stamp}0400"), "map"),
    ] {
        assert!(section.contains(&entry), "{what}: {entry} in {section}");
    }
    let header = &bytes[..handle.header_len as usize];
    // tag 9, then the schema of what it stands before: a `string`
    assert!(hex(header).contains("01090006000000737472696e67"), "{}", hex(header));
    Ok(())
}
