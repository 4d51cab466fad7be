//! What may be deleted.
//!
//! Four rules, each of which fails closed:
//!
//! 1. Nothing that a register record names, or a record that is being written would name, is deleted: callers
//!    pass all of them as `named`.
//! 2. Single files are deleted only below the directory of the checkpoint that they were reported for. Ids
//!    are never used twice, so such a directory belongs to that checkpoint alone. About files below `shared/`
//!    the registry decides (see [`shared_files`](crate::checkpoint::shared_files)).
//! 3. A savepoint belongs to a person. Only one that failed is deleted, as a whole, by its own call.
//! 4. Leftovers of a crash are recognised by name (`chk-<n>`) and an id below the first one of the present
//!    claim; anything else in the directory is left alone.
//!
//! Deletions are counted, so that slow ones hold back new checkpoints, but only for a while: one that hangs
//! is overdue and holds back nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::{CheckpointId, CompletedRef, StreamHandle, TaskSnapshot, checkpoint_paths};

use crate::checkpoint::storage::{DiscardId, DiscardTarget, StorageCall};

/// Which of the listed names a crash left behind: directories of checkpoints with an id below `first_own`
/// that nothing names.
pub fn orphans<'a>(
    names: &[String],
    first_own: CheckpointId,
    named: impl Iterator<Item = &'a CompletedRef> + Clone,
) -> Vec<(CheckpointId, String)> {
    names
        .iter()
        .filter_map(|name| Some((checkpoint_paths::checkpoint_of(name)?, name.clone())))
        .filter(|(id, name)| *id < first_own && !named.clone().any(|c| c.id == *id || c.path == *name))
        .collect()
}

/// Why a deletion was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The register names it.
    #[error("{path} is not deleted: the register names checkpoint {id}")]
    Named {
        /// What was to be deleted.
        path: String,
        /// The checkpoint that it belongs to.
        id: CheckpointId,
    },
    /// It does not lie where that checkpoint writes.
    #[error(
        "{path} is not deleted: it does not lie in {directory}, where checkpoint {id} writes; delete it by hand if nothing needs it"
    )]
    Elsewhere {
        /// What was to be deleted.
        path: String,
        /// Where it should lie.
        directory: String,
        /// The checkpoint that it was reported for.
        id: CheckpointId,
    },
    /// The path is not one of a single checkpoint.
    #[error("`{path}` is not deleted: it is no directory of one checkpoint")]
    NotACheckpoint {
        /// What was to be deleted.
        path: String,
    },
}

#[derive(Clone, Debug)]
struct Running {
    since: Duration,
    holds_back: bool,
    path: String,
}

/// Hands out deletions and counts those that are under way.
#[derive(Clone, Debug)]
pub struct Cleaner {
    patience: Duration,
    next: u64,
    running: BTreeMap<DiscardId, Running>,
}

impl Cleaner {
    /// A cleaner whose deletions hold back new checkpoints for at most `patience` each.
    pub fn new(patience: Duration) -> Self {
        Self { patience, next: 0, running: BTreeMap::new() }
    }

