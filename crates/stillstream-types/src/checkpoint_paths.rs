//! Every path below a job's checkpoint directory, and the only parser of each.
//!
//! ```text
//! <dir>/<job id>/chk-<n>/..       a checkpoint: its metadata and the state files that it alone names
//! <dir>/<job id>/shared/<n>-..    a file that several checkpoints may name, written by checkpoint n
//! <dir>/<job id>/taskowned/..     files that tasks own
//! ```
//!
//! A savepoint lies where a person wants it, in a directory `savepoint-<job>-<random>` of its own, and owns
//! all its files.
//!
//! All other paths here are relative to the job's checkpoint directory. The numbers are part of the protocol:
//! a checkpoint's directory belongs to it alone, for an id is never used twice, and an acknowledgement may
//! name a shared file of its own checkpoint, or one that a completed checkpoint names, and no other. So a
//! parser takes the name that is written for a number and no other: `parse` alone would take `+7` and `07` as
//! well.

use crate::{CheckpointId, JobId};

/// The folder of files that several checkpoints may name.
pub const SHARED_FOLDER: &str = "shared";
/// The folder of files that tasks own.
pub const TASK_OWNED_FOLDER: &str = "taskowned";

/// The directory of a checkpoint.
///
/// ```
/// use stillstream_types::{CheckpointId, checkpoint_paths};
/// assert_eq!(checkpoint_paths::checkpoint(CheckpointId(17)), "chk-17");
/// assert_eq!(checkpoint_paths::checkpoint_of("chk-17"), Some(CheckpointId(17)));
/// ```
pub fn checkpoint(id: CheckpointId) -> String {
    format!("chk-{id}")
}

/// The checkpoint whose directory has this name; `None` for a name that [`checkpoint`] does not make.
pub fn checkpoint_of(name: &str) -> Option<CheckpointId> {
    number(name.strip_prefix("chk-")?)
}

/// The last part of a savepoint's location. `random` makes it a directory that nobody else has ever had.
///
/// ```
/// use stillstream_types::{JobId, checkpoint_paths};
/// let name = checkpoint_paths::savepoint(JobId([0xab; 16]), "0123456789ab");
/// assert_eq!(name, "savepoint-ababab-0123456789ab");
/// ```
pub fn savepoint(job: JobId, random: &str) -> String {
    let job: String = job.to_string().chars().take(6).collect();
    format!("savepoint-{job}-{random}")
}

/// The path of a file that checkpoint `by` writes and later ones may name; `rest` makes the name unique.
///
/// ```
/// use stillstream_types::{CheckpointId, checkpoint_paths};
/// let path = checkpoint_paths::shared_file(CheckpointId(7), "3-0-sst");
/// assert_eq!(path, "shared/7-3-0-sst");
/// assert_eq!(checkpoint_paths::creator(&path), Some(CheckpointId(7)));
/// ```
pub fn shared_file(by: CheckpointId, rest: &str) -> String {
    format!("{SHARED_FOLDER}/{by}-{rest}")
}

/// The checkpoint that wrote the shared file at this path; `None` for a path that [`shared_file`] does not
/// make.
pub fn creator(path: &str) -> Option<CheckpointId> {
    creator_of_name(path.strip_prefix(SHARED_FOLDER)?.strip_prefix('/')?)
}

/// The same, and also for the temporary name under which a file is written at first: `shared/.<number>-..`.
pub fn creator_of_leftover(path: &str) -> Option<CheckpointId> {
    let name = path.strip_prefix(SHARED_FOLDER)?.strip_prefix('/')?;
    creator_of_name(name.strip_prefix('.').unwrap_or(name))
}

/// Whether the path lies in the folder of files that several checkpoints may name.
pub fn is_shared(path: &str) -> bool {
    first(path) == SHARED_FOLDER
}

