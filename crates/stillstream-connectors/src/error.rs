//! [`ConnectorError`]: what can go wrong with files and other ends of a job, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use stillstream_types::paths::{absolute, home_mistake};
use stillstream_types::{Error, ErrorKind};

/// Why a source could not be read or a sink not be written.
#[derive(Debug, thiserror::Error)]
pub enum ConnectorError {
    /// A file or folder can't be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A folder holds nothing to read.
    #[error("`{}` holds no files to read; names that begin with `.` or `_` do not count", path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A path begins with `~`.
    #[error("`{}`: {reason}", path.display())]
    HomeFolder {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A source was given no path.
    #[error("no path was given, so there is nothing to read; name a file or a folder")]
    NoPaths,
    /// What a source is to read is not a file.
    #[error(
        "`{}` is {what}: what is read from it cannot be read again after a failure; write it into a file and read that",
        path.display()
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A path is not text, so it can't be kept in a checkpoint.
    #[error("the path `{}` is not valid UTF-8; rename the file", path.display())]
    PathNotText {
        /// The path.
        path: PathBuf,
    },
    /// A file is shorter than the position that a checkpoint has for it.
    #[error(
        "`{}` ends at byte {found}, but {expected} bytes of it were read before the restart: it was replaced or cut; \
         put the old file back, or start without the checkpoint",
        absolute(path).display()
    )]
    FileShrank {
        /// The file.
        path: String,
        /// The position in the checkpoint.
        expected: u64,
        /// The file's length.
        found: u64,
    },
    /// A row does not fit the type.
    #[error(
        "{place}: {why}; the row is `{row}`. Fix the file, or say with `on_malformed` that such rows are skipped or go to a \
         side output"
    )]
    Malformed {
        /// File, line and byte.
        place: String,
        /// What is wrong.
        why: String,
        /// The row, shortened.
        row: String,
    },
    /// A column that the type needs is not in the file.
    #[error("`{}`: {why}; its columns are {columns}", absolute(path).display())]
    Column {
        /// The file.
        path: String,
        /// Which column.
        why: String,
        /// The header.
        columns: String,
    },
    /// A file or folder can't be written.
    #[error("cannot write `{}`: {source}; {}", path.display(), next_step(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A record can't be turned into a row.
    #[error("a record cannot be written to `{}`: {why}", absolute(path).display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The serializer's reason.
        why: String,
    },
    /// A pre-committed file is gone.
    #[error(
        "`{}` was pre-committed, but neither it nor `{}` exists, and it was not committed before: somebody deleted or moved \
         it, and its records are lost; put it back, or restore an older checkpoint to write them again",
        staged.display(), target.display()
    )]
    StagedFileLost {
        /// Where it should wait for its commit.
        staged: PathBuf,
        /// Where it should be after its commit.
        target: PathBuf,
    },
    /// The name that a pre-committed file is to get is taken.
    #[error(
        "`{}` cannot become `{}`: another file has that name, and it would be lost; move that one away, the job goes on from \
         its last checkpoint",
        staged.display(), target.display()
    )]
    TargetTaken {
        /// Where it waits for its commit.
        staged: PathBuf,
        /// The name that is taken.
        target: PathBuf,
    },
    /// A setting makes no sense.
    #[error("{setting} is {found}, {expected} is expected")]
    Setting {
        /// The call.
        setting: &'static str,
        /// The value.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A transaction of `Collect` is not in this process.
    #[error(
        "what was collected for checkpoint {0} is not in this process: `Collect` works within one process only"
    )]
    CollectLost(u64),
}

fn next_step(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on this disk, or let the sink write to another one; the job goes on from its last checkpoint"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "give the process the right to write there, or choose another folder"
        }
        _ => "see that the folder exists and can be written",
    }
}

impl ConnectorError {
    pub(crate) fn read(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: absolute(path), source }
    }

    pub(crate) fn write(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: absolute(path), source }
    }

    /// Refuses a path that a shell would have changed.
    pub(crate) fn check_home(path: &Path) -> Result<(), Self> {
        match home_mistake(path) {
            Some(reason) => Err(Self::HomeFolder { path: path.to_owned(), reason }),
            None => Ok(()),
        }
    }

    /// As the error type of the public API.
    pub fn into_error(self) -> Error {
        let kind = match self {
            // it was in a process that is gone: no restart brings it back
            Self::CollectLost(_) => ErrorKind::Plan,
            _ => ErrorKind::Connector,
        };
        Error::wrap(kind, self)
    }
}
