//! Who gets which state when a job starts from a snapshot, at the old parallelism or another one.
//!
//! - Keyed state goes to the owner of its key group; each subtask gets the handles that hold groups of its
//!   range, with only those sections.
//! - Operator state goes by its [`RedistributionMode`]: *split* stays where it was if the parallelism is
//!   unchanged and is otherwise dealt out in contiguous slices as even as possible; *union* goes whole to
//!   everybody; *broadcast* gives each subtask one copy (subtask i takes copy i mod n).
//!
//! Flink's `StateAssignmentOperation` and `RoundRobinOperatorStateRepartitioner` are the models.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use stillstream_types::key_group::UPPER_MAX_PARALLELISM;
use stillstream_types::{
    CheckpointId, CheckpointMetadata, KeyGroupRange, KeyGroups, KeyedStateHandle, OperatorId, OperatorState,
    OperatorStateEntry, OperatorStateHandle, OperatorSubtaskState, RedistributionMode,
};

use crate::plan::OperatorInfo;

/// What each subtask of each operator gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestorePlan {
    /// The snapshot that it was made from.
    pub checkpoint: CheckpointId,
    /// By operator, then by subtask index; an operator that the snapshot does not know gets empty states.
    pub operators: BTreeMap<OperatorId, Vec<OperatorSubtaskState>>,
    /// The states of the sources' enumerators.
    pub enumerators: BTreeMap<OperatorId, Arc<[u8]>>,
    /// One line for each operator of the snapshot whose state was left behind, as allowed.
    pub dropped: Vec<String>,
}

/// Why a snapshot cannot be restored into this plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RestoreError {
    /// The number of key groups is fixed for the life of the state.
    #[error(
        "operator {operator}: the snapshot was taken with max parallelism {found}, the plan has {expected}; \
         set the operator's max parallelism to {found}"
    )]
    MaxParallelismChanged {
        /// Name and id.
        operator: String,
        /// The plan's.
        expected: u32,
        /// The snapshot's.
        found: u32,
    },
    /// A subtask without a key group could never get a record.
    #[error(
        "operator {operator}: its parallelism is {parallelism}, and its state in the snapshot has {found} key groups, whose \
         number never changes: set a parallelism of at most {found}"
    )]
    ParallelismAboveKeyGroups {
        /// Name and id.
        operator: String,
        /// The plan's parallelism.
        parallelism: u32,
        /// The snapshot's number of key groups.
        found: u32,
    },
    /// State would be left behind.
    #[error(
        "checkpoint {checkpoint} has state that no operator of the plan claims: {operators}; give the operator its old \
         uid, or leave the state behind with --allow-non-restored-state \
         (execution.state-recovery.ignore-unclaimed-state: true)"
    )]
    Unmapped {
        /// The snapshot.
        checkpoint: CheckpointId,
        /// Name, uid, id and bytes of each.
        operators: String,
    },
    /// Two operators of the plan have the same id.
    #[error("operators {first} and {second} of the plan have the same id {id}: give them different uids")]
    DuplicateOperator {
        /// The id.
        id: OperatorId,
        /// The first one's name.
        first: String,
        /// The second one's name.
        second: String,
    },
    /// The plan's numbers make no sense.
    #[error(
        "operator {operator}: parallelism {parallelism} with max parallelism {max_parallelism}: parallelism must be from 1 \
         to max parallelism, and that at most 32768"
    )]
    IllegalParallelism {
        /// Name and id.
        operator: String,
        /// The plan's parallelism.
        parallelism: u32,
        /// The plan's max parallelism.
        max_parallelism: u32,
    },
    /// The snapshot contradicts itself.
    #[error(
        "checkpoint {checkpoint}, operator {operator}: {problem}; the metadata is damaged, restore an older snapshot"
    )]
    Damaged {
        /// The snapshot.
        checkpoint: CheckpointId,
        /// Name and id.
        operator: String,
        /// What is wrong.
        problem: String,
    },
}

/// State of a snapshot that no operator of a plan claims.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unclaimed {
    /// The operator that it was of.
    pub id: OperatorId,
    /// Its uid, if it had one.
    pub uid: Option<String>,
    /// Its name.
    pub name: String,
    /// Bytes of state.
    pub bytes: u64,
}

