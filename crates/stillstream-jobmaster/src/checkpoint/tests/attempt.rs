use super::*;

#[test]
fn a_new_job_claims_the_register_before_its_first_attempt_begins() {
    let mut bench = Bench::new(every_ten_seconds(), None);
    let record = record(JobOutcome::Running, 1, 8, &[]);
    assert_eq!(
        bench.on(Event::AttemptRequested),
        [Command::Storage(StorageCall::UpdateRegister { expected: None, record })]
    );
    let begin = Command::BeginAttempt { generation: Generation(1), restore_from: None };
    let read = Command::Storage(StorageCall::ReadReferences { completed: vec![], retained: vec![] });
    assert_eq!(bench.register_written(), [begin, Command::Storage(StorageCall::ListDirectories), read]);
}

#[test]
fn after_a_crash_or_a_failure_an_attempt_begins_from_the_newest_checkpoint_with_ids_behind_all_reserved() {
    for outcome in [JobOutcome::Running, JobOutcome::Failed] {
        let found = record(outcome, 4, 17, &[8, 9]);
        let mut bench = Bench::new(every_ten_seconds(), Some(found.clone()));
        let claim = record(JobOutcome::Running, 4, 25, &[8, 9]);
        let update = Command::Storage(StorageCall::UpdateRegister { expected: Some(found), record: claim });
        assert_eq!(bench.on(Event::AttemptRequested), [update]);
        let begin = Command::BeginAttempt { generation: Generation(4), restore_from: Some(reference(9)) };
        assert_eq!(bench.register_written()[0], begin);
        assert_eq!(bench.coordinator.statistics().counts.restored, 1);
        bench.generation = Generation(4);
        assert_eq!(bench.references_read(&[]), [Command::Storage(StorageCall::ListShared)]);
        bench.on(Event::AttemptStarted {
            generation: Generation(4),
            tasks: tasks(),
            enumerators: Default::default(),
        });
        bench.trigger(18);
    }
}

#[test]
fn the_first_attempt_runs_under_the_generation_that_its_process_has_claimed_and_each_later_one_under_its_own()
{
    let mut bench = Bench::new(every_ten_seconds(), Some(record(JobOutcome::Running, 4, 17, &[9])));
    for generation in 4..7 {
        bench.start();
        assert_eq!(bench.generation, Generation(generation));
        assert_eq!(bench.coordinator.register().unwrap().generation, Generation(generation));
        bench.on(Event::AttemptStopped { generation: bench.generation, reason: "x".into(), restarts: true });
    }
}

#[test]
fn after_an_end_on_purpose_a_start_is_fresh_and_what_was_kept_stays_kept() {
    for outcome in [JobOutcome::Finished, JobOutcome::Cancelled] {
        let mut bench = Bench::new(every_ten_seconds(), Some(record(outcome, 4, 17, &[9])));
        bench.on(Event::AttemptRequested);
        let commands = bench.register_written();
        assert_eq!(commands[0], Command::BeginAttempt { generation: Generation(4), restore_from: None });
        let register = bench.coordinator.register().unwrap();
        assert_eq!((&register.completed[..], &register.retained[..]), (&[][..], &[reference(9)][..]));
        let names = vec!["chk-9".to_owned(), "chk-10".to_owned(), "chk-18".to_owned(), "shared".to_owned()];
        assert_eq!(
            discarded(&bench.on(Event::Storage(StorageAnswer::DirectoriesListed { names }))),
            directory(10)
        );
    }
}

#[test]
fn what_a_crash_left_behind_is_deleted_but_nothing_that_the_register_names_or_that_is_new() {
    let mut bench = Bench::new(every_ten_seconds(), Some(record(JobOutcome::Running, 4, 17, &[8, 9])));
    bench.start();
    bench.trigger(18);
    let names = [7, 8, 9, 10, 17, 18].map(|id| format!("chk-{id}")).to_vec();
    let deleted = discarded(&bench.on(Event::Storage(StorageAnswer::DirectoriesListed { names })));
    assert_eq!(deleted, [directory(7), directory(10), directory(17)].concat());
}

#[test]
fn the_end_of_an_attempt_aborts_all_checkpoints_and_deletes_their_files_without_notices() {
    let mut bench = Bench::running(CheckpointConfig { max_concurrent: 2, ..every_ten_seconds() });
    bench.trigger(1);
    bench.ack(1, source());
    bench.trigger(2);
    bench.request(3, false);
    let commands = bench.on(Event::AttemptStopped {
        generation: bench.generation,
        reason: "a task failed".into(),
        restarts: true,
    });
    assert_eq!(discarded(&commands), [directory(1), directory(2)].concat());
    assert_eq!(aborted(&commands), [] as [u64; 0]);
    let reason = FailureReason::JobFailoverRegion;
    assert_eq!(refused(&commands), [(1, reason), (2, reason), (3, reason)]);
    assert_eq!(failed_job(&commands), None);
    assert_eq!(bench.coordinator.statistics().counts.in_progress, 0);
}

