//! The entries of a keyed snapshot one by one, in their binary forms, without the program that wrote it.

use std::ops::ControlFlow;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{IncrementalHandle, KeyGroup, KeyGroupRange, KeyGroups, KeyHash, KeyedStateHandle};

use super::chain::ChainMeta;
use super::chain_read::read_chain;
use super::read::{Chunk, RestoredPart, for_each_chunk, read_header};
use super::states::header_of_incremental;
use crate::StateError;
use crate::data::{Data, DecodeError, Schema};
use crate::meta::StateMeta;

/// One entry of one state: a key's value, or a timer.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotEntry<'a> {
    /// The state that it belongs to.
    pub state: &'a StateMeta,
    /// The type of the key.
    pub key_type: &'a Schema,
    /// The key group in which it is stored.
    pub group: KeyGroup,
    /// The namespace (a window), in its binary form; nothing for a state without namespaces.
    pub namespace: &'a [u8],
    /// The key, in its binary form.
    pub key: &'a [u8],
    /// The value, in its binary form; nothing for a timer.
    pub value: &'a [u8],
    /// When a timer fires, in milliseconds since 1970.
    pub time: Option<i64>,
}

/// Cuts `schema`'s next value off.
fn take<'a>(schema: &Schema, input: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let start = *input;
    schema.skip(input)?;
    Ok(&start[..start.len() - input.len()])
}

fn walk(
    chunk: &Chunk,
    state: &StateMeta,
    key_type: &Schema,
    found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, DecodeError> {
    let mut input = chunk.payload();
    let shared = if state.is_timers() { &[][..] } else { take(&state.namespace, &mut input)? };
    for _ in 0..chunk.count {
        let (time, namespace, key, value) = match state.is_timers() {
            true => {
                let time = i64::decode(&mut input)?;
                let key = take(key_type, &mut input)?;
                (Some(time), take(&state.namespace, &mut input)?, key, &[][..])
            }
            false => {
                let key = take(key_type, &mut input)?;
                (None, shared, key, take(&state.value, &mut input)?)
            }
        };
        let entry = SnapshotEntry { state, key_type, group: chunk.group, namespace, key, value, time };
        if found(entry).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Reads a keyed snapshot key group by key group, verifies it, and hands out each entry until `found` breaks
/// off. Blocks.
///
/// # Errors
/// If a section cannot be read, has another checksum than it was written with, or is no sequence of entries.
pub fn for_each_entry(
    handle: &KeyedStateHandle,
    store: &dyn SnapshotStore,
    found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
) -> Result<(), StateError> {
    let header = read_header(handle, store)?;
    for section in &handle.sections {
        let only = KeyGroupRange::new(section.group.0, section.group.0.saturating_add(1));
        let mut chunks = Vec::new();
        for_each_chunk(handle, store, only, header.states.len(), |state, chunk| chunks.push((state, chunk)))?;
        for (state, chunk) in chunks {
            let state = &header.states[state];
            let walked = walk(&chunk, state, &header.key, found);
            match walked.map_err(|error| StateError::Malformed {
                path: super::header::path_of(handle).into(),
                part: format!("state `{}`, key group {}", state.name, section.group),
                why: error.to_string(),
            })? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(()) => return Ok(()),
            }
        }
    }
    Ok(())
}

/// So many bytes of a chain are read at once, if no key group is larger: 32 MiB.
const BATCH_BYTES: u64 = 32 << 20;

/// Key groups of a chain that are read together.
fn batches(handle: &IncrementalHandle, chain: &ChainMeta) -> Vec<KeyGroupRange> {
    let mut sizes = vec![0u64; handle.range.len()];
    for section in chain.files.iter().flat_map(|file| &file.handle.sections) {
        if handle.range.contains(section.group) {
            let at = usize::from(section.group.0 - handle.range.start);
            sizes[at] = sizes[at].saturating_add(section.len);
        }
    }
    let (mut batches, mut start, mut bytes) = (Vec::new(), handle.range.start, 0u64);
    for (group, size) in handle.range.iter().zip(sizes) {
        if bytes > 0 && bytes.saturating_add(size) > BATCH_BYTES {
            batches.push(KeyGroupRange::new(start, group.0));
            (start, bytes) = (group.0, 0);
        }
        bytes = bytes.saturating_add(size);
    }
    batches.push(KeyGroupRange::new(start, handle.range.end));
    batches
}

type HashOf = fn(&Schema, &[u8], KeyGroups) -> Result<KeyHash, DecodeError>;

/// How the keys of these chunks are hashed: so that each lies in the key group that it is stored in. Windows
/// that keep their state by key and window have a hash of their own.
fn hash_of(part: &RestoredPart, key_type: &Schema, groups: KeyGroups) -> Result<HashOf, DecodeError> {
    let ways: [HashOf; 2] = [Schema::hash_of_window_key, Schema::hash_of_key];
    for hash_of in ways {
        let mut fits = true;
        for chunk in part.chunks.iter() {
            let ended = walk(chunk, &part.meta, key_type, &mut |entry| {
                fits = hash_of(key_type, entry.key, groups).is_ok_and(|hash| hash.group() == chunk.group);
                if fits { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if ended.is_break() {
                break;
            }
        }
        if fits {
            return Ok(hash_of);
        }
    }
    Err(DecodeError::Invalid {
        what: "key",
        why: format!(
            "`{key_type}` has a hash of its own, which only the program knows: which entries newer files of the chain replace \
             cannot be told without it; look at a full checkpoint or a savepoint"
        ),
    })
}

/// [`for_each_entry`] for a chain of the heap backend: each entry as the newest file that tells of it has it.
/// Blocks.
///
/// # Errors
/// If a file cannot be read, has another checksum than it was written with, or if keys have a hash that their
/// type's description does not tell.
pub fn for_each_entry_of_chain(
    handle: &IncrementalHandle,
    store: &dyn SnapshotStore,
    found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
) -> Result<(), StateError> {
    let header = header_of_incremental(handle, store)?;
    let (key_type, groups) = (&header.key, KeyGroups::new(header.max_parallelism));
    for range in batches(handle, &ChainMeta::read(handle, store)?) {
        for part in read_chain(handle, store, range, |_, _| Ok(()))? {
            let malformed = |error: DecodeError| StateError::Malformed {
                path: part.path.to_string(),
                part: format!("state `{}`, key groups {range}", part.meta.name),
                why: error.to_string(),
            };
            let replaces = part.chunks.iter().any(|chunk| chunk.cover.is_some());
            let hash_of =
                replaces.then(|| hash_of(&part, key_type, groups)).transpose().map_err(malformed)?;
            for chunk in part.chunks.iter() {
                let mut take = |entry: SnapshotEntry<'_>| {
                    // `hash_of` has looked at each of these keys
                    let hash = hash_of.and_then(|hash_of| hash_of(key_type, entry.key, groups).ok());
                    match hash.is_some_and(|hash| chunk.is_void(hash)) {
                        true => ControlFlow::Continue(()),
                        false => found(entry),
                    }
                };
                if walk(chunk, &part.meta, key_type, &mut take).map_err(malformed)?.is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}
