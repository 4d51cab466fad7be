use super::*;
use stillstream_types::ExternalizedCheckpointRetention as Retention;

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
        assert_eq!(self.source_ended(), [trigger(1, 1)]);
        self.ack(1, source());
        self.ack(1, sink());
        self.metadata(1, WriteOutcome::Written);
        assert_eq!(announced(&self.register_written()), [1]);
    }
}

#[test]
fn a_job_is_finished_only_when_all_commits_of_the_final_checkpoint_are_confirmed_and_recorded() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_commit();
    assert_eq!(bench.confirm(1, source()), []);
    assert_eq!(bench.confirm(0, sink()), [], "an earlier checkpoint's commit is not enough");
    let commands = bench.confirm(1, sink());
    let [Command::Storage(StorageCall::UpdateRegister { record, .. })] = &commands[..] else {
        panic!("{commands:?}")
    };
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
    bench.on(Event::AttemptStarted {
        generation: Generation(1),
        tasks: three,
        enumerators: Default::default(),
    });
    bench.trigger(1);
    assert_eq!(bench.source_ended(), []);
    let last = Event::SourceEnded { generation: Generation(1), subtask: SubtaskId::new(0, 1) };
    assert_eq!(bench.on(last), [trigger(1, 2)]);
    assert_eq!(refused(&bench.savepoint(9, "/s/9")), [(9, FailureReason::NotAllRequiredTasksRunning)]);
}

#[test]
fn a_final_checkpoint_that_fails_is_taken_again() {
    let mut bench =
        Bench::running(CheckpointConfig { tolerable_failed_checkpoints: 3, ..every_ten_seconds() });
    bench.source_ended();
    assert_eq!(aborted(&bench.decline(1, sink())), [1]);
    assert_eq!(bench.wait(SECOND), [trigger(1, 2)]);
}

#[test]
fn whoever_has_not_confirmed_is_told_again_and_named_when_the_deadline_passes() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_commit();
    bench.confirm(1, source());
    let (generation, checkpoint) = (Generation(1), CheckpointId(1));
    let again = Command::Tell { generation, control: Control::Complete { id: checkpoint } };
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
    bench.on(Event::AttemptStopped { generation: old, reason: "x".into(), restarts: true });
    let confirmed = Event::CommitConfirmed { generation: old, checkpoint: CheckpointId(1), subtask: sink() };
    assert_eq!(bench.on(confirmed), []);
    bench.start();
    assert_eq!(bench.coordinator.latest_completed(), Some(&reference(1)));
    assert_eq!(bench.source_ended(), [trigger(2, 2)]);
}

#[test]
fn the_retention_policy_decides_after_cancellation_and_a_failed_job_keeps_its_checkpoints() {
    let all = [
        Retention::NoExternalizedCheckpoints,
        Retention::DeleteOnCancellation,
        Retention::RetainOnCancellation,
    ];
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
    let commands = bench.on(Event::Storage(StorageAnswer::RegisterUpdated {
        outcome: RegisterOutcome::Failed("down".into()),
    }));
    assert_eq!(discarded(&commands), []);
    assert!(matches!(bench.wait(SECOND)[..], [Command::Storage(StorageCall::UpdateRegister { .. })]));
    assert_eq!(bench.register_written()[0], Command::FinishJob { outcome: JobOutcome::Cancelled });
}

fn failed(text: &str) -> Event {
    Event::Storage(StorageAnswer::RegisterUpdated { outcome: RegisterOutcome::Failed(text.into()) })
}

fn unrecorded(commands: &[Command]) -> Option<(JobOutcome, &str)> {
    commands.iter().find_map(|command| match command {
        Command::EndUnrecorded { outcome, message } => Some((*outcome, message.as_str())),
        _ => None,
    })
}

#[test]
fn an_end_that_storage_does_not_take_ends_in_its_time_and_says_what_the_next_start_does() {
    for answers in [true, false] {
        let mut bench = Bench::running(every_ten_seconds());
        bench.complete(1);
        bench.on(Event::JobEnded { outcome: JobOutcome::Cancelled });
        for second in 0..180 {
            if answers {
                bench.on(failed("no such folder"));
            }
            let commands = bench.wait(SECOND);
            assert_eq!(unrecorded(&commands).is_some(), second == 179, "after {second} s: {commands:?}");
            if let Some((outcome, message)) = unrecorded(&commands) {
                assert_eq!(outcome, JobOutcome::Cancelled);
                assert!(
                    message.contains("task.cancellation.timeout") && message.contains("180s"),
                    "{message}"
                );
                assert!(message.contains("the next start resumes from checkpoint 1"), "{message}");
                let known = message.contains("the register still says running");
                assert_eq!(known, answers, "{message}");
                assert_eq!(message.contains("no such folder"), answers, "{message}");
            }
        }
        assert_eq!(bench.all(Event::Tick), [], "nothing follows");
    }
}

