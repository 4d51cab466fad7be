//! Functions without keys: timers, state, what they are told of where they run, and their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::functions::Counter;
use crate::prelude::*;
use crate::testing::{ConnectedDriver, StreamDriver};

/// Sets a timer for each number, at so many milliseconds, and says when it fires. A timer of 7 sets one of 8.
struct Timers {
    seen: OperatorListState<i64>,
    fired: Counter,
    closed: Arc<AtomicU64>,
}

impl Process for Timers {
    type In = i64;
    type Out = (i64, u64);

    fn process(&mut self, n: i64, ctx: &mut TimedContext<'_, Self::Out>) -> Result<()> {
        self.seen.add(n)?;
        match n < 0 {
            true => ctx.delete_processing_time(Timestamp::from_millis(-n)),
            false => ctx.on_processing_time(Timestamp::from_millis(n)),
        }
        Ok(())
    }

    fn on_timer(&mut self, at: Timestamp, ctx: &mut TimedContext<'_, Self::Out>) -> Result<()> {
        self.fired.add(1);
        let seen = self.seen.with(|seen| seen.len() as u64)?;
        ctx.emit((at.as_millis(), seen));
        if at.as_millis() == 7 {
            ctx.on_processing_time(at + millis(1));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.closed.fetch_add(1, SeqCst);
        Ok(())
    }
}

fn driver() -> StreamDriver<i64, (i64, u64)> {
    StreamDriver::new(|numbers: &DataStream<i64>| {
        numbers.process_with(|states| {
            let (seen, fired) = (states.list("seen")?, states.runtime().counter("fired"));
            Ok(Timers { seen, fired, closed: Arc::default() })
        })
    })
}

#[test]
fn timers_without_keys_fire_in_order_once_and_can_be_deleted() {
    let mut driver = driver();
    for n in [30, 10, 20, 10, -20] {
        driver.record(n).unwrap();
    }
    driver.advance_clock(millis(29)).unwrap();
    assert_eq!(driver.output(), [(10, 5)]);
    driver.advance_clock(millis(1)).unwrap();
    assert_eq!((driver.output(), driver.counter("fired")), (vec![(30, 5)], 2));
}

#[test]
fn timers_and_state_without_keys_go_on_after_a_restore_at_another_parallelism() {
    let mut first = driver();
    for n in [10, 20, 30] {
        first.record(n).unwrap();
    }
    first.advance_clock(millis(10)).unwrap();
    let snapshot = first.snapshot().unwrap();
    let mut restored = driver().restored(snapshot).parallelism(3);
    restored.advance_clock(millis(100)).unwrap();
    let mut fired: Vec<i64> = restored.output().into_iter().map(|(at, _)| at).collect();
    fired.sort_unstable();
    assert_eq!(fired, [20, 30]);
}

#[test]
fn timers_without_keys_that_are_set_when_the_input_ends_are_dropped_fired_or_awaited() {
    let run = |pending| {
        let mut driver = driver().pending_timers(pending);
        [7, 20].into_iter().for_each(|n| driver.record(n).unwrap());
        driver.end_input().unwrap();
        let fired: Vec<i64> = driver.output().into_iter().map(|(at, _)| at).collect();
        (fired, driver.counter("timers_dropped"))
    };
    assert_eq!(run(PendingTimers::Drop), (vec![], 2));
    assert_eq!(run(PendingTimers::Fire), (vec![7, 8, 20], 0));
    assert_eq!(run(PendingTimers::Await), (vec![7, 8, 20], 0));
}

#[test]
fn every_subtask_of_a_function_knows_where_it_runs_and_is_closed_at_the_end() {
    let closed = Arc::new(AtomicU64::new(0));
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2).set_max_parallelism(16);
    let count = closed.clone();
    let seen = env
        .from_collection(0..10i64)
        .rebalance()
        .process_with(move |states| {
            let at = states.runtime();
            assert_eq!((at.name(), at.parallelism(), at.max_parallelism()), ("timers", 2, 16));
            assert!(at.subtask() < 2 && at.attempt() > 0);
            let fired = at.counter("fired");
            Ok(Timers { seen: states.list("seen")?, fired, closed: count.clone() })
        })
        .name("timers")
        .collect();
    env.set_pending_timers(PendingTimers::Fire);
    let result = env.execute("where").unwrap();
    // the timer of 7 sets that of 8, which may be the other subtask's too
    let fired = seen.items().len() as u64;
    assert!((10..=11).contains(&fired), "{fired}");
    assert_eq!((closed.load(SeqCst), result.counters["timers.fired"]), (2, fired));
}

