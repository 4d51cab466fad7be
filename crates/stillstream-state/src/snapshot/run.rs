//! Runs: the entries of one table, key groups ascending, as chunks of bytes.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use stillstream_types::{KeyGroup, KeyGroupRange};

use super::Header;
use crate::StateError;

/// Bytes are handed on when there are so many: 1 MiB.
pub const CHUNK_BYTES: usize = 1 << 20;
/// `state u16, count u32, payload length u32`
pub(super) const HEAD_BYTES: usize = 10;

/// Something frozen that can be written.
#[expect(clippy::len_without_is_empty, reason = "`is_blank` asks for something else")]
pub trait FrozenRun: Send {
    /// How many entries.
    fn len(&self) -> usize;
    /// Whether nothing would be written.
    fn is_blank(&self) -> bool {
        self.len() == 0
    }
    /// Adds about how many bytes each key group will have.
    fn weigh(&self, weights: &mut Weights);
    /// Cuts it at key groups: part `i` has the groups `bounds[i]..bounds[i + 1]`. Parts are written on
    /// different threads.
    fn cut(self: Box<Self>, bounds: &[u16]) -> Vec<Box<dyn FrozenRun>>;
    /// Writes all entries, key groups ascending, and lets go of memory on the way: what is still held, the
    /// worker must copy before it changes it.
    fn write(self: Box<Self>, out: &mut RunWriter<'_>);
}

/// Estimated bytes by key group.
#[derive(Debug)]
pub struct Weights {
    range: KeyGroupRange,
    /// what each group has more than the one before it
    steps: Vec<i64>,
}

impl Weights {
    /// No bytes in these groups.
    pub fn new(range: KeyGroupRange) -> Self {
        Self { range, steps: vec![0; range.len() + 1] }
    }

    /// Adds bytes that are spread over some groups.
    pub fn add(&mut self, groups: KeyGroupRange, bytes: usize) {
        let groups = groups.intersect(self.range);
        if let Some(each) = bytes.checked_div(groups.len()) {
            self.steps[(groups.start - self.range.start) as usize] += each as i64;
            self.steps[(groups.end - self.range.start) as usize] -= each as i64;
        }
    }

    /// The weight of each group of the range.
    fn weights(&self) -> impl Iterator<Item = u64> {
        let groups = &self.steps[..self.range.len()];
        groups.iter().scan(0, |sum, step| {
            *sum += step;
            Some(*sum as u64)
        })
    }

    /// Where to cut the range into units of at least `unit` bytes, as far as groups allow, and about `most`
    /// of them at most.
    pub fn bounds(&self, unit: u64, most: usize) -> Vec<u16> {
        let total: u64 = self.weights().sum();
        let unit = unit.max(total.div_ceil(most.max(1) as u64));
        let mut bounds = vec![self.range.start];
        let mut open = 0;
        for (group, weight) in (self.range.start..).zip(self.weights()) {
            // a group that is a unit by itself is not put behind others
            if open > 0 && open + weight > unit {
                bounds.push(group);
                open = 0;
            }
            open += weight;
        }
        bounds.push(self.range.end);
        bounds
    }
}

/// Bytes by state, held against the store's limit.
#[derive(Debug)]
pub(super) struct Sizes {
    states: Vec<(String, AtomicU64)>,
    limit: u64,
}

impl Sizes {
    pub fn new(header: &Header, limit: u64) -> Self {
        let names = header.states.iter().map(|state| state.name.clone());
        Self { states: names.map(|name| (name, AtomicU64::new(0))).collect(), limit }
    }

    /// For one state alone.
    pub fn of_one(name: &str, limit: u64) -> Self {
        Self { states: vec![(name.into(), AtomicU64::new(0))], limit }
    }

    /// Counts, and says whether the state is still within the limit. Above it nothing more is written, but
    /// counting goes on, so that the error can tell the size.
    fn add(&self, state: u16, bytes: usize) -> bool {
        let bytes = bytes as u64;
        self.states[state as usize].1.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.limit
    }

    /// Fails if a state is above the limit.
    pub fn check(&self) -> Result<(), StateError> {
        for (name, bytes) in &self.states {
            let size = bytes.load(Ordering::Relaxed);
            if size > self.limit {
                return Err(StateError::TooLarge { name: name.clone(), size, limit: self.limit });
            }
        }
        Ok(())
    }
}

/// One chunk within some bytes.
#[derive(Debug)]
pub(super) struct Part {
    pub group: KeyGroup,
    pub state: u16,
    pub bytes: Range<usize>,
}

/// Chunks that lie side by side.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    pub bytes: Vec<u8>,
    pub parts: Vec<Part>,
}

/// Takes chunks when there are enough, and leaves the memory for the next.
pub(super) type Full<'a> = dyn FnMut(&mut Chunks) -> Result<(), StateError> + 'a;

struct Open {
    group: KeyGroup,
    head: usize,
    count: u32,
}

/// Cuts the entries of a run into chunks: entries of one state in one key group, behind the namespace.
pub struct RunWriter<'a> {
    state: u16,
    namespace: &'a [u8],
    sizes: &'a Sizes,
    chunks: &'a mut Chunks,
    full: &'a mut Full<'a>,
    open: Option<Open>,
    // A table's visitor can't be stopped: after an error the remaining entries are passed over.
    error: Option<StateError>,
}

