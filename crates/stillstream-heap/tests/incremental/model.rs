//! Random programs against plain maps: checkpoints that overlap, are aborted, or completed without a notice;
//! savepoints and restores in between, at other parallelism too.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use stillstream_heap::{HeapKeyedStateBackend, HeapNamespaced, HeapTimers, HeapValues};
use stillstream_state::{
    BackendOptions, CurrentKey, Key, KeyedBackend, KeyedValues, ListState, NamespaceWalk, NamespacedValues,
    TimeDomain, TimerService,
};
use stillstream_types::{
    CheckpointId, KeyGroupRange, KeyGroups, KeyHash, KeyedSnapshot, SavepointFormat, SnapshotForm, Timestamp,
};

use crate::store::SharedFiles;

#[derive(Clone, Copy, Debug)]
enum Step {
    Add {
        key: u16,
        by: u64,
    },
    Remove {
        key: u16,
    },
    /// Many keys at once, so that pages split, or go, so that they merge.
    Fill {
        from: u16,
        count: u16,
    },
    Clear {
        from: u16,
        count: u16,
    },
    Window {
        window: i8,
        key: u16,
    },
    Drop {
        window: i8,
    },
    Push {
        key: u16,
    },
    Register {
        at: i64,
        key: u16,
    },
    Fire {
        up_to: i64,
    },
    /// A checkpoint begins, a full one or as configured.
    Freeze {
        full: bool,
    },
    /// The oldest checkpoint on its way: completed or aborted, the backend told or not.
    Complete {
        notice: bool,
    },
    Abort {
        written: bool,
        notice: bool,
    },
    /// A snapshot by itself between checkpoints, whose number is one of theirs.
    Savepoint,
    /// The oldest savepoint is written. Of one that failed, or that a stop took, the backend may be told.
    Write {
        notice: Option<bool>,
    },
    /// From the newest completed checkpoint, into so many subtasks.
    Restore {
        parallelism: u32,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (key, window, at) = (0u16..4000, 0i8..4, 0i64..99);
    let step = prop_oneof![
        12 => (key.clone(), 0u64..9).prop_map(|(key, by)| Step::Add { key, by }),
        6 => key.clone().prop_map(|key| Step::Remove { key }),
        2 => (key.clone(), 1u16..3000).prop_map(|(from, count)| Step::Fill { from, count }),
        1 => (key.clone(), 1u16..4000).prop_map(|(from, count)| Step::Clear { from, count }),
        8 => (window.clone(), key.clone()).prop_map(|(window, key)| Step::Window { window, key }),
        2 => window.prop_map(|window| Step::Drop { window }),
        6 => key.clone().prop_map(|key| Step::Push { key }),
        4 => (at.clone(), key).prop_map(|(at, key)| Step::Register { at, key }),
        1 => at.prop_map(|up_to| Step::Fire { up_to }),
        8 => prop::bool::weighted(0.2).prop_map(|full| Step::Freeze { full }),
        7 => prop::bool::weighted(0.8).prop_map(|notice| Step::Complete { notice }),
        2 => any::<(bool, bool)>().prop_map(|(written, notice)| Step::Abort { written, notice }),
        2 => Just(Step::Savepoint),
        2 => any::<Option<bool>>().prop_map(|notice| Step::Write { notice }),
        2 => (1u32..4).prop_map(|parallelism| Step::Restore { parallelism }),
    ];
    prop::collection::vec(step, 0..120)
}

#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    sums: BTreeMap<u16, u64>,
    windows: BTreeMap<(i8, u16), u64>,
    lists: BTreeMap<u16, Vec<String>>,
    timers: BTreeSet<(i64, KeyHash, u16)>,
}

fn groups() -> KeyGroups {
    KeyGroups::new(12)
}

fn hash(key: u16) -> KeyHash {
    key.key_hash(groups())
}

struct Running {
    backend: HeapKeyedStateBackend<u16>,
    sums: HeapValues<u16, u64>,
    windows: HeapNamespaced<u16, i8, u64>,
    lists: ListState<String>,
    timers: HeapTimers<u16, ()>,
}

