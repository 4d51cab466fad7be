//! Random schedules of one job: acknowledgements in any order, lost, late and doubled; storage and register that fail, or
//! that answer nobody knows what; attempts that die; coordinators that crash between two commands or go on although another
//! one took over. After each step the invariants are checked; at the end the job must finish and nothing may lie around.
//!
//! Everything follows from the seed: a failing one is named and can be run alone.

mod world;

use std::time::Duration;

use stillstream_jobmaster::*;
use stillstream_types::*;
use world::{End, Faults, World};

fn run(seed: u64, faults: Faults) -> World {
    let mut world = World::new(seed, faults);
    for _ in 0..400 {
        world.step();
    }
    world.end_well();
    world
}

#[test]
fn no_schedule_breaks_an_invariant_and_every_job_finishes_in_the_end() {
    let (mut completed, mut failed, mut crashes, mut unknown, mut fenced) = (0, 0, 0, 0, 0);
    let (mut written, mut deleted, mut refused) = (0, 0, 0);
    for seed in 0..4000 {
        let world = run(seed, Faults::all());
        completed += world.completed;
        failed += world.aborted;
        crashes += world.crashes;
        unknown += world.unknown_writes;
        fenced += world.fenced;
        written += world.shared_written;
        deleted += world.shared_deleted;
        refused += world.refused;
    }
    // a simulation in which nothing happens proves nothing
    println!(
        "{completed} completed, {failed} aborted, {crashes} crashes, {unknown} unknown writes, {fenced} fenced; \
         {written} shared files written, {deleted} deleted, {refused} acknowledgements refused"
    );
    assert!(completed > 10_000 && failed > 4_000 && crashes > 4_000 && unknown > 4_000 && fenced > 300);
    assert!(written > 50_000 && deleted > 50_000);
    // only a task that hears late of a completed checkpoint can name what went with an older one
    assert!(refused < completed / 50, "{refused} refused, {completed} completed");
}

#[test]
fn a_crash_at_any_command_loses_nothing_and_leaves_nothing_behind() {
    for retained in [1, 2] {
        let calm = |crash_at| {
            let mut world = World::new(7, Faults { crash_at, ..Faults::none() });
            world.config.num_retained = retained;
            world.restart_all();
            for _ in 0..300 {
                world.step();
            }
            let commands = world.commands;
            world.end_well();
            (commands, world)
        };
        let (commands, _) = calm(None);
        assert!(commands >= 100, "{commands}");
        let (mut refused, mut completed) = (0, 0);
        for at in 0..commands {
            let (_, world) = calm(Some(at));
            assert!(world.crashes == 1 && world.completed > 3, "{} crashes at {at}", world.crashes);
            refused += world.refused;
            completed += world.completed;
        }
        // notices come in any order here: one that comes late makes a task build on what went meanwhile
        assert!(refused < completed / 50, "{refused} refused, {completed} completed");
    }
}

#[test]
fn every_end_comes_in_its_time_whatever_storage_does_and_the_job_can_go_on_after_it() {
    let (mut recorded, mut unrecorded, mut finished, mut before) = (0, 0, 0, 0);
    for seed in 0..3000 {
        let mut world = World::new(seed, Faults::all());
        for _ in 0..20 + seed % 300 {
            world.step();
        }
        let outcome = if seed % 2 == 0 { JobOutcome::Cancelled } else { JobOutcome::Failed };
        let faults =
            [Faults::away(), Faults::of_things(2), Faults::of_things(8), Faults::none()][seed as usize % 4];
        match world.end_now(outcome, faults) {
            Some(End::Recorded(JobOutcome::Finished)) => finished += 1,
            Some(End::Recorded(found)) => {
                assert_eq!(found, outcome, "seed {seed}");
                assert!(!faults.away, "seed {seed}");
                recorded += 1;
            }
            Some(End::Unrecorded(_)) => unrecorded += 1,
            Some(End::SteppedDown) => {}
            None => before += 1,
        }
        world.restart_all();
        world.end_well();
    }
    println!(
        "{recorded} recorded, {unrecorded} not, {finished} finished all the same, {before} had ended before"
    );
    assert!(recorded > 500 && unrecorded > 500 && finished > 0, "{recorded} {unrecorded} {finished}");
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..20 {
        assert_eq!(run(seed, Faults::all()).trace, run(seed, Faults::all()).trace);
    }
}

/// The cost of an acknowledgement must not grow with the number of tasks. Were it linear, the larger job would be 100 times
/// slower for the same number of acknowledgements; a factor of 10 leaves room for caches and a busy machine.
#[test]
fn an_acknowledgement_costs_about_the_same_with_a_hundred_tasks_and_with_ten_thousand() {
    let small = time_of_acknowledgements(100, 2000);
    let large = time_of_acknowledgements(10_000, 20);
    assert!(large < small * 10, "200 000 acknowledgements: {small:?} with 100 tasks, {large:?} with 10 000");
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn time_of_acknowledgements(count: u32, checkpoints: u64) -> Duration {
    let config = CheckpointConfig { interval: Some(Duration::from_secs(1)), ..CheckpointConfig::default() };
    let (job, job_name) = (JobId::from_name("large"), "large".to_owned());
    let (first_delay, end_timeout) = (1.0, Duration::from_secs(180));
    let setup =
        CoordinatorSetup { job, job_name, config, zero_ms: 0, register: None, first_delay, end_timeout };
    let mut coordinator = CheckpointCoordinator::new(setup).unwrap();
    let tasks: Vec<TaskInfo> = (0..count)
        .map(|n| TaskInfo {
            id: SubtaskId::new(n / 10, n % 10),
            name: "task".into(),
            operators: Vec::new(),
            is_source: n < 10,
        })
        .collect();
    let mut now = Duration::ZERO;
    let written = || Event::RegisterUpdated { outcome: RegisterOutcome::Written };
    coordinator.handle(Event::AttemptRequested, now);
    coordinator.handle(written(), now);
    coordinator.handle(Event::ReferencesRead { references: References::default() }, now);
    let generation = Generation(1);
    coordinator.handle(Event::AttemptStarted { generation, tasks: tasks.clone() }, now);
    let (mut commands_of_acks, mut time) = (0, Duration::ZERO);
    for n in 1..=checkpoints {
        let checkpoint = CheckpointId(n);
        now += Duration::from_secs(1);
        let commands = coordinator.handle(Event::Tick, now);
        assert!(commands.contains(&Command::TriggerSources { generation, checkpoint }));
        let start = std::time::Instant::now();
        for task in &tasks {
            let (subtask, snapshot, metrics) = (task.id, TaskSnapshot::default(), AckMetrics::default());
            let event = Event::Acknowledge { generation, checkpoint, subtask, snapshot, metrics };
            commands_of_acks += coordinator.handle(event, now).len() as u64;
        }
        time += start.elapsed();
        coordinator.handle(Event::MetadataWritten { checkpoint, outcome: WriteOutcome::Written }, now);
        for command in coordinator.handle(written(), now) {
            if let Command::Discard { discard, .. } = command {
                coordinator.handle(Event::DiscardDone { discard, failure: None }, now);
            }
        }
    }
    assert_eq!(commands_of_acks, checkpoints, "only the last acknowledgement of each has an effect");
    assert_eq!(coordinator.statistics().counts.completed, checkpoints);
    time
}
