//! The error of this crate.
//!
//! A write that fails is either *determinate* (surely did not happen) or *indeterminate* (may have happened).
//! Only after a determinate failure may the caller delete what the write would have named.

use std::io;

use stillstream_types::{Error, ErrorKind, Generation};

use crate::register::Version;

/// What can go wrong with checkpoint storage.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The disk or the store refused; whatever was asked for did not happen.
    #[error("cannot {operation} `{path}`: {source}{}", hint(.source))]
    Io {
        /// What was tried, as in `write`.
        operation: &'static str,
        /// Where.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// A write may or may not have happened: time ran out, a connection broke, a folder could not be synced.
    #[error(
        "it is not known whether to {operation} `{path}` succeeded: {reason}; nothing may be deleted until it is read again"
    )]
    Indeterminate {
        /// What was tried, as in `write`.
        operation: &'static str,
        /// Where.
        path: String,
        /// Why it is not known.
        reason: String,
    },
    /// Nothing is there.
    #[error("`{path}` does not exist")]
    NotFound {
        /// Where.
        path: String,
    },
    /// Something else is there already.
    #[error("`{path}` exists already and holds something else: another process writes to this directory")]
    AlreadyExists {
        /// Where.
        path: String,
    },
    /// The bytes are not those that were written.
    #[error(
        "`{path}` is damaged: {what}: expected {expected}, found {found}; use another checkpoint or savepoint"
    )]
    Corrupt {
        /// Which file.
        path: String,
        /// What was compared, as in `checksum (CRC-32C)`.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A place that cannot be used as checkpoint directory or snapshot.
    #[error("`{location}` cannot be used: {reason}")]
    BadLocation {
        /// As it was given.
        location: String,
        /// Why not, and what would do.
        reason: String,
    },
    /// Flink has a file system for the scheme, and this release has not.
    #[error(
        "`{location}`: scheme `{scheme}` is not supported in this release: give a folder that all processes of the job see, \
         such as `/data/checkpoints`, or a location that begins with `s3://`, `hdfs://`, `gs://` or `az://`"
    )]
    SchemeNotSupported {
        /// As it was given.
        location: String,
        /// The scheme.
        scheme: String,
    },
    /// What reaches a store of this scheme was not built into the program.
    #[error(
        "`{location}`: this program was built without the cargo feature `{feature}`: add it to `stillstream` in its Cargo.toml \
         (of the command `stillstream`: build it with `--features {feature}`)"
    )]
    FeatureMissing {
        /// As it was given.
        location: String,
        /// The feature.
        feature: &'static str,
    },
    /// A store cannot tell which of two writers was first.
    #[error(
        "`{location}` cannot hold checkpoints: {found}, so two processes could both take themselves for the one that runs the job; \
         use a store with conditional writes, as Amazon S3, Google Cloud Storage, Azure and HDFS have them"
    )]
    NoCompareAndSet {
        /// The checkpoint directory.
        location: String,
        /// What was seen.
        found: String,
    },
    /// The checkpoint directory does not take files.
    #[error(
        "the checkpoint directory `{path}` is not writable: {reason}; check `execution.checkpointing.dir`, its owner and the free space"
    )]
    NotWritable {
        /// The directory.
        path: String,
        /// Why not.
        reason: String,
    },
    /// Another live process owns the job.
    #[error(
        "`{path}`: the job's directory is in use by {holder}: stop that process first, or give this job another name or directory"
    )]
    Locked {
        /// The lock file.
        path: String,
        /// Who holds it, as in `process 4711`.
        holder: String,
    },
    /// Another writer's record was found, of a higher generation as a rule: somebody took the job over, or
    /// the directory was moved away and another one put in its place. Whether an earlier write of this one
    /// took effect is for the new holder to say; this process must stop and must not delete anything.
    #[error(
        "generation {ours} was fenced off: `{path}` holds what another process wrote under generation {found}; that one has the \
         job now, stop this one"
    )]
    Fenced {
        /// The register.
        path: String,
        /// Whose write was refused.
        ours: Generation,
        /// Who owns the job now.
        found: Generation,
    },
    /// The job has files but no register: it had checkpoints once and must not start empty by itself.
    #[error(
        "no register in `{looked_at}`, yet there is {found}: this job had checkpoints; restore the register, resume with `--from-savepoint`, or give `--start-fresh` to begin without state"
    )]
    RegisterMissing {
        /// Where it should be.
        looked_at: String,
        /// What shows that the job is not new.
        found: String,
    },
    /// The register is older than what lies beside it: its newest versions are missing. To go on from it
    /// would be a roll-back.
    #[error(
        "the register in `{looked_at}` ends with {register}, yet {found}: its newest versions are missing, and to go on from \
         what is left would repeat work that was done; put them back, choose a checkpoint with \
         `--from <checkpoint> --start-fresh`, or give `--start-fresh` alone to begin without state"
    )]
    RegisterBehind {
        /// Where it is.
        looked_at: String,
        /// What its newest version says.
        register: String,
        /// What shows that there was a newer one.
        found: String,
    },
    /// A file lies where that of another checkpoint or job belongs.
    #[error(
        "`{path}` is of {found}, but its place is that of {expected}: it was put there from elsewhere, and nothing is started \
         from it; put the right one back, or choose another checkpoint with `--from <checkpoint> --start-fresh`"
    )]
    Foreign {
        /// The file.
        path: String,
        /// Whose place it is.
        expected: String,
        /// Whose file it is.
        found: String,
    },
    /// There is a register, but no version of it can be read.
    #[error(
        "the register in `{looked_at}` cannot be read: {reason}; resume with `--from-savepoint`, or give `--start-fresh` to begin without state"
    )]
    RegisterUnreadable {
        /// Where it is.
        looked_at: String,
        /// What is wrong with each version.
        reason: String,
    },
    /// A change of the register that would break its invariants.
    #[error(
        "the register in `{path}` must not be changed this way: {rule}: expected {expected}, found {found}"
    )]
    Invalid {
        /// The register.
        path: String,
        /// The invariant.
        rule: &'static str,
        /// What would be allowed.
        expected: String,
        /// What was asked for.
        found: String,
    },
    /// Too many others changed the register at the same time.
    #[error(
        "the register in `{path}` was changed by others {attempts} times in a row; the next try may succeed"
    )]
    Contended {
        /// The register.
        path: String,
        /// How often it was tried.
        attempts: u32,
    },
}