impl fmt::Display for Unclaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", label(&self.name, self.id))?;
        match &self.uid {
            Some(uid) => write!(f, "uid \"{uid}\"")?,
            None => f.write_str("without a uid")?,
        }
        write!(f, ", {} bytes)", self.bytes)
    }
}

impl Unclaimed {
    /// The line that says that it was left behind, as allowed.
    pub fn left_behind(&self) -> String {
        format!("state of operator {self} is left behind: no operator claims it")
    }
}

/// The state of `metadata` that no operator with one of these ids takes, in the snapshot's order.
pub fn unclaimed(metadata: &CheckpointMetadata, claims: impl Fn(OperatorId) -> bool) -> Vec<Unclaimed> {
    let state = metadata.operators.iter();
    let state = state.filter(|old| !old.is_empty());
    let unclaimed = state.filter(|old| !claims(old.id)).map(|old| Unclaimed {
        id: old.id,
        uid: old.uid.clone(),
        name: old.name.clone(),
        bytes: old.bytes(),
    });
    unclaimed.collect()
}

/// The error about all of it; `None` if there is none.
pub fn refuse_unclaimed(checkpoint: CheckpointId, unclaimed: &[Unclaimed]) -> Option<RestoreError> {
    let operators = unclaimed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    (!unclaimed.is_empty()).then_some(RestoreError::Unmapped { checkpoint, operators })
}

/// How many key groups an operator has that starts from a snapshot: as many as its state there, whatever the
/// default for its parallelism would be. `set` is what the program asks for, if it does.
///
/// # Errors
/// The program asks for another number, or for more subtasks than there are key groups.
pub fn key_groups(
    metadata: &CheckpointMetadata,
    id: OperatorId,
    name: &str,
    parallelism: u32,
    set: Option<u32>,
) -> Result<u32, RestoreError> {
    let Some(old) = metadata.operators.iter().find(|old| old.id == id) else {
        return Ok(set.unwrap_or_else(|| KeyGroups::default_max_parallelism(parallelism)));
    };
    let (operator, found) = (label(name, id), old.max_parallelism);
    match set {
        Some(expected) if expected != found => {
            Err(RestoreError::MaxParallelismChanged { operator, expected, found })
        }
        _ if parallelism > found => {
            Err(RestoreError::ParallelismAboveKeyGroups { operator, parallelism, found })
        }
        _ => Ok(found),
    }
}

/// Plans the restore of `metadata` into `operators` (all operators of the new plan). State that no operator
/// claims is an error unless `allow_non_restored_state`.
///
/// ```
/// use stillstream_jobmaster::{OperatorInfo, plan_restore};
/// use stillstream_types::*;
/// let metadata = CheckpointMetadata {
///     id: CheckpointId(3), job: JobId::from_name("j"), job_name: "j".into(), generation: Generation(1),
///     kind: CheckpointKind::Checkpoint, triggered_at_ms: 0, operators: vec![],
/// };
/// let id = OperatorId::from_uid("new");
/// let (uid, name) = (Some("new".into()), "new".into());
/// let new = OperatorInfo { id, uid, name, parallelism: 2, max_parallelism: 128 };
/// let plan = plan_restore(&metadata, &[new], false).unwrap();
/// assert!(plan.operators[&id].iter().all(OperatorSubtaskState::is_empty));
/// ```
pub fn plan_restore(
    metadata: &CheckpointMetadata,
    operators: &[OperatorInfo],
    allow_non_restored_state: bool,
) -> Result<RestorePlan, RestoreError> {
    let mut wanted: BTreeMap<OperatorId, &OperatorInfo> = BTreeMap::new();
    for operator in operators {
        let (parallelism, max_parallelism) = (operator.parallelism, operator.max_parallelism);
        if parallelism == 0 || parallelism > max_parallelism || max_parallelism > UPPER_MAX_PARALLELISM {
            let operator = label(&operator.name, operator.id);
            return Err(RestoreError::IllegalParallelism { operator, parallelism, max_parallelism });
        }
        if let Some(first) = wanted.insert(operator.id, operator) {
            return Err(RestoreError::DuplicateOperator {
                id: operator.id,
                first: first.name.clone(),
                second: operator.name.clone(),
            });
        }
    }
    let mut plan = RestorePlan {
        checkpoint: metadata.id,
        operators: wanted
            .iter()
            .map(|(id, o)| (*id, vec![OperatorSubtaskState::default(); o.parallelism as usize]))
            .collect(),
        enumerators: BTreeMap::new(),
        dropped: Vec::new(),
    };
    let mut seen = BTreeSet::new();
    for old in &metadata.operators {
        check(metadata.id, old, seen.insert(old.id))?;
        let Some(new) = wanted.get(&old.id) else { continue };
        if old.max_parallelism != new.max_parallelism {
            return Err(RestoreError::MaxParallelismChanged {
                operator: label(&new.name, new.id),
                expected: new.max_parallelism,
                found: old.max_parallelism,
            });
        }
        plan.operators.insert(old.id, assign(old, new.parallelism));
        plan.enumerators.extend(old.enumerator.clone().map(|state| (old.id, state)));
    }
    let unclaimed = unclaimed(metadata, |id| wanted.contains_key(&id));
    if let (Some(error), false) = (refuse_unclaimed(metadata.id, &unclaimed), allow_non_restored_state) {
        return Err(error);
    }
    plan.dropped = unclaimed.iter().map(Unclaimed::left_behind).collect();
    Ok(plan)
}

