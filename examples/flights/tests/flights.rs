//! The main job against an independent computation: killed at any moment, with any parallelism and process
//! count.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn data(name: &str) -> String {
    let file = std::fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// What the job must write, computed without it: row by row, with maps, from the text of the files.
struct Expected {
    rows: usize,
    airport_hours: BTreeSet<String>,
    carrier_days: BTreeSet<String>,
}

fn expected() -> Expected {
    let unknown = |field: &str| if field == "NA" { String::new() } else { field.to_string() };
    let mut weather = BTreeMap::new();
    for line in data("weather.csv.gz").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        weather
            .insert((fields[1].to_string(), fields[0].to_string()), (unknown(fields[4]), unknown(fields[3])));
    }
    let mut hours: BTreeMap<(String, String), (u64, Vec<i64>)> = BTreeMap::new();
    let mut days: BTreeMap<(String, String), (u64, u64, i64)> = BTreeMap::new();
    let mut rows = 0;
    for line in data("flights.csv.gz").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (scheduled, delay, carrier, origin) =
            (fields[0], fields[1].parse::<i64>().ok(), fields[3], fields[6]);
        rows += 1;
        let hour = hours.entry((format!("{}:00:00Z", &scheduled[..13]), origin.to_string())).or_default();
        hour.0 += 1;
        hour.1.extend(delay);
        let day = days.entry((scheduled[..10].to_string(), carrier.to_string())).or_default();
        *day = (day.0 + 1, day.1 + u64::from(delay.is_some_and(|d| d >= 15)), day.2 + delay.unwrap_or(0));
    }
    let hour_row = |((hour, origin), (flights, mut delays)): ((String, String), (u64, Vec<i64>))| {
        delays.sort();
        let n = delays.len();
        let (mean, p95) = match n {
            0 => (String::new(), String::new()),
            _ => {
                let mean = delays.iter().sum::<i64>() as f64 / n as f64;
                let rank = (0.95 * n as f64).ceil() as usize;
                (format!("{mean:.2}"), delays[rank - 1].to_string())
            }
        };
        let (precip, wind) = weather.get(&(hour.clone(), origin.clone())).cloned().unwrap_or_default();
        format!("{hour},{origin},{flights},{},{mean},{p95},{precip},{wind}", flights - n as u64)
    };
    let day_row = |((day, carrier), (flights, delayed, total)): ((String, String), (u64, u64, i64))| {
        format!("{day},{carrier},{flights},{delayed},{total}")
    };
    Expected {
        rows,
        airport_hours: hours.into_iter().map(hour_row).collect(),
        carrier_days: days.into_iter().map(day_row).collect(),
    }
}

/// All rows of a folder, each once; headers checked, nothing but CSV files there.
fn rows(folder: &Path, header: &str) -> Vec<String> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        assert!(path.extension().is_some_and(|e| e == "csv"), "a temporary file is left: {}", path.display());
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(header), "{}", path.display());
        rows.extend(lines.map(str::to_string));
    }
    rows
}

/// How many rows are committed in a folder.
fn lines(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let csv = files.filter(|path| path.extension().is_some_and(|e| e == "csv"));
    csv.map(|path| std::fs::read_to_string(path).unwrap().lines().count() - 1).sum()
}

const HOURS: &str = "hour,origin,flights,cancelled,mean_dep_delay,p95_dep_delay,precip,wind_speed";
const DAYS: &str = "day,carrier,flights,delayed_15,total_dep_delay";
const FLIGHTS: &str = "scheduled,dep_delay,arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance";

fn same(what: &str, found: Vec<String>, expected: &BTreeSet<String>) {
    let set: BTreeSet<String> = found.iter().cloned().collect();
    assert_eq!(found.len(), set.len(), "{what}: rows are written twice");
    let (missing, extra) = (expected.difference(&set).next(), set.difference(expected).next());
    assert!(missing.is_none() && extra.is_none(), "{what}: missing {missing:?}, not expected {extra:?}");
}

fn check(out: &Path, expected: &Expected) {
    same("airport_hours", rows(&out.join("airport_hours"), HOURS), &expected.airport_hours);
    same("carrier_days", rows(&out.join("carrier_days"), DAYS), &expected.carrier_days);
    assert!(rows(&out.join("late"), FLIGHTS).is_empty());
}

fn program(out: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flights"));
    command.args(arguments).arg("--out").arg(out).stdout(Stdio::null());
    command
}

/// The job alone, without the demonstration around it.
fn job(out: &Path, arguments: &[&str]) -> Child {
    let mut command = program(out, &["--job", "--storage", "filesystem", "--checkpoint-interval", "20ms"]);
    command.arg("--checkpoint-dir").arg(out.join("checkpoints")).args(arguments).spawn().unwrap()
}

