//! A checkpoint directory, looked at from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use stillstream_storage::{RetainedCheckpoint, StorageOptions, VerifyMode};
use stillstream_types::{CheckpointId, IncrementalHandle, JobId, StreamHandle, checkpoint_paths};

/// The directory of one job.
pub struct Place(PathBuf);

impl Place {
    /// Of the job with this name whose checkpoints lie in `folder`.
    pub fn of(folder: &Path, job: &str) -> Self {
        Self(folder.join("checkpoints").join(JobId::from_name(job).to_string()))
    }

    /// The files below `shared/`, as a checkpoint names them, with their lengths.
    pub fn shared(&self) -> BTreeMap<String, u64> {
        let entries = fs::read_dir(self.0.join("shared")).into_iter().flatten().map(Result::unwrap);
        let name = |entry: &fs::DirEntry| format!("shared/{}", entry.file_name().to_str().unwrap());
        entries.map(|entry| (name(&entry), entry.metadata().unwrap().len())).collect()
    }

    /// Numbers of the complete checkpoints, oldest first.
    pub fn checkpoints(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().map(|entry| entry.unwrap().path());
        let complete = entries.filter(|path| path.join("_metadata").exists());
        let number = |path: PathBuf| path.file_name()?.to_str()?.strip_prefix("chk-")?.parse::<u64>().ok();
        let mut numbers: Vec<u64> = complete.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    pub fn path(&self, checkpoint: u64) -> PathBuf {
        self.0.join(format!("chk-{checkpoint}"))
    }

    /// A checkpoint, every file of which was found whole.
    pub fn open(&self, checkpoint: u64) -> RetainedCheckpoint {
        let path = self.path(checkpoint);
        let opened = RetainedCheckpoint::open(path.to_str().unwrap(), &StorageOptions::default()).unwrap();
        opened.verify(VerifyMode::Checksums).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        opened
    }

    /// The chains of a checkpoint.
    pub fn chains(&self, checkpoint: u64) -> Vec<IncrementalHandle> {
        let opened = self.open(checkpoint);
        let subtasks = opened.metadata().operators.iter().flat_map(|operator| operator.subtasks.values());
        subtasks.flat_map(|state| state.incremental.clone()).collect()
    }

    /// The shared files that a checkpoint names.
    pub fn named(&self, checkpoint: u64) -> BTreeSet<String> {
        let opened = self.open(checkpoint);
        let shared = opened.metadata().streams().filter(|stream| stream.is_shared());
        shared.filter_map(StreamHandle::path).map(str::to_owned).collect()
    }

    /// Checks that every file that a complete checkpoint names is there and whole, and that there is no
    /// other; but for what the job was writing when it ended, for a checkpoint after the last one.
    pub fn check(&self, what: &str) {
        let checkpoints = self.checkpoints();
        let named: BTreeSet<String> = checkpoints.iter().flat_map(|number| self.named(*number)).collect();
        let last = CheckpointId(checkpoints.last().copied().unwrap_or(0));
        for file in self.shared().into_keys().filter(|file| !named.contains(file)) {
            let by = checkpoint_paths::creator_of_leftover(&file);
            assert!(
                by.is_some_and(|by| by > last),
                "{what}: nobody names {file}; checkpoints {checkpoints:?}"
            );
        }
    }

    /// Bytes that a checkpoint wrote below `shared/`.
    pub fn written(&self, checkpoint: u64) -> u64 {
        let own =
            |(file, _): &(String, u64)| checkpoint_paths::creator(file) == Some(CheckpointId(checkpoint));
        self.shared().into_iter().filter(own).map(|(_, bytes)| bytes).sum()
    }

    /// Every file of a checkpoint, those that it shares included, and what is in it.
    pub fn contents(&self, checkpoint: u64) -> BTreeMap<PathBuf, Vec<u8>> {
        let own = fs::read_dir(self.path(checkpoint)).unwrap().map(|entry| entry.unwrap().path());
        let shared = self.named(checkpoint).into_iter().map(|path| self.0.join(path));
        own.chain(shared).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}
