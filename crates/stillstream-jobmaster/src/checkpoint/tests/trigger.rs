use super::*;
use crate::checkpoint::ids::ID_RESERVE;

#[test]
fn the_timer_triggers_the_sources_at_the_interval() {
    let mut bench = Bench::running(every_ten_seconds());
    assert_eq!(bench.wait(SECOND * 9), []);
    assert_eq!(bench.wait(SECOND), [trigger(1, 1)]);
}

#[test]
fn the_alarm_is_set_to_the_next_trigger_and_then_to_the_timeout() {
    let mut bench = Bench::new(
        CheckpointConfig { timeout: SECOND * 3, interval: Some(SECOND * 10), ..every_ten_seconds() },
        None,
    );
    bench.start();
    bench.now = SECOND * 10;
    let commands = bench.all(Event::Tick);
    assert!(commands.contains(&Command::WakeAt(SECOND * 13)), "{commands:?}");
}

#[test]
fn a_periodic_request_at_the_limit_waits_and_is_not_lost() {
    let mut bench = Bench::running(every_ten_seconds());
    bench.trigger(1);
    assert_eq!(bench.wait(SECOND * 10), []);
    assert_eq!(bench.wait(SECOND * 10), []);
    bench.ack(1, source());
    bench.ack(1, sink());
    bench.metadata(1, WriteOutcome::Written);
    assert_eq!(bench.register_written().last(), Some(&trigger(1, 2)));
}

#[test]
fn a_periodic_request_inside_the_pause_comes_again_when_the_pause_is_over() {
    let mut bench = Bench::running(CheckpointConfig { min_pause: SECOND * 4, ..every_ten_seconds() });
    bench.now = SECOND * 8;
    bench.complete(1);
    assert_eq!(bench.wait(SECOND * 2), []);
    assert_eq!(bench.wait(SECOND), []);
    assert_eq!(bench.wait(SECOND), [trigger(1, 2)]);
}

#[test]
fn a_request_without_a_running_attempt_is_refused() {
    let mut bench = Bench::new(every_ten_seconds(), None);
    let commands = bench.savepoint(7, "/s/7");
    assert_eq!(refused(&commands), [(7, FailureReason::NotAllRequiredTasksRunning)]);
}

#[test]
fn when_the_reserve_of_ids_is_used_up_more_are_reserved_before_a_task_hears_of_one() {
    let config =
        CheckpointConfig { tolerable_failed_checkpoints: 100, max_concurrent: 100, ..every_ten_seconds() };
    let mut bench = Bench::running(config);
    for id in 1..=ID_RESERVE {
        bench.trigger(id);
        bench.decline(id, sink());
    }
    let commands = bench.request(9, true);
    let old = record(JobOutcome::Running, 1, 8, &[]);
    let update = Command::Storage(StorageCall::UpdateRegister {
        expected: Some(old),
        record: record(JobOutcome::Running, 1, 17, &[]),
    });
    assert_eq!(commands, [update]);
    assert_eq!(bench.register_written(), [trigger(1, 9)]);
}

/// A bench whose reserve of ids is used up, and which has just asked for more for checkpoint
/// `ID_RESERVE` + 1.
fn used_up(tolerable_failed_checkpoints: u32) -> Bench {
    let config = CheckpointConfig { max_concurrent: 100, ..every_ten_seconds() };
    let mut bench = Bench::running(CheckpointConfig { tolerable_failed_checkpoints, ..config });
    for id in 1..=ID_RESERVE {
        bench.trigger(id);
    }
    bench.request(ID_RESERVE + 1, true);
    bench
}