impl fmt::Debug for RunWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWriter").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<'a> RunWriter<'a> {
    /// Appends to `chunks`; `full` is called when a chunk is closed and they have [`CHUNK_BYTES`].
    pub(super) fn new(
        state: u16,
        namespace: &'a [u8],
        sizes: &'a Sizes,
        chunks: &'a mut Chunks,
        full: &'a mut Full<'a>,
    ) -> Self {
        Self { state, namespace, sizes, chunks, full, open: None, error: None }
    }

    /// One entry, by the function that appends its binary form.
    #[inline]
    pub fn entry(&mut self, group: KeyGroup, encode: impl FnOnce(&mut Vec<u8>)) {
        self.entries(group, |bytes| {
            encode(bytes);
            1
        });
    }

    /// Some entries of one group, by the function that appends them and says how many they are. Together they
    /// have less than [`CHUNK_BYTES`].
    #[inline]
    pub fn entries(&mut self, group: KeyGroup, encode: impl FnOnce(&mut Vec<u8>) -> u32) {
        let fits = self.open.as_ref().is_some_and(|open| {
            open.group == group
                && self.chunks.bytes.len() - open.head < CHUNK_BYTES
                && open.count < u32::MAX / 2
        });
        if !fits {
            self.flush();
            self.start(group);
        }
        if self.error.is_some() {
            return;
        }
        let count = encode(&mut self.chunks.bytes);
        if let Some(open) = &mut self.open {
            open.count += count;
        }
    }

    /// A chunk by itself: `encode` appends what comes before and behind the namespace, which it is given, and
    /// says how many entries there are. A chunk without entries is written too.
    pub fn chunk(&mut self, group: KeyGroup, encode: impl FnOnce(&[u8], &mut Vec<u8>) -> u32) {
        self.flush();
        if self.error.is_none() {
            let head = self.chunks.bytes.len();
            self.chunks.bytes.extend_from_slice(&[0; HEAD_BYTES]);
            let count = encode(self.namespace, &mut self.chunks.bytes);
            self.close(Open { group, head, count });
        }
    }

    /// Entries that are encoded already, with their namespace.
    pub fn raw(&mut self, group: KeyGroup, count: u32, payload: &[u8]) {
        self.chunk(group, |_, bytes| {
            bytes.extend_from_slice(payload);
            count
        });
    }

    #[cold]
    fn start(&mut self, group: KeyGroup) {
        let head = self.chunks.bytes.len();
        self.chunks.bytes.extend_from_slice(&[0; HEAD_BYTES]);
        self.chunks.bytes.extend_from_slice(self.namespace);
        self.open = Some(Open { group, head, count: 0 });
    }

    #[cold]
    fn flush(&mut self) {
        match self.open.take() {
            Some(open) if open.count > 0 && self.error.is_none() => self.close(open),
            Some(open) => self.chunks.bytes.truncate(open.head),
            None => {}
        }
    }

    /// Fills in the head of a chunk that ends here.
    fn close(&mut self, open: Open) {
        let Chunks { bytes, parts } = &mut *self.chunks;
        let len = bytes.len() - open.head - HEAD_BYTES;
        let Ok(len) = u32::try_from(len) else {
            let (name, limit) = (self.sizes.states[self.state as usize].0.clone(), u32::MAX as u64);
            self.error = Some(StateError::EntryTooLarge { name, size: len as u64, limit });
            return;
        };
        let head = &mut bytes[open.head..open.head + HEAD_BYTES];
        head[..2].copy_from_slice(&self.state.to_le_bytes());
        head[2..6].copy_from_slice(&open.count.to_le_bytes());
        head[6..].copy_from_slice(&len.to_le_bytes());
        if !self.sizes.add(self.state, bytes.len() - open.head) {
            bytes.truncate(open.head);
            return;
        }
        parts.push(Part { group: open.group, state: self.state, bytes: open.head..bytes.len() });
        if bytes.len() >= CHUNK_BYTES {
            self.error = (self.full)(self.chunks).err();
        }
    }

    /// Ends the run with an error.
    pub fn fail(&mut self, error: StateError) {
        self.error.get_or_insert(error);
    }

    /// Closes the last chunk.
    pub(super) fn finish(mut self) -> Result<(), StateError> {
        self.flush();
        self.error.map_or(Ok(()), Err)
    }
}

/// For runs that hold several states.
impl RunWriter<'_> {
    /// What follows belongs to this state of the header: a run may hold several, group by group.
    pub fn of_state(&mut self, state: u16) {
        self.flush();
        self.state = state;
    }

    /// Whether writing has failed; then the rest can be left out.
    pub fn failed(&self) -> bool {
        self.error.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_weight_of_key_groups() {
        let mut weights = Weights::new(KeyGroupRange::new(10, 20));
        weights.add(KeyGroupRange::new(10, 20), 100); // 10 each
        weights.add(KeyGroupRange::new(14, 15), 1000);
        weights.add(KeyGroupRange::new(90, 95), 7); // of others
        assert_eq!(weights.bounds(30, 100), [10, 13, 14, 15, 18, 20]);
        assert_eq!(weights.bounds(1, 100).len(), 11);
        assert_eq!(weights.bounds(1, 2), [10, 14, 15, 20]);
        assert_eq!(weights.bounds(5000, 100), [10, 20]);
    }
}
