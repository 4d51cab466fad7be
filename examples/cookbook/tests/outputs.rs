//! Every example is run, and prints what its head says.

#[allow(dead_code, reason = "a job of its own, and here its function alone")]
#[path = "../src/fraud_detection.rs"]
mod fraud_detection;
#[path = "../src/testing_a_function.rs"]
mod testing_a_function;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files of the examples, with their names.
fn examples() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = files.map(|file| (file.file_stem().unwrap().to_str().unwrap().to_string(), file));
    named.filter(|(name, _)| name != "main" && name != "testing_a_function").collect()
}

fn lines(text: &str) -> Vec<String> {
    // records of different keys have no order among themselves
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    lines.sort();
    lines
}

/// What stands in the head of the file between "```text" and "```".
fn promised(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let head = text.lines().map_while(|line| line.strip_prefix("//!")).map(|line| line.trim_start());
    let output = head.skip_while(|line| *line != "```text").skip(1).take_while(|line| *line != "```");
    output.map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_example_prints_what_its_head_says() {
    for (name, file) in examples() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cookbook"));
        let output = command.arg(&name).stdin(Stdio::null()).output().unwrap();
        let (printed, log) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {log}");
        let promised = promised(&file);
        assert!(!promised.is_empty(), "{name}: its head shows no output");
        assert_eq!(
            lines(&printed),
            lines(&promised),
            "{name}: printed (left), and its head (right); its log: {log}"
        );
    }
}

#[test]
fn the_page_of_examples_names_each_of_them() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (name, _) in examples() {
        assert!(
            page.contains(&format!("(../examples/cookbook/src/{name}.rs)")),
            "docs/examples.md: `{name}` is missing"
        );
    }
}
