//! The RocksDB backend: keyed state on the local disk, larger than memory, with incremental checkpoints.
//!
//! | file | what is inside |
//! |---|---|
//! | `db` | the database, its column families, walks, snapshots: the only place that knows RocksDB's pointers |
//! | `layout` | the keys' bytes |
//! | `value`, `namespaced`, `list`, `map`, `timers` | the kinds |
//! | `direct` | entries by namespace and key, one by one or by batches |
//! | `writer` | the thread that writes hot entries and makes checkpoints, in order |
//! | `expiry` | compactions leave out what has expired |
//! | `full` | full snapshots in canonical form |
//! | `load` | canonical entries into the database; migration |
//! | `incremental`, `restore`, `transfer`, `local` | checkpoints that share files, and the way back |
//! | `tuning`, `memory` | RocksDB's options, and its share of memory |

mod db;
mod direct;
mod directory;
mod error;
mod expiry;
mod full;
mod group_set;
mod incremental;
mod layout;
mod list;
mod load;
mod local;
mod map;
mod memory;
mod namespaced;
mod restore;
mod state;
mod timers;
mod transfer;
mod tuning;
mod value;
mod writer;

pub(crate) use namespaced::{RocksNamespaced, RocksWalk};
pub(crate) use timers::RocksTimers;
pub(crate) use value::RocksTable;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, IncrementalFormat, KeyHash, KeyedSnapshot, KeyedStateHandle};

use crate::StateError;
use crate::backend::{BackendOptions, FrozenCheckpoint, StateSize};
use crate::data::{Compatibility, Data, Key};
use crate::heap::TimeDomain;
use crate::kinds::{
    Aggregate, AggregatingState, Fold, ListState, MapEntries, MapState, ReducingState, StateKind, ValueState,
};
use crate::meta::StateMeta;
use crate::rocksdb_options::RocksDbOptions;
use crate::snapshot::{
    Chunk, FrozenKeyedState, Header, RestoredKeyedState, Run, checked_header, for_each_chunk,
};
use crate::ttl::{Rules, Sift, stamping_at};
use crate::typed::{KeyedValue, NamespacedValue, Timers};
use db::{Database, Family};
use directory::WorkDir;
use full::FrozenDatabase;
use incremental::{NativeCheckpoint, Uploads};
use layout::Layout;
use list::RocksList;
use load::{FromCanonical, Loader, rewrite};
use map::RocksMap;
use state::{Migrate, RocksState, migrate};
use tuning::Tuning;

/// The database's folder within the backend's own.
const FOLDER: &str = "db";

/// Up to so many entries are counted one by one for [`StateSize`]; above, RocksDB's estimate is taken.
const COUNTED: usize = 10_000;

struct Registered {
    meta: StateMeta,
    family: Family,
    state: Rc<dyn RocksState>,
    // the same, for the next registration under this name
    typed: Rc<dyn Any>,
    migrate: Migrate,
}

/// Keyed state in RocksDB (Flink's `RocksDBKeyedStateBackend`): one database, one column family per state.
///
/// Snapshots never hold up processing, whatever [`BackendOptions::asynchronous`] says: a database can be read as it was
/// at one moment while it changes.
pub struct RocksDbKeyedStateBackend<K> {
    options: BackendOptions,
    layout: Layout,
    tuning: Tuning,
    registered: BTreeMap<String, Registered>,
    /// States that came from a snapshot and are not registered.
    stored: BTreeMap<String, StateMeta>,
    uploads: Uploads,
    pub(crate) ttl: Rules,
    /// Opened with the first state, or from the files of a checkpoint.
    database: Option<Arc<Database>>,
    dir: Arc<WorkDir>,
    key: PhantomData<fn(K)>,
}

impl<K> Drop for RocksDbKeyedStateBackend<K> {
    fn drop(&mut self) {
        if let Some(database) = &self.database {
            database.writer.close();
        }
    }
}

impl<K> fmt::Debug for RocksDbKeyedStateBackend<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksDbKeyedStateBackend")
            .field("options", &self.options)
            .field("folder", &self.dir.path())
            .field("states", &self.registered.values().map(|state| &state.meta).collect::<Vec<_>>())
            .finish()
    }
}

