//! A person stops the job.

use super::*;
use stillstream_types::ExternalizedCheckpointRetention as Retention;

const PLACE: &str = "/s/savepoint-1";

impl Bench {
    fn stop(&mut self, savepoint: Option<&str>, drain: bool) -> Vec<Command> {
        let request = RequestId(50);
        self.on(Event::StopRequested { request, savepoint: savepoint.map(target), drain })
    }

    fn ack_both(&mut self, id: u64) -> Vec<Command> {
        self.ack(id, source());
        self.ack(id, sink())
    }

    /// Up to the point where checkpoint or savepoint 1 is in the register and everybody commits.
    fn stop_up_to_commits(&mut self, savepoint: Option<&str>) {
        self.stop(savepoint, false);
        self.ack_both(1);
        self.metadata(1, WriteOutcome::Written);
        assert_eq!(announced(&self.register_written()), [1]);
    }

    fn committed(&mut self, id: u64) -> Vec<Command> {
        let mut all = Vec::new();
        for subtask in [source(), sink()] {
            let (generation, checkpoint) = (self.generation, CheckpointId(id));
            all = self.on(Event::CommitConfirmed { generation, checkpoint, subtask });
        }
        all
    }

    fn attempt_stops(&mut self) -> Vec<Command> {
        let (generation, reason) = (self.generation, "a task failed".into());
        self.on(Event::AttemptStopped { generation, reason, restarts: true })
    }
}

/// The answer to the stop.
fn answer(commands: &[Command]) -> Option<Result<(u64, String), String>> {
    commands.iter().find_map(|command| match command {
        Command::Reply { request: RequestId(50), result: Ok(report) } => {
            Some(Ok((report.id.0, report.path.clone())))
        }
        Command::Reply { request: RequestId(50), result: Err(failure) } => Some(Err(failure.to_string())),
        _ => None,
    })
}

fn error(commands: &[Command]) -> String {
    match answer(commands) {
        Some(Err(text)) => text,
        other => panic!("{other:?} in {commands:?}"),
    }
}

fn restarts(commands: &[Command]) -> bool {
    commands.iter().any(|command| matches!(command, Command::RestartAttempt { .. }))
}

fn record_in(commands: &[Command]) -> &RegisterRecord {
    match commands {
        [Command::Storage(StorageCall::UpdateRegister { record, .. })] => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stop_with_a_savepoint_registers_commits_records_and_is_answered_in_this_order() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.complete(1);
    assert_eq!(bench.stop(Some(PLACE), false), [trigger_as(1, 2, Some(target(PLACE)), true)]);
    let commands = bench.ack_both(2);
    assert!(
        matches!(&commands[..], [Command::Storage(StorageCall::WriteMetadata { savepoint: Some(at), .. })] if **at == *PLACE)
    );
    let commands = bench.metadata(2, WriteOutcome::Written);
    let named = [reference(1), savepoint_ref(2, PLACE)];
    assert_eq!(record_in(&commands).completed, named, "before anybody commits");
    let commands = bench.register_written();
    assert_eq!((announced(&commands), answer(&commands), discarded(&commands)), (vec![2], None, vec![]));
    let commands = bench.committed(2);
    let record = record_in(&commands);
    assert_eq!((record.outcome, record.completed.len()), (JobOutcome::Stopped, 0));
    assert_eq!(record.retained, [savepoint_ref(2, PLACE)]);
    let commands = bench.register_written();
    assert_eq!(answer(&commands), Some(Ok((2, PLACE.into()))));
    assert!(commands.contains(&Command::FinishJob { outcome: JobOutcome::Stopped }));
    assert_eq!(discarded(&commands), directory(1), "the savepoint has everything");
}

#[test]
fn a_suspend_keeps_its_checkpoint_for_the_next_start() {
    let mut bench = Bench::running(every_ten_seconds());
    assert_eq!(bench.stop(None, false), [trigger_as(1, 1, None, true)]);
    bench.ack_both(1);
    bench.metadata(1, WriteOutcome::Written);
    bench.register_written();
    let commands = bench.committed(1);
    let record = record_in(&commands).clone();
    assert_eq!((record.outcome, &record.completed[..]), (JobOutcome::Suspended, &[reference(1)][..]));
    let commands = bench.register_written();
    assert_eq!(answer(&commands), Some(Ok((1, "chk-1".into()))));
    let mut next = Bench::new(every_ten_seconds(), Some(record));
    next.start();
    assert_eq!(next.coordinator.latest_completed(), Some(&reference(1)));
    assert_eq!(next.coordinator.register().unwrap().outcome, JobOutcome::Running);
}

#[test]
fn a_drain_ends_the_sources_first_and_then_takes_the_savepoint() {
    let mut bench = Bench::running(CheckpointConfig::default());
    let drain = Command::Tell { generation: Generation(1), control: Control::Drain };
    assert_eq!(bench.stop(Some(PLACE), true), [drain]);
    assert_eq!(bench.wait(SECOND * 100), []);
    let ended = Event::SourceEnded { generation: Generation(1), subtask: source() };
    assert_eq!(bench.on(ended), [trigger_as(1, 1, Some(target(PLACE)), false)]);
    bench.ack_both(1);
    bench.metadata(1, WriteOutcome::Written);
    assert_eq!(announced(&bench.register_written()), [1]);
    assert_eq!(record_in(&bench.committed(1)).outcome, JobOutcome::Stopped);
}

#[test]
fn a_drain_without_a_savepoint_finishes_the_job() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.stop(None, true);
    bench.on(Event::SourceEnded { generation: Generation(1), subtask: source() });
    let commands = bench.ack_both(1);
    assert!(matches!(&commands[..], [Command::Storage(StorageCall::WriteMetadata { metadata, .. })]
        if metadata.kind == CheckpointKind::Final));
    bench.metadata(1, WriteOutcome::Written);
    bench.register_written();
    assert_eq!(record_in(&bench.committed(1)).outcome, JobOutcome::Finished);
    assert_eq!(answer(&bench.register_written()), Some(Ok((1, "chk-1".into()))));
}

