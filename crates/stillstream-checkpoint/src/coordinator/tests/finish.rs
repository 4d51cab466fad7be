use super::*;
use crate::config::Retention;

impl Bench {
    fn source_ended(&mut self) -> Vec<Command> {
        self.on(Event::SourceEnded { generation: self.generation, subtask: source() })
    }

    fn confirm(&mut self, id: u64, subtask: SubtaskId) -> Vec<Command> {
        let (generation, checkpoint) = (self.generation, CheckpointId(id));
        self.on(Event::CommitConfirmed { generation, checkpoint, subtask })
    }

    /// The end of the input, up to the announcement of the final checkpoint 1.
    fn up_to_commit(&mut self) {
        let prepare = Command::PrepareLocation { checkpoint: CheckpointId(1), kind: CheckpointKind::Final };
        assert_eq!(self.source_ended(), [prepare]);
        self.location(1);
        self.ack(1, source());
        self.ack(1, sink());
        self.metadata(1, WriteOutcome::Written);
        assert_eq!(announced(&self.register_written()), [1]);
    }

    fn task_finished(&mut self, subtask: SubtaskId) -> Vec<Command> {
        self.on(Event::TaskFinished { generation: self.generation, subtask })
    }
}

#[test]
fn a_job_is_finished_only_when_all_commits_of_the_final_checkpoint_are_confirmed_and_recorded() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_commit();
    assert_eq!(bench.confirm(1, source()), []);
    assert_eq!(bench.confirm(0, sink()), [], "an earlier checkpoint's commit is not enough");
    let commands = bench.confirm(1, sink());
    let [Command::UpdateRegister { record, .. }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((record.outcome, record.completed.len()), (JobOutcome::Finished, 0));
    let commands = bench.register_written();
    assert_eq!(commands[0], Command::FinishJob { outcome: JobOutcome::Finished });
    assert_eq!(discarded(&commands), directory(1));
}

#[test]
fn the_final_checkpoint_waits_for_all_sources_and_neither_for_the_pause_nor_for_others() {
    let mut bench = Bench::new(CheckpointConfig { min_pause: SECOND * 90, ..every_ten_seconds() }, None);
    bench.on(Event::AttemptRequested);
    bench.register_written();
    bench.references_read(&[]);
    bench.generation = Generation(1);
    let mut three = tasks();
    three.push(TaskInfo { id: SubtaskId::new(0, 1), ..three[0].clone() });
    bench.on(Event::AttemptStarted { generation: Generation(1), tasks: three });
    bench.trigger(1);
    assert_eq!(bench.source_ended(), []);
    let last = Event::SourceEnded { generation: Generation(1), subtask: SubtaskId::new(0, 1) };
    let prepare = Command::PrepareLocation { checkpoint: CheckpointId(2), kind: CheckpointKind::Final };
    assert_eq!(bench.on(last), [prepare]);
    assert_eq!(
        refused(&bench.request(9, CheckpointKind::Savepoint, true)),
        [(9, FailureReason::NotAllRequiredTasksRunning)]
    );
}

#[test]
fn a_final_checkpoint_that_fails_is_taken_again() {
    let mut bench =
        Bench::running(CheckpointConfig { tolerable_failed_checkpoints: 3, ..every_ten_seconds() });
    bench.source_ended();
    bench.location(1);
    assert_eq!(aborted(&bench.decline(1, sink())), [1]);
    let prepare = Command::PrepareLocation { checkpoint: CheckpointId(2), kind: CheckpointKind::Final };
    assert_eq!(bench.wait(SECOND), [prepare]);
}

#[test]
fn whoever_has_not_confirmed_is_told_again_and_named_when_the_deadline_passes() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_commit();
    bench.confirm(1, source());
    let (generation, checkpoint) = (Generation(1), CheckpointId(1));
    let subtasks = [sink()].into();
    let again = Command::NotifyComplete { generation, checkpoint, subsumed: None, subtasks };
    assert_eq!(bench.wait(SECOND * 5), [again]);
    let commands = bench.wait(SECOND * 595);
    let message = failed_job(&commands).unwrap();
    assert!(
        message.contains("commits of the final checkpoint") && message.contains("out (1#0)"),
        "{message}"
    );
}

