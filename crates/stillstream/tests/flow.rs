//! Flow control: no plan hangs, memory stays bounded, and a job always ends when it is told to.

mod flow_plans;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use flow_plans::{Join, Outcome, Plan, Row, Weight, end_within, weight};
use stillstream::connect::Plain;
use stillstream::prelude::*;
use stillstream::{Batch, JobMetrics};

/// Runs a job that must end by itself.
fn run(env: &StreamExecutionEnvironment, name: &str, limit: Duration) -> (JobResult, JobMetrics) {
    let client = env.execute_async(name).unwrap();
    match end_within(&client, limit) {
        Some(result) => (result.unwrap(), client.metrics()),
        None => {
            let found = (client.status(), client.metrics(), client.checkpoint_statistics());
            client.cancel();
            panic!("`{name}` hangs: {found:?}");
        }
    }
}

/// How a plan runs, by its seed. What is returned with it keeps its checkpoints.
fn setting(plan: &mut Plan) -> (StreamExecutionEnvironment, u32, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let parallelism = 1 + plan.random.below(4) as u32;
    let limit = 64 << plan.random.below(7);
    let interval = 10 + plan.random.below(21);
    let mode = [
        None,
        Some(CheckpointingMode::ExactlyOnce),
        Some(CheckpointingMode::ExactlyOnce),
        Some(CheckpointingMode::AtLeastOnce),
    ][plan.random.below(4) as usize];
    plan.note(&format!("parallelism {parallelism}, limit {limit}, {mode:?} every {interval} ms:"));
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism)
        .set_records_in_flight(limit)
        .set_state_backend(FsStateBackend::new(folder.path().display().to_string()))
        .set_restart_strategy(RestartStrategy::none())
        .set_cancellation_timeout(seconds(1));
    if let Some(mode) = mode {
        env.enable_checkpointing(millis(interval)).set_checkpointing_mode(mode);
    }
    (env, parallelism, folder)
}

/// Runs the plan of a seed; what is wrong with its outcome.
fn run_plan(seed: u64) -> Result<(), String> {
    let mut plan = Plan::new(seed);
    let (env, parallelism, _folder) = setting(&mut plan);
    let Outcome { rows, least, most, text } = plan.build(&env, parallelism.into());
    let rows = rows.collect();
    let client =
        env.execute_async(format!("seed {seed}")).map_err(|error| format!("{seed}: {text}: {error}"))?;
    match end_within(&client, seconds(20)) {
        None => {
            let found = (client.status(), client.metrics(), client.checkpoint_statistics().counts);
            client.cancel();
            Err(format!("seed {seed} hangs: {text}: {found:?}"))
        }
        Some(Err(error)) => Err(format!("seed {seed} failed: {text}: {error}")),
        Some(Ok(_)) => {
            let found: u64 = rows.items().iter().map(|row| row.1).sum();
            match (least..=most).contains(&found) {
                true => Ok(()),
                false => Err(format!("seed {seed}: {found}, expected {least} to {most}: {text}")),
            }
        }
    }
}

/// Runs a plan whose sources never end, until everything has come out that must, all but the last watermark;
/// what is wrong.
fn run_endless(seed: u64) -> Result<(), String> {
    let mut plan = Plan::endless(seed);
    let (env, parallelism, _folder) = setting(&mut plan);
    let Outcome { rows, least, most, text } = plan.build(&env, parallelism.into());
    let (sum, (reached, end)) = (Arc::new(AtomicU64::new(0)), mpsc::channel());
    let (counted, reached) = (sum.clone(), Mutex::new(reached));
    let count = move |row: &Row| {
        let before = counted.fetch_add(weight(row), Ordering::SeqCst);
        if before < least && before + weight(row) >= least {
            // a test that has given up does not listen
            _ = reached.lock().unwrap().send(());
        }
    };
    rows.inspect(count).discard();
    let client =
        env.execute_async(format!("seed {seed}")).map_err(|error| format!("{seed}: {text}: {error}"))?;
    let arrived = end.recv_timeout(seconds(20)).is_ok();
    let status = client.status();
    client.cancel();
    if end_within(&client, seconds(20)).is_none() {
        return Err(format!("seed {seed} cannot be cancelled: {text}: {:?}", client.status()));
    }
    let found = sum.load(Ordering::SeqCst);
    match (arrived, found <= most) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("seed {seed} hangs at {found} of {least} ({status:?}): {text}")),
        (true, false) => Err(format!("seed {seed}: {found}, expected at most {most}: {text}")),
    }
}

