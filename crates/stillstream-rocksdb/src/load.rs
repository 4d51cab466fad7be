//! Bulk loading: entries are sorted, written as files, and taken over by the database, which rewrites
//! nothing.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use stillstream_data::{Data, DecodeError, Key, Schema};
use stillstream_state::StateError;
use stillstream_state::StateMeta;
use stillstream_state::kinds::StateKind;
use stillstream_state::snapshot::{Chunk, hash_in};
use stillstream_state::ttl::Sift;
use stillstream_types::{KeyGroup, KeyGroups, Timestamp};

use crate::db::{Database, Family, SortedFile};
use crate::full::cut;
use crate::layout::Layout;
use crate::state::Migrate;

/// Entries are sorted in memory up to so many bytes; then they become a file. 32 MiB, or what the budget has
/// room for.
const RUN_BYTES: usize = 32 << 20;

fn run_bytes(database: &Database) -> usize {
    let budget = database.tuning.memory.as_ref().map_or(usize::MAX, |memory| memory.write_back_bytes());
    // there are other databases, which load too
    (budget / 4).clamp(1 << 20, RUN_BYTES)
}

/// A name for a file of the database's folder that no other file has.
pub(crate) fn new_file(database: &Database) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    database.dir.path().join(format!("load-{n}.sst"))
}

/// Takes entries in any order into one column family.
pub(crate) struct Loader {
    family: Family,
    run_bytes: usize,
    bytes: Vec<u8>,
    /// Start of the key, start of the value, end of the value.
    entries: Vec<(u32, u32, u32)>,
}

impl Loader {
    pub fn new(family: Family) -> Self {
        let run_bytes = run_bytes(family.database());
        Self { family, run_bytes, bytes: Vec::new(), entries: Vec::new() }
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StateError> {
        if !self.entries.is_empty() && self.bytes.len() + key.len() + value.len() > self.run_bytes {
            self.flush()?;
        }
        if key.len() + value.len() > self.run_bytes {
            return self.family.put(key, value);
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        let middle = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.entries.push((start, middle, self.bytes.len() as u32));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StateError> {
        let bytes = &self.bytes;
        let key = |entry: &(u32, u32, u32)| &bytes[entry.0 as usize..entry.1 as usize];
        // stable, so that of equal keys the last one counts
        self.entries.sort_by(|a, b| key(a).cmp(key(b)));
        let options = self.family.database().tuning.family_options();
        let path = new_file(self.family.database());
        let mut file = SortedFile::create(&options, path, &self.family.name)?;
        for (at, entry) in self.entries.iter().enumerate() {
            if self.entries.get(at + 1).is_some_and(|next| key(next) == key(entry)) {
                continue;
            }
            file.put(key(entry), &bytes[entry.1 as usize..entry.2 as usize])?;
        }
        let file = file.finish()?;
        self.family.ingest(vec![file])?;
        self.bytes.clear();
        self.entries.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), StateError> {
        match self.entries.is_empty() {
            true => Ok(()),
            false => self.flush(),
        }
    }
}

/// Takes entries whose keys ascend, without holding them.
pub(crate) struct SortedLoader<'a> {
    family: &'a Family,
    options: rust_rocksdb::Options,
}

impl<'a> SortedLoader<'a> {
    pub fn new(family: &'a Family) -> Self {
        Self { family, options: family.database().tuning.family_options() }
    }

    /// Loads what `next` gives until it gives none.
    pub fn load(
        &self,
        next: impl FnMut(&mut Vec<u8>, &mut Vec<u8>) -> Result<bool, StateError>,
    ) -> Result<(), StateError> {
        self.family.ingest(self.write(next)?)
    }

    /// Writes it to files, which a column family has to take over.
    fn write(
        &self,
        mut next: impl FnMut(&mut Vec<u8>, &mut Vec<u8>) -> Result<bool, StateError>,
    ) -> Result<Vec<PathBuf>, StateError> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let limit = 2 * RUN_BYTES;
        let mut more = next(&mut key, &mut value)?;
        let mut files = Vec::new();
        while more {
            let path = new_file(self.family.database());
            let mut file = SortedFile::create(&self.options, path, &self.family.name)?;
            let mut bytes = 0;
            while more && bytes < limit {
                file.put(&key, &value)?;
                bytes += key.len() + value.len();
                more = next(&mut key, &mut value)?;
            }
            files.push(file.finish()?);
        }
        Ok(files)
    }
}

/// Turns canonical entries into the database's.
pub(crate) struct FromCanonical<'a, K> {
    pub layout: Layout,
    pub stored: &'a StateMeta,
    pub migrate: Option<Migrate>,
    pub key: PhantomData<fn(K)>,
}

