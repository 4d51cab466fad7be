//! `inspect`: what is in a checkpoint, without the program that wrote it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::{Value, json};
use stillstream_state::snapshot::{SnapshotEntry, for_each_entry, inspect};
use stillstream_state::{Schema, StateError};
use stillstream_storage::{RetainedCheckpoint, StorageError, StorageOptions};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{Error, ErrorKind, IncrementalFormat, OperatorState, RedistributionMode};

use crate::Answer;
use crate::arguments::Look;
use crate::checkpoints::kind;
use crate::table::{bytes, moment, table};
use crate::value::{is_key, show};

/// One state of one operator, over all its subtasks.
#[derive(Default)]
struct State {
    what: String,
    entries: u64,
    size: u64,
    groups: BTreeMap<u16, u64>,
}

/// What one operator has.
#[derive(Default)]
struct Contents {
    states: BTreeMap<String, State>,
    /// State that only its backend can read, by the backend's form.
    native: BTreeMap<&'static str, u64>,
}

fn contents(operator: &OperatorState, store: &dyn SnapshotStore) -> Result<Contents, StateError> {
    let mut contents = Contents::default();
    for subtask in operator.subtasks.values() {
        for handle in &subtask.keyed {
            for found in inspect(handle, store)?.states {
                let state = contents.states.entry(found.meta.name.clone()).or_default();
                state.what = found.meta.to_string();
                state.entries += found.entries;
                for (group, size) in found.bytes {
                    state.size += size;
                    *state.groups.entry(group.0).or_default() += size;
                }
            }
        }
        for handle in &subtask.incremental {
            let form = match handle.format {
                IncrementalFormat::HeapChain => "an image and changes after it (heap backend)",
                IncrementalFormat::RocksDb => "files of RocksDB",
            };
            let size: u64 = handle.files.iter().map(|file| file.stream.len()).sum();
            *contents.native.entry(form).or_default() += size + handle.meta.len();
        }
        for handle in &subtask.operator {
            for (name, entry) in &handle.states {
                let state = contents.states.entry(name.clone()).or_default();
                let mode = match entry.mode {
                    RedistributionMode::Split => "operator list",
                    RedistributionMode::Union => "operator union list",
                    RedistributionMode::Broadcast => "broadcast",
                };
                let schema = Schema::from_bytes(&entry.schema);
                state.what = match schema {
                    Ok(schema) => format!("{mode} of `{schema}`"),
                    Err(error) => format!("{mode} of a type that cannot be read: {error}"),
                };
                state.entries += entry.offsets.len() as u64;
                let start = entry.offsets.first().copied().unwrap_or(entry.end);
                state.size += entry.end.saturating_sub(start);
            }
        }
    }
    Ok(contents)
}

fn is_meant(operator: &OperatorState, wanted: Option<&String>) -> bool {
    wanted.is_none_or(|wanted| {
        operator.uid.as_ref() == Some(wanted)
            || operator.name == *wanted
            || operator.id.to_string() == *wanted
    })
}

/// Entries of keyed state, as people read them.
fn entries(
    operator: &OperatorState,
    look: &Look,
    store: &dyn SnapshotStore,
) -> Result<Vec<Value>, StateError> {
    let mut shown = Vec::new();
    let mut wrong = None;
    for handle in operator.subtasks.values().flat_map(|subtask| &subtask.keyed) {
        let mut take = |entry: SnapshotEntry<'_>| {
            if look.state.as_ref().is_some_and(|state| *state != entry.state.name) {
                return ControlFlow::Continue(());
            }
            match describe(entry, look.key.as_deref()) {
                Ok(Some(entry)) => shown.push(entry),
                Ok(None) => {}
                Err(error) => {
                    wrong = Some(StateError::Malformed {
                        path: handle.stream.path().unwrap_or("(inline state)").into(),
                        part: format!("state `{}`", entry.state.name),
                        why: error.to_string(),
                    });
                    return ControlFlow::Break(());
                }
            }
            if shown.len() < look.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        for_each_entry(handle, store, &mut take)?;
        if let Some(wrong) = wrong.take() {
            return Err(wrong);
        }
        if shown.len() >= look.limit {
            break;
        }
    }
    Ok(shown)
}

/// `None`: another key is wanted.
fn describe(
    entry: SnapshotEntry<'_>,
    key: Option<&str>,
) -> Result<Option<Value>, stillstream_state::DecodeError> {
    let SnapshotEntry { state, key_type, group, namespace, time, .. } = entry;
    let found = show(key_type, &mut { entry.key })?;
    if key.is_some_and(|key| !is_key(&found, key)) {
        return Ok(None);
    }
    let mut shown = json!({ "state": state.name, "key": found, "key_group": group.0 });
    if !namespace.is_empty() {
        shown["namespace"] = show(&state.namespace, &mut { namespace })?;
    }
    match time {
        Some(time) => shown["fires"] = json!(moment(time)),
        None => shown["value"] = show(&state.value, &mut { entry.value })?,
    }
    Ok(Some(shown))
}

