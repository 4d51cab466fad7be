//! Which commits were made, known without the files that they made.
//!
//! A commit renames a pre-committed part to its final name, and from then on the part belongs to its readers,
//! who may take it away at once. After a crash the same commit is asked for again, and neither name is there.
//! Whether the part was committed or lost is told by a *mark*: an empty file
//! `<generation>-<subtask>-<checkpoint>` in a folder of its own, made durable *before* the rename. It says
//! that everything which this subtask of this attempt prepared up to this checkpoint may have been renamed.
//! So a part that is neither staged nor in place was committed if there is such a mark, and is lost if there
//! is none.
//!
//! A writer has one mark, which is renamed as it goes on. Marks of attempts long gone are removed when a job
//! starts, and all of them when it has finished.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use stillstream_types::file_access::FileAccess;

use super::names::Part;
use super::staged_file::sync_folder;
use super::writer::names;
use crate::ConnectorError;

/// The marks of this many attempts stay: an old checkpoint that a person starts from was committed by one of
/// them.
const KEEP_ATTEMPTS: usize = 64;

/// What one writer has committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    generation: u64,
    subtask: u32,
    checkpoint: u64,
}

impl Mark {
    fn name(self) -> String {
        format!("{}-{}-{}", self.generation, self.subtask, self.checkpoint)
    }

    /// Whether a subtask looks after it.
    fn is_of(self, subtask: u32, parallelism: u32) -> bool {
        self.subtask % parallelism.max(1) == subtask
    }

    fn parse(name: &str) -> Option<Self> {
        let [generation, subtask, checkpoint] = name.splitn(3, '-').collect::<Vec<_>>().try_into().ok()?;
        Some(Self {
            generation: generation.parse().ok()?,
            subtask: subtask.parse().ok()?,
            checkpoint: checkpoint.parse().ok()?,
        })
    }
}

/// The marks of one sink.
#[derive(Debug)]
pub(crate) struct Committed {
    folder: PathBuf,
    access: FileAccess,
    /// Marks that this writer made.
    made: Vec<Mark>,
}

impl Committed {
    pub fn new(folder: PathBuf, access: FileAccess) -> Self {
        Self { folder, access, made: Vec::new() }
    }

    /// Notes that `part`, which was prepared for `checkpoint`, is about to be renamed.
    pub fn note(&mut self, part: Part, checkpoint: u64) -> Result<(), ConnectorError> {
        let mark = Mark { generation: part.generation, subtask: part.subtask, checkpoint };
        let mine =
            self.made.iter_mut().find(|m| (m.generation, m.subtask) == (mark.generation, mark.subtask));
        match mine {
            Some(old) if old.checkpoint >= checkpoint => return Ok(()),
            Some(old) => {
                let (from, to) = (self.folder.join(old.name()), self.folder.join(mark.name()));
                match fs::rename(&from, &to) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        make(&self.folder, &to, self.access)?
                    }
                    renamed => renamed.map_err(ConnectorError::write(&to))?,
                }
                *old = mark;
            }
            None => {
                make(&self.folder, &self.folder.join(mark.name()), self.access)?;
                self.made.push(mark);
            }
        }
        sync_folder(&self.folder)
    }

    /// Whether `part`, which was prepared for `checkpoint` and is nowhere, was committed.
    pub fn knows(&self, part: Part, checkpoint: u64) -> Result<bool, ConnectorError> {
        let covers = |mark: Mark| {
            (mark.generation, mark.subtask) == (part.generation, part.subtask)
                && mark.checkpoint >= checkpoint
        };
        Ok(names(&self.folder)?.iter().filter_map(|name| Mark::parse(name)).any(covers))
    }

    /// Removes the marks of attempts long gone. Each of `parallelism` subtasks looks after its share of them.
    pub fn tidy(&self, subtask: u32, parallelism: u32) -> Result<(), ConnectorError> {
        let marks: Vec<Mark> = names(&self.folder)?.iter().filter_map(|name| Mark::parse(name)).collect();
        let mut generations: Vec<u64> = marks.iter().map(|mark| mark.generation).collect();
        generations.sort_unstable_by(|a, b| b.cmp(a));
        generations.dedup();
        let Some(oldest) = generations.get(KEEP_ATTEMPTS - 1) else { return Ok(()) };
        for mark in
            marks.into_iter().filter(|mark| mark.generation < *oldest && mark.is_of(subtask, parallelism))
        {
            // one that cannot be removed now is removed by a later attempt
            let _ = fs::remove_file(self.folder.join(mark.name()));
        }
        Ok(())
    }

    /// Removes all marks: the job has finished. Each of `parallelism` subtasks looks after its share of them.
    pub fn forget(&self, subtask: u32, parallelism: u32) -> Result<(), ConnectorError> {
        let marks = names(&self.folder)?;
        let marks = marks.iter().filter_map(|name| Mark::parse(name));
        for mark in marks.filter(|mark| mark.is_of(subtask, parallelism)) {
            let _ = fs::remove_file(self.folder.join(mark.name()));
        }
        let _ = fs::remove_dir(&self.folder); // the last one has emptied it
        Ok(())
    }
}

fn make(folder: &Path, path: &Path, access: FileAccess) -> Result<(), ConnectorError> {
    if !folder.is_dir() {
        access.create_dir_all(folder).map_err(ConnectorError::write(folder))?;
        // the marks are as durable as the name of their folder
        folder.parent().map_or(Ok(()), sync_folder)?;
    }
    let made = access.options().write(true).create(true).truncate(false).open(path);
    made.map(drop).map_err(ConnectorError::write(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(generation: u64, subtask: u32) -> Part {
        Part { generation, subtask, number: 7 }
    }

    #[test]
    fn a_writer_has_one_mark_which_covers_its_earlier_checkpoints_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("marks");
        let mut committed = Committed::new(folder.clone(), FileAccess::default());
        assert!(!committed.knows(part(3, 1), 5).unwrap(), "there is no folder yet");
        for checkpoint in [5, 6, 9] {
            committed.note(part(3, 1), checkpoint).unwrap();
        }
        committed.note(part(3, 1), 8).unwrap();
        assert_eq!(names(&folder).unwrap(), ["3-1-9"]);
        let other = Committed::new(folder, FileAccess::default());
        assert!(other.knows(part(3, 1), 9).unwrap() && other.knows(part(3, 1), 5).unwrap());
        for (part, checkpoint) in [(part(3, 1), 10), (part(3, 2), 9), (part(2, 1), 9)] {
            assert!(!other.knows(part, checkpoint).unwrap(), "{part:?} {checkpoint}");
        }
    }

    #[test]
    fn marks_of_attempts_long_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut committed = Committed::new(folder.path().into(), FileAccess::default());
        for generation in 1..=KEEP_ATTEMPTS as u64 + 2 {
            committed.note(part(generation, 0), 1).unwrap();
            committed.note(part(generation, 1), 1).unwrap();
        }
        committed.tidy(0, 2).unwrap();
        assert!(!committed.knows(part(1, 0), 1).unwrap() && !committed.knows(part(2, 0), 1).unwrap());
        assert!(committed.knows(part(3, 0), 1).unwrap(), "of the last attempts");
        assert!(committed.knows(part(1, 1), 1).unwrap(), "another subtask looks after it");
        committed.forget(0, 2).unwrap();
        assert!(!committed.knows(part(3, 0), 1).unwrap() && committed.knows(part(3, 1), 1).unwrap());
        committed.forget(1, 2).unwrap();
        assert!(!folder.path().exists());
    }
}
