//! State handles: what a task hands to the coordinator when its snapshot is durable.
//!
//! A handle names bytes; it does not hold them, small state aside. Paths are relative to the job's checkpoint
//! directory (the *anchor*), so that a snapshot can be moved. Each handle carries length and CRC-32C, which
//! are checked when it is read.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::checkpoint_paths;
use crate::key_group::KeyGroupRange;
use crate::{CheckpointId, Generation, JobId, KeyGroup, OperatorId, SubtaskIndex};

/// Where one stream of snapshot bytes lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamHandle {
    /// The bytes themselves: state below the inline threshold, and all state of the memory backend.
    Inline {
        /// The content.
        bytes: Arc<[u8]>,
    },
    /// A file.
    File {
        /// Relative to the job's checkpoint directory, `/` between parts.
        path: String,
        /// Its length.
        len: u64,
        /// CRC-32C of the whole file.
        crc32c: u32,
    },
}

impl StreamHandle {
    /// How many bytes of state it stands for.
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline { bytes } => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }

    /// Whether it stands for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is a file that several checkpoints may name: its path begins with `shared/`.
    pub fn is_shared(&self) -> bool {
        self.path().is_some_and(checkpoint_paths::is_shared)
    }

    /// The file's path, if it is a file.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Inline { .. } => None,
            Self::File { path, .. } => Some(path),
        }
    }
}

/// Where one key group lies within a stream. Each section has its own checksum, so that a subtask which reads
/// only its own ranges still verifies every byte that it reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyGroupSection {
    /// Which key group.
    pub group: KeyGroup,
    /// First byte within the stream.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// CRC-32C of these bytes.
    pub crc32c: u32,
}

/// Keyed state of one subtask of one operator, by key group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyedStateHandle {
    /// The key groups that the handle covers (sections of empty groups are left out).
    pub range: KeyGroupRange,
    /// The header: names, kinds and types of the states, as the backend wrote it. Checksummed as
    /// `header_crc32c`.
    pub header_len: u64,
    /// CRC-32C of the header.
    pub header_crc32c: u32,
    /// Where each non-empty key group lies in `stream`, ascending.
    pub sections: Vec<KeyGroupSection>,
    /// The bytes: header first, then the sections.
    pub stream: StreamHandle,
}

/// What wrote an [`IncrementalHandle`], and can read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IncrementalFormat {
    /// The heap backend: a full image and the changes after it.
    HeapChain,
    /// The files of a RocksDB checkpoint.
    RocksDb,
}

/// One file of an [`IncrementalHandle`], under the name that the backend knows it by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedStream {
    /// Unique within one backend instance, as in `000012.sst`; the same name means the same bytes.
    pub name: String,
    /// Where it lies: a path below `shared/` if several checkpoints may name it.
    pub stream: StreamHandle,
}

/// Keyed state of one subtask as a set of files, some of which earlier checkpoints wrote.
///
/// A file below `shared/` is named by several checkpoints and lives as long as one of them does; all others
/// belong to this checkpoint alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IncrementalHandle {
    /// The key groups that the handle covers.
    pub range: KeyGroupRange,
    /// What wrote it.
    pub format: IncrementalFormat,
    /// The backend instance that wrote it: file names are unique within one.
    pub backend: u64,
    /// What the backend needs to read the files: names, kinds and types of the states, and how the files
    /// belong together.
    pub meta: StreamHandle,
    /// The files, in the order of the backend.
    pub files: Vec<NamedStream>,
}

impl IncrementalHandle {
    /// Every stream that it names.
    pub fn streams(&self) -> impl Iterator<Item = &StreamHandle> {
        std::iter::once(&self.meta).chain(self.files.iter().map(|file| &file.stream))
    }
}

/// The keyed state that one operator in one subtask wrote for one checkpoint, or gets back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyedSnapshot {
    /// In the canonical form, which every backend reads.
    pub keyed: Vec<KeyedStateHandle>,
    /// In a backend's own form.
    pub incremental: Vec<IncrementalHandle>,
}

impl KeyedSnapshot {
    /// Whether there is no state.
    pub fn is_empty(&self) -> bool {
        self.keyed.is_empty() && self.incremental.is_empty()
    }

    /// Bytes of all files that it names, whatever part of them is to be read.
    pub fn len(&self) -> u64 {
        let keyed = self.keyed.iter().map(|handle| &handle.stream);
        let streams = keyed.chain(self.incremental.iter().flat_map(IncrementalHandle::streams));
        sum(streams.map(StreamHandle::len))
    }
}

