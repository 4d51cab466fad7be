//! Windows and triggers that follow the clock.

use super::*;
use crate::window::{ContinuousProcessingTimeTrigger, WindowAssigner};

fn sums(assigner: impl WindowAssigner<Record>) -> Driver<Record> {
    Driver::new(move |records| records.key_by_ref(name).window(assigner).reduce(add))
}

/// Hands in records at the clock's time: value, and how long before it.
fn by_clock(driver: &mut Driver<Record>, records: &[(u64, u64)]) {
    for (value, after) in records {
        driver.advance_clock(millis(*after)).unwrap();
        driver.record(record(*value)).unwrap();
    }
}

#[test]
fn tumbling_windows_of_processing_time_end_by_the_clock() {
    let mut driver = sums(Tumbling::of(millis(10)).processing_time());
    by_clock(&mut driver, &[(1, 2), (2, 3)]);
    driver.advance_clock(millis(3)).unwrap();
    assert!(values(&mut driver).is_empty());
    driver.advance_clock(millis(1)).unwrap();
    assert_eq!(driver.timed_output(), [(record(3), Some(at(9)))]);
    by_clock(&mut driver, &[(4, 1)]);
    driver.end_input().unwrap();
    driver.advance_clock(millis(100)).unwrap();
    assert!(values(&mut driver).is_empty(), "the end of the input is no moment of the clock");
}

#[test]
fn windows_of_processing_time_that_are_open_at_the_end_fire_where_the_job_says_so() {
    for (pending, expected) in
        [(PendingTimers::Drop, vec![]), (PendingTimers::Fire, vec![3]), (PendingTimers::Await, vec![3])]
    {
        let mut driver = sums(Tumbling::of(millis(10)).processing_time()).pending_timers(pending);
        by_clock(&mut driver, &[(1, 2), (2, 3)]);
        driver.end_input().unwrap();
        assert_eq!(values(&mut driver), expected, "{pending:?}");
    }
}

#[test]
fn sliding_windows_of_processing_time_overlap() {
    let mut driver = sums(Sliding::of(millis(10), millis(5)).processing_time());
    by_clock(&mut driver, &[(1, 2), (2, 5)]);
    driver.advance_clock(millis(100)).unwrap();
    let fired: Vec<_> = driver.timed_output().into_iter().map(|(record, time)| (record.1, time)).collect();
    assert_eq!(fired, [(1, Some(at(4))), (3, Some(at(9))), (2, Some(at(14)))]);
}

#[test]
fn sessions_of_processing_time_end_when_nothing_comes_for_the_gap() {
    let gap = |record: &Record| millis(record.1);
    for dynamic in [false, true] {
        let mut driver = match dynamic {
            false => sums(Session::with_gap(millis(8)).processing_time()),
            true => sums(Session::with_dynamic_gap(gap).processing_time()),
        };
        by_clock(&mut driver, &[(8, 0), (8, 6), (8, 6)]);
        driver.advance_clock(millis(7)).unwrap();
        assert_eq!(driver.timed_output(), [(record(24), Some(at(19)))]);
    }
}

#[test]
fn a_continuous_trigger_of_processing_time_fires_each_interval_of_the_clock() {
    let mut driver = Driver::new(|records| {
        let windows = records.key_by_ref(name).window(Tumbling::of(millis(100)).processing_time());
        windows.trigger(ContinuousProcessingTimeTrigger::of(millis(30))).reduce(add)
    });
    by_clock(&mut driver, &[(1, 10)]);
    for (by, expected) in [(19, 0), (1, 1), (30, 1), (30, 1), (9, 1), (200, 0)] {
        driver.advance_clock(millis(by)).unwrap();
        assert_eq!(values(&mut driver).len(), expected, "{by}");
    }
}

#[test]
fn a_continuous_trigger_of_processing_time_goes_on_where_the_window_lies_in_the_past() {
    let mut driver = Driver::new(|records| {
        let windows = records.key_by_ref(name).window(Tumbling::of(millis(100)));
        windows.trigger(ContinuousProcessingTimeTrigger::of(millis(30))).reduce(add)
    });
    driver.advance_clock(days(1)).unwrap();
    feed(&mut driver, [(1, 10)]);
    driver.advance_clock(millis(30)).unwrap();
    assert_eq!(values(&mut driver), [1]);
    driver.advance_clock(seconds(1)).unwrap();
    assert_eq!(values(&mut driver), [1], "one firing stands for those that were missed");
    driver.watermark(at(99)).unwrap();
    driver.advance_clock(seconds(1)).unwrap();
    assert!(values(&mut driver).is_empty(), "the window is gone, and its timer too");
}
