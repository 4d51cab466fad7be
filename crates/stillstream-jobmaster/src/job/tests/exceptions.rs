//! What is remembered of failures.

use super::*;

#[test]
fn the_last_sixteen_failures_are_remembered_with_their_task_and_what_followed() {
    let mut bench = Bench::new(Some(SECOND * 10), 17);
    bench.on(JobEvent::Submitted);
    bench.open();
    for _ in 0..17 {
        bench.fails(ErrorKind::User);
        bench.stops(false);
        bench.wait(SECOND);
        bench.open();
    }
    bench.fails(ErrorKind::User);
    bench.stops(false);
    let all: Vec<_> = bench.engine.exceptions().collect();
    assert_eq!(all.len(), 16);
    assert!(all[..15].iter().all(|entry| entry.restarted) && !all[15].restarted);
    assert_eq!((all[0].at_ms, all[15].at_ms), (2_000, 17_000), "the first two are forgotten");
    assert_eq!(all[15].task.as_deref(), Some("`out` subtask 0"));
    assert!(all[15].message.contains("it broke"), "{}", all[15].message);
}

#[test]
fn the_task_of_an_earlier_failure_is_not_blamed_for_a_later_one() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::User);
    bench.stops(false);
    bench.wait(SECOND);
    bench.open();
    bench.report(Report::Failed { subtask: None, error: Error::new(ErrorKind::Peer, "process 1 is gone") });
    bench.stops(false);
    let tasks: Vec<_> = bench.engine.exceptions().map(|entry| entry.task.as_deref()).collect();
    assert_eq!(tasks, [Some("`out` subtask 0"), None]);
}
