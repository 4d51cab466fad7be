//! The entries of a keyed snapshot one by one, in their binary forms, without the program that wrote it.

use std::ops::ControlFlow;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{KeyGroup, KeyGroupRange, KeyedStateHandle};

use super::read::{Chunk, for_each_chunk, read_header};
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
    count: u32,
    state: &StateMeta,
    key_type: &Schema,
    found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, DecodeError> {
    let mut input = chunk.payload();
    let shared = if state.is_timers() { &[][..] } else { take(&state.namespace, &mut input)? };
    for _ in 0..count {
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

/// Reads a keyed snapshot key group by key group, verifies it, and hands out each entry until `found` breaks off. Blocks.
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
            let walked = walk(&chunk, chunk.count, state, &header.key, found);
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
