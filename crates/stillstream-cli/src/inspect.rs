//! `inspect`: what is in a checkpoint, without the program that wrote it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::{Value, json};
use stillstream_state::snapshot::{SnapshotEntry, for_each_entry, header_of_incremental, inspect};
use stillstream_state::{Schema, StateError};
use stillstream_storage::{RetainedCheckpoint, StorageError, StorageOptions};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{
    Error, ErrorKind, IncrementalFormat, IncrementalHandle, KeyedStateHandle, OperatorState,
    RedistributionMode,
};

use crate::Answer;
use crate::arguments::Look;
use crate::checkpoints::kind;
use crate::native;
use crate::table::{bytes, moment, table};
use crate::value::{is_key, show};

/// One state of one operator, over all its subtasks.
#[derive(Default)]
struct State {
    what: String,
    entries: u64,
    size: u64,
    groups: BTreeMap<u16, u64>,
    /// Some of it lies in files that were not read for this: it has more entries than were counted.
    uncounted: bool,
}

impl State {
    fn add(&mut self, group: u16, entries: u64, size: u64) {
        self.entries += entries;
        self.size += size;
        *self.groups.entry(group).or_default() += size;
    }
}

/// What one operator has.
#[derive(Default)]
struct Contents {
    states: BTreeMap<String, State>,
    /// State in a backend's own form: its bytes by the form.
    native: BTreeMap<&'static str, u64>,
}

