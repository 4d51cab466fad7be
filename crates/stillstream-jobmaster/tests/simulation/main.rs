//! Whole job lives in random schedules: deployed, running, failing, restarted, rescaled, cancelled, stopped
//! with a savepoint, drained, suspended, finished; under crashes of the JobManager and rivals that take the
//! job over; messages in any order, lost, late and doubled; storage and register that fail, or of which
//! nobody knows what they did; tasks that fail and workers that do not stop.
//!
//! What must hold is checked after each step: no committed record is lost or doubled, no completed checkpoint
//! misses a file or has a split that was assigned to nobody or will be assigned again, a job ends once and as
//! the register says, a cancel is over in its time; a stop that was answered with success has left a whole
//! snapshot and all output committed, and after one that was not the job runs; a savepoint of a running job
//! changes nothing; and once faults stop the job goes on to its finish.
//!
//! Everything follows from the seed. A failing one prints the line that runs it alone.

mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use stillstream_types::*;
use world::{End, Faults, Tally, World};

/// The variable that names the seed to run alone.
const SEED: &str = "STILLSTREAM_SEED";

/// Runs each of these seeds, or the one that is named. One that fails says how it is run alone.
fn each_seed(test: &str, seeds: u64, mut run: impl FnMut(u64)) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a person names the seed that failed")]
    let named = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let seeds = named.map_or(0..seeds, |seed: u64| seed..seed + 1);
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("{SEED}={seed} cargo test -p stillstream-jobmaster --test simulation {test}");
            resume_unwind(panic);
        }
    }
    named.is_none()
}

fn run(world: &mut World) {
    for _ in 0..400 {
        world.step();
    }
    world.end_well();
}

#[test]
fn no_schedule_breaks_an_invariant_and_every_job_finishes_in_the_end() {
    let mut tally = Tally::default();
    let all = each_seed("no_schedule", 10_000, |seed| {
        let mut world = World::new(seed, Faults::all());
        run(&mut world);
        tally.add(&world.tally);
    });
    println!("{tally:?}");
    // a simulation in which nothing happens proves nothing
    if all {
        let t = &tally;
        assert!(t.completed > 20_000 && t.aborted > 8_000 && t.crashes > 4_000 && t.unknown_writes > 8_000);
        assert!(t.restarts > 5_000 && t.rescaled > 2_000 && t.replaced > 500 && t.committed > 20_000);
        assert!(t.finished > 10_000 && t.cancelled > 500 && t.failed > 500 && t.fenced > 500);
        assert!(t.savepoints > 1_500 && t.stopped > 500 && t.suspended > 1_000 && t.drained > 200);
        assert!(t.stops_failed > 3_000 && t.savepoints_failed > 1_000);
        assert!(t.assigned > 100_000 && t.assigned_in_flight > 20_000);
        assert!(t.shared_written > 50_000 && t.shared_deleted > 50_000);
        // only a task that hears late of a completed checkpoint can name what went with an older one
        assert!(t.refused < t.completed / 20, "{} refused, {} completed", t.refused, t.completed);
    }
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
            let commands = world.tally.commands;
            world.end_well();
            (commands, world)
        };
        let (commands, _) = calm(None);
        assert!(commands >= 100, "{commands}");
        for at in 0..commands {
            let (_, world) = calm(Some(at));
            assert!(
                world.tally.crashes == 1 && world.tally.completed > 3,
                "crash at {at}: {:?}",
                world.tally
            );
        }
    }
}

#[test]
fn a_crash_at_any_command_of_a_stop_leaves_the_job_stopped_or_running_and_its_output_whole() {
    for (savepoint, drain) in [(true, false), (false, false), (true, true), (false, true)] {
        let stopped = |crash_at| {
            let mut world = World::new(11, Faults::none());
            world.restart_all();
            for _ in 0..60 {
                world.step();
            }
            let newest = world.newest();
            let before = world.tally.commands;
            world.faults = Faults { crash_at, ..Faults::none() };
            world.savepoint(newest);
            if world.is_alive(newest) {
                world.stop_job(newest, savepoint, drain);
            }
            for _ in 0..60 {
                world.step();
            }
            let commands = (before, world.tally.commands);
            world.end_well();
            (commands, world)
        };
        let ((from, to), world) = stopped(None);
        let t = &world.tally;
        assert_eq!(
            t.stopped + t.suspended + t.drained.min(1),
            if savepoint && drain { 2 } else { 1 },
            "{t:?}"
        );
        assert!(to - from >= 12, "{from} {to}");
        for at in from..to {
            let (_, world) = stopped(Some(at));
            assert_eq!(world.tally.crashes, 1, "crash at {at}: {:?}", world.tally);
        }
    }
}

#[test]
fn every_end_comes_in_its_time_whatever_storage_does_and_the_job_can_go_on_after_it() {
    let (mut recorded, mut unrecorded, mut finished, mut before) = (0, 0, 0, 0);
    let all = each_seed("every_end", 3000, |seed| {
        let mut world = World::new(seed, Faults::all());
        for _ in 0..20 + seed % 300 {
            world.step();
        }
        let cancel = seed % 2 == 0;
        let faults =
            [Faults::away(), Faults::of_things(2), Faults::of_things(8), Faults::none()][seed as usize % 4];
        let ended_before = world.end_is_recorded();
        match world.end_now(cancel, faults) {
            Some(End::Recorded(JobOutcome::Finished)) => finished += 1,
            Some(End::Recorded(_)) => {
                assert!(!faults.away || ended_before, "recorded, and the register is away");
                recorded += 1;
            }
            Some(End::Unrecorded) => unrecorded += 1,
            Some(End::SteppedDown) => {}
            None => before += 1,
        }
        world.restart_all();
        world.end_well();
    });
    println!(
        "{recorded} recorded, {unrecorded} not, {finished} finished all the same, {before} had ended before"
    );
    if all {
        assert!(recorded > 1000 && unrecorded > 500, "{recorded} {unrecorded} {finished}");
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let trace = |seed| {
        let mut world = World::new(seed, Faults::all());
        world.trace = Some(0);
        run(&mut world);
        world.trace
    };
    for seed in 0..20 {
        assert_eq!(trace(seed), trace(seed));
    }
}
