//! Joins, asynchronous requests, functions without keys and partitioning in whole jobs that fail and go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::paced::Paced;
use stillstream::prelude::*;

const RECORDS: u64 = 3_000;
const STEP: u64 = 150;
const KEYS: u64 = 7;

/// Numbers with themselves as event times, from a job that fails twice behind checkpoints, each time once.
struct Failing {
    env: StreamExecutionEnvironment,
    failures: Arc<AtomicU64>,
}

impl Failing {
    fn new(parallelism: u32) -> Self {
        let mut env = StreamExecutionEnvironment::new();
        env.set_parallelism(parallelism)
            .enable_checkpointing(millis(10))
            .set_restart_strategy(RestartStrategy::fixed_delay(5, Duration::ZERO))
            .set_pending_timers(PendingTimers::Fire);
        Self { env, failures: Arc::default() }
    }

    fn numbers(&self) -> DataStream<u64> {
        self.env
            .from_source("numbers", Paced::new(Generator::new(RECORDS, |n| n), STEP, STEP))
            .set_parallelism(1)
            .uid("numbers")
            .watermarks(WatermarkStrategy::monotonic().timestamp(|n: &u64| Timestamp::from_millis(*n as i64)))
            .set_parallelism(1)
    }

    /// Fails at two of the records.
    fn failing<T: Data>(&self, records: &DataStream<T>, number: fn(&T) -> u64) -> DataStream<T> {
        let failed = self.failures.clone();
        records.try_map(move |record| match (number(&record), failed.load(SeqCst)) {
            (1_003, 0) | (2_105, 1) => {
                failed.fetch_add(1, SeqCst);
                Err(Error::msg("told to"))
            }
            _ => Ok(record),
        })
    }

    fn run(&self, name: &str) -> Result<JobResult> {
        let result = self.env.execute(name)?;
        assert_eq!(self.failures.load(SeqCst), 2, "{name}");
        Ok(result)
    }
}

fn of_key(key: u64) -> impl Iterator<Item = u64> + Clone {
    (key..RECORDS).step_by(KEYS as usize)
}

#[test]
fn interval_and_window_joins_have_each_pair_once_over_failures() -> Result<()> {
    let job = Failing::new(2);
    let numbers = job.failing(&job.numbers(), |n| *n);
    let (all, thirds) = (numbers.key_by(|n| n % KEYS), numbers.filter(|n| n % 3 == 0).key_by(|n| n % KEYS));
    let near = all
        .interval_join(&thirds, before(millis(20))..=after(millis(50)), |a, b| (*a, *b))
        .uid("near")
        .collect();
    let windows = all.join(&thirds).window(Tumbling::of(millis(70)));
    let same_window = windows.left_outer(|a, b| (*a, b.copied())).uid("same-window").collect();
    job.run("joins with failures")?;

    let mut pairs = Vec::new();
    let mut in_windows = Vec::new();
    for key in 0..KEYS {
        for a in of_key(key) {
            let partners = of_key(key).filter(|b| b % 3 == 0);
            pairs.extend(
                partners.clone().filter(|b| (a.saturating_sub(20)..=a + 50).contains(b)).map(|b| (a, b)),
            );
            let same: Vec<u64> = partners.filter(|b| b / 70 == a / 70).collect();
            in_windows.extend(same.iter().map(|b| (a, Some(*b))));
            if same.is_empty() {
                in_windows.push((a, None));
            }
        }
    }
    pairs.sort_unstable();
    in_windows.sort_unstable();
    assert_eq!(near.sorted(), pairs);
    assert_eq!(same_window.sorted(), in_windows);
    Ok(())
}

#[test]
fn each_answer_goes_on_once_over_failures_and_none_is_late() -> Result<()> {
    let job = Failing::new(2);
    let numbers = job.numbers();
    let ask = |n: u64| async move {
        // answers come out of order, and some are still under way when the job fails
        tokio::time::sleep(Duration::from_micros(n * 37 % 3_000)).await;
        Ok(n * 2)
    };
    let ordered = job.failing(&numbers.async_map(ask).capacity(64).ordered().uid("ordered"), |n| n / 2);
    let ordered = ordered.collect();
    let unordered = numbers.async_map(ask).capacity(64).unordered().uid("unordered");
    let counted = unordered.key_by(|_| 0u64).window(Tumbling::of(millis(100))).count().uid("counted");
    let (unordered, counted) = (unordered.collect(), counted.collect());
    let result = job.run("requests with failures")?;
    let doubled: Vec<u64> = (0..RECORDS).map(|n| n * 2).collect();
    assert_eq!(ordered.sorted(), doubled);
    assert_eq!(unordered.sorted(), doubled);
    assert_eq!(counted.sorted(), vec![(0, 100); RECORDS as usize / 100]);
    assert!(!result.counters.keys().any(|name| name.ends_with(".late")), "{:?}", result.counters);
    Ok(())
}

