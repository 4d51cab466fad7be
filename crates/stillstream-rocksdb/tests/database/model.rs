//! Random programs against plain maps: writes, timers, snapshots written on another thread, restores.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use stillstream_heap::HeapKeyedStateBackend;
use stillstream_rocksdb::{RocksDbKeyedStateBackend, RocksDbOptions};
use stillstream_state::{
    BackendOptions, Either, FrozenKeyedState, Key, KeyedBackend, KeyedValues, MemorySnapshotStore,
    NamespaceWalk, NamespacedValues, TimeDomain, Timer, TimerService,
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
    /// Registers without asking whether it is there.
    Set {
        at: i64,
        key: u16,
        window: i8,
    },
    /// Deletes without asking whether it is there.
    Unset {
        at: i64,
        key: u16,
        window: i8,
    },
    Fire {
        up_to: i64,
        most: usize,
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
        8 => (at.clone(), key.clone(), window.clone())
            .prop_map(|(at, key, window)| Step::Delete { at, key, window }),
        30 => (at.clone(), key.clone(), window.clone()).prop_map(|(at, key, window)| Step::Set { at, key, window }),
        8 => (at.clone(), key, window).prop_map(|(at, key, window)| Step::Unset { at, key, window }),
        1 => (at, 0usize..200).prop_map(|(up_to, most)| Step::Fire { up_to, most }),
        2 => Just(Step::Freeze),
        1 => Just(Step::Write),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 0..1500)
}

/// Values by window and key, timers, values by key.
type Model = (BTreeMap<(i8, u16), u64>, BTreeSet<(i64, KeyHash, i8, u16)>, BTreeMap<u16, u64>);

#[derive(Clone, Copy)]
enum Backend {
    Asynchronous,
    Synchronous,
    RocksDb,
}

/// As a job has it, which chooses when it starts.
type Chosen = Either<HeapKeyedStateBackend<u16>, RocksDbKeyedStateBackend<u16>>;

struct Running {
    backend: Chosen,
    windows: <Chosen as KeyedBackend>::Namespaced<i8, u64>,
    timers: <Chosen as KeyedBackend>::Timers<i8>,
    counts: <Chosen as KeyedBackend>::KeyedValue<u64>,
}

fn groups() -> KeyGroups {
    KeyGroups::new(16)
}

fn hash(key: u16) -> KeyHash {
    key.key_hash(groups())
}

impl Running {
    fn start(backend: Backend, from: Option<FrozenKeyedState>) -> Self {
        let options = BackendOptions::new(groups(), groups().all());
        let mut backend = match backend {
            Backend::Asynchronous => Chosen::Left(HeapKeyedStateBackend::new(options)),
            Backend::Synchronous => Chosen::Left(HeapKeyedStateBackend::new(options.asynchronous(false))),
            Backend::RocksDb => Chosen::Right(RocksDbKeyedStateBackend::new(options, rocksdb()).unwrap()),
        };
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
        let counts = backend.keyed_value("counts").unwrap();
        Self { backend, windows, timers, counts }
    }

    fn check(&self, model: &Model) {
        let mut found = BTreeMap::new();
        for window in self.windows.namespaces().unwrap() {
            let (mut walk, mut entries) = (self.windows.read_namespace(window).unwrap(), Vec::new());
            while walk.next_slice(50, &mut entries).unwrap() {}
            found.extend(entries.into_iter().map(|(_, key, n)| ((window, key), n)));
        }
        assert_eq!(found, model.0);
        let mut counts = BTreeMap::new();
        self.counts.for_each(|key, n| assert_eq!(counts.insert(*key, *n), None)).unwrap();
        assert_eq!(counts, model.2);
        assert_eq!(self.timers.len().unwrap(), model.1.len());
        let first = model.1.first().map(|timer| Timestamp::from_millis(timer.0));
        assert_eq!(self.timers.peek_next_time(), first);
    }

    /// Takes the timers that are due. Within a time they come by hash; those of one hash come in no special
    /// order.
    fn fire(&self, up_to: i64) -> BTreeSet<(i64, KeyHash, i8, u16)> {
        let due = std::iter::from_fn(|| self.timers.pop_due(Timestamp::from_millis(up_to)).unwrap());
        let fired: Vec<_> = due.map(|t| (t.time.as_millis(), t.hash, t.namespace, t.key)).collect();
        assert!(fired.is_sorted_by_key(|timer| (timer.0, timer.1)));
        let set: BTreeSet<_> = fired.iter().copied().collect();
        assert_eq!(set.len(), fired.len());
        set
    }
}

