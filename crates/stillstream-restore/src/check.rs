//! What becomes of each state of a snapshot in a program, and why a restore is refused.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use stillstream_jobmaster::{key_groups, plan_restore, refuse_unclaimed, unclaimed};
use stillstream_state::{Compatibility, StateError};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    CheckpointMetadata, IncrementalFormat, KeyGroups, OperatorId, OperatorState, OperatorSubtaskState,
};

use crate::contents::{States, states_of};
use crate::description::{Backend, Meta, OperatorDescription, PlanDescription};

/// What a person has chosen for a restore.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choices {
    /// State that nobody takes may be left behind (`--allow-non-restored-state`).
    pub allow_non_restored_state: bool,
    /// Operators whose state was left behind by choice at an earlier start.
    pub left_behind: BTreeSet<OperatorId>,
    /// What fields hold that the program's types no longer have may be lost (`--allow-dropped-fields`).
    pub allow_dropped_fields: bool,
    /// Fields whose values were dropped by choice at an earlier start, as [`RestoreCheck::dropped_fields`] has them.
    pub dropped_fields: BTreeSet<String>,
}

impl Choices {
    fn allow(&self, id: OperatorId) -> bool {
        self.allow_non_restored_state || self.left_behind.contains(&id)
    }
}

/// What becomes of one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is read as it is.
    Same,
    /// Each value is read by its stored type and written in the new one.
    Migrated,
    /// The snapshot does not have it: it starts empty.
    New,
    /// The program does not register it: it goes unchanged into the next checkpoints.
    Carried,
    /// The program has no place for it: it is lost, where that is allowed.
    LeftBehind,
    /// It cannot be read as what the program wants.
    Refused,
}

/// What becomes of one state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StateCheck {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub verdict: Verdict,
    /// What the snapshot holds.
    pub stored: Option<String>,
    /// What the program wants.
    pub wanted: Option<String>,
    /// Fields of what is stored that the program's type does not have, one sentence each: what they hold is lost, where that
    /// is allowed.
    pub dropped_fields: Vec<String>,
}

/// What one subtask gets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SubtaskCheck {
    /// Which one.
    pub index: u32,
    /// Its first key group.
    pub first_key_group: u16,
    /// The key group after its last one.
    pub end_key_group: u16,
    /// Bytes of state that it gets. Files in a backend's own form count whole for each subtask that reads
    /// them.
    pub bytes: u64,
}

/// Where the number of key groups comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyGroupsFrom {
    /// The program says it.
    Program,
    /// The snapshot has it, and the program does not say anything else.
    Snapshot,
    /// The default for the parallelism.
    Default,
}

/// What becomes of one operator of the program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OperatorCheck {
    /// Its id.
    pub id: String,
    /// Its uid.
    pub uid: Option<String>,
    /// Its name.
    pub name: String,
    /// Its parallelism in the snapshot, if it is there.
    pub parallelism_before: Option<u32>,
    /// Its parallelism now.
    pub parallelism: u32,
    /// Its number of key groups.
    pub max_parallelism: u32,
    /// Where that number comes from.
    pub max_parallelism_from: KeyGroupsFrom,
    /// Bytes that the snapshot has of it.
    pub bytes: u64,
    /// Whether its states are known; they are not where opening the operator failed.
    pub states_known: bool,
    /// Its states, those that only the snapshot has included.
    pub states: Vec<StateCheck>,
    /// Its subtasks, if the snapshot has it.
    pub subtasks: Vec<SubtaskCheck>,
}

/// State of an operator that the program does not have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LeftBehind {
    /// The operator's id.
    pub id: String,
    /// Its uid.
    pub uid: Option<String>,
    /// Its name.
    pub name: String,
    /// Bytes of state.
    pub bytes: u64,
    /// Whether it may be left behind.
    pub allowed: bool,
}

