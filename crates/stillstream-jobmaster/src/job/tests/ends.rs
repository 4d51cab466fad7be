//! How a job ends.

use super::*;

#[test]
fn a_job_runs_to_its_end_and_finishes_when_its_commits_are_recorded_and_its_dataflow_has_drained() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.commit();
    assert_eq!(bench.outcome(), Some(JobOutcome::Finished));
    assert!(bench.told(Control::Finish));
    assert!(bench.ended.is_none());
    bench.stops(true);
    assert!(matches!(bench.ended, Some(Ok(()))));
    assert_eq!(bench.engine.status(), JobStatus::Finished);
}

#[test]
fn without_checkpoints_a_job_drains_when_its_input_is_through_and_may_take_its_time() {
    let mut bench = Bench::new(None, 0);
    bench.on(JobEvent::Submitted);
    bench.open();
    bench.report(Report::Ended(SOURCE));
    assert!(!bench.told(Control::Finish), "a window may still emit");
    bench.report(Report::Ended(SINK));
    assert!(bench.told(Control::Finish));
    bench.wait(SECOND * 100_000);
    assert!(bench.ended.is_none());
    bench.stops(true);
    assert!(matches!(bench.ended, Some(Ok(()))));
}

#[test]
fn an_error_that_a_restart_cannot_mend_ends_the_job() {
    let mut bench = Bench::running();
    bench.fails(ErrorKind::CorruptSnapshot);
    bench.stops(false);
    assert!(bench.error().contains("it broke"));
    assert_eq!((bench.outcome(), bench.engine.restarts()), (Some(JobOutcome::Failed), 0));
}

#[test]
fn a_cancel_ends_the_job_in_each_phase() {
    type Step = fn(&mut Bench);
    let phases: [(&str, Step); 4] = [
        ("deploying", |bench| bench.on(JobEvent::Submitted)),
        ("running", |bench| {
            bench.on(JobEvent::Submitted);
            bench.open();
        }),
        ("stopping after a failure", |bench| {
            bench.on(JobEvent::Submitted);
            bench.open();
            bench.fails(ErrorKind::User);
        }),
        ("waiting to restart", |bench| {
            bench.on(JobEvent::Submitted);
            bench.open();
            bench.fails(ErrorKind::User);
            bench.stops(false);
        }),
    ];
    for (name, up_to) in phases {
        let mut bench = Bench::new(Some(SECOND * 10), 2);
        up_to(&mut bench);
        bench.on(JobEvent::Cancel);
        bench.stops(false);
        assert!(bench.error().contains("was cancelled"), "{name}: {:?}", bench.ended);
        assert_eq!(
            (bench.outcome(), bench.engine.status()),
            (Some(JobOutcome::Cancelled), JobStatus::Canceled),
            "{name}"
        );
    }
}

#[test]
fn a_cancel_while_the_register_is_being_claimed_is_recorded_behind_the_claim() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.storage = Storage::Silent;
    bench.on(JobEvent::Submitted);
    bench.on(JobEvent::Cancel);
    let written = || JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written });
    bench.on(written());
    assert!(
        bench.ended.is_none() && !bench.saw(|command| matches!(command, JobCommand::ReadSnapshot { .. }))
    );
    bench.on(written());
    assert!(bench.error().contains("was cancelled"));
}

#[test]
fn a_cancel_or_a_failure_that_comes_after_everything_is_committed_leaves_the_job_finished() {
    for late in [JobEvent::Cancel, failed(ErrorKind::User)] {
        let mut bench = Bench::running();
        bench.up_to_commit();
        bench.commit();
        bench.on(late);
        bench.stops(false);
        assert!(matches!(bench.ended, Some(Ok(()))), "{:?}", bench.ended);
        assert_eq!(bench.outcome(), Some(JobOutcome::Finished));
    }
}

#[test]
fn a_cancel_while_the_end_is_being_recorded_leaves_the_job_finished() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.storage = Storage::Silent;
    bench.commit();
    bench.on(JobEvent::Cancel);
    assert!(bench.told(Control::Stop));
    bench.on(JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written }));
    assert!(bench.ended.is_none(), "its workers have not stopped");
    bench.stops(false);
    assert!(matches!(bench.ended, Some(Ok(()))), "{:?}", bench.ended);
}

#[test]
fn an_attempt_that_dies_while_the_end_is_being_recorded_is_not_followed_by_another() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.storage = Storage::Silent;
    bench.commit();
    bench.fails(ErrorKind::Peer);
    bench.stops(false);
    assert!(bench.ended.is_none());
    bench.wait(SECOND * 10);
    assert!(!bench.saw(|command| matches!(command, JobCommand::Deploy(_) | JobCommand::Restarting { .. })));
    bench.on(JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written }));
    assert!(matches!(bench.ended, Some(Ok(()))), "{:?}", bench.ended);
}

