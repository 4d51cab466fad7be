//! The writer of one subtask: roll, pre-commit, commit, recovery.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use stillstream_runtime::Batch;
use stillstream_runtime::connect::{Committer, Prepared, SinkContext, SinkWriter};
use stillstream_state::Data;
use stillstream_types::file_access::FileAccess;
use stillstream_types::{CheckpointId, Result};

use super::committed::Committed;
use super::names::{COMMITTED, Part, STAGING, SinkTag, Staged};
use super::rename::rename_new;
use super::staged_file::{StagedFile, sync_folder};
use super::{Encode, FileSink};
use crate::ConnectorError;

/// A pre-committed file and the name that its commit gives it, both relative to the sink's folder.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct CommittableFile {
    staged: String,
    target: String,
}

/// The files that one subtask wrote for one checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub struct FileCommittable {
    files: Vec<CommittableFile>,
    /// The sink's folder when they were written, as an absolute path; empty if it was written before releases
    /// kept it. A job that goes on with another folder commits what was written to this one where it lies.
    folder: String,
}

pub(crate) struct FileWriter<T> {
    folder: PathBuf,
    tag: SinkTag,
    /// The staging folder's name.
    staging: String,
    access: FileAccess,
    /// `None` in a job without checkpoints, which commits once and never again.
    committed: Option<Committed>,
    extension: String,
    roll_at: u64,
    encode: Encode<T>,
    generation: u64,
    subtask: u32,
    parallelism: u32,
    next_number: u64,
    current: Option<StagedFile>,
    /// Parts that have reached their size and wait for the checkpoint.
    closed: Vec<StagedFile>,
}

/// Names in a folder; none if there is no such folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, ConnectorError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(ConnectorError::read(folder))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => names.extend(entry.file_name().into_string().ok()),
            Err(error) => return Err(ConnectorError::read(folder)(error)),
        }
    }
    Ok(names)
}

fn exists(path: &Path) -> Result<bool, ConnectorError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(ConnectorError::read(path)(error)),
    }
}

impl CommittableFile {
    /// The part, and the checkpoint that it was prepared for; `None` for a name that no release gives.
    fn prepared_for(&self) -> Option<(Part, u64)> {
        match Staged::parse(self.staged.rsplit('/').next()?)? {
            Staged::PreCommitted(part, checkpoint) => Some((part, checkpoint)),
            Staged::InProgress(_) => None,
        }
    }
}

impl<T> FileWriter<T> {
    pub fn open(sink: &FileSink<T>, context: &SinkContext) -> Result<Self, ConnectorError> {
        let (folder, access) = (sink.folder.clone(), context.file_access);
        let tag = SinkTag::new(context.job, context.operator, &context.checkpoint_storage);
        let staging = tag.staging_folder();
        let (generation, subtask) = (context.generation, context.subtask.0);
        if !folder.exists() {
            access.create_dir_all(&folder).map_err(ConnectorError::write(&folder))?;
            // the folder's own name must be as durable as what will be committed into it
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_folder(parent.unwrap_or(Path::new(".")))?;
        }
        // a part never takes the place of another one, also if this run has the generation of an earlier one
        let staged = names(&folder.join(&staging))?.into_iter().filter_map(|name| Staged::parse(&name));
        let committed = names(&folder)?.into_iter().filter_map(|name| Part::of_committed(&tag, &name));
        let next_number = staged
            .map(Staged::part)
            .chain(committed)
            .filter(|part| part.generation == generation && part.subtask == subtask)
            .map(|part| part.number.saturating_add(1))
            .max()
            .unwrap_or(0);
        let marks = folder.join(tag.committed_folder());
        let committed = context.checkpointing.then(|| Committed::new(marks, access));
        Ok(Self {
            folder,
            tag,
            staging,
            access,
            committed,
            extension: sink.extension.clone(),
            roll_at: sink.roll_at,
            encode: sink.encode.clone(),
            generation,
            subtask,
            parallelism: context.parallelism,
            next_number,
            current: None,
            closed: Vec::new(),
        })
    }

    fn staging(&self) -> PathBuf {
        self.folder.join(&self.staging)
    }

    /// The staging folder goes when nothing is in it, so that no temporary file is left when the job ends.
    fn tidy(&self) {
        if self.current.is_none() && self.closed.is_empty() {
            let _ = fs::remove_dir(self.staging()); // fails while other subtasks have files in it
        }
    }

    fn append(&mut self, rows: &[T]) -> Result<(), ConnectorError> {
        if rows.is_empty() {
            return Ok(());
        }
        if self.current.is_none() {
            let part = Part { generation: self.generation, subtask: self.subtask, number: self.next_number };
            self.next_number += 1;
            self.current = Some(StagedFile::create(&self.staging(), part, self.access)?);
        }
        if let Some(file) = &mut self.current {
            let (encode, first) = (&self.encode, file.len() == 0);
            file.append(|out| encode(rows, first, out))?;
            if file.len() >= self.roll_at {
                self.closed.extend(self.current.take());
            }
        }
        Ok(())
    }

    fn remove_left_overs(&self, restored: u64) -> Result<(), ConnectorError> {
        let staging = self.staging();
        for name in names(&staging)? {
            let staged = Staged::parse(&name);
            if staged.is_some_and(|staged| staged.is_left_over(self.generation, self.subtask, restored)) {
                let path = staging.join(name);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(ConnectorError::write(&path)(error));
                    }
                    _ => {} // another subtask may have been faster
                }
            }
        }
        self.tidy();
        self.committed.as_ref().map_or(Ok(()), |committed| committed.tidy(self.subtask, self.parallelism))
    }
}

