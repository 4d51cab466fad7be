//! Units: a snapshot's entries, cut into ranges of key groups that are encoded each by itself.
//!
//! A unit is about 1 MiB, as estimated from a sample, or one key group. Within a group, states come in the
//! order of the header. The runs of a unit with one group are encoded in that order and handed on block by
//! block; where a unit has several groups, its chunks are put in order in memory, which such a unit is small
//! enough for.

use std::fmt;

use stillstream_types::{KeyGroup, KeyGroupRange};

use super::buffers;
use super::run::{CHUNK_BYTES, Chunks, FrozenRun, Part, RunWriter, Sizes, Weights};
use crate::StateError;

/// How large a unit should be.
const UNIT_BYTES: u64 = CHUNK_BYTES as u64;
/// A table smaller than a unit is looked at once for each unit: fewer units where there are many tables.
const MOST_UNITS: usize = 1024;
const MOST_VISITS: usize = 1 << 16;
const LEAST_UNITS: usize = 8;

/// One frozen table of one state.
pub struct Run {
    /// The state's place in the header.
    pub state: u16,
    /// The namespace's binary form.
    pub namespace: Vec<u8>,
    /// Its entries.
    pub entries: Box<dyn FrozenRun>,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("state", &self.state)
            .field("namespace", &self.namespace)
            .field("entries", &self.entries.len())
            .finish()
    }
}

/// Some key groups of all runs.
pub(super) struct Unit {
    groups: KeyGroupRange,
    runs: Vec<Run>,
}

/// Bytes that lie side by side in the stream, and which key groups they belong to.
pub(super) struct Block {
    pub bytes: Vec<u8>,
    pub pieces: Vec<Piece>,
}

/// The bytes of one key group in a block.
pub(super) struct Piece {
    pub group: KeyGroup,
    pub len: usize,
    pub crc32c: u32,
}

/// Takes a block, and gives its memory to [`buffers`] when it is written.
pub(super) type TakeBlock<'a> = dyn FnMut(Block) -> Result<(), StateError> + 'a;

/// Cuts runs into units, in the order of key groups.
pub(super) fn units(mut runs: Vec<Run>, range: KeyGroupRange) -> Vec<Unit> {
    runs.sort_by_key(|run| run.state); // stable: namespaces stay in their order
    let mut weights = Weights::new(range);
    runs.iter().for_each(|run| run.entries.weigh(&mut weights));
    let most = (MOST_VISITS / runs.len().max(1)).clamp(LEAST_UNITS, MOST_UNITS);
    let bounds = weights.bounds(UNIT_BYTES, most);
    if let [start, end] = bounds[..] {
        return vec![Unit { groups: KeyGroupRange::new(start, end), runs }];
    }
    let groups = bounds.windows(2).map(|two| KeyGroupRange::new(two[0], two[1]));
    let mut units: Vec<Unit> = groups.map(|groups| Unit { groups, runs: Vec::new() }).collect();
    for Run { state, namespace, entries } in runs {
        for (unit, part) in units.iter_mut().zip(entries.cut(&bounds)) {
            if !part.is_blank() {
                unit.runs.push(Run { state, namespace: namespace.clone(), entries: part });
            }
        }
    }
    units
}

impl Unit {
    /// Encodes everything and hands it to `take`, a block at a time.
    pub fn encode(self, sizes: &Sizes, take: &mut TakeBlock<'_>) -> Result<(), StateError> {
        let mut chunks = Chunks { bytes: buffers::take(), parts: Vec::new() };
        // one run is in the order of groups, one group in that of runs
        let in_order = self.runs.len() == 1 || self.groups.len() == 1;
        for run in self.runs {
            let mut full = |chunks: &mut Chunks| match in_order {
                true => hand_on(chunks, take),
                false => Ok(()),
            };
            let mut writer = RunWriter::new(run.state, &run.namespace, sizes, &mut chunks, &mut full);
            run.entries.write(&mut writer);
            writer.finish()?;
        }
        if in_order {
            hand_on(&mut chunks, take)?;
            buffers::give(chunks.bytes);
            return Ok(());
        }
        chunks.parts.sort_by_key(|part| (part.group, part.state));
        let mut sorted = Chunks { bytes: buffers::take(), parts: Vec::new() };
        for part in std::mem::take(&mut chunks.parts) {
            let start = sorted.bytes.len();
            sorted.bytes.extend_from_slice(&chunks.bytes[part.bytes.clone()]);
            sorted.parts.push(Part { bytes: start..sorted.bytes.len(), ..part });
            if sorted.bytes.len() >= CHUNK_BYTES {
                hand_on(&mut sorted, take)?;
            }
        }
        hand_on(&mut sorted, take)?;
        [chunks.bytes, sorted.bytes].into_iter().for_each(buffers::give);
        Ok(())
    }
}

/// Makes a block of chunks, with checksums by key group.
fn hand_on(chunks: &mut Chunks, take: &mut TakeBlock<'_>) -> Result<(), StateError> {
    if chunks.parts.is_empty() {
        return Ok(());
    }
    let pieces = chunks.parts.chunk_by(|a, b| a.group == b.group).map(|parts| {
        let bytes = &chunks.bytes[parts[0].bytes.start..parts[parts.len() - 1].bytes.end];
        Piece { group: parts[0].group, len: bytes.len(), crc32c: crc32c::crc32c(bytes) }
    });
    let pieces = pieces.collect();
    chunks.parts.clear();
    // the next one is filled while this one is written
    take(Block { bytes: std::mem::replace(&mut chunks.bytes, buffers::take()), pieces })
}
