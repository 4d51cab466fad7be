//! Sums of many keys, frozen again and again while all of them change: a large table saves its entries for a
//! checkpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use stillstream::prelude::*;

const KEYS: u64 = 300_000;
/// Records of each key.
const TIMES: u64 = 30;
const RECORDS: u64 = KEYS * TIMES;
/// Records at which the job fails, once each.
const FAILURES: [u64; 3] = [2_000_000, 4_000_000, 6_500_000];

#[test]
fn each_of_many_sums_has_each_record_once_after_failures_between_frequent_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(15))
        .set_parallelism(2)
        .set_state_backend(FsStateBackend::new(folder.path().to_string_lossy()))
        .set_restart_strategy(RestartStrategy::fixed_delay(10, Duration::ZERO));
    let armed = FAILURES.map(|at| (at, AtomicBool::new(true)));
    let complete: Arc<Vec<AtomicBool>> = Arc::new((0..KEYS).map(|_| AtomicBool::new(false)).collect());
    let too_large = Arc::new(AtomicU64::new(0));
    let (see_complete, see_too_large) = (complete.clone(), too_large.clone());
    env.from_source("numbers", Generator::new(RECORDS, |n| n))
        .uid("numbers")
        .try_map(move |n| match armed.iter().any(|(at, armed)| *at == n && armed.swap(false, SeqCst)) {
            true => Err(Error::msg("told to")),
            false => Ok((n % KEYS, n / KEYS)),
        })
        .uid("failing")
        .key_by(|record| record.0)
        .map_with_state("rounds", |rounds: &mut u64, (key, round)| {
            // each round has a bit of its own: twice the same round carries into the next bit
            *rounds += 1 << round;
            (key, *rounds)
        })
        .uid("rounds")
        .map(move |(key, rounds)| {
            let all = (1 << TIMES) - 1;
            if rounds == all {
                see_complete[key as usize].store(true, SeqCst);
            }
            see_too_large.fetch_add(u64::from(rounds > all), SeqCst);
            key
        })
        .uid("look")
        .sink_to("discard", Discard::new());
    let result = env.execute("numbers").unwrap();
    assert_eq!(result.restarts, FAILURES.len() as u64, "{result}");
    assert!(result.checkpoints.completed > 5, "{result}");
    assert_eq!(too_large.load(SeqCst), 0, "a record was counted twice: {result}");
    let missing = complete.iter().filter(|seen| !seen.load(SeqCst)).count();
    assert_eq!(missing, 0, "keys lost a record: {result}");
}