impl<K: Key> RocksDbKeyedStateBackend<K> {
    /// An empty backend with a folder of its own below [`RocksDbOptions::local_dir`].
    pub fn new(options: BackendOptions, rocksdb: RocksDbOptions) -> Result<Self, StateError> {
        let dir = Arc::new(WorkDir::create(&rocksdb.local_dir)?);
        Ok(Self {
            options,
            layout: Layout { groups: options.groups },
            tuning: Tuning::new(rocksdb),
            registered: BTreeMap::new(),
            stored: BTreeMap::new(),
            uploads: Uploads::default(),
            ttl: Rules::default(),
            database: None,
            dir,
            key: PhantomData,
        })
    }

    /// How it was made.
    pub fn options(&self) -> &BackendOptions {
        &self.options
    }

    fn database(&mut self) -> Result<Arc<Database>, StateError> {
        if let Some(database) = &self.database {
            return Ok(database.clone());
        }
        let database = Arc::new(Database::create(self.dir.clone(), FOLDER, self.tuning.clone())?);
        self.database = Some(database.clone());
        Ok(database)
    }

    /// The column family of a state, made if it is not there.
    fn family(&mut self, state: &StateMeta) -> Result<Family, StateError> {
        let (database, name) = (self.database()?, &state.name);
        match self.registered.contains_key(name) || self.stored.contains_key(name) {
            true => database.family(name),
            false => database.create_family(state),
        }
    }