#[test]
fn no_other_checkpoint_begins_once_a_stop_is_under_way_and_whoever_waits_is_told_why() {
    for drain in [false, true] {
        let mut bench = Bench::running(every_ten_seconds());
        bench.trigger(1);
        bench.request(7, false);
        let commands = bench.stop(Some(PLACE), drain);
        assert_eq!(refused(&commands), [(7, FailureReason::NotAllRequiredTasksRunning)]);
        assert_eq!(refused(&bench.request(8, true)), [(8, FailureReason::NotAllRequiredTasksRunning)]);
        assert_eq!(refused(&bench.savepoint(9, "/s/2")), [(9, FailureReason::NotAllRequiredTasksRunning)]);
        let second = bench.on(Event::StopRequested { request: RequestId(10), savepoint: None, drain: false });
        assert_eq!(refused(&second), [(10, FailureReason::NotAllRequiredTasksRunning)]);
        assert_eq!(bench.wait(SECOND * 60), []);
    }
}

#[test]
fn a_last_checkpoint_that_fails_restarts_the_attempt_since_its_sources_stand_still() {
    for savepoint in [None, Some(PLACE)] {
        let mut bench = Bench::running(every_ten_seconds());
        bench.stop(savepoint, false);
        let commands = bench.decline(1, sink());
        let text = error(&commands);
        assert!(
            text.contains("disk full")
                && text.contains("it is restarted and goes on from where it had begun"),
            "{text}"
        );
        assert!(
            restarts(&commands) && failed_job(&commands).is_none(),
            "it is no task's fault: {commands:?}"
        );
        let files = match savepoint {
            Some(_) => vec![DiscardTarget::Savepoint(PLACE.into())],
            None => directory(1),
        };
        assert_eq!(discarded(&commands), files);
        assert_eq!(refused(&bench.request(8, true)), [(8, FailureReason::NotAllRequiredTasksRunning)]);
        assert_eq!(answer(&bench.attempt_stops()), None, "it is answered once");
        bench.start();
        bench.trigger(2);
    }
}

#[test]
fn a_stop_of_which_no_task_has_heard_fails_and_the_job_goes_on_as_it_was() {
    let mut bench = Bench::running(CheckpointConfig { max_concurrent: 100, ..every_ten_seconds() });
    for id in 1..=crate::checkpoint::ids::ID_RESERVE {
        bench.trigger(id);
    }
    bench.stop(Some(PLACE), false);
    let outcome = RegisterOutcome::Failed("no route to host".into());
    let commands = bench.on(Event::Storage(StorageAnswer::RegisterUpdated { outcome }));
    let text = error(&commands);
    assert!(text.contains("no route to host") && text.ends_with("it goes on (IO_EXCEPTION)"), "{text}");
    assert!(!restarts(&commands) && failed_job(&commands).is_none());
    bench.request(9, true);
    assert_eq!(bench.register_written(), [trigger(1, 10)]);
}

