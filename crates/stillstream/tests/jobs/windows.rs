//! Windows in whole jobs, from source to sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::paced::Paced;
use stillstream::prelude::*;
use stillstream::window::{CountTrigger, PurgingTrigger};

const LATE: OutputTag<(String, i64)> = OutputTag::new("late");

fn clicks() -> Vec<(String, i64)> {
    let names = ["a", "b", "c", "d", "e"];
    (0..5_000i64).map(|n| (names[n as usize % 5].to_string(), n * 40)).collect()
}

fn counts(
    parallelism: u32,
    window: impl stillstream::window::WindowAssigner<(String, i64)>,
) -> Result<Vec<(String, i64, u64)>> {
    struct Count;
    impl Aggregate for Count {
        type In = (String, i64);
        type Acc = u64;
        type Out = u64;
        fn create(&self) -> u64 {
            0
        }
        fn add(&self, acc: &mut u64, _: (String, i64)) {
            *acc += 1;
        }
        fn merge(&self, acc: &mut u64, other: u64) {
            *acc += other;
        }
        fn result(&self, acc: &u64) -> u64 {
            *acc
        }
    }
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism);
    let counts = env
        .from_collection(clicks())
        .watermarks(
            WatermarkStrategy::bounded_out_of_orderness(seconds(1))
                .timestamp(|click: &(String, i64)| Timestamp::from_millis(click.1)),
        )
        .key_by_ref(|click| &click.0)
        .window(window)
        .late_output(&LATE)
        .aggregate_with(Count, |name, window, n| (name.clone(), window.start.as_millis(), n));
    let (late, counts) = (counts.side_output(&LATE).collect(), counts.collect());
    env.execute("windows")?;
    assert!(late.items().is_empty());
    Ok(counts.sorted())
}

#[test]
fn every_record_is_in_one_window_whatever_the_parallelism() -> Result<()> {
    for parallelism in [1, 3] {
        let counts = counts(parallelism, Tumbling::of(seconds(10)))?;
        assert_eq!(counts.len(), 5 * 20);
        assert!(counts.iter().all(|(_, _, n)| *n == 50), "250 records in ten seconds, of five keys");
    }
    Ok(())
}

#[test]
fn sliding_windows_and_sessions_run_too() -> Result<()> {
    let sliding = counts(2, Sliding::of(seconds(10), seconds(5)))?;
    assert_eq!(sliding.iter().map(|(_, _, n)| *n).sum::<u64>(), 2 * 5_000);
    let sessions = counts(2, Session::with_gap(seconds(1)))?;
    assert_eq!(sessions.iter().map(|(_, _, n)| *n).collect::<Vec<_>>(), [1_000; 5]);
    Ok(())
}

const RECORDS: u64 = 3_000;
const STEP: u64 = 150;
const KEYS: u64 = 7;

/// Numbers the windows of each key.
struct Numbered {
    number: ValueState<u64>,
}

impl ProcessWindow for Numbered {
    type Key = u64;
    type In = Vec<u64>;
    type Out = (u64, u64, u64);

    fn open(states: &mut WindowStates<'_, u64>) -> Result<Self> {
        Ok(Self { number: states.per_key().value("number")? })
    }

    fn process(&mut self, all: Vec<u64>, ctx: &mut WindowContext<'_, u64, Self::Out>) -> Result<()> {
        let number = self.number.update(
            &ctx.key_state(),
            || 0,
            |number| {
                *number += 1;
                *number
            },
        )?;
        ctx.emit((*ctx.key(), number, all.iter().sum()));
        Ok(())
    }
}

#[test]
fn windows_with_triggers_and_state_count_each_record_once_over_failures() -> Result<()> {
    let failures = Arc::new(AtomicU64::new(0));
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2)
        .enable_checkpointing(millis(10))
        .set_restart_strategy(RestartStrategy::fixed_delay(5, Duration::ZERO));
    let failed = failures.clone();
    let numbers = env
        .from_source("numbers", Paced::new(Generator::new(RECORDS, |n| n), STEP, STEP))
        .set_parallelism(1)
        .uid("numbers")
        .try_map(move |n| match (n, failed.load(SeqCst)) {
            // in the middle of windows and after checkpoints, each once
            (1_003, 0) | (2_105, 1) => {
                failed.fetch_add(1, SeqCst);
                Err(Error::msg("told to"))
            }
            _ => Ok(n),
        })
        .set_parallelism(1)
        .watermarks(WatermarkStrategy::monotonic().timestamp(|n: &u64| Timestamp::from_millis(*n as i64)))
        .set_parallelism(1);
    let keyed = numbers.key_by(|n| n % KEYS);
    let numbered = keyed.window(Tumbling::of(millis(70))).process::<Numbered>().uid("numbered").collect();
    let tens = keyed.count_window(10).apply(|key, _, all, out| {
        out.emit((*key, all.len() as u64, all.iter().sum::<u64>()));
        Ok(())
    });
    let tens = tens.uid("tens").collect();
    let sliding = keyed.count_window_sliding(10, 10).reduce(|a, b| a + b).uid("sliding").collect();
    let purging = keyed
        .window(Session::with_dynamic_gap(|_: &u64| days(1)))
        .trigger(PurgingTrigger::of(CountTrigger::of(10)))
        .reduce(|a, b| a + b)
        .uid("purging")
        .collect();
    env.execute("windows with failures")?;
    assert_eq!(failures.load(SeqCst), 2);

    // with a key each seven milliseconds, ten records of a key are a window of 70 ms and ten in a row
    let of_key = |key: u64| (key..RECORDS).step_by(KEYS as usize).collect::<Vec<_>>();
    let mut by_time = Vec::new();
    let mut by_count = Vec::new();
    for key in 0..KEYS {
        let all = of_key(key);
        by_time
            .extend((1..).zip(all.chunks(10)).map(|(number, part)| (key, number, part.iter().sum::<u64>())));
        by_count.extend(all.chunks_exact(10).map(|part| (key, 10u64, part.iter().sum::<u64>())));
    }
    by_count.sort_unstable();
    let mut sums: Vec<u64> = by_count.iter().map(|line| line.2).collect();
    sums.sort_unstable();
    assert_eq!(numbered.sorted(), by_time);
    assert_eq!(tens.sorted(), by_count);
    assert_eq!(sliding.sorted(), sums);
    assert_eq!(purging.sorted(), sums);
    Ok(())
}

/// A window by the clock, while the input is still open.
#[test]
fn a_window_of_processing_time_fires_while_the_job_runs() -> Result<()> {
    let mut env = StreamExecutionEnvironment::new();
    env.enable_checkpointing(millis(10));
    let counts = env
        .from_source("numbers", Paced::new(Generator::new(1 << 40, |n| n), 10, 1))
        .uid("numbers")
        .window_all(Tumbling::of(millis(20)).processing_time())
        .count()
        .uid("counts")
        .collect();
    let job = env.execute_async("by the clock")?;
    assert!(job.wait_until(Duration::from_secs(60), |_| counts.len() > 2));
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    Ok(())
}
