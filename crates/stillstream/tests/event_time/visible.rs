//! A person sees where event time stands, and who holds it back.

use std::sync::Arc;

use stillstream::prelude::*;

use crate::endless::{Endless, Gate, Waiting};

/// Waits until `found` says something.
fn eventually<T>(mut found: impl FnMut() -> Option<T>) -> T {
    // every call of the client takes a lock, so this turns no faster than the job
    for _ in 0..100_000_000 {
        if let Some(found) = found() {
            return found;
        }
        std::thread::yield_now();
    }
    panic!("it never came");
}

#[test]
fn the_channel_that_holds_a_window_back_is_named() {
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(2);
    let time = || WatermarkStrategy::monotonic().timestamp(|row: &(u64, i64)| Timestamp::from_millis(row.1));
    let source = |name: &str, splits: Vec<Arc<Vec<(u64, i64)>>>| {
        let rows = Endless { splits, last: Arc::default(), waiting: Waiting::Woken, gate: Gate::open() };
        env.from_source(name, rows).uid(name).watermarks(time()).uid(format!("{name} time"))
    };
    let rows: Arc<Vec<_>> = Arc::new((0..100).map(|n| (n, n as i64)).collect());
    let orders = source("orders", vec![rows.clone(), rows.clone()]);
    // the second subtask has a split, in which nothing comes
    let shipments = source("shipments", vec![rows, Arc::default()]);
    orders
        .union(&shipments)
        .key_by(|row| row.0)
        .window(Tumbling::of(millis(10)))
        .count()
        .name("counts")
        .uid("counts")
        .discard();
    let job = env.execute_async("visible").unwrap();
    let tasks = eventually(|| {
        let tasks: Vec<_> =
            job.event_time().into_iter().filter(|task| task.task.contains("counts")).collect();
        let known = |task: &stillstream::TaskEventTime| {
            task.channels.iter().filter(|channel| channel.watermark.is_some()).count()
        };
        (tasks.len() == 2 && tasks.iter().all(|task| known(task) == 3)).then_some(tasks)
    });
    for task in &tasks {
        assert_eq!((task.watermark, task.idle, task.channels.len()), (None, false, 4));
        let held: Vec<_> = task.held_back_by().collect();
        assert_eq!(held.len(), 1, "{held:?}");
        assert_eq!((&*held[0].from, held[0].from_subtask.0), ("shipments -> watermarks", 1));
        let text = task.to_string();
        assert!(
            text.starts_with("input 1 of `counts")
                && text.contains("from subtask 1 of `shipments -> watermarks`, has sent no watermark for "),
            "{text}"
        );
    }
    job.cancel();
    assert!(job.wait().is_err());
}
