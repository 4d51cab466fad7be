//! Snapshots of every released format version stay readable.

use std::sync::Arc;

use stillstream_heap::HeapKeyedStateBackend;
use stillstream_state::{
    BackendOptions, CurrentKey, Data, Key, KeyedBackend, MemorySnapshotStore, NamespacedValues, StateError,
    TimeDomain, TimerService,
};
use stillstream_types::{
    KeyGroup, KeyGroupRange, KeyGroupSection, KeyGroups, KeyedStateHandle, StreamHandle, Timestamp,
};

#[derive(Clone, PartialEq, Debug, Data)]
#[data(crate = stillstream_state)]
enum Status {
    Open { since: Timestamp, note: Option<String> },
    Closed(u32),
}

const GROUPS: KeyGroupRange = KeyGroupRange { start: 0, end: 1 };

const HEADER_V1: u64 = 389;
const HEADER_CRC_V1: u32 = 0x551e49d2;
const SECTION_CRC_V1: u32 = 0xbffb86e8;

fn backend() -> HeapKeyedStateBackend<String> {
    HeapKeyedStateBackend::new(BackendOptions::new(KeyGroups::new(1), GROUPS).asynchronous(false))
}

fn status() -> Status {
    Status::Open { since: Timestamp::from_millis(17), note: Some("é".into()) }
}

/// The state in every golden file.
fn fill(backend: &mut HeapKeyedStateBackend<String>) -> Result<(), StateError> {
    let key = "user-1".to_string();
    let ctx = CurrentKey::new(&key, key.key_hash(KeyGroups::new(1)));
    backend.value::<Status>("status")?.set(&ctx, status())?;
    backend.list::<(bool, f64)>("list")?.add_all(&ctx, [(true, 0.5), (false, -1.0)])?;
    backend.map::<char, Vec<u8>>("map")?.put(&ctx, 'x', vec![1, 2, 3])?;
    backend.reducing::<u64>("sum", |a, b| *a += b)?.add(&ctx, 42)?;
    backend.namespaced::<i64, [u16; 2]>("windows")?.insert(-5, ctx.hash, &key, [7, 8])?;
    let timers = backend.timers::<()>("t", TimeDomain::EventTime)?;
    timers.register(Timestamp::from_millis(99), ctx.hash, &key, ())?;
    Ok(())
}

fn check(backend: &mut HeapKeyedStateBackend<String>) -> Result<(), StateError> {
    let key = "user-1".to_string();
    let ctx = CurrentKey::new(&key, key.key_hash(KeyGroups::new(1)));
    assert_eq!(backend.value::<Status>("status")?.get(&ctx)?, Some(status()));
    assert_eq!(backend.list::<(bool, f64)>("list")?.get(&ctx)?, [(true, 0.5), (false, -1.0)]);
    assert_eq!(backend.map::<char, Vec<u8>>("map")?.get(&ctx, &'x')?, Some(vec![1, 2, 3]));
    assert_eq!(backend.reducing::<u64>("sum", |a, b| *a += b)?.get(&ctx)?, Some(42));
    assert_eq!(backend.namespaced::<i64, [u16; 2]>("windows")?.get(-5, ctx.hash, &key)?, Some([7, 8]));
    let timers = backend.timers::<()>("t", TimeDomain::EventTime)?;
    assert_eq!(timers.pop_due(Timestamp::MAX)?.map(|t| (t.time.as_millis(), t.key)), Some((99, key)));
    assert_eq!(backend.unregistered(), Vec::<String>::new());
    Ok(())
}

fn handle(bytes: &[u8], header_len: u64, header_crc32c: u32, section_crc32c: u32) -> KeyedStateHandle {
    KeyedStateHandle {
        range: GROUPS,
        header_len,
        header_crc32c,
        sections: vec![KeyGroupSection {
            group: KeyGroup(0),
            offset: header_len,
            len: bytes.len() as u64 - header_len,
            crc32c: section_crc32c,
        }],
        stream: StreamHandle::Inline { bytes: Arc::from(bytes) },
    }
}

#[test]
fn keyed_state_of_version_1_is_readable() -> Result<(), StateError> {
    let handle = handle(include_bytes!("../golden/keyed-v1.bin"), HEADER_V1, HEADER_CRC_V1, SECTION_CRC_V1);
    let mut backend = backend();
    backend.restore(&[handle], &MemorySnapshotStore::unlimited())?;
    check(&mut backend)
}

#[test]
fn what_is_written_now_equals_the_golden_file() -> Result<(), StateError> {
    let mut backend = backend();
    fill(&mut backend)?;
    let handles = backend.freeze()?.write(&MemorySnapshotStore::unlimited(), "golden")?;
    let StreamHandle::Inline { bytes } = &handles[0].stream else { panic!("the memory store writes inline") };
    let golden = include_bytes!("../golden/keyed-v1.bin");
    assert!(
        bytes[..] == golden[..],
        "the format changed: it needs a new version and a reader for the old one"
    );
    assert_eq!(handles, [handle(golden, HEADER_V1, HEADER_CRC_V1, SECTION_CRC_V1)]);
    Ok(())
}

/// The example in `docs/formats.md`, byte by byte.
#[test]
fn the_example_of_the_documentation_is_what_is_written() -> Result<(), StateError> {
    let groups = KeyGroups::new(128);
    let mut backend = HeapKeyedStateBackend::<u64>::new(BackendOptions::new(groups, groups.all()));
    backend.value::<u64>("n")?.set(&CurrentKey::new(&1u64, 1u64.key_hash(groups)), 5)?;
    let handle = backend.freeze()?.write(&MemorySnapshotStore::unlimited(), "example")?.remove(0);
    let formats = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md");
    let formats = std::fs::read_to_string(formats).expect("the documentation");
    let (_, example) = formats.split_once("An example: max parallelism 128").expect("the example");
    let (_, example) = example.split_once("```text\n").expect("its bytes");
    let (example, _) = example.split_once("```").expect("their end");
    // bytes stand in front of what they mean
    let is_byte = |word: &&str| word.len() == 2 && word.chars().all(|c| c.is_ascii_hexdigit());
    let bytes = example.lines().flat_map(|line| line.split_whitespace().take_while(is_byte));
    let bytes: Vec<u8> = bytes.map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect();
    let StreamHandle::Inline { bytes: written } = &handle.stream else {
        panic!("the memory store writes inline")
    };
    assert_eq!(written[..], bytes[..]);
    assert_eq!((handle.header_len, handle.sections[0].group), (62, KeyGroup(86)));
    Ok(())
}