#[test]
fn a_savepoint_whose_registration_surely_failed_is_named_and_left() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.stop(Some(PLACE), false);
    bench.ack_both(1);
    bench.metadata(1, WriteOutcome::Written);
    let outcome = RegisterOutcome::Failed("no space".into());
    let commands = bench.on(Event::Storage(StorageAnswer::RegisterUpdated { outcome }));
    let text = error(&commands);
    assert!(text.contains("the savepoint itself is complete") && text.contains(PLACE), "{text}");
    assert!(restarts(&commands));
    assert_eq!((discarded(&commands), bench.coordinator.completed()), (vec![], &[][..]));
}

#[test]
fn an_attempt_that_dies_between_the_commits_of_a_stop_goes_on_from_the_savepoint() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.stop_up_to_commits(Some(PLACE));
    let (generation, checkpoint) = (bench.generation, CheckpointId(1));
    bench.on(Event::CommitConfirmed { generation, checkpoint, subtask: source() });
    let text = error(&bench.attempt_stops());
    assert!(
        text.contains("a task failed")
            && text.contains("savepoint /s/savepoint-1 is complete")
            && text.contains("the job restarts and goes on from savepoint 1 (/s/savepoint-1)"),
        "{text}"
    );
    bench.on(Event::AttemptRequested);
    let commands = bench.register_written();
    let begins =
        Command::BeginAttempt { generation: Generation(2), restore_from: Some(savepoint_ref(1, PLACE)) };
    assert!(commands.contains(&begins), "{commands:?}");
    bench.generation = Generation(2);
    bench.on(Event::AttemptStarted {
        generation: Generation(2),
        tasks: tasks(),
        enumerators: Default::default(),
    });
    // the next checkpoint takes its place; its files are a person's
    assert_eq!(discarded(&bench.complete(2)), []);
    assert_eq!(bench.coordinator.completed(), [reference(2)]);
}

#[test]
fn nothing_is_read_of_a_savepoint_in_the_register_to_learn_of_shared_files() {
    let mut found = record(JobOutcome::Running, 3, 9, &[6]);
    found.completed.push(savepoint_ref(7, PLACE));
    found.retained.push(savepoint_ref(2, "/s/older"));
    let mut bench = Bench::new(every_ten_seconds(), Some(found));
    bench.on(Event::AttemptRequested);
    let commands = bench.register_written();
    let read = commands.iter().find_map(|command| match command {
        Command::Storage(StorageCall::ReadReferences { completed, retained }) => Some((completed, retained)),
        _ => None,
    });
    assert_eq!(read, Some((&vec![reference(6)], &vec![])));
    let references = References { found: vec![(CheckpointId(6), vec![])], ..References::default() };
    let commands = bench.on(Event::Storage(StorageAnswer::ReferencesRead { references }));
    assert_eq!(commands, [Command::Storage(StorageCall::ListShared)]);
}

#[test]
fn a_register_that_does_not_answer_fails_the_stop_and_says_that_nobody_knows() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.stop(Some(PLACE), false);
    bench.ack_both(1);
    bench.metadata(1, WriteOutcome::Written);
    let commands = bench.wait(SECOND * 600);
    let text = error(&commands);
    assert!(text.contains("it is not known whether it is completed") && text.contains(PLACE), "{text}");
    assert!(restarts(&commands));
    assert_eq!((discarded(&commands), discarded(&bench.attempt_stops())), (vec![], vec![]));
    // it was written after all: the next attempt goes on from there
    bench.on(Event::AttemptRequested);
    assert_eq!(announced(&bench.register_written()), []);
    assert_eq!(bench.coordinator.latest_completed(), Some(&savepoint_ref(1, PLACE)));
}

#[test]
fn whoever_does_not_confirm_the_commits_of_a_stop_fails_the_attempt() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.stop_up_to_commits(None);
    let commands = bench.wait(SECOND * 600);
    let message = failed_job(&commands).unwrap();
    assert!(message.contains("the commits of the last checkpoint were not confirmed"), "{message}");
    let text = error(&bench.attempt_stops());
    assert!(text.contains("its last checkpoint is complete"), "{text}");
}