fn label(name: &str, id: OperatorId) -> String {
    format!("`{name}` ({id})")
}

/// Refuses an operator's metadata that contradicts itself, before anything is taken from it.
fn check(checkpoint: CheckpointId, old: &OperatorState, first: bool) -> Result<(), RestoreError> {
    let damaged = |problem: String| {
        Err(RestoreError::Damaged { checkpoint, operator: label(&old.name, old.id), problem })
    };
    if !first {
        return damaged("it is listed twice".to_owned());
    }
    let mut modes: BTreeMap<&str, RedistributionMode> = BTreeMap::new();
    let mut groups = BTreeSet::new();
    for (index, state) in &old.subtasks {
        if index.0 >= old.parallelism {
            return damaged(format!("subtask {index} of {} has state", old.parallelism));
        }
        for section in state.keyed.iter().flat_map(|handle| &handle.sections) {
            if u32::from(section.group.0) >= old.max_parallelism {
                return damaged(format!("key group {} of {} has state", section.group, old.max_parallelism));
            }
        }
        for handle in &state.keyed {
            let outside = handle.sections.iter().find(|section| !handle.range.contains(section.group));
            if let Some(section) = outside {
                return damaged(format!(
                    "key group {} is outside its handle's {}",
                    section.group, handle.range
                ));
            }
            // within one subtask a group may be in several handles; two subtasks never own the same group
            groups.extend(handle.sections.iter().map(|section| (section.group, *index)));
        }
        for handle in &state.incremental {
            if u32::from(handle.range.end) > old.max_parallelism {
                let (range, all) = (handle.range, old.max_parallelism);
                return damaged(format!("incremental state has key groups {range} of {all}"));
            }
            // what is inside is known to the backend alone: it may be any group of the range
            groups.extend(handle.range.iter().map(|group| (group, *index)));
        }
        for (name, entry) in state.operator.iter().flat_map(|handle| &handle.states) {
            if *modes.entry(name).or_insert(entry.mode) != entry.mode {
                return damaged(format!("state `{name}` has different redistribution modes"));
            }
            let ends = entry.offsets.iter().skip(1).chain([&entry.end]);
            if entry.offsets.iter().zip(ends).any(|(start, end)| start > end) {
                return damaged(format!("the items of state `{name}` are not in ascending order"));
            }
        }
    }
    let owners: Vec<_> = groups.into_iter().collect();
    match owners.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => {
            damaged(format!("key group {} is owned by subtasks {} and {}", pair[0].0, pair[0].1, pair[1].1))
        }
        None => Ok(()),
    }
}

