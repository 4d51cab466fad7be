//! A person stops or suspends the job.

use super::*;

const PLACE: &str = "/s/savepoint-1";

fn target() -> SavepointTarget {
    SavepointTarget { location: PLACE.into(), format: SavepointFormat::Canonical }
}

fn to_a_savepoint() -> StopRequest {
    StopRequest { savepoint: Some(target()), drain: false }
}

fn suspend() -> StopRequest {
    StopRequest { savepoint: None, drain: false }
}

impl Bench {
    fn stop(&mut self, stop: StopRequest) {
        self.on(JobEvent::Stop(RequestId(50), stop));
    }

    /// The answer to the stop, if it came since this was last asked.
    fn replied(&mut self) -> Option<std::result::Result<String, String>> {
        std::mem::take(&mut self.seen).into_iter().find_map(|command| match command {
            JobCommand::Reply { request: RequestId(50), result } => {
                Some(result.map(|report| report.path).map_err(|failure| failure.to_string()))
            }
            _ => None,
        })
    }

    fn refusal(&mut self) -> String {
        match self.replied() {
            Some(Err(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    fn kinds(&self) -> (JobStatus, Option<JobOutcome>, bool) {
        (self.engine.status(), self.outcome(), matches!(self.ended, Some(Ok(()))))
    }
}

#[test]
fn a_stop_with_a_savepoint_ends_as_finished_when_the_workers_have_dropped_their_dataflow() {
    for interval in [None, Some(SECOND * 10)] {
        let mut bench = Bench::new(interval, 0);
        bench.on(JobEvent::Submitted);
        bench.open();
        bench.stop(to_a_savepoint());
        bench.acknowledge(1);
        assert!(bench.told(Control::Complete { id: CheckpointId(1) }));
        bench.commit();
        assert_eq!(bench.kinds(), (JobStatus::Running, Some(JobOutcome::Stopped), false));
        let finish =
            |command: &JobCommand| matches!(command, JobCommand::Tell { control: Control::Finish, .. });
        assert!(!bench.seen.iter().any(finish), "what is behind the barrier must not be emitted");
        let stop = |command: &JobCommand| matches!(command, JobCommand::Tell { control: Control::Stop, .. });
        assert!(bench.seen.iter().any(stop));
        assert_eq!(bench.replied(), Some(Ok(PLACE.into())));
        bench.stops(false);
        assert_eq!(bench.kinds(), (JobStatus::Finished, Some(JobOutcome::Stopped), true));
        assert_eq!(bench.engine.good_end(), Some(JobOutcome::Stopped));
        let retained = &bench.register.unwrap().retained;
        assert_eq!(retained.last().map(|savepoint| &*savepoint.path), Some(PLACE));
    }
}

#[test]
fn a_suspended_job_says_from_where_its_next_start_goes_on_or_that_nothing_survives() {
    for (durable, said) in [(true, "goes on from checkpoint 1"), (false, "nothing of it survives")] {
        let mut bench = Bench::running();
        bench.engine.job.durable = durable;
        bench.stop(suspend());
        bench.acknowledge(1);
        bench.commit();
        assert_eq!(bench.replied(), Some(Ok("chk-1".into())));
        bench.stops(false);
        assert_eq!(bench.kinds(), (JobStatus::Suspended, Some(JobOutcome::Suspended), true));
        let line = |command: &JobCommand| matches!(command, JobCommand::Log(Level::Info, text) if text.contains(said));
        assert!(bench.saw(line), "{said}");
    }
}

#[test]
fn a_suspend_ends_the_job_in_each_phase_in_which_nothing_runs() {
    type Step = fn(&mut Bench);
    let phases: [(&str, Step); 3] = [
        ("deploying", |_| {}),
        ("stopping after a failure", |bench| {
            bench.open();
            bench.fails(ErrorKind::User);
        }),
        ("waiting to restart", |bench| {
            bench.open();
            bench.fails(ErrorKind::User);
            bench.stops(false);
        }),
    ];
    for (name, up_to) in phases {
        let mut bench = Bench::new(Some(SECOND * 10), 2);
        bench.on(JobEvent::Submitted);
        up_to(&mut bench);
        bench.stop(suspend());
        bench.stops(false);
        assert_eq!(bench.kinds(), (JobStatus::Suspended, Some(JobOutcome::Suspended), true), "{name}");
        assert!(bench.refusal().contains("no checkpoint was completed"), "{name}");
    }
}

#[test]
fn a_suspend_during_a_restart_is_answered_with_the_newest_checkpoint() {
    let mut bench = Bench::running();
    bench.on(JobEvent::TriggerCheckpoint(RequestId(1), CheckpointType::Configured));
    bench.acknowledge(1);
    bench.fails(ErrorKind::User);
    bench.stop(suspend());
    assert_eq!(bench.replied(), None, "its workers have not stopped");
    bench.stops(false);
    assert_eq!(bench.replied(), Some(Ok("chk-1".into())));
    assert_eq!(bench.kinds(), (JobStatus::Suspended, Some(JobOutcome::Suspended), true));
}

#[test]
fn a_suspend_while_the_register_is_being_claimed_is_recorded_behind_the_claim() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.storage = Storage::Silent;
    bench.on(JobEvent::Submitted);
    bench.stop(suspend());
    let written = || JobEvent::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Written });
    bench.on(written());
    assert!(bench.ended.is_none());
    bench.on(written());
    assert!(matches!(bench.ended, Some(Ok(()))));
    assert_eq!(bench.engine.status(), JobStatus::Suspended);
}

#[test]
fn a_stop_that_needs_a_running_job_is_refused_where_none_runs() {
    for stop in [to_a_savepoint(), StopRequest { savepoint: None, drain: true }] {
        let mut bench = Bench::running();
        bench.fails(ErrorKind::User);
        bench.stop(stop.clone());
        assert!(bench.refusal().contains("no attempt runs"));
        bench.stops(false);
        bench.stop(stop);
        assert!(bench.refusal().contains("no attempt runs"));
        bench.wait(SECOND);
        bench.open();
    }
}

#[test]
fn a_job_without_checkpoints_and_without_a_savepoint_is_cancelled_and_the_answer_says_so() {
    let mut bench = Bench::new(None, 0);
    bench.on(JobEvent::Submitted);
    bench.open();
    bench.stop(StopRequest { savepoint: None, drain: true });
    assert!(bench.refusal().contains("name a savepoint"));
    assert_eq!(bench.engine.status(), JobStatus::Running);
    bench.stop(suspend());
    assert!(bench.refusal().contains("nothing of it can be kept: it is cancelled"));
    bench.stops(false);
    assert_eq!((bench.engine.status(), bench.outcome()), (JobStatus::Canceled, Some(JobOutcome::Cancelled)));
}

#[test]
fn a_stop_that_fails_restarts_the_job_at_once_even_where_no_failure_is_tolerated() {
    let mut bench = Bench::new(Some(SECOND * 10), 0);
    bench.on(JobEvent::Submitted);
    bench.open();
    bench.stop(to_a_savepoint());
    let (checkpoint, subtask, reason) = (CheckpointId(1), SINK, "disk full".into());
    bench.report(Report::Declined { checkpoint, subtask, reason });
    let text = bench.refusal();
    assert!(text.contains("disk full") && text.contains("it is restarted and goes on"), "{text}");
    bench.stops(false);
    assert_eq!((bench.engine.status(), bench.engine.restarts()), (JobStatus::Restarting, 1));
    bench.wait(Duration::ZERO);
    bench.open();
    let entry = bench.engine.exceptions().last().unwrap();
    assert!(entry.restarted && entry.message.contains("the job is not stopped"), "{entry:?}");
}

#[test]
fn a_task_that_fails_during_a_stop_fails_the_stop_and_the_restart_strategy_decides() {
    for (attempts, then) in [(1, "the job restarts and goes on"), (0, "the job ends")] {
        let mut bench = Bench::new(Some(SECOND * 10), attempts);
        bench.on(JobEvent::Submitted);
        bench.open();
        bench.stop(to_a_savepoint());
        bench.acknowledge(1);
        bench.fails(ErrorKind::User);
        bench.stops(false);
        let text = bench.refusal();
        assert!(
            text.contains("it broke")
                && text.contains("savepoint /s/savepoint-1 is complete")
                && text.contains(then),
            "{text}"
        );
        if attempts == 0 {
            assert_eq!(bench.outcome(), Some(JobOutcome::Failed));
            continue;
        }
        bench.wait(SECOND);
        let from = bench.engine.latest_completed();
        assert_eq!(from, Some(CheckpointId(1)), "it goes on from the savepoint");
        bench.open();
    }
}

#[test]
fn a_cancel_during_a_stop_wins() {
    let mut bench = Bench::running();
    bench.stop(to_a_savepoint());
    bench.on(JobEvent::Cancel);
    bench.stops(false);
    assert!(bench.refusal().contains("the job was cancelled"));
    assert_eq!((bench.engine.status(), bench.outcome()), (JobStatus::Canceled, Some(JobOutcome::Cancelled)));
    // the savepoint is complete, and the commits are under way: the savepoint is where everything goes on
    let mut bench = Bench::running();
    bench.stop(to_a_savepoint());
    bench.acknowledge(1);
    bench.on(JobEvent::Cancel);
    bench.stops(false);
    let text = bench.error();
    assert!(text.contains("`--from /s/savepoint-1` goes on from its savepoint"), "{text}");
    // the same during a suspend
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.on(JobEvent::Submitted);
    bench.stop(suspend());
    bench.on(JobEvent::Cancel);
    bench.stops(false);
    assert!(bench.refusal().contains("was cancelled"));
    assert_eq!(bench.outcome(), Some(JobOutcome::Cancelled));
}

#[test]
fn a_cancel_or_a_failure_behind_the_record_of_a_stop_leaves_the_job_stopped() {
    for late in [JobEvent::Cancel, failed(ErrorKind::User)] {
        let mut bench = Bench::running();
        bench.stop(to_a_savepoint());
        bench.acknowledge(1);
        bench.commit();
        bench.on(late);
        bench.stops(false);
        assert_eq!(bench.kinds(), (JobStatus::Finished, Some(JobOutcome::Stopped), true));
    }
}

#[test]
fn a_drained_job_lets_its_dataflow_drain_behind_the_record() {
    for (savepoint, outcome) in [(Some(target()), JobOutcome::Stopped), (None, JobOutcome::Finished)] {
        let mut bench = Bench::running();
        bench.stop(StopRequest { savepoint, drain: true });
        assert!(bench.told(Control::Drain));
        bench.report(Report::Ended(SOURCE));
        let begun = |command: &JobCommand| {
            matches!(command, JobCommand::Tell { control: Control::Trigger { .. }, .. })
        };
        assert!(!bench.saw(begun), "a window may still emit");
        bench.report(Report::Ended(SINK));
        assert!(bench.saw(begun));
        bench.acknowledge(1);
        bench.commit();
        assert!(bench.told(Control::Finish));
        bench.stops(true);
        assert_eq!(bench.kinds(), (JobStatus::Finished, Some(outcome), true));
    }
}

#[test]
fn a_drain_that_does_not_come_to_its_end_fails_the_stop_and_names_who_has_not_ended() {
    let mut bench = Bench::running();
    bench.stop(StopRequest { savepoint: Some(target()), drain: true });
    bench.report(Report::Ended(SOURCE));
    bench.wait(SECOND * 599);
    assert_eq!(bench.replied(), None);
    bench.wait(SECOND);
    let text = bench.refusal();
    assert!(
        text.contains("1 subtasks have not ended within 600s") && text.contains("`out` subtask 0"),
        "{text}"
    );
    bench.stops(false);
    bench.wait(Duration::ZERO);
    bench.open();
}

#[test]
fn the_end_of_the_input_behind_a_stop_does_not_let_a_job_without_checkpoints_finish() {
    let mut bench = Bench::new(None, 0);
    bench.on(JobEvent::Submitted);
    bench.open();
    bench.stop(to_a_savepoint());
    bench.report(Report::Ended(SOURCE));
    bench.report(Report::Ended(SINK));
    assert!(!bench.told(Control::Finish));
    bench.acknowledge(1);
    bench.commit();
    bench.stops(false);
    assert_eq!(bench.kinds(), (JobStatus::Finished, Some(JobOutcome::Stopped), true));
}

#[test]
fn a_savepoint_that_is_under_way_when_a_job_without_checkpoints_lets_its_dataflow_drain_is_answered() {
    let mut bench = Bench::new(None, 0);
    bench.on(JobEvent::Submitted);
    bench.open();
    bench.on(JobEvent::TriggerSavepoint(RequestId(50), target()));
    bench.report(Report::Ended(SOURCE));
    bench.report(Report::Ended(SINK));
    let seen = format!("{:?}", bench.seen);
    assert!(seen.contains("the job has reached the end of its input"), "{seen}");
    bench.stops(true);
    assert_eq!(bench.engine.status(), JobStatus::Finished);
}

#[test]
fn a_savepoint_while_the_job_runs_is_answered_and_the_job_runs_on() {
    let mut bench = Bench::new(None, 0);
    bench.on(JobEvent::Submitted);
    bench.open();
    bench.on(JobEvent::TriggerSavepoint(RequestId(50), target()));
    bench.acknowledge(1);
    assert_eq!(bench.replied(), Some(Ok(PLACE.into())));
    assert_eq!((bench.engine.status(), bench.engine.latest_completed()), (JobStatus::Running, None));
    assert_eq!(
        bench.engine.statistics().last_savepoint.as_ref().map(|s| s.kind),
        Some(CheckpointKind::Savepoint)
    );
}

#[test]
fn a_worker_that_cannot_be_replaced_leaves_the_job_suspended_all_the_same() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.on(JobEvent::Submitted);
    bench.stop(suspend());
    bench.wait(SECOND * 30);
    bench.on(JobEvent::NotReplaced { error: Error::new(ErrorKind::Peer, "a thread cannot be ended") });
    assert_eq!(bench.kinds(), (JobStatus::Suspended, Some(JobOutcome::Suspended), true));
}

#[test]
fn a_suspend_that_cannot_be_recorded_ends_in_its_time_and_says_so() {
    let mut bench = Bench::new(Some(SECOND * 10), 2);
    bench.on(JobEvent::Submitted);
    bench.storage = Storage::RefusesTheRegister;
    bench.stop(suspend());
    bench.stops(false);
    for _ in 0..60 {
        bench.wait(SECOND);
    }
    assert!(bench.refusal().contains("could not be recorded within 60s"));
    assert!(bench.error().contains("could not be recorded within 60s"));
}
