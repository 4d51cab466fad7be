//! Triggers that fire early, and purging.

use super::*;
use crate::window::{
    ContinuousEventTimeTrigger, CountTrigger, EventTimeTrigger, PurgingTrigger, Trigger, TriggerContext,
    TriggerResult,
};

#[test]
fn a_count_trigger_counts_in_each_sliding_window_by_itself() {
    let mut driver = Driver::new(|records| {
        records
            .key_by_ref(name)
            .window(Sliding::of(millis(10), millis(5)))
            .trigger(CountTrigger::of(2))
            .reduce(add)
    });
    // 1 is in [-5, 5) and [0, 10), 2 in [0, 10) and [5, 15), 4 in [5, 15) and [10, 20)
    feed(&mut driver, [(1, 2), (2, 7), (4, 12)]);
    let fired: Vec<_> = driver.timed_output().into_iter().map(|(record, time)| (record.1, time)).collect();
    assert_eq!(fired, [(3, Some(at(9))), (6, Some(at(14)))]);
    driver.end_input().unwrap();
    assert!(values(&mut driver).is_empty(), "a count does not fire at the end of the window");
}

#[test]
fn without_purging_each_firing_has_all_records_and_with_it_each_record_is_in_one() {
    let driver = |purge: bool| {
        Driver::new(move |records| {
            let windows = records.key_by_ref(name).window(Tumbling::of(seconds(1)));
            match purge {
                true => windows.trigger(PurgingTrigger::of(CountTrigger::of(2))).reduce(add),
                false => windows.trigger(CountTrigger::of(2)).reduce(add),
            }
        })
    };
    for (purge, expected) in [(false, [3, 15]), (true, [3, 12])] {
        let mut driver = driver(purge);
        feed(&mut driver, [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0)]);
        assert_eq!(values(&mut driver), expected);
    }
}

#[test]
fn a_purged_window_takes_late_records_until_it_is_forgotten() {
    let mut driver = Driver::new(|records| {
        records
            .key_by_ref(name)
            .window(Tumbling::of(millis(10)))
            .trigger(PurgingTrigger::of(EventTimeTrigger::create()))
            .allowed_lateness(millis(5))
            .reduce(add)
    });
    feed(&mut driver, [(1, 0), (2, 3)]);
    driver.watermark(at(9)).unwrap();
    assert_eq!(values(&mut driver), [3]);
    feed(&mut driver, [(4, 5)]);
    assert_eq!(values(&mut driver), [4], "fires at once, without what was purged");
    driver.watermark(at(14)).unwrap();
    feed(&mut driver, [(8, 5)]);
    assert!(values(&mut driver).is_empty());
    assert_eq!(driver.counter("late"), 1);
}

#[test]
fn a_continuous_trigger_fires_each_interval_and_at_the_end() {
    let mut driver = Driver::new(|records| {
        let windows = records.key_by_ref(name).window(Tumbling::of(millis(100)));
        windows.trigger(ContinuousEventTimeTrigger::of(millis(30))).reduce(add)
    });
    feed(&mut driver, [(1, 10)]);
    driver.watermark(at(29)).unwrap();
    assert!(values(&mut driver).is_empty());
    driver.watermark(at(30)).unwrap();
    assert_eq!(values(&mut driver), [1]);
    feed(&mut driver, [(2, 40)]);
    driver.watermark(at(95)).unwrap();
    assert_eq!(values(&mut driver), [3, 3], "60 and 90");
    driver.watermark(at(99)).unwrap();
    assert_eq!(values(&mut driver), [3], "the end");
    driver.watermark(at(500)).unwrap();
    assert!(values(&mut driver).is_empty());
}

#[test]
fn a_continuous_trigger_of_a_global_window_ends_with_the_input() {
    let mut driver = Driver::new(|records| {
        let windows = records.key_by_ref(name).window(GlobalWindows::create());
        windows.trigger(ContinuousEventTimeTrigger::of(millis(30))).reduce(add)
    });
    feed(&mut driver, [(1, 10)]);
    driver.watermark(at(70)).unwrap();
    assert_eq!(driver.timed_output(), [(record(1), Some(at(30))), (record(1), Some(at(60)))]);
    driver.end_input().unwrap();
    assert_eq!(values(&mut driver), [1, 1], "the next interval, and the end of time");
}

/// Sets a timer twice, and one that it deletes again.
struct Timers;

impl Trigger<Record> for Timers {
    type State = u64;

    fn on_element(
        &self,
        _: &Record,
        _: Option<Timestamp>,
        fired: &mut u64,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        *fired = 0;
        for time in [5, 5, 7, 6] {
            ctx.register_event_time_timer(at(time));
        }
        ctx.delete_event_time_timer(at(7));
        // the timer at which the window is forgotten is not the trigger's to delete
        ctx.delete_event_time_timer(ctx.window().last());
        Ok(TriggerResult::Continue)
    }

    fn on_event_time(
        &self,
        time: Timestamp,
        fired: &mut u64,
        ctx: &mut TriggerContext<'_>,
    ) -> Result<TriggerResult> {
        *fired += 1;
        assert!(time <= ctx.watermark());
        match (time.as_millis(), *fired) {
            (5, 1) | (6, 2) => Ok(TriggerResult::Fire),
            (9, 3) => Ok(TriggerResult::Purge),
            other => Err(Error::msg(format!("{other:?}"))),
        }
    }
}

#[test]
fn timers_of_a_trigger_are_one_for_each_time_deletable_and_in_order() {
    let mut driver = Driver::new(|records| {
        records.key_by_ref(name).window(Tumbling::of(millis(10))).trigger(Timers).reduce(add)
    });
    feed(&mut driver, [(1, 0)]);
    driver.watermark(at(20)).unwrap();
    assert_eq!(values(&mut driver), [1, 1]);
}
