//! What every file in a job's directory is for: what a person looks at before anything is deleted.

use std::collections::BTreeMap;

use stillstream_types::{CheckpointId, RegisterRecord, StreamHandle, checkpoint_paths};

use crate::checkpoint::JobStorage;
use crate::cleanup::KEEP_FILE;
use crate::error::StorageError;
use crate::metadata::METADATA_FILE;

/// What a file is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileUse {
    /// The register, or the lock of the process that owns the job.
    Register,
    /// State or metadata of one checkpoint that the register names or a person keeps.
    Checkpoint(CheckpointId),
    /// State in `shared/`, named by these checkpoints.
    Shared(Vec<CheckpointId>),
    /// Nothing names it, and it is known why: a checkpoint that was subsumed, aborted or never completed left
    /// it.
    Orphan,
    /// Nothing names it, and it is not known why: it is left alone, for this reason.
    Unsure(&'static str),
}

/// A file of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SurveyedFile {
    /// Relative to the job's directory.
    pub path: String,
    /// Its length in bytes.
    pub len: u64,
    /// What it is for.
    pub used: FileUse,
}

/// All files of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Survey {
    /// The register's record.
    pub record: RegisterRecord,
    /// By path.
    pub files: Vec<SurveyedFile>,
}

impl Survey {
    /// How many files there are of a kind, and their bytes.
    pub fn total(&self, mut of: impl FnMut(&FileUse) -> bool) -> (u64, u64) {
        let files = self.files.iter().filter(|file| of(&file.used));
        files.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.len))
    }
}

impl JobStorage {
    /// Says of every file what it is for. Reads the register and the metadata of each checkpoint that stays;
    /// writes nothing, and a running job may go on meanwhile: what it writes now and has not completed counts
    /// as [`FileUse::Unsure`].
    ///
    /// # Errors
    /// If there is no register, or if it or a checkpoint that stays cannot be read: then it is not known what
    /// is an orphan.
    pub fn survey(&self) -> Result<Survey, StorageError> {
        // the listing comes first: what is completed after it is not taken for an orphan
        let entries = self.store().list(&self.streams.anchor)?;
        let Some(loaded) = self.load_register()? else {
            return Err(StorageError::NotFound { path: self.register.display() });
        };
        let record = loaded.record;
        let kept = self.kept_directories()?;
        let mut live: BTreeMap<String, Vec<CheckpointId>> = BTreeMap::new();
        let mut stays = Vec::new();
        // a savepoint names nothing here
        let here = record.completed.iter().chain(&record.retained).filter(|named| !named.is_savepoint());
        let named = here.map(|named| (named.id, named.path.clone()));
        let marked = kept.iter().map(|id| (*id, checkpoint_paths::checkpoint(*id)));
        for (id, path) in named.chain(marked) {
            if stays.contains(&id) {
                continue;
            }
            let metadata = match self.read_metadata(&path) {
                // of a checkpoint that its owner has deleted; of one that is marked and was never completed
                Err(error) if error.is_not_found() && record.completed.iter().all(|own| own.id != id) => {
                    continue;
                }
                read => read?,
            };
            stays.push(id);
            for stream in metadata.streams().filter_map(StreamHandle::path) {
                let by = live.entry(stream.to_owned()).or_default();
                if by.last() != Some(&id) {
                    by.push(id);
                }
            }
        }
        let used = |path: &str| {
            let (dir, file) = path.split_once('/').unwrap_or(("", path));
            let known = live.get(path);
            match (dir, checkpoint_paths::checkpoint_of(dir)) {
                (checkpoint_paths::SHARED_FOLDER, _) => {
                    match (known, checkpoint_paths::creator_of_leftover(path)) {
                        (Some(by), _) => FileUse::Shared(by.clone()),
                        (None, Some(creator)) if creator <= record.last_checkpoint_id => FileUse::Orphan,
                        (None, Some(_)) => {
                            FileUse::Unsure("its number is higher than any that the register knows")
                        }
                        (None, None) => FileUse::Unsure("its name is not one that is given here"),
                    }
                }
                (_, Some(id)) if known.is_some() => FileUse::Checkpoint(id),
                (_, Some(id)) if kept.contains(&id) => FileUse::Checkpoint(id),
                (_, Some(id)) if stays.contains(&id) => match file {
                    METADATA_FILE | KEEP_FILE => FileUse::Checkpoint(id),
                    _ => FileUse::Unsure("it lies beside a checkpoint that does not name it"),
                },
                (_, Some(id)) if id > record.last_checkpoint_id => {
                    FileUse::Unsure("its number is higher than any that the register knows")
                }
                (_, Some(_)) => FileUse::Orphan,
                ("register", _) => FileUse::Register,
                ("", _) if file.starts_with('.') => FileUse::Register,
                _ => FileUse::Unsure("its place is not one of a checkpoint's files"),
            }
        };
        let mut files: Vec<SurveyedFile> = entries
            .iter()
            .filter_map(|entry| Some((self.path_of(&entry.key)?, entry.len)))
            .map(|(path, len)| SurveyedFile { path: path.to_owned(), len, used: used(path) })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Survey { record, files })
    }
}
