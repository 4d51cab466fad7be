//! A snapshot that becomes a job's own: whose it is, and how it is deleted.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use stillstream_types::{
    CheckpointMetadata, RegisterRecord, SnapshotIdentity, StreamHandle, checkpoint_paths,
};
use tokio::runtime::Handle;

use crate::cleanup::KEEP_FILE;
use crate::error::StorageError;
use crate::metadata::{METADATA_FILE, decode};
use crate::retained::RetainedCheckpoint;
use crate::store::{Deleted, check_key, join};

impl RetainedCheckpoint {
    /// What the register says of the job in whose directory the checkpoint lies; `None` where there is no
    /// register, as beside a savepoint or in a copy of the directory that has none.
    ///
    /// # Errors
    /// If there is one that cannot be read.
    pub fn owner(&self, handle: &Handle) -> Result<Option<RegisterRecord>, StorageError> {
        if self.owns_all() {
            return Ok(None);
        }
        let register = crate::checkpoint::register(self.streams(), 0, handle);
        Ok(register.load()?.map(|loaded| loaded.record))
    }

    /// Deletes the snapshot: its metadata first and durably, then the files that it names in its own
    /// directory, then those in `shared/` that no other checkpoint beside it names. Where another one cannot
    /// be read, all shared files stay. Says what stayed, and why.
    ///
    /// Only for a snapshot that `identity` is still of: what somebody else has put in its place is left
    /// alone.
    ///
    /// # Errors
    /// If a file that is to go cannot be deleted; a repetition goes on where this one stopped.
    pub fn discard(self, identity: &SnapshotIdentity) -> Result<Vec<String>, StorageError> {
        let mut left = Vec::new();
        if SnapshotIdentity::of(self.metadata()) != *identity {
            left.push(format!(
                "`{}`: it is another snapshot than the one that was claimed",
                self.directory()
            ));
            return Ok(left);
        }
        let streams = self.streams();
        let (store, key) = (&streams.store, self.key());
        let own: BTreeSet<String> = paths(self.metadata()).map(|path| join(&streams.anchor, path)).collect();
        let (inside, mut shared): (Vec<String>, Vec<String>) =
            own.into_iter().partition(|path| checkpoint_paths::is_below(path, key));
        let shared_folder = join(&streams.anchor, checkpoint_paths::SHARED_FOLDER);
        shared.retain(|path| checkpoint_paths::is_below(path, &shared_folder));
        if !shared.is_empty() {
            match self.named_by_others() {
                Ok(others) => shared.retain(|path| !others.contains(path)),
                Err(error) => {
                    left.push(format!("shared files of `{}`: {error}", self.directory()));
                    shared.clear();
                }
            }
        }
        store.delete(&join(key, METADATA_FILE))?;
        store.sync_folder(key)?;
        let rest: Vec<String> = inside.into_iter().chain([join(key, KEEP_FILE)]).chain(shared).collect();
        rest.iter().try_for_each(|path| check_key(path))?;
        for deleted in store.delete_all(&rest) {
            match deleted? {
                Deleted::Yes | Deleted::NotFound => {}
            }
        }
        store.remove_empty_dirs(key)?;
        Ok(left)
    }

    /// Keys of the files that the other checkpoints of the directory name.
    fn named_by_others(&self) -> Result<HashSet<String>, StorageError> {
        let streams = self.streams();
        let mut found = BTreeMap::new();
        for entry in streams.store.list(&streams.anchor)? {
            if let Some(directory) =
                entry.key.strip_suffix(METADATA_FILE).and_then(|key| key.strip_suffix('/'))
                && directory != self.key()
            {
                found.insert(directory.to_owned(), entry.key.clone());
            }
        }
        let mut named = HashSet::new();
        for key in found.values() {
            let (bytes, _) = match streams.store.get(key) {
                // deleted meanwhile
                Err(error) if error.is_not_found() => continue,
                read => read?,
            };
            let (metadata, _) = decode(&streams.store.display(key), &bytes)?;
            named.extend(paths(&metadata).map(|path| join(&streams.anchor, path)));
        }
        Ok(named)
    }
}

fn paths(metadata: &CheckpointMetadata) -> impl Iterator<Item = &str> {
    metadata.streams().filter_map(StreamHandle::path)
}
