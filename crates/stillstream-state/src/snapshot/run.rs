//! Runs: the entries of one table, key groups ascending, as chunks of bytes.

use stillstream_types::KeyGroup;

use crate::StateError;

/// A chunk is handed on when it is this large: 1 MiB.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// Something frozen that can be written.
pub(crate) trait FrozenRun: Send {
    /// How many entries, to guess which run is the largest.
    fn len(&self) -> usize;
    /// Writes all entries, key groups ascending, and lets go of memory on the way: what is still held, the worker must
    /// copy before it changes it.
    fn write(self: Box<Self>, out: &mut RunWriter<'_>);
}

/// Takes chunks: entries of one state in one key group. `payload` is the namespace, then the entries.
pub(crate) trait ChunkSink {
    /// The chunks that follow belong to another state, by its place in the header.
    #[cfg(feature = "rocksdb")]
    fn of_state(&mut self, state: u16);
    fn chunk(&mut self, group: KeyGroup, count: u32, payload: &[u8]) -> Result<(), StateError>;
}

/// Cuts the entries of a run into chunks.
pub(crate) struct RunWriter<'a> {
    namespace: &'a [u8],
    sink: &'a mut dyn ChunkSink,
    chunk: Vec<u8>,
    count: u32,
    group: KeyGroup,
    // A table's visitor can't be stopped: after an error the remaining entries are passed over.
    error: Option<StateError>,
}

impl<'a> RunWriter<'a> {
    pub fn new(namespace: &'a [u8], sink: &'a mut dyn ChunkSink) -> Self {
        Self { namespace, sink, chunk: Vec::new(), count: 0, group: KeyGroup(0), error: None }
    }

    /// One entry, by the function that appends its binary form.
    #[inline]
    pub fn entry(&mut self, group: KeyGroup, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.error.is_some() {
            return;
        }
        if group != self.group || self.chunk.len() >= CHUNK_BYTES || self.count == u32::MAX {
            self.flush();
            self.group = group;
        }
        if self.count == 0 {
            self.chunk.extend_from_slice(self.namespace);
        }
        encode(&mut self.chunk);
        self.count += 1;
    }

    /// Entries that are encoded already, with their namespace.
    pub fn raw(&mut self, group: KeyGroup, count: u32, payload: &[u8]) {
        self.flush();
        if self.error.is_none() {
            self.error = self.sink.chunk(group, count, payload).err();
        }
    }

    fn flush(&mut self) {
        if self.count > 0 && self.error.is_none() {
            self.error = self.sink.chunk(self.group, self.count, &self.chunk).err();
        }
        self.chunk.clear();
        self.count = 0;
    }

    pub fn finish(mut self) -> Result<(), StateError> {
        self.flush();
        self.error.map_or(Ok(()), Err)
    }
}

/// For runs that hold several states.
#[cfg(feature = "rocksdb")]
impl RunWriter<'_> {
    /// What follows belongs to this state of the header: a run may hold several, group by group.
    pub fn of_state(&mut self, state: u16) {
        self.flush();
        self.sink.of_state(state);
    }

    /// Whether writing has failed; then the rest can be left out.
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }

    /// Ends the run with an error.
    pub fn fail(&mut self, error: StateError) {
        self.error.get_or_insert(error);
    }
}
