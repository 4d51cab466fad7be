//! Windows that merge, with triggers.

use super::*;
use crate::window::{ContinuousEventTimeTrigger, CountTrigger, PurgingTrigger};

#[test]
fn a_count_goes_on_in_the_window_that_several_have_merged_into() {
    let mut driver = Driver::new(|records| {
        let windows = records.key_by_ref(name).window(Session::with_gap(millis(10)));
        windows.trigger(CountTrigger::of(3)).reduce(add)
    });
    feed(&mut driver, [(1, 0), (2, 20)]);
    assert!(values(&mut driver).is_empty());
    // one and one, and the record that merges them
    feed(&mut driver, [(4, 10)]);
    assert_eq!(driver.timed_output(), [(record(7), Some(at(29)))]);
    feed(&mut driver, [(8, 12), (16, 14)]);
    assert!(values(&mut driver).is_empty(), "the count began again");
}

#[test]
fn a_merged_window_fires_at_its_own_end_and_not_at_those_of_its_parts() {
    let mut driver = Driver::new(|records| {
        let windows = records.key_by_ref(name).window(Session::with_gap(millis(10)));
        windows.trigger(PurgingTrigger::of(crate::window::EventTimeTrigger::create())).reduce(add)
    });
    feed(&mut driver, [(1, 0), (2, 15), (4, 7)]);
    driver.watermark(at(23)).unwrap();
    assert!(values(&mut driver).is_empty());
    driver.watermark(at(24)).unwrap();
    assert_eq!(values(&mut driver), [7]);
}

#[test]
fn a_continuous_trigger_keeps_the_earliest_of_the_timers_that_merge() {
    let mut driver = Driver::new(|records| {
        let windows = records.key_by_ref(name).window(Session::with_gap(millis(100)));
        windows.trigger(ContinuousEventTimeTrigger::of(millis(50))).reduce(add)
    });
    // timers at 200 and 50, which is the merged window's
    feed(&mut driver, [(1, 160), (2, 10), (4, 90)]);
    driver.watermark(at(60)).unwrap();
    assert_eq!(values(&mut driver), [7]);
    driver.watermark(at(149)).unwrap();
    assert_eq!(values(&mut driver), [7], "100");
    driver.watermark(at(259)).unwrap();
    assert_eq!(values(&mut driver), [7, 7, 7, 7], "150, 200, 250 and the end");
    driver.end_input().unwrap();
    assert!(values(&mut driver).is_empty());
}

#[test]
fn each_record_of_a_dynamic_session_says_how_long_it_is_open() {
    let mut driver = Driver::new(|records| {
        let gap = |record: &Record| millis(record.1);
        records.key_by_ref(name).window(Session::with_dynamic_gap(gap)).reduce(add)
    });
    // [0, 5) and [10, 13) are apart; [0, 100) holds both, and 50 is within it
    feed(&mut driver, [(5, 0), (3, 10)]);
    feed(&mut driver, [(100, 0), (1, 50)]);
    driver.watermark(at(98)).unwrap();
    assert!(values(&mut driver).is_empty());
    driver.watermark(at(99)).unwrap();
    assert_eq!(values(&mut driver), [109]);
}

#[test]
fn a_late_record_is_taken_by_a_session_that_is_still_there() {
    const LATE: OutputTag<Record> = OutputTag::new("late");
    let driver = Driver::new(|records| {
        let windows = records.key_by_ref(name).window(Session::with_dynamic_gap(|_: &Record| millis(10)));
        windows.allowed_lateness(millis(5)).late_output(&LATE).reduce(add)
    });
    let mut driver = driver.reading(&LATE);
    feed(&mut driver, [(1, 20)]);
    driver.watermark(at(30)).unwrap();
    assert_eq!(values(&mut driver), [1]);
    feed(&mut driver, [(2, 12)]);
    assert_eq!(values(&mut driver), [3], "it would be too late by itself");
    feed(&mut driver, [(4, 1)]);
    assert_eq!((values(&mut driver), driver.side(&LATE).unwrap()), (vec![], vec![record(4)]));
}
