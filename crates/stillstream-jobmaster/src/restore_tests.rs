use super::*;
use std::sync::Arc;
use stillstream_types::{
    CheckpointKind, Generation, IncrementalFormat, IncrementalHandle, JobId, KeyGroup, KeyGroupSection,
    NamedStream, StreamHandle, SubtaskIndex,
};

const MAX: u32 = 128;

fn id() -> OperatorId {
    OperatorId::from_uid("op")
}

fn file(name: String) -> StreamHandle {
    StreamHandle::File { path: name, len: 1000, crc32c: 0 }
}

/// Subtask `index` of `p` with every third key group empty.
fn keyed(index: u32, p: u32) -> KeyedStateHandle {
    let range = KeyGroups::new(MAX).range(index, p);
    let section = |group: KeyGroup| KeyGroupSection { group, offset: u64::from(group.0), len: 1, crc32c: 7 };
    KeyedStateHandle {
        range,
        header_len: 0,
        header_crc32c: 0,
        sections: range.iter().filter(|g| g.0 % 3 != 0).map(section).collect(),
        stream: file(format!("chk-1/keyed-{index}")),
    }
}

/// The same key groups as a set of files.
fn incremental(index: u32, p: u32) -> IncrementalHandle {
    let stream = file(format!("shared/1-{index}"));
    IncrementalHandle {
        range: KeyGroups::new(MAX).range(index, p),
        format: IncrementalFormat::RocksDb,
        backend: u64::from(index),
        meta: file(format!("chk-1/meta-{index}")),
        files: vec![NamedStream { name: "000001.sst".into(), stream }],
    }
}

/// Items of one byte. Items of `split` differ in number from subtask to subtask (one has none).
fn operator(index: u32) -> OperatorStateHandle {
    let entry = |mode, from: u64, count: u64| OperatorStateEntry {
        mode,
        schema: vec![1],
        offsets: (from..from + count).collect(),
        end: from + count,
    };
    let states = BTreeMap::from([
        ("split".to_owned(), entry(RedistributionMode::Split, 0, u64::from(index * 7 % 5))),
        ("union".to_owned(), entry(RedistributionMode::Union, 100, u64::from(index % 3))),
        ("broadcast".to_owned(), entry(RedistributionMode::Broadcast, 200, 4)),
    ]);
    OperatorStateHandle { states, stream: file(format!("chk-1/operator-{index}")) }
}

fn metadata(p: u32) -> CheckpointMetadata {
    let subtask = |index: u32| {
        let state = OperatorSubtaskState {
            keyed: vec![keyed(index, p)],
            incremental: Vec::new(),
            operator: vec![operator(index)],
        };
        (SubtaskIndex(index), state)
    };
    CheckpointMetadata {
        id: CheckpointId(1),
        job: JobId::from_name("job"),
        job_name: "job".into(),
        generation: Generation(1),
        kind: CheckpointKind::Checkpoint,
        triggered_at_ms: 0,
        operators: vec![OperatorState {
            id: id(),
            uid: Some("op".into()),
            name: "count".into(),
            parallelism: p,
            max_parallelism: MAX,
            subtasks: (0..p).map(subtask).collect(),
            enumerator: None,
        }],
    }
}

fn info(p: u32) -> OperatorInfo {
    OperatorInfo {
        id: id(),
        uid: Some("op".into()),
        name: "count".into(),
        parallelism: p,
        max_parallelism: MAX,
    }
}

fn restore(p: u32, q: u32) -> Vec<OperatorSubtaskState> {
    plan_restore(&metadata(p), &[info(q)], false).unwrap().operators.remove(&id()).unwrap()
}

/// Each item of a state as (file, position), in order, with all its subtask's handles.
fn items_of(state: &OperatorSubtaskState, name: &str) -> Vec<(String, u64)> {
    let of_handle = |handle: &OperatorStateHandle| {
        let path = handle.stream.path().unwrap().to_owned();
        let entry = handle.states.get(name).cloned();
        entry.into_iter().flat_map(move |entry| {
            // an item ends where the next begins: slices must not swallow their neighbours
            assert_eq!(entry.end, entry.offsets.last().map_or(entry.end, |last| last + 1));
            let path = path.clone();
            entry.offsets.into_iter().map(move |offset| (path.clone(), offset))
        })
    };
    state.operator.iter().flat_map(of_handle).collect()
}

fn all_items(p: u32, name: &str) -> Vec<(String, u64)> {
    let old = metadata(p);
    old.operators[0].subtasks.values().flat_map(|state| items_of(state, name)).collect()
}