/// Waits for the job's end, a minute at most.
fn wait(mut job: Child, arguments: &[&str]) {
    for _ in 0..3000 {
        if let Some(status) = job.try_wait().unwrap() {
            assert!(status.success(), "{arguments:?}: {status}");
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    job.kill().unwrap();
    panic!("{arguments:?}: the job did not end within a minute");
}

/// Runs the job to its end.
fn finish(out: &Path, arguments: &[&str]) {
    wait(job(out, arguments), arguments);
}

/// Numbers that look random and are the same each time.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 31)
}

/// Process ids of the children of a process.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let of =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks
        .flatten()
        .flat_map(|task| of(task).split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>())
        .collect()
}

fn kill_9(pid: u32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn the_result_equals_an_independent_computation_at_any_parallelism_and_storage() {
    let expected = expected();
    for arguments in [
        &["--pace", "0s", "--parallelism", "1"][..],
        &["--pace", "0s", "--parallelism", "2"],
        &["--pace", "0s", "--parallelism", "3", "--storage", "memory"],
    ] {
        let out = tempfile::tempdir().unwrap();
        finish(out.path(), arguments);
        check(out.path(), &expected);
    }
}

#[test]
fn the_demonstration_kills_the_job_and_the_result_is_the_same() {
    let out = tempfile::tempdir().unwrap();
    let status =
        program(out.path(), &["--pace", "1500ms", "--checkpoint-interval", "50ms"]).status().unwrap();
    assert!(status.success());
    check(out.path(), &expected());
}

#[test]
fn a_job_killed_at_fifty_random_moments_writes_each_row_once() {
    let expected = expected();
    let (mut seed, mut kills) = (2013, 0);
    while kills < 50 {
        let out = tempfile::tempdir().unwrap();
        let mut finished = false;
        // several kills of one and the same job, at any moment of its life: start, restore, snapshot, commit
        for _ in 0..5 {
            let mut running = job(out.path(), &["--pace", "900ms", "--parallelism", "2"]);
            std::thread::sleep(Duration::from_millis(30 + random(&mut seed) % 400));
            if running.try_wait().unwrap().is_none() {
                running.kill().unwrap();
                kills += 1;
            }
            running.wait().unwrap();
            // a job that was killed on its very last step has finished: the next start would be a new run
            finished = lines(&out.path().join("airport_hours")) == expected.airport_hours.len()
                && lines(&out.path().join("carrier_days")) == expected.carrier_days.len();
            if finished {
                break;
            }
        }
        if !finished {
            finish(out.path(), &["--pace", "0s", "--parallelism", "2"]);
            check(out.path(), &expected);
        }
    }
}

#[test]
fn two_worker_processes_give_the_same_result() {
    let out = tempfile::tempdir().unwrap();
    finish(out.path(), &["--pace", "0s", "--parallelism", "2", "--processes", "2"]);
    check(out.path(), &expected());
}

#[test]
fn a_worker_process_killed_hard_is_replaced_and_the_result_is_the_same() {
    let out = tempfile::tempdir().unwrap();
    let restarts = [
        "-D",
        "restart-strategy.type=fixed-delay",
        "-D",
        "restart-strategy.fixed-delay.attempts=10",
        "-D",
        "restart-strategy.fixed-delay.delay=10ms",
    ];
    let mut arguments = vec!["--pace", "3s", "--parallelism", "2", "--processes", "2"];
    arguments.extend(restarts);
    let running = job(out.path(), &arguments);
    let (mut seed, mut killed): (u64, Vec<u32>) = (7, Vec::new());
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(500));
        let workers = children(running.id());
        if let Some(worker) = workers.get(random(&mut seed) as usize % workers.len().max(1)) {
            kill_9(*worker);
            killed.push(*worker);
        }
    }
    wait(running, &arguments);
    assert!(!killed.is_empty(), "no worker process was found");
    check(out.path(), &expected());
}

#[test]
fn with_a_small_bound_windows_and_late_rows_add_up_to_all_rows() {
    let expected = expected();
    let out = tempfile::tempdir().unwrap();
    finish(out.path(), &["--pace", "0s", "--parallelism", "2", "--out-of-orderness", "1h"]);
    let late = rows(&out.path().join("late"), FLIGHTS).len();
    assert!(late > 0);
    let flights = |rows: Vec<String>| -> usize {
        rows.iter().map(|row| row.split(',').nth(2).unwrap().parse::<usize>().unwrap()).sum()
    };
    assert_eq!(flights(rows(&out.path().join("airport_hours"), HOURS)) + late, expected.rows);
    assert_eq!(flights(rows(&out.path().join("carrier_days"), DAYS)) + late, expected.rows);
}

#[test]
fn a_wrong_argument_is_one_clear_sentence() {
    let out = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = program(out.path(), arguments).stderr(Stdio::piped()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).to_string()
    };
    assert!(run(&["--pace", "soon"]).contains("--pace"));
    let missing: PathBuf = out.path().join("no.csv.gz");
    let error = run(&["--job", "--flights", missing.to_str().unwrap()]);
    assert!(error.contains("no.csv.gz") && error.contains("source `flights`"), "{error}");
}
