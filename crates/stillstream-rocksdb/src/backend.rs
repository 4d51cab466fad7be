//! [`RocksDbKeyedStateBackend`]: the keyed state of one subtask in a database of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use stillstream_data::{Compatibility, Data, Key};
use stillstream_state::backend::{
    BackendFactory, BackendOptions, FrozenCheckpoint, KeyedBackend, Namespace, Registry, StateSize,
};
use stillstream_state::kinds::{ListStore, MapEntries, MapStore, StateKind, TimeDomain, ValueStore};
use stillstream_state::snapshot::{
    Chunk, FrozenKeyedState, Header, RestoredKeyedState, Run, checked_header, for_each_chunk,
};
use stillstream_state::ttl::{Rule, Rules, Sift, Stamped, stamping_at};
use stillstream_state::{StateError, StateMeta};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointId, IncrementalFormat, KeyGroupRange, KeyGroups, KeyedSnapshot, KeyedStateHandle,
};

use crate::db::{Database, Family};
use crate::directory::WorkDir;
use crate::full::FrozenDatabase;
use crate::incremental::{NativeSnapshot, Uploads};
use crate::layout::Layout;
use crate::list::RocksList;
use crate::load::{FromCanonical, Loader, rewrite};
use crate::map::RocksMap;
use crate::namespaced::{NamespacedTable, RocksNamespaced};
use crate::options::RocksDbOptions;
use crate::state::{Migrate, RocksState, migrate};
use crate::timers::{RocksTimers, TimerTable};
use crate::tuning::Tuning;
use crate::value::{RocksTable, RocksValues};
use crate::{restore, transfer};

/// The database's folder within the backend's own.
pub(crate) const FOLDER: &str = "db";

/// Up to so many entries are counted one by one for [`StateSize`]; above, RocksDB's estimate is taken.
const COUNTED: usize = 10_000;

/// What the backend knows of a registered state.
pub(crate) struct Registered {
    pub family: Family,
    state: Rc<dyn RocksState>,
    migrate: Migrate,
}

/// Makes backends in RocksDB.
#[derive(Clone, PartialEq, Debug)]
pub struct RocksDbBackendFactory {
    /// Whether a checkpoint writes only the files that are new since the last completed one.
    pub incremental: bool,
    /// The settings.
    pub options: Arc<RocksDbOptions>,
}

impl BackendFactory for RocksDbBackendFactory {
    type Backend<K: Key> = RocksDbKeyedStateBackend<K>;

    fn for_subtask(&self, instance: u64, folders: &[&str]) -> Self {
        Self { options: self.options.for_subtask(instance, folders).into(), ..*self }
    }

    fn create<K: Key>(
        &self,
        groups: KeyGroups,
        range: KeyGroupRange,
    ) -> Result<RocksDbKeyedStateBackend<K>, StateError> {
        let options = BackendOptions::new(groups, range).incremental(self.incremental);
        RocksDbKeyedStateBackend::new(options, self.options.as_ref().clone())
    }
}

