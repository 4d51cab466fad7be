//! Full snapshots in canonical form, and savepoints: all states side by side, key group by key group.

use stillstream_data::{Data, DecodeError, Schema};
use stillstream_state::StateError;
use stillstream_state::StateMeta;
use stillstream_state::kinds::StateKind;
use stillstream_state::snapshot::{CHUNK_BYTES, FrozenRun, RunWriter, Weights};
use stillstream_state::ttl::{Sift, Sifted};
use stillstream_types::{KeyGroup, KeyGroupRange};

use crate::db::{Snapshot, SnapshotScan};
use crate::layout::Layout;
use crate::writer::Pending;

/// All states of a database as they were at one moment.
pub(crate) struct FrozenDatabase {
    /// Comes after all that was written before the barrier.
    pub snapshot: Pending<Snapshot>,
    pub layout: Layout,
    pub range: KeyGroupRange,
    pub key: Schema,
    /// In the order of the header.
    pub states: Vec<StateMeta>,
    /// For each of them, what is left out: what was last touched at this time or earlier.
    pub expired: Vec<Option<(Sift, i64)>>,
    /// About how many entries.
    pub entries: usize,
}

impl FrozenRun for FrozenDatabase {
    fn len(&self) -> usize {
        self.entries
    }

    /// It is not cut, so it needs no weights.
    fn weigh(&self, _: &mut Weights) {}

    /// All states are walked side by side, so it stays in one piece.
    fn cut(self: Box<Self>, _: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        vec![self]
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        if let Err(error) = self.write_groups(out) {
            out.fail(error);
        }
    }
}

impl FrozenDatabase {
    fn write_groups(&self, out: &mut RunWriter<'_>) -> Result<(), StateError> {
        let snapshot = self.snapshot.wait()?;
        // given up before the snapshot
        let mut walks = Vec::with_capacity(self.states.len());
        for state in &self.states {
            walks.push(snapshot.scan(&state.name)?);
        }
        for group in self.range.iter() {
            for (at, walk) in walks.iter_mut().enumerate() {
                if out.failed() {
                    return Ok(());
                }
                out.of_state(at as u16);
                self.write_group(group, &self.states[at], self.expired[at].as_ref(), walk, out)?;
            }
        }
        Ok(())
    }

    /// Writes the entries of one state in one group, at which the walk stands.
    fn write_group(
        &self,
        group: KeyGroup,
        state: &StateMeta,
        expired: Option<&(Sift, i64)>,
        walk: &mut SnapshotScan<'_>,
        out: &mut RunWriter<'_>,
    ) -> Result<(), StateError> {
        let unreadable = |source| StateError::Decode { name: state.name.clone(), source };
        let has_namespace = state.namespace != <()>::schema();
        let (mut chunk, mut left) = (Chunk::default(), Vec::new());
        while let Some((key, mut value)) = walk.scan.entry()? {
            let (of, rest) = self.layout.split(key).map_err(unreadable)?;
            if of != group {
                break;
            }
            if let Some((sift, cutoff)) = expired {
                match sift.sift(value, *cutoff, &mut left).map_err(unreadable)? {
                    Sifted::All => {}
                    Sifted::Less(_) => value = &left,
                    Sifted::Nothing(_) => {
                        walk.scan.next();
                        continue;
                    }
                }
            }
            match state.kind {
                StateKind::EventTimers | StateKind::ProcessingTimers => {
                    let (time, _, rest) = self.layout.split_timer(key).map_err(unreadable)?;
                    out.entry(group, |bytes| {
                        time.encode(bytes);
                        bytes.extend_from_slice(rest);
                    });
                }
                StateKind::Map => {
                    let (key, map_key) = cut(&self.key, rest).map_err(unreadable)?;
                    chunk.add_to_map(group, key, map_key, value, out);
                }
                _ if has_namespace => {
                    let (namespace, key) = cut(&state.namespace, rest).map_err(unreadable)?;
                    chunk.add_in_namespace(group, namespace, key, value, out);
                }
                _ => out.entry(group, |bytes| {
                    bytes.extend_from_slice(rest);
                    bytes.extend_from_slice(value);
                }),
            }
            walk.scan.next();
        }
        chunk.flush(group, out);
        Ok(())
    }
}

/// Cuts off what a schema describes.
pub(crate) fn cut<'a>(schema: &Schema, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
    let mut rest = bytes;
    schema.skip(&mut rest)?;
    Ok(bytes.split_at(bytes.len() - rest.len()))
}

/// A chunk in the making, for states whose entries are not simply key and value.
#[derive(Default)]
struct Chunk {
    payload: Vec<u8>,
    count: u32,
    /// The namespace that the chunk is of, or the key whose map is being put together.
    open: Vec<u8>,
    /// Where the open map's number of entries stands.
    map_len_at: usize,
}

impl Chunk {
    fn flush(&mut self, group: KeyGroup, out: &mut RunWriter<'_>) {
        if self.count > 0 {
            out.raw(group, self.count, &self.payload);
        }
        self.payload.clear();
        self.count = 0;
    }

    fn add_in_namespace(
        &mut self,
        group: KeyGroup,
        namespace: &[u8],
        key: &[u8],
        value: &[u8],
        out: &mut RunWriter<'_>,
    ) {
        if self.count > 0 && (self.open != namespace || self.payload.len() >= CHUNK_BYTES) {
            self.flush(group, out);
        }
        if self.count == 0 {
            self.open = namespace.to_vec();
            self.payload.extend_from_slice(namespace);
        }
        self.payload.extend_from_slice(key);
        self.payload.extend_from_slice(value);
        self.count += 1;
    }

    /// A key's map is one entry: key, number of map entries, map entries.
    fn add_to_map(
        &mut self,
        group: KeyGroup,
        key: &[u8],
        map_key: &[u8],
        value: &[u8],
        out: &mut RunWriter<'_>,
    ) {
        if self.count == 0 || self.open != key {
            if self.payload.len() >= CHUNK_BYTES {
                self.flush(group, out);
            }
            self.open = key.to_vec();
            self.payload.extend_from_slice(key);
            self.map_len_at = self.payload.len();
            self.payload.extend_from_slice(&[0; 4]);
            self.count += 1;
        }
        if let Some(len) = self.payload[self.map_len_at..].first_chunk_mut::<4>() {
            *len = (u32::from_le_bytes(*len) + 1).to_le_bytes();
        }
        self.payload.extend_from_slice(map_key);
        self.payload.extend_from_slice(value);
    }
}
