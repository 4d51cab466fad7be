//! Operators driven by hand: batches in, output out.

use std::sync::Arc;

use stillstream_runtime::clock::ManualClock;
use stillstream_runtime::exchange::{KeySelector, OwnedKey};
use stillstream_runtime::{Batch, Emission, OpenContext, Operator, Output};
use stillstream_state::{BroadcastState, Data, Key, MemorySnapshotStore, ValueState};
use stillstream_types::{
    CheckpointId, KeyGroups, KeyHash, OperatorSubtaskState, Result, SnapshotForm, Timestamp, time::seconds,
};

use super::keyed_process::{OneInput, WithBroadcast};
use super::stateless::{Filter, FlatMap, Map};
use crate::Collector;
use crate::functions::{
    BroadcastContext, BroadcastProcess, BroadcastStates, Context, KeyedContext, KeyedProcess, KeyedStates,
    States,
};
use crate::side_output::{OutputTag, Sides};

const GROUPS: u32 = 128;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn context(
    subtask: u32,
    parallelism: u32,
    clock: &Arc<ManualClock>,
    restored: Option<OperatorSubtaskState>,
) -> OpenContext {
    let store = Arc::new(MemorySnapshotStore::default());
    let groups = KeyGroups::new(GROUPS);
    let mut context = OpenContext::by_hand("test", subtask, parallelism, groups, store, clock.clone());
    context.restored = restored;
    context
}

/// A keyed batch, as it comes over a keyed edge.
fn keyed<T: Data, S: KeySelector<T>>(selector: &S, records: Vec<T>, times: Vec<i64>) -> Batch<T> {
    let hash =
        |record: &T| -> KeyHash { selector.with_key(record, |key| key.key_hash(KeyGroups::new(GROUPS))) };
    let hashes = records.iter().map(hash).collect();
    Batch { values: records, times, hashes }
}

/// Records with their times.
type Timed<T> = Vec<(T, Option<i64>)>;

/// What came out of the main output, with times; and the watermarks, each with how many records came before
/// it.
fn main_of<T: Data>(out: &mut Output) -> (Timed<T>, Vec<(usize, Timestamp)>) {
    let (mut records, mut watermarks) = (Vec::new(), Vec::new());
    for emission in out.drain() {
        match emission {
            Emission::Batch(batch) => {
                let batch = batch.take::<T>().unwrap();
                let timed = (0..batch.len()).map(|i| batch.time(i)).collect::<Vec<_>>();
                records.extend(batch.values.into_iter().zip(timed));
            }
            Emission::Watermark(watermark) => watermarks.push((records.len(), watermark)),
            Emission::Side(..) | Emission::Idle(_) | Emission::Split(_) => {}
        }
    }
    (records, watermarks)
}

fn advance(operator: &mut dyn Operator, to: Timestamp, out: &mut Output) -> usize {
    operator.watermark(to, out).unwrap();
    let mut calls = 1;
    while operator.resume(out).unwrap() {
        calls += 1;
    }
    calls
}

fn snapshot(operator: &mut dyn Operator) -> OperatorSubtaskState {
    let part = operator
        .snapshot(CheckpointId(1), SnapshotForm::Checkpoint)
        .unwrap()
        .expect("a keyed function has state");
    part(&MemorySnapshotStore::default()).unwrap()
}

const SIDE: OutputTag<u64> = OutputTag::new("side");

/// Reminds of each record after as many milliseconds as it says; odd ones by the clock.
struct Remind {
    sum: ValueState<u64>,
}

impl KeyedProcess for Remind {
    type Key = u64;
    type In = (u64, i64);
    type Out = (u64, u64, Timestamp);

    fn open(states: &mut States<Self>) -> Result<Self> {
        Ok(Self { sum: states.value("sum")? })
    }

    fn process(&mut self, (key, delay): (u64, i64), ctx: &mut Context<Self>) -> Result<()> {
        self.sum.update(ctx, || 0, |sum| *sum += 1)?;
        ctx.side(&SIDE, key)?;
        match delay % 2 {
            0 => ctx.timers().on_event_time(at(delay))?,
            _ => ctx.timers().on_processing_time(at(delay))?,
        }
        Ok(())
    }

    fn on_timer(&mut self, time: Timestamp, ctx: &mut Context<Self>) -> Result<()> {
        let sum = self.sum.get(ctx)?.unwrap_or(0);
        ctx.emit((*ctx.key(), sum, time));
        if time == at(1000) {
            ctx.timers().on_event_time(at(1500))?;
        }
        Ok(())
    }
}

fn remind(sides: Sides) -> (impl Operator, impl KeySelector<(u64, i64), Key = u64>) {
    let by_key = |record: &(u64, i64)| record.0;
    let operator = OneInput::<Remind, _>::operator(Arc::new(Remind::open), Arc::new(OwnedKey(by_key)), sides);
    (operator, OwnedKey(by_key))
}