/// What is wrong with the plans of seeds, two at a time: many wait more than they work.
fn wrong_of(seeds: std::ops::RangeInclusive<u64>, run: fn(u64) -> Result<(), String>) -> Vec<String> {
    let next = Mutex::new(seeds);
    let work = || {
        let mut wrong = Vec::new();
        loop {
            let Some(seed) = next.lock().unwrap().next() else { return wrong };
            wrong.extend(run(seed).err());
        }
    };
    std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(work));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn event_time_goes_on_in_every_plan_whose_sources_never_end() {
    let wrong = wrong_of(1..=200, run_endless);
    assert!(wrong.is_empty(), "{} plans:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_plan_hangs_and_none_loses_a_record() {
    let wrong: Vec<String> = (1..=40).filter_map(|seed| run_plan(seed).err()).collect();
    assert!(wrong.is_empty(), "{} plans:\n{}", wrong.len(), wrong.join("\n"));
}

fn env_of(parallelism: u32, limit: u32, folder: &tempfile::TempDir) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism)
        .set_records_in_flight(limit)
        .enable_checkpointing(millis(20))
        .set_state_backend(FsStateBackend::new(folder.path().display().to_string()))
        .set_restart_strategy(RestartStrategy::none())
        .set_cancellation_timeout(seconds(1));
    env
}

/// Rows whose window sums are of `keys` keys.
fn window_sums(env: &StreamExecutionEnvironment, count: u64, keys: u64, per_ms: u64) -> DataStream<Row> {
    let rows = Generator::new(count, move |i| (i % keys, 1, (i / per_ms) as i64));
    env.from_source("events", rows)
        .uid("events")
        .watermarks(
            WatermarkStrategy::bounded_out_of_orderness(seconds(2))
                .timestamp(|row: &Row| Timestamp::from_millis(row.2)),
        )
        .uid("time")
        .key_by(|row| row.0)
        .window(Tumbling::of(seconds(1)))
        .aggregate_with(Weight, |key, window, weight| (*key, weight, window.last().as_millis()))
        .uid("windows")
}

fn total(rows: &Collect<Row>) -> u64 {
    rows.items().iter().map(|row| row.1).sum()
}

#[test]
fn a_firing_window_of_many_keys_does_not_wait_for_its_own_input() {
    for (parallelism, limit) in [(1, 64), (3, 64), (2, 1024)] {
        let folder = tempfile::tempdir().unwrap();
        let env = env_of(parallelism, limit, &folder);
        let rows = window_sums(&env, 300_000, 100_000, 100).rebalance().map(|row| row).collect();
        let (result, metrics) = run(&env, "windows", seconds(20));
        println!(
            "firing window, {parallelism} workers, limit {limit}: {result}, in flight {}",
            metrics.max_in_flight
        );
        assert_eq!(total(&rows), 300_000, "{parallelism} workers, limit {limit}");
    }
}

#[test]
fn a_window_and_a_source_into_a_join_do_not_wait_for_each_other_at_a_barrier() {
    for (parallelism, limit) in [(1, 1024), (3, 64), (4, 64), (4, 2048)] {
        let folder = tempfile::tempdir().unwrap();
        let env = env_of(parallelism, limit, &folder);
        let sums = window_sums(&env, 100_000, 20_000, 20);
        let other = env.from_source("other", Generator::new(50_000, |i| (i % 20_000, 1, 0))).uid("other");
        let rows =
            sums.connect(&other).key_by(|row| row.0, |row| row.0).process::<Join>().uid("join").collect();
        let (result, metrics) = run(&env, "window and join", seconds(20));
        println!(
            "window and join, {parallelism} workers, limit {limit}: {result}, slowest {:?}, in flight {}",
            result.checkpoints.slowest, metrics.max_in_flight
        );
        assert_eq!(total(&rows), 150_000, "{parallelism} workers, limit {limit}");
    }
}

#[test]
fn a_slow_operator_keeps_in_flight_records_bounded_and_checkpoints_go_on() {
    /// What a source emits in one turn, and what waits for it to be sent, may come on top of the limit.
    const SLACK: u64 = 2048;
    let limit = 256;
    let folder = tempfile::tempdir().unwrap();
    let env = env_of(3, limit, &folder);
    let rows = env
        .from_source("events", Generator::new(40_000, |i| (if i % 10 == 0 { 0 } else { i % 100 }, 1, 0)))
        .uid("events")
        .key_by(|row: &Row| row.0)
        .map_with_state("seen", |seen: &mut u64, row: Row| {
            if row.0 == 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
            *seen += 1;
            row
        })
        .uid("slow")
        .collect();
    let (result, metrics) = run(&env, "slow", seconds(30));
    println!(
        "slow operator, limit {limit}: {result}, in flight {}, slowest checkpoint {:?}",
        metrics.max_in_flight, result.checkpoints.slowest
    );
    assert_eq!(total(&rows), 40_000);
    assert!(metrics.max_in_flight > 0, "it is counted");
    assert!(metrics.max_in_flight <= u64::from(limit) + SLACK, "{metrics:?}");
    assert!(result.checkpoints.completed >= 3, "checkpoints go on under backpressure: {result}");
    assert!(result.checkpoints.slowest < seconds(5), "{:?}", result.checkpoints);
}

