//! Each scenario, small: the figures that a row of the table is made of are there and make sense.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stillstream-bench")).args(arguments).output().unwrap()
}

/// Runs one scenario and reads its line.
fn run(line: &str) -> Value {
    let mut arguments = vec!["run"];
    arguments.extend(line.split(' '));
    let output = bench(&arguments);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "one line of JSON: {text}");
    serde_json::from_str(&text).unwrap()
}

fn number(line: &Value, figure: &str) -> f64 {
    line[figure].as_f64().unwrap_or_else(|| panic!("no {figure} in {line}"))
}

/// Throughput is what the records, and the time that they took, say.
fn assert_throughput(line: &Value) {
    let (records, cpu) = (number(line, "records"), number(line, "cpu_s"));
    assert!(records > 0.0 && cpu > 0.0 && number(line, "wall_s") > 0.0, "{line}");
    let rate = number(line, "m_records_per_cpu_s");
    assert!((rate - records / cpu / 1e6).abs() <= rate * 1e-6, "{line}");
}

#[test]
fn a_fixed_number_of_records_is_the_number_that_is_measured() {
    for name in ["LOOP", "TIMELY", "COUNT", "CHAIN", "JOIN", "WORDS"] {
        let line = run(&format!("{name} --keys 1000 --records 100000"));
        assert_throughput(&line);
        assert_eq!(number(&line, "records"), 100_000.0, "{line}");
        assert_eq!((line["name"].as_str(), line["backend"].as_str()), (Some(name), Some("heap")));
        assert_eq!(line["checkpoint_interval_ms"], Value::Null);
    }
}

#[test]
fn a_query_of_nexmark_gives_the_known_result_while_it_is_measured() {
    let line = run("NEXMARK --variant q3 --records 100000");
    assert_throughput(&line);
    assert_eq!((number(&line, "records"), line["variant"].as_str()), (100_000.0, Some("q3")));
    let output = bench(&["run", "NEXMARK", "--variant", "q6", "--records", "1000"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no query 6"));
}

#[test]
fn jobs_are_measured_while_they_run() {
    for name in ["LOOP", "TIMELY", "COUNT", "CHAIN", "JOIN"] {
        let line = run(&format!("{name} --keys 1000 --measure-ms 100"));
        assert_throughput(&line);
        assert!(number(&line, "wall_s") >= 0.1, "{line}");
    }
    for variant in ["tumbling 1 s", "sliding 10 s by 1 s"] {
        let output = bench(&["run", "WINDOW", "--keys", "10", "--measure-ms", "100", "--variant", variant]);
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_throughput(&line);
        assert_eq!(line["variant"], variant);
    }
}

#[test]
fn words_are_counted_in_megabytes_too() {
    let line = run("WORDS --keys 1000 --measure-ms 50");
    assert_throughput(&line);
    let bytes_a_word = number(&line, "mb_per_cpu_s") / number(&line, "m_records_per_cpu_s");
    assert!((5.0..10.0).contains(&bytes_a_word), "{line}");
}

#[test]
fn checkpoints_are_reported_with_their_times_and_bytes() {
    for variant in ["exactly-once", "at-least-once"] {
        let line =
            run(&format!("COUNT+ckpt --keys 10000 --interval-ms 50 --measure-ms 3000 --variant {variant}"));
        assert_throughput(&line);
        assert_eq!(
            (line["variant"].as_str(), number(&line, "checkpoint_interval_ms")),
            (Some(variant), 50.0)
        );
        assert!(number(&line, "checkpoints") >= 1.0, "{line}");
        let (p50, p99) = (number(&line, "checkpoint_ms_p50"), number(&line, "checkpoint_ms_p99"));
        assert!(0.0 < p50 && p50 <= p99, "{line}");
        assert!(number(&line, "sync_ms") <= p99, "{line}");
        assert!(number(&line, "checkpoint_bytes") >= 160_000.0, "16 bytes for each key: {line}");
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn state_in_rocksdb_is_measured_beside_plain_rocksdb_with_the_same_memory() {
    let line = run("ROCKSRAW --keys 1000 --records 100001 --backend rocksdb");
    assert_throughput(&line);
    assert_eq!(number(&line, "records"), 100_001.0);
    for name in ["ROCKSRAW", "COUNT"] {
        let line = run(&format!("{name} --keys 1000 --measure-ms 100 --backend rocksdb --memory-mb 16"));
        assert_throughput(&line);
        assert_eq!(line["backend"], "rocksdb");
    }
    let line = run("COUNT+ckpt --keys 10000 --interval-ms 50 --measure-ms 1000 --backend rocksdb");
    assert_throughput(&line);
    assert!(number(&line, "checkpoints") >= 1.0 && number(&line, "checkpoint_bytes") > 10_000.0, "{line}");
}

#[test]
fn a_recovery_is_the_sum_of_its_parts() {
    let line = run("RECOVER --keys 10000");
    let parts =
        ["recovery_stop_ms", "recovery_restore_ms", "recovery_first_ms"].map(|part| number(&line, part));
    assert!(parts.iter().all(|part| *part >= 0.0), "{line}");
    assert!((number(&line, "recovery_ms") - parts.iter().sum::<f64>()).abs() < 0.01, "{line}");
    assert!(number(&line, "replay_ms") >= 0.0, "{line}");
}

#[test]
fn a_snapshot_says_what_it_costs_in_time_and_memory() {
    let line = run("SNAPSHOT --keys 1000000 --measure-ms 200");
    assert_eq!(number(&line, "checkpoints"), 3.0, "{line}");
    assert!(number(&line, "checkpoint_bytes") >= 16_000_000.0, "16 bytes for each key: {line}");
    let (bytes, peak) = (number(&line, "bytes_per_key"), number(&line, "peak_bytes_per_key"));
    assert!(16.0 < bytes && bytes <= peak, "{line}");
    for figure in ["throughput_during", "longest_wait_ms", "longest_busy_ms"] {
        assert!(number(&line, figure) > 0.0, "{figure}: {line}");
    }
    assert!(number(&line, "lost_ms_a_worker").is_finite(), "{line}");
}

#[test]
fn a_start_is_measured_from_outside_the_process() {
    for operators in [1, 64] {
        let line = run(&format!("START --operators {operators}"));
        assert_eq!(number(&line, "operators"), f64::from(operators));
        assert!(number(&line, "start_ms") > 0.0, "{line}");
    }
}

#[test]
fn a_suite_writes_one_line_for_each_row_and_leaves_the_page_unless_it_ran_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (json, page) = (dir.path().join("rows.json"), dir.path().join("page.md"));
    let (json, page) = (json.to_str().unwrap(), page.to_str().unwrap());
    let output = bench(&["suite", "start", "--rounds", "2", "--json", json, "--page", page]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("START, 64 operators"), "{text}");
    let lines = std::fs::read_to_string(json).unwrap();
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| row["name"] == "START" && number(row, "runs") == 2.0), "{lines}");
    assert!(!std::path::Path::new(page).exists());
}

#[test]
fn a_mistake_on_the_command_line_fails_with_what_there_is() {
    for (arguments, part) in [
        (["run", "CUONT"].as_slice(), "there is no benchmark `CUONT`; there is: LOOP"),
        (&["run", "COUNT+ckpt", "--variant", "twice"], "there is no variant `twice`; there is: exactly-once"),
        (&["suite", "--backend", "disk"], "there is no backend `disk`"),
    ] {
        let output = bench(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(part), "{arguments:?}: {text}");
    }
}
