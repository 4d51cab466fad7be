//! Operator state from 1 to 2, 4, 3 and back to 1 subtasks, dealt out by the planner that a job uses.

use std::collections::BTreeMap;

use stillstream_jobmaster::{OperatorInfo, plan_restore};
use stillstream_state::{MemorySnapshotStore, OperatorStateBackend, StateError};
use stillstream_types::{
    CheckpointId, CheckpointKind, CheckpointMetadata, Generation, JobId, OperatorId, OperatorState,
    OperatorSubtaskState, SubtaskIndex,
};

const STORE: MemorySnapshotStore = MemorySnapshotStore::unlimited();

fn metadata(subtasks: BTreeMap<SubtaskIndex, OperatorSubtaskState>, parallelism: u32) -> CheckpointMetadata {
    CheckpointMetadata {
        id: CheckpointId(1),
        job: JobId::from_name("lists"),
        job_name: "lists".into(),
        generation: Generation(1),
        kind: CheckpointKind::Savepoint,
        triggered_at_ms: 0,
        operators: vec![OperatorState {
            id: OperatorId::from_uid("source"),
            uid: Some("source".into()),
            name: "source".into(),
            parallelism,
            max_parallelism: 128,
            subtasks,
            enumerator: None,
        }],
    }
}

fn planned(old: &CheckpointMetadata, parallelism: u32) -> Vec<OperatorStateBackend> {
    let id = OperatorId::from_uid("source");
    let uid = Some("source".into());
    let new = OperatorInfo { id, uid, name: "source".into(), parallelism, max_parallelism: 128 };
    let states = plan_restore(old, &[new], false).unwrap().operators.remove(&id).unwrap();
    let backends = states.iter().zip(0..).map(|(state, index)| {
        let mut backend = OperatorStateBackend::new(SubtaskIndex(index));
        backend.restore(&state.operator, &STORE).unwrap();
        backend
    });
    backends.collect()
}

fn saved(backends: &[OperatorStateBackend]) -> CheckpointMetadata {
    let subtasks = backends.iter().zip(0..).map(|(backend, index)| {
        let operator = backend.freeze().unwrap().write(&STORE, "lists").unwrap();
        (SubtaskIndex(index), OperatorSubtaskState { operator, ..OperatorSubtaskState::default() })
    });
    metadata(subtasks.collect(), backends.len() as u32)
}

/// Bytes of one state, over all subtasks.
fn bytes_of(metadata: &CheckpointMetadata, name: &str) -> u64 {
    let handles = metadata.operators[0].subtasks.values().flat_map(|state| &state.operator);
    let entries = handles.filter_map(|handle| handle.states.get(name));
    entries.map(|entry| entry.end - entry.offsets.first().copied().unwrap_or(entry.end)).sum()
}

#[test]
fn lists_are_dealt_out_evenly_in_order_unions_whole_and_maps_copied_and_nothing_grows()
-> Result<(), StateError> {
    let splits: Vec<u64> = (100..110).collect();
    let rules: Vec<(String, u8)> = (0..3).map(|n| (format!("rule {n}"), n)).collect();
    let mut first = OperatorStateBackend::new(SubtaskIndex(0));
    first.list::<u64>("splits")?.update(splits.clone())?;
    first.union_list::<u64>("offsets")?.update(splits.clone())?;
    let map = first.broadcast::<String, u8>("rules")?;
    rules.iter().try_for_each(|(rule, n)| map.put(rule.clone(), *n))?;
    // of a state that the program no longer registers nothing may be lost, and nothing may multiply
    first.list::<u64>("old-splits")?.update(splits.clone())?;
    first.union_list::<u64>("old-offsets")?.update(splits.clone())?;
    let mut old = saved(&[first]);
    let before = old.clone();
    for parallelism in [2, 4, 3, 1] {
        let mut backends = planned(&old, parallelism);
        let (mut dealt, mut sizes) = (Vec::new(), Vec::new());
        for (backend, index) in backends.iter_mut().zip(0u64..) {
            let own = backend.list::<u64>("splits")?.get()?;
            sizes.push(own.len());
            dealt.extend(own);
            let union = backend.union_list::<u64>("offsets")?;
            let mut all = union.get()?;
            all.sort_unstable();
            assert_eq!(all, splits, "every subtask has all at {parallelism}");
            // and keeps its own part
            union.retain(|split| split % u64::from(parallelism) == index)?;
            let mut copy = backend.broadcast::<String, u8>("rules")?.entries()?;
            copy.sort();
            assert_eq!(copy, rules, "subtask {index} of {parallelism}");
            assert_eq!(backend.unregistered(), ["old-offsets", "old-splits"]);
        }
        assert_eq!(dealt, splits, "in order, at {parallelism}");
        // contiguous and even, the longer ones first
        let least = splits.len() / parallelism as usize;
        let longer = splits.len() % parallelism as usize;
        let expected: Vec<usize> =
            (0..parallelism as usize).map(|n| least + usize::from(n < longer)).collect();
        assert_eq!(sizes, expected);
        old = saved(&backends);
        for state in ["splits", "offsets", "old-splits", "old-offsets"] {
            assert_eq!(bytes_of(&old, state), bytes_of(&before, state), "{state} at {parallelism}");
        }
        let copies = u64::from(parallelism) * bytes_of(&before, "rules");
        assert_eq!(bytes_of(&old, "rules"), copies, "one copy each");
    }
    let mut last = planned(&old, 1);
    assert_eq!(last[0].list::<u64>("old-splits")?.get()?, splits);
    let mut offsets = last[0].union_list::<u64>("old-offsets")?.get()?;
    offsets.sort_unstable();
    assert_eq!(offsets, splits);
    Ok(())
}