#[test]
fn ids_grow_by_one_over_the_attempts_of_a_process() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    bench.on(Event::AttemptStopped { generation: bench.generation, reason: "x".into(), restarts: true });
    bench.start();
    assert_eq!(bench.generation, Generation(2));
    bench.trigger(2);
}

#[test]
fn a_restart_waits_until_it_is_known_whether_the_last_checkpoint_completed() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_register(1);
    let unknown = Event::Storage(StorageAnswer::RegisterUpdated {
        outcome: RegisterOutcome::Unknown("timed out".into()),
    });
    assert_eq!(bench.on(unknown), [Command::Storage(StorageCall::ReadRegister)]);
    let stopped = bench.on(Event::AttemptStopped {
        generation: bench.generation,
        reason: "job failed".into(),
        restarts: true,
    });
    assert_eq!(discarded(&stopped), []);
    assert_eq!(bench.on(Event::AttemptRequested), []);
    let found = record(JobOutcome::Running, 1, 9, &[1]);
    let commands =
        bench.on(Event::Storage(StorageAnswer::RegisterRead { result: Ok(FoundRegister::Own(found)) }));
    assert_eq!(announced(&commands), [] as [u64; 0], "its tasks are gone");
    assert!(matches!(
        &commands[..],
        [Command::Reply { result: Ok(_), .. }, Command::Storage(StorageCall::UpdateRegister { .. })]
    ));
    let restore_from = Some(reference(1));
    let begin = Command::BeginAttempt { generation: Generation(2), restore_from };
    assert_eq!(bench.register_written()[0], begin);
}

#[test]
fn the_start_of_an_attempt_that_is_not_the_present_one_is_ignored() {
    let mut bench = Bench::running(every_ten_seconds());
    let old = bench.generation;
    bench.on(Event::AttemptRequested);
    bench.on(Event::AttemptStarted { generation: old, tasks: tasks(), enumerators: Default::default() });
    let refusal = (5, FailureReason::NotAllRequiredTasksRunning);
    assert_eq!(refused(&bench.request(5, false)), [refusal]);
    bench.register_written();
    bench.on(Event::AttemptStarted { generation: old, tasks: tasks(), enumerators: Default::default() });
    assert_eq!(refused(&bench.request(5, false)), [refusal]);
}

#[test]
fn a_fenced_coordinator_steps_down_and_deletes_nothing() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_register(1);
    let fenced =
        Event::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Fenced(Generation(9)) });
    let commands = bench.on(fenced);
    assert_eq!(refused(&commands), [(1, FailureReason::CheckpointCoordinatorSuspend)]);
    assert_eq!(commands.last(), Some(&Command::StepDown { owner: Generation(9) }));
    assert_eq!(discarded(&commands), []);
    let refused = bench.all(Event::AttemptRequested);
    assert!(matches!(refused[..], [Command::FailJob { kind: ErrorKind::Fenced, .. }]), "{refused:?}");
}

#[test]
fn a_job_whose_register_vanished_is_stopped_and_never_starts_empty() {
    let mut bench = Bench::new(every_ten_seconds(), Some(record(JobOutcome::Running, 4, 17, &[9])));
    bench.on(Event::AttemptRequested);
    bench.on(Event::Storage(StorageAnswer::RegisterUpdated {
        outcome: RegisterOutcome::Unknown("gone".into()),
    }));
    let commands =
        bench.on(Event::Storage(StorageAnswer::RegisterRead { result: Ok(FoundRegister::Missing) }));
    assert!(failed_job(&commands).unwrap().contains("has vanished"));
    let refused = bench.all(Event::AttemptRequested);
    assert!(
        matches!(refused[..], [Command::FailJob { kind: ErrorKind::CorruptSnapshot, .. }]),
        "{refused:?}"
    );
}

#[test]
fn a_claim_that_gets_no_answer_is_reported_after_the_timeout() {
    let mut bench = Bench::new(every_ten_seconds(), None);
    bench.on(Event::AttemptRequested);
    let commands = bench.wait(SECOND * 600);
    assert!(failed_job(&commands).unwrap().contains("register has not answered"));
}
