//! [`Database`] and [`Family`]: RocksDB as the rest of the backend sees it.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rust_rocksdb::checkpoint::Checkpoint;
use rust_rocksdb::{
    BottommostLevelCompaction, BoundColumnFamily, ColumnFamilyDescriptor, CompactOptions, DBPinnableSlice,
    DBRawIteratorWithThreadMode, DBWithThreadMode, Error, FlushOptions, IngestExternalFileOptions,
    MultiThreaded, Options, ReadOptions, SnapshotWithThreadMode, SstFileWriter, WriteBatch, WriteOptions,
};
use stillstream_state::StateError;
use stillstream_state::StateMeta;

use crate::directory::WorkDir;
use crate::error::{database, disk};
use crate::expiry::Filters;
use crate::tuning::Tuning;
use crate::writer::Writer;

type Rocks = DBWithThreadMode<MultiThreaded>;

/// One open database: of one operator in one subtask.
pub(crate) struct Database {
    rocks: Rocks,
    path: PathBuf,
    write: WriteOptions,
    pub tuning: Tuning,
    /// What compactions leave out.
    pub filters: Filters,
    /// Bytes written since somebody looked at what write buffers take.
    unchecked: AtomicUsize,
    /// Writes in the background; ends when the database is closed.
    pub writer: Writer,
    // after `rocks`: the folder is deleted when the database is closed
    pub dir: Arc<WorkDir>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.path)
            .field("families", &self.rocks.cf_names())
            .finish()
    }
}

/// The column family of a state.
pub(crate) fn family_name(state: &str) -> String {
    // RocksDB has a family `default` of its own
    format!("state:{state}")
}

/// The options of a state's column family.
fn options_of(state: &StateMeta, tuning: &Tuning, filters: &Filters) -> Options {
    let mut options = tuning.family_options();
    filters.apply(state, &tuning.options, &mut options);
    options
}

/// What write buffers take is looked at after so many bytes. 256 KiB.
const CHECKED_BYTES: usize = 256 << 10;

const DEFAULT_FAMILY: &str = "default";

impl Database {
    /// Makes a new database in `folder` of `dir`.
    pub fn create(dir: Arc<WorkDir>, folder: &str, tuning: Tuning) -> Result<Self, StateError> {
        Self::open_with(dir, folder, &[], tuning, true)
    }

    /// Opens the database in `folder` of `dir`, which must hold exactly the column families of these states.
    pub fn open(
        dir: Arc<WorkDir>,
        folder: &str,
        states: &[StateMeta],
        tuning: Tuning,
    ) -> Result<Self, StateError> {
        Self::open_with(dir, folder, states, tuning, false)
    }

    fn open_with(
        dir: Arc<WorkDir>,
        folder: &str,
        states: &[StateMeta],
        tuning: Tuning,
        new: bool,
    ) -> Result<Self, StateError> {
        let path = dir.path().join(folder);
        let filters = Filters::default();
        let default = ColumnFamilyDescriptor::new(DEFAULT_FAMILY, tuning.family_options());
        let families = std::iter::once(default).chain(states.iter().map(|state| {
            ColumnFamilyDescriptor::new(family_name(&state.name), options_of(state, &tuning, &filters))
        }));
        let rocks = Rocks::open_cf_descriptors(&tuning.database_options(new), &path, families)
            .map_err(|e| database("", &path, "opening the database", e))?;
        let mut write = WriteOptions::default();
        // what a checkpoint does not hold is computed again after a failure
        write.disable_wal(true);
        let writer = Writer::start(path.display().to_string())?;
        let unchecked = AtomicUsize::new(0);
        Ok(Self { rocks, path, write, tuning, filters, unchecked, writer, dir })
    }

    /// Makes the column family of a state.
    pub fn create_family(self: &Arc<Self>, state: &StateMeta) -> Result<Family, StateError> {
        self.rocks
            .create_cf(family_name(&state.name), &options_of(state, &self.tuning, &self.filters))
            .map_err(|e| database(&state.name, &self.path, "making the column family of", e))?;
        self.family(&state.name)
    }

    /// Drops the column family of a state with all entries.
    pub fn drop_family(&self, state: &str) -> Result<(), StateError> {
        let drop = self.rocks.drop_cf(&family_name(state));
        drop.map_err(|e| database(state, &self.path, "dropping the column family of", e))
    }

