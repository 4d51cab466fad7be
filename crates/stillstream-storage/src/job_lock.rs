//! The lock on a local job directory: one live process at a time, and a note of how far the register went.
//!
//! The file `.lock` holds the process' number and the register's version, which is brought up to date after
//! each write. The note is not synced, so after a power cut it may be behind the register; it is never ahead
//! of it. If it is, versions of the register were lost by other means, and a start must not go on from the
//! older one in silence.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use stillstream_types::file_access::FileAccess;

use crate::checkpoint::JobStorage;
use crate::error::StorageError;

/// What the process that had the job before noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Noted {
    /// There was none, or it noted nothing readable.
    Nothing,
    /// Only its number: releases before 0.2 noted no more.
    Process,
    /// The register's version; 0: it had not written the register yet.
    Version(u64),
}

/// Held as long as this process owns the job; the operating system lets go of it when the process dies.
#[derive(Debug)]
pub(crate) struct JobLock {
    file: File,
    path: PathBuf,
    noted: Noted,
}

impl JobLock {
    /// Takes the lock; `None` where the directory is not local, or when locking is switched off.
    pub fn take(storage: &JobStorage) -> Result<Option<Self>, StorageError> {
        let Some(dir) = storage.store().local_folder(&storage.streams.anchor)? else { return Ok(None) };
        if !storage.options.exclusive_lock {
            return Ok(None);
        }
        let path = dir.join(".lock");
        let shown = || path.display().to_string();
        let fail = |error| StorageError::io("lock", shown(), error);
        let mut file = open(&path, storage.options.file_access).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = match read(&mut file).unwrap_or_default().lines().next() {
                    None | Some("") => "another process".to_owned(),
                    Some(pid) => format!("process {}", pid.trim()),
                };
                return Err(StorageError::Locked { path: shown(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        let noted = parse(&read(&mut file).map_err(fail)?);
        let mut lock = Self { file, path: path.clone(), noted };
        lock.write(match noted {
            Noted::Nothing => Some(0),
            Noted::Process => None,
            Noted::Version(number) => Some(number),
        })
        .map_err(fail)?;
        Ok(Some(lock))
    }

    /// What was noted before this process took the lock.
    pub fn noted(&self) -> Noted {
        self.noted
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes the register's version. A note that cannot be written stays behind, which proves nothing later.
    pub fn note(&mut self, version: u64) {
        if let Err(error) = self.write(Some(version)) {
            tracing::debug!(path = %self.path.display(), %error, "the register's version was not noted");
        }
    }

    fn write(&mut self, version: Option<u64>) -> io::Result<()> {
        let register = version.map_or_else(String::new, |version| format!("register {version}\n"));
        let text = format!("{}\n{register}", std::process::id());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(text.as_bytes())?;
        // what a longer text left behind it goes last: the file is never empty in between
        self.file.set_len(text.len() as u64)
    }
}

fn open(path: &Path, access: FileAccess) -> io::Result<File> {
    access.options().read(true).write(true).create(true).truncate(false).open(path)
}

fn read(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(1024).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse(text: &str) -> Noted {
    let mut lines = text.lines();
    if lines.next().is_none_or(|pid| pid.trim().parse::<u32>().is_err()) {
        return Noted::Nothing;
    }
    match lines.next() {
        None => Noted::Process,
        Some(line) => match line.strip_prefix("register ").and_then(|number| number.parse().ok()) {
            // a line that lost its end may have lost digits
            Some(number) if text.ends_with('\n') => Noted::Version(number),
            _ => Noted::Nothing,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_how_far_the_register_went_or_nothing_at_all() {
        for (text, noted) in [
            ("", Noted::Nothing),
            ("4711\n", Noted::Process),
            ("4711", Noted::Process),
            ("4711\nregister 0\n", Noted::Version(0)),
            ("4711\nregister 57\n", Noted::Version(57)),
            ("4711\nregister 5", Noted::Nothing),
            ("4711\nregis", Noted::Nothing),
            ("\0\0\0\0", Noted::Nothing),
        ] {
            assert_eq!(parse(text), noted, "{text:?}");
        }
    }
}
