//! What is refused before the job starts.

use super::*;
use crate::window::{ContinuousEventTimeTrigger, CountTrigger, DeltaTrigger};

fn mistake<R: Data>(build: impl Fn(&DataStream<Record>) -> DataStream<R>) -> String {
    let env = StreamExecutionEnvironment::new();
    build(&env.from_collection(vec![record(1)])).discard();
    env.execute("mistake").unwrap_err().to_string()
}

#[test]
fn a_global_window_without_a_trigger_is_refused_with_what_to_add() {
    let message = mistake(|records| records.key_by_ref(name).window(GlobalWindows::create()).count());
    assert!(message.contains("never fires") && message.contains(".trigger("), "{message}");
}

#[test]
fn a_trigger_that_cannot_merge_is_refused_for_sessions() {
    let message = mistake(|records| {
        let delta = DeltaTrigger::of(1.0, |a: &Record, b: &Record| b.1 as f64 - a.1 as f64);
        records.key_by_ref(name).window(Session::with_gap(seconds(1))).trigger(delta).reduce(add)
    });
    assert!(message.contains("DeltaTrigger") && message.contains("merge"), "{message}");
}

#[test]
fn counts_and_intervals_of_nothing_are_refused() {
    let message = mistake(|records| records.key_by_ref(name).count_window(0).reduce(add));
    assert!(message.contains("at least 1"), "{message}");
    let message = mistake(|records| records.key_by_ref(name).count_window_sliding(3, 0).reduce(add));
    assert!(message.contains("at least 1"), "{message}");
    let message = mistake(|records| records.key_by_ref(name).count_window_sliding(0, 3).reduce(add));
    assert!(message.contains("at least 1"), "{message}");
    let message = mistake(|records| {
        let windows = records.key_by_ref(name).window(Tumbling::of(seconds(1)));
        windows.trigger(ContinuousEventTimeTrigger::of(Duration::ZERO)).reduce(add)
    });
    assert!(message.contains("at least 1"), "{message}");
}

/// Asks for state per window.
struct PerWindow;

impl ProcessWindow for PerWindow {
    type Key = String;
    type In = Vec<Record>;
    type Out = u64;
    fn open(states: &mut WindowStates<'_, String>) -> Result<Self> {
        states.per_window()?.value::<u64>("n").map(|_| Self)
    }
    fn process(&mut self, _: Vec<Record>, _: &mut WindowContext<'_, String, u64>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn state_per_window_of_sessions_is_refused_before_the_job_starts() {
    let message = mistake(|records| {
        records.key_by_ref(name).window(Session::with_gap(seconds(1))).process::<PerWindow>()
    });
    assert!(message.contains("merge") && message.contains("per_key"), "{message}");
}

#[test]
fn a_gap_of_nothing_and_a_record_without_time_say_what_is_wrong() {
    let sessions = |gap: Duration| {
        Driver::new(move |records| {
            records.key_by_ref(name).window(Session::with_dynamic_gap(move |_: &Record| gap)).reduce(add)
        })
    };
    let error = sessions(Duration::ZERO).record_at(record(1), at(0)).unwrap_err();
    assert!(error.to_string().contains("at least 1 ms"), "{error}");
    let error = sessions(seconds(1)).record(record(1)).unwrap_err();
    assert!(error.to_string().contains(".watermarks("), "{error}");
}

#[test]
fn a_driver_of_more_than_one_operator_says_so() {
    let mut driver = Driver::new(|records| {
        records
            .map(|record| record)
            .key_by_ref(name)
            .window(GlobalWindows::create())
            .trigger(CountTrigger::of(1))
            .reduce(add)
    });
    let error = driver.record(record(1)).unwrap_err();
    assert!(error.to_string().contains("drives one operator"), "{error}");
}
