//! Writing a snapshot: the asynchronous part.
//!
//! The stream is ordered by key group, then by state, but a table is visited as a whole. So the largest run streams,
//! and the others are encoded into memory first and put between its key groups: what is held is the encoded size of
//! all but the largest table.

use std::fmt;
use std::io::Write;
use std::ops::Range;

use stillstream_types::streams::{SnapshotStore, SnapshotStream};
use stillstream_types::{KeyGroup, KeyGroupRange, KeyGroupSection, KeyedStateHandle};

use super::Header;
use super::run::{CHUNK_BYTES, ChunkSink, FrozenRun, RunWriter};
use crate::StateError;

/// One frozen table of one state.
pub(crate) struct Run {
    /// The state's place in the header.
    pub state: u16,
    /// The namespace's binary form.
    pub namespace: Vec<u8>,
    pub entries: Box<dyn FrozenRun>,
}

/// All keyed state of a backend as it was when it was frozen; written on the snapshot pool.
pub struct FrozenKeyedState {
    pub(crate) header: Header,
    pub(crate) range: KeyGroupRange,
    pub(crate) runs: Vec<Run>,
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
    /// Without any state nothing is written. Fails with [`StateError::TooLarge`] when one state is above
    /// `store.max_state_size()`; then, as after a failed write, nothing is left behind.
    pub fn write(self, store: &dyn SnapshotStore, name: &str) -> Result<Vec<KeyedStateHandle>, StateError> {
        if self.header.states.is_empty() {
            return Ok(Vec::new());
        }
        let header = self.header.to_bytes();
        let mut sizes = Sizes {
            bytes: vec![0; self.header.states.len()],
            limit: store.max_state_size().unwrap_or(u64::MAX),
        };
        let mut runs = self.runs;
        let largest = (0..runs.len()).max_by_key(|at| runs[*at].entries.len());
        let main = largest.map(|at| runs.swap_remove(at));

        let mut others = Buffered::default();
        for run in runs {
            let mut sink = BufferSink { state: run.state, into: &mut others, sizes: &mut sizes };
            let mut writer = RunWriter::new(&run.namespace, &mut sink);
            run.entries.write(&mut writer);
            let written = writer.finish();
            written.map_err(|e| self.header.name_entry(e, sink.state))?;
        }
        // by group; within a group by state, in the order of the header
        others.parts.sort_by_key(|part| (part.group, part.state));
        sizes.check(&self.header)?;

        let io = |source| StateError::Io { what: format!("writing the snapshot `{name}`"), source };
        let mut stream = Sections::new(store.create(name).map_err(io)?, name);
        stream.put(&header)?;
        let mut sink = StreamSink { state: 0, others: &others, next: 0, stream, sizes: &mut sizes };
        if let Some(run) = main {
            sink.state = run.state;
            let mut writer = RunWriter::new(&run.namespace, &mut sink);
            run.entries.write(&mut writer);
            let written = writer.finish();
            written.map_err(|e| self.header.name_entry(e, sink.state))?;
        }
        sink.put_others(KeyGroup(u16::MAX))?;
        let stream = sink.stream;
        sizes.check(&self.header)?;
        let (sections, stream) = stream.finish()?;
        Ok(vec![KeyedStateHandle {
            range: self.range,
            header_len: header.len() as u64,
            header_crc32c: crc32c::crc32c(&header),
            sections,
            stream,
        }])
    }
}

impl Header {
    /// Puts the state's name into an error that was made where only its number is known.
    fn name_entry(&self, error: StateError, state: u16) -> StateError {
        match error {
            StateError::EntryTooLarge { size, limit, .. } => {
                StateError::EntryTooLarge { name: self.states[state as usize].name.clone(), size, limit }
            }
            other => other,
        }
    }
}

/// Bytes by state, held against the store's limit.
struct Sizes {
    bytes: Vec<u64>,
    limit: u64,
}

impl Sizes {
    /// Counts, and says whether the state is still within the limit. Above it nothing more is written, but counting goes
    /// on, so that the error can tell the size.
    fn add(&mut self, state: u16, bytes: usize) -> bool {
        let sum = &mut self.bytes[state as usize];
        *sum += bytes as u64;
        *sum <= self.limit
    }

    fn check(&self, header: &Header) -> Result<(), StateError> {
        match self.bytes.iter().position(|size| *size > self.limit) {
            Some(at) => Err(StateError::TooLarge {
                name: header.states[at].name.clone(),
                size: self.bytes[at],
                limit: self.limit,
            }),
            None => Ok(()),
        }
    }
}