/// Whether a job that runs writes at this path: it lies in a checkpoint's directory, or in a folder that
/// checkpoints share.
pub fn is_of_a_run(path: &str) -> bool {
    let first = first(path);
    checkpoint_of(first).is_some() || first == SHARED_FOLDER || first == TASK_OWNED_FOLDER
}

/// Whether this says by itself where a savepoint lies: a path from the root, or a URI.
///
/// ```
/// use stillstream_types::checkpoint_paths::is_location;
/// assert!(is_location("/data/savepoint-ab12cd") && is_location("file:///data/savepoint-ab12cd"));
/// assert!(!is_location("chk-7") && !is_location("../chk-7") && !is_location(""));
/// ```
pub fn is_location(text: &str) -> bool {
    std::path::Path::new(text).is_absolute() || text.contains("://")
}

/// Whether the path lies below this directory, and does not leave it on the way.
pub fn is_below(path: &str, directory: &str) -> bool {
    let Some(rest) = path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/')) else {
        return false;
    };
    !directory.is_empty() && rest.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn first(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

fn creator_of_name(name: &str) -> Option<CheckpointId> {
    let (id, rest) = name.split_once('-')?;
    let id = number(id)?;
    (!rest.is_empty() && !rest.contains(['/', '\\', '\0'])).then_some(id)
}

fn number(digits: &str) -> Option<CheckpointId> {
    let id = CheckpointId(digits.parse().ok()?);
    (id.to_string() == digits).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_that_are_written_are_directories_of_checkpoints() {
        for id in [0, 1, 10, u64::MAX] {
            assert_eq!(checkpoint_of(&checkpoint(CheckpointId(id))), Some(CheckpointId(id)));
        }
        for other in [
            "chk-",
            "chk-01",
            "chk-00",
            "chk-+1",
            "chk--1",
            "chk- 1",
            "chk-1 ",
            "chk-1/",
            "chk-1/a",
            "chk-x",
            "chk-1x",
            "chk-18446744073709551616",
            "CHK-1",
            "chk1",
            "a/chk-1",
            "savepoint-1",
            "shared",
            "",
        ] {
            assert_eq!(checkpoint_of(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_names_that_are_written_have_a_creator() {
        assert_eq!(creator("shared/12-0-3-sst-00ff-1"), Some(CheckpointId(12)));
        for other in [
            "chk-12/12-a",
            "shared/012-a",
            "shared/+1-a",
            "shared/x-a",
            "shared/12",
            "shared/12-",
            "shared/12-a/b",
        ] {
            assert_eq!(creator(other), None, "{other}");
            assert_eq!(creator_of_leftover(other), None, "{other}");
        }
        assert_eq!(creator("shared/.12-a.tmp"), None);
        assert_eq!(creator_of_leftover("shared/.12-a.tmp"), Some(CheckpointId(12)));
    }

    #[test]
    fn a_savepoint_is_never_taken_for_a_checkpoint_or_for_something_that_checkpoints_share() {
        let path = savepoint(JobId::from_name("job"), "7");
        assert_eq!(checkpoint_of(&path), None);
        assert!(!is_shared(&path) && !is_of_a_run(&path));
    }

    #[test]
    fn what_a_run_writes_is_told_from_what_a_person_put_there() {
        for path in ["chk-1/_metadata", "chk-1", "shared/1-a", "taskowned/a"] {
            assert!(is_of_a_run(path), "{path}");
        }
        for path in ["chk-01/_metadata", "notes.txt", "a/shared/1-a", "shared.old/a"] {
            assert!(!is_of_a_run(path), "{path}");
        }
    }

    #[test]
    fn a_path_below_a_directory_does_not_leave_it() {
        assert!(is_below("chk-4/a", "chk-4") && is_below("chk-4/b/c", "chk-4"));
        for path in ["chk-40/a", "chk-4", "taskowned/a", "chk-4/../chk-3/a", "chk-4//a", "/chk-4/a"] {
            assert!(!is_below(path, "chk-4"), "{path}");
        }
        assert!(!is_below("/a", ""));
    }
}