fn line(entry: &Value) -> String {
    let part = |name: &str| entry.get(name).map(Value::to_string);
    let window = part("namespace").map_or_else(String::new, |window| format!(" in {window}"));
    let rest = match (part("value"), part("fires")) {
        (Some(value), _) => format!(" = {value}"),
        (_, Some(at)) => format!(" fires at {at}"),
        _ => String::new(),
    };
    let (state, key) = (entry["state"].as_str().unwrap_or_default(), &entry["key"]);
    format!("    {state}[{key}]{window}{rest}\n")
}

pub(crate) fn run(path: &str, look: &Look) -> Result<Answer, Error> {
    let opened =
        RetainedCheckpoint::open(path, &StorageOptions::default()).map_err(StorageError::into_error)?;
    let metadata = opened.metadata();
    let store = opened.streams();
    let size: u64 = metadata.operators.iter().map(OperatorState::bytes).sum();
    let mut text = format!(
        "{} {} of job `{}` ({})\ntriggered {} UTC by generation {}, {} of state, {}\n",
        kind(metadata.kind),
        metadata.id,
        metadata.job_name,
        metadata.job,
        moment(metadata.triggered_at_ms),
        metadata.generation.0,
        bytes(size),
        opened.directory(),
    );
    let meant: Vec<&OperatorState> =
        metadata.operators.iter().filter(|operator| is_meant(operator, look.operator.as_ref())).collect();
    if let (true, Some(wanted)) = (meant.is_empty(), &look.operator) {
        let known: Vec<String> = metadata
            .operators
            .iter()
            .map(|known| format!("`{}`", known.uid.as_ref().unwrap_or(&known.name)))
            .collect();
        let text = format!("the checkpoint has no operator `{wanted}`; it has {}", known.join(", "));
        return Err(Error::new(ErrorKind::Configuration, text));
    }
    let (mut shown, mut states_named) = (Vec::new(), Vec::new());
    for operator in meant {
        let contents = contents(operator, store).map_err(StateError::into_error)?;
        let (uid, id) = (operator.uid.as_deref(), operator.id.to_string());
        text.push_str(&format!(
            "\noperator `{}`, {}, id {id}: parallelism {}, max parallelism {}, {}\n",
            operator.name,
            uid.map_or_else(|| "no uid".into(), |uid| format!("uid `{uid}`")),
            operator.parallelism,
            operator.max_parallelism,
            bytes(operator.bytes()),
        ));
        let mut rows =
            vec![["  state", "what", "entries", "size", "largest key group"].map(String::from).to_vec()];
        for (name, state) in &contents.states {
            states_named.push(name.clone());
            let largest = state.groups.iter().max_by_key(|(_, size)| **size);
            rows.push(vec![
                format!("  {name}"),
                state.what.clone(),
                state.entries.to_string(),
                bytes(state.size),
                largest.map_or_else(String::new, |(group, size)| format!("{group}: {}", bytes(*size))),
            ]);
        }
        if rows.len() > 1 {
            text.push_str(&table(&rows));
        }
        for (form, size) in &contents.native {
            text.push_str(&format!(
                "  keyed state as {form}, {}: its keys are listed from a full checkpoint only\n",
                bytes(*size)
            ));
        }
        if look.groups {
            for (name, state) in contents.states.iter().filter(|(_, state)| !state.groups.is_empty()) {
                let groups = state.groups.iter().map(|(group, size)| format!("{group}: {}", bytes(*size)));
                text.push_str(&format!(
                    "  key groups of {name}: {}\n",
                    groups.collect::<Vec<_>>().join(", ")
                ));
            }
        }
        let entries = match look.state.is_some() || look.key.is_some() {
            true => entries(operator, look, store).map_err(StateError::into_error)?,
            false => Vec::new(),
        };
        entries.iter().for_each(|entry| text.push_str(&line(entry)));
        let states: Vec<Value> = contents
            .states
            .iter()
            .map(|(name, state)| {
                let groups: BTreeMap<String, u64> =
                    state.groups.iter().map(|(group, size)| (group.to_string(), *size)).collect();
                json!({ "name": name, "what": state.what, "entries": state.entries, "bytes": state.size,
                        "key_groups": groups })
            })
            .collect();
        shown.push(json!({
            "name": operator.name, "uid": uid, "id": id, "parallelism": operator.parallelism,
            "max_parallelism": operator.max_parallelism, "bytes": operator.bytes(), "states": states,
            "native": contents.native, "entries": entries,
        }));
    }
    if let Some(wanted) = look.state.as_ref().filter(|wanted| !states_named.contains(wanted)) {
        let text = format!("there is no state `{wanted}`; there are {}", states_named.join(", "));
        return Err(Error::new(ErrorKind::Configuration, text));
    }
    let json = json!({
        "id": metadata.id.0, "kind": kind(metadata.kind), "job": metadata.job_name, "job_id": metadata.job.to_string(),
        "generation": metadata.generation.0, "triggered_at_ms": metadata.triggered_at_ms, "bytes": size,
        "path": opened.directory(), "operators": shown,
    });
    Ok(Answer { text, json, damaged: false })
}
