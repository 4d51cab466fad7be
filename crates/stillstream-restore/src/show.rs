//! Plans and checks as people read them.

use std::fmt;

use crate::check::{KeyGroupsFrom, LeftBehind, OperatorCheck, RestoreCheck, StateCheck, Verdict};
use crate::description::{Backend, OperatorDescription, PlanDescription};

fn uid(uid: Option<&String>) -> String {
    uid.map_or_else(|| "no uid".into(), |uid| format!("uid `{uid}`"))
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hashmap => "hashmap",
            Self::Rocksdb => "rocksdb",
        })
    }
}

/// What a person should know of an operator with state that has no uid.
pub fn without_uid(name: &str) -> String {
    format!(
        "operator `{name}` keeps state and has no uid: its id comes from the shape of the graph, so any change of the job can lose \
         its state; name it with `.uid(\"..\")`"
    )
}

impl fmt::Display for OperatorDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, id, parallelism, max_parallelism, .. } = self;
        let default = if self.max_parallelism_is_set { "" } else { " (default)" };
        writeln!(
            f,
            "operator `{name}`, {}, id {id}: parallelism {parallelism}, max parallelism {max_parallelism}{default}",
            uid(self.uid.as_ref())
        )?;
        if let Some(key) = &self.key {
            writeln!(f, "  keyed by `{key}`")?;
        }
        match &self.states {
            None => writeln!(f, "  its states are not known: opening it failed"),
            Some(states) if states.is_empty() => writeln!(f, "  no state"),
            Some(states) => {
                states.iter().try_for_each(|state| writeln!(f, "  {}: {}", state.name, state.meta()))
            }
        }
    }
}

impl fmt::Display for PlanDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "job `{}` (id {}), state backend {}", self.job, self.job_id, self.backend)?;
        self.operators.iter().try_for_each(|operator| write!(f, "\n{operator}"))?;
        let warned = self.operators.iter().filter(|operator| operator.needs_uid);
        let warnings: Vec<String> = warned.map(|operator| without_uid(&operator.name)).collect();
        if !warnings.is_empty() {
            writeln!(f)?;
        }
        warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

impl fmt::Display for StateCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |side: &Option<String>| side.clone().unwrap_or_default();
        let (name, stored, wanted) = (&self.name, text(&self.stored), text(&self.wanted));
        match self.verdict {
            Verdict::Same => write!(f, "{name}: restored, {stored}"),
            Verdict::Migrated => {
                write!(f, "{name}: migrated from {stored} to {wanted}")?;
                self.dropped_fields
                    .iter()
                    .try_for_each(|field| write!(f, "; what it holds in {field} is lost"))
            }
            Verdict::New => write!(f, "{name}: new, starts empty, {wanted}"),
            Verdict::Carried => {
                write!(f, "{name}: no part of the program takes it, it is carried along unchanged, {stored}")
            }
            Verdict::LeftBehind => write!(f, "{name}: the program has no place for it, {stored}"),
            Verdict::Refused => write!(f, "{name}: refused, {stored} is stored and {wanted} is wanted"),
        }
    }
}

impl fmt::Display for OperatorCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator `{}`, {}, id {}: ", self.name, uid(self.uid.as_ref()), self.id)?;
        let parallelism = self.parallelism;
        match self.parallelism_before {
            None => write!(f, "not in the snapshot, parallelism {parallelism}")?,
            Some(before) if before == parallelism => {
                write!(f, "{} bytes, parallelism {parallelism}", self.bytes)?;
            }
            Some(before) => write!(f, "{} bytes, parallelism {before} -> {parallelism}", self.bytes)?,
        }
        let from = match self.max_parallelism_from {
            KeyGroupsFrom::Program => "as the program says",
            KeyGroupsFrom::Snapshot => "as in the snapshot",
            KeyGroupsFrom::Default => "the default",
        };
        writeln!(f, ", {} key groups ({from})", self.max_parallelism)?;
        if !self.states_known {
            writeln!(f, "  its states are not known: opening it failed")?;
        }
        self.states.iter().try_for_each(|state| writeln!(f, "  {state}"))?;
        self.subtasks.iter().try_for_each(|subtask| {
            let (index, first, end) = (subtask.index, subtask.first_key_group, subtask.end_key_group);
            writeln!(f, "  subtask {index}: key groups {first}..{end}, {} bytes", subtask.bytes)
        })
    }
}

impl fmt::Display for LeftBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let becomes = if self.allowed { "left behind, as allowed" } else { "no operator claims it" };
        let (name, id, bytes) = (&self.name, &self.id, self.bytes);
        write!(
            f,
            "left over: operator `{name}`, {}, id {id}, {bytes} bytes: {becomes}",
            uid(self.uid.as_ref())
        )
    }
}

impl fmt::Display for RestoreCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "checkpoint {} of job `{}`", self.checkpoint, self.job)?;
        self.operators.iter().try_for_each(|operator| write!(f, "\n{operator}"))?;
        if !self.unclaimed.is_empty() {
            writeln!(f)?;
        }
        self.unclaimed.iter().try_for_each(|left| writeln!(f, "{left}"))?;
        if self.is_possible() {
            return writeln!(
                f,
                "\nit can be restored, as far as metadata and headers tell (`stillstream verify` reads everything); nothing was started or \
                 changed"
            );
        }
        writeln!(f, "\nit cannot be restored; nothing was started or changed:")?;
        self.folded_problems().iter().try_for_each(|problem| writeln!(f, "  {problem}"))
    }
}