/// How the items of an operator state are dealt out when a job is restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedistributionMode {
    /// Contiguous slices, as even as possible (`ListState`).
    Split,
    /// Everything to everybody (`UnionListState`).
    Union,
    /// One copy to everybody; the copies are equal (`BroadcastState`).
    Broadcast,
}

/// One named operator state within an [`OperatorStateHandle`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorStateEntry {
    /// How it is dealt out.
    pub mode: RedistributionMode,
    /// The description of the item type, as the serializer wrote it.
    pub schema: Vec<u8>,
    /// Start of each item within the stream, ascending.
    pub offsets: Vec<u64>,
    /// End of the last item.
    pub end: u64,
}

/// Operator state of one subtask: all its named states in one stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorStateHandle {
    /// By name.
    pub states: BTreeMap<String, OperatorStateEntry>,
    /// The bytes.
    pub stream: StreamHandle,
}

/// All state of one subtask of one operator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OperatorSubtaskState {
    /// Keyed state; more than one handle after a restore with another parallelism.
    pub keyed: Vec<KeyedStateHandle>,
    /// Keyed state that shares files with earlier checkpoints; more than one handle after a restore with
    /// another parallelism.
    pub incremental: Vec<IncrementalHandle>,
    /// Operator state; more than one handle after a restore with another parallelism.
    pub operator: Vec<OperatorStateHandle>,
}

impl OperatorSubtaskState {
    /// Bytes of state.
    pub fn len(&self) -> u64 {
        sum(self.streams().map(StreamHandle::len))
    }

    /// Whether there is no state.
    pub fn is_empty(&self) -> bool {
        self.keyed.is_empty() && self.incremental.is_empty() && self.operator.is_empty()
    }

    /// A copy of its keyed part.
    pub fn keyed_snapshot(&self) -> KeyedSnapshot {
        KeyedSnapshot { keyed: self.keyed.clone(), incremental: self.incremental.clone() }
    }

    /// Every stream that it names.
    pub fn streams(&self) -> impl Iterator<Item = &StreamHandle> {
        let incremental = self.incremental.iter().flat_map(IncrementalHandle::streams);
        self.keyed.iter().map(|k| &k.stream).chain(incremental).chain(self.operator.iter().map(|o| &o.stream))
    }
}

/// Lengths come from files, which may hold anything: a sum that is too large stays at its bound.
fn sum(lengths: impl Iterator<Item = u64>) -> u64 {
    lengths.fold(0, u64::saturating_add)
}

/// What a task (a chain of operators in one subtask) acknowledges a checkpoint with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskSnapshot {
    /// One entry for each operator of the chain that has state.
    pub operators: Vec<(OperatorId, OperatorSubtaskState)>,
}

impl TaskSnapshot {
    /// Bytes of state.
    pub fn len(&self) -> u64 {
        sum(self.operators.iter().map(|(_, state)| state.len()))
    }

    /// Every stream that it names.
    pub fn streams(&self) -> impl Iterator<Item = &StreamHandle> {
        self.operators.iter().flat_map(|(_, state)| state.streams())
    }

    /// Whether no operator has state.
    pub fn is_empty(&self) -> bool {
        self.operators.iter().all(|(_, state)| state.is_empty())
    }
}

/// All subtasks' state of one operator within a completed checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperatorState {
    /// Whose state it is.
    pub id: OperatorId,
    /// The `uid` that the id was made from, if the user gave one.
    pub uid: Option<String>,
    /// The operator's name, for people.
    pub name: String,
    /// Parallelism when the checkpoint was taken.
    pub parallelism: u32,
    /// Number of key groups; fixed for the life of the state.
    pub max_parallelism: u32,
    /// State by subtask; subtasks without state are left out.
    pub subtasks: BTreeMap<SubtaskIndex, OperatorSubtaskState>,
    /// What the enumerator of a source knew when the checkpoint was triggered; `None` if there is none, or if
    /// it knew nothing yet.
    pub enumerator: Option<Arc<[u8]>>,
}

/// Why a checkpoint was taken, and who may delete it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckpointKind {
    /// Taken at the interval or by hand; subsumed by later ones.
    Checkpoint,
    /// The last one of a bounded job, taken when all sources have ended.
    Final,
    /// Owned by a person; never deleted by the system.
    Savepoint,
}

/// In which form a savepoint holds keyed state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SavepointFormat {
    /// The same for all backends, so that a job can change its backend.
    #[default]
    Canonical,
    /// The backend's own files: faster, and only this backend reads them.
    Native,
}

