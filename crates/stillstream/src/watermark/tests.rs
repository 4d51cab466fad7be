//! The watermark operator driven by hand.

use std::sync::Arc;

use stillstream_runtime::clock::ManualClock;
use stillstream_runtime::{Batch, Emission, OpenContext, Operator, Output, SplitEvent};
use stillstream_state::MemorySnapshotStore;
use stillstream_types::time::{millis, seconds};
use stillstream_types::{CheckpointId, OperatorSubtaskState, SnapshotForm, Timestamp};

use super::operator::AssignWatermarks;
use super::{WatermarkGenerator, WatermarkOutput, WatermarkStrategy};

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
    let write = operator.snapshot(CheckpointId(1), SnapshotForm::Checkpoint).unwrap().unwrap();
    write(&MemorySnapshotStore::default()).unwrap()
}

#[test]
fn the_watermark_is_the_largest_time_less_the_delay_and_one_and_never_goes_back() {
    let mut operator = AssignWatermarks::new(bounded());
    operator.open(&mut OpenContext::for_test("w", 0, 1)).unwrap();
    assert_eq!(process(&mut operator, vec![5, 100, 20]), [at(89)]);
    assert!(process(&mut operator, vec![50]).is_empty());
    assert_eq!(process(&mut operator, vec![101]), [at(90)]);
}

#[test]
fn only_the_end_of_the_input_passes_from_upstream() {
    let mut operator = AssignWatermarks::new(WatermarkStrategy::<i64>::none());
    operator.open(&mut OpenContext::for_test("w", 0, 1)).unwrap();
    let mut out = Output::default();
    operator.watermark(at(7), &mut out).unwrap();
    assert!(out.take_watermarks().is_empty());
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
        assert!(process(&mut operator, vec![5]).is_empty(), "once is enough");
    }
}

/// Everything that an operator says of event time: watermarks, and idleness as words.
fn said(out: &mut Output) -> Vec<String> {
    let text = |emission| match emission {
        Emission::Watermark(at) => Some(at.as_millis().to_string()),
        Emission::Idle(true) => Some("idle".to_string()),
        Emission::Idle(false) => Some("active".to_string()),
        Emission::Batch(_) | Emission::Side(..) | Emission::Split(_) => None,
    };
    // active is said with each watermark; the chain passes on what is new
    let mut said: Vec<String> = out.take_all().into_iter().filter_map(text).collect();
    said.dedup();
    said
}

#[test]
fn a_subtask_without_records_becomes_idle_and_is_active_again_with_the_next_one() {
    let clock = Arc::new(ManualClock::default());
    let mut context = OpenContext::for_test("w", 0, 1).with_clock(clock.clone());
    let mut operator = AssignWatermarks::new(bounded().idleness(seconds(1)));
    operator.open(&mut context).unwrap();
    let mut out = Output::default();
    operator.process(0, Batch::new(vec![100i64]).into(), &mut out).unwrap();
    assert_eq!(said(&mut out), ["active", "89"]);
    assert_eq!(operator.processing_time(999, &mut out).unwrap(), Some(1000));
    assert_eq!(said(&mut out), [""; 0]);
    assert_eq!(operator.processing_time(1000, &mut out).unwrap(), Some(i64::MAX));
    assert_eq!(said(&mut out), ["idle"]);
    clock.set_ms(5000);
    operator.process(0, Batch::new(vec![50i64]).into(), &mut out).unwrap();
    assert_eq!(said(&mut out), ["active"], "also with a record that does not move event time");
    assert_eq!(operator.processing_time(5999, &mut out).unwrap(), Some(6000));
}