/// Commits what writers of the sink have pre-committed.
pub(crate) struct FileCommitter {
    folder: PathBuf,
    /// The staging folder's name.
    staging: String,
    access: FileAccess,
    /// `None` in a job without checkpoints, which commits once and never again.
    committed: Option<Committed>,
}

impl FileCommitter {
    pub fn open<T>(sink: &FileSink<T>, context: &SinkContext) -> Self {
        let folder = sink.folder.clone();
        let tag = SinkTag::new(context.job, context.operator, &context.checkpoint_storage);
        let marks = folder.join(tag.committed_folder());
        let committed = context.checkpointing.then(|| Committed::new(marks, context.file_access));
        Self { folder, staging: tag.staging_folder(), access: context.file_access, committed }
    }

    /// Commits a file that waits in this folder, or sees that it was committed there. `false`: it is not, and
    /// was not, there.
    fn commit_file(&mut self, folder: &Path, file: &CommittableFile) -> Result<bool, ConnectorError> {
        let (staged, target) = (folder.join(&file.staged), folder.join(&file.target));
        let mut elsewhere;
        let staging = file.staged.split_once('/').map_or("", |(staging, _)| staging);
        let marks = match folder == self.folder && staging == self.staging {
            true => self.committed.as_mut(),
            // of another folder, or of a run that kept its checkpoints elsewhere: its own marks tell of it
            false => {
                let name = staging.strip_prefix(STAGING).unwrap_or_default();
                elsewhere = Committed::new(folder.join(format!("{COMMITTED}{name}")), self.access);
                Some(&mut elsewhere)
            }
        };
        if exists(&staged)? {
            if let (Some(committed), Some((part, checkpoint))) = (marks, file.prepared_for()) {
                committed.note(part, checkpoint)?;
            }
            return match rename_new(&staged, &target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Err(ConnectorError::TargetTaken { staged, target })
                }
                renamed => renamed.map(|()| true).map_err(ConnectorError::write(&target)),
            };
        }
        if exists(&target)? {
            return Ok(true); // committed before
        }
        // its reader may have taken it away
        match (marks, file.prepared_for()) {
            (Some(committed), Some((part, checkpoint))) => committed.knows(part, checkpoint),
            _ => Ok(false),
        }
    }

    fn commit(&mut self, committable: &FileCommittable) -> Result<(), ConnectorError> {
        let own = self.folder.clone();
        let before = Path::new(&committable.folder);
        let moved = !committable.folder.is_empty() && absolute(&own) != before;
        let mut used_before = false;
        for file in &committable.files {
            if self.commit_file(&own, file)? {
                continue;
            }
            // the job goes on with another folder: what was written before it did lies in the old one
            if !moved || !self.commit_file(before, file)? {
                let folder = if moved { before } else { &own };
                let (staged, target) = (folder.join(&file.staged), folder.join(&file.target));
                return Err(ConnectorError::StagedFileLost { staged, target });
            }
            used_before = true;
        }
        sync_folder(&own)?;
        if used_before {
            sync_folder(before)?;
        }
        // the staging folder goes when nothing is in it; this fails while it holds files
        let _ = fs::remove_dir(own.join(&self.staging));
        for file in &committable.files {
            // of another job, from whose checkpoint this one began, or in the folder that it had before
            match file.staged.split_once('/') {
                Some((staging, _)) if used_before => {
                    let _ = fs::remove_dir(before.join(staging));
                }
                Some((staging, _)) if staging != self.staging => {
                    let _ = fs::remove_dir(own.join(staging)); // fails while files are in it
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The folder as later runs of the job find it, wherever they are started. Empty for a name that is no text:
/// then only a run with the same folder finds what was written.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_default()
}

impl Committer<FileCommittable> for FileCommitter {
    fn commit(&mut self, committable: &FileCommittable) -> Result<()> {
        FileCommitter::commit(self, committable).map_err(ConnectorError::into_error)
    }
}

impl<T: Data> SinkWriter<T, FileCommittable> for FileWriter<T> {
    fn write(&mut self, batch: Batch<T>) -> Result<()> {
        self.append(&batch.values).map_err(ConnectorError::into_error)
    }

    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<Option<Prepared<FileCommittable>>> {
        let mut parts = std::mem::take(&mut self.closed);
        parts.extend(self.current.take());
        if parts.is_empty() {
            return Ok(None);
        }
        let files = parts.iter().map(|file| CommittableFile {
            staged: format!("{}/{}", self.staging, file.part.pre_committed(checkpoint.0)),
            target: file.part.committed(&self.tag, &self.extension),
        });
        let folder = absolute(&self.folder).to_str().unwrap_or_default().to_owned();
        let committable = FileCommittable { files: files.collect(), folder };
        let staging = self.staging();
        // flush, fsync and rename are the asynchronous part: a full disk declines the checkpoint and not the
        // job
        let make_durable = move || {
            for part in &mut parts {
                let target = staging.join(part.part.pre_committed(checkpoint.0));
                part.pre_commit(&target).map_err(ConnectorError::into_error)?;
            }
            sync_folder(&staging).map_err(ConnectorError::into_error)
        };
        Ok(Some(Prepared { committable, make_durable: Some(Box::new(make_durable)) }))
    }

    fn recovered(&mut self, restored: Option<CheckpointId>) -> Result<()> {
        self.remove_left_overs(restored.map_or(0, |id| id.0)).map_err(ConnectorError::into_error)
    }

    fn finished(&mut self) -> Result<()> {
        if let Some(committed) = &self.committed {
            committed.forget(self.subtask, self.parallelism).map_err(ConnectorError::into_error)?;
        }
        Ok(())
    }
}

impl<T> Drop for FileWriter<T> {
    /// Whatever was not prepared can't be committed any more.
    fn drop(&mut self) {
        self.closed.drain(..).chain(self.current.take()).for_each(StagedFile::abort);
        self.tidy();
    }
}
