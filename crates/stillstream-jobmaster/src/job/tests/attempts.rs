//! Attempts: they fail, stop, and are followed by others.

use super::*;

#[test]
fn a_failed_attempt_stops_and_another_one_begins_after_the_pause_until_the_restarts_are_used_up() {
    let mut bench = Bench::running();
    for restart in 1..=2 {
        bench.fails(ErrorKind::User);
        assert!(bench.told(Control::Stop));
        bench.stops(false);
        assert_eq!((bench.engine.status(), bench.engine.restarts()), (JobStatus::Restarting, restart));
        bench.wait(SECOND / 2);
        assert!(!bench.saw(|command| matches!(command, JobCommand::Deploy(_))));
        bench.wait(SECOND / 2);
        assert_eq!(bench.engine.generation(), Generation(1 + restart));
        bench.open();
    }
    bench.fails(ErrorKind::User);
    bench.stops(false);
    let error = bench.error();
    assert!(error.contains("`out` subtask 0: it broke") && error.contains("is not restarted"), "{error}");
    assert_eq!(bench.outcome(), Some(JobOutcome::Failed));
}

#[test]
fn a_worse_error_that_comes_while_the_attempt_stops_counts_and_one_that_is_no_worse_does_not() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::User);
    bench.fails(ErrorKind::CorruptSnapshot);
    bench.fails(ErrorKind::User);
    bench.stops(false);
    assert!(matches!(&bench.ended, Some(Err(error)) if error.kind() == ErrorKind::CorruptSnapshot));
}

#[test]
fn workers_that_do_not_stop_are_named_after_half_the_time_and_replaced_after_all_of_it() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::User);
    bench.wait(SECOND * 15);
    let named = |command: &JobCommand| matches!(command, JobCommand::StillStopping { workers, after: Some(_) } if *workers == [0]);
    assert!(bench.saw(named));
    bench.wait(SECOND * 14);
    assert!(bench.seen.is_empty(), "{:?}", bench.seen);
    bench.wait(SECOND);
    assert!(bench.saw(|command| matches!(command, JobCommand::Replace { workers } if *workers == [0])));
    bench.on(JobEvent::Replaced { workers: vec![0] });
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
}

#[test]
fn a_worker_that_stops_unasked_fails_the_attempt() {
    let mut bench = Bench::running();
    bench.stops(false);
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
    let why = |command: &JobCommand| matches!(command, JobCommand::Restarting { error, .. } if error.to_string().contains("worker 0 stopped by itself"));
    assert!(bench.saw(why));
}

#[test]
fn an_attempt_that_cannot_be_started_has_failed_like_any_other() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.on(JobEvent::Submitted);
    let (generation, error) = (Generation(1), Error::new(ErrorKind::Peer, "no process can be started"));
    bench.on(JobEvent::NotDeployed { generation, error });
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
    bench.wait(SECOND);
    bench.open();
}

#[test]
fn a_snapshot_that_is_not_read_in_its_time_fails_the_attempt_and_comes_too_late() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.storage = Storage::Silent;
    bench.on(JobEvent::Submitted);
    bench.on(JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written }));
    bench.wait(SECOND * 600);
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
    bench.on(JobEvent::Restored { generation: Generation(1), result: Ok(None) });
    assert!(!bench.saw(|command| matches!(command, JobCommand::Deploy(_))));
}

/// Seed 46 of the simulation found this: the late answer deployed an attempt under the old generation while a
/// new one was being claimed, and its job ran for ever without a checkpoint and without an end.
#[test]
fn a_snapshot_that_comes_while_the_next_attempt_is_being_claimed_starts_nothing() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.storage = Storage::Silent;
    let written = || JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written });
    let restored = |generation| JobEvent::Restored { generation: Generation(generation), result: Ok(None) };
    bench.on(JobEvent::Submitted);
    bench.on(written());
    bench.wait(SECOND * 600);
    bench.wait(SECOND);
    bench.on(restored(1));
    assert!(!bench.saw(|command| matches!(command, JobCommand::Deploy(_))));
    bench.on(written());
    bench.on(restored(2));
    bench.open();
    assert_eq!(bench.engine.generation(), Generation(2));
}

#[test]
fn what_an_attempt_that_has_gone_says_changes_nothing() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::User);
    bench.stops(false);
    bench.wait(SECOND);
    bench.open();
    let old = |report| JobEvent::Report(Generation(1), report);
    bench.on(old(Report::Stopped { worker: 0, drained: false }));
    bench.on(old(Report::Failed { subtask: None, error: Error::msg("late") }));
    bench.on(old(Report::Ended(SOURCE)));
    assert_eq!((bench.engine.status(), bench.engine.restarts()), (JobStatus::Running, 1));
}

#[test]
fn a_failure_between_two_attempts_is_only_said() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::User);
    bench.stops(false);
    bench.saw(|_| true);
    bench.fails(ErrorKind::Peer);
    assert!(
        bench.saw(
            |command| matches!(command, JobCommand::Log(Level::Warn, text) if text.contains("no attempt"))
        )
    );
    assert_eq!(bench.engine.status(), JobStatus::Restarting);
}

#[test]
fn a_request_for_a_checkpoint_is_refused_where_none_are_taken() {
    let mut bench = Bench::new(None, 0);
    bench.on(JobEvent::Submitted);
    bench.on(JobEvent::TriggerCheckpoint(RequestId(3), CheckpointType::Configured));
    let refused = |command: &JobCommand| {
        matches!(command, JobCommand::Reply { request: RequestId(3), result: Err(failure) }
            if failure.reason == FailureReason::PeriodicSchedulerShutdown)
    };
    assert!(bench.saw(refused));
}