#[test]
fn an_attempt_that_dies_before_the_commits_are_confirmed_does_not_finish_the_job() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_commit();
    let old = bench.generation;
    bench.on(Event::AttemptStopped { generation: old, reason: "x".into() });
    let confirmed = Event::CommitConfirmed { generation: old, checkpoint: CheckpointId(1), subtask: sink() };
    assert_eq!(bench.on(confirmed), []);
    bench.start();
    assert_eq!(bench.coordinator.latest_completed(), Some(&reference(1)));
    let prepare = Command::PrepareLocation { checkpoint: CheckpointId(2), kind: CheckpointKind::Final };
    assert_eq!(bench.source_ended(), [prepare]);
}

#[test]
fn without_checkpoints_a_job_is_finished_when_all_tasks_are() {
    let mut bench = Bench::running(CheckpointConfig::default());
    assert_eq!(bench.source_ended(), []);
    assert_eq!(bench.task_finished(source()), []);
    assert!(matches!(bench.task_finished(sink())[..], [Command::UpdateRegister { .. }]));
    assert_eq!(bench.register_written(), [Command::FinishJob { outcome: JobOutcome::Finished }]);
}

#[test]
fn a_task_whose_state_later_checkpoints_would_miss_may_not_just_leave() {
    let mut bench = Bench::running(every_ten_seconds());
    assert!(failed_job(&bench.task_finished(source())).unwrap().contains("flights (0#0)"));
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    bench.ack(1, sink());
    assert!(failed_job(&bench.task_finished(sink())).unwrap().contains("out (1#0)"));
}

#[test]
fn a_task_without_state_that_finished_does_not_stop_later_checkpoints() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    let commands = bench.task_finished(sink());
    assert_eq!((aborted(&commands), failed_job(&commands)), (vec![1], None));
    bench.trigger(2);
    assert!(matches!(bench.ack(2, source())[..], [Command::WriteMetadata { .. }]));
}

#[test]
fn the_retention_policy_decides_after_cancellation_and_a_failed_job_keeps_its_checkpoints() {
    let all = [Retention::NoExternalized, Retention::DeleteOnCancellation, Retention::RetainOnCancellation];
    for retention in all {
        for outcome in [JobOutcome::Cancelled, JobOutcome::Failed] {
            let mut bench = Bench::running(CheckpointConfig { retention, ..every_ten_seconds() });
            bench.complete(1);
            bench.trigger(2);
            let commands = bench.on(Event::JobEnded { outcome });
            assert_eq!(refused(&commands), [(2, FailureReason::CheckpointCoordinatorShutdown)]);
            assert_eq!(discarded(&commands), directory(2), "only the one under way");
            let commands = bench.register_written();
            assert_eq!(commands[0], Command::FinishJob { outcome });
            let register = bench.coordinator.register().unwrap();
            assert_eq!(register.outcome, outcome);
            let kept = match (outcome, retention) {
                (JobOutcome::Failed, _) => (1, 0),
                (_, Retention::RetainOnCancellation) => (0, 1),
                _ => (0, 0),
            };
            assert_eq!((register.completed.len(), register.retained.len()), kept);
            assert_eq!(discarded(&commands), if kept == (0, 0) { directory(1) } else { vec![] });
        }
    }
}

#[test]
fn no_attempt_begins_while_the_end_is_being_recorded() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.on(Event::JobEnded { outcome: JobOutcome::Cancelled });
    assert_eq!(bench.on(Event::AttemptRequested), []);
}

#[test]
fn the_record_of_the_end_is_written_again_until_it_is_durable() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.complete(1);
    bench.on(Event::JobEnded { outcome: JobOutcome::Cancelled });
    let commands = bench.on(Event::RegisterUpdated { outcome: RegisterOutcome::Failed("down".into()) });
    assert_eq!(discarded(&commands), []);
    assert!(matches!(bench.wait(SECOND)[..], [Command::UpdateRegister { .. }]));
    assert_eq!(bench.register_written()[0], Command::FinishJob { outcome: JobOutcome::Cancelled });
}