/// `state u16, count u32, payload length u32`
fn chunk_head(state: u16, count: u32, payload: &[u8]) -> Result<[u8; 10], StateError> {
    let len = u32::try_from(payload.len()).map_err(|_| StateError::EntryTooLarge {
        name: String::new(),
        size: payload.len() as u64,
        limit: u32::MAX as u64,
    })?;
    let mut head = [0; 10];
    head[..2].copy_from_slice(&state.to_le_bytes());
    head[2..6].copy_from_slice(&count.to_le_bytes());
    head[6..].copy_from_slice(&len.to_le_bytes());
    Ok(head)
}

struct Part {
    group: KeyGroup,
    state: u16,
    bytes: Range<usize>,
}

#[derive(Default)]
struct Buffered {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

struct BufferSink<'a> {
    state: u16,
    into: &'a mut Buffered,
    sizes: &'a mut Sizes,
}

impl ChunkSink for BufferSink<'_> {
    #[cfg(feature = "rocksdb")]
    fn of_state(&mut self, state: u16) {
        self.state = state;
    }

    fn chunk(&mut self, group: KeyGroup, count: u32, payload: &[u8]) -> Result<(), StateError> {
        let head = chunk_head(self.state, count, payload)?;
        if self.sizes.add(self.state, head.len() + payload.len()) {
            let start = self.into.bytes.len();
            self.into.bytes.extend_from_slice(&head);
            self.into.bytes.extend_from_slice(payload);
            self.into.parts.push(Part { group, state: self.state, bytes: start..self.into.bytes.len() });
        }
        Ok(())
    }
}

struct StreamSink<'a, 'n> {
    state: u16,
    others: &'a Buffered,
    next: usize,
    stream: Sections<'n>,
    sizes: &'a mut Sizes,
}

impl StreamSink<'_, '_> {
    /// Writes the other runs' chunks of all groups up to `last`.
    fn put_others(&mut self, last: KeyGroup) -> Result<(), StateError> {
        while let Some(part) = self.others.parts.get(self.next).filter(|part| part.group <= last) {
            self.stream.begin(part.group)?;
            self.stream.put(&self.others.bytes[part.bytes.clone()])?;
            self.next += 1;
        }
        Ok(())
    }
}

impl ChunkSink for StreamSink<'_, '_> {
    #[cfg(feature = "rocksdb")]
    fn of_state(&mut self, state: u16) {
        self.state = state;
    }

    fn chunk(&mut self, group: KeyGroup, count: u32, payload: &[u8]) -> Result<(), StateError> {
        let head = chunk_head(self.state, count, payload)?;
        if self.sizes.add(self.state, head.len() + payload.len()) {
            self.put_others(group)?;
            self.stream.begin(group)?;
            self.stream.put(&head)?;
            self.stream.put(payload)?;
        }
        Ok(())
    }
}

/// A stream with a large buffer that knows where each key group lies.
struct Sections<'a> {
    stream: Box<dyn SnapshotStream>,
    name: &'a str,
    buffer: Vec<u8>,
    offset: u64,
    sections: Vec<KeyGroupSection>,
}

impl<'a> Sections<'a> {
    fn new(stream: Box<dyn SnapshotStream>, name: &'a str) -> Self {
        Self { stream, name, buffer: Vec::new(), offset: 0, sections: Vec::new() }
    }

    fn failed(&self, source: std::io::Error) -> StateError {
        StateError::Io { what: format!("writing the snapshot `{}`", self.name), source }
    }

    /// Starts the section of a group, unless it is open.
    fn begin(&mut self, group: KeyGroup) -> Result<(), StateError> {
        match self.sections.last() {
            Some(open) if open.group == group => Ok(()),
            Some(open) if open.group > group => Err(StateError::Io {
                what: format!("writing the snapshot `{}`", self.name),
                source: std::io::Error::other(format!(
                    "key group {group} came after key group {}: a table was not visited in order",
                    open.group
                )),
            }),
            _ => {
                self.sections.push(KeyGroupSection { group, offset: self.offset, len: 0, crc32c: 0 });
                Ok(())
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        if let Some(open) = self.sections.last_mut() {
            open.len += bytes.len() as u64;
            open.crc32c = crc32c::crc32c_append(open.crc32c, bytes);
        }
        self.offset += bytes.len() as u64;
        if self.buffer.len() + bytes.len() > CHUNK_BYTES {
            self.flush()?;
        }
        if bytes.len() >= CHUNK_BYTES {
            return self.stream.write_all(bytes).map_err(|e| self.failed(e));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StateError> {
        self.stream.write_all(&self.buffer).map_err(|e| self.failed(e))?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(Vec<KeyGroupSection>, stillstream_types::StreamHandle), StateError> {
        self.flush()?;
        let name = self.name;
        let handle = self
            .stream
            .finish()
            .map_err(|source| StateError::Io { what: format!("finishing the snapshot `{name}`"), source })?;
        Ok((self.sections, handle))
    }
}