fn flag() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    (flag.clone(), flag)
}

/// Rows without end.
fn endless(env: &StreamExecutionEnvironment) -> DataStream<u64> {
    env.from_source("ticks", Generator::unbounded(|i| i)).uid("ticks")
}

#[test]
fn code_that_never_returns_is_named_when_the_time_to_cancel_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let env = env_of(2, 256, &folder);
    let (reached, entered) = flag();
    endless(&env)
        .rebalance()
        .map(move |n| {
            if n == 1_000 {
                loop {
                    entered.store(true, Ordering::SeqCst);
                    std::thread::park_timeout(millis(50));
                }
            }
            n
        })
        .name("stuck")
        .disable_chaining()
        .discard();
    let client = env.execute_async("stuck").unwrap();
    assert!(client.wait_until(seconds(10), |_| reached.load(Ordering::SeqCst)));
    client.cancel();
    let error = end_within(&client, seconds(10)).expect("it ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let text = error.to_string();
    assert!(text.contains("stuck") && text.contains("subtask") && text.contains("1s"), "{text}");
}

#[test]
fn a_sink_that_blocks_for_ever_is_named_when_the_time_to_cancel_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let env = env_of(2, 256, &folder);
    let (reached, entered) = flag();
    let blocking = Plain::new(move |context| {
        let (blocks, entered) = (context.subtask.0 == 1, entered.clone());
        Ok(move |_: Batch<u64>| {
            if blocks {
                loop {
                    entered.store(true, Ordering::SeqCst);
                    std::thread::park_timeout(millis(50));
                }
            }
            Ok(())
        })
    });
    endless(&env).rebalance().sink_to("blocked pipe", blocking).disable_chaining();
    let client = env.execute_async("blocked").unwrap();
    assert!(client.wait_until(seconds(10), |_| reached.load(Ordering::SeqCst)));
    client.cancel();
    let error = end_within(&client, seconds(10)).expect("it ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let text = error.to_string();
    assert!(text.contains("`blocked pipe` subtask 1"), "{text}");
}

#[test]
fn a_healthy_job_under_backpressure_is_cancelled_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut env = env_of(3, 64, &folder);
    env.set_cancellation_timeout(seconds(60));
    endless(&env).key_by(|n| n % 10).map_with_state("seen", |_: &mut u64, n| n).uid("keyed").discard();
    let client = env.execute_async("healthy").unwrap();
    assert!(client.wait_until(seconds(10), |job| job.metrics().records_in > 1_000));
    client.cancel();
    let error = end_within(&client, seconds(5)).expect("far below the cancellation timeout").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
}

#[test]
fn behind_a_slow_function_lies_about_a_second_of_its_work_and_checkpoints_go_on() {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2).enable_checkpointing(millis(50)).set_restart_strategy(RestartStrategy::none());
    let slow = |n: u64| {
        std::thread::sleep(millis(2));
        n
    };
    env.from_source("numbers", Generator::unbounded(|n| n)).uid("numbers").rebalance().map(slow).discard();
    let client = env.execute_async("slow").unwrap();
    let enough = |client: &JobClient| client.checkpoint_statistics().counts.completed >= 3;
    assert!(client.wait_until(seconds(60), enough), "{:?}", client.checkpoint_statistics());
    client.cancel();
    assert!(client.clone().wait().is_err());
    // 500 records are a second's work; the first ones are sent when nothing is known of the function
    let most = client.metrics().max_in_flight;
    assert!(most <= 2_000, "{most} records were in flight on one way");
}

#[test]
fn large_records_are_bounded_by_their_bytes() {
    const SIZE: usize = 1 << 20;
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(1).set_bytes_in_flight(4 << 20).enable_checkpointing(millis(50));
    let seen = Arc::new(AtomicU64::new(0));
    let counted = seen.clone();
    env.from_source("large", Generator::unbounded(|n| vec![n as u8; SIZE]))
        .uid("large")
        .map(|bytes| bytes)
        .disable_chaining()
        .inspect(move |_| _ = counted.fetch_add(1, Ordering::SeqCst))
        .discard();
    let client = env.execute_async("large").unwrap();
    assert!(client.wait_until(seconds(60), |_| seen.load(Ordering::SeqCst) > 200));
    client.cancel();
    assert!(client.clone().wait().is_err());
    // four fit, and a source is asked for no more once it is known how large they are
    let most = client.metrics().max_in_flight;
    assert!(most <= 16, "{most} MiB were in flight");
}
