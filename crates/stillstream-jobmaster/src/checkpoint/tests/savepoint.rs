//! Savepoints of a job that goes on.

use super::*;
use crate::checkpoint::statistics::CheckpointStatus;

const PLACE: &str = "/s/savepoint-1";

impl Bench {
    /// A savepoint under this id, whose parts are all there: its metadata is being written.
    fn savepoint_up_to_metadata(&mut self, id: u64) -> Vec<Command> {
        let commands = self.savepoint(id, PLACE);
        assert!(commands.contains(&trigger_as(self.generation.0, id, Some(target(PLACE)), false)));
        self.ack(id, source());
        self.ack(id, sink())
    }
}

fn discarded_savepoint() -> Vec<DiscardTarget> {
    vec![DiscardTarget::Savepoint(PLACE.into())]
}

#[test]
fn a_savepoint_is_answered_with_its_location_and_changes_neither_the_register_nor_the_tasks() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.complete(1);
    let commands = bench.savepoint_up_to_metadata(2);
    let [Command::Storage(StorageCall::WriteMetadata { metadata, savepoint })] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((metadata.kind, savepoint.as_deref()), (CheckpointKind::Savepoint, Some(PLACE)));
    let before = bench.coordinator.register().cloned();
    let commands = bench.metadata(2, WriteOutcome::Written);
    let [Command::Reply { result: Ok(report), .. }] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!((&*report.path, report.kind), (PLACE, CheckpointKind::Savepoint));
    assert_eq!(bench.coordinator.register(), before.as_ref());
}

#[test]
fn a_job_without_periodic_checkpoints_takes_savepoints() {
    let mut bench = Bench::running(CheckpointConfig::default());
    bench.savepoint_up_to_metadata(1);
    let commands = bench.metadata(1, WriteOutcome::Written);
    assert!(matches!(&commands[..], [Command::Reply { result: Ok(_), .. }]), "{commands:?}");
}

#[test]
fn a_savepoint_waits_neither_for_the_limit_nor_for_the_pause_and_does_not_begin_a_pause() {
    let mut bench = Bench::running(CheckpointConfig { min_pause: SECOND * 10, ..every_ten_seconds() });
    bench.complete(1);
    bench.trigger(2);
    bench.savepoint_up_to_metadata(3);
    bench.metadata(3, WriteOutcome::Written);
    bench.ack(2, source());
    bench.ack(2, sink());
    bench.metadata(2, WriteOutcome::Written);
    bench.register_written();
    bench.now += SECOND * 8;
    bench.savepoint_up_to_metadata(4);
    bench.metadata(4, WriteOutcome::Written);
    assert_eq!(bench.wait(SECOND * 2), [trigger(1, 5)], "the pause is that of checkpoint 2");
}

#[test]
fn a_checkpoint_that_completes_first_does_not_subsume_a_savepoint_nor_the_other_way_round() {
    let mut bench = Bench::running(CheckpointConfig { max_concurrent: 3, ..every_ten_seconds() });
    bench.savepoint(1, PLACE);
    bench.request(2, false);
    bench.savepoint(3, "/s/other");
    for subtask in [source(), sink()] {
        bench.ack(3, subtask);
    }
    let commands = bench.metadata(3, WriteOutcome::Written);
    assert_eq!((aborted(&commands), refused(&commands)), (vec![], vec![]));
    for subtask in [source(), sink()] {
        bench.ack(2, subtask);
    }
    bench.metadata(2, WriteOutcome::Written);
    let commands = bench.register_written();
    assert_eq!((announced(&commands), aborted(&commands)), (vec![2], vec![]));
    for subtask in [source(), sink()] {
        bench.ack(1, subtask);
    }
    assert!(matches!(&bench.metadata(1, WriteOutcome::Written)[..], [Command::Reply { result: Ok(_), .. }]));
}