/// Emits the sum of what it has been given whenever its timer fires.
struct Sums {
    held: OperatorListState<u64>,
}

impl Process for Sums {
    type In = u64;
    type Out = u64;

    fn process(&mut self, n: u64, ctx: &mut TimedContext<'_, u64>) -> Result<()> {
        let soon = ctx.processing_time() + millis(5);
        ctx.on_processing_time(soon);
        let sum = self.held.get()?.into_iter().sum::<u64>();
        Ok(self.held.update(vec![sum + n])?)
    }

    fn on_timer(&mut self, _: Timestamp, ctx: &mut TimedContext<'_, u64>) -> Result<()> {
        let sum = self.held.get()?.into_iter().sum::<u64>();
        self.held.update(Vec::new())?;
        ctx.emit(sum);
        Ok(())
    }
}

#[test]
fn a_function_without_keys_keeps_its_state_and_timers_over_failures() -> Result<()> {
    let job = Failing::new(3);
    let numbers = job.failing(&job.numbers(), |n| *n).rebalance();
    let sums = numbers.process_with(|states| Ok(Sums { held: states.list("held")? }));
    let sums = sums.uid("sums").collect();
    job.run("sums without keys")?;
    assert_eq!(sums.items().iter().sum::<u64>(), (0..RECORDS).sum::<u64>());
    Ok(())
}

#[test]
fn every_partitioning_delivers_each_record_once_over_failures_and_where_it_says() -> Result<()> {
    let job = Failing::new(3);
    let numbers = job.failing(&job.numbers(), |n| *n);
    /// Says which subtask has got a record.
    struct Where(u32);
    impl Process for Where {
        type In = u64;
        type Out = (u64, u32);
        fn process(&mut self, n: u64, ctx: &mut TimedContext<'_, (u64, u32)>) -> Result<()> {
            ctx.emit((n, self.0));
            Ok(())
        }
    }
    let seen = |stream: &DataStream<u64>, uid: &str| {
        stream.process_with(|states| Ok(Where(states.runtime().subtask()))).uid(uid).collect()
    };
    let shuffled = seen(&numbers.shuffle(), "shuffled");
    let global = seen(&numbers.global(), "global");
    let chosen = seen(&numbers.partition_by(|n, subtasks| (*n % u64::from(subtasks)) as u32), "chosen");
    let two = numbers.map(|n| n).set_parallelism(2).name("two");
    let rescaled = seen(&two.rescale(), "rescaled");
    let forwarded = seen(&numbers.forward(), "forwarded");
    job.run("partitioned")?;
    for (name, found) in [
        ("shuffle", &shuffled),
        ("global", &global),
        ("partition_by", &chosen),
        ("rescale", &rescaled),
        ("forward", &forwarded),
    ] {
        let mut numbers: Vec<u64> = found.items().iter().map(|row| row.0).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..RECORDS), "{name}");
        let mut subtasks = BTreeMap::<u32, usize>::new();
        found.items().iter().for_each(|row| *subtasks.entry(row.1).or_default() += 1);
        match name {
            "global" => assert_eq!(subtasks.keys().copied().collect::<Vec<_>>(), [0]),
            "shuffle" => {
                assert!(subtasks.values().all(|records| (800..1_200).contains(records)), "{subtasks:?}")
            }
            _ => assert_eq!(subtasks.len(), 3, "{name}"),
        }
    }
    assert!(chosen.items().iter().all(|(n, subtask)| n % 3 == u64::from(*subtask)));
    Ok(())
}

#[test]
fn a_mistake_of_partitioning_is_named() {
    let env = StreamExecutionEnvironment::new();
    env.from_collection(0..10u64).set_parallelism(1).forward().map(|n| n).set_parallelism(2).discard();
    let text = env.execute("forward").unwrap_err().to_string();
    assert!(text.contains("forward()") && text.contains("parallelism 1"), "{text}");
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2).set_restart_strategy(RestartStrategy::none());
    env.from_collection(0..10u64).partition_by(|_, subtasks| subtasks).map(|n| n).discard();
    let text = env.execute("chosen").unwrap_err().to_string();
    assert!(text.contains("subtask 2") && text.contains("there are 2"), "{text}");
}
