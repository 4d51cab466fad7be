//! Writing a snapshot: the asynchronous part.

use std::fmt;
use std::io::Write;

use stillstream_types::streams::{SnapshotStore, SnapshotStream};
use stillstream_types::{KeyGroup, KeyGroupRange, KeyGroupSection, KeyedStateHandle};

use super::Header;
use super::in_order::{encode_in_order, encoders};
use super::run::Sizes;
use super::units::{Block, Run, units};
use crate::StateError;

/// All keyed state of a backend as it was when it was frozen; written on the snapshot pool.
pub struct FrozenKeyedState {
    /// What it holds.
    pub header: Header,
    /// The key groups.
    pub range: KeyGroupRange,
    /// The entries.
    pub runs: Vec<Run>,
}

impl fmt::Debug for FrozenKeyedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrozenKeyedState")
            .field("range", &self.range)
            .field("states", &self.header.states)
            .field("entries", &self.entries())
            .finish()
    }
}

impl FrozenKeyedState {
    /// How many entries there are in all states.
    pub fn entries(&self) -> usize {
        self.runs.iter().map(|run| run.entries.len()).sum()
    }

    /// Writes the snapshot as one stream of `store`; `name` tells a person what is inside. Blocks.
    ///
    /// Ranges of key groups are encoded on several threads and written in order; what is held in memory does
    /// not grow with the state, one entry or a key group's share of a small table aside.
    ///
    /// Without any state nothing is written. Fails with [`StateError::TooLarge`] when one state is above
    /// `store.max_state_size()`; then, as after a failed write, nothing is left behind.
    pub fn write(self, store: &dyn SnapshotStore, name: &str) -> Result<Vec<KeyedStateHandle>, StateError> {
        if self.header.states.is_empty() {
            return Ok(Vec::new());
        }
        let header = self.header.to_bytes();
        let limit = store.max_state_size().unwrap_or(u64::MAX);
        Ok(vec![self.write_stream(&header, limit, &mut || store.create(name), name)?])
    }

    /// Writes a header and the runs into a stream that `open` opens.
    pub(crate) fn write_stream(
        self,
        header: &[u8],
        limit: u64,
        open: &mut dyn FnMut() -> std::io::Result<Box<dyn SnapshotStream>>,
        name: &str,
    ) -> Result<KeyedStateHandle, StateError> {
        let sizes = Sizes::new(&self.header, limit);
        let io = |source| StateError::Io { what: format!("writing the snapshot `{name}`"), source };
        let mut stream = Sections { stream: open().map_err(io)?, name, offset: 0, sections: Vec::new() };
        stream.write(header)?;
        encode_in_order(units(self.runs, self.range), encoders(), &sizes, &mut |block| stream.append(block))?;
        sizes.check()?;
        let (sections, stream) = stream.finish()?;
        Ok(KeyedStateHandle {
            range: self.range,
            header_len: header.len() as u64,
            header_crc32c: crc32c::crc32c(header),
            sections,
            stream,
        })
    }
}

/// A stream that knows where each key group lies.
struct Sections<'a> {
    stream: Box<dyn SnapshotStream>,
    name: &'a str,
    offset: u64,
    sections: Vec<KeyGroupSection>,
}

impl Sections<'_> {
    fn failed(&self, source: std::io::Error) -> StateError {
        StateError::Io { what: format!("writing the snapshot `{}`", self.name), source }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        self.offset += bytes.len() as u64;
        self.stream.write_all(bytes).map_err(|e| self.failed(e))
    }

    fn append(&mut self, block: &Block) -> Result<(), StateError> {
        let mut offset = self.offset;
        for piece in &block.pieces {
            let len = piece.len as u64;
            match self.sections.last_mut() {
                Some(open) if open.group == piece.group => {
                    open.crc32c = crc32c::crc32c_combine(open.crc32c, piece.crc32c, piece.len);
                    open.len += len;
                }
                Some(open) if open.group > piece.group => {
                    let (group, open) = (piece.group, open.group);
                    return Err(self.out_of_order(group, open));
                }
                _ => self.sections.push(KeyGroupSection {
                    group: piece.group,
                    offset,
                    len,
                    crc32c: piece.crc32c,
                }),
            }
            offset += len;
        }
        self.write(&block.bytes)
    }

    fn out_of_order(&self, group: KeyGroup, open: KeyGroup) -> StateError {
        self.failed(std::io::Error::other(format!(
            "key group {group} came after key group {open}: a table was not visited in order"
        )))
    }

    fn finish(self) -> Result<(Vec<KeyGroupSection>, stillstream_types::StreamHandle), StateError> {
        let name = self.name;
        let handle = self
            .stream
            .finish()
            .map_err(|source| StateError::Io { what: format!("finishing the snapshot `{name}`"), source })?;
        Ok((self.sections, handle))
    }
}
