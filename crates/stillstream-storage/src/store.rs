//! The low-level door: what a disk or an object store must be able to do.
//!
//! Keys are relative to the store's root, with `/` between parts and no `.` or `..`. All calls block.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::error::StorageError;

/// Whether a create-if-absent created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Created {
    /// It did; holds the new tag where the store has tags.
    New(Option<Tag>),
    /// Something was there; nothing was written.
    Exists,
}

/// What a compare-and-set of one object did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replaced {
    /// It replaced the object; holds the new tag.
    New(Tag),
    /// The object's tag is another one, or there is no object; nothing was written.
    Mismatch,
}

/// Whether a delete found something. Both are fine: deleting is idempotent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deleted {
    /// It is gone now. (Most object stores do not say whether it was there.)
    Yes,
    /// It was not there.
    NotFound,
}

/// The identity of one content of one object: ETag and version of an object store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tag {
    /// The ETag.
    pub e_tag: Option<String>,
    /// The store's version id.
    pub version: Option<String>,
}

/// One key of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Relative to the store's root.
    pub key: String,
    /// Its length in bytes.
    pub len: u64,
}

/// How the store can serve a compare-and-set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CasSupport {
    /// Create-if-absent only: [`BlobStore::put_new`].
    CreateNew,
    /// Replace-if-tag-matches too: [`BlobStore::put_if`].
    Tags,
}

/// A place for files.
///
/// What returned `Ok` is durable and visible to every reader. A key is either absent or whole: readers never
/// see a part.
pub trait BlobStore: Send + Sync + fmt::Debug {
    /// The key as a person can find it: an absolute path or a URI.
    fn display(&self, key: &str) -> String;

    /// Where the store lies on a disk of this machine: makes the folder, makes it and all above it durable,
    /// and gives its path. `None` elsewhere.
    fn local_folder(&self, prefix: &str) -> Result<Option<PathBuf>, StorageError>;

    /// Which kind of compare-and-set it has.
    fn cas_support(&self) -> CasSupport;

    /// Creates the object, unless there is one.
    ///
    /// # Errors
    /// `Indeterminate` when it may have been created.
    fn put_new(&self, key: &str, bytes: &[u8]) -> Result<Created, StorageError>;

    /// Replaces the object if its tag is still `tag`. Only with [`CasSupport::Tags`].
    ///
    /// # Errors
    /// `Indeterminate` when it may have been replaced.
    fn put_if(&self, key: &str, bytes: &[u8], tag: &Tag) -> Result<Replaced, StorageError>;

    /// Opens a new object for writing from start to end; it becomes visible with [`BlobWriter::finish`].
    fn create(&self, key: &str) -> Result<Box<dyn BlobWriter>, StorageError>;

    /// Reads the whole object, and its tag where the store has tags.
    fn get(&self, key: &str) -> Result<(Vec<u8>, Option<Tag>), StorageError>;

    /// Reads exactly `len` bytes at `offset`.
    ///
    /// # Errors
    /// `Corrupt` when the object ends before.
    fn read(&self, key: &str, offset: u64, len: u64) -> Result<Vec<u8>, StorageError>;

    /// The object's length.
    fn len(&self, key: &str) -> Result<u64, StorageError>;

    /// Everything below the folder `prefix`, at any depth, in no particular order; empty when there is no
    /// such folder. On a disk it also shows what unfinished writers left.
    fn list(&self, prefix: &str) -> Result<Vec<Entry>, StorageError>;

    /// The names of the folders that lie directly in the folder `prefix`; empty when there is no such folder.
    fn folders(&self, prefix: &str) -> Result<Vec<String>, StorageError> {
        let skip = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
        let entries = self.list(prefix)?;
        let folder = |entry: &Entry| Some(entry.key.get(skip..)?.split_once('/')?.0.to_owned());
        let found: BTreeSet<String> = entries.iter().filter_map(folder).collect();
        Ok(found.into_iter().collect())
    }

    /// Deletes these objects, in as few requests as the store needs; says of each, in their order, what
    /// became of it.
    fn delete_all(&self, keys: &[String]) -> Vec<Result<Deleted, StorageError>> {
        keys.iter().map(|key| self.delete(key)).collect()
    }

    /// Streams below this many bytes are better kept in `_metadata` than in a file of their own, because a
    /// small file costs the store as much as a large one.
    fn inline_at_least(&self) -> usize {
        0
    }

    /// Deletes the object.
    fn delete(&self, key: &str) -> Result<Deleted, StorageError>;

    /// Removes the folder and its sub-folders where they hold no file; nothing on object stores.
    fn remove_empty_dirs(&self, prefix: &str) -> Result<(), StorageError>;

    /// Makes the names in the folder durable, those that were deleted too; nothing on object stores, or where
    /// there is no such folder.
    fn sync_folder(&self, prefix: &str) -> Result<(), StorageError>;
}

/// An object being written. Dropped without [`finish`](BlobWriter::finish), it leaves nothing behind.
pub trait BlobWriter: Send + fmt::Debug {
    /// Appends.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError>;

    /// Makes the object durable and visible under its key.
    fn finish(self: Box<Self>) -> Result<(), StorageError>;
}

/// Refuses keys that would leave the root. Handles come from files, and files can be forged.
pub(crate) fn check_key(key: &str) -> Result<(), StorageError> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0']);
    if key.split('/').all(plain) {
        return Ok(());
    }
    Err(StorageError::BadLocation {
        location: key.into(),
        reason:
            "a path within a snapshot is relative to the job's directory and has no `.`, `..` or empty part"
                .into(),
    })
}

/// `prefix/name`, or `name` where the prefix is empty.
pub(crate) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.into() } else { format!("{prefix}/{name}") }
}

pub(crate) fn not_found(error: &io::Error) -> bool {
    // a part of the path may be a file, or have become one
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
