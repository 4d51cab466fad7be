//! What is in a snapshot that consists of RocksDB's files, without the program that wrote it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use stillstream_config::CompactionStyle;
use stillstream_data::{Data, DecodeError, Schema};
use stillstream_state::kinds::StateKind;
use stillstream_state::snapshot::SnapshotEntry;
use stillstream_state::{StateError, StateMeta};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{IncrementalHandle, KeyGroup, KeyGroups};

use crate::db::{Database, Scan};
use crate::directory::WorkDir;
use crate::full::cut;
use crate::layout::Layout;
use crate::options::{MemoryBudget, RocksDbOptions};
use crate::restore::fetch;
use crate::tuning::Tuning;

/// For the block cache: entries are read once.
const MEMORY_BYTES: u64 = 32 << 20;

/// Copies the files of a snapshot into a folder below `local_dir`, verifies them, and hands out each entry
/// until `found` breaks off: states one after another, key groups ascending, a key's map as one entry. The
/// snapshot is only read, so it may be one that a running job goes on with; the copy is deleted at the end.
/// Blocks.
///
/// # Errors
/// If a file cannot be read, has another checksum than it was written with, or is not what RocksDB and the
/// states' types say; and if the folder cannot be written.
pub fn for_each_entry(
    handle: &IncrementalHandle,
    store: &dyn SnapshotStore,
    local_dir: &Path,
    found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
) -> Result<(), StateError> {
    let tuning = Tuning::new(RocksDbOptions {
        memory: MemoryBudget { total_bytes: Some(MEMORY_BYTES), ..MemoryBudget::default() },
        // what is looked at once need not be put in order
        compaction: Some(CompactionStyle::None),
        ..RocksDbOptions::new(local_dir)
    });
    let dir = Arc::new(WorkDir::create(local_dir)?);
    let handles = std::slice::from_ref(handle);
    for fetched in fetch(handles, &dir, &tuning, store, |_, _| Ok(()))? {
        let header = &fetched.header;
        let database =
            Arc::new(Database::open(dir.clone(), fetched.folder(), &header.states, tuning.clone())?);
        let layout = Layout { groups: KeyGroups::new(header.max_parallelism) };
        for state in &header.states {
            let walk = Walk { layout, state, key_type: &header.key, handle };
            let scan = database.family(&state.name)?.scan(&[]);
            if walk.run(scan, found)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A walk over one state.
struct Walk<'a> {
    layout: Layout,
    state: &'a StateMeta,
    key_type: &'a Schema,
    handle: &'a IncrementalHandle,
}

/// A key's map that is being put together.
struct OpenMap {
    group: KeyGroup,
    key: Vec<u8>,
    count: u32,
    entries: Vec<u8>,
}

impl Walk<'_> {
    fn unreadable(&self, source: DecodeError) -> StateError {
        StateError::Decode { name: self.state.name.clone(), source }
    }

    fn entry<'b>(&'b self, group: KeyGroup, key: &'b [u8], value: &'b [u8]) -> SnapshotEntry<'b> {
        let (state, key_type) = (self.state, self.key_type);
        SnapshotEntry { state, key_type, group, namespace: &[], key, value, time: None }
    }

    fn run(
        &self,
        mut scan: Scan,
        found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StateError> {
        let mut map: Option<OpenMap> = None;
        while let Some((key, value)) = scan.entry()? {
            let next = self.row(key, value, &mut map, found).map_err(|error| self.unreadable(error))?;
            if next.is_break() {
                return Ok(next);
            }
            scan.next();
        }
        Ok(map.map_or(ControlFlow::Continue(()), |map| self.whole(&map, found)))
    }

    /// A key's map is whole.
    fn whole(
        &self,
        map: &OpenMap,
        found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut value = Vec::with_capacity(4 + map.entries.len());
        map.count.encode(&mut value);
        value.extend_from_slice(&map.entries);
        found(self.entry(map.group, &map.key, &value))
    }

    fn row(
        &self,
        stored_key: &[u8],
        value: &[u8],
        map: &mut Option<OpenMap>,
        found: &mut dyn FnMut(SnapshotEntry<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, DecodeError> {
        let (group, rest) = self.layout.split(stored_key)?;
        // what was cut off after a restore with other key groups
        if !self.handle.range.contains(group) {
            return Ok(ControlFlow::Continue(()));
        }
        match self.state.kind {
            StateKind::EventTimers | StateKind::ProcessingTimers => {
                let (time, _, rest) = self.layout.split_timer(stored_key)?;
                let (key, namespace) = cut(self.key_type, rest)?;
                let time = Some(time.as_millis());
                Ok(found(SnapshotEntry { namespace, time, ..self.entry(group, key, &[]) }))
            }
            StateKind::Map => {
                let (key, map_key) = cut(self.key_type, rest)?;
                let ended = map.take_if(|open| open.group != group || open.key != key);
                if ended.is_some_and(|ended| self.whole(&ended, found).is_break()) {
                    return Ok(ControlFlow::Break(()));
                }
                let new = || OpenMap { group, key: key.to_vec(), count: 0, entries: Vec::new() };
                let open = map.get_or_insert_with(new);
                open.count += 1;
                open.entries.extend_from_slice(map_key);
                open.entries.extend_from_slice(value);
                Ok(ControlFlow::Continue(()))
            }
            _ => {
                let (namespace, key) = match self.state.namespace == <()>::schema() {
                    true => (&[][..], rest),
                    false => cut(&self.state.namespace, rest)?,
                };
                Ok(found(SnapshotEntry { namespace, ..self.entry(group, key, value) }))
            }
        }
    }
}
