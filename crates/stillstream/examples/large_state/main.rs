//! State eight times as large as its memory, in a process that is killed at random ten times and ends with
//! the right totals: `cargo run --release -p stillstream --features rocksdb --example large_state`.
//!
//! Options, in this order: keys, bytes of each value, memory in MiB, kills, longest life in ms, seed.

mod job;

use std::path::PathBuf;
use std::process::Command;

use job::{Size, run, supervise};
use stillstream::prelude::*;

/// What the parent passes to its child before the numbers.
const CHILD: &str = "--child";

#[expect(clippy::disallowed_methods, reason = "the program's own arguments")]
fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let folder = match words.first().is_some_and(|word| word == CHILD) {
        true => words.drain(..2).nth(1).map(PathBuf::from),
        false => None,
    };
    let number = |at: usize, default: u64| match words.get(at) {
        Some(word) => word.replace('_', "").parse().context(|| format!("`{word}` is no number")),
        None => Ok(default),
    };
    let size = Size {
        keys: number(0, 2_000_000)?,
        value_bytes: number(1, 1_000)? as usize,
        memory_mb: number(2, 256)?,
    };
    if let Some(folder) = folder {
        return run(&folder, size).map(drop);
    }
    let (kills, life, seed) = (number(3, 10)? as u32, millis(number(4, 10_000)?), number(5, 1)?);
    let folder = std::env::temp_dir().join(format!("stillstream-large-state-{}", std::process::id()));
    let program = std::env::current_exe().context(|| "finding the example's own program")?;
    let start = || {
        let mut command = Command::new(&program);
        command.arg(CHILD).arg(&folder).args(&words).env("STILLSTREAM_LOG", "off");
        command
    };
    let report = supervise(&start, &folder, size, kills, life, seed);
    let removed = std::fs::remove_dir_all(&folder).context(|| folder.display().to_string());
    let report = report?;
    println!(
        "{} keys, {} MB of state, {} MiB of memory for it\nkilled {} times; all totals are right\n\
         peak memory of the process {} MiB; checkpoints at the end {} MB",
        size.keys,
        size.state_bytes() / 1_000_000,
        size.memory_mb,
        report.kills,
        report.peak_bytes >> 20,
        report.checkpoint_bytes / 1_000_000
    );
    removed
}