impl Running {
    fn start(range: KeyGroupRange, from: Option<&KeyedSnapshot>, store: &SharedFiles) -> Self {
        let options = BackendOptions::new(groups(), range).incremental(true);
        let mut backend = HeapKeyedStateBackend::new(options);
        if let Some(from) = from {
            backend.restore_snapshot(from, store).unwrap();
        }
        Self {
            sums: backend.keyed_value("sums").unwrap(),
            windows: backend.namespaced("windows").unwrap(),
            lists: backend.list("lists").unwrap(),
            timers: backend.timers("timers", TimeDomain::EventTime).unwrap(),
            backend,
        }
    }

    /// What is inside; empties the timers.
    fn contents(self, into: &mut Model) {
        self.sums.for_each(|key, sum| assert_eq!(into.sums.insert(*key, *sum), None)).unwrap();
        for window in self.windows.namespaces().unwrap() {
            let (mut walk, mut entries) = (self.windows.read_namespace(window).unwrap(), Vec::new());
            while walk.next_slice(500, &mut entries).unwrap() {}
            into.windows.extend(entries.into_iter().map(|(_, key, n)| ((window, key), n)));
        }
        let range = self.backend.options().range;
        for key in (0..9000u16).filter(|key| range.contains(hash(*key).group())) {
            let list = self.lists.get(&CurrentKey::new(&key, hash(key))).unwrap();
            if !list.is_empty() {
                into.lists.insert(key, list);
            }
        }
        while let Some(timer) = self.timers.pop_due(Timestamp::MAX).unwrap() {
            into.timers.insert((timer.time.as_millis(), timer.hash, timer.key));
        }
    }

    fn step(&mut self, model: &mut Model, step: Step) {
        match step {
            Step::Add { key, by } => {
                self.sums.update(hash(key), &key, || 0, |sum| *sum += by).unwrap();
                *model.sums.entry(key).or_default() += by;
            }
            Step::Remove { key } => {
                assert_eq!(self.sums.remove(hash(key), &key).unwrap(), model.sums.remove(&key));
            }
            Step::Fill { from, count } => {
                for key in from..from + count {
                    self.sums.insert(hash(key), &key, 7).unwrap();
                    model.sums.insert(key, 7);
                }
            }
            Step::Clear { from, count } => {
                for key in from..from + count {
                    self.sums.remove(hash(key), &key).unwrap();
                    model.sums.remove(&key);
                }
            }
            Step::Window { window, key } => {
                self.windows.update(window, hash(key), &key, || 0, |n| *n += 1).unwrap();
                *model.windows.entry((window, key)).or_default() += 1;
            }
            Step::Drop { window } => {
                self.windows.remove_namespace(window).unwrap();
                model.windows.retain(|(other, _), _| *other != window);
            }
            Step::Push { key } => {
                let text = format!("{key} {}", model.lists.len());
                self.lists.add(&CurrentKey::new(&key, hash(key)), text.clone()).unwrap();
                model.lists.entry(key).or_default().push(text);
            }
            Step::Register { at, key } => {
                self.timers.register(Timestamp::from_millis(at), hash(key), &key, ()).unwrap();
                model.timers.insert((at, hash(key), key));
            }
            Step::Fire { up_to } => {
                while self.timers.pop_due(Timestamp::from_millis(up_to)).unwrap().is_some() {}
                model.timers.retain(|timer| timer.0 > up_to);
            }
            // these are steps of the checkpoints
            Step::Freeze { .. }
            | Step::Complete { .. }
            | Step::Abort { .. }
            | Step::Savepoint
            | Step::Write { .. }
            | Step::Restore { .. } => {}
        }
    }
}

/// Restores into so many subtasks and compares.
fn check(snapshot: &KeyedSnapshot, expected: &Model, parallelism: u32, store: &SharedFiles) {
    let mut found = Model::default();
    for subtask in 0..parallelism {
        Running::start(groups().range(subtask, parallelism), Some(snapshot), store).contents(&mut found);
    }
    assert_eq!(&found, expected);
}

#[derive(Default)]
struct Seen {
    images: usize,
    deltas: usize,
}

