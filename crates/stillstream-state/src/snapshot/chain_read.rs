//! Reading chains, newest file first: an entry counts unless a newer file has something to say of its hash.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{IncrementalFormat, IncrementalHandle, KeyGroup, KeyGroupRange};

use super::chain::{ChainFile, ChainMeta};
use super::delta::{Cover, DeltaHeader, DeltaState, Record};
use super::header::{Header, path_of};
use super::read::{Chunk, RestoredPart, for_each_chunk, read_header, read_header_bytes};
use crate::StateError;
use crate::data::DecodeError;

/// State, key group, namespace.
type Place = (usize, KeyGroup, Vec<u8>);

fn malformed(file: &ChainFile, part: &str, why: impl ToString) -> StateError {
    StateError::Malformed { path: path_of(&file.handle).into(), part: part.into(), why: why.to_string() }
}

/// Reads the header of each file, oldest first.
fn headers(meta: &ChainMeta, store: &dyn SnapshotStore) -> Result<Vec<DeltaHeader>, StateError> {
    let mut headers = Vec::new();
    for (at, file) in meta.files.iter().enumerate() {
        headers.push(match at {
            0 => {
                let header = read_header(&file.handle, store)?;
                let whole = DeltaState { whole: true, namespaces: None };
                DeltaHeader { states: vec![whole; header.states.len()], header }
            }
            _ => DeltaHeader::from_bytes(&read_header_bytes(&file.handle, store)?, path_of(&file.handle))?,
        });
    }
    Ok(headers)
}

/// Reads the key groups of `range` from a chain: each state that the newest file names, with its chunks in
/// any order. `check` looks at a file's header first.
pub(super) fn read_chain(
    handle: &IncrementalHandle,
    store: &dyn SnapshotStore,
    range: KeyGroupRange,
    check: impl Fn(&Header, &str) -> Result<(), StateError>,
) -> Result<Vec<RestoredPart>, StateError> {
    if handle.format != IncrementalFormat::HeapChain {
        return Err(StateError::OtherBackend {
            path: handle.meta.path().unwrap_or("(inline state)").into(),
            written: "RocksDB",
            wanted: "heap",
        });
    }
    let meta = ChainMeta::read(handle, store)?;
    let headers = headers(&meta, store)?;
    for (file, header) in meta.files.iter().zip(&headers) {
        check(&header.header, path_of(&file.handle))?;
    }
    let (Some(newest), Some(last)) = (headers.last(), meta.files.last()) else { return Ok(Vec::new()) };
    let live = &newest.header.states;
    // the namespaces that all newer files name: one that is missing in any of them was gone then
    let mut alive: Vec<Option<HashSet<&[u8]>>> = vec![None; live.len()];
    let mut covers: HashMap<Place, Cover> = HashMap::new();
    let mut ended = vec![false; live.len()];
    let mut found: Vec<Vec<Chunk>> = vec![Vec::new(); live.len()];
    for (file, header) in meta.files.iter().zip(&headers).rev() {
        let mut layers: HashMap<Place, Vec<Record>> = HashMap::new();
        let mut wrong = None;
        let states: Vec<Option<usize>> =
            header.header.states.iter().map(|state| live.iter().position(|known| known == state)).collect();
        for_each_chunk(&file.handle, store, range, states.len(), |at, mut chunk| {
            let Some(state) = states[at].filter(|state| !ended[*state]) else { return };
            let take = || -> Result<(), DecodeError> {
                let record = match header.states[at].whole {
                    true => None,
                    false => Some(chunk.take_front(Record::BYTES, Record::decode)?),
                };
                let namespace = live[state].namespace_of(chunk.payload())?.to_vec();
                if alive[state].as_ref().is_some_and(|all| !all.contains(&namespace[..])) {
                    return Ok(());
                }
                let place = (state, chunk.group, namespace);
                chunk.cover = covers.get(&place).cloned().map(Arc::new);
                if let Some(record) = record {
                    layers.entry(place).or_default().push(record);
                }
                if chunk.count > 0 {
                    found[state].push(chunk);
                }
                Ok(())
            };
            if let Err(error) = take() {
                wrong.get_or_insert(malformed(file, &format!("state `{}`", live[state].name), error));
            }
        })?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        layers.into_iter().for_each(|(place, layer)| covers.entry(place).or_default().push(layer));
        for (state, ended) in ended.iter_mut().enumerate() {
            let held = states.iter().position(|known| *known == Some(state)).map(|at| &header.states[at]);
            // one that a file does not name was gone then
            *ended |= held.is_none_or(|held| held.whole);
            if let Some(named) = held.and_then(|held| held.namespaces.as_ref()) {
                let newer = alive[state].take();
                let named = named.iter().map(Vec::as_slice);
                alive[state] =
                    Some(named.filter(|name| newer.as_ref().is_none_or(|all| all.contains(name))).collect());
            }
        }
    }
    let path: Arc<str> = path_of(&last.handle).into();
    let parts = live.iter().zip(found).map(|(meta, chunks)| RestoredPart {
        meta: meta.clone(),
        path: path.clone(),
        chunks: Arc::new(chunks),
    });
    Ok(parts.collect())
}