#[test]
fn from_any_to_any_parallelism_each_section_and_item_goes_where_it_belongs_exactly_once() {
    let groups = KeyGroups::new(MAX);
    for p in 1..=8 {
        for q in 1..=8 {
            let new = restore(p, q);
            assert_eq!(new.len(), q as usize);
            let mut sections = Vec::new();
            for (index, state) in new.iter().enumerate() {
                let own = groups.range(index as u32, q);
                for handle in &state.keyed {
                    assert_eq!(handle.range.intersect(own), handle.range, "{p} -> {q}");
                    assert!(!handle.sections.is_empty());
                    for section in &handle.sections {
                        assert!(handle.range.contains(section.group));
                        let from = groups.owner(section.group, p);
                        assert_eq!(handle.stream.path().unwrap(), format!("chk-1/keyed-{from}"));
                        sections.push(section.group.0);
                    }
                }
                assert_eq!(items_of(state, "union"), all_items(p, "union"), "{p} -> {q}");
                let broadcast = items_of(state, "broadcast");
                let copy = format!("chk-1/operator-{}", index as u32 % p);
                assert_eq!(broadcast, (200..204).map(|n| (copy.clone(), n)).collect::<Vec<_>>());
            }
            assert_eq!(sections, (0..MAX as u16).filter(|g| g % 3 != 0).collect::<Vec<_>>(), "{p} -> {q}");
            let split: Vec<_> = new.iter().map(|state| items_of(state, "split")).collect();
            assert_eq!(split.concat(), all_items(p, "split"), "{p} -> {q}");
            if p != q {
                let (least, most) = (split.iter().map(Vec::len).min(), split.iter().map(Vec::len).max());
                assert!(most.unwrap() - least.unwrap() <= 1, "{p} -> {q}: {split:?}");
            }
        }
    }
}

#[test]
fn keyed_state_goes_from_3_to_4_and_from_4_to_3_subtasks_by_key_group_range() {
    let ranges = |p, q| -> Vec<Vec<(String, String)>> {
        let of = |h: &KeyedStateHandle| (h.stream.path().unwrap()[6..].to_owned(), h.range.to_string());
        restore(p, q).iter().map(|state| state.keyed.iter().map(of).collect()).collect()
    };
    let named = |all: &[&[(&str, &str)]]| -> Vec<Vec<(String, String)>> {
        let own = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
        all.iter().map(|of| of.iter().map(own).collect()).collect()
    };
    assert_eq!(
        ranges(3, 4),
        named(&[
            &[("keyed-0", "0-31")],
            &[("keyed-0", "32-42"), ("keyed-1", "43-63")],
            &[("keyed-1", "64-85"), ("keyed-2", "86-95")],
            &[("keyed-2", "96-127")],
        ])
    );
    assert_eq!(
        ranges(4, 3),
        named(&[
            &[("keyed-0", "0-31"), ("keyed-1", "32-42")],
            &[("keyed-1", "43-63"), ("keyed-2", "64-85")],
            &[("keyed-2", "86-95"), ("keyed-3", "96-127")],
        ])
    );
}

#[test]
fn at_an_unchanged_parallelism_split_state_stays_where_it_was() {
    for (index, state) in restore(5, 5).iter().enumerate() {
        let own = format!("chk-1/operator-{index}");
        assert!(items_of(state, "split").iter().all(|(path, _)| *path == own));
    }
}

#[test]
fn broadcast_copies_are_counted_among_the_subtasks_that_have_one() {
    let mut old = metadata(3);
    old.operators[0].subtasks.remove(&SubtaskIndex(0));
    let plan = plan_restore(&old, &[info(4)], false).unwrap();
    let copies: Vec<_> =
        plan.operators[&id()].iter().map(|state| items_of(state, "broadcast")[0].0.clone()).collect();
    assert_eq!(copies, [1, 2, 1, 2].map(|n| format!("chk-1/operator-{n}")));
}

#[test]
fn a_changed_max_parallelism_is_refused_with_both_numbers() {
    let error =
        plan_restore(&metadata(2), &[OperatorInfo { max_parallelism: 256, ..info(2) }], true).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`count`") && text.contains("128") && text.contains("256"), "{text}");
}