/// What becomes of a snapshot in a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RestoreCheck {
    /// The number of the snapshot.
    pub checkpoint: u64,
    /// The job that took it.
    pub job: String,
    /// The program's operators.
    pub operators: Vec<OperatorCheck>,
    /// The snapshot's operators that the program does not have.
    pub unclaimed: Vec<LeftBehind>,
    /// Why it cannot be restored, one sentence each; empty if it can.
    pub problems: Vec<String>,
    /// What is left behind, as allowed: one line each, for the log.
    pub left_behind: Vec<String>,
    /// How many key groups each operator has.
    #[serde(skip)]
    pub key_groups: BTreeMap<OperatorId, u32>,
    /// The operators that something is left behind of.
    #[serde(skip)]
    pub left_behind_of: BTreeSet<OperatorId>,
    /// The fields whose values are lost, as allowed, each with operator and state.
    #[serde(skip)]
    pub dropped_fields: BTreeSet<String>,
}

impl RestoreCheck {
    /// Whether the snapshot can be restored.
    pub fn is_possible(&self) -> bool {
        self.problems.is_empty()
    }

    /// Why not, as one text; `place` is where the snapshot lies.
    pub fn refusal(&self, place: &str) -> Option<String> {
        let what = format!("checkpoint {} ({place}) cannot be restored into this program", self.checkpoint);
        match folded(&self.problems).as_slice() {
            [] => None,
            [one] => Some(format!("{what}: {one}")),
            many => Some(format!("{what}, for {} reasons:\n  {}", many.len(), many.join("\n  "))),
        }
    }

    /// The [problems](Self::problems) for people: a reason that many operators have is said once, with the
    /// first of them.
    pub fn folded_problems(&self) -> Vec<String> {
        folded(&self.problems)
    }
}

/// So many operators with one reason are said one by one; of more the first ones are named.
const NAMED: usize = 3;

/// Folds reasons that differ in the operator only, as of a parallelism that fits none of them.
fn folded(problems: &[String]) -> Vec<String> {
    // "operator `<name>` (<id>): <reason>"
    fn parts(problem: &str) -> Option<(&str, &str)> {
        let (operator, reason) = problem.strip_prefix("operator ")?.split_once("): ")?;
        Some((operator, reason))
    }
    // by reason: the operators that have it
    let mut same: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (operator, reason) in problems.iter().filter_map(|problem| parts(problem)) {
        same.entry(reason).or_default().push(operator);
    }
    let mut said = BTreeSet::new();
    let mut folded = Vec::new();
    for problem in problems {
        match parts(problem) {
            Some((_, reason)) if same[reason].len() > NAMED => {
                if said.insert(reason) {
                    let named = same[reason].iter().take(NAMED).map(|operator| format!("{operator})"));
                    let (named, more) = (named.collect::<Vec<_>>().join(", "), same[reason].len() - NAMED);
                    folded.push(format!("each of the operators {named} and {more} more: {reason}"));
                }
            }
            _ => folded.push(problem.clone()),
        }
    }
    folded
}