#[test]
fn each_split_has_a_watermark_of_its_own_and_the_slowest_active_one_counts() {
    let clock = Arc::new(ManualClock::default());
    let mut context = OpenContext::for_test("w", 0, 1).with_clock(clock.clone());
    let mut operator = AssignWatermarks::new(bounded().idleness(seconds(1)));
    operator.open(&mut context).unwrap();
    let mut out = Output::default();
    for event in [SplitEvent::Told, SplitEvent::Opened(0), SplitEvent::Opened(1), SplitEvent::Opened(2)] {
        operator.split(event, &mut out).unwrap();
    }
    assert_eq!(said(&mut out), ["idle", "active"]);
    let of = |operator: &mut AssignWatermarks<i64>, split: u32, record: i64| {
        let mut out = Output::default();
        operator.split(SplitEvent::From(split), &mut out).unwrap();
        operator.process(0, Batch::new(vec![record]).into(), &mut out).unwrap();
        said(&mut out)
    };
    assert_eq!(of(&mut operator, 0, 1000), [""; 0], "the others have said nothing");
    assert_eq!(of(&mut operator, 1, 100), [""; 0]);
    clock.set_ms(600);
    assert_eq!(of(&mut operator, 2, 500), ["active", "89"]);
    assert_eq!(of(&mut operator, 1, 200), ["active", "189"]);
    clock.set_ms(1000);
    operator.processing_time(1000, &mut out).unwrap();
    assert_eq!(said(&mut out), [""; 0], "split 0 is idle, and held nobody back");
    operator.split(SplitEvent::Ended(1), &mut out).unwrap();
    assert_eq!(said(&mut out), ["active", "489"], "what has been read through drops out");
    operator.split(SplitEvent::Opened(3), &mut out).unwrap();
    assert_eq!(of(&mut operator, 2, 900), [""; 0], "a new split holds event time where it is");
    assert_eq!(of(&mut operator, 3, 700), ["active", "689"]);
    assert_eq!(of(&mut operator, 0, 650), ["active"; 0], "active again, it holds where it is");
    operator.split(SplitEvent::Ended(3), &mut out).unwrap();
    operator.split(SplitEvent::Ended(0), &mut out).unwrap();
    assert_eq!(said(&mut out), ["active", "889"]);
    operator.split(SplitEvent::Ended(2), &mut out).unwrap();
    assert_eq!(said(&mut out), ["idle"], "it is not for the splits to say that the input has ended");
    operator.watermark(Timestamp::MAX, &mut out).unwrap();
    assert_eq!(said(&mut out), ["active".to_string(), i64::MAX.to_string()]);
}

#[test]
fn a_source_without_splits_does_not_hold_event_time_back() {
    let mut operator = AssignWatermarks::new(bounded());
    operator.open(&mut OpenContext::for_test("w", 3, 4)).unwrap();
    let mut out = Output::default();
    operator.split(SplitEvent::Told, &mut out).unwrap();
    assert_eq!(said(&mut out), ["idle"]);
}

#[test]
fn a_punctuated_watermark_stands_directly_behind_its_record() {
    let strategy = WatermarkStrategy::punctuated(|n: &i64, at| (n % 10 == 0).then_some(at))
        .timestamp(|n| Timestamp::from_millis(*n));
    let mut operator = AssignWatermarks::new(strategy);
    operator.open(&mut OpenContext::for_test("w", 0, 1)).unwrap();
    let mut out = Output::default();
    operator.process(0, Batch::new(vec![7i64, 10, 9, 11, 20, 19]).into(), &mut out).unwrap();
    let mut order = Vec::new();
    for emission in out.take_all() {
        match emission {
            Emission::Batch(batch) => order.push(batch.take::<i64>().unwrap().values),
            Emission::Watermark(at) => order.push(vec![-at.as_millis()]),
            _ => {}
        }
    }
    assert_eq!(order, [vec![7, 10], vec![-10], vec![9, 11, 20], vec![-20], vec![19]]);
}

#[test]
fn a_generator_is_asked_at_the_interval_of_the_injected_clock() {
    struct Largest(Option<Timestamp>);
    impl WatermarkGenerator<i64> for Largest {
        fn on_event(&mut self, _: &i64, at: Timestamp, _: &mut WatermarkOutput) {
            self.0 = self.0.max(Some(at));
        }
        fn on_periodic(&mut self, out: &mut WatermarkOutput) {
            match self.0.take() {
                Some(at) => out.emit(at),
                None => out.mark_idle(),
            }
        }
    }
    let clock = Arc::new(ManualClock::default());
    let mut context = OpenContext::for_test("w", 0, 1).with_clock(clock.clone());
    let strategy = WatermarkStrategy::generator(|| Largest(None)).timestamp(|n| Timestamp::from_millis(*n));
    let mut operator = AssignWatermarks::new(strategy);
    operator.open(&mut context).unwrap();
    let mut out = Output::default();
    operator.process(0, Batch::new(vec![70i64, 40]).into(), &mut out).unwrap();
    assert_eq!(said(&mut out), [""; 0]);
    assert_eq!(operator.processing_time(0, &mut out).unwrap(), Some(200));
    assert_eq!(said(&mut out), ["active", "70"]);
    operator.process(0, Batch::new(vec![80i64]).into(), &mut out).unwrap();
    assert_eq!(operator.processing_time(199, &mut out).unwrap(), Some(200));
    assert_eq!(said(&mut out), [""; 0]);
    operator.processing_time(200, &mut out).unwrap();
    assert_eq!(said(&mut out), ["active", "80"]);
    operator.processing_time(400, &mut out).unwrap();
    assert_eq!(said(&mut out), ["idle"]);
}

#[test]
fn with_the_interval_set_the_largest_time_counts_only_then() {
    let mut context = OpenContext::for_test("w", 0, 1);
    context.watermark_each_batch = false;
    let mut operator = AssignWatermarks::new(bounded());
    operator.open(&mut context).unwrap();
    assert!(process(&mut operator, vec![100, 300]).is_empty());
    let mut out = Output::default();
    operator.processing_time(200, &mut out).unwrap();
    assert_eq!(out.take_watermarks(), [at(289)]);
}
