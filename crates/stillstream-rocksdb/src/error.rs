//! RocksDB's errors as [`StateError`]s: with state, path, and what to do.

use std::path::Path;

use rust_rocksdb::{Error, ErrorKind};
use stillstream_state::StateError;

/// Wraps an error of RocksDB.
pub(crate) fn database(name: &str, path: &Path, what: &'static str, error: Error) -> StateError {
    let why = error.to_string();
    StateError::Database {
        name: name.into(),
        path: path.display().to_string(),
        what,
        advice: advice(error.kind(), &why),
        why,
    }
}

/// Wraps an error of the local disk.
pub(crate) fn disk(path: &Path, what: &'static str, error: &std::io::Error) -> StateError {
    let why = error.to_string();
    StateError::Database {
        name: String::new(),
        path: path.display().to_string(),
        what,
        advice: advice(ErrorKind::IOError, &why),
        why,
    }
}

/// What RocksDB or the system says, if it is that the disk has no room.
pub(crate) fn full_disk(error: &StateError) -> Option<&str> {
    match error {
        StateError::Database { why, .. } if full(why) => Some(why),
        _ => None,
    }
}

fn full(why: &str) -> bool {
    why.contains("No space left") || why.contains("Disk quota")
}

/// The error for what needs entries on disk for which there is no room; `why` is how that was told first.
pub(crate) fn still_full(path: &str, why: &str) -> StateError {
    StateError::Database {
        name: String::new(),
        path: path.into(),
        what: "writing entries in the background",
        advice: advice(ErrorKind::IOError, why),
        why: why.into(),
    }
}

fn advice(kind: ErrorKind, why: &str) -> &'static str {
    if full(why) {
        "free some space there, or set `state.backend.rocksdb.localdir` to a folder on a larger disk"
    } else if why.contains("Permission denied") || why.contains("Read-only file system") {
        "make the folder writable, or set `state.backend.rocksdb.localdir` to one that is"
    } else if why.contains("olumn family not found") || why.contains("olumn families not opened") {
        "the checkpoint and its list of states do not belong together: restore from another checkpoint"
    } else if why.contains("Too many open files") {
        "raise the limit of open files (`ulimit -n`), or set `state.backend.rocksdb.files.open`"
    } else if kind == ErrorKind::Corruption || why.contains("No such file") {
        "the local files are damaged or gone: the job's restart throws them away and takes the state from the last \
         completed checkpoint; if it happens again, look at the disk of `state.backend.rocksdb.localdir`"
    } else {
        "look at the `LOG` file there; the job's restart takes the state from the last completed checkpoint"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_its_folder_and_the_key_that_moves_it() {
        let full = std::io::Error::from_raw_os_error(28);
        let error = disk(Path::new("/data/rocksdb-1-0"), "writing a file", &full).to_string();
        for part in ["/data/rocksdb-1-0", "No space left", "state.backend.rocksdb.localdir"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_kind_of_failure_has_its_own_advice() {
        let whys = [
            "No space left on device",
            "Permission denied",
            "Column family not found: x",
            "Too many open files",
        ];
        let advices: std::collections::BTreeSet<_> = whys
            .iter()
            .map(|why| advice(ErrorKind::IOError, why))
            .chain([advice(ErrorKind::Corruption, "")])
            .collect();
        assert_eq!(advices.len(), whys.len() + 1);
    }
}
