//! How many instructions a record takes: unlike a time, a figure that is the same on every machine and under
//! any load.

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use crate::cargo::{cargo, root};
use crate::valgrind::{callgrind, collected, ensure};

/// A rise above this share is a failure.
const TOLERANCE: f64 = 0.10;

/// Jobs that are counted: keys, and the records of two runs. The difference of the runs is steady work: in
/// both each key has come before, and starting and stopping cancel out.
const JOBS: [(u64, [u64; 2]); 2] = [(1_000, [100_000, 600_000]), (1_000_000, [1_050_000, 1_450_000])];

const HEAD: &str = "\
# Instructions for each record of COUNT with one worker, counted by callgrind in the profile that the tests are built in.
# `cargo xtask verify` fails when one rises by more than 10 %. After a change that is worth it: cargo xtask instructions --write
# keys instructions
";

fn file() -> PathBuf {
    root().join("bench/instructions.txt")
}

/// Counts, and compares with the file; or writes it.
pub(crate) fn run(write: bool) -> Result<(), String> {
    let counts = count()?;
    if write { renew(&counts) } else { check(&counts) }
}

fn renew(counts: &[(u64, f64)]) -> Result<(), String> {
    let lines = counts.iter().map(|(keys, count)| format!("{keys} {count:.1}\n"));
    let path = file();
    fs::write(&path, HEAD.to_string() + &lines.collect::<String>())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("written: {}", path.display());
    Ok(())
}

fn check(counts: &[(u64, f64)]) -> Result<(), String> {
    let path = file();
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let known = parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    compare(counts, &known)
}

/// The lines of the file: keys and instructions.
fn parse(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let pair = line
                .split_once(' ')
                .and_then(|(keys, count)| Some((keys.parse().ok()?, count.parse().ok()?)));
            pair.ok_or_else(|| format!("`{line}`: expected a number of keys and one of instructions"))
        })
        .collect()
}

/// Says how each count compares with what is known, and fails if one has risen too far or is not known.
fn compare(counts: &[(u64, f64)], known: &[(u64, f64)]) -> Result<(), String> {
    let mut failed = Vec::new();
    for (keys, count) in counts {
        let Some((_, before)) = known.iter().find(|(known, _)| known == keys) else {
            failed.push(format!("no number for {keys} keys: run `cargo xtask instructions --write`"));
            continue;
        };
        let change = count / before - 1.0;
        println!(
            "COUNT, {keys} keys: {count:.1} instructions a record, {before:.1} in the tree ({:+.1} %)",
            change * 100.0
        );
        if change > TOLERANCE {
            failed.push(format!(
                "COUNT with {keys} keys takes {count:.1} instructions a record, {before:.1} before: find out why, or accept it by \
                 `cargo xtask instructions --write`"
            ));
        } else if change < -TOLERANCE {
            println!("  much fewer: keep that by `cargo xtask instructions --write`");
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Runs the jobs, all at once, and gives keys and instructions for each record.
fn count() -> Result<Vec<(u64, f64)>, String> {
    ensure()?;
    let program = build()?;
    let start = |keys: u64, records: u64| {
        let (keys, records) = (keys.to_string(), records.to_string());
        let args = ["run", "COUNT", "--workers", "1", "--keys", &keys, "--records", &records];
        callgrind(&program, &args).spawn().map_err(|error| format!("valgrind could not be started: {error}"))
    };
    let mut running = Vec::new();
    for (keys, records) in JOBS {
        let runs = [start(keys, records[0])?, start(keys, records[1])?];
        running.push((keys, (records[1] - records[0]) as f64, runs));
    }
    let mut counts = Vec::new();
    for (keys, records, runs) in running {
        let [less, more] = runs.map(instructions);
        counts.push((keys, (more? as f64 - less? as f64) / records));
    }
    Ok(counts)
}

fn instructions(run: Child) -> Result<u64, String> {
    let output = run.wait_with_output().map_err(|error| format!("waiting for valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = if output.status.success() { collected(&said) } else { None };
    count.ok_or_else(|| format!("callgrind did not count ({}): {}", output.status, said.trim()))
}

/// Builds the benchmark just as the tests of the whole workspace do, which build it for its own test, so that
/// nothing is built twice; gives its path.
fn build() -> Result<PathBuf, String> {
    let mut command =
        cargo(&["test", "--workspace", "--test", "scenarios", "--all-features", "--locked", "--no-run"]);
    let output = command
        .arg("--message-format=json-render-diagnostics")
        .stderr(std::process::Stdio::inherit())
        .output();
    let output = output.map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err("the tests could not be built".into());
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| "cargo did not say where `stillstream-bench` is".into())
}

/// The path of the program in what cargo says of its artifacts, one JSON object a line.
fn executable(artifacts: &str) -> Option<PathBuf> {
    let paths = artifacts.lines().filter_map(|line| line.split_once("\"executable\":\"")?.1.split_once('"'));
    paths.map(|(path, _)| PathBuf::from(path)).find(|path| path.ends_with("stillstream-bench"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_above_a_tenth_fails_and_names_the_command() {
        let known = parse("# a comment\n1000 200.0\n1000000 300.0\n").unwrap();
        assert_eq!(compare(&[(1_000, 219.0), (1_000_000, 100.0)], &known), Ok(()));
        let error = compare(&[(1_000, 221.0), (1_000_000, 300.0)], &known).unwrap_err();
        assert!(error.contains("1000 keys takes 221.0") && error.contains("instructions --write"), "{error}");
    }

    #[test]
    fn a_job_without_a_number_and_a_line_that_is_none_fail() {
        assert!(compare(&[(5, 1.0)], &[]).unwrap_err().contains("no number for 5 keys"));
        assert!(parse("1000 many\n").unwrap_err().contains("`1000 many`"));
    }

    #[test]
    fn the_number_is_found_in_what_callgrind_says() {
        assert_eq!(collected("==7== \n==7== Collected : 55492221\n"), Some(55_492_221));
        assert_eq!(collected("==7== nothing"), None);
    }

    #[test]
    fn the_program_is_found_among_the_artifacts() {
        let artifacts = "{\"executable\":null}\n{\"executable\":\"/t/debug/deps/stillstream_bench-1\"}\n\
                         {\"executable\":\"/t/debug/stillstream-bench\",\"fresh\":true}\n";
        assert_eq!(executable(artifacts), Some(PathBuf::from("/t/debug/stillstream-bench")));
    }
}