    /// The state under this name: registered before with the same types, or made now over what a snapshot left.
    fn register<S: RocksState + 'static>(
        &mut self,
        meta: StateMeta,
        migrate: Migrate,
        make: impl FnOnce(Family) -> S,
    ) -> Result<Rc<S>, StateError> {
        if let Some(known) = self.registered.get(&meta.name) {
            return match known.typed.clone().downcast::<S>() {
                Ok(state) if known.meta == meta => Ok(state),
                _ => Err(StateError::NameTaken {
                    name: meta.name.clone(),
                    registered: known.meta.to_string(),
                    wanted: meta.to_string(),
                }),
            };
        }
        let family = match self.stored.get(&meta.name).cloned() {
            None => self.family(&meta)?,
            Some(stored) => {
                let compatible = meta.check(&stored)?;
                let family = self.family(&meta)?;
                match compatible {
                    Compatibility::AsIs => family,
                    _ => {
                        stamping_at(self.ttl.clock.now_ms(), || rewrite(family, &stored, &meta, migrate))?;
                        self.database()?.family(&meta.name)?
                    }
                }
            }
        };
        let state = Rc::new(make(self.database()?.family(&meta.name)?));
        if self.stored.remove(&meta.name).is_some() {
            state.reload()?;
        }
        let registered = Registered { family, state: state.clone(), typed: state.clone(), migrate, meta };
        self.registered.insert(registered.meta.name.clone(), registered);
        Ok(state)
    }

    fn meta<V: Data>(name: &str, kind: StateKind) -> StateMeta {
        StateMeta { name: name.into(), kind, namespace: <()>::schema(), value: V::schema() }
    }

    fn table<V: Data>(&mut self, name: &str, kind: StateKind) -> Result<Rc<RocksTable<K, V>>, StateError> {
        let layout = self.layout;
        self.register(Self::meta::<V>(name, kind), migrate::<V>, |family| RocksTable::new(family, layout))
    }

    /// See [`KeyedStateBackend::value`](crate::KeyedStateBackend::value).
    pub fn value<V: Data>(&mut self, name: &str) -> Result<ValueState<V>, StateError> {
        Ok(ValueState::new(self.table::<V>(name, StateKind::Value)?))
    }

    fn lists<V: Data>(&mut self, name: &str) -> Result<Rc<RocksList<K, V>>, StateError> {
        let (layout, meta) = (self.layout, Self::meta::<Vec<V>>(name, StateKind::List));
        self.register(meta, migrate::<Vec<V>>, |family| RocksList::new(family, layout))
    }

    /// See [`KeyedStateBackend::list`](crate::KeyedStateBackend::list).
    pub fn list<V: Data>(&mut self, name: &str) -> Result<ListState<V>, StateError> {
        Ok(ListState::new(self.lists(name)?))
    }

    fn maps<MK: Key, MV: Data>(&mut self, name: &str) -> Result<Rc<RocksMap<K, MK, MV>>, StateError> {
        let (layout, meta) = (self.layout, Self::meta::<MapEntries<MK, MV>>(name, StateKind::Map));
        self.register(meta, migrate::<MV>, |family| RocksMap::new(family, layout))
    }

    /// See [`KeyedStateBackend::map`](crate::KeyedStateBackend::map).
    pub fn map<MK: Key, MV: Data>(&mut self, name: &str) -> Result<MapState<MK, MV>, StateError> {
        Ok(MapState::new(self.maps(name)?))
    }

    /// See [`KeyedStateBackend::reducing`](crate::KeyedStateBackend::reducing).
    pub fn reducing<V: Data>(
        &mut self,
        name: &str,
        reduce: impl Fn(&mut V, V) + 'static,
    ) -> Result<ReducingState<V>, StateError> {
        Ok(ReducingState::new(self.table::<V>(name, StateKind::Reducing)?, Rc::new(reduce)))
    }

    /// See [`KeyedStateBackend::aggregating`](crate::KeyedStateBackend::aggregating).
    pub fn aggregating<A: Aggregate>(
        &mut self,
        name: &str,
        aggregate: A,
    ) -> Result<AggregatingState<A::In, A::Out>, StateError> {
        let store = self.table::<A::Acc>(name, StateKind::Aggregating)?;
        Ok(AggregatingState::new(Rc::new(Fold { store, aggregate })))
    }

    /// See [`KeyedStateBackend::keyed_value`](crate::KeyedStateBackend::keyed_value).
    pub fn keyed_value<V: Data>(&mut self, name: &str) -> Result<KeyedValue<K, V>, StateError> {
        Ok(KeyedValue::over_rocksdb(self.table(name, StateKind::Value)?))
    }

    /// See [`KeyedStateBackend::namespaced`](crate::KeyedStateBackend::namespaced).
    pub fn namespaced<N: Data + Ord + Copy, V: Data>(
        &mut self,
        name: &str,
    ) -> Result<NamespacedValue<K, N, V>, StateError> {
        let layout = self.layout;
        let meta = StateMeta { namespace: N::schema(), ..Self::meta::<V>(name, StateKind::Value) };
        let make = |family| RocksNamespaced::new(family, layout);
        Ok(NamespacedValue::over_rocksdb(self.register(meta, migrate::<V>, make)?))
    }

    /// See [`KeyedStateBackend::timers`](crate::KeyedStateBackend::timers).
    pub fn timers<N: Data + Ord + Copy>(
        &mut self,
        name: &str,
        domain: TimeDomain,
    ) -> Result<Timers<K, N>, StateError> {
        let layout = self.layout;
        let meta =
            StateMeta { namespace: N::schema(), ..Self::meta::<()>(&domain.state_name(name), domain.kind()) };
        let make = |family| RocksTimers::new(family, layout);
        Ok(Timers::over_rocksdb(self.register(meta, migrate::<()>, make)?))
    }

    fn header(&self) -> Header {
        let registered = self.registered.values().map(|known| &known.meta);
        Header {
            key: K::schema(),
            max_parallelism: self.options.groups.max_parallelism(),
            states: registered.chain(self.stored.values()).cloned().collect(),
        }
    }

    /// Gives what is in memory only to the writer.
    fn hand_over(&self) -> Result<(), StateError> {
        self.registered.values().try_for_each(|known| known.state.hand_over())
    }

    /// See [`KeyedStateBackend::freeze_checkpoint`](crate::KeyedStateBackend::freeze_checkpoint).
    pub fn freeze_checkpoint(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        let header = self.header();
        match &self.database {
            Some(database) if self.options.incremental && !header.states.is_empty() => {
                self.hand_over()?;
                let range = self.options.range;
                let checkpoint = NativeCheckpoint::make(database, id, &header, range, &self.uploads)?;
                Ok(FrozenCheckpoint::own(move |store, name| checkpoint.write(store, name)))
            }
            _ => Ok(self.freeze()?.into()),
        }
    }

    /// See [`KeyedStateBackend::checkpoint_completed`](crate::KeyedStateBackend::checkpoint_completed).
    pub fn checkpoint_completed(&mut self, id: CheckpointId) {
        self.uploads.completed(id);
        if let Some(local) = &self.tuning.options.local_recovery {
            local.completed(id);
        }
    }

    /// See [`KeyedStateBackend::checkpoint_aborted`](crate::KeyedStateBackend::checkpoint_aborted).
    pub fn checkpoint_aborted(&mut self, id: CheckpointId) {
        self.uploads.aborted(id);
        if let Some(local) = &self.tuning.options.local_recovery {
            local.forget(id);
        }
    }

    /// See [`KeyedStateBackend::prefetch`](crate::KeyedStateBackend::prefetch). Nothing can be asked for by the hash alone: the
    /// database needs the keys.
    #[inline(always)]
    pub fn prefetch(&self, _: &[KeyHash], _: usize) {}

    /// See [`KeyedStateBackend::freeze`](crate::KeyedStateBackend::freeze).
    pub fn freeze(&mut self) -> Result<FrozenKeyedState, StateError> {
        let (header, range) = (self.header(), self.options.range);
        let mut runs = Vec::new();
        if let Some(database) = &self.database
            && !header.states.is_empty()
        {
            self.hand_over()?;
            let expired = |meta: &StateMeta| {
                let rule = self.ttl.get(&meta.name).filter(|rule| rule.config.leaves_out_of_snapshots())?;
                Some((Sift::in_rocksdb(meta)?, rule.cutoff()))
            };
            let entries = FrozenDatabase {
                snapshot: database.writer.barrier({
                    let database = database.clone();
                    move || Ok(database.snapshot())
                })?,
                layout: self.layout,
                range,
                key: K::schema(),
                expired: header.states.iter().map(expired).collect(),
                states: header.states.clone(),
                entries: self.registered.values().map(|known| known.family.estimated_entries()).sum(),
            };
            runs.push(Run { state: 0, namespace: Vec::new(), entries: Box::new(entries) });
        }
        Ok(FrozenKeyedState { header, range, runs })
    }

    /// See [`KeyedStateBackend::restore`](crate::KeyedStateBackend::restore).
    pub fn restore(
        &mut self,
        handles: &[KeyedStateHandle],
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError> {
        for handle in handles {
            let header = checked_header::<K>(handle, store, self.options.groups)?;
            let path = handle.stream.path().unwrap_or("(inline state)");
            let mut states = Vec::with_capacity(header.states.len());
            for meta in header.states {
                states.push((self.loader(&meta)?, meta));
            }
            let mut failed = None;
            for_each_chunk(handle, store, self.options.range, states.len(), |state, chunk| {
                let (loader, meta) = &mut states[state];
                if failed.is_none() {
                    failed = self.load_chunk(loader, meta, &chunk, path).err();
                }
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            for (loader, meta) in states {
                loader.finish()?;
                self.loaded(meta)?;
            }
        }
        Ok(())
    }

    /// See [`KeyedStateBackend::take_over`](crate::KeyedStateBackend::take_over).
    pub fn take_over(&mut self, restored: RestoredKeyedState) -> Result<(), StateError> {
        for part in restored.states.into_values().flatten() {
            let mut loader = self.loader(&part.meta)?;
            for chunk in part.chunks.iter() {
                self.load_chunk(&mut loader, &part.meta, chunk, &part.path)?;
            }
            loader.finish()?;
            self.loaded(part.meta)?;
        }
        Ok(())
    }

    /// Opens a state for loading: refused if the program wants another type under its name.
    fn loader(&mut self, stored: &StateMeta) -> Result<Loader, StateError> {
        if let Some(known) = self.registered.get(&stored.name) {
            known.meta.check(stored)?;
        } else if let Some(other) = self.stored.get(&stored.name) {
            other.check(stored)?;
        }
        Ok(Loader::new(self.family(stored)?))
    }

    fn load_chunk(
        &self,
        loader: &mut Loader,
        stored: &StateMeta,
        chunk: &Chunk,
        path: &str,
    ) -> Result<(), StateError> {
        let known = self.registered.get(&stored.name);
        let migrate = match known {
            Some(known) if known.meta.check(stored)? != Compatibility::AsIs => Some(known.migrate),
            _ => None,
        };
        let from = FromCanonical::<K> { layout: self.layout, stored, migrate, key: PhantomData };
        let loaded =
            stamping_at(self.ttl.clock.now_ms(), || from.load(chunk, |key, value| loader.put(key, value)));
        loaded?.map_err(|error| StateError::Malformed {
            path: path.into(),
            part: format!("state `{}`, key group {}", stored.name, chunk.group),
            why: error.to_string(),
        })
    }

    /// Entries of a state were put into its column family.
    fn loaded(&mut self, meta: StateMeta) -> Result<(), StateError> {
        match self.registered.get(&meta.name) {
            Some(known) => known.state.reload(),
            None => {
                self.stored.entry(meta.name.clone()).or_insert(meta);
                Ok(())
            }
        }
    }

    /// See [`KeyedStateBackend::restore_snapshot`](crate::KeyedStateBackend::restore_snapshot).
    pub fn restore_snapshot(
        &mut self,
        snapshot: &KeyedSnapshot,
        store: &dyn SnapshotStore,
    ) -> Result<(), StateError> {
        if let Some(other) = snapshot.incremental.iter().find(|h| h.format != IncrementalFormat::RocksDb) {
            return Err(StateError::OtherBackend {
                path: transfer::path_of(&other.meta).into(),
                written: "heap",
                wanted: "RocksDB",
            });
        }
        let range = self.options.range;
        let handles: Vec<_> = snapshot
            .incremental
            .iter()
            .filter(|handle| !handle.range.intersect(range).is_empty())
            .cloned()
            .collect();
        let mut fetched = restore::fetch::<K>(&handles, &self.dir, self.layout, &self.tuning, store)?;
        if self.database.is_none()
            && let Some(base) = restore::take_base(&mut fetched, range, self.tuning.options.overlap_threshold)
        {
            let (dir, tuning) = (self.dir.clone(), self.tuning.clone());
            let (database, files) = restore::open_base(&base, dir, self.layout, range, tuning)?;
            self.database = Some(database);
            self.uploads.restored(files);
            self.stored.extend(base.header.states.iter().map(|meta| (meta.name.clone(), meta.clone())));
        }
        for other in fetched {
            let states = other.header.states.clone();
            for meta in &states {
                self.can_take(meta)?;
            }
            let (dir, layout, tuning) = (self.dir.clone(), self.layout, self.tuning.clone());
            restore::insert(other, dir, layout, range, tuning, |state| self.family(state))?;
            states.into_iter().try_for_each(|meta| self.loaded(meta))?;
        }
        self.restore(&snapshot.keyed, store)
    }

    /// Whether entries can be taken over byte by byte.
    fn can_take(&self, stored: &StateMeta) -> Result<(), StateError> {
        let known = self.registered.get(&stored.name).map(|known| &known.meta);
        match known.or(self.stored.get(&stored.name)) {
            Some(known) if known.check(stored)? != Compatibility::AsIs => Err(StateError::Incompatible {
                name: stored.name.clone(),
                stored: stored.to_string(),
                wanted: known.to_string(),
                why: "parts of one checkpoint were written by different releases of the program".into(),
            }),
            _ => Ok(()),
        }
    }

    /// See [`KeyedStateBackend::unregistered`](crate::KeyedStateBackend::unregistered).
    pub fn unregistered(&self) -> Vec<String> {
        self.stored.keys().cloned().collect()
    }

    /// Puts a state's files together into as few as possible, without what was overwritten or removed. RocksDB does that by
    /// itself, file by file; after a large removal one may not want to wait. Blocks.
    ///
    /// # Errors
    /// If entries that were in memory cannot be written.
    pub fn compact(&self, name: &str) -> Result<(), StateError> {
        if let Some(known) = self.registered.get(name) {
            known.state.hand_over()?;
            known.family.database().writer.wait_for_all()?;
            known.family.compact();
        }
        Ok(())
    }

    /// See [`KeyedStateBackend::state_sizes`](crate::KeyedStateBackend::state_sizes). Up to 10 000 entries are counted,
    /// more are RocksDB's estimate; a map counts by its entries.
    pub fn state_sizes(&self) -> Vec<StateSize> {
        if let Some(database) = &self.database {
            // an error comes up again where it can be told
            let _ = self.hand_over().and_then(|()| database.writer.wait_for_all());
        }
        let size = |known: &Registered| StateSize {
            name: known.meta.name.clone(),
            kind: known.meta.kind,
            entries: known.state.known_len().unwrap_or_else(|| count(&known.family)),
            memory_bytes: known.family.memory_bytes(),
        };
        self.registered.values().map(size).collect()
    }
}

fn count(family: &Family) -> usize {
    let (mut scan, mut count) = (family.scan(&[]), 0);
    while matches!(scan.entry(), Ok(Some(_))) {
        count += 1;
        if count == COUNTED {
            return family.estimated_entries().max(COUNTED);
        }
        scan.next();
    }
    count
}