/// A savepoint that somebody wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavepointTarget {
    /// Its own directory, as a path or URI. Nothing else is in it, or ever was.
    pub location: Arc<str>,
    /// The form of its keyed state.
    pub format: SavepointFormat,
}

/// Which checkpoint somebody wants who asks for one (Flink's `CheckpointType`).
///
/// ```
/// use stillstream_types::CheckpointType;
/// assert_eq!("FULL".parse(), Ok(CheckpointType::Full));
/// assert_eq!(CheckpointType::default().to_string(), "CONFIGURED");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CheckpointType {
    /// As the job takes them by itself: incremental if `execution.checkpointing.incremental` says so.
    #[default]
    Configured,
    /// One that names no file of an earlier checkpoint. Later incremental ones build on it.
    Full,
    /// One that leaves out what completed checkpoints hold. Only for a job whose checkpoints are incremental.
    Incremental,
}

impl CheckpointType {
    /// All of them, with their names.
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Configured, "CONFIGURED"), (Self::Full, "FULL"), (Self::Incremental, "INCREMENTAL")];
}

impl fmt::Display for CheckpointType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Self::NAMES.iter().filter(|(kind, _)| kind == self).try_for_each(|(_, name)| f.write_str(name))
    }
}

impl FromStr for CheckpointType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind);
        known.ok_or_else(|| {
            format!(
                "checkpoint type `{text}` is not known: `CONFIGURED`, `FULL` or `INCREMENTAL` is expected"
            )
        })
    }
}

/// In which form an operator is asked for its state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SnapshotForm {
    /// For a checkpoint: whatever is fastest to write and to restore, and it may name files of completed
    /// checkpoints.
    #[default]
    Checkpoint,
    /// For a checkpoint that names no file of an earlier one. Later ones may name its files.
    FullCheckpoint,
    /// For a savepoint, which names no file but its own.
    Savepoint(SavepointFormat),
}

/// What `_metadata` holds: everything that is needed to restore a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointMetadata {
    /// The checkpoint's number.
    pub id: CheckpointId,
    /// The job that took it.
    pub job: JobId,
    /// The job's name.
    pub job_name: String,
    /// The generation that took it.
    pub generation: Generation,
    /// Why it was taken.
    pub kind: CheckpointKind,
    /// When it was triggered: milliseconds since 1970.
    pub triggered_at_ms: i64,
    /// All operators with state, in the plan's order.
    pub operators: Vec<OperatorState>,
}

impl OperatorState {
    /// Bytes of state, of all subtasks and of the enumerator.
    pub fn bytes(&self) -> u64 {
        let enumerator = self.enumerator.as_ref().map(|state| state.len() as u64);
        sum(self.subtasks.values().map(OperatorSubtaskState::len).chain(enumerator))
    }

    /// Whether there is no state.
    pub fn is_empty(&self) -> bool {
        self.enumerator.is_none() && self.subtasks.values().all(OperatorSubtaskState::is_empty)
    }
}

impl CheckpointMetadata {
    /// Bytes of state.
    pub fn state_len(&self) -> u64 {
        sum(self.operators.iter().map(OperatorState::bytes))
    }

    /// Every stream that it names.
    pub fn streams(&self) -> impl Iterator<Item = &StreamHandle> {
        self.operators.iter().flat_map(|o| o.subtasks.values()).flat_map(OperatorSubtaskState::streams)
    }
}

/// A completed checkpoint as the register names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompletedRef {
    /// Its number.
    pub id: CheckpointId,
    /// Its directory, relative to the job's checkpoint directory, as in `chk-17`; of a savepoint the whole
    /// location.
    pub path: String,
}

impl CompletedRef {
    /// Whether it is a savepoint: then its path is a location, it belongs to a person, and the system never
    /// deletes it.
    ///
    /// ```
    /// use stillstream_types::{CheckpointId, CompletedRef};
    /// let of = |path: &str| CompletedRef { id: CheckpointId(17), path: path.into() };
    /// assert!(of("/data/savepoint-ababab-0123456789ab").is_savepoint());
    /// assert!(!of("chk-17").is_savepoint());
    /// ```
    pub fn is_savepoint(&self) -> bool {
        checkpoint_paths::checkpoint_of(&self.path).is_none()
    }
}

impl fmt::Display for CompletedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_savepoint() {
            true => write!(f, "savepoint {} ({})", self.id, self.path),
            false => write!(f, "checkpoint {}", self.id),
        }
    }
}