/// With little memory, so that entries go to the database all the time.
fn rocksdb() -> RocksDbOptions {
    static FOLDER: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let mut options = RocksDbOptions::new(FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path());
    options.memory.total_bytes = Some(4 << 20);
    options.memory.write_back_ratio = 0.0;
    options.timer_cache = 3;
    options
}

fn run(steps: Vec<Step>, backend: Backend) {
    let mut running = Running::start(backend, None);
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
                let (mut seen, keys) = (0, [key, key.wrapping_add(1)]);
                let hashes = keys.map(hash);
                let add = |_: usize, n: &mut u64| {
                    *n += by;
                    seen = *n;
                };
                running.counts.update_batch(&hashes, &keys[..], || 0, add).unwrap();
                for key in keys {
                    *model.2.entry(key).or_default() += by;
                }
                assert_eq!(seen, model.2[&keys[1]]);
            }
            Step::Remove { window, key } => {
                let removed = running.windows.remove(window, hash(key), &key).unwrap();
                assert_eq!(removed, model.0.remove(&(window, key)));
                assert_eq!(running.counts.remove(hash(key), &key).unwrap(), model.2.remove(&key));
                assert_eq!(running.counts.get(hash(key), &key).unwrap(), None);
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
            Step::Set { at, key, window } => {
                let time = Timestamp::from_millis(at);
                running.timers.set(Timer { time, hash: hash(key), key, namespace: window }).unwrap();
                model.1.insert((at, hash(key), window, key));
            }
            Step::Unset { at, key, window } => {
                let time = Timestamp::from_millis(at);
                running.timers.unset(Timer { time, hash: hash(key), key, namespace: window }).unwrap();
                model.1.remove(&(at, hash(key), window, key));
            }
            Step::Fire { up_to, most } => {
                let mut some = Vec::new();
                running.timers.pop_all_due(Timestamp::from_millis(up_to), most, &mut some).unwrap();
                assert!(
                    some.len() == most
                        || running.timers.peek_next_time().is_none_or(|t| t.as_millis() > up_to)
                );
                for timer in some {
                    let first = model.1.first().map(|first| (first.0, first.1));
                    assert_eq!(first, Some((timer.time.as_millis(), timer.hash)));
                    let fired = (timer.time.as_millis(), timer.hash, timer.namespace, timer.key);
                    assert!(model.1.remove(&fired));
                }
                let later = model.1.split_off(&(up_to + 1, KeyHash(0), i8::MIN, 0));
                assert_eq!(running.fire(up_to), std::mem::replace(&mut model.1, later));
            }
            Step::Freeze => frozen.push((running.backend.freeze().unwrap(), model.clone())),
            Step::Write => {
                while let Some((frozen, model)) = frozen.pop() {
                    let restored = Running::start(Backend::Synchronous, Some(frozen));
                    restored.check(&model);
                    assert_eq!(restored.fire(i64::MAX), model.1);
                }
            }
            Step::Restart => {
                if let Some((image, then)) = frozen.pop() {
                    running = Running::start(backend, Some(image));
                    model = then;
                    frozen.clear();
                }
            }
        }
    }
    running.check(&model);
    assert_eq!(running.fire(i64::MAX), model.1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn asynchronous_state_is_what_the_model_says(steps in steps()) {
        run(steps, Backend::Asynchronous);
    }

    #[test]
    fn synchronous_state_is_what_the_model_says(steps in steps()) {
        run(steps, Backend::Synchronous);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn state_in_rocksdb_is_what_the_model_says(steps in steps()) {
        run(steps, Backend::RocksDb);
    }
}

/// Times that only grow, only fall, and all equal: the shapes of leaves that random times do not make.
#[test]
fn timers_keep_their_order_whatever_order_they_come_in() {
    let n = 3000i64;
    for shape in [|i: i64| i, |i: i64| -i, |_: i64| 7, |i: i64| i % 2 * 1000 - i] {
        let running = Running::start(Backend::Asynchronous, None);
        let mut expected = BTreeSet::new();
        for i in 0..n {
            let key = (i % 1000) as u16;
            let timer = (shape(i), hash(key), (i / 1000) as i8, key);
            let new =
                running.timers.register(Timestamp::from_millis(timer.0), timer.1, &key, timer.2).unwrap();
            assert_eq!(new, expected.insert(timer));
        }
        assert_eq!(running.fire(i64::MAX), expected);
    }
}