impl StorageError {
    /// Whether the write may have happened.
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Self::Indeterminate { .. })
    }

    /// Whether it says only that nothing is there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// The kind under which the public API reports it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Corrupt { .. }
            | Self::RegisterMissing { .. }
            | Self::RegisterBehind { .. }
            | Self::Foreign { .. }
            | Self::RegisterUnreadable { .. } => ErrorKind::CorruptSnapshot,
            Self::BadLocation { .. }
            | Self::SchemeNotSupported { .. }
            | Self::FeatureMissing { .. }
            | Self::NoCompareAndSet { .. }
            | Self::NotWritable { .. } => ErrorKind::Configuration,
            Self::Fenced { .. } | Self::Locked { .. } => ErrorKind::Fenced,
            _ => ErrorKind::Storage,
        }
    }

    /// As the public API's error, under [`kind`](Self::kind). (`?` alone would call it an error of user
    /// code.)
    pub fn into_error(self) -> Error {
        let kind = self.kind();
        Error::wrap(kind, self)
    }

    pub(crate) fn io(operation: &'static str, path: impl Into<String>, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            _ => Self::Io { operation, path, source },
        }
    }

    /// The same with `path` shown as the place a person knows.
    pub(crate) fn corrupt(
        path: impl Into<String>,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Self {
        Self::Corrupt { path: path.into(), what, expected: expected.to_string(), found: found.to_string() }
    }
}

impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        let kind = match &error {
            StorageError::Io { source, .. } => source.kind(),
            StorageError::NotFound { .. } => io::ErrorKind::NotFound,
            StorageError::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
            StorageError::Corrupt { what, .. } if *what == SHORT => io::ErrorKind::UnexpectedEof,
            StorageError::Corrupt { what, .. } if *what == MISSING => io::ErrorKind::NotFound,
            StorageError::Corrupt { .. } => io::ErrorKind::InvalidData,
            StorageError::BadLocation { .. }
            | StorageError::SchemeNotSupported { .. }
            | StorageError::FeatureMissing { .. } => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// `what` of a [`StorageError::Corrupt`] for a file that ends too early.
pub(crate) const SHORT: &str = "length in bytes (too short)";

/// `what` of a [`StorageError::Corrupt`] for a file that a snapshot names and that is not there.
pub(crate) const MISSING: &str = "file of the snapshot";

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "; free space there, or name a folder on another disk",
        io::ErrorKind::QuotaExceeded => "; raise the quota, or name a folder on another disk",
        io::ErrorKind::PermissionDenied => "; give the user that runs the job the right to write there",
        io::ErrorKind::ReadOnlyFilesystem => "; mount it writable, or name another folder",
        _ => "",
    }
}

/// Why a compare-and-set did not give a new version.
#[derive(Debug, thiserror::Error)]
pub enum CasError {
    /// Somebody else changed it: surely nothing was written. Holds the version that was found.
    #[error("the register was changed by somebody else: it is at version {0}")]
    Conflict(Version),
    /// It may have been written: load it again to find out.
    #[error(transparent)]
    Indeterminate(StorageError),
    /// Surely not written.
    #[error(transparent)]
    Storage(StorageError),
}

impl From<StorageError> for CasError {
    fn from(error: StorageError) -> Self {
        if error.is_indeterminate() { Self::Indeterminate(error) } else { Self::Storage(error) }
    }
}
