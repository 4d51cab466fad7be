//! The register where a store can replace an object on condition of its ETag: one object, never deleted.

use std::sync::Arc;

use stillstream_types::RegisterRecord;

use super::{Loaded, REGISTER_DIR, Register, Version, WriteId, decode, encode};
use crate::error::{CasError, StorageError};
use crate::store::{BlobStore, Created, Replaced, Tag, join};

/// See the [module's description](self).
#[derive(Clone, Debug)]
pub struct TaggedRegister {
    store: Arc<dyn BlobStore>,
    key: String,
    writer: u64,
}

impl TaggedRegister {
    /// The register of the job whose folder within `store` is `job`.
    pub fn new(store: Arc<dyn BlobStore>, job: &str, writer: u64) -> Self {
        Self { store, key: format!("{}/current", join(job, REGISTER_DIR)), writer }
    }

    fn get(&self) -> Result<Option<(Vec<u8>, Tag)>, StorageError> {
        match self.store.get(&self.key) {
            Ok((bytes, tag)) => Ok(Some((bytes, tag.unwrap_or_default()))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The store said that the object is another one. It may be our own: a client that got no answer sends
    /// the same request again, and the second one meets the first one's result.
    fn refused(&self, write: WriteId) -> Result<Version, CasError> {
        let unknown = |error: StorageError| {
            let (path, reason) = (self.display(), format!("it could not be read again: {error}"));
            CasError::Indeterminate(StorageError::Indeterminate { operation: "replace", path, reason })
        };
        let Some((bytes, tag)) = self.get().map_err(unknown)? else {
            return Err(CasError::Conflict(Version::tagged(0, Tag::default())));
        };
        let (_, number, found) = decode(&self.display(), &bytes).map_err(unknown)?;
        let version = Version::tagged(number, tag);
        if found == write { Ok(version) } else { Err(CasError::Conflict(version)) }
    }
}

impl Register for TaggedRegister {
    fn display(&self) -> String {
        self.store.display(&self.key)
    }

    fn load(&self) -> Result<Option<Loaded>, StorageError> {
        let Some((bytes, tag)) = self.get()? else { return Ok(None) };
        let (record, number, write) = decode(&self.display(), &bytes).map_err(|error| {
            StorageError::RegisterUnreadable { looked_at: self.display(), reason: error.to_string() }
        })?;
        let version = Version::tagged(number, tag);
        Ok(Some(Loaded { record, version, damaged: Vec::new(), writer: write.writer }))
    }

    fn head(&self) -> Result<Option<Version>, StorageError> {
        let Some((bytes, tag)) = self.get()? else { return Ok(None) };
        // a damaged record does not say its number; the tag is what counts
        let number = decode(&self.display(), &bytes).map_or(0, |(_, number, _)| number);
        Ok(Some(Version::tagged(number, tag)))
    }

    fn sync(&self) -> Result<(), StorageError> {
        // an object store shows nothing that is not durable
        Ok(())
    }

    fn compare_and_set(&self, expected: Option<&Version>, new: &RegisterRecord) -> Result<Version, CasError> {
        let write = WriteId::next(self.writer);
        let number = expected.map_or(0, |version| version.number).saturating_add(1);
        let bytes = encode(new, number, write);
        let tag = match expected {
            None => match self.store.put_new(&self.key, &bytes)? {
                Created::New(tag) => tag.unwrap_or_default(),
                Created::Exists => return self.refused(write),
            },
            Some(version) => {
                let tag = version.tag.clone().unwrap_or_default();
                match self.store.put_if(&self.key, &bytes, &tag)? {
                    Replaced::New(tag) => tag,
                    Replaced::Mismatch => return self.refused(write),
                }
            }
        };
        Ok(Version::tagged(number, tag))
    }
}
