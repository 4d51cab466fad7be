//! The same in programs of their own: two processes, kills, and restores with another parallelism.

use std::path::Path;
use std::process::{Command, Stdio};

use stillstream::prelude::*;

use crate::{order, placements};

const FOLDER: &str = "STILLSTREAM_EVENT_TIME_TEST_FOLDER";
const HOW: &str = "STILLSTREAM_EVENT_TIME_TEST_HOW";

/// Not a test of its own: what the others start as a program of its own.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn program() {
    let (Ok(folder), Ok(how)) = (std::env::var(FOLDER), std::env::var(HOW)) else { return };
    let numbers: Vec<u32> = how.split(',').map(|number| number.parse().unwrap()).collect();
    let &[parallelism, processes, count, batch, place] = numbers.as_slice() else { panic!("{how}") };
    let folder = Path::new(&folder);
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism)
        .set_max_parallelism(128)
        .enable_checkpointing(millis(20))
        .set_state_backend(FsStateBackend::new(folder.join("checkpoints").to_string_lossy()));
    env.configuration_mut().set_text("stillstream.job.processes", &processes.to_string()).unwrap();
    match place {
        0 => order::run(&mut env, count.into(), batch as usize, &folder.join("out")).map(drop).unwrap(),
        place => {
            placements::run_bounded(&mut env, place as usize - 1, count.into(), &folder.join("out")).unwrap()
        }
    }
}

fn command(folder: &Path, how: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program::program", "--exact"]).env(FOLDER, folder).env(HOW, how);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn marks_keep_their_place_between_two_processes() {
    for parallelism in [2, 4] {
        let folder = tempfile::tempdir().unwrap();
        let how = format!("{parallelism},2,6000,100,0");
        assert!(command(folder.path(), &how).status().unwrap().success());
        assert_eq!(order::read(&folder.path().join("out")), order::offline(6_000), "{parallelism} workers");
    }
}

/// The number of the newest checkpoint.
fn newest(folder: &Path) -> u64 {
    let names = std::fs::read_dir(folder.join("checkpoints")).into_iter().flatten().flatten();
    let jobs = names.flat_map(|job| std::fs::read_dir(job.path()).into_iter().flatten().flatten());
    let of = |name: &str| name.strip_prefix("chk-")?.parse::<u64>().ok();
    jobs.filter_map(|entry| of(&entry.file_name().to_string_lossy())).max().unwrap_or(0)
}

/// Runs the program with one parallelism and number of processes after the other; each run but the last is
/// killed when there are new checkpoints. Says how many were.
fn killed_and_rescaled(folder: &Path, runs: &[&str], rest: &str) -> usize {
    let mut killed = 0;
    for how in runs {
        let before = newest(folder);
        let mut program = command(folder, &format!("{how},{rest}")).spawn().unwrap();
        while program.try_wait().unwrap().is_none() {
            if newest(folder) > before + 2 {
                program.kill().unwrap();
                program.wait().unwrap();
                killed += 1;
                break;
            }
            std::thread::yield_now();
        }
    }
    assert!(command(folder, &format!("3,2,{rest}")).status().unwrap().success());
    killed
}

#[test]
fn kills_and_restores_with_another_parallelism_change_no_window() {
    let (folder, count) = (tempfile::tempdir().unwrap(), 300_000);
    let killed =
        killed_and_rescaled(folder.path(), &["1,1", "3,1", "4,2", "2,2", "2,1"], &format!("{count},64,0"));
    assert!(killed >= 3, "{killed} kills");
    assert_eq!(order::read(&folder.path().join("out")), order::offline(count));
}

#[test]
fn wherever_the_strategy_stands_each_row_is_in_one_window_or_late_over_kills_and_restores() {
    for (place, (name, _)) in placements::PLACES.iter().enumerate().filter(|(n, _)| n % 3 == 1) {
        // a broadcast copies rows as often as there are subtasks, which are not always as many here
        if *name == "after broadcast" {
            continue;
        }
        let (folder, count) = (tempfile::tempdir().unwrap(), 60_000u64);
        let rest = format!("{count},0,{}", place + 1);
        let killed = killed_and_rescaled(folder.path(), &["2,1", "3,2"], &rest);
        let rows: u64 = order::read(&folder.path().join("out")).values().sum();
        assert_eq!(rows, count, "{name}, {killed} kills");
    }
}