    /// The column family of a state, which must be there.
    pub fn family(self: &Arc<Self>, state: &str) -> Result<Family, StateError> {
        let handle = self.rocks.cf_handle(&family_name(state)).ok_or_else(|| StateError::Database {
            name: state.into(),
            path: self.path.display().to_string(),
            what: "finding the column family of",
            why: "the database has none of this name".into(),
            advice: "the snapshot that it was made from is incomplete: restore from another checkpoint",
        })?;
        // SAFETY: only the lifetime changes. The handle points to the column family of `rocks` and must be
        // gone before it: `Family` owns the database too, and its `Drop` lets go of the handle first.
        let handle = unsafe {
            std::mem::transmute::<Arc<BoundColumnFamily<'_>>, Arc<BoundColumnFamily<'static>>>(handle)
        };
        Ok(Family { handle: ManuallyDrop::new(handle), database: self.clone(), name: state.into() })
    }

    /// Writes all of a batch or nothing, after every checkpoint that was asked for.
    pub fn write(&self, state: &str, batch: &WriteBatch) -> Result<(), StateError> {
        self.writer.wait_for_barriers();
        self.write_in_order(state, batch)
    }

    /// The same, for jobs of the writer: their order is that of the checkpoints.
    pub fn write_in_order(&self, state: &str, batch: &WriteBatch) -> Result<(), StateError> {
        self.rocks.write_opt(batch, &self.write).map_err(|e| database(state, &self.path, "writing", e))?;
        self.wrote(state, batch.size_in_bytes())
    }

    /// So many bytes went into write buffers: now and then, checks that these keep to their limit.
    #[inline]
    fn wrote(&self, state: &str, bytes: usize) -> Result<(), StateError> {
        // lost counts only make the next check later
        let unchecked = self.unchecked.load(Ordering::Relaxed) + bytes;
        self.unchecked.store(if unchecked < CHECKED_BYTES { unchecked } else { 0 }, Ordering::Relaxed);
        match &self.tuning.memory {
            Some(memory) if unchecked >= CHECKED_BYTES && memory.write_buffers_are_full() => {
                self.flush(state, memory.write_buffer_bytes() / 16)
            }
            _ => Ok(()),
        }
    }

    /// Writes the write buffers of all states to files, and waits for it, unless they are smaller than
    /// `least` bytes: then it is another database that has to.
    #[cold]
    fn flush(&self, state: &str, least: usize) -> Result<(), StateError> {
        let names = self.rocks.cf_names();
        let families: Vec<_> = names.iter().filter_map(|name| self.rocks.cf_handle(name)).collect();
        let bytes: u64 = families
            .iter()
            .filter_map(|family| {
                self.rocks.property_int_value_cf(family, "rocksdb.cur-size-all-mem-tables").ok()?
            })
            .sum();
        if bytes < least as u64 {
            return Ok(());
        }
        let families: Vec<_> = families.iter().collect();
        let flush = self.rocks.flush_cfs_opt(&families, &FlushOptions::default());
        flush.map_err(|e| database(state, &self.path, "flushing write buffers while writing to", e))
    }

    /// A view of all column families as they are now.
    pub fn snapshot(self: &Arc<Self>) -> Snapshot {
        let snapshot = self.rocks.snapshot();
        // SAFETY: only the lifetime changes. The snapshot points to `rocks`, and `Snapshot` keeps that open
        // until its `Drop` has let go of the snapshot.
        let snapshot = unsafe {
            std::mem::transmute::<SnapshotWithThreadMode<'_, Rocks>, SnapshotWithThreadMode<'static, Rocks>>(
                snapshot,
            )
        };
        Snapshot { snapshot: ManuallyDrop::new(snapshot), database: self.clone() }
    }

    /// Writes all memory tables to files, and puts hard links to all files into the new folder `to`.
    pub fn checkpoint(&self, to: &Path) -> Result<(), StateError> {
        let made = Checkpoint::new(&self.rocks).and_then(|checkpoint| checkpoint.create_checkpoint(to));
        made.map_err(|e| database("", &self.path, "making a checkpoint", e))
    }
}

/// One column family.
pub(crate) struct Family {
    handle: ManuallyDrop<Arc<BoundColumnFamily<'static>>>,
    database: Arc<Database>,
    pub name: Arc<str>,
}

impl Drop for Family {
    fn drop(&mut self) {
        // SAFETY: the handle is not used after this; the database is still open, since the field lives.
        unsafe { ManuallyDrop::drop(&mut self.handle) }
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Family").field(&self.name).finish()
    }
}