#[test]
fn a_claim_that_never_comes_back_does_not_hold_up_the_end() {
    let mut bench = Bench::new(every_ten_seconds(), Some(record(JobOutcome::Failed, 3, 9, &[7])));
    bench.on(Event::AttemptRequested);
    bench.on(Event::JobEnded { outcome: JobOutcome::Cancelled });
    let commands = bench.wait(SECOND * 180);
    let (outcome, message) = unrecorded(&commands).unwrap();
    assert_eq!(outcome, JobOutcome::Cancelled);
    assert!(
        message.ends_with("the register still says running: the next start resumes from checkpoint 7"),
        "{message}"
    );
}

#[test]
fn a_cancel_or_a_failure_while_the_finish_is_being_recorded_is_answered_with_the_finish() {
    for late in [JobOutcome::Cancelled, JobOutcome::Failed] {
        let mut bench = Bench::running(every_ten_seconds());
        bench.up_to_commit();
        bench.confirm(1, source());
        bench.confirm(1, sink());
        assert_eq!(bench.coordinator.ending(), Some(JobOutcome::Finished));
        let generation = bench.generation;
        bench.on(Event::AttemptStopped { generation, reason: "x".into(), restarts: true });
        assert_eq!(bench.on(Event::JobEnded { outcome: late }), []);
        assert_eq!(bench.register_written()[0], Command::FinishJob { outcome: JobOutcome::Finished });
        assert_eq!(bench.wait(SECOND * 1000), [], "a recorded end has no deadline");
    }
}

#[test]
fn a_finish_that_cannot_be_recorded_leaves_the_final_checkpoint_for_the_next_start() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_commit();
    bench.confirm(1, source());
    bench.confirm(1, sink());
    bench.on(failed("disk full"));
    let commands = bench.wait(SECOND * 180);
    // the last try is still under way
    assert!(matches!(unrecorded(&commands), Some((JobOutcome::Finished, _))), "{commands:?}");
    assert_eq!(bench.coordinator.latest_completed(), Some(&reference(1)));
}

#[test]
fn the_end_is_recorded_with_its_time_and_what_the_job_had_come_to() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_commit();
    bench.confirm(1, source());
    bench.now += SECOND;
    let mut figures = JobFigures { records_in: 5, records_out: 3, ..JobFigures::default() };
    assert_eq!(bench.on(Event::Measured { figures: figures.clone() }), []);
    bench.confirm(1, sink());
    bench.register_written();
    let ended = bench.coordinator.register().unwrap().ended.clone().unwrap();
    // the newest of all processes that ran the job
    figures.last_checkpoint = Some(CheckpointId(1));
    assert_eq!(*ended, JobEnd { at_ms: 1_000_000 + bench.now.as_millis() as i64, figures });
}

#[test]
fn a_final_checkpoint_that_fails_for_as_long_as_a_checkpoint_may_take_fails_the_attempt_whatever_is_tolerated()
 {
    let timeout = SECOND * 5;
    let mut bench = Bench::running(CheckpointConfig {
        tolerable_failed_checkpoints: 1_000,
        timeout,
        ..every_ten_seconds()
    });
    bench.source_ended();
    let mut message = None;
    for id in 1..20 {
        let commands = bench.decline(id, sink());
        message = failed_job(&commands).map(str::to_owned);
        if message.is_some() {
            assert_eq!(id, 6, "{message:?}");
            break;
        }
        for command in commands {
            if let Command::Storage(StorageCall::Discard { discard, .. }) = command {
                bench.on(Event::Storage(StorageAnswer::DiscardDone { discard, failure: None }));
            }
        }
        bench.wait(SECOND);
    }
    let message = message.unwrap();
    assert!(message.contains("final checkpoint") && message.contains("disk full"), "{message}");
}

#[test]
fn a_register_that_is_broken_or_taken_over_still_answers_the_end() {
    // broken: it has vanished
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_register(1);
    bench.on(Event::Storage(StorageAnswer::RegisterUpdated {
        outcome: RegisterOutcome::Unknown("timed out".into()),
    }));
    let commands =
        bench.on(Event::Storage(StorageAnswer::RegisterRead { result: Ok(FoundRegister::Missing) }));
    assert!(failed_job(&commands).is_some(), "{commands:?}");
    let commands = bench.on(Event::AttemptRequested);
    assert!(failed_job(&commands).is_some(), "whoever waits for an attempt waits for ever: {commands:?}");
    let commands = bench.on(Event::JobEnded { outcome: JobOutcome::Failed });
    assert!(matches!(unrecorded(&commands), Some((JobOutcome::Failed, _))), "{commands:?}");
    // the same while the end itself is written
    let mut bench = Bench::running(every_ten_seconds());
    bench.on(Event::JobEnded { outcome: JobOutcome::Cancelled });
    bench.on(Event::Storage(StorageAnswer::RegisterUpdated {
        outcome: RegisterOutcome::Unknown("timed out".into()),
    }));
    let commands =
        bench.on(Event::Storage(StorageAnswer::RegisterRead { result: Ok(FoundRegister::Missing) }));
    assert!(matches!(unrecorded(&commands), Some((JobOutcome::Cancelled, _))), "{commands:?}");
}
