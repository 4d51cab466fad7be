//! Evictors, before and after the function.

use super::*;
use crate::window::{CountEvictor, CountTrigger, DeltaEvictor, Evictor, TimeEvictor};

/// Each record that comes makes the global window fire; what the function then sees.
fn seen<E: Evictor<Record>>(evictor: E, records: &[(u64, i64)]) -> Vec<Vec<u64>> {
    let mut driver = StreamDriver::new(move |records: &DataStream<Record>| {
        let windows = records.key_by_ref(name).window(GlobalWindows::create()).trigger(CountTrigger::of(1));
        windows.evictor(evictor).apply(|_, _, records, out| {
            out.emit(records.into_iter().map(|record| record.1).collect::<Vec<u64>>());
            Ok(())
        })
    });
    for (value, time) in records {
        driver.record_at(record(*value), at(*time)).unwrap();
    }
    driver.output()
}

#[test]
fn a_count_evictor_keeps_the_last_ones_before_the_function_or_after_it() {
    let records = [(1, 0), (2, 0), (3, 0), (4, 0)];
    assert_eq!(seen(CountEvictor::of(2), &records), [vec![1], vec![1, 2], vec![2, 3], vec![3, 4]]);
    let after = seen(CountEvictor::of(2).evict_after(), &records);
    assert_eq!(after, [vec![1], vec![1, 2], vec![1, 2, 3], vec![2, 3, 4]]);
    assert_eq!(
        seen(CountEvictor::of(0), &records[..1]),
        [Vec::<u64>::new()],
        "the function is called all the same"
    );
}

#[test]
fn a_time_evictor_keeps_what_is_later_than_the_latest_less_the_span() {
    let records = [(1, 100), (2, 104), (3, 110), (4, 101), (5, 114)];
    let expected = [vec![1], vec![1, 2], vec![2, 3], vec![2, 3, 4], vec![3, 5]];
    // 4 is in time when it comes: 110 - 10 < 101
    assert_eq!(seen(TimeEvictor::of(millis(10)), &records), expected);
}

#[test]
fn a_delta_evictor_throws_out_what_is_as_far_as_the_threshold() {
    let delta = DeltaEvictor::of(3.0, |a: &Record, last: &Record| a.1.abs_diff(last.1) as f64);
    assert_eq!(seen(delta, &[(1, 0), (3, 0), (4, 0), (9, 0)]), [vec![1], vec![1, 3], vec![3, 4], vec![9]]);
}

#[test]
fn a_sliding_count_window_fires_each_slide_with_the_last_records() {
    let mut driver = Driver::new(|records| records.key_by_ref(name).count_window_sliding(5, 2).reduce(add));
    for n in 0..10 {
        driver.record(record(1 << n)).unwrap();
        driver.record(("other".into(), 0)).unwrap();
    }
    let sums: Vec<_> = driver.output().into_iter().filter(|record| record.0 == "a").map(|r| r.1).collect();
    assert_eq!(sums, [0b11, 0b1111, 0b11_1110, 0b1111_1000, 0b11_1110_0000]);
}
