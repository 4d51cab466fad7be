use super::*;

#[test]
fn metadata_then_register_then_the_announcement_then_deletions() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.complete(1);
    let commands = bench.up_to_register(2);
    let expected = Some(record(JobOutcome::Running, 1, 9, &[1]));
    let new = record(JobOutcome::Running, 1, 10, &[2]);
    assert_eq!(commands, [Command::Storage(StorageCall::UpdateRegister { expected, record: new })]);
    let commands = bench.register_written();
    let complete =
        Command::Tell { generation: Generation(1), control: Control::Complete { id: CheckpointId(2) } };
    let [
        first,
        Command::Reply { request, result: Ok(report) },
        Command::Storage(StorageCall::Discard { target, .. }),
    ] = &commands[..]
    else {
        panic!("{commands:?}");
    };
    assert_eq!((first, *request, &target.clone()), (&complete, RequestId(2), &directory(1)[0]));
    assert_eq!((report.id, report.path.as_str(), report.size_bytes), (CheckpointId(2), "chk-2", 200));
    assert_eq!(bench.coordinator.completed(), [reference(2)]);
}

#[test]
fn as_many_as_configured_are_retained() {
    let mut bench = Bench::running(CheckpointConfig { num_retained: 2, ..every_ten_seconds() });
    assert_eq!(discarded(&bench.complete(1)), []);
    assert_eq!(discarded(&bench.complete(2)), []);
    assert_eq!(discarded(&bench.complete(3)), directory(1));
    assert_eq!(bench.coordinator.completed(), [reference(2), reference(3)]);
}

#[test]
fn a_register_write_that_surely_failed_aborts_the_checkpoint_and_the_next_one_works() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.complete(1);
    bench.up_to_register(2);
    let commands = bench.on(Event::Storage(StorageAnswer::RegisterUpdated {
        outcome: RegisterOutcome::Failed("refused".into()),
    }));
    assert_eq!((announced(&commands), aborted(&commands)), (vec![], vec![2]));
    assert_eq!(discarded(&commands), directory(2));
    assert_eq!(failed_job(&commands), None, "FINALIZE_CHECKPOINT_FAILURE does not count");
    assert_eq!(bench.coordinator.completed(), [reference(1)]);
    assert_eq!(announced(&bench.complete(3)), [3]);
}

#[test]
fn a_register_write_of_unknown_outcome_leaves_the_files_and_is_settled_by_reading() {
    for happened in [true, false] {
        let mut bench = Bench::running(every_ten_seconds());
        bench.complete(1);
        bench.up_to_register(2);
        let unknown = Event::Storage(StorageAnswer::RegisterUpdated {
            outcome: RegisterOutcome::Unknown("timed out".into()),
        });
        let commands = bench.all(unknown);
        assert!(commands.iter().any(|c| matches!(c, Command::Warn(text) if text.contains("not known"))));
        assert!(commands.contains(&Command::Storage(StorageCall::ReadRegister)));
        assert_eq!((announced(&commands), discarded(&commands)), (vec![], vec![]));
        let found = if happened {
            record(JobOutcome::Running, 1, 10, &[2])
        } else {
            record(JobOutcome::Running, 1, 9, &[1])
        };
        let commands =
            bench.on(Event::Storage(StorageAnswer::RegisterRead { result: Ok(FoundRegister::Own(found)) }));
        if happened {
            assert_eq!((announced(&commands), discarded(&commands)), (vec![2], directory(1)));
        } else {
            assert!(
                matches!(commands[..], [Command::Storage(StorageCall::UpdateRegister { .. })]),
                "written once more"
            );
            assert_eq!(announced(&bench.register_written()), [2]);
        }
    }
}

#[test]
fn an_open_register_write_outlives_the_timeout_without_losing_files_and_is_counted_once() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.up_to_register(1);
    bench.on(Event::Storage(StorageAnswer::RegisterUpdated {
        outcome: RegisterOutcome::Unknown("timed out".into()),
    }));
    let commands = bench.wait(SECOND * 600);
    assert!(failed_job(&commands).unwrap().contains("not known whether it is completed"));
    assert_eq!((discarded(&commands), aborted(&commands)), (vec![], vec![]));
    assert_eq!(failed_job(&bench.wait(SECOND * 600)), None);
    bench.on(Event::Storage(StorageAnswer::RegisterRead { result: Err("still down".into()) }));
    assert!(bench.wait(SECOND * 2).contains(&Command::Storage(StorageCall::ReadRegister)));
    let found = record(JobOutcome::Running, 1, 9, &[1]);
    assert_eq!(
        announced(
            &bench.on(Event::Storage(StorageAnswer::RegisterRead { result: Ok(FoundRegister::Own(found)) }))
        ),
        [1]
    );
}

#[test]
fn metadata_that_was_not_written_or_not_surely_written_aborts_and_deletes() {
    for outcome in [WriteOutcome::Failed("full".into()), WriteOutcome::Unknown("timed out".into())] {
        let mut bench = Bench::running(every_ten_seconds());
        bench.trigger(1);
        bench.ack(1, source());
        bench.ack(1, sink());
        let commands = bench.metadata(1, outcome);
        assert_eq!((aborted(&commands), discarded(&commands)), (vec![1], directory(1)));
        assert_eq!(announced(&bench.complete(2)), [2]);
    }
}

#[test]
fn files_of_a_checkpoint_aborted_during_its_metadata_write_are_deleted_after_that_write() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    bench.ack(1, source());
    bench.ack(1, sink());
    let commands =
        bench.on(Event::AttemptStopped { generation: bench.generation, reason: "x".into(), restarts: true });
    assert_eq!(discarded(&commands), []);
    assert_eq!(discarded(&bench.metadata(1, WriteOutcome::Written)), directory(1));
}

#[test]
fn a_later_checkpoint_that_completes_first_drops_earlier_ones_but_no_forced_one() {
    let mut bench =
        Bench::running(CheckpointConfig { max_concurrent: 3, num_retained: 2, ..every_ten_seconds() });
    bench.request(1, false);
    bench.trigger(2);
    let commands = bench.complete(3);
    assert_eq!((announced(&commands), aborted(&commands)), (vec![3], vec![1]));
    assert_eq!(refused(&commands), [(1, FailureReason::CheckpointSubsumed)]);
    bench.ack(2, source());
    bench.ack(2, sink());
    bench.metadata(2, WriteOutcome::Written);
    assert_eq!(announced(&bench.register_written()), [2]);
    assert_eq!(bench.coordinator.latest_completed(), Some(&reference(3)));
}

#[test]
fn a_forced_checkpoint_that_would_be_dropped_at_once_does_not_replace_the_newest() {
    let mut bench = Bench::running(CheckpointConfig { max_concurrent: 3, ..every_ten_seconds() });
    bench.trigger(1);
    bench.complete(2);
    bench.ack(1, source());
    bench.ack(1, sink());
    let commands = bench.metadata(1, WriteOutcome::Written);
    assert_eq!(refused(&commands), [(1, FailureReason::CheckpointSubsumed)]);
    assert_eq!(discarded(&commands), directory(1));
    assert_eq!(bench.coordinator.completed(), [reference(2)]);
}
