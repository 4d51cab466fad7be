//! Reading snapshots: only the sections of one's own key groups, each verified.
//!
//! Bytes are kept raw until their state is registered with its type. What is never registered goes into the
//! next snapshots as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    KeyGroup, KeyGroupRange, KeyGroupSection, KeyGroups, KeyHash, KeyedSnapshot, KeyedStateHandle,
};

use super::chain_read::read_chain;
use super::delta::Cover;
use super::header::{Header, path_of};
use super::run::{FrozenRun, RunWriter, Weights};
use crate::StateError;
use crate::data::{Compatibility, Data, DecodeError, Key};
use crate::meta::StateMeta;

/// Adjacent sections are read together up to this size: 16 MiB.
const READ_BYTES: u64 = 16 << 20;

/// Entries of one state in one key group, as read.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The key group.
    pub group: KeyGroup,
    /// How many entries.
    pub count: u32,
    bytes: Arc<Vec<u8>>,
    start: usize,
    end: usize,
    /// What newer files of a chain replace: entries with such a hash are not to be taken.
    pub(super) cover: Option<Arc<Cover>>,
}

impl Chunk {
    /// Whether an entry with this hash is to be left out.
    #[inline]
    pub fn is_void(&self, hash: KeyHash) -> bool {
        self.cover.as_ref().is_some_and(|cover| cover.contains(hash.bits()))
    }

    /// Reads something in front of the namespace.
    pub fn take_front<T>(
        &mut self,
        len: usize,
        read: impl FnOnce(&mut &[u8]) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let front = self.payload().get(..len).ok_or(DecodeError::Short { what: "chunk" })?;
        let value = read(&mut &front[..])?;
        self.start += len;
        Ok(value)
    }

    /// The same chunk without the entries that are void.
    fn resolved<K: Key>(&self, meta: &StateMeta, groups: KeyGroups) -> Result<Self, DecodeError> {
        if self.cover.is_none() {
            return Ok(self.clone());
        }
        let payload = self.payload();
        let mut bytes = meta.namespace_of(payload)?.to_vec();
        let (mut input, mut count) = (&payload[bytes.len()..], 0);
        for _ in 0..self.count {
            let start = input;
            let hash = K::decode(&mut input)?.key_hash(groups);
            meta.value.skip(&mut input)?;
            if !self.is_void(hash) {
                bytes.extend_from_slice(&start[..start.len() - input.len()]);
                count += 1;
            }
        }
        let (start, end) = (0, bytes.len());
        Ok(Self { group: self.group, count, bytes: Arc::new(bytes), start, end, cover: None })
    }