impl<K: Key> FromCanonical<'_, K> {
    /// Hands each entry of a chunk to `put`.
    pub fn load(
        &self,
        chunk: &Chunk,
        mut put: impl FnMut(&[u8], &[u8]) -> Result<(), StateError>,
    ) -> Result<Result<(), DecodeError>, StateError> {
        let mut input = chunk.payload();
        let (namespace, rest) = match self.namespace(input) {
            Ok(parts) => parts,
            Err(e) => return Ok(Err(e)),
        };
        input = rest;
        let mut key = Vec::new();
        for _ in 0..chunk.count {
            let mut failed = None;
            let read = self.entry(chunk.group, namespace, &mut input, &mut key, &mut |key, value| {
                if failed.is_none() {
                    failed = put(key, value).err();
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            if let Err(error) = read {
                return Ok(Err(error));
            }
        }
        match input {
            [] => Ok(Ok(())),
            rest => Ok(Err(DecodeError::Invalid {
                what: "chunk",
                why: format!("{} bytes are left over", rest.len()),
            })),
        }
    }

    fn is_timers(&self) -> bool {
        matches!(self.stored.kind, StateKind::EventTimers | StateKind::ProcessingTimers)
    }

    /// A chunk begins with its namespace; timers have one each instead.
    fn namespace<'b>(&self, bytes: &'b [u8]) -> Result<(&'b [u8], &'b [u8]), DecodeError> {
        match self.is_timers() {
            true => Ok((&[], bytes)),
            false => cut(&self.stored.namespace, bytes),
        }
    }

    fn groups(&self) -> KeyGroups {
        self.layout.groups
    }

    fn entry(
        &self,
        group: KeyGroup,
        namespace: &[u8],
        input: &mut &[u8],
        key: &mut Vec<u8>,
        put: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), DecodeError> {
        if self.is_timers() {
            let time = Timestamp::decode(input)?;
            let typed = K::decode(input)?;
            let (namespace, rest) = cut(&self.stored.namespace, input)?;
            *input = rest;
            let hash = hash_in(&typed, group, self.groups())?;
            self.layout.timer(time, hash, &typed, &(), key);
            key.extend_from_slice(namespace);
            put(key, &[]);
            return Ok(());
        }
        let before = *input;
        let typed = K::decode(input)?;
        hash_in(&typed, group, self.groups())?;
        let key_bytes = &before[..before.len() - input.len()];
        self.layout.begin(group, key);
        key.extend_from_slice(namespace);
        key.extend_from_slice(key_bytes);
        if let (StateKind::Map, Schema::Map(map_key, value)) = (self.stored.kind, &self.stored.value) {
            let prefix = key.len();
            for _ in 0..u32::decode(input)? {
                let (map_key, rest) = cut(map_key, input)?;
                key.truncate(prefix);
                key.extend_from_slice(map_key);
                *input = rest;
                self.value(value, input, |bytes| put(key, bytes))?;
            }
            return Ok(());
        }
        self.value(&self.stored.value, input, |bytes| put(key, bytes))
    }

    fn value(&self, schema: &Schema, input: &mut &[u8], put: impl FnOnce(&[u8])) -> Result<(), DecodeError> {
        let (value, rest) = cut(schema, input)?;
        *input = rest;
        match self.migrate {
            None => put(value),
            Some(migrate) => put(&migrate(schema, value)?),
        }
        Ok(())
    }
}

/// Rewrites all values of a state with the program's own schema. A time to live that was switched on or off
/// is a matter of the column family's options: it is made anew.
pub(crate) fn rewrite(
    family: Family,
    stored: &StateMeta,
    wanted: &StateMeta,
    migrate: Migrate,
) -> Result<(), StateError> {
    let mut scan = family.scan(&[]);
    let part = migrated_part(stored);
    let files = SortedLoader::new(&family).write(|key, value| {
        let Some((old_key, old)) = scan.entry()? else { return Ok(false) };
        let new = migrate(part, old)
            .map_err(|source| StateError::Decode { name: family.name.to_string(), source })?;
        key.clear();
        key.extend_from_slice(old_key);
        *value = new;
        scan.next();
        Ok(true)
    })?;
    drop(scan);
    if Sift::with_maps_apart(stored) == Sift::with_maps_apart(wanted) {
        return family.ingest(files);
    }
    let database = family.database().clone();
    drop(family);
    database.drop_family(&wanted.name)?;
    database.create_family(wanted)?.ingest(files)
}

/// The schema of what [`Migrate`] takes: a map's values are stored one by one.
fn migrated_part(meta: &StateMeta) -> &Schema {
    match (meta.kind, &meta.value) {
        (StateKind::Map, Schema::Map(_, value)) => value,
        _ => &meta.value,
    }
}
