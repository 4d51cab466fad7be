//! What must hold before a change is merged.

use std::time::{Duration, Instant};

use crate::cargo::{cargo, has, succeeds};
use crate::{floors, instructions};

enum Outcome {
    Passed,
    Failed,
    /// The toolchain lacks a component: the rest can still be checked.
    Skipped(&'static str),
}

/// Runs every check, goes on after a failed one, and ends with a table. Writes nothing but build output.
pub(crate) fn verify() -> bool {
    let mut steps = Vec::new();
    let mut step = |name: &'static str, run: &dyn Fn() -> Outcome| {
        println!("==> {name}");
        let start = now();
        let outcome = run();
        steps.push((name, outcome, start.elapsed()));
    };
    step("libclang", &|| match crate::libclang::provide() {
        Ok(()) => Outcome::Passed,
        Err(hint) => {
            eprintln!("error: {hint}");
            Outcome::Failed
        }
    });
    step("format", &|| match has("fmt") {
        true => passed(&["fmt", "--all", "--check"]),
        false => Outcome::Skipped("rustfmt is not installed: rustup component add rustfmt"),
    });
    step("floors", &|| outcome(floors::run()));
    step("lints", &|| match has("clippy") {
        true => passed(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--locked",
            "--",
            "-D",
            "warnings",
        ]),
        false => Outcome::Skipped("clippy is not installed: rustup component add clippy"),
    });
    step("tests", &|| {
        passed(&["test", "--workspace", "--all-targets", "--all-features", "--locked", "--no-fail-fast"])
    });
    // the main job needs neither RocksDB nor what that needs
    step("without RocksDB", &|| passed(&["check", "--package", "flights", "--locked"]));
    step("instructions", &|| outcome(instructions::run(false)));
    step("doc tests", &|| {
        passed(&["test", "--workspace", "--doc", "--all-features", "--locked", "--no-fail-fast"])
    });
    step("documentation", &|| {
        let mut command = cargo(&["doc", "--workspace", "--no-deps", "--all-features", "--locked"]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        outcome(succeeds(command))
    });
    print(&steps);
    !steps.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed))
}

/// Formats, and applies what clippy can fix by itself.
pub(crate) fn fix() -> bool {
    let clippy =
        ["clippy", "--fix", "--workspace", "--all-targets", "--allow-dirty", "--allow-staged", "--locked"];
    succeeds(cargo(&clippy)) & succeeds(cargo(&["fmt", "--all"]))
}

fn passed(args: &[&str]) -> Outcome {
    outcome(succeeds(cargo(args)))
}

fn outcome(ok: bool) -> Outcome {
    if ok { Outcome::Passed } else { Outcome::Failed }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the table shows how long each step took; nothing depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

fn print(steps: &[(&str, Outcome, Duration)]) {
    println!();
    for (name, outcome, took) in steps {
        let outcome = match outcome {
            Outcome::Passed => "ok".to_string(),
            Outcome::Failed => "FAILED".to_string(),
            Outcome::Skipped(why) => format!("skipped: {why}"),
        };
        println!("{name:<14} {:>7.1} s  {outcome}", took.as_secs_f64());
    }
}