/// Keyed state in RocksDB (Flink's `RocksDBKeyedStateBackend`): one database, one column family per state.
///
/// Snapshots never hold up processing, whatever [`BackendOptions::asynchronous`] says: a database can be read
/// as it was at one moment while it changes.
///
/// ```
/// use stillstream_rocksdb::{RocksDbKeyedStateBackend, RocksDbOptions};
/// use stillstream_state::{BackendOptions, CurrentKey, Key, KeyedBackend};
/// use stillstream_types::KeyGroups;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let groups = KeyGroups::new(128);
/// let options = BackendOptions::new(groups, groups.all()).incremental(true);
/// let mut backend = RocksDbKeyedStateBackend::<u64>::new(options, RocksDbOptions::new(folder))?;
/// let seen = backend.value::<u64>("seen")?;
/// seen.set(&CurrentKey::new(&7u64, 7u64.key_hash(groups)), 1)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RocksDbKeyedStateBackend<K> {
    options: BackendOptions,
    layout: Layout,
    pub(crate) tuning: Tuning,
    pub(crate) registered: Registry<Registered>,
    /// States that came from a snapshot and are not registered.
    stored: BTreeMap<String, StateMeta>,
    uploads: Uploads,
    rules: Rules,
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
            .field("states", &self.registered)
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
            registered: Registry::default(),
            stored: BTreeMap::new(),
            uploads: Uploads::default(),
            rules: Rules::default(),
            database: None,
            dir,
            key: PhantomData,
        })
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
        match self.registered.contains(name) || self.stored.contains_key(name) {
            true => database.family(name),
            false => database.create_family(state),
        }
    }

    /// The state under this name: registered before with the same types, or made now over what a snapshot
    /// left.
    fn register<S: RocksState + 'static>(
        &mut self,
        meta: StateMeta,
        migrate: Migrate,
        make: impl FnOnce(Family) -> S,
    ) -> Result<Rc<S>, StateError> {
        if let Some(known) = self.registered.find(&meta)? {
            return Ok(known);
        }
        let family = match self.stored.get(&meta.name).cloned() {
            None => self.family(&meta)?,
            Some(stored) => {
                let compatible = meta.check(&stored)?;
                let family = self.family(&meta)?;
                match compatible {
                    Compatibility::AsIs => family,
                    _ => {
                        stamping_at(self.rules.clock.now_ms(), || rewrite(family, &stored, &meta, migrate))?;
                        self.database()?.family(&meta.name)?
                    }
                }
            }
        };
        let state = Rc::new(make(self.database()?.family(&meta.name)?));
        if self.stored.remove(&meta.name).is_some() {
            state.reload()?;
        }
        self.registered.add(meta, &state, Registered { family, state: state.clone(), migrate });
        Ok(state)
    }

    fn table<V: Data>(&mut self, name: &str, kind: StateKind) -> Result<Rc<RocksTable<K, V>>, StateError> {
        let (layout, meta) = (self.layout, StateMeta::of::<(), V>(name, kind));
        self.register(meta, migrate::<V>, |family| RocksTable::new(family, layout))
    }

    fn lists<V: Data>(&mut self, name: &str) -> Result<Rc<RocksList<K, V>>, StateError> {
        let (layout, meta) = (self.layout, StateMeta::of::<(), Vec<V>>(name, StateKind::List));
        self.register(meta, migrate::<Vec<V>>, |family| RocksList::new(family, layout))
    }

    fn maps<MK: Key, MV: Data>(&mut self, name: &str) -> Result<Rc<RocksMap<K, MK, MV>>, StateError> {
        let (layout, meta) = (self.layout, StateMeta::of::<(), MapEntries<MK, MV>>(name, StateKind::Map));
        self.register(meta, migrate::<MV>, |family| RocksMap::new(family, layout))
    }

    fn header(&self) -> Header {
        let registered = self.registered.iter().map(|(meta, _)| meta);
        Header {
            key: K::schema(),
            max_parallelism: self.options.groups.max_parallelism(),
            states: registered.chain(self.stored.values()).cloned().collect(),
        }
    }

    /// Gives what is in memory only to the writer.
    fn hand_over(&self) -> Result<(), StateError> {
        self.registered.states().try_for_each(|known| known.state.hand_over())
    }

    /// Opens a state for loading: refused if the program wants another type under its name.
    fn loader(&mut self, stored: &StateMeta) -> Result<Loader, StateError> {
        if let Some((known, _)) = self.registered.get(&stored.name) {
            known.check(stored)?;
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
            Some((meta, known)) if meta.check(stored)? != Compatibility::AsIs => Some(known.migrate),
            _ => None,
        };
        let from = FromCanonical::<K> { layout: self.layout, stored, migrate, key: PhantomData };
        let loaded =
            stamping_at(self.rules.clock.now_ms(), || from.load(chunk, |key, value| loader.put(key, value)));
        loaded?.map_err(|error| StateError::Malformed {
            path: path.into(),
            part: format!("state `{}`, key group {}", stored.name, chunk.group),
            why: error.to_string(),
        })
    }

    /// Entries of a state were put into its column family.
    fn loaded(&mut self, meta: StateMeta) -> Result<(), StateError> {
        match self.registered.get(&meta.name) {
            Some((_, known)) => known.state.reload(),
            None => {
                self.stored.entry(meta.name.clone()).or_insert(meta);
                Ok(())
            }
        }
    }

    /// Whether entries can be taken over byte by byte.
    fn can_take(&self, stored: &StateMeta) -> Result<(), StateError> {
        let known = self.registered.get(&stored.name).map(|(known, _)| known);
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

    /// Puts a state's files together into as few as possible, without what was overwritten or removed.
    /// RocksDB does that by itself, file by file; after a large removal one may not want to wait. Blocks.
    ///
    /// # Errors
    /// If entries that were in memory cannot be written.
    pub fn compact(&self, name: &str) -> Result<(), StateError> {
        if let Some((_, known)) = self.registered.get(name) {
            known.state.hand_over()?;
            known.family.database().writer.wait_for_all()?;
            known.family.compact();
        }
        Ok(())
    }

    /// The synchronous part of a checkpoint. A `full` one uploads all files anew.
    fn freeze_files(&mut self, id: CheckpointId, full: bool) -> Result<FrozenCheckpoint, StateError> {
        let header = self.header();
        match &self.database {
            Some(database) if self.options.incremental && !header.states.is_empty() => {
                self.hand_over()?;
                let range = self.options.range;
                let checkpoint =
                    NativeSnapshot::checkpoint(database, (id, full), &header, range, &self.uploads)?;
                Ok(FrozenCheckpoint::own(move |store, name| checkpoint.write(store, name)))
            }
            _ => Ok(self.freeze()?.into()),
        }
    }
}

