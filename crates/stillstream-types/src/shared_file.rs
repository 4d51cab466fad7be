//! The names of files that several checkpoints may name.
//!
//! Such a file lies in the folder `shared/` of the job's checkpoint directory, and its name begins with the number of the
//! checkpoint that wrote it: `shared/<number>-<rest>`. That number is part of the protocol: an acknowledgement may name a file
//! of its own checkpoint, or one that a completed checkpoint names, and no other.

use crate::CheckpointId;

/// The folder, within the job's checkpoint directory.
pub const SHARED_FOLDER: &str = "shared";

/// The path of a file that checkpoint `by` writes; `rest` makes the name unique.
///
/// ```
/// use stillstream_types::{CheckpointId, shared_file};
/// let path = shared_file::path(CheckpointId(7), "3-0-sst");
/// assert_eq!(path, "shared/7-3-0-sst");
/// assert_eq!(shared_file::creator(&path), Some(CheckpointId(7)));
/// ```
pub fn path(by: CheckpointId, rest: &str) -> String {
    format!("{SHARED_FOLDER}/{by}-{rest}")
}

/// The checkpoint that wrote the file at this path; `None` for a path that [`path`] does not make.
pub fn creator(path: &str) -> Option<CheckpointId> {
    creator_of_name(path.strip_prefix(SHARED_FOLDER)?.strip_prefix('/')?)
}

/// The same, and also for the temporary name under which a file is written at first: `shared/.<number>-..`.
pub fn creator_of_leftover(path: &str) -> Option<CheckpointId> {
    let name = path.strip_prefix(SHARED_FOLDER)?.strip_prefix('/')?;
    creator_of_name(name.strip_prefix('.').unwrap_or(name))
}

fn creator_of_name(name: &str) -> Option<CheckpointId> {
    let (number, rest) = name.split_once('-')?;
    // `parse` alone would take `+7` and `07`, which nobody writes
    let id = CheckpointId(number.parse().ok()?);
    (!rest.is_empty() && !rest.contains(['/', '\\', '\0']) && id.to_string() == number).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
