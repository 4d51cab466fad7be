//! Jobs with state in RocksDB: failures, restarts, another parallelism, windows and timers.

#[cfg(feature = "rocksdb")]
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
    env.from_source("numbers", Generator::new(COUNT, |n| n).records_per_second(60_000.0))
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

/// For each key, how many rows there are and the largest sum: which sums lie between depends on how subtasks take turns.
#[cfg(feature = "rocksdb")]
fn by_key(rows: impl IntoIterator<Item = (u64, u64)>) -> BTreeMap<u64, (u64, u64)> {
    let mut found = BTreeMap::<u64, (u64, u64)>::new();
    for (key, sum) in rows {
        let (count, largest) = found.entry(key).or_default();
        *count += 1;
        *largest = sum.max(*largest);
    }
    found
}

#[cfg(feature = "rocksdb")]
fn expected() -> BTreeMap<u64, (u64, u64)> {
    (0..KEYS).map(|key| (key, (COUNT / KEYS, (key..COUNT).step_by(KEYS as usize).sum()))).collect()
}

#[cfg(feature = "rocksdb")]
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

#[cfg(feature = "rocksdb")]
#[test]
fn a_job_goes_on_from_incremental_checkpoints_with_every_record_once() {
    fails_and_goes_on(true, [2, 2]);
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_job_goes_on_from_incremental_checkpoints_at_another_parallelism() {
    fails_and_goes_on(true, [2, 3]);
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_job_goes_on_from_full_checkpoints() {
    fails_and_goes_on(false, [1, 2]);
}