/// Compares a snapshot with a program. Reads the headers of its files through `store`; blocks.
///
/// # Errors
/// A header that is missing, damaged, or of a newer release. What does not fit is no error: it is in the
/// answer.
pub fn check(
    metadata: &CheckpointMetadata,
    store: &dyn SnapshotStore,
    plan: &PlanDescription,
    choices: &Choices,
) -> Result<RestoreCheck, StateError> {
    let mut checking = Checking {
        choices,
        problems: Vec::new(),
        left_behind: Vec::new(),
        of: BTreeSet::new(),
        fields: BTreeSet::new(),
    };
    let mut adopted = plan.operators.clone();
    for operator in &mut adopted {
        let set = operator.max_parallelism_is_set.then_some(operator.max_parallelism);
        match key_groups(metadata, operator.id, &operator.name, operator.parallelism, set) {
            Ok(groups) => operator.max_parallelism = groups,
            Err(error) => checking.problems.push(error.to_string()),
        }
    }
    let infos: Vec<_> = adopted.iter().map(OperatorDescription::info).collect();
    let planned = match checking.problems.is_empty() {
        true => plan_restore(metadata, &infos, true)
            .map_err(|error| checking.problems.push(error.to_string()))
            .ok(),
        // the numbers that do not fit have been said
        false => None,
    };

    let ids: BTreeSet<OperatorId> = adopted.iter().map(|operator| operator.id).collect();
    let nobodys = unclaimed(metadata, |id| ids.contains(&id));
    let (allowed, refused): (Vec<_>, Vec<_>) =
        nobodys.iter().cloned().partition(|unclaimed| choices.allow(unclaimed.id));
    checking.problems.extend(refuse_unclaimed(metadata.id, &refused).map(|error| error.to_string()));
    checking.left_behind.extend(allowed.iter().map(|unclaimed| unclaimed.left_behind()));
    checking.of.extend(allowed.iter().map(|unclaimed| unclaimed.id));

    let mut operators = Vec::new();
    for operator in &adopted {
        let old = metadata.operators.iter().find(|old| old.id == operator.id);
        let stored = match old {
            // of one whose states could not be found out nothing can be said: it looks itself when it is
            // opened
            Some(old) if operator.states.is_some() => states_of(old.subtasks.values(), store)?,
            _ => States::default(),
        };
        let states = checking.operator(operator, old, &stored, plan.backend);
        let shares = planned.as_ref().and_then(|planned| planned.operators.get(&operator.id));
        let known = |from: KeyGroupsFrom| if old.is_some() { KeyGroupsFrom::Snapshot } else { from };
        operators.push(OperatorCheck {
            id: operator.id.to_string(),
            uid: operator.uid.clone(),
            name: operator.name.clone(),
            parallelism_before: old.map(|old| old.parallelism),
            parallelism: operator.parallelism,
            max_parallelism: operator.max_parallelism,
            max_parallelism_from: match operator.max_parallelism_is_set {
                true => KeyGroupsFrom::Program,
                false => known(KeyGroupsFrom::Default),
            },
            bytes: old.map_or(0, OperatorState::bytes),
            states_known: operator.states.is_some(),
            states,
            subtasks: match (old, shares) {
                (Some(_), Some(shares)) => subtasks(operator, shares),
                _ => Vec::new(),
            },
        });
    }
    let unclaimed = nobodys.into_iter().map(|unclaimed| LeftBehind {
        allowed: choices.allow(unclaimed.id),
        id: unclaimed.id.to_string(),
        uid: unclaimed.uid,
        name: unclaimed.name,
        bytes: unclaimed.bytes,
    });
    Ok(RestoreCheck {
        checkpoint: metadata.id.0,
        job: metadata.job_name.clone(),
        unclaimed: unclaimed.collect(),
        operators,
        problems: checking.problems,
        left_behind: checking.left_behind,
        left_behind_of: checking.of,
        dropped_fields: checking.fields,
        key_groups: adopted.iter().map(|operator| (operator.id, operator.max_parallelism)).collect(),
    })
}

/// What was found so far.
struct Checking<'a> {
    choices: &'a Choices,
    problems: Vec<String>,
    left_behind: Vec<String>,
    of: BTreeSet<OperatorId>,
    fields: BTreeSet<String>,
}