#[test]
fn timers_fire_in_slices_and_the_watermark_follows_the_last() {
    let (mut operator, by_key) = remind(Sides::new());
    operator.open(&mut context(0, 1, &Arc::default(), None)).unwrap();
    let mut out = Output::default();
    let records = (0..5000).map(|key| (key, 2000)).collect();
    operator.process(0, keyed(&by_key, records, vec![7; 5000]).into(), &mut out).unwrap();
    let calls = advance(&mut operator, at(1999), &mut out);
    assert_eq!((calls, main_of::<(u64, u64, Timestamp)>(&mut out)), (1, (vec![], vec![(0, at(1999))])));
    let calls = advance(&mut operator, at(2000), &mut out);
    let (fired, watermarks) = main_of::<(u64, u64, Timestamp)>(&mut out);
    assert!(calls >= 5, "{calls} calls for 5000 timers");
    assert_eq!((fired.len(), watermarks), (5000, vec![(5000, at(2000))]));
    assert!(fired.iter().all(|(record, time)| record.2 == at(2000) && *time == Some(2000)), "a timer's time");
}

#[test]
fn a_timer_that_a_timer_sets_fires_under_the_same_watermark_if_it_is_due() {
    let (mut operator, by_key) = remind(Sides::new());
    operator.open(&mut context(0, 1, &Arc::default(), None)).unwrap();
    let mut out = Output::default();
    operator.process(0, keyed(&by_key, vec![(1, 1000)], vec![0]).into(), &mut out).unwrap();
    advance(&mut operator, at(1600), &mut out);
    let (fired, _) = main_of::<(u64, u64, Timestamp)>(&mut out);
    assert_eq!(fired, [((1, 1, at(1000)), Some(1000)), ((1, 1, at(1500)), Some(1500))]);
}

#[test]
fn processing_timers_follow_the_clock_and_emit_records_without_event_time() {
    let (mut operator, by_key) = remind(Sides::new());
    operator.open(&mut context(0, 1, &Arc::default(), None)).unwrap();
    let mut out = Output::default();
    assert_eq!(
        operator.processing_time(0, &mut out).unwrap(),
        Some(i64::MAX),
        "asks again: a record may set one"
    );
    operator.process(0, keyed(&by_key, vec![(1, 501), (2, 301)], vec![9, 9]).into(), &mut out).unwrap();
    assert_eq!(operator.processing_time(300, &mut out).unwrap(), Some(301));
    assert_eq!(operator.processing_time(301, &mut out).unwrap(), Some(501));
    assert_eq!(main_of::<(u64, u64, Timestamp)>(&mut out).0, [((2, 1, at(301)), None)]);
    advance(&mut operator, Timestamp::MAX, &mut out);
    assert!(main_of::<(u64, u64, Timestamp)>(&mut out).0.is_empty(), "event time does not fire them");
}

#[test]
fn state_and_timers_survive_a_restore_with_another_parallelism_and_what_came_due_fires_at_once() {
    let (mut old, by_key) = remind(Sides::new());
    let clock = Arc::new(ManualClock::default());
    old.open(&mut context(0, 1, &clock, None)).unwrap();
    let mut out = Output::default();
    let records: Vec<(u64, i64)> = (0..100).flat_map(|key| [(key, 2000), (key, 3001)]).collect();
    old.process(0, keyed(&by_key, records, vec![]).into(), &mut out).unwrap();
    let state = snapshot(&mut old);
    old.process(0, keyed(&by_key, vec![(1, 2000)], vec![]).into(), &mut out).unwrap(); // not in the snapshot
    clock.advance(seconds(60));
    let (mut keys, mut by_clock) = (Vec::new(), Vec::new());
    for subtask in 0..3 {
        let (mut new, _) = remind(Sides::new());
        let mut context = context(subtask, 3, &clock, Some(state.clone()));
        let range = context.key_group_range();
        new.open(&mut context).unwrap();
        let mut out = Output::default();
        new.processing_time(60_000, &mut out).unwrap();
        by_clock.extend(main_of::<(u64, u64, Timestamp)>(&mut out).0.into_iter().map(|(record, _)| record.0));
        advance(&mut new, at(2000), &mut out);
        for ((key, sum, _), _) in main_of::<(u64, u64, Timestamp)>(&mut out).0 {
            assert_eq!(sum, 2, "key {key}");
            assert!(
                range.contains(key.key_hash(KeyGroups::new(GROUPS)).group()),
                "key {key} in subtask {subtask}"
            );
            keys.push(key);
        }
    }
    keys.sort();
    by_clock.sort();
    assert_eq!(keys, (0..100).collect::<Vec<_>>());
    assert_eq!(by_clock, keys);
}