/// `groups`: key groups are asked for, so that everything is read.
fn contents(
    operator: &OperatorState,
    store: &dyn SnapshotStore,
    groups: bool,
) -> Result<Contents, StateError> {
    let mut contents = Contents::default();
    for subtask in operator.subtasks.values() {
        for handle in &subtask.keyed {
            for found in inspect(handle, store)?.states {
                let state = contents.states.entry(found.meta.name.clone()).or_default();
                state.what = found.meta.to_string();
                state.entries += found.entries;
                for (group, size) in found.bytes {
                    state.add(group.0, 0, size);
                }
            }
        }
        for handle in &subtask.incremental {
            let size: u64 = handle.files.iter().map(|file| file.stream.len()).sum();
            *contents.native.entry(native::form(handle)).or_default() += size + handle.meta.len();
            let reads = groups || handle.format == IncrementalFormat::HeapChain;
            for meta in header_of_incremental(handle, store)?.states {
                let state = contents.states.entry(meta.name.clone()).or_default();
                state.what = meta.to_string();
                state.uncounted |= !reads;
            }
            if reads {
                native::for_each_entry(handle, store, &mut |entry| {
                    let time = entry.time.map_or(0, |_| 8);
                    let size = entry.namespace.len() + entry.key.len() + entry.value.len() + time;
                    if let Some(state) = contents.states.get_mut(&entry.state.name) {
                        state.add(entry.group.0, 1, size as u64);
                    }
                    ControlFlow::Continue(())
                })?;
            }
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

/// Keyed state of one subtask in one of its forms.
enum Handle<'a> {
    Canonical(&'a KeyedStateHandle),
    Native(&'a IncrementalHandle),
}

impl Handle<'_> {
    fn path(&self) -> &str {
        let stream = match self {
            Self::Canonical(handle) => &handle.stream,
            Self::Native(handle) => &handle.meta,
        };
        stream.path().unwrap_or("(inline state)")
    }
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
    let (mut shown, mut wrong) = (Vec::new(), None);
    let mut take = |path: &str, entry: SnapshotEntry<'_>| {
        if look.state.as_ref().is_some_and(|state| *state != entry.state.name) {
            return ControlFlow::Continue(());
        }
        match describe(entry, look.key.as_deref()) {
            Ok(Some(entry)) => shown.push(entry),
            Ok(None) => {}
            Err(error) => {
                wrong = Some(StateError::Malformed {
                    path: path.into(),
                    part: format!("state `{}`", entry.state.name),
                    why: error.to_string(),
                });
                return ControlFlow::Break(());
            }
        }
        if shown.len() < look.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let mut ended = look.limit == 0;
    let handles = operator.subtasks.values().flat_map(|subtask| {
        let keyed = subtask.keyed.iter().map(Handle::Canonical);
        keyed.chain(subtask.incremental.iter().map(Handle::Native))
    });
    for handle in handles {
        if ended {
            break;
        }
        let path = handle.path();
        let mut take = |entry: SnapshotEntry<'_>| {
            let next = take(path, entry);
            ended = next.is_break();
            next
        };
        match handle {
            Handle::Canonical(handle) => for_each_entry(handle, store, &mut take)?,
            Handle::Native(handle) => native::for_each_entry(handle, store, &mut take)?,
        }
    }
    wrong.map_or(Ok(shown), Err)
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

pub(crate) fn run(path: &str, look: &Look, options: &StorageOptions) -> Result<Answer, Error> {
    let opened = RetainedCheckpoint::open(path, options).map_err(StorageError::into_error)?;
    look_at(&opened, path, look, options)
}

/// The directory of a checkpoint that is deleted loses its metadata first: then an error is about that.
fn failed(opened: &RetainedCheckpoint, path: &str, error: StateError, options: &StorageOptions) -> Error {
    match RetainedCheckpoint::open(path, options) {
        Ok(_) => error.into_error(),
        Err(_) => {
            let text = format!(
                "`{}` was deleted while it was looked at: a running job deletes a checkpoint that newer ones have replaced; \
                 look at its newest one, or at a savepoint ({error})",
                opened.directory(),
            );
            Error::new(ErrorKind::Storage, text)
        }
    }
}

fn look_at(
    opened: &RetainedCheckpoint,
    path: &str,
    look: &Look,
    options: &StorageOptions,
) -> Result<Answer, Error> {
    let metadata = opened.metadata();
    let store = opened.streams();
    let failed = |error| failed(opened, path, error, options);
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
        let contents = contents(operator, store, look.groups).map_err(failed)?;
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
            vec![["  state", "entries", "size", "largest key group", "what"].map(String::from).to_vec()];
        for (name, state) in &contents.states {
            states_named.push(name.clone());
            if look.state.as_ref().is_some_and(|wanted| wanted != name) {
                continue;
            }
            let largest = state.groups.iter().max_by_key(|(_, size)| **size);
            rows.push(vec![
                format!("  {name}"),
                if state.uncounted { "not counted".into() } else { state.entries.to_string() },
                if state.uncounted { String::new() } else { bytes(state.size) },
                largest.map_or_else(String::new, |(group, size)| format!("{group}: {}", bytes(*size))),
                // a type can be wide, so it stands behind what is short
                state.what.clone(),
            ]);
        }
        if rows.len() > 1 {
            text.push_str(&table(&rows));
        }
        for (form, size) in &contents.native {
            text.push_str(&format!("  keyed state as {form}, {}\n", bytes(*size)));
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
            true => entries(operator, look, store).map_err(failed)?,
            false => Vec::new(),
        };
        entries.iter().for_each(|entry| text.push_str(&line(entry)));
        let states: Vec<Value> = contents
            .states
            .iter()
            .map(|(name, state)| {
                let groups: BTreeMap<String, u64> =
                    state.groups.iter().map(|(group, size)| (group.to_string(), *size)).collect();
                let (entries, size) = match state.uncounted {
                    true => (Value::Null, Value::Null),
                    false => (json!(state.entries), json!(state.size)),
                };
                json!({ "name": name, "what": state.what, "entries": entries, "bytes": size,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_is_deleted_under_the_look_is_told_so() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../stillstream-runtime/tests/golden/savepoint-v1");
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("moved");
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(golden).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let path = copy.to_str().unwrap();
        let look = Look { operator: None, state: None, key: Some("user-1".into()), limit: 20, groups: false };
        let opened = RetainedCheckpoint::open(path, &StorageOptions::default()).unwrap();
        assert!(
            look_at(&opened, path, &look, &StorageOptions::default())
                .unwrap()
                .text
                .contains("value[\"user-1\"]")
        );
        std::fs::remove_dir_all(&copy).unwrap();
        let Err(error) = look_at(&opened, path, &look, &StorageOptions::default()) else {
            panic!("it is gone")
        };
        assert!(error.to_string().contains("was deleted while it was looked at"), "{error}");
    }
}
