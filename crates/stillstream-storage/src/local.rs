//! Files on a disk of this machine, or on one that is mounted.
//!
//! A file is written under a temporary name in its own folder, synced, moved to its name, and the folder is
//! synced: after a power cut it is absent or whole. `object_store`'s own local store can do the same
//! (`with_fsync`), but takes a snapshot as a series of buffered parts; here the bytes go from the writer's
//! buffer to the disk, those of large files past the page cache.

mod disk_file;
mod place;

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stillstream_types::file_access::FileAccess;

use crate::error::{SHORT, StorageError};
use crate::options::StorageOptions;
use crate::store::{
    BlobStore, BlobWriter, CasSupport, Created, Deleted, Entry, Replaced, Tag, check_key, not_found,
};
use disk_file::{Buffer, DiskFile, Spare};
use place::{Place, Published, open_regular};

/// Metadata and registers are read as a whole; this is more than any has.
const LARGEST_WHOLE: u64 = 1 << 30;

/// One step that a [`LocalStore`] asks of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskStep<'a> {
    /// A folder is made.
    MakeDir(&'a Path),
    /// A temporary file is made.
    Create(&'a Path),
    /// Bytes are given to the operating system.
    Write {
        /// The temporary file.
        path: &'a Path,
        /// How many bytes.
        len: usize,
    },
    /// A file's bytes are made durable.
    SyncFile(&'a Path),
    /// A file gets its name; an older file of that name is replaced.
    Rename {
        /// The temporary file.
        from: &'a Path,
        /// Its name.
        to: &'a Path,
    },
    /// A file gets its name, unless the name is taken.
    Link {
        /// The temporary file.
        from: &'a Path,
        /// Its name.
        to: &'a Path,
    },
    /// A folder's names are made durable.
    SyncDir(&'a Path),
    /// A file is removed.
    Remove(&'a Path),
}

/// Sees every step before and after it is done; an error from [`before`](DiskHook::before) takes the step's
/// place. Tests use it for full disks and power cuts.
pub trait DiskHook: Send + Sync + Debug {
    /// Called before the step.
    fn before(&self, step: DiskStep<'_>) -> io::Result<()>;
    /// Called after the step, if it succeeded.
    fn after(&self, step: DiskStep<'_>);
    /// Whether the disk is really asked to sync. A simulated disk that keeps count itself can do without.
    fn really_syncs(&self) -> bool {
        true
    }
}

/// A folder as a [`BlobStore`].
#[derive(Clone, Debug)]
pub struct LocalStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    write_buffer: usize,
    spare: Spare,
    tag: u64,
    next_temp: AtomicU64,
    access: FileAccess,
    hook: Option<Arc<dyn DiskHook>>,
    /// Folders that this process was promised, see [`BlobStore::local_folder`].
    places: Mutex<Vec<Place>>,
}

impl LocalStore {
    /// The folder `root`, which is made when the first file is written.
    pub fn new(root: impl Into<PathBuf>, options: &StorageOptions) -> Self {
        Self::build(root.into(), options, None)
    }

    /// The same with a hook that sees every step.
    pub fn with_hook(root: impl Into<PathBuf>, options: &StorageOptions, hook: Arc<dyn DiskHook>) -> Self {
        Self::build(root.into(), options, Some(hook))
    }

    fn build(root: PathBuf, options: &StorageOptions, hook: Option<Arc<dyn DiskHook>>) -> Self {
        // whole blocks, for direct writes
        let write_buffer = options.write_buffer.max(1).next_multiple_of(4096);
        let (tag, spare, next_temp) = (options.process_tag, Spare::default(), AtomicU64::new(0));
        let access = options.file_access;
        Self(Arc::new(Inner {
            root,
            write_buffer,
            spare,
            tag,
            next_temp,
            access,
            hook,
            places: Mutex::default(),
        }))
    }

    fn path(&self, key: &str) -> Result<PathBuf, StorageError> {
        check_key(key)?;
        Ok(self.0.root.join(key))
    }

    fn dir(&self, prefix: &str) -> Result<PathBuf, StorageError> {
        if prefix.is_empty() { Ok(self.0.root.clone()) } else { self.path(prefix) }
    }

    fn open_temp(&self, path: PathBuf) -> Result<LocalWriter, StorageError> {
        let number = self.0.next_temp.fetch_add(1, Ordering::Relaxed);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temp = path.with_file_name(format!(".{name}.{:016x}-{number}.tmp", self.0.tag));
        let inner = self.0.clone();
        let fail = |error| StorageError::io("create", shown(&path), error);
        inner.check_place(&path).map_err(fail)?;
        // cleaning up may remove an empty folder between the two steps
        let mut tries = 0;
        let file = loop {
            if let Some(parent) = path.parent() {
                inner.make_dirs(parent).map_err(fail)?;
            }
            let make = || inner.access.options().write(true).create_new(true).open(&temp);
            match inner.step(DiskStep::Create(&temp), make) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < 3 => tries += 1,
                made => break made.map_err(fail)?,
            }
        };
        let (file, buffer) = (Some(DiskFile::new(file)), Buffer::default());
        Ok(LocalWriter { inner, file, temp, path, buffer })
    }
}

impl Inner {
    fn step<T>(&self, step: DiskStep<'_>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(hook) = &self.hook else { return act() };
        hook.before(step)?;
        let done = act()?;
        hook.after(step);
        Ok(done)
    }

    fn really_syncs(&self) -> bool {
        self.hook.as_ref().is_none_or(|hook| hook.really_syncs())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step(DiskStep::SyncDir(dir), || {
            if cfg!(unix) && self.really_syncs() { File::open(dir)?.sync_all() } else { Ok(()) }
        })
    }

    /// Makes the folder and those above it, each one durable within the one above.
    fn make_dirs(&self, dir: &Path) -> io::Result<()> {
        if dir.as_os_str().is_empty() || dir.is_dir() {
            return Ok(());
        }
        // one that this process was promised is not made anew: it was moved away a moment ago
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.iter().filter(|place| place.is_below(dir)).try_for_each(Place::check)?;
        drop(places);
        if let Some(parent) = dir.parent() {
            self.make_dirs(parent)?;
        }
        match self.step(DiskStep::MakeDir(dir), || self.access.create_dir(dir)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            made => made?,
        }
        // also when another thread made it: its sync may be still to come
        dir.parent().map_or(Ok(()), |parent| self.sync_dir(parent))
    }

    /// Refuses to touch a folder that stands in the place of one that this process was promised.
    fn check_place(&self, path: &Path) -> io::Result<()> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.iter().filter(|place| place.holds(path)).try_for_each(Place::check)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check_place(path)?;
        self.step(DiskStep::Remove(path), || fs::remove_file(path))
    }
}

/// A file under its temporary name.
#[derive(Debug)]
struct LocalWriter {
    inner: Arc<Inner>,
    /// `None` once it has its name.
    file: Option<DiskFile>,
    temp: PathBuf,
    path: PathBuf,
    buffer: Buffer,
}

impl LocalWriter {
    /// Gives what was gathered to the operating system.
    fn flush(&mut self) -> Result<(), StorageError> {
        let (Some(file), bytes) = (&mut self.file, self.buffer.bytes()) else { return Ok(()) };
        let step = DiskStep::Write { path: &self.temp, len: bytes.len() };
        let written = self.inner.step(step, || file.write(bytes, &self.temp));
        self.buffer.clear();
        written.map_err(|error| StorageError::io("write", shown(&self.path), error))
    }

    /// Everything up to the moment where the file could be given its name.
    fn sync(&mut self) -> Result<(), StorageError> {
        if !self.buffer.bytes().is_empty() {
            self.flush()?;
        }
        let Some(file) = &self.file else { return Ok(()) };
        let synced = self.inner.step(DiskStep::SyncFile(&self.temp), || {
            if self.inner.really_syncs() { file.sync() } else { Ok(()) }
        });
        synced.map_err(|error| StorageError::io("sync", shown(&self.path), error))
    }

    fn sync_parent(&self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), |dir| self.inner.sync_dir(dir))
    }

    /// Gives the file its name unless the name is taken.
    fn publish_new(mut self) -> Result<Created, StorageError> {
        self.sync()?;
        // a link is the one call that is both atomic and refuses to replace
        let step = DiskStep::Link { from: &self.temp, to: &self.path };
        let linked = self.inner.step(step, || fs::hard_link(&self.temp, &self.path));
        if let Err(error) = linked {
            // a call that was reported as failed may have taken effect, on a mounted disk above all
            match place::published(&self.temp, &self.path, &error) {
                Published::Yes => {}
                Published::Taken => return Ok(Created::Exists),
                Published::No => return Err(StorageError::io("create", shown(&self.path), error)),
                Published::Unknown => {
                    return Err(StorageError::Indeterminate {
                        operation: "create",
                        path: shown(&self.path),
                        reason: error.to_string(),
                    });
                }
            }
        }
        self.sync_parent().map_err(|error| StorageError::Indeterminate {
            operation: "create",
            path: shown(&self.path),
            reason: format!("its folder could not be synced: {error}"),
        })?;
        Ok(Created::New(None))
    }
}

impl BlobWriter for LocalWriter {
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        loop {
            let filled = self.buffer.fill(bytes, self.inner.write_buffer, &self.inner.spare);
            bytes = &bytes[filled..];
            // one that is full stays: it may be all
            if bytes.is_empty() {
                return Ok(());
            }
            self.flush()?;
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), StorageError> {
        self.sync()?;
        let step = DiskStep::Rename { from: &self.temp, to: &self.path };
        let renamed = self.inner.step(step, || fs::rename(&self.temp, &self.path));
        renamed.map_err(|error| StorageError::io("rename", shown(&self.path), error))?;
        self.file = None;
        self.sync_parent().map_err(|error| {
            // nobody will name it: take it away rather than leave an orphan
            let _ = self.inner.remove(&self.path);
            StorageError::io("sync the folder of", shown(&self.path), error)
        })
    }
}

impl Drop for LocalWriter {
    fn drop(&mut self) {
        self.buffer.give_back(&self.inner.spare);
        if self.file.take().is_some()
            && let Err(error) = self.inner.remove(&self.temp)
            && !not_found(&error)
            // it may have gone with its folder
            && self.temp.exists()
        {
            tracing::warn!(path = %shown(&self.temp), %error, "a temporary file could not be removed");
        }
    }
}

impl BlobStore for LocalStore {
    fn display(&self, key: &str) -> String {
        if key.is_empty() { shown(&self.0.root) } else { shown(&self.0.root.join(key)) }
    }

    fn local_folder(&self, prefix: &str) -> Result<Option<PathBuf>, StorageError> {
        let dir = self.dir(prefix)?;
        let fail = |error| StorageError::io("make the folder", shown(&dir), error);
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        // whoever asks for it anew begins anew there
        places.retain(|other| !other.is(&dir));
        drop(places);
        self.0.make_dirs(&dir).map_err(fail)?;
        // A process that was killed may have made some of them and not come to the sync. Above the root it is
        // enough that the root's own name is durable.
        let above_root = self.0.root.parent().unwrap_or(&self.0.root);
        for folder in dir.ancestors().take_while(|folder| folder.starts_with(above_root)) {
            self.0.sync_dir(folder).map_err(fail)?;
        }
        let place = Place::new(&dir).map_err(fail)?;
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.push(place);
        drop(places);
        Ok(Some(dir))
    }

    fn cas_support(&self) -> CasSupport {
        CasSupport::CreateNew
    }

    fn put_new(&self, key: &str, bytes: &[u8]) -> Result<Created, StorageError> {
        let mut writer = self.open_temp(self.path(key)?)?;
        writer.write(bytes)?;
        writer.publish_new()
    }

    fn put_if(&self, key: &str, _: &[u8], _: &Tag) -> Result<Replaced, StorageError> {
        Err(StorageError::Io {
            operation: "replace conditionally",
            path: self.display(key),
            source: io::Error::new(io::ErrorKind::Unsupported, "files have no tags"),
        })
    }

    fn create(&self, key: &str) -> Result<Box<dyn BlobWriter>, StorageError> {
        Ok(Box::new(self.open_temp(self.path(key)?)?))
    }

    fn get(&self, key: &str) -> Result<(Vec<u8>, Option<Tag>), StorageError> {
        let path = self.path(key)?;
        let fail = |error| StorageError::io("read", shown(&path), error);
        let mut file = open_regular(&path).map_err(fail)?;
        let found = file.metadata().map_err(fail)?.len();
        if found > LARGEST_WHOLE {
            let what = "length in bytes (too long for what is read as a whole)";
            return Err(StorageError::corrupt(shown(&path), what, format!("at most {LARGEST_WHOLE}"), found));
        }
        let mut bytes = Vec::with_capacity(found as usize);
        file.read_to_end(&mut bytes).map_err(fail)?;
        Ok((bytes, None))
    }

    fn read(&self, key: &str, offset: u64, len: u64) -> Result<Vec<u8>, StorageError> {
        let path = self.path(key)?;
        let fail = |error| StorageError::io("read", shown(&path), error);
        let mut file = open_regular(&path).map_err(fail)?;
        let found = file.metadata().map_err(fail)?.len();
        let short = |end: u64, found: u64| {
            StorageError::corrupt(shown(&path), SHORT, format!("at least {end}"), found)
        };
        // checked before the bytes are asked for: a damaged handle must not ask for all memory
        let end = offset.saturating_add(len);
        if found < end {
            return Err(short(end, found));
        }
        file.seek(SeekFrom::Start(offset)).map_err(fail)?;
        let mut bytes = Vec::with_capacity(len as usize);
        file.take(len).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 != len {
            return Err(short(end, offset + bytes.len() as u64));
        }
        Ok(bytes)
    }

    fn len(&self, key: &str) -> Result<u64, StorageError> {
        let path = self.path(key)?;
        let fail = |error| StorageError::io("look at", shown(&path), error);
        let metadata = fs::metadata(&path).map_err(fail)?;
        if !metadata.is_file() {
            return Err(StorageError::NotFound { path: shown(&path) });
        }
        Ok(metadata.len())
    }

    fn list(&self, prefix: &str) -> Result<Vec<Entry>, StorageError> {
        let mut entries = Vec::new();
        list_into(&self.dir(prefix)?, prefix, &mut entries)?;
        Ok(entries)
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, StorageError> {
        let dir = self.dir(prefix)?;
        let fail = |error| StorageError::io("list", shown(&dir), error);
        let entries = match fs::read_dir(&dir) {
            Err(error) if not_found(&error) => return Ok(Vec::new()),
            entries => entries.map_err(fail)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fail)?;
            // also one that a link leads to; a name that is not UTF-8 is none of ours
            if let (true, Ok(name)) = (entry.path().is_dir(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn delete(&self, key: &str) -> Result<Deleted, StorageError> {
        let path = self.path(key)?;
        match self.0.remove(&path) {
            Ok(()) => Ok(Deleted::Yes),
            Err(error) if not_found(&error) => Ok(Deleted::NotFound),
            Err(error) => Err(StorageError::io("delete", shown(&path), error)),
        }
    }

    fn remove_empty_dirs(&self, prefix: &str) -> Result<(), StorageError> {
        remove_empty(&self.dir(prefix)?)
    }

    fn sync_folder(&self, prefix: &str) -> Result<(), StorageError> {
        let dir = self.dir(prefix)?;
        match self.0.sync_dir(&dir) {
            Err(error) if !not_found(&error) => Err(StorageError::io("sync", shown(&dir), error)),
            _ => Ok(()),
        }
    }
}

fn list_into(dir: &Path, prefix: &str, entries: &mut Vec<Entry>) -> Result<(), StorageError> {
    let fail = |error| StorageError::io("list", shown(dir), error);
    let found = match fs::read_dir(dir) {
        Err(error) if not_found(&error) => return Ok(()),
        found => found.map_err(fail)?,
    };
    for entry in found {
        let entry = entry.map_err(fail)?;
        // a name that is not UTF-8 is none of ours
        let Ok(name) = entry.file_name().into_string() else { continue };
        let key = crate::store::join(prefix, &name);
        match entry.metadata() {
            // a link is not followed: what is behind it is not ours to delete
            Ok(metadata) if metadata.is_dir() => list_into(&entry.path(), &key, entries)?,
            Ok(metadata) => entries.push(Entry { key, len: metadata.len() }),
            // gone since the listing began
            Err(error) if not_found(&error) => {}
            Err(error) => return Err(fail(error)),
        }
    }
    Ok(())
}

fn remove_empty(dir: &Path) -> Result<(), StorageError> {
    let fail = |error: io::Error| match error {
        error if not_found(&error) || error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        error => Err(StorageError::io("remove the folder", shown(dir), error)),
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => return fail(error),
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path())?;
        }
    }
    fs::remove_dir(dir).or_else(fail)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