#[test]
fn a_side_output_is_emitted_under_its_number_with_the_records_time() {
    let sides = Sides::new();
    sides.declare(&OutputTag::<String>::new("other"), "remind").unwrap();
    let number = sides.declare(&SIDE, "remind").unwrap();
    let (mut operator, by_key) = remind(sides);
    operator.open(&mut context(0, 1, &Arc::default(), None)).unwrap();
    let mut out = Output::default();
    operator.process(0, keyed(&by_key, vec![(4, 2), (5, 2)], vec![70, 71]).into(), &mut out).unwrap();
    let emitted: Vec<_> = out.drain().collect();
    let [Emission::Side(side, _)] = emitted.as_slice() else { panic!("{emitted:?}") };
    assert_eq!(*side, number);
    let Some(Emission::Side(_, batch)) = emitted.into_iter().next() else { panic!("it was there") };
    let batch = batch.take::<u64>().unwrap();
    assert_eq!((batch.values, batch.times), (vec![4, 5], vec![70, 71]));
}

/// Adds the newest factor and the key's count.
struct Scale {
    factors: BroadcastState<String, u64>,
    count: ValueState<u64>,
}

impl BroadcastProcess for Scale {
    type Key = u64;
    type In = u64;
    type Rule = (String, u64);
    type Out = (Option<u64>, u64);

    fn open(states: &mut KeyedStates<u64>, broadcasts: &mut BroadcastStates) -> Result<Self> {
        Ok(Self { factors: broadcasts.map("factors")?, count: states.value("count")? })
    }

    fn process(&mut self, _: u64, ctx: &mut KeyedContext<u64, Self::Out>) -> Result<()> {
        let count = self.count.update(
            ctx,
            || 0,
            |count| {
                *count += 1;
                *count
            },
        )?;
        let factor = self.factors.get(&"factor".to_string())?;
        ctx.emit((factor, count));
        Ok(())
    }

    fn process_broadcast(
        &mut self,
        (name, factor): (String, u64),
        _: &mut BroadcastContext<Self::Out>,
    ) -> Result<()> {
        Ok(self.factors.put(name, factor)?)
    }
}

#[test]
fn broadcast_and_keyed_state_go_into_one_snapshot_and_come_back() {
    let by_key = Arc::new(OwnedKey(|n: &u64| *n));
    let clock = Arc::default();
    let run = |restored, rule: bool| {
        let mut operator =
            WithBroadcast::<Scale, _>::operator(Arc::new(Scale::open), by_key.clone(), Sides::new());
        operator.open(&mut context(0, 1, &clock, restored)).unwrap();
        let mut out = Output::default();
        if rule {
            operator.process(1, Batch::new(vec![("factor".to_string(), 3u64)]).into(), &mut out).unwrap();
        }
        operator.process(0, keyed(&*by_key, vec![8], vec![]).into(), &mut out).unwrap();
        let found = main_of::<(Option<u64>, u64)>(&mut out).0[0].0;
        (found, snapshot(&mut operator))
    };
    let (first, state) = run(None, true);
    assert_eq!(first, (Some(3), 1));
    assert_eq!((state.keyed.len(), state.operator.len()), (1, 1));
    assert_eq!(run(Some(state), false).0, (Some(3), 2));
}

#[test]
fn map_and_filter_keep_each_record_with_its_time_and_drop_key_hashes() {
    let batch = || keyed(&OwnedKey(|n: &u64| *n), (0..10).collect(), (0..10).map(|n| n * 10).collect());
    let mut out = Output::default();
    let mut filter = Filter::new(Arc::new(|n: &u64| n.is_multiple_of(3)));
    filter.process(0, batch().into(), &mut out).unwrap();
    let mut map = Map::new(Arc::new(|n: u64| n.to_string()));
    let Some(Emission::Batch(filtered)) = out.drain().next() else { panic!("a batch") };
    map.process(0, filtered, &mut out).unwrap();
    let Some(Emission::Batch(mapped)) = out.drain().next() else { panic!("a batch") };
    let mapped = mapped.take::<String>().unwrap();
    assert_eq!(mapped.values, ["0", "3", "6", "9"]);
    assert_eq!((mapped.times, mapped.hashes), (vec![0, 30, 60, 90], vec![]));
    filter.process(0, Batch::new(vec![1u64, 2]).into(), &mut out).unwrap();
    assert_eq!(out.drain().count(), 0, "an empty batch goes nowhere");
}

#[test]
fn a_long_flat_map_comes_in_several_batches_with_the_times_of_the_records() {
    let mut operator =
        FlatMap::new(Arc::new(|n: u64, out: &mut Collector<u64>| (0..n).for_each(|value| out.emit(value))));
    let mut out = Output::default();
    operator.process(0, Batch::timed(vec![10_000u64, 1], vec![5, 6]).into(), &mut out).unwrap();
    let emitted: Vec<_> = out.drain().collect();
    assert!(emitted.len() > 1, "one batch of 10 001 records");
    let mut times = Vec::new();
    for emission in emitted {
        let Emission::Batch(batch) = emission else { panic!("{emission:?}") };
        times.extend(batch.take::<u64>().unwrap().times);
    }
    assert_eq!((times.len(), times[9_999], times[10_000]), (10_001, 5, 6));
}
