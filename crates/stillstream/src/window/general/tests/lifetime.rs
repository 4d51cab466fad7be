//! How long a window lives, and what a function with a context can do in it.

use super::*;
use crate::window::{CountTrigger, EventTimeTrigger};

const EARLY: OutputTag<u64> = OutputTag::new("early");
const GONE: OutputTag<i64> = OutputTag::new("gone");

/// Emits the window's start, its sum, how often it has fired, and how often the key's windows have.
struct Told {
    in_window: ValueState<u64>,
    in_all: ValueState<u64>,
}

type Line = (i64, u64, u64, u64);

impl ProcessWindow for Told {
    type Key = String;
    type In = Vec<Record>;
    type Out = Line;

    fn open(states: &mut WindowStates<'_, String>) -> Result<Self> {
        // one name, two scopes
        let in_window = states.per_window()?.value("fired")?;
        Ok(Self { in_window, in_all: states.per_key().value("fired")? })
    }

    fn process(&mut self, records: Vec<Record>, ctx: &mut WindowContext<'_, String, Line>) -> Result<()> {
        let one_more = |n: &mut u64| {
            *n += 1;
            *n
        };
        let own = self.in_window.update(&ctx.window_state(), || 0, one_more)?;
        let all = self.in_all.update(&ctx.key_state(), || 0, one_more)?;
        let sum = records.iter().map(|record| record.1).sum();
        if ctx.watermark() < ctx.window().last() {
            ctx.side(&EARLY, sum)?;
        }
        ctx.emit((ctx.window().start.as_millis(), sum, own, all));
        Ok(())
    }

    fn clear(&mut self, ctx: &mut WindowContext<'_, String, Line>) -> Result<()> {
        assert!(self.in_window.get(&ctx.window_state())?.is_some(), "state is there until after this");
        ctx.side(&GONE, ctx.window().start.as_millis())
    }
}

fn told() -> StreamDriver<Record, Line> {
    let driver = StreamDriver::new(|records: &DataStream<Record>| {
        let windows = records.key_by_ref(name).window(Tumbling::of(millis(10)));
        windows.allowed_lateness(millis(5)).process::<Told>()
    });
    driver.reading(&EARLY).reading(&GONE)
}

#[test]
fn a_window_is_forgotten_at_its_last_moment_and_the_lateness() {
    let mut driver = told();
    feed(&mut driver, [(1, 0), (2, 12)]);
    driver.watermark(at(9)).unwrap();
    assert_eq!(driver.output(), [(0, 1, 1, 1)]);
    feed(&mut driver, [(4, 3)]);
    assert_eq!(driver.output(), [(0, 5, 2, 2)], "late, but not too late");
    driver.watermark(at(13)).unwrap();
    assert!(driver.side(&GONE).unwrap().is_empty());
    driver.watermark(at(14)).unwrap();
    assert_eq!(driver.side(&GONE).unwrap(), [0]);
    feed(&mut driver, [(8, 3)]);
    assert_eq!((driver.output(), driver.counter("late")), (vec![], 1));
    driver.end_input().unwrap();
    assert_eq!(driver.output(), [(10, 2, 1, 3)], "state per window is the window's, state per key goes on");
    assert_eq!(driver.side(&GONE).unwrap(), [10]);
    assert!(driver.side(&EARLY).unwrap().is_empty());
}

#[test]
fn a_context_has_side_outputs_and_the_watermark() {
    let driver = StreamDriver::new(|records: &DataStream<Record>| {
        let windows = records.key_by_ref(name).window(Tumbling::of(millis(10)));
        windows.trigger(CountTrigger::of(2)).process::<Told>()
    });
    let mut driver = driver.reading(&EARLY);
    driver.watermark(at(3)).unwrap();
    feed(&mut driver, [(1, 4), (2, 5)]);
    assert_eq!((driver.output(), driver.side(&EARLY).unwrap()), (vec![(0, 3, 1, 1)], vec![3]));
}