#[test]
fn ids_that_cannot_be_reserved_count_as_a_failure_and_the_next_trigger_works() {
    let refuse = |bench: &mut Bench| {
        bench.on(Event::Storage(StorageAnswer::RegisterUpdated {
            outcome: RegisterOutcome::Failed("no route to host".into()),
        }))
    };
    let mut bench = used_up(0);
    let commands = refuse(&mut bench);
    assert_eq!(refused(&commands), [(9, FailureReason::IoException)]);
    let message = failed_job(&commands).unwrap();
    assert!(
        message.contains("no route to host") && message.contains("tolerable-failed-checkpoints"),
        "{message}"
    );
    let mut bench = used_up(1);
    assert_eq!(failed_job(&refuse(&mut bench)), None);
    bench.request(10, true);
    assert_eq!(bench.register_written(), [trigger(1, 10)]);
}

#[test]
fn a_reservation_that_is_never_answered_is_given_up() {
    let mut bench = used_up(100);
    let commands = bench.wait(SECOND * 600);
    assert!(refused(&commands).contains(&(9, FailureReason::IoException)), "{commands:?}");
    assert_eq!(bench.register_written(), [trigger(1, 10)], "nobody waits for 9 any more");
}

#[test]
fn a_full_checkpoint_is_full_for_every_task_and_the_next_one_is_as_configured() {
    let mut bench = Bench::running(every_ten_seconds());
    let full = Event::TriggerRequested { request: RequestId(5), savepoint: None, full: true, forced: false };
    assert_eq!(bench.on(full.clone()), [told(1, 1, None, true, false)]);
    // one that has to wait for its turn stays full
    assert_eq!(bench.on(full), []);
    bench.ack(1, source());
    bench.ack(1, sink());
    bench.metadata(1, WriteOutcome::Written);
    assert_eq!(bench.register_written().last(), Some(&told(1, 2, None, true, false)));
    bench.ack(2, source());
    bench.ack(2, sink());
    bench.metadata(2, WriteOutcome::Written);
    bench.register_written();
    assert_eq!(bench.wait(SECOND * 10), [told(1, 3, None, false, false)]);
}

#[test]
fn deletions_that_hang_do_not_stop_checkpoints_for_longer_than_one_interval() {
    let mut bench = Bench::running(every_ten_seconds());
    for id in 1..=3 {
        bench.complete(id);
    }
    // two deletions are under way: more than may run at once
    assert_eq!(bench.request(4, false), []);
    assert!(bench.wait(SECOND * 10).contains(&trigger(1, 4)));
}

#[test]
fn without_an_interval_nothing_is_triggered_by_time() {
    let mut bench = Bench::running(CheckpointConfig::default());
    assert_eq!(bench.wait(SECOND * 100_000), []);
}

#[test]
fn the_first_periodic_checkpoint_comes_at_random_between_the_pause_and_the_interval_and_the_others_at_the_interval()
 {
    for (share, pause, first) in
        [(0.25, 0, 2_500), (1.0, 0, 10_000), (0.5, 4, 7_000), (f64::NAN, 0, 10_000), (0.3, 60, 60_000)]
    {
        let config = CheckpointConfig { min_pause: SECOND * pause, ..every_ten_seconds() };
        let mut bench = Bench::new(config, None);
        bench.coordinator = CheckpointCoordinator::new(CoordinatorSetup {
            job: JobId::from_name("job"),
            job_name: "job".into(),
            config: CheckpointConfig { min_pause: SECOND * pause, ..every_ten_seconds() },
            register: None,
            first_delay: share,
            end_timeout: SECOND,
        })
        .unwrap();
        bench.start();
        let first = Duration::from_millis(first);
        assert_eq!(bench.wait(first - Duration::from_millis(1)), [], "{share} {pause}");
        let commands = bench.wait(Duration::from_millis(1));
        assert_eq!(commands, [trigger(1, 1)], "{share} {pause}");
    }
}

#[test]
fn each_tick_says_when_the_next_one_is_wanted_for_an_older_wish_may_have_replaced_the_newest() {
    let mut bench = Bench::running(every_ten_seconds());
    for _ in 0..2 {
        bench.now += SECOND / 100;
        let commands = bench.coordinator.handle(Event::Tick, at(bench.now));
        assert!(commands.iter().any(|command| matches!(command, Command::WakeAt(_))), "{commands:?}");
    }
}