    /// Deletes the directory of one checkpoint, and then `shared`: files that the registry has given back
    /// with it. `named` is everything that any register record names.
    pub fn discard_directory<'a>(
        &mut self,
        id: CheckpointId,
        path: &str,
        shared: Vec<String>,
        mut named: impl Iterator<Item = &'a CompletedRef>,
        now: Duration,
    ) -> Result<StorageCall, Refusal> {
        let path = path.trim_end_matches('/');
        if checkpoint_paths::checkpoint_of(path).is_none() {
            return Err(Refusal::NotACheckpoint { path: path.to_owned() });
        }
        if named.any(|checkpoint| checkpoint.id == id || checkpoint.path == path) {
            return Err(Refusal::Named { path: path.to_owned(), id });
        }
        let target = DiscardTarget::Directory { path: path.to_owned(), shared };
        Ok(self.start(target, path.to_owned(), true, now))
    }

    /// Deletes what a savepoint that failed has written.
    pub fn discard_savepoint<'a>(
        &mut self,
        id: CheckpointId,
        location: &Arc<str>,
        mut named: impl Iterator<Item = &'a CompletedRef>,
        now: Duration,
    ) -> Result<StorageCall, Refusal> {
        if named.any(|checkpoint| checkpoint.id == id || *checkpoint.path == **location) {
            return Err(Refusal::Named { path: location.to_string(), id });
        }
        Ok(self.start(DiscardTarget::Savepoint(location.clone()), location.to_string(), false, now))
    }

    /// Deletes shared files that the registry has given back; `None` if there are none.
    pub fn discard_shared(&mut self, paths: Vec<String>, now: Duration) -> Option<StorageCall> {
        let label = match paths.as_slice() {
            [] => return None,
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        Some(self.start(DiscardTarget::Files(paths), label, false, now))
    }

    /// Deletes the files that a snapshot names in its checkpoint's own directory, and which did not become
    /// part of it; `None` if it names none there.
    pub fn discard_snapshot<'a>(
        &mut self,
        id: CheckpointId,
        directory: &str,
        snapshot: &TaskSnapshot,
        mut named: impl Iterator<Item = &'a CompletedRef>,
        now: Duration,
    ) -> Result<Option<StorageCall>, Refusal> {
        let files: Vec<String> =
            files_of(snapshot).filter(|path| !checkpoint_paths::is_shared(path)).map(str::to_owned).collect();
        let Some(first) = files.first() else { return Ok(None) };
        if named.any(|checkpoint| checkpoint.id == id || checkpoint.path == directory) {
            return Err(Refusal::Named { path: first.clone(), id });
        }
        if let Some(path) = files.iter().find(|path| !checkpoint_paths::is_below(path, directory)) {
            return Err(Refusal::Elsewhere { path: path.clone(), directory: directory.to_owned(), id });
        }
        let path = first.clone();
        Ok(Some(self.start(DiscardTarget::Files(files), path, false, now)))
    }

    fn start(&mut self, target: DiscardTarget, path: String, holds_back: bool, now: Duration) -> StorageCall {
        let discard = DiscardId(self.next);
        self.next += 1;
        self.running.insert(discard, Running { since: now, holds_back, path });
        StorageCall::Discard { discard, target }
    }

    /// A deletion ended; `None` if it was not under way (a repeated answer). Otherwise what it was about.
    pub fn done(&mut self, discard: DiscardId) -> Option<String> {
        self.running.remove(&discard).map(|running| running.path)
    }

    /// How many deletions of whole checkpoints are under way and not overdue: these hold back new
    /// checkpoints.
    pub fn holding_back(&self, now: Duration) -> usize {
        self.running.values().filter(|r| r.holds_back && now < r.since + self.patience).count()
    }

    /// When the next deletion becomes overdue.
    pub fn next_overdue(&self, now: Duration) -> Option<Duration> {
        self.running
            .values()
            .filter(|r| r.holds_back)
            .map(|r| r.since + self.patience)
            .filter(|at| *at > now)
            .min()
    }

    /// Whether a deletion of this path is under way.
    pub fn is_deleting(&self, path: &str) -> bool {
        self.running.values().any(|running| running.holds_back && running.path == path)
    }
}

/// The files that a snapshot names.
pub fn files_of(snapshot: &TaskSnapshot) -> impl Iterator<Item = &str> {
    snapshot.streams().filter_map(StreamHandle::path)
}