/// What became of a job, as the register knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobOutcome {
    /// It runs, or died without saying so: a new start resumes from the newest completed checkpoint.
    Running,
    /// It reached the end of its input: it does not run again unless a person asks for a fresh start.
    Finished,
    /// A person cancelled it: it does not run again unless a person says from where.
    Cancelled,
    /// It failed for good: a new start resumes from the newest completed checkpoint.
    Failed,
    /// A person, or the system's request to end, stopped it with a last checkpoint (Ctrl-C, SIGTERM): a new
    /// start resumes from that.
    Suspended,
    /// A person stopped it with a savepoint, which is the last of `retained`: it does not run again unless a
    /// person says from where.
    Stopped,
}

/// What a run of a job came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobFigures {
    /// Records that sources emitted.
    pub records_in: u64,
    /// Records that reached a sink.
    pub records_out: u64,
    /// From submission to the end, in milliseconds.
    pub duration_ms: u64,
    /// How often the job was restarted.
    pub restarts: u64,
    /// The checkpoint that the run started from.
    pub resumed_from: Option<CheckpointId>,
    /// Completed checkpoints.
    pub checkpoints_completed: u64,
    /// Aborted, declined and expired checkpoints.
    pub checkpoints_failed: u64,
    /// The newest completed checkpoint.
    pub last_checkpoint: Option<CheckpointId>,
    /// Bytes of state of the newest completed checkpoint.
    pub last_checkpoint_bytes: u64,
    /// The longest time from a trigger to its completion, in milliseconds.
    pub slowest_checkpoint_ms: u64,
    /// Rare events by name, such as `windows.late`.
    pub counters: BTreeMap<String, u64>,
}

/// The end of a job as its register keeps it, so that a later start can report it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobEnd {
    /// When it was recorded, in milliseconds since 1970.
    pub at_ms: i64,
    /// What the run had come to by then.
    pub figures: JobFigures,
}

/// What tells one snapshot from every other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotIdentity {
    /// The job that took it.
    pub job: JobId,
    /// Its number.
    pub checkpoint: CheckpointId,
    /// The generation that took it.
    pub generation: Generation,
    /// When it was triggered: milliseconds since 1970.
    pub triggered_at_ms: i64,
}

impl SnapshotIdentity {
    /// The identity of the snapshot with this metadata.
    pub fn of(metadata: &CheckpointMetadata) -> Self {
        Self {
            job: metadata.job,
            checkpoint: metadata.id,
            generation: metadata.generation,
            triggered_at_ms: metadata.triggered_at_ms,
        }
    }
}

/// The snapshot that a person named for the start of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartedFrom {
    /// Where it lies, as the person wrote it.
    pub location: String,
    /// Which one it was.
    pub snapshot: SnapshotIdentity,
    /// Whether the job owns it, and deletes it once it has enough checkpoints of its own.
    pub claimed: bool,
}

/// How a life of a job began: what a person chose, so that a supervisor may start the same command line
/// again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobStart {
    /// The snapshot that it began from, if a person named one.
    pub from: Option<StartedFrom>,
    /// The older checkpoint of its own that a person had it fall back to, last.
    pub fell_back_to: Option<CheckpointId>,
    /// Operators of which state was left behind by choice.
    pub left_behind: Vec<OperatorId>,
}

/// The one truth about a job's checkpoints, changed only by compare-and-set.
///
/// Invariants: `generation` and `last_checkpoint_id` never go back; every checkpoint in `completed` exists
/// whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterRecord {
    /// Whose record it is.
    pub job: JobId,
    /// The job's name.
    pub job_name: String,
    /// Who may write. A writer that finds a higher one here has been fenced off.
    pub generation: Generation,
    /// What became of the job.
    pub outcome: JobOutcome,
    /// The highest checkpoint id that any attempt ever used or may have used.
    pub last_checkpoint_id: CheckpointId,
    /// Retained checkpoints, oldest first. The savepoint of a stop is among them from the moment at which it
    /// is complete until the stop is recorded: whatever happens between the two goes on from there.
    pub completed: Vec<CompletedRef>,
    /// Checkpoints of earlier, cancelled runs that their owner asked to keep, and savepoints with which runs
    /// were stopped. Never restored from by themselves, and never deleted by the system.
    pub retained: Vec<CompletedRef>,
    /// How the job ended. `None` while it runs, and in records of releases that did not write it.
    pub ended: Option<Box<JobEnd>>,
    /// How this life of the job began. `None` where nothing was chosen, and in records of releases that did
    /// not write it.
    pub began: Option<Box<JobStart>>,
}