fn run(steps: Vec<Step>) -> Seen {
    let (store, mut seen) = (SharedFiles::default(), Seen::default());
    let mut running = Running::start(groups().all(), None, &store);
    let mut model = Model::default();
    let mut id = 0;
    let mut fulls = BTreeSet::new();
    let mut on_its_way: Vec<(CheckpointId, _, Model)> = Vec::new();
    let mut savepoints: Vec<(CheckpointId, _, Model)> = Vec::new();
    let mut completed: Option<(KeyedSnapshot, Model)> = None;
    for step in steps {
        match step {
            Step::Freeze { full } => {
                id += 1;
                let form = if full { SnapshotForm::FullCheckpoint } else { SnapshotForm::Checkpoint };
                let frozen = running.backend.freeze_as(CheckpointId(id), form).unwrap();
                fulls.extend(full.then_some(id));
                on_its_way.push((CheckpointId(id), frozen, model.clone()));
            }
            Step::Complete { notice } if !on_its_way.is_empty() => {
                let (id, frozen, then) = on_its_way.remove(0);
                let snapshot = frozen.write(&store, "model").unwrap();
                assert!(store.has_all(&snapshot), "it names files that are gone");
                let files = snapshot.incremental.first().map_or(0, |handle| handle.files.len());
                assert!(files < 2 || !fulls.contains(&id.0), "a full checkpoint is an image");
                match files {
                    0 => {}
                    1 => seen.images += 1,
                    _ => seen.deltas += 1,
                }
                if notice {
                    running.backend.checkpoint_completed(id);
                }
                store.keep([&snapshot]);
                check(&snapshot, &then, 1 + id.0 as u32 % 3, &store);
                completed = Some((snapshot, then));
            }
            Step::Abort { written, notice } if !on_its_way.is_empty() => {
                let (id, frozen, _) = on_its_way.remove(0);
                if written {
                    frozen.write(&store, "model").unwrap();
                }
                if notice {
                    running.backend.checkpoint_aborted(id);
                }
                store.keep(completed.iter().map(|completed| &completed.0));
            }
            Step::Savepoint => {
                id += 1;
                let form = SnapshotForm::Savepoint(SavepointFormat::Canonical);
                let frozen = running.backend.freeze_as(CheckpointId(id), form).unwrap();
                savepoints.push((CheckpointId(id), frozen, model.clone()));
            }
            Step::Write { notice } if !savepoints.is_empty() => {
                let (id, frozen, then) = savepoints.remove(0);
                let savepoint = frozen.write(&store, "savepoint").unwrap();
                assert!(savepoint.incremental.is_empty(), "it stands for itself");
                check(&savepoint, &then, 2, &store);
                match notice {
                    Some(true) => running.backend.checkpoint_completed(id),
                    Some(false) => running.backend.checkpoint_aborted(id),
                    None => {}
                }
            }
            Step::Restore { parallelism } => {
                if let Some((snapshot, then)) = &completed {
                    check(snapshot, then, parallelism, &store);
                    running = Running::start(groups().all(), Some(snapshot), &store);
                    model = then.clone();
                    on_its_way.clear();
                    savepoints.clear();
                }
            }
            Step::Complete { .. } | Step::Abort { .. } | Step::Write { .. } => {}
            step => running.step(&mut model, step),
        }
    }
    let mut found = Model::default();
    running.contents(&mut found);
    assert_eq!(found, model);
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_restored_is_what_was_there_at_the_freeze(steps in steps()) {
        run(steps);
    }
}

/// A long life with small changes, so that most checkpoints are changes and chains reach their bounds.
#[test]
fn a_long_chain_of_small_changes_begins_anew_again_and_again() {
    let mut steps = vec![Step::Fill { from: 0, count: 8000 }];
    for n in 0..100u16 {
        steps.extend([Step::Add { key: n * 37, by: 3 }, Step::Remove { key: n * 31 }]);
        steps.extend([Step::Window { window: (n % 3) as i8, key: n }, Step::Drop { window: (n % 5) as i8 }]);
        steps.extend([Step::Push { key: n % 7 }, Step::Register { at: n as i64, key: n }]);
        steps.extend([Step::Freeze { full: false }, Step::Complete { notice: n % 6 != 5 }]);
        if n % 40 == 39 {
            steps.push(Step::Restore { parallelism: 2 });
        }
    }
    let seen = run(steps);
    assert_eq!(seen.images + seen.deltas, 100);
    assert!((4..20).contains(&seen.images), "{} images", seen.images);
}
