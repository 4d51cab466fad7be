//! How long a record waits for others: not at all on a quiet way, and no longer than the buffer timeout
//! behind slow functions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};

/// The settings of `execution.buffer-timeout`: as it is, each record by itself, and without a time.
const TIMEOUTS: [Option<Duration>; 3] = [Some(Duration::from_millis(100)), Some(Duration::ZERO), None];

fn environment(parallelism: u32, timeout: Option<Duration>) -> StreamExecutionEnvironment {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism).set_progress(ProgressMode::Never);
    match timeout {
        Some(timeout) => env.set_buffer_timeout(timeout),
        None => env.disable_buffer_timeout(),
    };
    env
}

/// Runs a job without checkpoints that must end by itself.
fn run(env: &StreamExecutionEnvironment, what: &str) {
    let job = env.execute_async("latency").unwrap();
    let (result, limit) = (std::sync::mpsc::channel(), seconds(60));
    std::thread::scope(|scope| {
        let (job, done) = (&job, result.0);
        scope.spawn(move || {
            while !job.status().is_terminal() {
                std::thread::sleep(millis(5));
            }
            let _ = done.send(());
        });
        if result.1.recv_timeout(limit).is_err() {
            job.cancel();
            panic!("{what}: a record is waiting for something after {limit:?}");
        }
    });
    job.wait().unwrap();
}

/// Emits the next number when the one before it has come out at the end.
struct OneByOne {
    count: u64,
    out: Arc<AtomicU64>,
}

struct Reader {
    count: u64,
    next: Vec<u64>,
    out: Arc<AtomicU64>,
    context: SourceContext,
}

impl SplitSource for OneByOne {
    type Item = u64;
    type Split = u64;

    fn splits(&self) -> Result<Vec<u64>> {
        Ok(vec![0])
    }

    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<u64, u64>>> {
        let (count, out, context) = (self.count, self.out.clone(), context.clone());
        Ok(Box::new(Reader { count, next: Vec::new(), out, context }))
    }
}

impl SplitReader<u64, u64> for Reader {
    fn assign(&mut self, splits: Vec<u64>) -> Result<()> {
        self.next = splits;
        Ok(())
    }

    fn poll(&mut self, _: usize, out: &mut Batch<u64>) -> Result<SourceStatus> {
        let Some(next) = self.next.first_mut().filter(|next| **next < self.count) else {
            return Ok(SourceStatus::Ended);
        };
        if self.out.load(Ordering::SeqCst) == *next {
            out.push(*next, None);
            *next += 1;
        }
        Ok(SourceStatus::Idle { until_ms: Some(self.context.clock.now_ms() + 1) })
    }

    fn positions(&self) -> Vec<u64> {
        self.next.clone()
    }
}

#[test]
fn a_record_needs_no_other_record_to_get_through_exchanges() {
    for (parallelism, timeout) in [1, 2, 4].into_iter().flat_map(|p| TIMEOUTS.map(|timeout| (p, timeout))) {
        for exchanges in [1, 2] {
            let out = Arc::new(AtomicU64::new(0));
            let env = environment(parallelism, timeout);
            let mut numbers =
                env.from_source("numbers", OneByOne { count: 20, out: out.clone() }).uid("numbers");
            if exchanges == 2 {
                // a chain of two, between the exchanges
                numbers = numbers.rebalance().map(|n| n).filter(|_| true);
            }
            numbers
                .key_by(|n| n % 7)
                .map_with_state("count", |count: &mut u64, n| {
                    *count += 1;
                    n
                })
                .uid("count")
                .inspect({
                    let out = out.clone();
                    move |_| _ = out.fetch_add(1, Ordering::SeqCst)
                })
                .discard();
            run(&env, &format!("{parallelism} workers, {exchanges} exchanges, timeout {timeout:?}"));
            assert_eq!(out.load(Ordering::SeqCst), 20);
        }
    }
}

/// Sends `count` numbers, a batch of the source, through a function that takes `pause` for each, to one
/// worker. For each number: how many had come out behind an exchange when the function was called with it.
fn out_at_each(timeout: Option<Duration>, count: u64, pause: Duration) -> Vec<u64> {
    let (env, out, log) = (environment(1, timeout), Arc::new(AtomicU64::new(0)), Arc::new(Mutex::default()));
    let (seen, calls): (_, Arc<Mutex<Vec<u64>>>) = (out.clone(), log.clone());
    env.from_source("numbers", Generator::new(count, |n| n))
        .map(move |n| {
            calls.lock().unwrap().push(seen.load(Ordering::SeqCst));
            std::thread::sleep(pause);
            n
        })
        .key_by(|n| *n)
        .map_with_state("count", |count: &mut u64, n| {
            *count += 1;
            n
        })
        .uid("count")
        .inspect({
            let out = out.clone();
            move |_| _ = out.fetch_add(1, Ordering::SeqCst)
        })
        .discard();
    run(&env, "a slow function");
    assert_eq!(out.load(Ordering::SeqCst), count);
    std::mem::take(&mut *log.lock().unwrap())
}

/// Whether at each record all but the last few had come out.
fn keeps_up(out: &[u64]) -> bool {
    out.iter().enumerate().all(|(n, out)| out + 3 >= n as u64)
}

#[test]
fn records_behind_a_slow_function_do_not_wait_for_the_rest_of_their_batch() {
    let out = out_at_each(Some(millis(40)), 40, millis(10));
    // each call takes longer than an eighth of the timeout, so each ends a turn
    assert!(keeps_up(&out), "{out:?}");
}

#[test]
fn without_a_timeout_records_wait_for_their_batch_and_at_zero_for_nothing() {
    let out = out_at_each(None, 40, millis(1));
    assert_eq!(out, [0; 40]);
    let out = out_at_each(Some(Duration::ZERO), 3000, Duration::ZERO);
    assert!(keeps_up(&out), "{out:?}");
}

/// Sets one timer for each key, all for the same time; a timer takes ten milliseconds.
struct SlowTimers {
    out: Arc<AtomicU64>,
}

impl KeyedProcess for SlowTimers {
    type Key = u64;
    type In = u64;
    type Out = u64;

    fn open(_: &mut States<Self>) -> Result<Self> {
        Ok(Self { out: Arc::default() })
    }

    fn process(&mut self, _: u64, ctx: &mut Context<Self>) -> Result<()> {
        ctx.timers().on_event_time(Timestamp::from_millis(1_000))
    }

    fn on_timer(&mut self, _: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        let out = self.out.load(Ordering::SeqCst);
        std::thread::sleep(millis(10));
        ctx.emit(out);
        Ok(())
    }
}

#[test]
fn what_slow_timers_emit_does_not_wait_for_all_timers_that_are_due() {
    let (env, out) = (environment(1, Some(millis(40))), Arc::new(AtomicU64::new(0)));
    let (seen, count) = (out.clone(), out.clone());
    let at_each = env
        .from_source("numbers", Generator::new(40, |n| n))
        .key_by(|n| *n)
        .process_with(move |_| Ok(SlowTimers { out: seen.clone() }))
        .uid("timers")
        .rebalance()
        .inspect(move |_| _ = count.fetch_add(1, Ordering::SeqCst))
        .collect();
    run(&env, "slow timers");
    let out = at_each.items();
    assert!(out.len() == 40 && keeps_up(&out), "{out:?}");
}
