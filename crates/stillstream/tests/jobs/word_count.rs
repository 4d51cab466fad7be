//! A first job through the public API.

use std::collections::BTreeMap;

use stillstream::prelude::*;

fn words(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("to be or not to be {}", i % 7)).collect()
}

fn expected(n: usize) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    words(n)
        .iter()
        .flat_map(|line| line.split(' '))
        .for_each(|word| *counts.entry(word.to_string()).or_default() += 1);
    counts
}

fn count(env: &StreamExecutionEnvironment, n: usize) -> Collect<(String, u64)> {
    env.from_collection(words(n))
        .flat_map_into(|line, out| line.split(' ').for_each(|word| out.emit(word.to_string())))
        .key_by_ref(|word| word)
        .map_with_state("seen", |seen: &mut u64, word| {
            *seen += 1;
            (word, *seen)
        })
        .uid("count")
        .collect()
}

/// Each (word, count) pair comes once.
fn check(found: Vec<(String, u64)>, n: usize) {
    let mut by_word: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    found.into_iter().for_each(|(word, seen)| by_word.entry(word).or_default().push(seen));
    for (word, total) in expected(n) {
        let mut seen = by_word.remove(&word).unwrap_or_default();
        seen.sort_unstable();
        assert_eq!(seen, (1..=total).collect::<Vec<_>>(), "{word}");
    }
    assert!(by_word.is_empty());
}

#[test]
fn words_are_counted_with_any_parallelism_and_backend() {
    for (parallelism, asynchronous, checkpoints) in
        [(1, true, false), (2, true, true), (3, false, true), (2, false, false)]
    {
        let mut env = StreamExecutionEnvironment::new();
        env.set_parallelism(parallelism)
            .set_state_backend(MemoryStateBackend::new().asynchronous(asynchronous));
        if checkpoints {
            env.enable_checkpointing(millis(10));
        }
        let counts = count(&env, 5000);
        env.execute("word-count").unwrap();
        check(counts.items(), 5000);
    }
}

#[test]
fn a_job_that_failed_for_good_goes_on_from_its_last_checkpoint_when_it_is_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let run = |fail: bool| {
        let mut env = StreamExecutionEnvironment::new();
        env.enable_checkpointing(millis(10))
            .set_parallelism(2)
            .set_state_backend(FsStateBackend::new(dir.path().join("c").to_str().unwrap()))
            .set_restart_strategy(RestartStrategy::none());
        // some records for each checkpoint: the failure comes after several, however busy the machine is
        let numbers = crate::paced::Paced::new(Generator::new(200_000, |n| n), 10_000, 10_000);
        env.from_source("numbers", numbers)
            .uid("numbers")
            .key_by(|n| n % 1000)
            .map_with_state("sum", move |sum: &mut u64, n| {
                assert!(!(fail && n == 150_000), "a bug");
                *sum += n;
                (n % 1000, *sum)
            })
            .uid("sums")
            .sink_to("out", FileSink::csv(dir.path().join("out")))
            .uid("out");
        env.execute("sums")
    };
    let error = run(true).unwrap_err().to_string();
    assert!(error.contains("a bug"), "{error}");
    let result = run(false).unwrap();
    assert!(result.resumed_from.is_some(), "{result}");
    assert!(result.records_in < 200_000, "read again from the start: {result}");
    let mut rows = 0;
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for entry in std::fs::read_dir(dir.path().join("out")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(path.extension().and_then(|e| e.to_str()), Some("csv"), "left over: {path:?}");
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let (key, sum) = line.split_once(',').unwrap();
            let (key, sum): (u64, u64) = (key.parse().unwrap(), sum.parse().unwrap());
            rows += 1;
            let entry = last.entry(key).or_default();
            *entry = (*entry).max(sum);
        }
    }
    assert_eq!(rows, 200_000, "each record once");
    for (key, sum) in last {
        assert_eq!(sum, (0..200).map(|i| i * 1000 + key).sum::<u64>(), "key {key}");
    }
}