impl Family {
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// RocksDB's error about this state.
    pub fn failed(&self, what: &'static str) -> impl Fn(Error) -> StateError + '_ {
        move |error| database(&self.name, &self.database.path, what, error)
    }

    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>, StateError> {
        self.database.rocks.get_pinned_cf(&*self.handle, key).map_err(self.failed("reading"))
    }

    /// The values of many keys, which must be sorted.
    pub fn get_sorted<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> impl Iterator<Item = Result<Option<DBPinnableSlice<'_>>, StateError>> {
        let found = self.database.rocks.batched_multi_get_cf_slice(&*self.handle, keys, true);
        found.into_iter().map(|value| value.map_err(self.failed("reading")))
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StateError> {
        self.database.writer.wait_for_barriers();
        let put = self.database.rocks.put_cf_opt(&*self.handle, key, value, &self.database.write);
        put.map_err(self.failed("writing"))?;
        self.database.wrote(&self.name, key.len() + value.len())
    }

    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<(), StateError> {
        self.database.writer.wait_for_barriers();
        let merge = self.database.rocks.merge_cf_opt(&*self.handle, key, operand, &self.database.write);
        merge.map_err(self.failed("writing"))?;
        self.database.wrote(&self.name, key.len() + operand.len())
    }

    pub fn delete(&self, key: &[u8]) -> Result<(), StateError> {
        self.database.writer.wait_for_barriers();
        let delete = self.database.rocks.delete_cf_opt(&*self.handle, key, &self.database.write);
        delete.map_err(self.failed("deleting from"))?;
        // a removal lies in the write buffer as an entry does
        self.database.wrote(&self.name, key.len())
    }

    /// Deletes all keys from `from` up to but without `to`.
    pub fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<(), StateError> {
        self.database.writer.wait_for_barriers();
        let delete = self.database.rocks.delete_range_cf_opt(&*self.handle, from, to, &self.database.write);
        delete.map_err(self.failed("deleting from"))
    }

    /// Drops files that lie within the range as a whole.
    pub fn delete_files(&self, from: &[u8], to: &[u8]) -> Result<(), StateError> {
        let delete = self.database.rocks.delete_file_in_range_cf(&*self.handle, from, to);
        delete.map_err(self.failed("deleting files of"))
    }

    /// Compacts all its files now.
    pub fn compact(&self) {
        // otherwise files whose keys lie apart would only be moved
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        let all = None::<&[u8]>;
        self.database.rocks.compact_range_cf_opt(&*self.handle, all, all, &options);
    }

    /// Compacts files when they are older than this; zero: never.
    pub fn compact_periodically(&self, age: Duration) -> Result<(), StateError> {
        let seconds = age.as_secs().to_string();
        let options = [("periodic_compaction_seconds", seconds.as_str())];
        let set = self.database.rocks.set_options_cf(&*self.handle, &options);
        set.map_err(self.failed("setting an option of"))
    }

    /// Asks for a compaction in the background.
    pub fn suggest_compaction(&self) -> Result<(), StateError> {
        let all = None::<&[u8]>;
        let suggest = self.database.rocks.suggest_compact_range_cf(&*self.handle, all, all);
        suggest.map_err(self.failed("compacting"))
    }

    pub fn batch_put(&self, batch: &mut WriteBatch, key: &[u8], value: &[u8]) {
        batch.put_cf(&*self.handle, key, value);
    }

    pub fn batch_delete(&self, batch: &mut WriteBatch, key: &[u8]) {
        batch.delete_cf(&*self.handle, key);
    }

    /// How many entries RocksDB believes there are.
    pub fn estimated_entries(&self) -> usize {
        let estimate = self.database.rocks.property_int_value_cf(&*self.handle, "rocksdb.estimate-num-keys");
        estimate.ok().flatten().unwrap_or(0) as usize
    }

    /// Bytes of its memory tables.
    pub fn memory_bytes(&self) -> usize {
        let bytes =
            self.database.rocks.property_int_value_cf(&*self.handle, "rocksdb.cur-size-all-mem-tables");
        bytes.ok().flatten().unwrap_or(0) as usize
    }

    /// A walk over the entries that begin with `prefix`, as they are now; later changes are not seen.
    pub fn scan(&self, prefix: &[u8]) -> Scan {
        self.scan_range(prefix, crate::layout::after(prefix), ReadOptions::default())
    }

    /// A walk over the entries from `from` up to but without `to`.
    pub fn scan_between(&self, from: &[u8], to: Vec<u8>) -> Scan {
        self.scan_range(from, Some(to), ReadOptions::default())
    }

    fn scan_range(&self, from: &[u8], to: Option<Vec<u8>>, mut read: ReadOptions) -> Scan {
        if let Some(to) = to {
            read.set_iterate_upper_bound(to);
        }
        let mut rows = self.database.rocks.raw_iterator_cf_opt(&*self.handle, read);
        rows.seek(from);
        // SAFETY: only the lifetime changes. The iterator points into `rocks` and the column family; `Scan`
        // keeps the database, which owns the family, open until its `Drop` has let go of the iterator.
        let rows = unsafe {
            std::mem::transmute::<
                DBRawIteratorWithThreadMode<'_, Rocks>,
                DBRawIteratorWithThreadMode<'static, Rocks>,
            >(rows)
        };
        Scan { rows: ManuallyDrop::new(rows), database: self.database.clone(), name: self.name.clone() }
    }

    /// Takes over a file that [`SortedFile`] has written; its keys replace equal ones.
    pub fn ingest(&self, files: Vec<PathBuf>) -> Result<(), StateError> {
        if files.is_empty() {
            return Ok(());
        }
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let ingest = self.database.rocks.ingest_external_file_cf_opts(&*self.handle, &options, files.clone());
        ingest.map_err(|error| {
            // on a full disk they would be in the way
            for file in &files {
                let _ = std::fs::remove_file(file);
            }
            self.failed("bulk-loading")(error)
        })
    }
}

/// A walk over entries in the order of their keys.
pub(crate) struct Scan {
    rows: ManuallyDrop<DBRawIteratorWithThreadMode<'static, Rocks>>,
    database: Arc<Database>,
    name: Arc<str>,
}

impl Drop for Scan {
    fn drop(&mut self) {
        // SAFETY: the iterator is not used after this; the database is still open, since the field lives.
        unsafe { ManuallyDrop::drop(&mut self.rows) }
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scan").field(&self.name).finish()
    }
}

/// Key and value.
pub(crate) type Row<'a> = (&'a [u8], &'a [u8]);

impl Scan {
    /// The entry under the cursor; none at the end.
    pub fn entry(&self) -> Result<Option<Row<'_>>, StateError> {
        match self.rows.item() {
            Some(entry) => Ok(Some(entry)),
            // the end, or an error that looks like it
            None => match self.rows.status() {
                Ok(()) => Ok(None),
                Err(e) => Err(database(&self.name, &self.database.path, "reading", e)),
            },
        }
    }

