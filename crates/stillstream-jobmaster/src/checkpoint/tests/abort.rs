use super::*;
use crate::checkpoint::statistics::{CheckpointStatus, SubtaskPhase, explain};

#[test]
fn an_expired_checkpoint_names_the_subtasks_that_did_not_acknowledge() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    bench.ack(1, source());
    assert_eq!(bench.wait(SECOND * 599).iter().filter(|c| matches!(c, Command::FailJob { .. })).count(), 0);
    let commands = bench.wait(SECOND);
    assert_eq!(refused(&commands)[0], (1, FailureReason::CheckpointExpired));
    let message = failed_job(&commands).unwrap();
    assert!(message.contains("1 of 2 subtasks did not acknowledge: out (1#0)"), "{message}");
    assert!(message.contains("CHECKPOINT_EXPIRED"), "{message}");
    assert_eq!(discarded(&commands), directory(1));
    let summary = &bench.coordinator.statistics().history[0];
    assert!(matches!(summary.status, CheckpointStatus::Failed(_)));
    assert!(explain(summary).contains("out (1#0)"));
}

#[test]
fn a_checkpoint_that_the_end_of_its_attempt_cuts_short_blames_no_subtask() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    let reason = "the job was cancelled".to_owned();
    let commands = bench.all(Event::AttemptStopped { generation: bench.generation, reason, restarts: true });
    let told = commands.iter().find_map(|command| match command {
        Command::Info(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(told, Some("checkpoint 1 was given up: the attempt ended: the job was cancelled"));
    assert!(!commands.iter().any(|command| matches!(command, Command::Warn(_))), "{commands:?}");
}

#[test]
fn so_many_failures_in_a_row_as_tolerated_do_not_fail_the_job() {
    let mut bench =
        Bench::running(CheckpointConfig { tolerable_failed_checkpoints: 2, ..every_ten_seconds() });
    let decline = |bench: &mut Bench, id| {
        bench.now += SECOND * 10;
        bench.trigger(id);
        failed_job(&bench.decline(id, sink())).map(str::to_owned)
    };
    // the timer's requests wait behind those by hand
    bench.coordinator.requests.stop_timer();
    assert_eq!(decline(&mut bench, 1), None);
    assert_eq!(decline(&mut bench, 2), None);
    bench.now += SECOND * 10;
    bench.complete(3);
    assert_eq!(decline(&mut bench, 4), None);
    assert_eq!(decline(&mut bench, 5), None);
    let message = decline(&mut bench, 6).unwrap();
    assert!(message.contains("out (1#0) declined: disk full") && message.contains("3 in a row"), "{message}");
}

#[test]
fn storage_that_fails_for_five_seconds_and_heals_costs_checkpoints_but_nothing_else() {
    let config = CheckpointConfig {
        interval: Some(SECOND),
        tolerable_failed_checkpoints: 10,
        ..CheckpointConfig::default()
    };
    let mut bench = Bench::running(config);
    for id in 1..=5 {
        assert_eq!(bench.wait(SECOND), [trigger(1, id)]);
        bench.ack(id, source());
        let commands = bench.decline(id, sink());
        assert_eq!((failed_job(&commands), discarded(&commands)), (None, directory(id)));
        bench.on(Event::Storage(StorageAnswer::DiscardDone {
            discard: crate::DiscardId(id - 1),
            failure: Some("503".into()),
        }));
    }
    assert_eq!(bench.wait(SECOND), [trigger(1, 6)]);
    bench.ack(6, source());
    bench.ack(6, sink());
    bench.metadata(6, WriteOutcome::Written);
    assert_eq!(announced(&bench.register_written()), [6]);
}

#[test]
fn statistics_say_duration_size_and_the_slowest_subtask_with_its_phase() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    bench.now += SECOND;
    bench.ack(1, source());
    bench.now += SECOND;
    let under_way = bench.coordinator.in_progress();
    assert_eq!((under_way.len(), under_way[0].acknowledged, under_way[0].subtasks), (1, 1, 2));
    bench.ack(1, sink());
    bench.metadata(1, WriteOutcome::Written);
    bench.now += SECOND;
    bench.register_written();
    let statistics = bench.coordinator.statistics();
    let counts = statistics.counts;
    assert_eq!((counts.triggered, counts.in_progress, counts.completed, counts.failed), (1, 0, 1, 0));
    let last = statistics.last_completed.as_ref().unwrap();
    assert_eq!((last.id, last.duration, last.size_bytes), (CheckpointId(1), SECOND * 3, 200));
    let slowest = last.slowest.as_ref().unwrap();
    assert_eq!((slowest.name.as_str(), slowest.after), ("out", SECOND * 2));
    assert_eq!((slowest.phase, slowest.phase_took), (SubtaskPhase::Asynchronous, Duration::from_millis(40)));
    assert_eq!(last.phases.asynchronous, Duration::from_millis(40), "the longest over both subtasks");
}
