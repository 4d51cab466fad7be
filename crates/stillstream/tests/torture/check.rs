//! What is in the sinks and in the folders, against what must be there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::job::{Bag, Expected};

/// All files and folders below a folder, with their paths in it.
pub fn below(folder: &Path) -> Vec<String> {
    let (mut found, mut open) = (vec![], vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path: PathBuf = entry.path();
            if path.is_dir() {
                open.push(path.clone());
            }
            found.push(path.strip_prefix(folder).unwrap_or(&path).display().to_string());
        }
    }
    found.sort();
    found
}

/// The rows of a sink, by stream.
fn rows(folder: &Path) -> BTreeMap<u64, Bag> {
    let mut all: BTreeMap<u64, Bag> = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_file()) {
        for line in fs::read_to_string(entry.path()).expect("a file of a sink").lines() {
            let numbers: Vec<u64> = line.split(',').map(|number| number.parse().expect("a number")).collect();
            *all.entry(numbers[0]).or_default().entry((numbers[1], numbers[2])).or_default() += 1;
        }
    }
    all
}

/// Whether the job came to its end, or what it has committed is a part of that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    Part,
}

/// What is wrong with what both sinks hold.
pub fn output(folder: &Path, expected: &Expected, extent: Extent) -> Vec<String> {
    let mut wrong = vec![];
    for sink in ["out", "ledger/committed"] {
        let mut found = rows(&folder.join(sink));
        for (number, totals) in expected.streams.iter().enumerate() {
            let bag = found.remove(&(number as u64)).unwrap_or_default();
            if let Some(exact) = &totals.exact {
                let differs = |row: &&(u64, u64)| {
                    let (has, wants) = (bag.get(*row).unwrap_or(&0), exact.get(*row).unwrap_or(&0));
                    has > wants || (extent == Extent::Whole && has != wants)
                };
                let rows: Vec<_> =
                    exact.keys().chain(bag.keys().filter(|row| !exact.contains_key(row))).collect();
                let bad: Vec<_> = rows.into_iter().filter(|row| differs(row)).collect();
                if let Some(first) = bad.first() {
                    let (has, wants) = (bag.get(first).unwrap_or(&0), exact.get(first).unwrap_or(&0));
                    let (rows, all) = (bag.values().sum::<u64>(), exact.values().sum::<u64>());
                    wrong.push(format!(
                        "{sink}, stream {number}: {} rows of {all} differ ({rows} found), such as {first:?}: {has} \
                         times, expected {wants}",
                        bad.len()
                    ));
                }
            } else if extent == Extent::Whole {
                let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
                for ((key, weight), times) in &bag {
                    let sum = sums.entry(*key).or_default();
                    *sum = sum.wrapping_add(weight.wrapping_mul(*times));
                }
                let bad = totals.sums.iter().filter(|(key, sum)| sums.get(key) != Some(sum)).count();
                if sums != totals.sums {
                    wrong.push(format!(
                        "{sink}, stream {number}: the sums of {bad} keys of {} differ",
                        sums.len()
                    ));
                }
            }
        }
        if !found.is_empty() {
            wrong.push(format!("{sink}: unknown streams {:?}", found.keys()));
        }
    }
    for anomaly in fs::read_dir(folder.join("ledger/anomalies")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(anomaly.path()).unwrap_or_default();
        wrong.push(format!("ledger, {}: {text}", anomaly.file_name().display()));
    }
    wrong
}

/// What a finished job has left behind, beside checkpoints of before that are the user's. The marks of what
/// was committed may stay where a process was killed: it may be after the end is recorded and before they are
/// removed.
pub fn left_by_finished(folder: &Path, kept: &[String], killed: bool) -> Vec<String> {
    let mut left = vec![];
    left.extend(
        below(&folder.join("out"))
            .into_iter()
            .filter(|name| !(name.ends_with(".csv") || killed && name.starts_with(".committed-"))),
    );
    left.extend(below(&folder.join("ledger/prepared")));
    left.extend(in_checkpoints(folder).into_iter().filter(|name| !kept.contains(name)));
    if left.is_empty() { left } else { vec![format!("left behind: {left:?}")] }
}

/// What lies in the checkpoint folder beside the register and the lock.
pub fn in_checkpoints(folder: &Path) -> Vec<String> {
    let is_other = |name: &String| {
        let inner = name.split_once('/').map(|(_, inner)| inner);
        inner.is_some_and(|inner| inner != ".lock" && !inner.starts_with("register"))
    };
    below(&folder.join("checkpoints")).into_iter().filter(is_other).collect()
}

/// What a cancelled job has left that belongs to no checkpoint, although its checkpoints are kept.
pub fn strays(kept: &[String]) -> Vec<String> {
    let inner = |name: &String| name.split_once('/').map_or_else(String::new, |(_, inner)| inner.to_owned());
    let names: Vec<String> = kept.iter().map(inner).collect();
    let whole = |name: &&String| {
        let checkpoint = name.split('/').next().unwrap_or_default();
        checkpoint.starts_with("chk-") && names.contains(&format!("{checkpoint}/_metadata"))
            || checkpoint == "shared"
    };
    names.iter().filter(|name| !whole(name)).cloned().collect()
}

/// The newest checkpoint that was kept.
pub fn kept(folder: &Path) -> Option<String> {
    let root = folder.join("checkpoints");
    let of = |name: String| {
        let number: u64 = name.split_once("/chk-")?.1.strip_suffix("/_metadata")?.parse().ok()?;
        let path = root.join(name.strip_suffix("/_metadata")?).display().to_string();
        Some((number, path))
    };
    below(&root).into_iter().filter_map(of).max().map(|(_, path)| path)
}
