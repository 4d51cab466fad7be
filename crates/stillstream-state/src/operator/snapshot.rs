//! Writing and reading operator state: the items of all states one after another; the handle says where each
//! starts.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{OperatorStateEntry, OperatorStateHandle, RedistributionMode};

use crate::StateError;
use crate::data::Schema;

/// Copied items that can be encoded.
pub(crate) trait FrozenItems: Send {
    fn write(&self, out: &mut ItemWriter<'_>);
}

/// Takes encoded items.
pub(crate) struct ItemWriter<'a> {
    bytes: &'a mut Vec<u8>,
    offsets: &'a mut Vec<u64>,
}

impl ItemWriter<'_> {
    /// One item, by the function that appends its binary form.
    pub fn item(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.offsets.push(self.bytes.len() as u64);
        encode(self.bytes);
    }
}

struct FrozenState {
    mode: RedistributionMode,
    schema: Vec<u8>,
    parts: Vec<Box<dyn FrozenItems>>,
}

/// All operator state of a backend as it was when it was frozen; written on the snapshot pool.
#[derive(Default)]
pub struct FrozenOperatorState {
    states: BTreeMap<String, FrozenState>,
}

impl fmt::Debug for FrozenOperatorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrozenOperatorState")
            .field("states", &self.states.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl FrozenOperatorState {
    pub(super) fn add(
        &mut self,
        name: &str,
        mode: RedistributionMode,
        schema: Vec<u8>,
        items: Box<dyn FrozenItems>,
    ) {
        let new = || FrozenState { mode, schema, parts: Vec::new() };
        self.states.entry(name.into()).or_insert_with(new).parts.push(items);
    }

    /// Writes the snapshot as one stream of `store`; `name` tells a person what is inside. Blocks.
    ///
    /// Without any state nothing is written. Fails with [`StateError::TooLarge`] when one state is above
    /// `store.max_state_size()`.
    pub fn write(
        self,
        store: &dyn SnapshotStore,
        name: &str,
    ) -> Result<Vec<OperatorStateHandle>, StateError> {
        if self.states.is_empty() {
            return Ok(Vec::new());
        }
        let limit = store.max_state_size().unwrap_or(u64::MAX);
        let (mut bytes, mut states) = (Vec::new(), BTreeMap::new());
        for (state, frozen) in self.states {
            let (start, mut offsets) = (bytes.len() as u64, Vec::new());
            let mut out = ItemWriter { bytes: &mut bytes, offsets: &mut offsets };
            frozen.parts.iter().for_each(|items| items.write(&mut out));
            let end = bytes.len() as u64;
            if end - start > limit {
                return Err(StateError::TooLarge { name: state, size: end - start, limit });
            }
            states
                .insert(state, OperatorStateEntry { mode: frozen.mode, schema: frozen.schema, offsets, end });
        }
        let io = |source| StateError::Io { what: format!("writing the snapshot `{name}`"), source };
        let mut stream = store.create(name).map_err(io)?;
        stream.write_all(&bytes).map_err(io)?;
        Ok(vec![OperatorStateHandle { states, stream: stream.finish().map_err(io)? }])
    }
}

/// Items of one state from one handle, not decoded.
#[derive(Clone, Debug)]
pub(crate) struct RestoredItems {
    pub mode: RedistributionMode,
    pub schema: Schema,
    /// Where it was read, for errors.
    pub path: Arc<str>,
    bytes: Arc<Vec<u8>>,
    offsets: Vec<u64>,
    end: u64,
}

impl RestoredItems {
    /// The items' bytes; the offsets were checked when they were read.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.offsets.iter().skip(1).chain([&self.end]);
        self.offsets.iter().zip(ends).map(|(start, end)| &self.bytes[*start as usize..*end as usize])
    }
}

impl FrozenItems for RestoredItems {
    fn write(&self, out: &mut ItemWriter<'_>) {
        self.items().for_each(|item| out.item(|bytes| bytes.extend_from_slice(item)));
    }
}

/// Operator state as read from snapshots, verified but not decoded. Made on the snapshot pool, taken over by
/// a backend.
#[derive(Clone, Debug, Default)]
pub struct RestoredOperatorState {
    pub(super) states: BTreeMap<String, Vec<RestoredItems>>,
}

impl RestoredOperatorState {
    /// Reads and verifies the streams of all handles. The handles name only items of this subtask. Blocks.
    pub fn read(handles: &[OperatorStateHandle], store: &dyn SnapshotStore) -> Result<Self, StateError> {
        let mut restored = Self::default();
        for handle in handles.iter().filter(|handle| !handle.states.is_empty()) {
            let path: Arc<str> = handle.stream.path().unwrap_or("(inline state)").into();
            let bytes =
                store.read_all(&handle.stream).map_err(|source| StateError::reading(&path, source))?;
            let bytes = Arc::new(bytes);
            for (name, entry) in &handle.states {
                let malformed = |why: String| StateError::Malformed {
                    path: path.to_string(),
                    part: format!("operator state `{name}`"),
                    why,
                };
                let ends = entry.offsets.iter().skip(1).chain([&entry.end]);
                if entry.offsets.iter().zip(ends).any(|(start, end)| start > end)
                    || entry.end > bytes.len() as u64 && !entry.offsets.is_empty()
                {
                    return Err(malformed(format!(
                        "its items lie outside of the {} bytes that the snapshot has",
                        bytes.len()
                    )));
                }
                let schema = Schema::from_bytes(&entry.schema).map_err(|e| malformed(e.to_string()))?;
                restored.states.entry(name.clone()).or_default().push(RestoredItems {
                    mode: entry.mode,
                    schema,
                    path: path.clone(),
                    bytes: bytes.clone(),
                    offsets: entry.offsets.clone(),
                    end: entry.end,
                });
            }
        }
        Ok(restored)
    }
}