/// Those among them that several checkpoints may name.
pub fn shared_files_of(snapshot: &TaskSnapshot) -> impl Iterator<Item = &str> {
    files_of(snapshot).filter(|path| checkpoint_paths::is_shared(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillstream_types::{OperatorId, OperatorStateHandle, OperatorSubtaskState};

    const NOW: Duration = Duration::from_secs(1);

    fn cleaner() -> Cleaner {
        Cleaner::new(Duration::from_secs(5))
    }

    fn named(ids: &[u64]) -> Vec<CompletedRef> {
        ids.iter()
            .map(|id| CompletedRef {
                id: CheckpointId(*id),
                path: checkpoint_paths::checkpoint(CheckpointId(*id)),
            })
            .collect()
    }

    fn snapshot(paths: &[&str]) -> TaskSnapshot {
        let operator = paths
            .iter()
            .map(|path| OperatorStateHandle {
                states: BTreeMap::new(),
                stream: StreamHandle::File { path: (*path).to_owned(), len: 1, crc32c: 0 },
            })
            .collect();
        let state = OperatorSubtaskState { operator, ..OperatorSubtaskState::default() };
        TaskSnapshot { operators: vec![(OperatorId::from_uid("a"), state)] }
    }

    #[test]
    fn a_checkpoint_that_the_register_names_is_never_deleted() {
        let named = named(&[4]);
        let refused = cleaner().discard_directory(CheckpointId(4), "chk-4", vec![], named.iter(), NOW);
        assert!(matches!(refused, Err(Refusal::Named { .. })));
        let refused = cleaner().discard_directory(CheckpointId(5), "chk-4/", vec![], named.iter(), NOW);
        assert!(matches!(refused, Err(Refusal::Named { .. })));
        let files = snapshot(&["chk-4/a"]);
        let refused = cleaner().discard_snapshot(CheckpointId(4), "chk-4", &files, named.iter(), NOW);
        assert!(matches!(refused, Err(Refusal::Named { .. })));
    }

    #[test]
    fn what_is_not_one_checkpoint_is_never_deleted() {
        for path in
            ["", "/", ".", "a/..", "shared", "x/taskowned/", "savepoint-1-2", "/s/savepoint-1-2", "a/chk-4"]
        {
            let refused = cleaner().discard_directory(CheckpointId(4), path, vec![], [].iter(), NOW);
            assert!(matches!(refused, Err(Refusal::NotACheckpoint { .. })), "{path}");
        }
    }

    #[test]
    fn a_savepoint_that_the_register_names_is_never_deleted() {
        let named = [CompletedRef { id: CheckpointId(4), path: "/s/a".into() }];
        for (id, location) in [(4, "/s/b"), (5, "/s/a")] {
            let refused = cleaner().discard_savepoint(CheckpointId(id), &location.into(), named.iter(), NOW);
            assert!(matches!(refused, Err(Refusal::Named { .. })), "{id} {location}");
        }
        let call = cleaner().discard_savepoint(CheckpointId(5), &"/s/b".into(), named.iter(), NOW);
        let target = DiscardTarget::Savepoint("/s/b".into());
        assert_eq!(call, Ok(StorageCall::Discard { discard: DiscardId(0), target }));
    }

    #[test]
    fn files_are_deleted_only_below_the_directory_of_their_checkpoint() {
        for path in ["chk-40/a", "chk-4", "taskowned/a", "chk-4/../chk-3/a", "chk-4//a", "/chk-4/a"] {
            let files = snapshot(&["chk-4/ok", path]);
            let refused = cleaner().discard_snapshot(CheckpointId(4), "chk-4", &files, [].iter(), NOW);
            assert!(matches!(refused, Err(Refusal::Elsewhere { .. })), "{path}");
        }
        let files = snapshot(&["chk-4/a", "chk-4/b/c"]);
        let command = cleaner().discard_snapshot(CheckpointId(4), "chk-4", &files, [].iter(), NOW).unwrap();
        let target = DiscardTarget::Files(vec!["chk-4/a".into(), "chk-4/b/c".into()]);
        assert_eq!(command, Some(StorageCall::Discard { discard: DiscardId(0), target }));
        for nothing in [TaskSnapshot::default(), snapshot(&["shared/4-a"])] {
            let command = cleaner().discard_snapshot(CheckpointId(4), "chk-4", &nothing, [].iter(), NOW);
            assert_eq!(command, Ok(None), "inline state, and files about which the registry decides");
        }
    }

    #[test]
    fn leftovers_are_old_checkpoint_directories_that_nothing_names() {
        let names: Vec<String> =
            ["chk-1", "chk-2", "chk-3", "chk-9", "chk-02", "shared", "savepoint-1", "chk-x", "chk-"]
                .map(str::to_owned)
                .into();
        let found = orphans(&names, CheckpointId(9), named(&[2]).iter());
        assert_eq!(found, [(CheckpointId(1), "chk-1".to_owned()), (CheckpointId(3), "chk-3".to_owned())]);
    }

    #[test]
    fn a_hanging_deletion_holds_back_checkpoints_only_for_a_while() {
        let mut cleaner = cleaner();
        cleaner.discard_directory(CheckpointId(1), "chk-1", vec![], [].iter(), NOW).unwrap();
        assert_eq!(cleaner.holding_back(NOW), 1);
        let overdue = cleaner.next_overdue(NOW).unwrap();
        assert_eq!(cleaner.holding_back(overdue), 0);
        assert_eq!((cleaner.next_overdue(overdue), cleaner.running.len()), (None, 1));
        assert_eq!(cleaner.done(DiscardId(0)), Some("chk-1".to_owned()));
        assert_eq!(cleaner.done(DiscardId(0)), None);
    }
}