impl Checking<'_> {
    fn operator(
        &mut self,
        operator: &OperatorDescription,
        old: Option<&OperatorState>,
        stored: &States,
        backend: Backend,
    ) -> Vec<StateCheck> {
        let mut checks = Vec::new();
        let Some(wanted) = &operator.states else { return checks };
        let label = format!("operator `{}` ({})", operator.name, operator.id);
        let wanted: Vec<(&str, Meta)> = wanted.iter().map(|state| (&*state.name, state.meta())).collect();
        if let (Some(key), Some(_)) = (&operator.key, old) {
            let wrong = stored.keyed.iter().find_map(|header| header.check_key(&key.0).err());
            self.problems.extend(wrong.map(|error| format!("{label}: {error}")));
        }
        if let Some(error) =
            old.filter(|_| operator.key.is_some()).and_then(|old| other_backend(old, backend))
        {
            self.problems.push(format!("{label}: {error}"));
        }
        let keyed = stored.keyed.iter().flat_map(|header| &header.states).cloned();
        let found = keyed.map(|meta| (meta.name.clone(), Meta::Keyed(meta)));
        let of_operator = stored.operator.iter().cloned();
        let found = found.chain(of_operator.map(|(name, meta)| (name, Meta::Operator(meta))));
        let mut seen: Vec<(String, Meta)> = Vec::new();
        for state in found {
            // subtasks that wrote different headers have most of their states in common
            if seen.contains(&state) {
                continue;
            }
            checks.push(self.state(operator, &label, old, &wanted, &state));
            seen.push(state);
        }
        for (name, meta) in wanted {
            if !seen.iter().any(|(known, found)| known == name && same_sort(found, &meta)) {
                let wanted = Some(meta.to_string());
                let (verdict, dropped_fields) = (Verdict::New, Vec::new());
                checks.push(StateCheck { name: name.into(), verdict, stored: None, wanted, dropped_fields });
            }
        }
        checks
    }

    fn state(
        &mut self,
        operator: &OperatorDescription,
        label: &str,
        old: Option<&OperatorState>,
        wanted: &[(&str, Meta)],
        (name, stored): &(String, Meta),
    ) -> StateCheck {
        let new = wanted.iter().find(|(wanted, meta)| wanted == name && same_sort(meta, stored));
        let compared = match (new.map(|(_, meta)| meta), stored) {
            (Some(Meta::Keyed(new)), Meta::Keyed(stored)) => Some(new.check(stored)),
            (Some(Meta::Operator(new)), Meta::Operator(stored)) => Some(new.check(name, stored)),
            _ => None,
        };
        let mut dropped_fields = Vec::new();
        let verdict = match compared {
            Some(Ok(Compatibility::AsIs)) => Verdict::Same,
            Some(Ok(_)) => {
                if let Some((_, new)) = new.filter(|_| has_content(old, name, stored)) {
                    dropped_fields = new.dropped_fields(stored);
                }
                for field in &dropped_fields {
                    self.dropped(&format!("{label}: state `{name}`"), field);
                }
                Verdict::Migrated
            }
            Some(Err(error)) => {
                self.problems.push(format!("{label}: {error}"));
                Verdict::Refused
            }
            None if has_place(wanted, operator, stored) || !has_content(old, name, stored) => {
                Verdict::Carried
            }
            None => {
                let what = format!("{label}: its state `{name}`, {stored}, has no place in the program");
                match self.choices.allow(operator.id) {
                    true => {
                        self.left_behind.push(format!("{what} and is left behind"));
                        self.of.insert(operator.id);
                    }
                    false => self.problems.push(format!(
                        "{what}, which keeps no such state under this uid: give it back to the operator that it was of, or \
                         leave it behind with --allow-non-restored-state (execution.state-recovery.ignore-unclaimed-state: true)"
                    )),
                }
                Verdict::LeftBehind
            }
        };
        let wanted = new.map(|(_, meta)| meta.to_string());
        StateCheck { name: name.clone(), verdict, stored: Some(stored.to_string()), wanted, dropped_fields }
    }

    /// A field is in the snapshot and not in the program: a person has to know of it.
    fn dropped(&mut self, of: &str, field: &str) {
        let known = format!("{of}: {field}");
        if self.choices.allow_dropped_fields || self.choices.dropped_fields.contains(&known) {
            self.left_behind.push(format!("{of}: what it holds in {field} is lost, as allowed"));
            self.fields.insert(known);
            return;
        }
        self.problems.push(format!(
            "{of}: the program's type has no {field}; if what it holds may be lost, say so with --allow-dropped-fields \
             (stillstream.checkpoint.allow-dropped-fields: true)"
        ));
    }
}

