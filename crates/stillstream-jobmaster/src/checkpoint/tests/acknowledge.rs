use super::*;

fn files(path: &str) -> Vec<DiscardTarget> {
    vec![DiscardTarget::Files(vec![path.to_owned()])]
}

fn tolerant() -> CheckpointConfig {
    CheckpointConfig { tolerable_failed_checkpoints: 99, ..every_ten_seconds() }
}

#[test]
fn the_last_acknowledgement_writes_metadata_with_all_handles() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.now = SECOND;
    bench.trigger(1);
    assert_eq!(bench.ack(1, sink()), []);
    let commands = bench.ack(1, source());
    let [Command::Storage(StorageCall::WriteMetadata { metadata, .. })] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((metadata.id, metadata.triggered_at_ms), (CheckpointId(1), 1_001_000));
    assert_eq!((metadata.generation, metadata.kind), (Generation(1), CheckpointKind::Checkpoint));
    let names: Vec<_> = metadata.operators.iter().map(|operator| operator.name.as_str()).collect();
    assert_eq!((names, metadata.state_len()), (vec!["flights", "out"], 200));
}

#[test]
fn a_second_acknowledgement_of_the_same_subtask_changes_and_deletes_nothing() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    bench.ack(1, source());
    assert_eq!(bench.ack(1, source()), []);
    bench.ack(1, sink());
    assert_eq!(bench.ack(1, sink()), []);
}

#[test]
fn the_files_of_a_subtask_that_takes_no_part_are_deleted_unless_the_checkpoint_names_them() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    bench.ack(1, source());
    let stranger = |snapshot| Event::Acknowledge {
        generation: Generation(1),
        checkpoint: CheckpointId(1),
        subtask: SubtaskId::new(7, 7),
        snapshot,
        metrics: AckMetrics::default(),
    };
    let commands = bench.on(stranger(state(sink(), "chk-1/stranger")));
    assert_eq!(discarded(&commands), files("chk-1/stranger"));
    let commands = bench.on(stranger(state(source(), &format!("chk-1/{}", source()))));
    assert_eq!(discarded(&commands), []);
}

#[test]
fn a_late_acknowledgement_has_its_files_deleted_and_changes_nothing() {
    let mut bench = Bench::running(tolerant());
    bench.trigger(1);
    bench.decline(1, source());
    let event = bench.ack_event(1, sink());
    let commands = bench.all(event);
    assert!(commands.iter().any(|c| matches!(c, Command::Warn(text) if text.contains("too late"))));
    assert_eq!(discarded(&commands), files("chk-1/1#0"));
    bench.complete(2);
}

#[test]
fn the_last_16_aborted_ids_tell_late_from_unknown() {
    let mut bench = Bench::running(CheckpointConfig { max_concurrent: 100, ..tolerant() });
    for id in 1..=8 {
        bench.trigger(id);
        bench.decline(id, sink());
    }
    bench.complete_reserved(9..=17);
    let text = |commands: Vec<Command>| {
        commands.into_iter().find_map(|c| match c {
            Command::Warn(text) => Some(text),
            _ => None,
        })
    };
    let (first, second) = (bench.ack_event(1, sink()), bench.ack_event(2, sink()));
    assert!(text(bench.all(first)).unwrap().contains("which is not under way"));
    assert!(text(bench.all(second)).unwrap().contains("too late"));
}

impl Bench {
    /// Triggers and declines checkpoints whose ids may have to be reserved first.
    fn complete_reserved(&mut self, ids: std::ops::RangeInclusive<u64>) {
        for id in ids {
            let commands = self.request(id, true);
            if matches!(commands[..], [Command::Storage(StorageCall::UpdateRegister { .. })]) {
                self.register_written();
            }
            self.decline(id, sink());
        }
    }
}

#[test]
fn an_acknowledgement_of_another_generation_has_its_files_deleted() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    let stale = bench.ack_event(1, sink());
    bench.on(Event::AttemptStopped { generation: bench.generation, reason: "x".into(), restarts: true });
    bench.start();
    assert_eq!(discarded(&bench.on(stale)), files("chk-1/1#0"));
}

#[test]
fn a_repeated_acknowledgement_of_a_completed_checkpoint_never_deletes_its_files() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.complete(1);
    let stale = bench.ack_event(1, sink());
    assert_eq!(bench.on(stale.clone()), []);
    bench.on(Event::AttemptStopped { generation: bench.generation, reason: "x".into(), restarts: true });
    bench.start();
    assert_eq!(bench.on(stale), []);
}

#[test]
fn files_of_an_id_that_was_never_used_or_that_lie_elsewhere_are_left_alone() {
    let mut bench = Bench::running(tolerant());
    assert_eq!(bench.ack(5, sink()), []);
    bench.trigger(1);
    bench.decline(1, source());
    let snapshot = state(sink(), "shared/7");
    let (generation, checkpoint, subtask) = (bench.generation, CheckpointId(1), sink());
    let metrics = AckMetrics::default();
    let event = Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics };
    assert_eq!(bench.on(event), []);
}

#[test]
fn state_of_an_operator_that_the_task_does_not_run_fails_the_checkpoint() {
    let mut bench = Bench::running(tolerant());
    bench.trigger(1);
    let (generation, checkpoint, subtask) = (bench.generation, CheckpointId(1), sink());
    let (snapshot, metrics) = (state(source(), "chk-1/x"), AckMetrics::default());
    let commands = bench.on(Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics });
    assert_eq!((aborted(&commands), discarded(&commands)), (vec![1], directory(1)));
}

#[test]
fn a_decline_aborts_tells_all_tasks_and_deletes() {
    let mut bench = Bench::running(tolerant());
    bench.complete(1);
    bench.trigger(2);
    bench.ack(2, source());
    let commands = bench.decline(2, sink());
    let notice =
        Command::Tell { generation: Generation(1), control: Control::Aborted { id: CheckpointId(2) } };
    assert_eq!(commands[0], notice);
    assert_eq!(discarded(&commands), directory(2));
    assert_eq!(refused(&commands), [(2, FailureReason::CheckpointAsyncException)]);
}

#[test]
fn a_decline_of_what_is_not_under_way_or_by_one_that_has_acknowledged_does_nothing() {
    let mut bench = Bench::running(every_ten_seconds());
    assert_eq!(bench.decline(4, sink()), []);
    bench.trigger(1);
    bench.ack(1, sink());
    assert_eq!(bench.decline(1, sink()), []);
}
