//! Operator state: lists, union lists and broadcast maps through snapshots, as the restore planner deals them
//! out.

use stillstream_state::{Data, MemorySnapshotStore, OperatorStateBackend, StateError};
use stillstream_types::{
    ErrorKind, OperatorStateHandle, RedistributionMode, StreamHandle, SubtaskIndex, streams::SnapshotStore,
};

const STORE: MemorySnapshotStore = MemorySnapshotStore::unlimited();

type Result = std::result::Result<(), StateError>;

fn subtask(index: u32) -> OperatorStateBackend {
    OperatorStateBackend::new(SubtaskIndex(index))
}

fn restored(index: u32, handles: &[OperatorStateHandle]) -> OperatorStateBackend {
    let mut backend = subtask(index);
    backend.restore(handles, &STORE).unwrap();
    backend
}

/// The handle with only some items of a state, as the planner makes it.
fn only(handle: &OperatorStateHandle, name: &str, items: std::ops::Range<usize>) -> OperatorStateHandle {
    let mut handle = handle.clone();
    let entry = handle.states.get_mut(name).unwrap();
    entry.end = entry.offsets.get(items.end).copied().unwrap_or(entry.end);
    entry.offsets = entry.offsets[items].to_vec();
    handle
}

#[test]
fn all_kinds_survive_a_restore() -> Result {
    let mut backend = subtask(0);
    let (list, union) = (backend.list::<String>("list")?, backend.union_list::<u64>("union")?);
    let broadcast = backend.broadcast::<String, Vec<u8>>("rules")?;
    list.update(vec!["a".into(), "bc".into()])?;
    list.add("d".into())?;
    union.add(7)?;
    broadcast.put("x".into(), vec![1, 2])?;
    broadcast.put("y".into(), vec![])?;
    broadcast.put("z".into(), vec![])?;
    broadcast.remove(&"z".into())?;
    let frozen = backend.freeze()?;
    list.clear()?;
    broadcast.clear()?;
    let handles = frozen.write(&STORE, "op")?;
    assert_eq!(handles[0].states["union"].mode, RedistributionMode::Union);

    let mut again = restored(0, &handles);
    assert_eq!(again.list::<String>("list")?.get()?, ["a", "bc", "d"]);
    assert_eq!(again.union_list::<u64>("union")?.with(|items| items.to_vec())?, [7]);
    let rules = again.broadcast::<String, Vec<u8>>("rules")?;
    let mut entries = rules.entries()?;
    entries.sort();
    assert_eq!(entries, [("x".to_string(), vec![1, 2]), ("y".to_string(), vec![])]);
    assert!(rules.contains(&"x".into())? && rules.get(&"z".into())?.is_none());
    Ok(())
}

#[test]
fn a_subtask_gets_only_the_items_that_its_handles_name() -> Result {
    let mut backend = subtask(0);
    backend.list::<String>("other")?.add("before".into())?;
    backend.list::<String>("splits")?.update((0..5).map(|n| "s".repeat(n)).collect())?;
    let handle = backend.freeze()?.write(&STORE, "op")?.remove(0);
    let mut dealt = Vec::new();
    for (index, items) in [0..2, 2..4, 4..5, 5..5].into_iter().enumerate() {
        let mut backend = restored(index as u32, &[only(&handle, "splits", items.clone())]);
        let splits = backend.list::<String>("splits")?.get()?;
        assert_eq!(splits.len(), items.len());
        dealt.extend(splits);
    }
    assert_eq!(dealt, ["", "s", "ss", "sss", "ssss"]);
    Ok(())
}

#[test]
fn a_union_list_does_not_grow_with_restores_registered_or_not() -> Result {
    let mut first = subtask(0);
    first.union_list::<u32>("offsets")?.update(vec![0, 1, 2, 3])?;
    let mut handles = first.freeze()?.write(&STORE, "op")?;
    let size = |handles: &[OperatorStateHandle]| handles.iter().map(|h| h.stream.len()).sum::<u64>();
    let before = size(&handles);
    for round in 0..10 {
        let mut next = Vec::new();
        for index in 0..4 {
            let mut backend = restored(index, &handles);
            if round % 2 == 0 {
                // a subtask keeps its own part
                backend.union_list::<u32>("offsets")?.retain(|split| split % 4 == index)?;
            } else {
                assert_eq!(backend.unregistered(), ["offsets"]);
            }
            next.extend(backend.freeze()?.write(&STORE, "op")?);
        }
        handles = next;
        assert_eq!(size(&handles), before, "round {round}");
    }
    Ok(())
}