/// Keyed state and operator state have names of their own.
fn same_sort(one: &Meta, other: &Meta) -> bool {
    matches!((one, other), (Meta::Keyed(_), Meta::Keyed(_)) | (Meta::Operator(_), Meta::Operator(_)))
}

/// Whether what the program does not register goes into its next checkpoints: it does where the operator has
/// other state of the same sort.
fn has_place(wanted: &[(&str, Meta)], operator: &OperatorDescription, stored: &Meta) -> bool {
    match stored {
        Meta::Keyed(_) => operator.key.is_some(),
        Meta::Operator(_) => wanted.iter().any(|(_, meta)| same_sort(meta, stored)),
    }
}

/// Whether there is anything that could be lost.
fn has_content(old: Option<&OperatorState>, name: &str, stored: &Meta) -> bool {
    old.iter().flat_map(|old| old.subtasks.values()).any(|subtask| match stored {
        Meta::Keyed(_) => {
            !subtask.incremental.is_empty() || subtask.keyed.iter().any(|handle| !handle.sections.is_empty())
        }
        Meta::Operator(_) => subtask
            .operator
            .iter()
            .any(|handle| handle.states.get(name).is_some_and(|state| !state.offsets.is_empty())),
    })
}

/// State in the own form of a backend that the job does not have.
fn other_backend(old: &OperatorState, backend: Backend) -> Option<StateError> {
    let mut handles = old.subtasks.values().flat_map(|subtask| &subtask.incremental);
    let (readable, wanted) = match backend {
        Backend::Hashmap => (IncrementalFormat::HeapChain, "heap"),
        Backend::Rocksdb => (IncrementalFormat::RocksDb, "RocksDB"),
    };
    let other = handles.find(|handle| handle.format != readable)?;
    Some(StateError::OtherBackend {
        path: other.meta.path().unwrap_or("(inline state)").into(),
        written: if wanted == "heap" { "RocksDB" } else { "heap" },
        wanted,
    })
}

fn subtasks(operator: &OperatorDescription, shares: &[OperatorSubtaskState]) -> Vec<SubtaskCheck> {
    let groups = KeyGroups::new(operator.max_parallelism);
    let subtask = |(index, share): (usize, &OperatorSubtaskState)| {
        let range = groups.range(index as u32, operator.parallelism);
        let (first_key_group, end_key_group) = (range.start, range.end);
        SubtaskCheck { index: index as u32, first_key_group, end_key_group, bytes: bytes_of(share) }
    };
    shares.iter().enumerate().map(subtask).collect()
}

fn bytes_of(share: &OperatorSubtaskState) -> u64 {
    let keyed = share.keyed.iter().flat_map(|handle| &handle.sections).map(|section| section.len);
    let incremental = share.incremental.iter().flat_map(|handle| handle.streams()).map(|stream| stream.len());
    let operator = share.operator.iter().flat_map(|handle| handle.states.values());
    let operator =
        operator.map(|state| state.end.saturating_sub(state.offsets.first().copied().unwrap_or(state.end)));
    keyed.chain(incremental).chain(operator).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_many_operators_have_is_said_once_with_the_first_of_them() {
        let below = |n: u32| format!("operator `map {n}` (0{n}): its parallelism is 200: at most 128");
        let gone = || "checkpoint 3 has state that no operator of the plan claims".to_string();
        let many: Vec<String> = (1..=20).map(below).chain([gone()]).collect();
        let said = folded(&many);
        assert_eq!(
            said,
            [
                "each of the operators `map 1` (01), `map 2` (02), `map 3` (03) and 17 more: its parallelism is 200: at most 128",
                &gone(),
            ]
        );
        // a few are said one by one, and so are those with another reason each
        let few: Vec<String> = (1..=3).map(below).collect();
        assert_eq!(folded(&few), few);
        let others: Vec<String> = (0..9).map(|n| format!("operator `map` (01): state {n} is gone")).collect();
        assert_eq!(folded(&others), others);
    }
}
