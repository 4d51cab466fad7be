//! `docs/benchmarks.md`: made from a run, with parts that are written by hand and kept.

use std::fs;
use std::path::Path;
use std::process::Command;

use stillstream::{Result, ResultExt};

use super::aims;
use super::row::Row;
use super::table::{COLUMNS, cells, markdown, number};
use crate::machine::Machine;
use crate::scenario;

/// Titles of the parts that are written by hand.
const BY_HAND: [&str; 4] = [
    "State in RocksDB",
    "Where each nanosecond goes",
    "What each miss comes from",
    "What was tried and did not help",
];

const END: &str = "<!-- end of what is written by hand -->";

fn begin(title: &str) -> String {
    format!("<!-- written by hand, kept by `cargo xtask bench`: {title} -->")
}

/// What stands between the marks of `title` in the page as it was.
fn kept<'a>(page: &'a str, title: &str) -> &'a str {
    let after = page.split_once(&begin(title)).map(|(_, after)| after);
    after.and_then(|after| after.split_once(END)).map_or("", |(kept, _)| kept.trim())
}

/// Writes the page; parts that are written by hand stay as they are.
pub fn write(path: &Path, machine: &Machine, rows: &[Row]) -> Result<()> {
    let old = match fs::read_to_string(path) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context(|| path.display().to_string()),
    };
    fs::write(path, page(&old, &format!("{machine}; {}", compiler()), rows))
        .context(|| path.display().to_string())
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let version = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    version
        .map_or_else(|| "unknown compiler".into(), |text| String::from_utf8_lossy(&text).trim().to_string())
}

fn page(old: &str, machine: &str, rows: &[Row]) -> String {
    let aims = aims::ALL.iter().filter_map(|aim| {
        let row = aim.row(rows)?;
        let (found, good) = aim.result(row)?;
        let verdict = if good { "reached" } else { "**missed**" };
        Some(vec![row.run.to_string(), aim.what.into(), aim.bound(), number(found), verdict.into()])
    });
    let results = rows.iter().map(|row| cells(row).to_vec());
    let works = scenario::ALL.iter().map(|scenario| vec![scenario.name.into(), scenario.work.into()]);
    let mut page = format!(
        "# Benchmarks\n\n\
         Made by `cargo xtask bench`; what is marked as written by hand is kept.\n\n\
         {machine}. Release build, two workers, heap backend, everything through the public API. Each run is a process of its \
         own; all rows alternate, {} times; a figure is the median. A CPU second is one of user and system time of the whole \
         process, snapshot threads included. On shared machines compare the ratios: each is the median of those within the \
         rounds.\n\n\
         ## Aims and results\n\n{}\n## All results\n\n{}\n## What is measured\n\n{}\n\
         Throughput is measured after each key has come once, in the middle of a running job. `sync_ms` is the time for which \
         a worker stands still for a checkpoint, `checkpoint_ms` that from its trigger until it is complete, \
         `lost_ms_a_worker` the CPU time that a worker used during a snapshot beyond what its records take without one, \
         `longest_busy_ms` the most CPU time that a worker used between two batches and `longest_wait_ms` the time by the \
         clock, which includes that for which another thread had the core. `recovery_ms` ends with the first record out of \
         the restarted job; it is the sum of stopping the old dataflow and building the new one, restoring state, and the \
         way of the first record. `replay_ms` comes after it: until the first record that had not been out before.\n",
        rows.iter().map(Row::rounds).max().unwrap_or_default(),
        markdown(&["benchmark", "figure", "aim", "result", ""], aims),
        markdown(&COLUMNS, results),
        markdown(&["benchmark", "work"], works),
    );
    for title in BY_HAND {
        page += &format!("\n## {title}\n\n{}\n{}\n{END}\n", begin(title), kept(old, title));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn what_is_written_by_hand_is_kept_and_results_are_replaced() {
        let first = page("", "a machine", &[row("COUNT", &[10.0])]);
        assert!(first.contains(
            "| COUNT, K = 10^3 | million records for each CPU second | >= 50 | 10.0 | **missed** |"
        ));
        let mark = begin(BY_HAND[1]);
        let edited =
            first.replace(&format!("{mark}\n"), &format!("{mark}\nThe cache is *cold*.\n\nTwice.\n"));
        let second = page(&edited, "a machine", &[row("COUNT", &[60.0])]);
        assert!(second.contains(&format!("{mark}\nThe cache is *cold*.\n\nTwice.\n")), "{second}");
        assert!(second.contains("| >= 50 | 60.0 | reached |") && !second.contains("missed**"), "{second}");
        assert_eq!(
            page(&second, "a machine", &[row("COUNT", &[60.0])]),
            second,
            "a second time changes nothing"
        );
    }
}
