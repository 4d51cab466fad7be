//! Random programs against plain maps: writes, timers, snapshots written on another thread, restores.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use stillstream_state::{
    BackendOptions, FrozenKeyedState, Key, KeyedStateBackend, MemorySnapshotStore, NamespacedValue,
    TimeDomain, Timers,
};
use stillstream_types::{KeyGroups, KeyHash, Timestamp};

#[derive(Clone, Debug)]
enum Step {
    Add {
        window: i8,
        key: u16,
        by: u64,
    },
    Remove {
        window: i8,
        key: u16,
    },
    Take {
        window: i8,
        limit: usize,
    },
    Register {
        at: i64,
        key: u16,
        window: i8,
    },
    Delete {
        at: i64,
        key: u16,
        window: i8,
    },
    Fire {
        up_to: i64,
    },
    Freeze,
    /// Writes what is frozen, newest first, and checks it.
    Write,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (window, key, at) = (-2i8..3, 0u16..300, -50i64..50);
    let step = prop_oneof![
        30 => (window.clone(), key.clone(), 1u64..9).prop_map(|(window, key, by)| Step::Add { window, key, by }),
        8 => (window.clone(), key.clone()).prop_map(|(window, key)| Step::Remove { window, key }),
        2 => (window.clone(), 1usize..100).prop_map(|(window, limit)| Step::Take { window, limit }),
        30 => (at.clone(), key.clone(), window.clone())
            .prop_map(|(at, key, window)| Step::Register { at, key, window }),
        8 => (at.clone(), key, window).prop_map(|(at, key, window)| Step::Delete { at, key, window }),
        1 => at.prop_map(|up_to| Step::Fire { up_to }),
        2 => Just(Step::Freeze),
        1 => Just(Step::Write),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 0..1500)
}

type Model = (BTreeMap<(i8, u16), u64>, BTreeSet<(i64, KeyHash, i8, u16)>);

struct Running {
    backend: KeyedStateBackend<u16>,
    windows: NamespacedValue<u16, i8, u64>,
    timers: Timers<u16, i8>,
}

fn groups() -> KeyGroups {
    KeyGroups::new(16)
}

fn hash(key: u16) -> KeyHash {
    key.key_hash(groups())
}

impl Running {
    fn start(asynchronous: bool, from: Option<FrozenKeyedState>) -> Self {
        let options = BackendOptions::new(groups(), groups().all()).asynchronous(asynchronous);
        let mut backend = KeyedStateBackend::heap(options);
        if let Some(frozen) = from {
            let store = MemorySnapshotStore::unlimited();
            // written on another thread, as the runtime does
            let handles = std::thread::scope(|scope| {
                scope.spawn(|| frozen.write(&store, "model").unwrap()).join().unwrap()
            });
            backend.restore(&handles, &store).unwrap();
        }
        let windows = backend.namespaced("windows").unwrap();
        let timers = backend.timers("timers", TimeDomain::EventTime).unwrap();
        Self { backend, windows, timers }
    }

    fn check(&self, model: &Model) {
        let mut found = BTreeMap::new();
        for window in self.windows.namespaces().unwrap() {
            let (mut walk, mut entries) = (self.windows.read_namespace(window).unwrap(), Vec::new());
            while walk.next_slice(50, &mut entries).unwrap() {}
            found.extend(entries.into_iter().map(|(_, key, n)| ((window, key), n)));
        }
        assert_eq!(found, model.0);
        assert_eq!(self.timers.len().unwrap(), model.1.len());
        let first = model.1.first().map(|timer| Timestamp::from_millis(timer.0));
        assert_eq!(self.timers.peek_next_time(), first);
    }

    fn drain_timers(&self) -> Vec<(i64, KeyHash, i8, u16)> {
        std::iter::from_fn(|| self.timers.pop_due(Timestamp::MAX).unwrap())
            .map(|t| (t.time.as_millis(), t.hash, t.namespace, t.key))
            .collect()
    }
}

fn run(steps: Vec<Step>, asynchronous: bool) {
    let mut running = Running::start(asynchronous, None);
    let mut model = Model::default();
    let mut frozen: Vec<(FrozenKeyedState, Model)> = Vec::new();
    for step in steps {
        match step {
            Step::Add { window, key, by } => {
                let now = running.windows.update(
                    window,
                    hash(key),
                    &key,
                    || 0,
                    |n| {
                        *n += by;
                        *n
                    },
                );
                let expected = model.0.entry((window, key)).or_default();
                *expected += by;
                assert_eq!(now.unwrap(), *expected);
            }
            Step::Remove { window, key } => {
                let removed = running.windows.remove(window, hash(key), &key).unwrap();
                assert_eq!(removed, model.0.remove(&(window, key)));
            }
            Step::Take { window, limit } => {
                let mut taken = Vec::new();
                running.windows.take_namespace(window).unwrap().next_slice(limit, &mut taken).unwrap();
                for (_, key, n) in taken {
                    assert_eq!(model.0.remove(&(window, key)), Some(n));
                }
            }
            Step::Register { at, key, window } => {
                let new =
                    running.timers.register(Timestamp::from_millis(at), hash(key), &key, window).unwrap();
                assert_eq!(new, model.1.insert((at, hash(key), window, key)));
            }
            Step::Delete { at, key, window } => {
                let was = running.timers.delete(Timestamp::from_millis(at), hash(key), &key, window).unwrap();
                assert_eq!(was, model.1.remove(&(at, hash(key), window, key)));
            }
            Step::Fire { up_to } => {
                while let Some(timer) = running.timers.pop_due(Timestamp::from_millis(up_to)).unwrap() {
                    let first = model.1.pop_first().unwrap();
                    assert_eq!((timer.time.as_millis(), timer.hash, timer.namespace, timer.key), first);
                }
                assert!(model.1.first().is_none_or(|timer| timer.0 > up_to));
            }
            Step::Freeze => frozen.push((running.backend.freeze().unwrap(), model.clone())),
            Step::Write => {
                while let Some((frozen, model)) = frozen.pop() {
                    let restored = Running::start(!asynchronous, Some(frozen));
                    restored.check(&model);
                    assert_eq!(restored.drain_timers(), model.1.into_iter().collect::<Vec<_>>());
                }
            }
            Step::Restart => {
                if let Some((image, then)) = frozen.pop() {
                    running = Running::start(asynchronous, Some(image));
                    model = then;
                    frozen.clear();
                }
            }
        }
    }
    running.check(&model);
    assert_eq!(running.drain_timers(), model.1.into_iter().collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn asynchronous_state_is_what_the_model_says(steps in steps()) {
        run(steps, true);
    }

    #[test]
    fn synchronous_state_is_what_the_model_says(steps in steps()) {
        run(steps, false);
    }
}

/// Times that only grow, only fall, and all equal: the shapes of leaves that random times do not make.
#[test]
fn timers_keep_their_order_whatever_order_they_come_in() {
    let n = 3000i64;
    for shape in [|i: i64| i, |i: i64| -i, |_: i64| 7, |i: i64| i % 2 * 1000 - i] {
        let running = Running::start(true, None);
        let mut expected = BTreeSet::new();
        for i in 0..n {
            let key = (i % 1000) as u16;
            let timer = (shape(i), hash(key), (i / 1000) as i8, key);
            let new =
                running.timers.register(Timestamp::from_millis(timer.0), timer.1, &key, timer.2).unwrap();
            assert_eq!(new, expected.insert(timer));
        }
        assert_eq!(running.drain_timers(), expected.into_iter().collect::<Vec<_>>());
    }
}
