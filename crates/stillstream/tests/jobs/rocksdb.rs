//! Jobs with state in RocksDB: failures, restarts, another parallelism, windows and timers.

use std::collections::BTreeMap;
use std::path::Path;

use stillstream::config::options;
use stillstream::prelude::*;

const COUNT: u64 = 20_000;
const KEYS: u64 = 500;

fn environment(dir: &Path, incremental: bool) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    let backend =
        RocksDbStateBackend::new(dir.join("checkpoints").to_str().unwrap()).incremental(incremental);
    env.enable_checkpointing(Duration::from_millis(30)).set_state_backend(backend);
    env.set_restart_strategy(RestartStrategy::none());
    env.configuration_mut()
        .set(options::ROCKSDB_LOCAL_DIR, Some(dir.join("local").to_str().unwrap().to_string()));
    env
}

/// (key, running sum)
type Sums = Collect<(u64, u64)>;

fn sums(env: &StreamExecutionEnvironment, out: &Sums, fail_at: Option<u64>) {
    // some records for each checkpoint: the failure comes after several, however busy the machine is
    let numbers = crate::paced::Paced::new(Generator::new(COUNT, |n| n), COUNT / 20, COUNT / 20);
    env.from_source("numbers", numbers)
        .uid("numbers")
        .try_map(move |n| match fail_at == Some(n) {
            true => Err(Error::msg("told to")),
            false => Ok(n),
        })
        .key_by(|n| n % KEYS)
        .map_with_state("sum", |sum: &mut u64, n| {
            *sum += n;
            (n % KEYS, *sum)
        })
        .uid("sums")
        .sink_to("out", out.clone())
        .uid("out");
}

/// For each key, how many rows there are and the largest sum: which sums lie between depends on how subtasks
/// take turns.
fn by_key(rows: impl IntoIterator<Item = (u64, u64)>) -> BTreeMap<u64, (u64, u64)> {
    let mut found = BTreeMap::<u64, (u64, u64)>::new();
    for (key, sum) in rows {
        let (count, largest) = found.entry(key).or_default();
        *count += 1;
        *largest = sum.max(*largest);
    }
    found
}

fn expected() -> BTreeMap<u64, (u64, u64)> {
    (0..KEYS).map(|key| (key, (COUNT / KEYS, (key..COUNT).step_by(KEYS as usize).sum()))).collect()
}

fn fails_and_goes_on(incremental: bool, parallelism: [u32; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let out = Sums::new();
    let mut env = environment(dir.path(), incremental);
    env.set_parallelism(parallelism[0]);
    sums(&env, &out, Some(15_000));
    let text = env.execute("sums").unwrap_err().to_string();
    assert!(text.contains("told to"), "{text}");

    let mut env = environment(dir.path(), incremental);
    env.set_parallelism(parallelism[1]);
    sums(&env, &out, None);
    let result = env.execute("sums").unwrap();
    assert!(result.resumed_from.is_some() && result.records_in < COUNT, "{result}");
    assert_eq!(by_key(out.sorted()), expected());
    // threads that write in the background may be the last to let go
    let gone = || std::fs::read_dir(dir.path().join("local")).unwrap().count() == 0;
    let waited = (0..1000).any(|_| {
        gone() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    });
    assert!(waited, "work folders go with their backends");
}

#[cfg(not(feature = "rocksdb"))]
#[test]
fn a_program_that_was_built_without_rocksdb_says_which_feature_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let env = environment(dir.path(), true);
    sums(&env, &Sums::new(), None);
    let text = env.execute("sums").unwrap_err().to_string();
    assert!(text.contains("feature `rocksdb`"), "{text}");
}

#[test]
fn a_job_goes_on_from_incremental_checkpoints_with_every_record_once() {
    fails_and_goes_on(true, [2, 2]);
}

#[test]
fn a_job_goes_on_from_incremental_checkpoints_at_another_parallelism() {
    fails_and_goes_on(true, [2, 3]);
}

#[test]
fn a_job_goes_on_from_full_checkpoints() {
    fails_and_goes_on(false, [1, 2]);
}

#[test]
fn records_and_keys_that_own_memory_are_counted_as_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let (counts, windows) = (Collect::new(), Collect::new());
    let env = environment(dir.path(), true);
    let words = env
        .from_source("words", Generator::new(6_000, |n| (format!("word {}", n % 7), n as i64)))
        .uid("words")
        .watermarks(
            WatermarkStrategy::monotonic().timestamp(|word: &(String, i64)| Timestamp::from_millis(word.1)),
        )
        .uid("times");
    words
        .key_by_ref(|word| &word.0)
        .map_with_state("count", |count: &mut u64, word| {
            *count += 1;
            (word.0, *count)
        })
        .uid("counts")
        .sink_to("counts-out", counts.clone())
        .uid("counts-out");
    words
        .key_by_ref(|word| &word.0)
        .window(Sliding::of(Duration::from_secs(2), Duration::from_secs(1)))
        .count()
        .uid("windows")
        .sink_to("windows-out", windows.clone())
        .uid("windows-out");
    env.execute("words").unwrap();

    let mut largest = BTreeMap::<String, u64>::new();
    for (word, count) in counts.sorted() {
        let known = largest.entry(word).or_default();
        *known = count.max(*known);
    }
    let expected = (0..7u64).map(|n| (format!("word {n}"), (n..6_000).step_by(7).count() as u64));
    assert_eq!(largest, expected.collect());
    // each record is in two windows
    let counted: u64 = windows.sorted().into_iter().map(|(_, count): (String, u64)| count).sum();
    assert_eq!(counted, 12_000);
}

/// Passes on the first number of each key within an hour.
struct First {
    seen: MapState<u8, u64>,
}

impl KeyedProcess for First {
    type Key = u64;
    type In = u64;
    type Out = u64;

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { seen: states.with_ttl(&StateTtlConfig::new(hours(1))).map("seen")? })
    }

    fn process(&mut self, n: u64, ctx: &mut Context<Self>) -> Result<()> {
        if !self.seen.contains(ctx, &0)? {
            self.seen.put(ctx, 0, n)?;
            ctx.emit(n);
        }
        Ok(())
    }
}

#[test]
fn state_with_a_time_to_live_goes_on_from_a_checkpoint_at_another_parallelism() {
    let (dir, out) = (tempfile::tempdir().unwrap(), Collect::<u64>::new());
    let run = |parallelism, fail_at: Option<u64>| {
        let mut env = environment(dir.path(), true);
        env.set_parallelism(parallelism);
        let numbers = crate::paced::Paced::new(Generator::new(COUNT, |n| n), COUNT / 20, COUNT / 20);
        env.from_source("numbers", numbers)
            .uid("numbers")
            .try_map(move |n| match fail_at == Some(n) {
                true => Err(Error::msg("told to")),
                false => Ok(n),
            })
            .key_by(|n| n % KEYS)
            .process::<First>()
            .uid("first")
            .sink_to("out", out.clone())
            .uid("out");
        env.execute("first")
    };
    run(2, Some(15_000)).unwrap_err();
    let result = run(3, None).unwrap();
    assert!(result.resumed_from.is_some() && result.records_in < COUNT, "{result}");
    // whichever subtask came first, one of each key
    let mut keys: Vec<u64> = out.sorted().into_iter().map(|n| n % KEYS).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..KEYS).collect::<Vec<_>>());
}
