//! State far larger than memory, in a process that is killed again and again.

#![cfg(feature = "rocksdb")]

#[path = "../examples/large_state/job.rs"]
mod job;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use job::{Size, run, supervise};

const FOLDER: &str = "STILLSTREAM_LARGE_STATE_FOLDER";

/// 300 MB of state.
const SIZE: Size = Size { keys: 30_000, value_bytes: 10_000, memory_mb: 32 };
/// What the process needs beside the budget: its program, stacks, buffers of files that are copied or
/// compacted.
const BASE_MB: u64 = 64;

/// Not a test of its own: what the other one starts as a program of its own.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test process learns from its environment what it is")]
fn program() {
    if let Ok(folder) = std::env::var(FOLDER) {
        run(Path::new(&folder), SIZE).unwrap();
    }
}

#[test]
fn state_nine_times_as_large_as_its_memory_survives_five_kills_with_the_right_totals_within_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["program", "--exact"]).env(FOLDER, folder.path()).env("STILLSTREAM_LOG", "off");
        // freed memory goes back to the system, so that what is resident is what is used
        command.env("MALLOC_ARENA_MAX", "1").env("MALLOC_TRIM_THRESHOLD_", "131072");
        command.env("MALLOC_MMAP_THRESHOLD_", "131072").stdout(Stdio::null());
        command
    };
    let report = supervise(&start, folder.path(), SIZE, 5, Duration::from_secs(3), 1).unwrap();
    println!("{report:?}");
    assert_eq!(report.kills, 5);
    assert!(SIZE.state_bytes() > 8 * (SIZE.memory_mb << 20));
    assert!(report.peak_bytes < (SIZE.memory_mb + BASE_MB) << 20, "{} MiB", report.peak_bytes >> 20);
}