    /// Moves on to the next entry.
    pub fn next(&mut self) {
        self.rows.next();
    }

    /// Moves to the first entry at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.rows.seek(key);
    }

    /// Hands each entry that is left to `f`.
    pub fn each(
        mut self,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        while let Some((key, value)) = self.entry()? {
            f(key, value)?;
            self.next();
        }
        Ok(())
    }
}

/// All column families as they were at one moment; can be read on another thread.
pub(crate) struct Snapshot {
    snapshot: ManuallyDrop<SnapshotWithThreadMode<'static, Rocks>>,
    database: Arc<Database>,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // SAFETY: the snapshot is not used after this; the database is still open, since the field lives.
        unsafe { ManuallyDrop::drop(&mut self.snapshot) }
    }
}

impl Snapshot {
    /// A walk over the entries of a state.
    pub fn scan(&self, state: &str) -> Result<SnapshotScan<'_>, StateError> {
        let mut read = ReadOptions::default();
        read.set_snapshot(&self.snapshot);
        // what is read once must not push out what is read often
        read.fill_cache(false);
        read.set_readahead_size(2 << 20);
        let scan = self.database.family(state)?.scan_range(&[], None, read);
        Ok(SnapshotScan { scan, snapshot: PhantomData })
    }
}

/// A walk within a [`Snapshot`]. RocksDB looks at the snapshot meanwhile, so it cannot be given up first.
pub(crate) struct SnapshotScan<'a> {
    pub scan: Scan,
    snapshot: PhantomData<&'a Snapshot>,
}

/// A file of sorted entries, to be taken over by a column family.
pub(crate) struct SortedFile<'a> {
    writer: SstFileWriter<'a>,
    path: PathBuf,
    state: &'a str,
    finished: bool,
}

impl Drop for SortedFile<'_> {
    fn drop(&mut self) {
        // on a full disk it would be in the way
        if !self.finished {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl<'a> SortedFile<'a> {
    pub fn create(options: &'a Options, path: PathBuf, state: &'a str) -> Result<Self, StateError> {
        let mut writer = SstFileWriter::create(options);
        writer.open(&path).map_err(|e| database(state, &path, "writing a file of", e))?;
        Ok(Self { writer, path, state, finished: false })
    }

    /// Adds an entry; keys must ascend.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StateError> {
        self.writer.put(key, value).map_err(|e| database(self.state, &self.path, "writing a file of", e))
    }

    /// Adds the mark that a key has no entry.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), StateError> {
        self.writer.delete(key).map_err(|e| database(self.state, &self.path, "writing a file of", e))
    }

    pub fn finish(mut self) -> Result<PathBuf, StateError> {
        self.writer.finish().map_err(|e| database(self.state, &self.path, "writing a file of", e))?;
        self.finished = true;
        Ok(std::mem::take(&mut self.path))
    }
}

/// Makes a folder of the backend.
pub(crate) fn make_dir(path: &Path) -> Result<(), StateError> {
    std::fs::create_dir_all(path).map_err(|e| disk(path, "making it", &e))
}