#[test]
fn a_drained_stop_whose_attempt_dies_between_its_commits_says_that_event_time_has_ended_where_the_job_goes_on()
 {
    for drain in [true, false] {
        let mut bench = Bench::running(every_ten_seconds());
        bench.stop(Some(PLACE), drain);
        if drain {
            let ended = Event::SourceEnded { generation: bench.generation, subtask: source() };
            bench.on(ended);
        }
        bench.ack_both(1);
        bench.metadata(1, WriteOutcome::Written);
        bench.register_written();
        let text = error(&bench.attempt_stops());
        assert!(text.contains("the job restarts and goes on from savepoint 1"), "{text}");
        assert_eq!(text.contains("event time has ended in it"), drain, "{text}");
    }
}

#[test]
fn a_cancel_wins_over_a_stop_until_the_stop_is_being_recorded() {
    let mut bench = Bench::running(CheckpointConfig {
        retention: Retention::DeleteOnCancellation,
        ..every_ten_seconds()
    });
    bench.stop_up_to_commits(Some(PLACE));
    let outcome = JobOutcome::Cancelled;
    let commands = bench.on(Event::JobEnded { outcome });
    assert!(error(&commands).contains("the job ends"));
    let commands = bench.register_written();
    assert!(commands.contains(&Command::FinishJob { outcome }));
    assert_eq!(discarded(&commands), [], "a savepoint is a person's");
    assert_eq!(bench.coordinator.register().unwrap().retained, [savepoint_ref(1, PLACE)]);
    let mut bench = Bench::running(every_ten_seconds());
    bench.stop_up_to_commits(Some(PLACE));
    bench.committed(1);
    bench.on(Event::AttemptStopped { generation: Generation(1), reason: "cancel".into(), restarts: false });
    assert_eq!(bench.on(Event::JobEnded { outcome }), []);
    let commands = bench.register_written();
    assert_eq!(answer(&commands), Some(Ok((1, PLACE.into()))));
    assert!(commands.contains(&Command::FinishJob { outcome: JobOutcome::Stopped }));
}

#[test]
fn the_end_of_the_input_during_a_stop_changes_nothing_and_a_stop_behind_it_is_refused() {
    let mut bench = Bench::running(every_ten_seconds());
    let ended = Event::SourceEnded { generation: Generation(1), subtask: source() };
    bench.stop_up_to_commits(Some(PLACE));
    assert_eq!(bench.on(ended.clone()), []);
    assert_eq!(record_in(&bench.committed(1)).outcome, JobOutcome::Stopped);
    let mut bench = Bench::running(every_ten_seconds());
    bench.on(ended);
    assert!(error(&bench.stop(Some(PLACE), false)).contains("has reached the end of its input"));
}

#[test]
fn a_stop_that_cannot_be_recorded_is_answered_in_its_time_and_says_what_the_next_start_does() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.stop_up_to_commits(Some(PLACE));
    bench.committed(1);
    let commands = bench.wait(SECOND * 180);
    let text = error(&commands);
    assert!(text.contains("all output is committed, but"), "{text}");
    assert!(text.contains("the next start resumes from savepoint 1 (/s/savepoint-1)"), "{text}");
    assert!(commands.iter().any(|command| matches!(command, Command::EndUnrecorded { .. })));
}

#[test]
fn a_stop_is_answered_when_another_process_takes_the_job_over() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.stop(Some(PLACE), false);
    bench.ack_both(1);
    bench.metadata(1, WriteOutcome::Written);
    let outcome = RegisterOutcome::Fenced(Generation(9));
    let commands = bench.on(Event::Storage(StorageAnswer::RegisterUpdated { outcome }));
    assert!(error(&commands).contains("generation 9 took the job over"));
}

#[test]
fn a_stopped_job_that_is_started_again_on_purpose_begins_afresh_and_keeps_the_savepoint() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.stop_up_to_commits(Some(PLACE));
    let record = record_in(&bench.committed(1)).clone();
    let mut next = Bench::new(every_ten_seconds(), Some(record));
    next.start();
    assert_eq!(next.coordinator.completed(), []);
    let commands = next.complete(10);
    assert_eq!(announced(&commands), [10]);
    assert_eq!(next.coordinator.register().unwrap().retained, [savepoint_ref(1, PLACE)]);
}