#[test]
fn state_that_nobody_claims_is_refused_by_name_uid_bytes_and_flag_unless_allowed() {
    let mut old = metadata(2);
    let inline = StreamHandle::Inline { bytes: Arc::from(vec![0u8; 42]) };
    let state = OperatorSubtaskState {
        operator: vec![OperatorStateHandle { states: BTreeMap::new(), stream: inline }],
        ..OperatorSubtaskState::default()
    };
    old.operators.push(OperatorState {
        id: OperatorId::from_uid("gone"),
        uid: Some("gone".into()),
        name: "sessions".into(),
        parallelism: 1,
        max_parallelism: MAX,
        subtasks: BTreeMap::from([(SubtaskIndex(0), state)]),
        enumerator: None,
    });
    let text = plan_restore(&old, &[info(2)], false).unwrap_err().to_string();
    for part in ["`sessions`", "uid \"gone\"", "42 bytes", "--allow-non-restored-state"] {
        assert!(text.contains(part), "{text}");
    }
    let plan = plan_restore(&old, &[info(2)], true).unwrap();
    assert_eq!(plan.dropped.len(), 1);
    assert!(plan.dropped[0].contains("`sessions`") && plan.dropped[0].contains("42 bytes"));
    assert_eq!(plan.operators[&id()], restore(2, 2));
}

#[test]
fn an_operator_without_state_may_disappear() {
    let mut old = metadata(1);
    old.operators[0].subtasks.clear();
    assert_eq!(plan_restore(&old, &[], false).unwrap().dropped, Vec::<String>::new());
}

#[test]
fn a_plan_that_makes_no_sense_is_refused() {
    let twice = plan_restore(&metadata(1), &[info(1), info(2)], false);
    assert!(matches!(twice, Err(RestoreError::DuplicateOperator { .. })));
    for (parallelism, max_parallelism) in [(0, 128), (129, 128), (1, 40_000)] {
        let wrong = OperatorInfo { parallelism, max_parallelism, ..info(1) };
        let error = plan_restore(&metadata(1), &[wrong], false).unwrap_err();
        assert!(matches!(error, RestoreError::IllegalParallelism { .. }));
    }
}

#[test]
fn metadata_that_contradicts_itself_is_refused() {
    fn state(old: &mut CheckpointMetadata) -> &mut OperatorSubtaskState {
        old.operators[0].subtasks.get_mut(&SubtaskIndex(1)).unwrap()
    }
    type Damage = fn(&mut CheckpointMetadata);
    let damages: [(&str, Damage); 10] = [
        ("listed twice", |old| old.operators.push(old.operators[0].clone())),
        ("subtask 1 of 1", |old| old.operators[0].parallelism = 1),
        ("key group 100 of 100", |old| old.operators[0].max_parallelism = 100),
        ("outside its handle", |old| state(old).keyed[0].range = KeyGroupRange::new(0, 3)),
        ("owned by subtasks 0 and 1", |old| state(old).keyed = vec![keyed(0, 2)]),
        ("owned by subtasks 0 and 1", |old| state(old).incremental = vec![incremental(0, 2)]),
        ("owned by subtasks 0 and 1", |old| {
            let whole = IncrementalHandle { range: KeyGroupRange::new(0, 128), ..incremental(1, 2) };
            old.operators[0].subtasks.values_mut().for_each(|state| state.keyed.clear());
            old.operators[0].subtasks.get_mut(&SubtaskIndex(0)).unwrap().incremental =
                vec![incremental(0, 2)];
            state(old).incremental = vec![whole];
        }),
        ("64-128 of 128", |old| {
            state(old).incremental =
                vec![IncrementalHandle { range: KeyGroupRange::new(64, 129), ..incremental(1, 2) }];
        }),
        ("ascending", |old| state(old).operator[0].states.get_mut("broadcast").unwrap().end = 0),
        ("redistribution modes", |old| {
            state(old).operator[0].states.get_mut("split").unwrap().mode = RedistributionMode::Union;
        }),
    ];
    for (part, damage) in damages {
        let mut old = metadata(2);
        damage(&mut old);
        let text = plan_restore(&old, &[info(2)], false).unwrap_err().to_string();
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn incremental_state_goes_whole_to_every_subtask_that_owns_some_of_its_key_groups() {
    for p in 1..=8 {
        let mut old = metadata(p);
        for (index, state) in &mut old.operators[0].subtasks {
            state.keyed.clear();
            state.incremental = vec![incremental(index.0, p)];
        }
        for q in 1..=8 {
            let plan = plan_restore(&old, &[info(q)], false).unwrap();
            for (index, state) in plan.operators[&id()].iter().enumerate() {
                let range = KeyGroups::new(MAX).range(index as u32, q);
                let needed: Vec<_> = (0..p)
                    .map(|from| incremental(from, p))
                    .filter(|h| !h.range.intersect(range).is_empty())
                    .collect();
                assert_eq!(state.incremental, needed, "{p} -> {q}, subtask {index}");
            }
        }
    }
}
