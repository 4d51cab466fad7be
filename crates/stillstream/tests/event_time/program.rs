//! The same in programs of their own: two processes, kills, and restores with another parallelism.

use std::path::Path;
use std::process::{Command, Stdio};

use stillstream::prelude::*;

use crate::order;

const FOLDER: &str = "STILLSTREAM_EVENT_TIME_TEST_FOLDER";
const HOW: &str = "STILLSTREAM_EVENT_TIME_TEST_HOW";

/// Not a test of its own: what the others start as a program of its own.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn program() {
    let (Ok(folder), Ok(how)) = (std::env::var(FOLDER), std::env::var(HOW)) else { return };
    let numbers: Vec<u32> = how.split(',').map(|number| number.parse().unwrap()).collect();
    let &[parallelism, processes, count, batch] = numbers.as_slice() else { panic!("{how}") };
    let folder = Path::new(&folder);
    let mut env = StreamExecutionEnvironment::new();
    env.set_parallelism(parallelism)
        .set_max_parallelism(128)
        .enable_checkpointing(millis(20))
        .set_state_backend(FsStateBackend::new(folder.join("checkpoints").to_string_lossy()));
    env.configuration_mut().set_text("stillstream.job.processes", &processes.to_string()).unwrap();
    order::run(&mut env, count.into(), batch as usize, &folder.join("out")).unwrap();
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
        let how = format!("{parallelism},2,6000,100");
        assert!(command(folder.path(), &how).status().unwrap().success());
        assert_eq!(order::read(&folder.path().join("out")), order::offline(6_000), "{parallelism} workers");
    }
}

#[test]
fn kills_and_restores_with_another_parallelism_change_no_window() {
    // each run is killed when there is a new checkpoint, and the next one has another parallelism and number of processes
    let (folder, count) = (tempfile::tempdir().unwrap(), 300_000);
    let newest = |folder: &Path| {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let jobs = names.flat_map(|job| std::fs::read_dir(job.path()).into_iter().flatten().flatten());
        let of = |name: &str| name.strip_prefix("chk-")?.parse::<u64>().ok();
        jobs.filter_map(|entry| of(&entry.file_name().to_string_lossy())).max().unwrap_or(0)
    };
    let mut killed = 0;
    for how in ["1,1", "3,1", "4,2", "2,2", "2,1"] {
        let before = newest(&folder.path().join("checkpoints"));
        let mut program = command(folder.path(), &format!("{how},{count},64")).spawn().unwrap();
        while program.try_wait().unwrap().is_none() {
            if newest(&folder.path().join("checkpoints")) > before + 2 {
                program.kill().unwrap();
                program.wait().unwrap();
                killed += 1;
                break;
            }
            std::thread::yield_now();
        }
    }
    assert!(command(folder.path(), &format!("3,2,{count},64")).status().unwrap().success());
    assert!(killed >= 3, "{killed} kills");
    assert_eq!(order::read(&folder.path().join("out")), order::offline(count));
}