#[test]
fn a_savepoint_that_fails_is_deleted_and_does_not_count() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.savepoint(1, PLACE);
    let commands = bench.decline(1, sink());
    assert_eq!(refused(&commands), [(1, FailureReason::CheckpointAsyncException)]);
    assert_eq!((aborted(&commands), discarded(&commands)), (vec![1], discarded_savepoint()));
    assert_eq!(failed_job(&commands), None, "no failed checkpoint is tolerated");
    let text = commands.iter().find_map(|command| match command {
        Command::Reply { result: Err(failure), .. } => Some(failure.to_string()),
        _ => None,
    });
    assert!(
        text.as_ref().unwrap().starts_with("savepoint 1 failed: out (1#0) declined: disk full"),
        "{text:?}"
    );
    // the same by its timeout, and while its metadata is written
    bench.savepoint(2, PLACE);
    let commands = bench.wait(SECOND * 600);
    assert_eq!((discarded(&commands), failed_job(&commands)), (discarded_savepoint(), None));
}

#[test]
fn a_savepoint_whose_time_is_over_while_its_metadata_is_written_is_deleted_behind_that() {
    let mut bench = Bench::running(CheckpointConfig::default());
    bench.savepoint_up_to_metadata(1);
    let commands = bench.wait(SECOND * 600);
    assert_eq!(refused(&commands), [(1, FailureReason::CheckpointExpired)]);
    assert_eq!(discarded(&commands), []);
    assert_eq!(discarded(&bench.metadata(1, WriteOutcome::Written)), discarded_savepoint());
    // nobody knows what is there
    bench.savepoint_up_to_metadata(2);
    bench.wait(SECOND * 600);
    assert_eq!(bench.metadata(2, WriteOutcome::Unknown("timed out".into())), []);
}

#[test]
fn a_savepoint_that_may_be_whole_is_left_in_place_and_its_answer_says_so() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.savepoint_up_to_metadata(1);
    let commands = bench.metadata(1, WriteOutcome::Unknown("timed out".into()));
    assert_eq!((discarded(&commands), failed_job(&commands)), (vec![], None));
    let text = commands.iter().find_map(|command| match command {
        Command::Reply { result: Err(failure), .. } => Some(failure.to_string()),
        _ => None,
    });
    let text = text.unwrap();
    assert!(text.contains("left in place") && text.contains(PLACE), "{text}");
}

#[test]
fn what_comes_too_late_for_a_failed_savepoint_is_deleted_and_for_a_whole_one_it_is_left() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.savepoint(1, PLACE);
    bench.decline(1, sink());
    assert_eq!(discarded(&bench.ack(1, source())), discarded_savepoint());
    bench.savepoint_up_to_metadata(2);
    bench.metadata(2, WriteOutcome::Written);
    assert_eq!(bench.ack(2, source()), []);
}

#[test]
fn a_savepoint_of_an_attempt_that_ends_is_deleted() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.savepoint(1, PLACE);
    let generation = bench.generation;
    let commands = bench.on(Event::AttemptStopped { generation, reason: "x".into(), restarts: true });
    assert_eq!(refused(&commands), [(1, FailureReason::JobFailoverRegion)]);
    assert_eq!(discarded(&commands), discarded_savepoint());
}

#[test]
fn the_statistics_know_each_subtask_and_tell_savepoints_from_checkpoints() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    bench.now += SECOND;
    bench.ack(1, source());
    bench.now += SECOND;
    bench.ack(1, sink());
    bench.metadata(1, WriteOutcome::Written);
    bench.register_written();
    bench.savepoint_up_to_metadata(2);
    bench.metadata(2, WriteOutcome::Written);
    let statistics = bench.coordinator.statistics();
    let (checkpoint, savepoint) =
        (statistics.last_completed.as_ref().unwrap(), statistics.last_savepoint.as_ref().unwrap());
    assert_eq!((checkpoint.id, &*checkpoint.path), (CheckpointId(1), "chk-1"));
    assert_eq!((savepoint.id, &*savepoint.path), (CheckpointId(2), PLACE));
    assert_eq!((&savepoint.status, savepoint.triggered_at_ms), (&CheckpointStatus::Completed, 1_002_000));
    let details: Vec<_> = checkpoint.details.iter().map(|d| (d.subtask, d.after, d.size_bytes)).collect();
    assert_eq!(details, [(source(), SECOND, 100), (sink(), SECOND * 2, 100)]);
    assert_eq!(checkpoint.details[0].metrics.asynchronous, Duration::from_millis(40));
}