impl<K: Key> KeyedBackend for RocksDbKeyedStateBackend<K> {
    type Key = K;
    type KeyedValue<V: Data> = RocksValues<K, V>;
    type Namespaced<N: Namespace, V: Data> = RocksNamespaced<K, N, V>;
    type Timers<N: Namespace> = RocksTimers<K, N>;

    fn options(&self) -> &BackendOptions {
        &self.options
    }

    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn rules_mut(&mut self) -> &mut Rules {
        &mut self.rules
    }

    fn register_values<V: Data>(
        &mut self,
        name: &str,
        kind: StateKind,
    ) -> Result<Rc<dyn ValueStore<V>>, StateError> {
        Ok(self.table::<V>(name, kind)?)
    }

    fn register_lists<V: Data>(&mut self, name: &str) -> Result<Rc<dyn ListStore<V>>, StateError> {
        Ok(self.lists::<V>(name)?)
    }

    fn register_maps<MK: Key, MV: Data>(
        &mut self,
        name: &str,
    ) -> Result<Rc<dyn MapStore<MK, MV>>, StateError> {
        Ok(self.maps::<MK, MV>(name)?)
    }

    fn register_expiring_values<V: Data>(
        &mut self,
        name: &str,
        kind: StateKind,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn ValueStore<Stamped<V>>>, StateError> {
        let table = self.table::<Stamped<V>>(name, kind)?;
        Ok(self.expires(name, rule, table)?)
    }

    fn register_expiring_lists<V: Data>(
        &mut self,
        name: &str,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn ListStore<Stamped<V>>>, StateError> {
        let lists = self.lists::<Stamped<V>>(name)?;
        Ok(self.expires(name, rule, lists)?)
    }

    fn register_expiring_maps<MK: Key, MV: Data>(
        &mut self,
        name: &str,
        rule: &Arc<Rule>,
    ) -> Result<Rc<dyn MapStore<MK, Stamped<MV>>>, StateError> {
        let maps = self.maps::<MK, Stamped<MV>>(name)?;
        Ok(self.expires(name, rule, maps)?)
    }

    fn keyed_value<V: Data>(&mut self, name: &str) -> Result<RocksValues<K, V>, StateError> {
        Ok(RocksValues(self.table(name, StateKind::Value)?))
    }

    fn namespaced<N: Namespace, V: Data>(
        &mut self,
        name: &str,
    ) -> Result<RocksNamespaced<K, N, V>, StateError> {
        let (layout, meta) = (self.layout, StateMeta::of::<N, V>(name, StateKind::Value));
        let make = |family| NamespacedTable::new(family, layout);
        Ok(RocksNamespaced(self.register(meta, migrate::<V>, make)?))
    }

    fn timers<N: Namespace>(
        &mut self,
        name: &str,
        domain: TimeDomain,
    ) -> Result<RocksTimers<K, N>, StateError> {
        let (layout, meta) = (self.layout, StateMeta::of_timers::<N>(name, domain));
        let make = |family| TimerTable::new(family, layout);
        Ok(RocksTimers(self.register(meta, migrate::<()>, make)?))
    }

    fn freeze_checkpoint(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        self.freeze_files(id, false)
    }

    fn freeze_full(&mut self, id: CheckpointId) -> Result<FrozenCheckpoint, StateError> {
        self.freeze_files(id, true)
    }

    /// All files of the database, whether checkpoints are incremental or not.
    fn freeze_native(&mut self) -> Result<FrozenCheckpoint, StateError> {
        let header = self.header();
        match &self.database {
            Some(database) if !header.states.is_empty() => {
                self.hand_over()?;
                let savepoint = NativeSnapshot::savepoint(database, &header, self.options.range)?;
                Ok(FrozenCheckpoint::own(move |store, name| savepoint.write(store, name)))
            }
            _ => Ok(self.freeze()?.into()),
        }
    }

    fn checkpoint_completed(&mut self, id: CheckpointId) {
        self.uploads.completed(id);
        if let Some(local) = &self.tuning.options.local_recovery {
            local.completed(id);
        }
    }

    fn checkpoint_aborted(&mut self, id: CheckpointId) {
        self.uploads.aborted(id);
        if let Some(local) = &self.tuning.options.local_recovery {
            local.forget(id);
        }
    }

    fn freeze(&mut self) -> Result<FrozenKeyedState, StateError> {
        let (header, range) = (self.header(), self.options.range);
        let mut runs = Vec::new();
        if let Some(database) = &self.database
            && !header.states.is_empty()
        {
            self.hand_over()?;
            let expired = |meta: &StateMeta| {
                let rule = self.rules.get(&meta.name).filter(|rule| rule.config.leaves_out_of_snapshots())?;
                Some((Sift::with_maps_apart(meta)?, rule.cutoff()))
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
                entries: self.registered.states().map(|known| known.family.estimated_entries()).sum(),
            };
            runs.push(Run { state: 0, namespace: Vec::new(), entries: Box::new(entries) });
        }
        Ok(FrozenKeyedState { header, range, runs })
    }

    fn restore(&mut self, handles: &[KeyedStateHandle], store: &dyn SnapshotStore) -> Result<(), StateError> {
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

    fn take_over(&mut self, restored: RestoredKeyedState) -> Result<(), StateError> {
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

    fn restore_snapshot(
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
        let groups = self.options.groups;
        let check = |header: &Header, path: &str| header.check::<K>(groups, path);
        let mut fetched = restore::fetch(&handles, &self.dir, &self.tuning, store, check)?;
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

    fn unregistered(&self) -> Vec<String> {
        self.stored.keys().cloned().collect()
    }

    // up to 10 000 entries are counted, more are RocksDB's estimate; a map counts by its entries
    fn state_sizes(&self) -> Vec<StateSize> {
        if let Some(database) = &self.database {
            // an error comes up again where it can be told
            let _ = self.hand_over().and_then(|()| database.writer.wait_for_all());
        }
        let size = |(meta, known): (&StateMeta, &Registered)| StateSize {
            name: meta.name.clone(),
            kind: meta.kind,
            entries: known.state.known_len().unwrap_or_else(|| count(&known.family)),
            memory_bytes: known.family.memory_bytes(),
        };
        self.registered.iter().map(size).collect()
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