#[test]
fn an_end_that_cannot_be_recorded_comes_in_its_time_all_the_same_and_says_so() {
    for storage in [Storage::Silent, Storage::RefusesTheRegister] {
        let mut bench = Bench::running();
        bench.storage = storage;
        bench.on(JobEvent::Cancel);
        bench.stops(false);
        for _ in 0..59 {
            bench.wait(SECOND);
        }
        assert!(bench.ended.is_none());
        bench.wait(SECOND);
        let error = bench.error();
        assert!(error.contains("could not be recorded within 60s") && error.contains("in memory"), "{error}");
        assert_eq!(bench.engine.status(), JobStatus::Canceled);
    }
}

#[test]
fn a_finish_that_cannot_be_recorded_stops_the_workers_and_says_that_all_output_is_committed() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.storage = Storage::RefusesTheRegister;
    bench.commit();
    for _ in 0..60 {
        bench.wait(SECOND);
    }
    assert!(bench.told(Control::Stop) && bench.ended.is_none());
    bench.stops(false);
    let error = bench.error();
    assert!(error.contains("all output is committed, but"), "{error}");
}

#[test]
fn a_worker_that_cannot_be_replaced_ends_the_job_as_it_was_to_end() {
    for (cancel, outcome) in [(true, JobOutcome::Cancelled), (false, JobOutcome::Failed)] {
        let mut bench = Bench::running();
        match cancel {
            true => bench.on(JobEvent::Cancel),
            false => bench.fails(ErrorKind::User),
        }
        bench.wait(SECOND * 30);
        bench.on(JobEvent::NotReplaced { error: Error::new(ErrorKind::Peer, "a thread cannot be ended") });
        assert!(
            matches!(&bench.ended, Some(Err(error)) if error.kind() == ErrorKind::Timeout),
            "{:?}",
            bench.ended
        );
        assert_eq!(bench.outcome(), Some(outcome));
    }
}

#[test]
fn a_dataflow_that_does_not_drain_is_left_and_the_job_has_finished() {
    let mut bench = Bench::running();
    bench.up_to_commit();
    bench.commit();
    bench.wait(SECOND * 30);
    assert!(bench.saw(|command| matches!(command, JobCommand::Replace { .. })));
    bench.on(JobEvent::NotReplaced { error: Error::new(ErrorKind::Peer, "a thread cannot be ended") });
    assert!(matches!(bench.ended, Some(Ok(()))));
}

#[test]
fn a_job_that_another_process_took_over_stops_its_workers_and_writes_nothing() {
    let mut bench = Bench::running();
    bench.storage = Storage::Silent;
    bench.on(JobEvent::TriggerCheckpoint(RequestId(1), CheckpointType::Configured));
    bench.up_to_metadata();
    let outcome = RegisterOutcome::Fenced(Generation(9));
    bench.on(JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome }));
    assert!(bench.told(Control::Stop));
    bench.stops(false);
    let error = bench.error();
    assert!(error.contains("another process runs job `job` now (generation 9, this one is 1)"), "{error}");
    assert_eq!(bench.outcome(), Some(JobOutcome::Running));
}

#[test]
fn a_panic_of_a_thread_that_owes_an_answer_ends_the_job_as_it_stands() {
    let mut bench = Bench::running();
    bench.on(JobEvent::Panicked(Error::new(ErrorKind::Panic, "the thread `checkpoint-io-0` panicked")));
    bench.stops(false);
    assert!(bench.error().contains("checkpoint-io-0"));
    assert_eq!(bench.outcome(), Some(JobOutcome::Running), "nothing is recorded");
}

#[test]
fn an_incremental_checkpoint_of_a_job_that_takes_none_is_refused_with_the_key_and_a_full_one_is_taken() {
    let mut bench = Bench::running();
    bench.on(JobEvent::TriggerCheckpoint(RequestId(4), CheckpointType::Incremental));
    let refusal = bench.seen.iter().find_map(|command| match command {
        JobCommand::Reply { request: RequestId(4), result: Err(failure) } => Some(failure.to_string()),
        _ => None,
    });
    let refusal = refusal.unwrap_or_default();
    assert!(
        refusal.contains("job `job`") && refusal.contains("execution.checkpointing.incremental"),
        "{refusal}"
    );
    bench.on(JobEvent::TriggerCheckpoint(RequestId(5), CheckpointType::Full));
    let is_full = |command: &JobCommand| {
        matches!(command, JobCommand::Tell { control: Control::Trigger { full: true, .. }, .. })
    };
    assert!(bench.seen.iter().any(is_full), "{:?}", bench.seen);
}
