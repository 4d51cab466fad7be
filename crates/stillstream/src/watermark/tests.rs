//! The watermark operator driven by hand.

use std::sync::Arc;

use stillstream_runtime::clock::ManualClock;
use stillstream_runtime::{Batch, OpenContext, Operator, Output};
use stillstream_state::MemorySnapshotStore;
use stillstream_types::time::{millis, seconds};
use stillstream_types::{CheckpointId, OperatorSubtaskState, Timestamp};

use super::WatermarkStrategy;
use super::operator::AssignWatermarks;

fn bounded() -> WatermarkStrategy<i64> {
    WatermarkStrategy::bounded_out_of_orderness(millis(10)).timestamp(|at| Timestamp::from_millis(*at))
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn process(operator: &mut AssignWatermarks<i64>, records: Vec<i64>) -> Vec<Timestamp> {
    let mut out = Output::default();
    operator.process(0, Batch::new(records.clone()).into(), &mut out).unwrap();
    for batch in out.take_batches() {
        assert_eq!(batch.take::<i64>().unwrap().times, records);
    }
    out.take_watermarks()
}

fn snapshot(operator: &mut AssignWatermarks<i64>) -> OperatorSubtaskState {
    let write = operator.snapshot(CheckpointId(1)).unwrap().unwrap();
    write(&MemorySnapshotStore::default()).unwrap()
}

#[test]
fn the_watermark_is_the_largest_time_less_the_delay_and_one_and_never_goes_back() {
    let mut operator = AssignWatermarks::new(bounded());
    operator.open(&mut OpenContext::for_test("w", 0, 1)).unwrap();
    assert_eq!(process(&mut operator, vec![5, 100, 20]), [at(89)]);
    assert_eq!(process(&mut operator, vec![50]), []);
    assert_eq!(process(&mut operator, vec![101]), [at(90)]);
}

#[test]
fn only_the_end_of_the_input_passes_from_upstream() {
    let mut operator = AssignWatermarks::new(WatermarkStrategy::<i64>::none());
    operator.open(&mut OpenContext::for_test("w", 0, 1)).unwrap();
    let mut out = Output::default();
    operator.watermark(at(7), &mut out).unwrap();
    assert_eq!(out.take_watermarks(), []);
    operator.watermark(Timestamp::MAX, &mut out).unwrap();
    assert_eq!(out.take_watermarks(), [Timestamp::MAX]);
}

#[test]
fn records_without_event_time_need_a_timestamp_function() {
    let mut operator = AssignWatermarks::new(WatermarkStrategy::<i64>::monotonic());
    operator.open(&mut OpenContext::for_test("w", 0, 1)).unwrap();
    let error = operator.process(0, Batch::new(vec![1i64]).into(), &mut Output::default()).unwrap_err();
    assert!(error.to_string().contains(".timestamp("), "{error}");
}

#[test]
fn a_restore_takes_its_own_watermark_or_with_another_parallelism_the_least() {
    let mut states = Vec::new();
    for (subtask, max) in [(0, 100), (1, 300)] {
        let mut operator = AssignWatermarks::new(bounded());
        operator.open(&mut OpenContext::for_test("w", subtask, 2)).unwrap();
        process(&mut operator, vec![max]);
        states.push(snapshot(&mut operator));
    }
    for (subtask, parallelism, expected) in [(0, 2, 89), (1, 2, 289), (0, 1, 89), (2, 3, 89)] {
        let given = stillstream_runtime::testing::redistribute(&states, parallelism as usize);
        let context = OpenContext::for_test("w", subtask, parallelism);
        let mut operator = AssignWatermarks::new(bounded());
        let state = given[subtask as usize].clone();
        operator.open(&mut context.restored_for_test(2, CheckpointId(1), state)).unwrap();
        let mut out = Output::default();
        operator.processing_time(0, &mut out).unwrap();
        assert_eq!(out.take_watermarks(), [at(expected)]);
        assert_eq!(process(&mut operator, vec![5]), [], "once is enough");
    }
}

#[test]
fn an_idle_subtask_follows_the_active_ones_and_stops_when_all_are_idle() {
    let clock = Arc::new(ManualClock::default());
    let mut context = OpenContext::for_test("w", 0, 1).with_clock(clock.clone());
    let hub = context.watermark_hub();
    let mut operator = AssignWatermarks::new(bounded().idleness(seconds(1)));
    operator.open(&mut context).unwrap();
    let other = hub.of_generator(2, 1).register(false);
    process(&mut operator, vec![100]);
    hub.report(other, at(500), false);

    let mut out = Output::default();
    assert_eq!(operator.processing_time(999, &mut out).unwrap(), Some(1000));
    assert_eq!(out.take_watermarks(), []);
    assert_eq!(operator.processing_time(1000, &mut out).unwrap(), Some(1050));
    assert_eq!(out.take_watermarks(), [at(500)]);
    hub.report(other, at(900), true);
    operator.processing_time(1050, &mut out).unwrap();
    assert_eq!(out.take_watermarks(), [], "nobody is active");

    clock.set_ms(1100);
    assert_eq!(process(&mut operator, vec![200]), [], "behind what it has followed");
    hub.report(other, at(900), false);
    assert_eq!(hub.active_watermark(), Some(at(500)), "it is active again and holds the others");
    assert_eq!(process(&mut operator, vec![1000]), [at(989)]);
}