#[test]
fn keyed_functions_are_told_the_same_and_closed_too() {
    struct Closing(Arc<AtomicU64>);
    impl KeyedProcess for Closing {
        type Key = u64;
        type In = u64;
        type Out = u64;
        fn open(_: &mut States<Self>) -> Result<Self> {
            Ok(Self(Arc::default()))
        }
        fn process(&mut self, n: u64, ctx: &mut Context<'_, Self>) -> Result<()> {
            ctx.emit(n);
            Ok(())
        }
        fn close(&mut self) -> Result<()> {
            self.0.fetch_add(1, SeqCst);
            Ok(())
        }
    }
    impl ProcessWindow for Closing {
        type Key = u64;
        type In = Vec<u64>;
        type Out = u64;
        fn open(states: &mut WindowStates<'_, u64>) -> Result<Self> {
            assert_eq!(states.runtime().parallelism(), 2);
            Ok(Self(Arc::default()))
        }
        fn process(&mut self, all: Vec<u64>, ctx: &mut WindowContext<'_, u64, u64>) -> Result<()> {
            ctx.emit(all.len() as u64);
            Ok(())
        }
        fn close(&mut self) -> Result<()> {
            self.0.fetch_add(1, SeqCst);
            Ok(())
        }
    }
    let closed = Arc::new(AtomicU64::new(0));
    let (keyed, windows) = (closed.clone(), closed.clone());
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2);
    let by_key = env.from_collection(0..10u64).key_by(|n| *n);
    by_key.process_with(move |_| Ok(Closing(keyed.clone()))).discard();
    let windowed = by_key.window(GlobalWindows::create_with_end_of_stream_trigger());
    windowed.process_with(move |_| Ok(Closing(windows.clone()))).discard();
    env.execute("closing").unwrap();
    assert_eq!(closed.load(SeqCst), 4, "two subtasks of two functions");
}

#[test]
fn broadcast_state_without_keys_is_the_same_in_every_subtask_after_a_rescale() {
    struct Limit(BroadcastState<u8, u64>);
    impl ConnectedProcess for Limit {
        type In1 = u64;
        type In2 = u64;
        type Out = u64;
        fn process1(&mut self, n: u64, ctx: &mut TimedContext<'_, u64>) -> Result<()> {
            if self.0.get(&0)?.is_none_or(|limit| n <= limit) {
                ctx.emit(n);
            }
            Ok(())
        }
        fn process2(&mut self, limit: u64, _: &mut TimedContext<'_, u64>) -> Result<()> {
            Ok(self.0.put(0, limit)?)
        }
    }
    let driver = || {
        ConnectedDriver::new(|numbers: &DataStream<u64>, limits: &DataStream<u64>| {
            let both = numbers.connect_broadcast(limits);
            both.process_with(|states| Ok(Limit(states.broadcast("limit")?)))
        })
    };
    let mut two = driver().parallelism(2);
    two.record2(5).unwrap();
    two.record1(6).unwrap();
    let mut three = driver().restored(two.snapshot().unwrap()).parallelism(3);
    three.record1(6).unwrap();
    three.record1(5).unwrap();
    assert_eq!((two.output(), three.output()), (vec![], vec![5]));
}