#[test]
fn nothing_is_left_of_windows_that_have_ended() {
    let bytes = |records: &[(u64, i64)]| {
        let mut driver = told();
        feed(&mut driver, records.iter().copied());
        driver.watermark(at(1_000)).unwrap();
        let mut other = StreamDriver::new(|records: &DataStream<Record>| {
            let windows = records.key_by_ref(name).window(Session::with_gap(millis(10)));
            windows.trigger(CountTrigger::of(3)).apply(|_, _, records, out| {
                out.emit(records.len() as u64);
                Ok(())
            })
        });
        records.iter().for_each(|(value, time)| other.record_at(record(*value), at(*time)).unwrap());
        other.watermark(at(1_000)).unwrap();
        (driver.snapshot().unwrap().bytes(), other.snapshot().unwrap().bytes())
    };
    let (one, many) = (bytes(&[(1, 5)]), bytes(&[(1, 5), (2, 17), (1, 9), (7, 40), (1, 8), (3, 700)]));
    // state per key is one number, which stays
    assert_eq!(one, many);
}

/// The sum, with its window.
struct Spanned;

impl ProcessWindow for Spanned {
    type Key = String;
    type In = u64;
    type Out = (u64, i64, i64);
    fn open(_: &mut WindowStates<'_, String>) -> Result<Self> {
        Ok(Self)
    }
    fn process(&mut self, sum: u64, ctx: &mut WindowContext<'_, String, Self::Out>) -> Result<()> {
        ctx.emit((sum, ctx.window().start.as_millis(), ctx.window().end.as_millis()));
        Ok(())
    }
}

/// The same of a reduced record.
struct SpannedRecord;

impl ProcessWindow for SpannedRecord {
    type Key = String;
    type In = Record;
    type Out = (u64, i64, i64);
    fn open(_: &mut WindowStates<'_, String>) -> Result<Self> {
        Ok(Self)
    }
    fn process(&mut self, (_, sum): Record, ctx: &mut WindowContext<'_, String, Self::Out>) -> Result<()> {
        Spanned.process(sum, ctx)
    }
}

struct Sum;

impl Aggregate for Sum {
    type In = Record;
    type Acc = u64;
    type Out = u64;
    fn create(&self) -> u64 {
        0
    }
    fn add(&self, acc: &mut u64, record: Record) {
        *acc += record.1;
    }
    fn merge(&self, acc: &mut u64, other: u64) {
        *acc += other;
    }
    fn result(&self, acc: &u64) -> u64 {
        *acc
    }
}

#[test]
fn an_aggregate_or_a_reduced_record_goes_to_a_function_with_a_context() {
    for kind in 0..3 {
        let mut driver = StreamDriver::new(move |records: &DataStream<Record>| {
            let sessions = records.key_by_ref(name).window(Session::with_gap(millis(10)));
            match kind {
                0 => sessions.aggregate_process::<Spanned>(Sum),
                1 => sessions.reduce_process::<SpannedRecord>(add),
                _ => {
                    sessions.trigger(EventTimeTrigger::create()).aggregate_process_with(Sum, |_| Ok(Spanned))
                }
            }
        });
        feed(&mut driver, [(1, 0), (2, 18), (4, 9), (8, 50)]);
        driver.end_input().unwrap();
        assert_eq!(driver.output(), [(7, 0, 28), (8, 50, 60)]);
    }
}

#[test]
fn one_subtask_does_the_windows_over_all_keys() -> Result<()> {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(3);
    let records = env.from_collection((0..100u64).map(|n| (n.to_string(), n)));
    let records = records.watermarks(
        WatermarkStrategy::bounded_out_of_orderness(seconds(1))
            .timestamp(|record: &Record| at(record.1 as i64)),
    );
    let sums = records.window_all(Tumbling::of(millis(50))).reduce(add).map(|record| record.1).collect();
    let tens = records.count_window_all(10).count().map(|((), n)| n).collect();
    env.execute("all")?;
    assert_eq!(sums.sorted(), [(0..50).sum::<u64>(), (50..100).sum::<u64>()]);
    assert_eq!(tens.items(), [10; 10]);
    Ok(())
}
