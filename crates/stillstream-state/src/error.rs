//! [`StateError`]: what can go wrong with state, each with the state's name and what to do.

use stillstream_types::ErrorKind;

use crate::data::DecodeError;

/// Why state could not be registered, used, written or read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Two registrations under one name do not agree.
    #[error(
        "state `{name}` is registered as {registered} and again as {wanted}: give one of them another name"
    )]
    NameTaken {
        /// The state's name.
        name: String,
        /// What it was registered as first.
        registered: String,
        /// What the second registration asks for.
        wanted: String,
    },
    /// The snapshot holds the state in a form that the program's type can't take over.
    #[error(
        "state `{name}` cannot be restored: the snapshot holds {stored}, the program wants {wanted}: {why}"
    )]
    Incompatible {
        /// The state's name.
        name: String,
        /// What the snapshot holds.
        stored: String,
        /// What the program registers.
        wanted: String,
        /// The rule that forbids it.
        why: String,
    },
    /// The snapshot was taken with keys of another type.
    #[error(
        "state {names} cannot be restored: the snapshot is keyed by `{stored}`, the program keys by `{wanted}`: \
         the type of a key can never change"
    )]
    KeyIncompatible {
        /// The states in the snapshot.
        names: String,
        /// The key's type in the snapshot.
        stored: String,
        /// The key's type in the program.
        wanted: String,
    },
    /// The snapshot was taken with another number of key groups.
    #[error(
        "the snapshot `{path}` has {stored} key groups, the program {wanted}: set the max parallelism to {stored}, \
         it cannot change during a job's life"
    )]
    MaxParallelism {
        /// Where the snapshot lies.
        path: String,
        /// Its number of key groups.
        stored: u32,
        /// The program's.
        wanted: u32,
    },
    /// A state was used with a key of another type than its backend's.
    #[error("state `{name}` is keyed by {expected}, but the current key is of another type")]
    KeyType {
        /// The state's name.
        name: String,
        /// Rust's name of the backend's key type.
        expected: &'static str,
    },
    /// A function passed to a state's `with` or `update` used the same state.
    #[error(
        "state `{name}` is used inside its own `with` or `update`: finish the outer call first, or work on a copy"
    )]
    InUse {
        /// The state's name.
        name: String,
    },
    /// Bytes of a snapshot are not those that were written.
    #[error(
        "the snapshot `{path}` is damaged in {part}: checksum {expected:08x} expected, {found:08x} found; \
         restore from another checkpoint"
    )]
    Corrupt {
        /// Where the snapshot lies.
        path: String,
        /// Which part: the header, or a key group.
        part: String,
        /// CRC-32C as the handle has it.
        expected: u32,
        /// CRC-32C of what was read.
        found: u32,
    },
    /// Bytes with the right checksum do not make sense.
    #[error("the snapshot `{path}` cannot be read in {part}: {why}")]
    Malformed {
        /// Where the snapshot lies.
        path: String,
        /// Which part.
        part: String,
        /// What is wrong.
        why: String,
    },
    /// The snapshot was written by a newer release.
    #[error(
        "the snapshot `{path}` has format version {found}, this release reads up to {supported}: upgrade"
    )]
    FormatVersion {
        /// Where the snapshot lies.
        path: String,
        /// Its version.
        found: u32,
        /// The newest version that this release reads.
        supported: u32,
    },
    /// The snapshot of one state is larger than its store takes.
    #[error(
        "state `{name}` has a snapshot of {size} bytes, more than the limit of {limit}: use FsStateBackend \
         (`state.backend.type: filesystem` with `execution.checkpointing.dir`), or raise `max_state_size` of \
         MemoryStateBackend"
    )]
    TooLarge {
        /// The state's name.
        name: String,
        /// The size of its snapshot in bytes.
        size: u64,
        /// `max_state_size` in bytes.
        limit: u64,
    },
    /// One entry is larger than the form of a snapshot can say.
    #[error(
        "one entry of state `{name}` has {size} bytes, more than the {limit} that one entry may have: split it up"
    )]
    EntryTooLarge {
        /// The state's name.
        name: String,
        /// The size of the entry in bytes.
        size: u64,
        /// The most that is possible, in bytes.
        limit: u64,
    },
    /// A time to live that cannot be.
    #[error("state `{name}` cannot have this time to live: {why}")]
    Ttl {
        /// The state's name.
        name: String,
        /// What is wrong, and what can be set.
        why: String,
    },
    /// One value could not be read back.
    #[error("state `{name}` cannot be read: {source}")]
    Decode {
        /// The state's name.
        name: String,
        /// What is wrong with the bytes.
        source: DecodeError,
    },
    /// RocksDB or its local folder failed.
    #[error("{what}{} in the RocksDB folder `{path}` failed: {why}; {advice}", of_state(name))]
    Database {
        /// The state's name; empty where it concerns all states of the operator.
        name: String,
        /// The folder.
        path: String,
        /// What was being done.
        what: &'static str,
        /// RocksDB's or the system's own error.
        why: String,
        /// The next step.
        advice: &'static str,
    },
    /// An option of the backend has a value that cannot be used.
    #[error("`{key}: {value}` cannot be used: {why}")]
    Setting {
        /// The configuration key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it, and what can be used.
        why: String,
    },
    /// A snapshot in the own form of another backend.
    #[error(
        "the snapshot `{path}` has the form of the {written} backend and cannot be read by the {wanted} backend: go on \
         with the {written} backend and take a savepoint in canonical form to change over"
    )]
    OtherBackend {
        /// Where it lies.
        path: String,
        /// What wrote it.
        written: &'static str,
        /// What should read it.
        wanted: &'static str,
    },
    /// The store failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the path where there is one.
        what: String,
        /// The store's own error.
        source: std::io::Error,
    },
}

impl StateError {
    /// A failed read of a snapshot. A stream that is missing, no file, too short, or
    /// whose checksum the store found wrong, stays so: trying again cannot help.
    pub fn reading(path: &str, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::InvalidData
            | std::io::ErrorKind::UnexpectedEof
            | std::io::ErrorKind::NotFound
            | std::io::ErrorKind::IsADirectory
            | std::io::ErrorKind::NotADirectory => {
                Self::Malformed { path: path.into(), part: "its content".into(), why: source.to_string() }
            }
            _ => Self::Io { what: format!("reading the snapshot `{path}`"), source },
        }
    }

    /// The kind under which the runtime reports it: a damaged snapshot is fatal, a failing store is not.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Corrupt { .. }
            | Self::Malformed { .. }
            | Self::FormatVersion { .. }
            | Self::Decode { .. } => ErrorKind::CorruptSnapshot,
            Self::Incompatible { .. } | Self::KeyIncompatible { .. } | Self::MaxParallelism { .. } => {
                ErrorKind::Plan
            }
            Self::NameTaken { .. } => ErrorKind::Plan,
            Self::KeyType { .. }
            | Self::InUse { .. }
            | Self::TooLarge { .. }
            | Self::EntryTooLarge { .. } => ErrorKind::State,
            Self::Setting { .. } | Self::Ttl { .. } | Self::OtherBackend { .. } => ErrorKind::Plan,
            // also damage: the files are only copies of what a checkpoint holds, and a restart makes new ones
            Self::Io { .. } | Self::Database { .. } => ErrorKind::Storage,
        }
    }

    /// As the error type of users' code, under [`kind`](Self::kind).
    pub fn into_error(self) -> stillstream_types::Error {
        stillstream_types::Error::wrap(self.kind(), self)
    }
}

fn of_state(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!(" state `{name}`"),
    }
}
