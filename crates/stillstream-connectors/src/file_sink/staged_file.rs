//! A part file from its creation to its pre-commit.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use stillstream_types::file_access::FileAccess;

use super::names::Part;
use crate::ConnectorError;

/// Bytes that are gathered before a write.
const BUFFER: usize = 256 * 1024;

/// Flushes a folder's entries to disk.
pub(crate) fn sync_folder(path: &Path) -> Result<(), ConnectorError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(ConnectorError::write(path))
}

/// A part that is being written, or waits for its pre-commit.
#[derive(Debug)]
pub(crate) struct StagedFile {
    pub part: Part,
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    written: u64,
}

impl StagedFile {
    /// Creates the part in `folder`, and the folder if need be.
    pub fn create(folder: &Path, part: Part, access: FileAccess) -> Result<Self, ConnectorError> {
        let path = folder.join(part.in_progress());
        let mut attempts = 0;
        let file = loop {
            match access.options().write(true).create_new(true).open(&path) {
                // another subtask may remove the empty folder at any moment
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < 100 => {
                    attempts += 1;
                    match access.create_dir_all(folder) {
                        // made by another one and removed again while this one looked
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !folder.is_file() => {}
                        made => made.map_err(ConnectorError::write(folder))?,
                    }
                }
                result => break result.map_err(ConnectorError::write(&path))?,
            }
        };
        Ok(Self { part, path, file, buffer: Vec::with_capacity(BUFFER), written: 0 })
    }

    #[cfg(test)]
    pub fn over(part: Part, path: PathBuf, file: File) -> Self {
        Self { part, path, file, buffer: Vec::new(), written: 0 }
    }

    pub fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends what `encode` appends.
    pub fn append(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
    ) -> Result<(), ConnectorError> {
        encode(&mut self.buffer).map_err(|why| ConnectorError::Encode { path: self.path.clone(), why })?;
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ConnectorError> {
        let mut done = 0;
        let result = loop {
            match self.file.write(&self.buffer[done..]) {
                _ if done == self.buffer.len() => break Ok(()),
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        // what was written stays written: a later attempt goes on after it
        self.buffer.drain(..done);
        self.written += done as u64;
        result.map_err(ConnectorError::write(&self.path))
    }

    /// Makes the content durable and gives the file its pre-committed name. Can be called again after an
    /// error.
    pub fn pre_commit(&mut self, target: &Path) -> Result<(), ConnectorError> {
        if self.path == target {
            return Ok(());
        }
        self.flush()?;
        self.file.sync_all().map_err(ConnectorError::write(&self.path))?;
        match fs::rename(&self.path, target) {
            // an earlier try was reported as failed although it took effect: nobody else gives a file this
            // name
            Err(error) if error.kind() == io::ErrorKind::NotFound && target.is_file() => {}
            renamed => renamed.map_err(ConnectorError::write(&self.path))?,
        }
        self.path = target.to_owned();
        Ok(())
    }

    /// Gives the part up. A file that can't be deleted is left to the next attempt.
    pub fn abort(self) {
        drop(self.file);
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part { generation: 1, subtask: 0, number: 0 };

    #[test]
    fn a_full_disk_is_named_with_the_file_and_what_to_do() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut part = StagedFile::over(PART, "out/a.csv".into(), full);
        part.append(|bytes| {
            bytes.extend_from_slice(b"row\n");
            Ok(())
        })
        .unwrap();
        for _ in 0..2 {
            let error = part.pre_commit(Path::new("out/b.csv")).unwrap_err().to_string();
            assert!(error.contains("/out/a.csv`") && error.contains("make room"), "{error}");
            assert_eq!(part.len(), 4, "the row still waits for its write");
        }
    }

    #[test]
    fn a_pre_commit_can_be_tried_again_until_it_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let mut part = StagedFile::create(&folder.path().join("s"), PART, FileAccess::default()).unwrap();
        part.append(|bytes| {
            bytes.extend_from_slice(b"row\n");
            Ok(())
        })
        .unwrap();
        let target = folder.path().join("no such folder/b");
        assert!(part.pre_commit(&target).is_err());
        fs::create_dir(target.parent().unwrap()).unwrap();
        part.pre_commit(&target).unwrap();
        part.pre_commit(&target).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "row\n");
    }
}