    /// The namespace, then the entries.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Reads all entries: the namespace first, then `entry` as often as there are entries.
    pub fn decode<N: Data>(
        &self,
        mut entry: impl FnMut(&N, &mut &[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut input = self.payload();
        let namespace = N::decode(&mut input)?;
        for _ in 0..self.count {
            entry(&namespace, &mut input)?;
        }
        match input {
            [] => Ok(()),
            rest => Err(DecodeError::Invalid {
                what: "chunk",
                why: format!("{} bytes are left over", rest.len()),
            }),
        }
    }
}

/// One state as one snapshot holds it.
#[derive(Clone, Debug)]
pub struct RestoredPart {
    /// What the state is.
    pub meta: StateMeta,
    /// Where it was read, for errors.
    pub path: Arc<str>,
    /// Its entries.
    pub chunks: Arc<Vec<Chunk>>,
}

impl RestoredPart {
    /// Hands each chunk to `load`, with the stored schema if values must be migrated.
    pub fn load(
        &self,
        wanted: &StateMeta,
        mut load: impl FnMut(&Chunk, Option<&crate::Schema>) -> Result<(), DecodeError>,
    ) -> Result<(), StateError> {
        let migrate = match wanted.check(&self.meta)? {
            Compatibility::AsIs => None,
            _ => Some(&self.meta.value),
        };
        for chunk in self.chunks.iter() {
            load(chunk, migrate).map_err(|error| StateError::Malformed {
                path: self.path.to_string(),
                part: format!("state `{}`, key group {}", wanted.name, chunk.group),
                why: error.to_string(),
            })?;
        }
        Ok(())
    }

    /// Drops what newer files of a chain made void, for a part that goes into a snapshot undecoded.
    pub fn resolve<K: Key>(&mut self, groups: KeyGroups) -> Result<(), StateError> {
        if self.chunks.iter().all(|chunk| chunk.cover.is_none()) {
            return Ok(());
        }
        let chunks = self.chunks.iter().map(|chunk| chunk.resolved::<K>(&self.meta, groups));
        let chunks = chunks.collect::<Result<_, _>>().map_err(|error| StateError::Malformed {
            path: self.path.to_string(),
            part: format!("state `{}`", self.meta.name),
            why: error.to_string(),
        })?;
        self.chunks = Arc::new(chunks);
        Ok(())
    }

    /// The part as it is, for the next snapshot. It was [resolved](Self::resolve).
    pub fn carried(&self) -> Box<dyn FrozenRun> {
        let mut chunks = self.chunks.as_ref().clone();
        chunks.sort_by_key(|chunk| chunk.group);
        Box::new(Carried(chunks))
    }
}

struct Carried(Vec<Chunk>);

impl FrozenRun for Carried {
    fn len(&self) -> usize {
        self.0.iter().map(|chunk| chunk.count as usize).sum()
    }

    fn weigh(&self, weights: &mut Weights) {
        self.0.iter().for_each(|chunk| {
            weights.add(KeyGroupRange::new(chunk.group.0, chunk.group.0 + 1), chunk.payload().len())
        });
    }

    fn cut(self: Box<Self>, bounds: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        let part = |two: &[u16]| -> Box<dyn FrozenRun> {
            let groups = KeyGroupRange::new(two[0], two[1]);
            Box::new(Self(self.0.iter().filter(|chunk| groups.contains(chunk.group)).cloned().collect()))
        };
        bounds.windows(2).map(part).collect()
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        self.0.iter().for_each(|chunk| out.raw(chunk.group, chunk.count, chunk.payload()));
    }
}

/// Keyed state as read from snapshots, verified but not decoded. Made on the snapshot pool, taken over by a
/// backend.
#[derive(Clone, Debug, Default)]
pub struct RestoredKeyedState {
    /// What was read, by the name of the state: a part for each snapshot that has it.
    pub states: BTreeMap<String, Vec<RestoredPart>>,
}

impl RestoredKeyedState {
    /// Reads the sections of `range` from all handles and verifies them. Blocks.
    pub fn read<K: Key>(
        handles: &[KeyedStateHandle],
        store: &dyn SnapshotStore,
        groups: KeyGroups,
        range: KeyGroupRange,
    ) -> Result<Self, StateError> {
        let mut restored = Self::default();
        for handle in handles {
            let header = checked_header::<K>(handle, store, groups)?;
            let path: Arc<str> = path_of(handle).into();
            let mut chunks: Vec<Vec<Chunk>> = vec![Vec::new(); header.states.len()];
            for_each_chunk(handle, store, range, header.states.len(), |state, chunk| {
                chunks[state].push(chunk)
            })?;
            for (meta, chunks) in header.states.into_iter().zip(chunks) {
                restored.add(RestoredPart { meta, path: path.clone(), chunks: Arc::new(chunks) });
            }
        }
        Ok(restored)
    }

    /// [`read`](Self::read) for all that a checkpoint wrote, chains of the heap backend too.
    pub fn read_snapshot<K: Key>(
        snapshot: &KeyedSnapshot,
        store: &dyn SnapshotStore,
        groups: KeyGroups,
        range: KeyGroupRange,
    ) -> Result<Self, StateError> {
        let mut restored = Self::read::<K>(&snapshot.keyed, store, groups, range)?;
        for handle in &snapshot.incremental {
            let check = |header: &Header, path: &str| header.check::<K>(groups, path);
            read_chain(handle, store, range, check)?.into_iter().for_each(|part| restored.add(part));
        }
        Ok(restored)
    }

    fn add(&mut self, part: RestoredPart) {
        self.states.entry(part.meta.name.clone()).or_default().push(part);
    }

    /// The states that were found.
    pub fn states(&self) -> impl Iterator<Item = &StateMeta> {
        self.states.values().filter_map(|parts| parts.first()).map(|part| &part.meta)
    }
}

fn failed(handle: &KeyedStateHandle) -> impl Fn(std::io::Error) -> StateError + '_ {
    |source| StateError::reading(path_of(handle), source)
}

/// Reads the header, and refuses a snapshot with other keys or another number of key groups.
pub fn checked_header<K: Key>(
    handle: &KeyedStateHandle,
    store: &dyn SnapshotStore,
    groups: KeyGroups,
) -> Result<Header, StateError> {
    let header = read_header(handle, store)?;
    header.check::<K>(groups, path_of(handle))?;
    Ok(header)
}

/// Reads and verifies the header.
pub(super) fn read_header(
    handle: &KeyedStateHandle,
    store: &dyn SnapshotStore,
) -> Result<Header, StateError> {
    Header::from_bytes(&read_header_bytes(handle, store)?, path_of(handle))
}

pub(super) fn read_header_bytes(
    handle: &KeyedStateHandle,
    store: &dyn SnapshotStore,
) -> Result<Vec<u8>, StateError> {
    let bytes = store.read(&handle.stream, 0, handle.header_len).map_err(failed(handle))?;
    verify(handle, "its header", handle.header_crc32c, &bytes)?;
    Ok(bytes)
}

fn verify(
    handle: &KeyedStateHandle,
    part: impl ToString,
    expected: u32,
    bytes: &[u8],
) -> Result<(), StateError> {
    let found = crc32c::crc32c(bytes);
    match found == expected {
        true => Ok(()),
        false => {
            Err(StateError::Corrupt { path: path_of(handle).into(), part: part.to_string(), expected, found })
        }
    }
}

/// Reads the sections of `range`, verifies them and hands out their chunks, each with its state's place in
/// the header.
pub fn for_each_chunk(
    handle: &KeyedStateHandle,
    store: &dyn SnapshotStore,
    range: KeyGroupRange,
    states: usize,
    mut found: impl FnMut(usize, Chunk),
) -> Result<(), StateError> {
    let wanted: Vec<&KeyGroupSection> = handle.sections.iter().filter(|s| range.contains(s.group)).collect();
    let mut rest = wanted.as_slice();
    while let Some(first) = rest.first() {
        // as many of the next sections as lie side by side
        let (mut taken, mut len) = (1, first.len);
        while let Some(next) = rest.get(taken) {
            // offsets and lengths come from a file, which may hold anything
            let beside = first.offset.checked_add(len) == Some(next.offset);
            let both = len.checked_add(next.len).filter(|both| beside && *both <= READ_BYTES);
            let Some(both) = both else { break };
            len = both;
            taken += 1;
        }
        let bytes = Arc::new(store.read(&handle.stream, first.offset, len).map_err(failed(handle))?);
        for section in &rest[..taken] {
            let start = (section.offset - first.offset) as usize;
            let part = format!("key group {}", section.group);
            let end = usize::try_from(section.len).ok().and_then(|len| start.checked_add(len));
            let content = end.and_then(|end| bytes.get(start..end)).unwrap_or_default();
            verify(handle, &part, section.crc32c, content)?;
            cut(content, states, |state, count, at, len| {
                let (start, group) = (start + at, section.group);
                let bytes = bytes.clone();
                found(state, Chunk { group, count, bytes, start, end: start + len, cover: None });
            })
            .map_err(|e| StateError::Malformed {
                path: path_of(handle).into(),
                part,
                why: e.to_string(),
            })?;
        }
        rest = &rest[taken..];
    }
    Ok(())
}

/// Cuts a section into chunks: state, count, start and length of the payload.
fn cut(
    section: &[u8],
    states: usize,
    mut found: impl FnMut(usize, u32, usize, usize),
) -> Result<(), DecodeError> {
    let mut input = section;
    while !input.is_empty() {
        let (state, count, len) =
            (u16::decode(&mut input)? as usize, u32::decode(&mut input)?, u32::decode(&mut input)? as usize);
        if state >= states {
            return Err(DecodeError::Invalid { what: "chunk", why: format!("state {state} of {states}") });
        }
        let at = section.len() - input.len();
        input = input.split_at_checked(len).ok_or(DecodeError::Short { what: "chunk" })?.1;
        found(state, count, at, len);
    }
    Ok(())
}

/// The hash of a key that was stored in `group`.
///
/// # Errors
/// If the key hashes elsewhere now: it would never be found again.
pub fn hash_in<K: Key>(key: &K, group: KeyGroup, groups: KeyGroups) -> Result<KeyHash, DecodeError> {
    let hash = key.key_hash(groups);
    match hash.group() == group {
        true => Ok(hash),
        false => Err(DecodeError::Invalid {
            what: "key",
            why: format!(
                "it was stored in key group {group} and now belongs to {}: the type's `hash_key` has changed",
                hash.group()
            ),
        }),
    }
}