#[test]
fn another_type_or_another_way_of_dealing_is_refused_by_name() -> Result {
    let mut backend = subtask(0);
    backend.list::<u64>("s")?.add(1)?;
    let error = backend.union_list::<u64>("s").unwrap_err().to_string();
    assert!(error.contains("`s`") && error.contains("union list"), "{error}");
    let handles = backend.freeze()?.write(&STORE, "op")?;
    let mut again = restored(0, &handles);
    let error = again.list::<String>("s").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    let error = error.to_string();
    assert!(error.contains("`s`") && error.contains("`u64`") && error.contains("`string`"), "{error}");
    assert!(again.union_list::<u64>("s").unwrap_err().to_string().contains("dealt out"));
    assert_eq!(again.list::<u64>("s")?.get()?, [1]);
    Ok(())
}

#[test]
fn a_state_above_the_limit_is_refused_with_its_size() -> Result {
    let mut backend = subtask(0);
    backend.list::<u8>("small")?.update(vec![0; 60])?;
    backend.list::<Vec<u8>>("large")?.add(vec![0; 100])?;
    let error = backend.freeze()?.write(&MemorySnapshotStore::with_max_state_size(100), "op").unwrap_err();
    assert!(
        matches!(&error, StateError::TooLarge { name, size: 104, limit: 100 } if name == "large"),
        "{error}"
    );
    backend.freeze()?.write(&MemorySnapshotStore::with_max_state_size(104), "op")?;
    Ok(())
}

#[test]
fn offsets_that_do_not_fit_the_stream_are_refused() -> Result {
    let mut backend = subtask(0);
    backend.list::<u64>("s")?.update(vec![1, 2])?;
    let handle = backend.freeze()?.write(&STORE, "op")?.remove(0);
    for (offsets, end) in
        [(vec![0, 8], 17), (vec![0, 20], 16), (vec![8, 0], 16), (vec![0, 9], 16), (vec![0], 16)]
    {
        let mut damaged = handle.clone();
        let entry = damaged.states.get_mut("s").unwrap();
        (entry.offsets, entry.end) = (offsets, end);
        let mut backend = subtask(0);
        let result = backend.restore(&[damaged], &STORE).and_then(|()| backend.list::<u64>("s").map(drop));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::CorruptSnapshot);
    }
    Ok(())
}

#[test]
fn nothing_registered_writes_nothing_and_a_used_list_is_refused_inside_itself() -> Result {
    let mut backend = subtask(0);
    assert_eq!(backend.freeze()?.write(&STORE, "op")?, []);
    let list = backend.list::<u64>("own")?;
    assert!(matches!(list.with(|_| list.add(1))?, Err(StateError::InUse { name }) if name == "own"));
    Ok(())
}

#[test]
fn items_of_an_older_type_are_migrated() -> Result {
    mod old {
        #[derive(Clone, stillstream_state::Data)]
        #[data(crate = stillstream_state)]
        pub struct Split {
            pub offset: u64,
            pub gone: String,
        }
    }
    #[derive(Clone, PartialEq, Debug, Data)]
    #[data(crate = stillstream_state)]
    struct Split {
        topic: String,
        offset: u64,
    }
    let mut backend = subtask(0);
    let item = old::Split { offset: 5, gone: "x".into() };
    backend.list::<old::Split>("splits")?.add(item.clone())?;
    backend.broadcast::<u8, old::Split>("map")?.put(1, item)?;
    let mut again = restored(0, &backend.freeze()?.write(&STORE, "op")?);
    let new = Split { topic: String::new(), offset: 5 };
    assert_eq!(again.list::<Split>("splits")?.get()?, std::slice::from_ref(&new));
    assert_eq!(again.broadcast::<u8, Split>("map")?.get(&1)?, Some(new));
    Ok(())
}

#[test]
fn the_memory_store_reads_no_further_than_the_stream() {
    let handle = StreamHandle::Inline { bytes: std::sync::Arc::from([1u8, 2, 3]) };
    assert_eq!(STORE.read(&handle, 1, 2).unwrap(), [2, 3]);
    for (offset, len) in [(1, 3), (4, 0), (u64::MAX, 2)] {
        assert_eq!(STORE.read(&handle, offset, len).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    }
}