fn assign(old: &OperatorState, parallelism: u32) -> Vec<OperatorSubtaskState> {
    let groups = KeyGroups::new(old.max_parallelism);
    let operator = assign_operator_state(old, parallelism);
    operator
        .into_iter()
        .enumerate()
        .map(|(index, operator)| {
            let range = groups.range(index as u32, parallelism);
            let handles = old.subtasks.values().flat_map(|state| &state.keyed);
            let incremental = old.subtasks.values().flat_map(|state| &state.incremental);
            OperatorSubtaskState {
                // the backend takes the groups that it owns out of each
                incremental: incremental
                    .filter(|handle| !handle.range.intersect(range).is_empty())
                    .cloned()
                    .collect(),
                keyed: handles.filter_map(|handle| restrict(handle, range)).collect(),
                operator,
            }
        })
        .collect()
}

/// The handle with only the sections of `range`, if it has any.
fn restrict(handle: &KeyedStateHandle, range: KeyGroupRange) -> Option<KeyedStateHandle> {
    let sections: Vec<_> =
        handle.sections.iter().copied().filter(|section| range.contains(section.group)).collect();
    (!sections.is_empty()).then(|| KeyedStateHandle {
        range: handle.range.intersect(range),
        header_len: handle.header_len,
        header_crc32c: handle.header_crc32c,
        sections,
        stream: handle.stream.clone(),
    })
}

/// One subtask's share, by the number of the old handle that it comes from: one handle each, whatever the
/// number of states.
type Share = BTreeMap<usize, BTreeMap<String, OperatorStateEntry>>;

fn assign_operator_state(old: &OperatorState, parallelism: u32) -> Vec<Vec<OperatorStateHandle>> {
    // all old handles in one row, each with its old subtask
    let handles: Vec<(u32, &OperatorStateHandle)> = old
        .subtasks
        .iter()
        .flat_map(|(index, state)| state.operator.iter().map(|handle| (index.0, handle)))
        .collect();
    let mut entries: BTreeMap<&str, Vec<(usize, &OperatorStateEntry)>> = BTreeMap::new();
    for (at, (_, handle)) in handles.iter().enumerate() {
        for (name, entry) in &handle.states {
            entries.entry(name).or_default().push((at, entry));
        }
    }
    let mut shares: Vec<Share> = vec![Share::new(); parallelism as usize];
    let mut give = |to: usize, at: usize, name: &str, entry: OperatorStateEntry| {
        shares[to].entry(at).or_default().insert(name.to_owned(), entry);
    };
    for (name, entries) in entries {
        match entries[0].1.mode {
            RedistributionMode::Split if old.parallelism == parallelism => {
                for (at, entry) in entries {
                    give(handles[at].0 as usize, at, name, entry.clone());
                }
            }
            RedistributionMode::Split => {
                let total: usize = entries.iter().map(|(_, entry)| entry.offsets.len()).sum();
                for to in 0..parallelism as usize {
                    let (from, until) = even_slice(total, parallelism as usize, to);
                    let mut first = 0;
                    for (at, entry) in &entries {
                        let len = entry.offsets.len();
                        let start = from.clamp(first, first + len) - first;
                        let end = until.clamp(first, first + len) - first;
                        if start < end {
                            give(to, *at, name, items(entry, start, end));
                        }
                        first += len;
                    }
                }
            }
            RedistributionMode::Union => {
                for to in 0..parallelism as usize {
                    for (at, entry) in &entries {
                        give(to, *at, name, (*entry).clone());
                    }
                }
            }
            RedistributionMode::Broadcast => {
                for to in 0..parallelism as usize {
                    let (at, entry) = entries[to % entries.len()];
                    give(to, at, name, entry.clone());
                }
            }
        }
    }
    let handle =
        |(at, states): (usize, _)| OperatorStateHandle { states, stream: handles[at].1.stream.clone() };
    shares.into_iter().map(|share| share.into_iter().map(handle).collect()).collect()
}

/// Slice `index` of `total` items in `slices` contiguous slices, the longer ones first.
fn even_slice(total: usize, slices: usize, index: usize) -> (usize, usize) {
    let (base, rest) = (total / slices, total % slices);
    let start = index * base + index.min(rest);
    (start, start + base + usize::from(index < rest))
}

fn items(entry: &OperatorStateEntry, start: usize, end: usize) -> OperatorStateEntry {
    OperatorStateEntry {
        mode: entry.mode,
        schema: entry.schema.clone(),
        offsets: entry.offsets[start..end].to_vec(),
        end: entry.offsets.get(end).copied().unwrap_or(entry.end),
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
