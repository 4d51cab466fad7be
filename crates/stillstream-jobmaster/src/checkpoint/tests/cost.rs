use super::*;

/// The cost of an acknowledgement must not grow with the number of tasks. Were it linear, the larger job
/// would be 100 times slower for the same number of acknowledgements; a factor of 10 leaves room for caches
/// and a busy machine.
#[test]
fn an_acknowledgement_costs_about_the_same_with_a_hundred_tasks_and_with_ten_thousand() {
    let small = time_of_acknowledgements(100, 2000);
    let large = time_of_acknowledgements(10_000, 20);
    assert!(large < small * 10, "200 000 acknowledgements: {small:?} with 100 tasks, {large:?} with 10 000");
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn time_of_acknowledgements(count: u32, checkpoints: u64) -> Duration {
    let mut bench =
        Bench::new(CheckpointConfig { interval: Some(SECOND), ..CheckpointConfig::default() }, None);
    let tasks: Vec<TaskInfo> = (0..count)
        .map(|n| TaskInfo {
            id: SubtaskId::new(n / 10, n % 10),
            name: "task".into(),
            operators: Vec::new(),
            is_source: n < 10,
        })
        .collect();
    bench.on(Event::AttemptRequested);
    bench.register_written();
    bench.references_read(&[]);
    let generation = Generation(1);
    bench.on(Event::AttemptStarted { generation, tasks: tasks.clone(), enumerators: Default::default() });
    let (mut commands_of_acks, mut time) = (0, Duration::ZERO);
    for n in 1..=checkpoints {
        assert!(bench.wait(SECOND).contains(&trigger(1, n)));
        let start = std::time::Instant::now();
        for task in &tasks {
            let (subtask, snapshot, metrics) = (task.id, TaskSnapshot::default(), AckMetrics::default());
            let event =
                Event::Acknowledge { generation, checkpoint: CheckpointId(n), subtask, snapshot, metrics };
            commands_of_acks += bench.coordinator.handle(event, at(bench.now)).len() as u64;
        }
        time += start.elapsed();
        bench.metadata(n, WriteOutcome::Written);
        for command in bench.register_written() {
            if let Command::Storage(StorageCall::Discard { discard, .. }) = command {
                bench.on(Event::Storage(StorageAnswer::DiscardDone { discard, failure: None }));
            }
        }
    }
    assert_eq!(commands_of_acks, checkpoints, "only the last acknowledgement of each has an effect");
    assert_eq!(bench.coordinator.statistics().counts.completed, checkpoints);
    time
}
