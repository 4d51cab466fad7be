//! State of `serde` types: what a checkpoint holds of them can be read again.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::paced::Paced;
use serde_json::{Value, json};
use stillstream::prelude::*;

const RECORDS: u64 = 200;

fn environment(folder: &std::path::Path) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(10))
        .set_restart_strategy(RestartStrategy::none())
        .set_state_backend(FsStateBackend::new(folder.display().to_string()));
    env
}

/// Collects the numbers of each key in a JSON document; fails once, at record `fail_at`.
fn documents(env: &StreamExecutionEnvironment, fail_at: Option<u64>) -> Result<Vec<(u64, String)>> {
    let failed = AtomicBool::new(false);
    let numbers =
        env.from_source("numbers", Paced::new(Generator::new(RECORDS, |n| n), 40, 40)).uid("numbers");
    let documents = numbers
        .try_map(move |n| match fail_at == Some(n) && !failed.swap(true, Ordering::SeqCst) {
            true => Err(Error::msg("told to")),
            false => Ok(n),
        })
        .key_by(|n| n % 3)
        .map_with_state("document", |document: &mut Serde<Value>, n| {
            if document.is_null() {
                document.0 = json!({ "key": n % 3, "seen": [], "half": null });
            }
            if let Some(seen) = document["seen"].as_array_mut() {
                seen.push(if n % 2 == 0 { json!(n) } else { json!(n as f64 / 2.0) });
            }
            (n, document.to_string())
        })
        .uid("documents")
        .collect();
    env.execute("documents")?;
    Ok(documents.sorted())
}

#[test]
fn state_of_json_documents_is_restored_as_it_was() {
    let expected = documents(&environment(tempfile::tempdir().unwrap().path()), None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut env = environment(folder.path());
    env.set_restart_strategy(RestartStrategy::fixed_delay(1, Duration::ZERO));
    let rows = documents(&env, Some(150)).unwrap();
    assert_eq!(rows.len() as u64, RECORDS);
    assert_eq!(rows, expected);
}

#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
struct Unreadable {
    #[serde(rename(serialize = "written", deserialize = "read"))]
    count: u64,
}

/// Only debug builds read values back.
#[cfg(debug_assertions)]
#[test]
fn a_value_that_could_not_be_read_back_fails_its_checkpoint_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(folder.path());
    env.from_source("numbers", Paced::new(Generator::new(RECORDS, |n| n), 40, 40))
        .uid("numbers")
        .key_by(|n| n % 3)
        .map_with_state("count", |count: &mut Serde<Unreadable>, n| {
            count.count += 1;
            n
        })
        .uid("counts")
        .discard();
    let error = env.execute("unreadable").unwrap_err().to_string();
    for part in ["checkpoint 1", "Unreadable` that was written cannot be read back", "`read`"] {
        assert!(error.contains(part), "{part} in: {error}");
    }
}
